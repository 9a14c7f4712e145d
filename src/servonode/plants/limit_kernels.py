"""The limits of the inputs' value, rate and power as a compiled function, `kernels/lib/limits.py`."""

import functools
from typing import Annotated, Any

from servonode.arrays import Array
from servonode.definitions import cache
from servonode.kernels.library import library_text
from servonode.mechanics.signatures import Whole

LIMITS = ("VALUE", "RATE")  # rows of the limits
Bounds = Annotated[Array, len(LIMITS), "n_tau"]
Counts = Annotated[Whole, "n_counts"]


@functools.cache
def limits_of(n_tau: int) -> Any:
    """The compiled limits of so many inputs. n_counts: one for each input's value and rate, one for power, one for all.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    source = library_text("limits", {}, {"n_tau": n_tau, "bounded": len(LIMITS), "n_counts": 2 * n_tau + 2})
    return cache.load(cache.key_of("limits", source), lambda: (source, b"{}"))[0]
