"""The frames of a machine: links and frames of its tree, else those that its view states; shapes that stand in them."""

from collections.abc import Mapping

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.machine_files import Solid
from servonode.plants.skeleton import poses
from servonode.views.shapes import Instant

GROUND = "world"  # MuJoCo's name, and that of many
ORIGIN = "_origin"  # ends the name of the frame that has the axes of a file's body
STATES, SEED, STILL = 8, 1, 1e-9  # random states by which it is found what travels; m


class Frames:
    """The frames of a machine below the ground's. names: those of the tree, or of the view.

    A body of a robot's file has the axes of the file: a link has its origin where its joint acts.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self._closed_loop, self._machine = closed_loop, closed_loop.machine
        skeleton = self._machine.description.skeleton
        self._view = next((each for each in closed_loop.views if each.frames), None)
        if self._view:
            self.names = tuple(self._view_poses(0.0, self._start))
        else:
            stated = skeleton.names if skeleton else ()
            self._rows = [i for i, name in enumerate(stated) if f"{name}{ORIGIN}" not in stated]
            plain = [stated[i].removesuffix(ORIGIN) for i in self._rows]
            self.names = tuple(name if name in stated else stated[i] for i, name in zip(self._rows, plain, strict=True))

    @property
    def _start(self) -> dict[str, float]:
        machine, x = self._machine, self._closed_loop.start
        values = dict(zip(machine.description.state_names, map(float, x), strict=False))
        inputs = dict.fromkeys(machine.description.input_names, 0.0)
        return values | inputs | machine.outputs(0.0, x, np.zeros(machine.n_inputs))

    def poses(self, t: float, values: Mapping[str, float]) -> Array:
        """Rotation and place (n, 3, 4) of each, by the values of states, inputs and outputs at a time [s]."""
        if self._view:
            found = self._view_poses(t, values)
            return np.array([found[name] for name in self.names]).reshape(-1, 3, 4)
        if not self._rows:
            return np.zeros((0, 3, 4))
        at = poses(self._machine, values)[self._rows]
        return np.concatenate([at[:, 3:12].reshape(-1, 3, 3), at[:, :3, None]], axis=2)

    def _view_poses(self, t: float, values: Mapping[str, float]) -> dict[str, Array]:
        assert self._view is not None
        return Instant.of(self._closed_loop.source, self._machine, t, values).given(self._view.poses)

    @property
    def travels(self) -> bool:
        """Whether the first of them moves over the ground."""
        if self._view or not self.names:
            return bool(self.names)
        rng, names = np.random.default_rng(SEED), self._machine.description.state_names
        states = (dict(zip(names, rng.uniform(-1, 1, len(names)).tolist(), strict=True)) for _ in range(STATES))
        places = np.array([self.poses(0.0, each)[0, :2, 3] for each in states])
        return bool((np.ptp(places, axis=0) > STILL).all())


def placed_solids(closed_loop: ClosedLoop, frames: Frames) -> tuple[list[Solid], tuple[str, ...]]:
    """What is seen of the machine's bodies that have a frame or stand on the ground; a line for what is not."""
    found = closed_loop.source.solids()
    return [each for each in found.solids if each.frame in (*frames.names, GROUND)], found.left_out
