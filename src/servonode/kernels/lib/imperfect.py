"""What drives, sensors and limits do in a run where they are not perfect."""

from servonode.kernels.lib.drives import act
from servonode.kernels.lib.names import *
from servonode.kernels.lib.period import decide, limit_late
from servonode.kernels.lib.readings import measure, plausible
from servonode.kernels.lib.run import Effects, Run

READING = 0  # entries of what an imperfect run goes on with
ORIGIN = 1  # the step at which the goal's time began, -1 before
ANSWERED = 2  # the last control instant whose state was answered
DROPPED = 3
REPEATED = 4
UNNAMED = 5  # whether it has stopped for what only the nodes can name


def is_read(run: Run, effects: Effects, k: int) -> bool:
    """Whether the sensors are read at a step."""
    every = effects.publish_every
    return k % run.per_period == 0 or (every > 0 and (k % every == 0 or k == run.steps))


def read(run: Run, effects: Effects, k: int) -> bool:
    """Measure the state; whether that is plausible, where it is judged."""
    at = effects.state[READING]
    measure(effects.late[(k + 1) % effects.n_late], effects.errors, effects.noise[at], effects.measured)
    if effects.publish_every > 0:
        t = k * run.step_ns / 1e9
        if plausible(t, effects.measured, effects.believed, effects.least, effects.before, effects.since) >= 0:
            return False
    return True


def await_answer(run: Run, effects: Effects, k: int, answers: bool) -> bool:
    """Count what is held and lost at a control instant; whether inputs may still be repeated."""
    instant = k // run.per_period
    delay = run.depth - 1
    held = instant - 1 - delay - effects.state[ANSWERED]
    if effects.state[ORIGIN] >= 0 and held > 0:
        effects.state[REPEATED] += 1
        if effects.repeats >= 0 and held > effects.repeats:
            return False
    if not answers:
        effects.state[DROPPED] += 1
        for i in range(n_tau):
            effects.sent[(instant + delay) % run.depth, i] = effects.sent[(instant + delay - 1) % run.depth, i]
    elif effects.state[ORIGIN] < 0:
        effects.state[ORIGIN] = k
    return True


def accept(run: Run, effects: Effects, k: int) -> None:
    """Let the plant take an answer: within all limits it waits until it acts."""
    instant = k // run.per_period
    at = (instant + run.depth - 1) % run.depth
    for i in range(n_tau):
        run.queue[at, i] = run.out[i]
    t = k * run.step_ns / 1e9
    decide(t, run.x, run.c, run.period, run.bounds, effects.power, effects.counts, effects.newest, run.queue[at])
    effects.due[at] = instant + run.depth - 1
    effects.state[ANSWERED] = instant


def apply(run: Run, effects: Effects, k: int) -> None:
    """Let inputs act that are due."""
    instant = k // run.per_period
    at = instant % run.depth
    if run.depth > 1:
        t = k * run.step_ns / 1e9
        limit_late(t, run.x, run.c, effects.power, effects.counts, run.queue[at])
    for i in range(n_tau):
        effects.demand[i] = run.queue[at, i]
    if effects.state[ANSWERED] + run.depth - 1 == instant:
        for i in range(n_tau):
            effects.newest[i] = effects.demand[i]
    if effects.dynamic == 0:
        act(effects.drive, effects.demand, run.u)
