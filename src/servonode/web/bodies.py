"""The bodies of a robot's file for the page: their triangles, which it is told once, and where they are at an instant.

What is not drawn is told in a few words, since the file may come from anywhere.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.skeleton import poses
from servonode.robots.robot import identifier
from servonode.web.view_data import decimals

DIGITS = 6  # decimal places of a pose
LETTERS = 200  # of the note at most
GROUND = "world"  # MuJoCo's name


class Bodies:
    """The bodies that a robot's file gives shapes; none of a machine that has no such file.

    layout: {"bodies": [{"points": [x, y, z, x, ...], "triangles": [three numbers of points, ...]}, ...], "unseen":
    what is not drawn}.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self._machine, skeleton = closed_loop.machine, closed_loop.machine.description.skeleton
        names = skeleton.names if skeleton else ()
        found, lines = closed_loop.source.solids()
        drawn = [(each, _pose_of(each.body, names)) for each in found]
        drawn = [(each, name) for each, name in drawn if name in names or name == GROUND]
        self._rows = [names.index(name) if name in names else -1 for _, name in drawn]
        self.layout = {
            "bodies": [
                {"points": _rounded(each.points), "triangles": each.triangles.ravel().tolist()} for each, _ in drawn
            ],
            "unseen": _in_short(lines),
        }

    def poses(self, values: Mapping[str, float]) -> list[list[float]]:
        """Of each body the place (x, y, z) and the rotation, row by row, by the values of the states."""
        if not self._rows:
            return []
        ground = np.array([[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1.0]])
        at = np.concatenate([poses(self._machine, values)[:, :12], ground])
        found: list[list[float]] = np.round(at[self._rows], DIGITS).tolist()
        return found


def _pose_of(body: str, names: Collection[str]) -> str:
    """The link or frame that has the axes of a file's body: a link has its origin where its joint acts."""
    name = identifier(body)
    return f"{name}_origin" if f"{name}_origin" in names else name


def _rounded(points: Any) -> list[float]:
    found: list[float] = np.round(points, decimals(float(np.ptp(points)))).ravel().tolist()
    return found


def _in_short(lines: Sequence[str]) -> str:
    """The first of the lines, and how many more there are."""
    text = lines[0][:LETTERS] if lines else ""
    return f"{text} ({len(lines) - 1} more)" if len(lines) > 1 else text
