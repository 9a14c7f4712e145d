"""Texts of kernels that are the same for all machines, in the kernel language; `kernels.library` reads them.

No module imports them: they are Python for the formatter, type checkers and readers alone. What they import from here
is given when they are read: `names` by the language, `given` by the kernels of a machine and a law.
"""
