"""A machine's safe action as a feedback of its state, u = S x + s0, which a microcontroller can evaluate."""

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.machine import Machine

SAMPLES = 3  # states at which the action is evaluated, for each number of a row
SPREAD = 0.3  # standard deviation of these states about the initial state [SI]
TOLERANCE = 1e-9  # relative; beyond it the safe action is not affine


def safe_map(machine: Machine, start: Array) -> Array | None:
    """S with s0 as its last column (n_inputs, n_state + 1); None where the safe action is not affine in the state.

    Zero where the machine defines none. Found from the machine's own safe action at states about `start`, at two times.
    """
    n, m = machine.n_state, machine.n_inputs
    if not machine.description.has_safe_action:
        return np.zeros((m, n + 1))
    rng = np.random.default_rng(18)
    states = start[:n] + SPREAD * rng.standard_normal((SAMPLES * (n + 1), n))
    with np.errstate(all="ignore"):
        values = np.array([
            [machine.safe_input(t, np.append(x, 0.0)) for x in states] for t in (0.0, 1.0)
        ])  # fmt: skip
    if not np.isfinite(values).all():
        return None
    rows, *_ = np.linalg.lstsq(np.column_stack([states, np.ones(len(states))]), values[0], rcond=None)
    found: Array = np.where(np.abs(rows.T) > TOLERANCE * np.abs(rows).max(initial=0.0), rows.T, 0.0)
    expected = states @ found[:, :n].T + found[:, n]
    if np.abs(values - expected).max(initial=0.0) > TOLERANCE * (1.0 + np.abs(values).max(initial=0.0)):
        return None
    return found


def sent_safe_map(machine: Machine, start: Array, readings: bool) -> Array:
    """The safe action that is sent (n_inputs, n_state + 1); zero where a microcontroller could not carry it out.

    readings: the microcontroller does not know its state, so that only a constant action is possible.
    """
    found = safe_map(machine, start)
    if found is None or (readings and found[:, :-1].any()):
        return np.zeros((machine.n_inputs, machine.n_state + 1))
    return found


def safe_remarks(machine: Machine, start: Array, readings: bool = False) -> list[str]:
    """A sentence where the machine's safe action cannot be sent to a microcontroller."""
    found = safe_map(machine, start)
    if found is not None and readings and found[:, :-1].any():
        text = f"firmware that sends only readings has no state for the safe action of {machine.description.name}: "
        return [f"{text}without messages it applies zero inputs, unless it has its own brake"]
    if found is not None:
        return []
    text = f"the safe action of {machine.description.name} is not a linear feedback of its state: without messages, "
    return [f"{text}firmware applies zero inputs, unless it has its own brake"]
