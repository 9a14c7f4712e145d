"""Rounding and clipping of a number."""

from servonode.kernels.lib.names import *


def rounded(value: float, quantum: float) -> float:
    """The value in whole steps of a quantum; as it is where that is 0, or below what a double resolves."""
    steps = rint(value / quantum) if quantum > 0.0 else 0.0
    return steps * quantum if quantum > 0.0 and fabs(steps) < 9007199254740992.0 else value


def clipped(value: float, most: float) -> float:
    """The value, or where it is larger than `most` that, with its sign; what is no number stays."""
    within = not fabs(value) > most
    return value if within else most if value > 0.0 else -most
