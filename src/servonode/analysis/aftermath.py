"""What a machine does after a fault: the safe action of each input, and whether the machine gains speed under it."""

from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.static_checks import Examination
from servonode.record.run import Run

FAULTS = 12  # instants of the run, evenly spread, at which a fault is tried
LONG, MOST_STEPS = 1.0, 5000  # s of the safe action that are looked at after each, and plant steps at most
LOOKS = 50  # at the kinetic energy meanwhile
GAIN = 1.1  # of the largest kinetic energy in the run: more than that is a machine that runs away


def actions(closed_loop: ClosedLoop) -> dict[str, str]:
    """What each input does after a fault, in words, by the input's name."""
    safe, names = closed_loop.machine.description.safe, closed_loop.machine.description.input_names
    return {name: f"brakes with {safe[name]}" if name in safe else "0: coasts" for name in names}


def after_fault(closed_loop: ClosedLoop, run: Run, usual: float, found: Examination) -> dict[str, Any]:
    """The largest kinetic energy [J] within `within` [s] of a fault at time t [s], among faults all along a run.

    A machine that then exceeds the run's own, `usual` [J], is warned of: it gains speed although nobody drives it.
    """
    machine, states = closed_loop.machine, np.array(list(run.state.values()))
    steps = max(min(round(LONG * 1e9 / closed_loop.launch.step_ns), MOST_STEPS), 1)
    within = steps * closed_loop.launch.step_ns / 1e9
    worst = (0.0, 0.0, 0.0)
    for i in sorted({round(i) for i in np.linspace(0, len(run.t) - 1, FAULTS)}):
        x = np.append(states[:, i], 0.0)
        before = machine.energies(float(run.t[i]), x)[0]
        worst = max(worst, (_largest_kinetic(closed_loop, int(run.k[i]), x, steps), before, float(run.t[i])))
    largest, before, t = worst
    if largest > GAIN * usual and largest > before:
        what = "the safe action does" if machine.description.has_safe_action else "zero input does"
        text = (
            f"the machine gains speed after a fault at t = {t:.4g} s: from {before:.3g} J its kinetic energy grows to "
        )
        text += f"{largest:.3g} J within {within:.3g} s, in the run it is at most {usual:.3g} J; {what} not hold it, "
        found.add("warn", "safe action", f"{text}give a brake, safe= of its Model, that does")
    return {"kinetic_max": largest, "kinetic_before": before, "kinetic_run": usual, "t": t, "within": within}


def _largest_kinetic(closed_loop: ClosedLoop, k: int, x: Array, steps: int) -> float:
    """The largest kinetic energy [J] while the safe action acts for this many steps from step k and state x on."""
    machine, step = closed_loop.machine, closed_loop.launch.step_ns
    advance, limits = machine.advancer(closed_loop.launch.plant.integrator), np.array(closed_loop.safety.limits.value)
    held = closed_loop.safety.brake_steps if machine.description.has_safe_action else max(steps // LOOKS, 1)
    look, largest, done, u = max(steps // LOOKS, 1), 0.0, 0, np.zeros(machine.n_inputs)
    while done < steps:
        t = (k + done) * step / 1e9
        if machine.description.has_safe_action:
            wanted = machine.safe_input(t, x)
            u = np.clip(wanted, -limits, limits) if np.isfinite(wanted).all() else np.zeros(len(u))
        n = min(held, steps - done)
        if not advance(k + done, n, step, x, u, machine.c) or not np.isfinite(x).all():
            break  # the model ends here, such as at a fall
        if done // look != (done + n) // look:
            largest = max(largest, machine.energies((k + done + n) * step / 1e9, x)[0])
        done += n
    return largest
