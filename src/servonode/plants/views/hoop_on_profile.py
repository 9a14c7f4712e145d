"""The profile about the hoop, which is found by numbers: as a whole, and close up."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.plants.hoop.profile import Profile, read
from servonode.plants.view import Points, Values, View

WIDE, CLOSE, POINTS = 6.0, 1.6, 41  # half widths of the profile that is drawn, in radii; points on each side


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

    def wide(values: Values, parameters: Values) -> list[Points]:
        return [_curve(profile, values, WIDE * parameters["r"])]

    def close(values: Values, parameters: Values) -> list[Points]:
        half = CLOSE * parameters["r"]
        line = _curve(profile, values, half) - [values["x"], values["z"]]
        near = line[np.hypot(*line.T) < 2 * half]  # none of it where the hoop has left it
        return [near] if len(near) else []

    return View(guides=wide), View(guides=close)
