"""The path that a program asks of the sphero."""

import numpy as np

from servonode.plants.view import Points, View, Wanted, line_or_circle


def wanted(asked: Wanted) -> dict[str, Points]:
    """The line or circle on which the programs of these names keep the centre."""
    if asked.program not in ("line", "circle"):
        return {}
    along = [asked.settings.get(f"direction_{i}", 0.0) for i in range(2)]
    return line_or_circle(asked, asked.program, float(np.arctan2(along[1], along[0])))


VIEW = View(paths=wanted)
