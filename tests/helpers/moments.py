"""Recordings and rows of which moments are made."""

from pathlib import Path

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.record.bag import Bag, read_bag
from tests.helpers.runs import START_S, private_runs


def row_of(closed_loop: ClosedLoop, x: Array | None = None, u: float = 0.0, t: float = 0.0) -> dict[str, float]:
    """The row of a state, by default the start, with the same value for all inputs."""
    described = closed_loop.machine.description
    states = dict(zip(described.state_names, (closed_loop.start if x is None else x).tolist(), strict=False))
    return {"t": t, **states, **dict.fromkeys(described.input_names, u)}


def near_start(closed_loop: ClosedLoop, rng: np.random.Generator) -> Array:
    """A state near the start that its constraints allow, as far as projection brings it there."""
    x = closed_loop.start.copy()
    x[:-1] += 0.1 * rng.standard_normal(len(x) - 1)
    return closed_loop.machine.projected(0.0, x)


def recording(folder: Path, launch: str, *settings: str) -> Bag:
    """The recording of a run that completed."""
    file = folder / "run.mcap"
    with private_runs(folder) as runs:
        runs.start(launch, *settings, words=("--record", str(file))).ends_with(0, START_S)
    return read_bag(file)
