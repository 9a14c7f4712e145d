"""Arms as kinematic trees, and launch files for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.mechanics import Model, coordinate, frame, hinge, input_, link, tree

LENGTHS, MASSES, CENTRES = (0.5, 0.4, 0.3), (1.0, 0.8, 0.5), (0.25, 0.2, 0.15)
SPATIAL = {  # axes and places of the joints of a six- and a seven-joint arm
    6: ("zyyxyx", (0.3, 0, 0), (0, 0, 0.45), (0.1, 0, 0), (0.3, 0, 0), (0.05, 0, 0)),
    7: ("zyzyxyx", (0.3, 0, 0), (0, 0, 0.2), (0, 0, 0.25), (0.1, 0, 0), (0.3, 0, 0), (0.05, 0, 0)),
}
AXES = {"x": (1, 0, 0), "y": (0, 1, 0), "-y": (0, -1, 0), "z": (0, 0, 1)}


def planar(joints: int) -> Model:
    """An arm in the plane of x and z, its angles from x towards z, each from the link before."""
    places = [(0, 0, 0), *((length, 0, 0) for length in LENGTHS)]
    centres = [(each, 0, 0) for each in CENTRES]
    return _serial("planar", ["-y"] * joints, places[: joints + 1], MASSES[:joints], centres[:joints])


def wrist() -> Model:
    """Three joints that turn a tool to any orientation."""
    return _serial("wrist", list("zyx"), [(0, 0, 0)] * 3 + [(0.1, 0, 0)], (0.5,) * 3, [(0.02, 0.01, 0.0)] * 3)


def spatial(joints: int) -> Model:
    """An arm of six or seven joints; the last three have crossing axes but for 5 cm."""
    axes, *places = SPATIAL[joints]
    masses = [5 - 0.6 * i for i in range(joints)]
    centres = [(0.02, 0.01, 0.1) if i < 3 else (0.1, 0.01, 0.0) for i in range(joints)]
    return _serial("spatial", list(axes), [(0, 0, 0), *places, (0.1, 0, 0)], masses, centres)


def six() -> Model:
    return spatial(6)


def seven() -> Model:
    return spatial(7)


def two() -> Model:
    return planar(2)


def three() -> Model:
    return planar(3)


def _serial(name: str, axes: Any, places: Any, masses: Any, centres: Any) -> Model:
    q = [coordinate(f"q{i}", "angle", "rad") for i in range(1, len(axes) + 1)]
    U = [input_(f"U{i}", "torque", "N m") for i in range(1, len(axes) + 1)]
    links = [
        link(f"link{i}", f"link{i - 1}" if i > 1 else "", position=place, joints=(hinge(angle, AXES[axis]),),
             mass=mass, centre=centre, inertia=np.diag([0.02, 0.03, 0.025]))
        for i, (angle, axis, place, mass, centre) in enumerate(zip(q, axes, places, masses, centres, strict=False), 1)
    ]  # fmt: skip
    made = tree(links, frames=(frame("tool", links[-1].name, places[-1]),))
    inputs = {u: angle.rate for u, angle in zip(U, q, strict=True)}
    return Model(name=name, description="an arm", coordinates=q, tree=made, inputs=inputs)


def launch(machine: Any, start: Mapping[str, float], controller: Mapping[str, Any], duration: float = 2.0) -> Any:
    """A launch file of an arm."""
    plant = {"machine": machine, "initial": dict(start), "step": 0.001}
    return {"run": {"duration": duration}, "plant": plant, "controller": {"period": 0.002, **controller}}
