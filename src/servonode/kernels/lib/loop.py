"""A whole sampled loop: goal, law, limits, delay, plant steps; drives and sensors with their effects or without."""

from servonode.kernels.lib.drives import drives
from servonode.kernels.lib.given import advance, faults
from servonode.kernels.lib.imperfect import ORIGIN, READING, UNNAMED, accept, apply, await_answer, is_read, read
from servonode.kernels.lib.names import *
from servonode.kernels.lib.rows import record_row
from servonode.kernels.lib.run import Effects, Run, answer

PAUSE = 2000000  # steps, about a second: then the interpreter can handle an interrupt
COMPLETED = -1
AGAIN = -2


def loop(run: Run, effects: Effects) -> int:
    """Run to the end, or to a step, which is returned, up to which nodes must run to know what follows.

    After PAUSE steps, or where readings are used up, it returns AGAIN, to be called again.
    """
    k, row = run.progress[0], run.progress[1]
    pause = k + PAUSE
    while True:
        answers = k % run.per_period == 0
        if imperfect:
            control = answers
            if is_read(run, effects, k):
                if effects.state[READING] == effects.n_readings:
                    run.progress[0], run.progress[1] = k, row
                    return AGAIN
                if not read(run, effects, k):
                    effects.state[UNNAMED] = 1
                    return k
                answers = control and effects.lost[effects.state[READING]] == 0
                effects.state[READING] += 1
            if watched and control and faults(k * run.step_ns / 1e9, run.x, run.c) != 0:
                return k
            if control and not await_answer(run, effects, k, answers):
                effects.state[UNNAMED] = 1
                return run.steps
            if answers:
                if not answer(run, k, effects.state[ORIGIN], run.progress[2], effects.measured, effects.sent):
                    return k
                accept(run, effects, k)
            if control and effects.due[k // run.per_period % run.depth] == k // run.per_period:
                apply(run, effects, k)
        elif answers:
            if not answer(run, k, 0, run.progress[2], run.x, run.queue):
                return k
            for i in range(n_tau):
                run.u[i] = run.queue[k // run.per_period % run.depth, i]
        if k % run.every == 0 or k == run.steps:
            record_row(k, run.x, run.u, run.rows[row])
            row += 1
        if k == run.steps:
            run.progress[0], run.progress[1] = k, row
            return COMPLETED
        until = min(k - k % run.per_period + run.per_period, k - k % run.every + run.every, run.steps)
        if imperfect:
            if effects.publish_every > 0:
                until = min(until, k - k % effects.publish_every + effects.publish_every)
            for i in range(k, until):
                if effects.dynamic:
                    drives(i, effects.drive, effects.depths, effects.pipe, effects.demand, effects.slewed, run.u)
                advance(i, 1, run.step_ns, run.x, run.u, run.c)
                for j in range(n_x):
                    effects.late[(i + 1) % effects.n_late, j] = run.x[j]
        else:
            advance(k, until - k, run.step_ns, run.x, run.u, run.c)
        k = until
        if k >= pause:
            run.progress[0], run.progress[1] = k, row
            return AGAIN
        for i in range(n_x):
            if not isfinite(run.x[i]):
                return k
