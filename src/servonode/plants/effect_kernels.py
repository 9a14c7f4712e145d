"""The effects of drives and sensors as compiled functions, of `kernels/lib`.

All their numbers are arguments, so one kernel serves all launch files of machines with as many inputs or states.
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
def drives_of(n_tau: int) -> Any:
    """The compiled drives of so many inputs.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    return _loaded("drives", drive_rows=len(DRIVE), n_tau=n_tau)


@functools.cache
def readings_of(n_state: int) -> Any:
    """The compiled sensors of so many states.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    sizes = {"error_rows": len(ERRORS), "believed_rows": len(BELIEVED), "one": 1}
    return _loaded("readings", n_x=n_state + 1, n_state=n_state, **sizes)


def _loaded(name: str, **sizes: int) -> Any:
    rounding = library_text("rounding", {}, {})
    shared = cache.load(cache.key_of("rounding", rounding), lambda: (rounding, b"{}"))[0]
    source = library_text(name, {"rounding": shared.__name__}, sizes)
    return cache.load(cache.key_of(name, source), lambda: (source, b"{}"))[0]
