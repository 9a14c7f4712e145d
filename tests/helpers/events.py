"""Waiting in this process for what will happen: bounded by a minute, so that only what never comes fails a test."""

import time
from collections.abc import Callable
from typing import Any

LONG_S = 60.0


def eventually(holds: Callable[[], Any], within_s: float = LONG_S) -> bool:
    """Whether it holds before the time is over."""
    limit = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > limit:
            return bool(holds())
        time.sleep(0.002)
    return True


def soon(seconds: float = LONG_S) -> int:
    """The time [ns] of the monotonic clock in so many seconds."""
    return time.monotonic_ns() + round(seconds * 1e9)
