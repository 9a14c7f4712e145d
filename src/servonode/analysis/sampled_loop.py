"""The sampled closed loop of a program that states its inputs, linearised: the eigenvalues of one control period.

A law with residuals has its limits in closed form (docs/explanation/mathematics.md, eq. 9); of feedback that a user
states only the period itself tells whether it is slow enough for the period and the delay.
"""

from collections.abc import Sequence

import numpy as np

from servonode.analysis.internal_motion import Linearised
from servonode.analysis.linearisation import sampled_step
from servonode.analysis.sampled_step import lively
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.static_checks import Examination

GROWS = 1e-4  # above 1 by which an eigenvalue of a period must be to count as growing


def judge_sampling(closed_loop: ClosedLoop, at: Linearised, passive: Sequence[str], found: Examination) -> None:
    """Add what one period makes of perturbations of an equilibrium, where the program states its inputs."""
    control = closed_loop.control
    assert control is not None
    step = sampled_step(closed_loop, at.time)
    kept, n_x = lively(step.names, passive), len(closed_loop.start)
    period_map = step.open_at_inputs(step.state_at(at.state[:n_x], at.state[n_x:])).closed[np.ix_(kept, kept)]
    radius = float(np.abs(np.linalg.eigvals(period_map)).max(initial=0.0))
    found.numbers["sampled_radius"] = radius
    period, delay = control.times.period, control.delay
    text = f"largest eigenvalue of a period of {period:g} s with a delay of {delay:g} periods: "
    text += f"{radius:.4g} (limit 1)"
    if radius > 1 + GROWS:
        found.add("refuse", "sampling", f"{text}; lower the feedback, or shorten period and delay")
    else:
        found.add("good", "sampling", text)
