"""The sampled closed loop of a program that states its inputs, linearised: the eigenvalues of one control period.

A law with residuals has its limits in closed form (mechanics/README.md, eq. 9); of feedback that a user states only the
period itself tells whether it is slow enough for the period and the delay.
"""

import math
from collections.abc import Sequence

import numpy as np

from servonode.analysis.internal_motion import Linearised
from servonode.arrays import Array
from servonode.closed_loop.static_checks import Examination
from servonode.simulation.continuous_loop import ContinuousLoop
from servonode.simulation.equations_source import SIDE

GROWS = 1e-4  # above 1 by which an eigenvalue of a period must be to count as growing


def judge_sampling(loop: ContinuousLoop, at: Linearised, passive: Sequence[str], found: Examination) -> None:
    """Add what one period makes of perturbations of an equilibrium, where the program states its inputs."""
    control = loop.control
    assert control is not None
    lively = [i for i, name in zip(loop.entries.tolist(), loop.names, strict=True) if name not in passive]
    radius = float(np.abs(np.linalg.eig(period_matrix(loop, at, lively))[0]).max(initial=0.0))
    found.numbers["sampled_radius"] = radius
    period, delay = control.times.period, control.delay
    text = f"largest eigenvalue of a period of {period:g} s with a delay of {delay:g} periods: "
    text += f"{radius:.4g} (limit 1)"
    if radius > 1 + GROWS:
        found.add("refuse", "sampling", f"{text}; lower the feedback, or shorten period and delay")
    else:
        found.add("good", "sampling", text)


def period_matrix(loop: ContinuousLoop, at: Linearised, lively: Sequence[int]) -> Array:
    """What a period makes of small changes of the states `lively` and of the inputs that are on their way.

    A delay of a part of a period counts as a whole one.
    """
    assert loop.control is not None
    delay = math.ceil(loop.control.delay - 1e-9)
    waiting = np.tile(loop.inputs(at.time, at.state), delay)
    size = len(lively) + len(waiting)
    columns = []
    for i in range(size):
        ends = []
        for side in (SIDE, -SIDE):
            x, queue = at.state.copy(), waiting.copy()
            if i < len(lively):
                x[lively[i]] += side
            else:
                queue[i - len(lively)] += side
            after, queue = _period(loop, at.time, x, queue)
            ends.append(np.append(after[lively], queue))
        columns.append((ends[0] - ends[1]) / (2 * SIDE))
    result: Array = np.array(columns, dtype=float).T.reshape(size, size)
    return result


def _period(loop: ContinuousLoop, t: float, x: Array, queue: Array) -> tuple[Array, Array]:
    """State and waiting inputs, the oldest first, a period later."""
    launch, machine, n = loop.closed_loop.launch, loop.machine, loop.machine.n_inputs
    assert loop.control is not None
    assert launch.steps_per_period is not None
    queue = np.append(queue, loop.inputs(t, x))
    own = x[loop.n_x :] + loop.control.times.period * loop.rates(t, x)[loop.n_x :]
    state, u = x[: loop.n_x].copy(), queue[:n].copy()
    advance = machine.advancer(launch.plant.integrator)
    advance(round(t * 1e9 / launch.step_ns), launch.steps_per_period, launch.step_ns, state, u, machine.c)
    return np.append(state, own), queue[n:]
