"""Pictures of an episode, drawn as its machine's views draw a run."""

from typing import Any, cast

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.drawn import path_columns, path_values
from servonode.views.animation import Animation
from servonode.views.sheet import STYLE

SIZE, DPI = (4.8, 3.6), 100  # in, pixels per in
PANELS = 4  # states that are drawn of a machine without views


class Pictures:
    """The picture of an episode as far as it has come; rows are kept for its trails."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self._closed_loop, self._animation = closed_loop, cast("Animation | None", None)
        self._rows: list[tuple[float, Array, Array, Array]] = []
        self._columns: list[list[float]] = []

    def __deepcopy__(self, _: Any) -> "Pictures":
        """A copy with a figure of its own."""
        made = Pictures(self._closed_loop)
        made._rows = list(self._rows)
        return made

    def begin(self) -> None:
        """Drop what was kept: another episode begins."""
        self._rows, self._columns = [], []

    def keep(self, t: float, x: Array, u: Array, goals: Array) -> None:
        """Keep an instant: time, kernel state, inputs, goals."""
        self._rows.append((t, x.copy(), u.copy(), goals.copy()))

    def frame(self) -> Array:
        """The picture now, (height, width, 3) of uint8."""
        import matplotlib as mpl

        with mpl.rc_context(STYLE):
            if self._animation is None:
                self._animation = self._made()
            picture, t = self._animation, np.array([row[0] for row in self._rows])
            picture.title(f"t = {t[-1]:.2f} s")
            picture.show(t, self._known(t))
            return np.asarray(picture.figure.canvas.buffer_rgba())[..., :3].copy()

    def _made(self) -> Any:
        from matplotlib.figure import Figure

        loop = self._closed_loop
        names = loop.machine.description.state_names[:PANELS]
        shown: dict[str, Any] = {"views": loop.views} if loop.views else {"fields": names}
        return Animation(Figure(figsize=SIZE, dpi=DPI), loop, **shown)

    def _known(self, t: Array) -> dict[str, Array]:
        """The columns that views draw, by name."""
        loop = self._closed_loop
        machine, goals = loop.machine, loop.targets
        for at, x, u, _ in self._rows[len(self._columns) :]:
            self._columns.append(list(machine.outputs(at, x, u).values()))
        x, u, y = (np.array([row[i] for row in self._rows]) for i in (1, 2, 3))
        described = machine.description
        found = dict(zip(described.state_names, x.T, strict=False)) | dict(zip(described.input_names, u.T, strict=True))
        outputs = (each.name for each in described.outputs)
        found |= dict(zip(outputs, np.array(self._columns).reshape(len(t), -1).T, strict=False))
        found |= {f"target_{name}": y[:, goals.entries.index(name)] for name in goals.names}
        return found | dict(
            zip(path_columns(machine, loop.traced), path_values(machine, loop.traced, t, x).T, strict=True)
        )
