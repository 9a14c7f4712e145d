"""Mechanics: models, their equations of motion, compiled kernels, integrators.

The public words are loaded on first use: a process that finds its kernels in the cache never imports sympy.
"""

from typing import Any

_WORDS = (
    "Model",
    "ModelError",
    "body",
    "condition",
    "constraint",
    "coordinate",
    "input_",
    "output",
    "parameter",
    "time",
    "vector",
    "velocity",
)
__all__ = [*_WORDS, "wrap"]


def __getattr__(name: str) -> Any:
    if name in _WORDS:
        from servonode.mechanics import model

        return getattr(model, name)
    if name == "wrap":
        from servonode.mechanics.functions import wrap

        return wrap
    raise AttributeError(f"module 'servonode.mechanics' has no attribute {name!r}")
