"""The effects of drives and sensors as compiled functions, `kernels/lib/effects.py`.

All their numbers are arguments, so one kernel serves all launch files of machines with as many states and inputs.
"""

import functools
from typing import Annotated, Any

from servonode.arrays import Array
from servonode.definitions import cache
from servonode.kernels.library import library_text

DRIVE = ("LIMIT", "CHANGE", "BLEND", "QUANTUM", "DEAD_ZONE")  # rows of the drives' numbers
ERRORS = ("BIAS", "STEP")  # rows of the sensors'
BELIEVED = ("MOST", "FASTEST")  # rows of what a plausible reading keeps
Drive = Annotated[Array, len(DRIVE), "n_tau"]
Errors = Annotated[Array, len(ERRORS), "n_state"]
Believed = Annotated[Array, len(BELIEVED), "n_state"]


@functools.cache
def effects_of(n_state: int, n_tau: int) -> Any:
    """The compiled effects of machines with as many states and inputs.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    rows = {"drive_rows": len(DRIVE), "error_rows": len(ERRORS), "believed_rows": len(BELIEVED)}
    sizes = {"n_x": n_state + 1, "n_state": n_state, "n_tau": n_tau, "one": 1} | rows
    source = library_text("effects", {}, sizes)
    return cache.load(cache.key_of("effects", source), lambda: (source, b"{}"))[0]
