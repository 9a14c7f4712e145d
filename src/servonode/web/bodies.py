"""The bodies of a robot's file for the page: their triangles, which it is told once, and where they are at an instant.

What is not drawn is told in a few words, since the file may come from anywhere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.views.frames import Frames, placed_solids
from servonode.web.view_data import decimals

DIGITS = 6  # decimal places of a pose
LETTERS = 200  # of the note at most


class Bodies:
    """The bodies that a robot's file gives shapes; none of a machine that has no such file.

    layout: {"bodies": [{"points": [x, y, z, x, ...], "triangles": [three numbers of points, ...]}, ...], "unseen":
    what is not drawn}.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self._frames = Frames(closed_loop)
        drawn, lines = placed_solids(closed_loop, self._frames)
        names = self._frames.names
        self._rows = [names.index(frame) if frame in names else -1 for frame, _ in drawn]
        self.layout = {
            "bodies": [
                {"points": _rounded(each.points), "triangles": each.triangles.ravel().tolist()} for _, each in drawn
            ],
            "unseen": _in_short(lines),
        }

    def poses(self, values: Mapping[str, float]) -> list[list[float]]:
        """Of each body the place (x, y, z) and the rotation, row by row, by the values of the states."""
        if not self._rows:
            return []
        at = np.concatenate([self._frames.poses(0.0, values), np.eye(3, 4)[None]])[self._rows]
        found: list[list[float]] = np.round(np.hstack([at[:, :, 3], at[:, :, :3].reshape(-1, 9)]), DIGITS).tolist()
        return found


def _rounded(points: Any) -> list[float]:
    found: list[float] = np.round(points, decimals(float(np.ptp(points)))).ravel().tolist()
    return found


def _in_short(lines: Sequence[str]) -> str:
    """The first of the lines, and how many more there are."""
    text = lines[0][:LETTERS] if lines else ""
    return f"{text} ({len(lines) - 1} more)" if len(lines) > 1 else text
