"""The hoop and its profile from the side, as a whole and close up."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.plants.hoop.profile import Profile, read
from servonode.plants.view import Points, Values, View, circle, signed


def _hoop(values: Values, parameters: Values) -> list[Points]:
    """The hoop about its centre, with a spoke and its contact point, a dot."""
    r, spoke = parameters["r"], values["theta"]
    rim = r * np.array([np.cos(spoke), np.sin(spoke)])
    return [circle(np.zeros(2), r), np.array([0 * rim, rim]), _foot(values, parameters)[None]]


def _foot(values: Values, parameters: Values) -> Points:
    """The contact point, seen from the centre."""
    return parameters["r"] * np.array([np.cos(values["alpha"]), np.sin(values["alpha"])])


def _centre(values: Values) -> Points:
    return np.array([values["x"], values["z"]])


def _curve(profile: Profile, values: Values, half: float) -> Points:
    """The profile for about `half` [m] to both sides of the contact point, as far as it goes."""
    sides, across = [], half / np.hypot(1.0, values["slope"])
    for end in (-across, across):
        q = values["x_a"] + np.linspace(0.0, end, POINTS)
        z = profile.along(q, values["z_a"])
        known = int(np.argmin(np.append(np.isfinite(z), False)))
        sides.append(np.column_stack([q, z])[:known])
    return np.vstack([sides[0][::-1], sides[1]])


def VIEW(settings: Mapping[str, Any]) -> tuple[View, ...]:
    """From the side as a whole, and close up with the centre held."""
    profile = read(str(settings["profile"]))

    def outline(values: Values, parameters: Values) -> list[Points]:
        return [line + _centre(values) for line in _hoop(values, parameters)]

    def guides(values: Values, parameters: Values) -> list[Points]:
        return [_curve(profile, values, WIDE * parameters["r"])]

    def force(values: Values, parameters: Values) -> dict[str, tuple[Points, Points]]:
        return {REACTION: (_centre(values) + _foot(values, parameters), np.array([values["R_x"], values["R_z"]]))}

    def frames(values: Values, _parameters: Values) -> dict[str, tuple[float, float, float]]:
        return {"hoop": (values["x"], values["z"], values["theta"])}

    def near_guides(values: Values, parameters: Values) -> list[Points]:
        line = _curve(profile, values, CLOSE * parameters["r"]) - _centre(values)
        near = line[np.hypot(*line.T) < 2 * CLOSE * parameters["r"]]  # none of it where the hoop has left it
        return [near] if len(near) else []

    def near_force(values: Values, parameters: Values) -> dict[str, tuple[Points, Points]]:
        return {REACTION: (_foot(values, parameters), np.array([values["R_x"], values["R_z"]]))}

    def caption(values: Values, _parameters: Values) -> str:
        s = values["z_dot"] * np.cos(values["alpha"]) - values["x_dot"] * np.sin(values["alpha"])
        return f"{signed(float(s), 2)} m/s"

    return (
        View(
            outline,
            title="from the side",
            trails={"centre": ("x", "z"), "contact": ("x_a", "z_a")},
            axes=("x [m]", "z [m]"),
            guides=guides,
            arrows=force,
            frames=frames,
        ),
        View(
            _hoop,
            title="close up, with the speed of the centre",
            axes=("", "height [m]"),
            guides=near_guides,
            arrows=near_force,
            strip=True,
            caption=caption,
        ),
    )


REACTION = "force of the profile"
WIDE, CLOSE, POINTS = 6.0, 1.6, 41  # half widths of the profile that is drawn, in radii; points on each side
