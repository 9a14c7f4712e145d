"""Mechanics: models, their equations of motion, compiled kernels, integrators.

The public functions are loaded on first use: a process that finds its kernels in the cache never imports sympy.
"""

from typing import TYPE_CHECKING, Any

from servonode.errors import did_you_mean

if TYPE_CHECKING:
    from servonode.errors import ModelError
    from servonode.mechanics.drawing import arrow, circle, dot, line, magnification, polygon, pose, trail, view
    from servonode.mechanics.frames import angle_between, distance, rotation_error
    from servonode.mechanics.functions import wrap
    from servonode.mechanics.join import together
    from servonode.mechanics.links import ball, frame, hinge, link, slide
    from servonode.mechanics.model import Model
    from servonode.mechanics.sensors import sensor
    from servonode.mechanics.symbols import (
        before,
        body,
        condition,
        constraint,
        coordinate,
        derivative,
        first_order,
        input_,
        jump,
        output,
        parameter,
        reaction,
        stabilised,
        t,
        time,
        vector,
        velocity,
    )
    from servonode.mechanics.trees import tree

__all__ = [
    "Model",
    "ModelError",
    "angle_between",
    "arrow",
    "ball",
    "before",
    "body",
    "circle",
    "condition",
    "constraint",
    "coordinate",
    "derivative",
    "distance",
    "dot",
    "first_order",
    "frame",
    "hinge",
    "input_",
    "jump",
    "line",
    "link",
    "magnification",
    "output",
    "parameter",
    "polygon",
    "pose",
    "reaction",
    "rotation_error",
    "sensor",
    "slide",
    "stabilised",
    "t",
    "time",
    "together",
    "trail",
    "tree",
    "vector",
    "velocity",
    "view",
    "wrap",
]
_ELSEWHERE = {"Model": "model", "sensor": "sensors", "together": "join", "wrap": "functions"}
_ELSEWHERE |= dict.fromkeys(
    ("arrow", "circle", "dot", "line", "magnification", "polygon", "pose", "trail", "view"), "drawing"
)
_ELSEWHERE |= dict.fromkeys(("angle_between", "distance", "rotation_error"), "frames")
_ELSEWHERE |= dict.fromkeys(("ball", "frame", "hinge", "link", "slide"), "links") | {"tree": "trees"}  # others: symbols


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in __all__:
        return getattr(import_module(f"servonode.mechanics.{_ELSEWHERE.get(name, 'symbols')}"), name)
    near = "" if name.startswith("_") else did_you_mean(name, __all__)
    raise AttributeError(f"module 'servonode.mechanics' has no attribute {name!r}{near and '; ' + near.rstrip()}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
