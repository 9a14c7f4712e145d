"""The limits of inputs, and the effects of drives and sensors, as compiled functions, of `kernels/lib`.

All their numbers are arguments, so one kernel serves all launch files of machines with as many inputs or states.
"""

import functools
from typing import Any

from servonode.definitions import cache
from servonode.kernels.library import library_text, numbers_of


@functools.cache
def limits_of(n_tau: int) -> Any:
    """The compiled limits of so many inputs. n_counts: one for each input's value and rate, one for power, one for all.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    return _loaded("limits", 0, n_tau, slewed=1, powered=1)


@functools.cache
def drives_of(n_tau: int) -> Any:
    """The compiled drives of so many inputs.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    return _loaded("drives", 0, n_tau)


@functools.cache
def readings_of(n_state: int) -> Any:
    """The compiled sensors of so many states.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    return _loaded("readings", n_state, 0)


def effect_sizes(n_state: int, n_tau: int) -> dict[str, int]:
    """The sizes of the arrays of limits, drives and sensors, and those of which they are made."""
    sizes = {"n_tau": n_tau, "n_counts": 2 * n_tau + 2, "n_state": n_state, "n_x": n_state + 1, "one": 1}
    return sizes | {"bounded": 2, "drive_rows": len(numbers_of("drives")), "error_rows": 2, "believed_rows": 2}


def load_effects(n_state: int, n_tau: int) -> dict[str, str]:
    """Load what guard and simulated plant call, before any node may be armed; their keys. Raises CacheError."""
    loaded = {"limits": limits_of(n_tau), "drives": drives_of(n_tau), "readings": readings_of(n_state)} if n_tau else {}
    return {name: kernel.__name__ for name, kernel in loaded.items()}


def _loaded(name: str, n_state: int, n_tau: int, **flags: int) -> Any:
    shared = _kernel("rounding", {}, {}).__name__
    return _kernel(name, {"rounding": shared}, effect_sizes(n_state, n_tau) | flags)


def _kernel(name: str, kernels: dict[str, str], sizes: dict[str, int]) -> Any:
    source = library_text(name, kernels, sizes)
    return cache.load(cache.key_of(name, source), lambda: (source, b"{}"))[0]
