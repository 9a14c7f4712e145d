"""The inputs nearest to those of a law that keep rows A tau >= b and limits: strictly by levels, least squares in each.

Each level is a strictly convex problem in the directions that the levels before leave free, solved by the dual active
set method of Goldfarb and Idnani (1983). Its factor comes from reflections of the goals, so no condition is squared.
What a level does not see is weighted with 1e-10 of the least that it sees, and one step then takes the effect of that
weight on the level away. Matrices of directions have one in each row.
"""

from servonode.kernels.lib.names import *

KEPT_AS_IT_WAS = 0  # what `nearest` returns
ACTS = 1
GIVES_WAY = 2
CLIPPED = 3

MOST = 100  # iterations for each row and input, all together; 72 is the most that 30 inputs with 40 rows took
