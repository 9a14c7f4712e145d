"""What of a moment is drawn in space beside frames and solids, for tools that have no pictures of their own."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from servonode.arrays import Array
from servonode.neighbours.moments import Moment

LONGEST = 0.5  # of the longest arrow so far to the extent of the machine's lines
DOT = 0.02  # of the radius of a dot to that extent
SHORTEST = 1e-3  # of an arrow to the longest so far, below which it is not drawn


@dataclass(frozen=True)
class Scene:
    """Polylines (n, 3) and dots (3,) of a machine, arrows by name as foot and vector (3,), radius of a dot [m]."""

    lines: list[Array]
    dots: list[Array]
    arrows: dict[str, tuple[Array, Array]]
    radius: float

    @classmethod
    def of(cls, moment: Moment, largest: dict[str, float]) -> Self:
        """The scene of a moment. largest: the longest arrow of each unit so far, which this keeps."""
        known = [line for line in moment.lines if np.isfinite(line).all()]
        extent = float(np.ptp(np.concatenate(known), axis=0).max()) if known else 0.0
        size = extent or 1.0
        arrows = {}
        for name, arrow in moment.arrows.items():
            length = float(np.linalg.norm(arrow.vector))
            if not np.isfinite(length):
                continue
            most = largest[arrow.unit] = max(length, largest.get(arrow.unit, 0.0))
            if length > SHORTEST * most:
                arrows[name] = arrow.foot, LONGEST * size / most * arrow.vector
        dots = [line[0] for line in known if len(line) == 1]
        return cls([line for line in known if len(line) > 1], dots, arrows, DOT * size)
