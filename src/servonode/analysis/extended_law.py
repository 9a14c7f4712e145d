"""What sampling and noise leave of the residuals of a law with an extension (mechanics/README.md, eq. 10)."""

from math import comb

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.controller_section import Control
from servonode.mechanics.machine import Machine

DIFFERENCE = 1e-6


def left_by_held_inputs(control: Control, machine: Machine, t: float, x: Array, y: Array, change: Array) -> Array:
    """The residuals (n_s,) that remain where inputs are older than they should be, and would have made `change` since.

    An input that is late by `change` takes [df^(j-1)/dv R change] off f^(j) without the law's knowledge, at each order
    j. The feedback makes of that f = sum over j of binomial(r, j) lambda^-j of it; nothing for a rate of 0.
    """
    law, still = control.law, np.zeros(len(x))
    here = machine.derivatives(t, x, still[: len(change)])
    moved = machine.derivatives(t, x, change) - here
    rows = [machine.description.state_names.index(name) for name in machine.description.velocities]
    size = max(float(np.max(np.abs(moved[rows]), initial=0.0)), 1e-300)
    still[rows] = DIFFERENCE * moved[rows] / size
    ahead, behind = law.chains(t, x + still, y), law.chains(t, x - still, y)
    lost = [size * (a - b) / (2 * DIFFERENCE) for a, b in zip(ahead, behind, strict=True)]
    return np.array([_left(each, rate) for each, rate in zip(lost, control.gains.rates, strict=True)])


def _left(lost: Array, rate: float) -> float:
    r = len(lost)
    return sum(comb(r, j) * abs(each) / rate**j for j, each in enumerate(lost, 1)) if rate else 0.0


def noise_of_demand(control: Control, x: Array, y: Array, noise: Array) -> Array:
    """The noise (n_s,) of a residual that alone would make the demand as noisy as all states' `noise` (n_state,) do."""
    law, columns = control.law, []
    for i in np.flatnonzero(noise):
        beside = np.zeros(len(x))
        beside[i] = DIFFERENCE
        demands = [_demands(control, law.chains(0.0, x + side * beside, y)) for side in (1, -1)]
        columns.append((demands[0] - demands[1]) / (2 * DIFFERENCE) * noise[i])
    return np.asarray(np.linalg.norm(columns, axis=0))


def _demands(control: Control, chains: list[Array]) -> Array:
    """The demand of each residual in units of lambda^r: f + r f' / lambda + ..."""
    rows = zip(chains, control.gains.rates.tolist(), strict=True)
    return np.array([sum(comb(len(f), j) * each / rate**j for j, each in enumerate(f)) for f, rate in rows])
