"""The limits of inputs, and the effects of drives and sensors, as compiled functions, of `kernels/lib`.

All their numbers are arguments, so one kernel serves all launch files of machines with as many inputs or states.
"""

import functools
from typing import Annotated, Any

from servonode.arrays import Array
from servonode.definitions import cache
from servonode.kernels.library import library_text
from servonode.mechanics.signatures import Whole

DRIVE = ("LIMIT", "CHANGE", "BLEND", "QUANTUM", "DEAD_ZONE")  # rows of the drives' numbers
ERRORS = ("BIAS", "STEP")  # rows of the sensors'
BELIEVED = ("MOST", "FASTEST")  # rows of what a plausible reading keeps
LIMITS = ("VALUE", "RATE")  # rows of the limits
Bounds = Annotated[Array, len(LIMITS), "n_tau"]
Counts = Annotated[Whole, "n_counts"]
Drive = Annotated[Array, len(DRIVE), "n_tau"]
Errors = Annotated[Array, len(ERRORS), "n_state"]
Believed = Annotated[Array, len(BELIEVED), "n_state"]


@functools.cache
def limits_of(n_tau: int) -> Any:
    """The compiled limits of so many inputs. n_counts: one for each input's value and rate, one for power, one for all.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    return _loaded("limits", n_tau=n_tau, bounded=len(LIMITS), n_counts=2 * n_tau + 2)


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


def load_effects(n_state: int, n_tau: int) -> None:
    """Load what guard and simulated plant of a machine call, before any node may be armed; raises CacheError."""
    for load, n in ((limits_of, n_tau), (drives_of, n_tau), (readings_of, n_state)):
        if n_tau:
            load(n)


def _loaded(name: str, **sizes: int) -> Any:
    shared = _kernel("rounding", {}, {}).__name__
    return _kernel(name, {"rounding": shared}, sizes)


def _kernel(name: str, kernels: dict[str, str], sizes: dict[str, int]) -> Any:
    source = library_text(name, kernels, sizes)
    return cache.load(cache.key_of(name, source), lambda: (source, b"{}"))[0]
