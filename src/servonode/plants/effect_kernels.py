"""The limits of inputs, and the effects of drives and sensors, as compiled functions, of `kernels/lib`.

All their numbers are arguments, so one kernel serves all launch files of machines with as many inputs or states.
"""

import functools
from typing import Any

from servonode.definitions import cache
from servonode.kernels.library import library_text, numbers_of


@functools.cache
def effect_kernel(name: str, n: int) -> Any:
    """The compiled `limits` or `drives` of n inputs, or `readings` of n states.

    Limits count for each input's value and rate, for power, and for all.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    sizes = effect_sizes(n, 0) if name == "readings" else effect_sizes(0, n)
    flags = {"slewed": 1, "powered": 1} if name == "limits" else {}
    return _kernel(name, {"rounding": _kernel("rounding", {}, {}).__name__}, sizes | flags)


def effect_sizes(n_state: int, n_tau: int) -> dict[str, int]:
    """The sizes of the arrays of limits, drives and sensors, and those of which they are made."""
    sizes = {"n_tau": n_tau, "n_counts": 2 * n_tau + 2, "n_state": n_state, "n_x": n_state + 1, "one": 1}
    return sizes | {"bounded": 2, "drive_rows": len(numbers_of("drives")), "error_rows": 2, "believed_rows": 2}


def load_effects(n_state: int, n_tau: int) -> dict[str, str]:
    """Load what guard and simulated plant call, before any node may be armed; their keys. Raises CacheError."""
    names = ("limits", "drives", "readings") if n_tau else ()
    return {name: effect_kernel(name, n_state if name == "readings" else n_tau).__name__ for name in names}


def _kernel(name: str, kernels: dict[str, str], sizes: dict[str, int]) -> Any:
    source = library_text(name, kernels, sizes)
    return cache.load(cache.key_of(name, source), lambda: (source, b"{}"))[0]
