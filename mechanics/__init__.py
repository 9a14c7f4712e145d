"""Mechanics: models, their equations of motion, compiled kernels, integrators.

The public functions are loaded on first use: a process that finds its kernels in the cache never imports sympy.
"""

from typing import Any

_SYMBOLS = (
    "ModelError",
    "before",
    "body",
    "condition",
    "constraint",
    "coordinate",
    "derivative",
    "input_",
    "jump",
    "output",
    "parameter",
    "reaction",
    "stabilised",
    "time",
    "vector",
    "velocity",
)
__all__ = ["Model", *_SYMBOLS, "sensor", "wrap"]


def __getattr__(name: str) -> Any:
    if name == "Model":
        from servonode.mechanics.model import Model

        return Model
    if name in _SYMBOLS:
        from servonode.mechanics import symbols

        return getattr(symbols, name)
    if name == "sensor":
        from servonode.mechanics.sensors import sensor

        return sensor
    if name == "wrap":
        from servonode.mechanics.functions import wrap

        return wrap
    raise AttributeError(f"module 'servonode.mechanics' has no attribute {name!r}")
