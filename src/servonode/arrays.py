"""The type of arrays of floating-point numbers. Imports nothing of the package, so that every room may have it."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
ANY = "any"  # in the shape of an argument: a first length that the function does not need
