"""The colours of all pictures: each has one meaning, and they differ in grey and for every kind of colour vision.

Curves are blue, orange, purple and light blue, in this order; what is wanted is red and dashed; forces are green,
pink and brown; the machine itself is dark.
"""

INK = "#1b2733"  # outlines and words
BODY = "#dbe3ea"  # what closed outlines hold
GUIDE = "#a9b4be"  # floors and other thin lines
GOAL = "#c1272d"  # what is wanted: a target, a path
PALETTE = ("#0072b2", "#e69f00", "#5b2a86", "#56b4e9")  # of the curves of one axis, paths of a plane
ARROWS = ("#009e73", "#cc79a7", "#7f4f24")  # of forces and moments
SOURCES = (*PALETTE, *ARROWS, INK)  # of the runs of a comparison
SUCCEEDED = "#cfe2f0"  # where a run reaches its goal
FAILED = ("#e69f00", "#5b2a86", "#009e73", "#cc79a7", "#7f4f24", "#56707f", GUIDE)  # why others do not
FORBIDDEN = "#cfd6dc"  # where what is kept would be below 0
EDGE = "#8a97a3"  # of it in a view
SHADE = "#eef1f4"  # the time in which a machine is beyond what its model describes
FAULT = "#c1272d"  # words about a fault
WARNING = "#8a5200"  # words about a warning
