"""Rows and states of which moments are made."""

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop


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
