"""The control period of many machines: inputs, limits, drives, plant steps, sensors, goal, reward."""

from servonode.kernels.lib.drives import act, drives
from servonode.kernels.lib.given import advance, condition, faults, follow, law, reward
from servonode.kernels.lib.names import *
from servonode.kernels.lib.period import decide, limit_late
from servonode.kernels.lib.readings import measure, plausible

# how an episode stands; FAULT + i: fault i of the machine, from 1 on; END + i: stated condition i, from 0 on
GOES_ON = 0
NOT_FINITE = 1
IMPLAUSIBLE = 2
NO_REWARD = 3
DURATION = 4
FAULT = 5
END = 10_000
# entries of the work: the next machine to be moved, how many are, of how many, so many at a time
NEXT = 0
DONE = 1
ALL = 2
SHARE = 3
PAUSE = 16  # what a thread waits with


class Batch:
    """Machines of one launch file; arrays have an entry or a row for each."""

    per_period: int
    step_ns: int
    least: float
    periods: int  # of an episode
    scale: f64[n_tau]  # of the actions, which are shares
    actions: f64[any_size, n_tau]
    status: i64[any_size]
    instants: i64[any_size]
    x: f64[any_size, n_x]
    c: f64[any_size, n_constants]
    u: f64[any_size, n_tau]
    queue: f64[any_size, n_waiting, n_tau]  # inputs that wait
    newest: f64[any_size, n_tau]
    bounds: f64[any_size, bounded, n_tau]
    power: f64[any_size]
    counts: i64[any_size, n_counts]
    dynamic: i64[any_size]
    drive: f64[any_size, drive_rows, n_tau]
    depths: i64[any_size, n_tau]
    pipe: f64[any_size, n_pipe, n_tau]
    slewed: f64[any_size, n_tau]
    late: f64[any_size, n_shown, n_x]  # states that the sensors have not yet shown
    errors: f64[any_size, error_rows, n_state]
    n_noise: int  # readings whose noise is drawn at a time
    noise: f64[any_size, n_state]  # so many rows for each machine
    measured: f64[any_size, n_x]
    judged: i64[any_size]
    believed: f64[any_size, believed_rows, n_state]
    before: f64[any_size, n_state]
    since: f64[any_size, one]
    goals: f64[any_size, n_goal]  # targets and signals at each instant
    goal_from: i64[any_size]  # the row of its first instant
    y: f64[any_size, n_y]
    c_law: f64[any_size, n_c_law]
    K: f64[n_gains, n_s, n_s]
    memory: f64[any_size, n_memory]
    observed: f64[any_size, n_observed]
    rewards: f64[any_size]


def pass_period(batch: Batch, e: int, wanted: f64[n_tau]) -> None:
    """Let a period pass for machine e, under its action."""
    k = batch.instants[e] * batch.per_period
    t = k * batch.step_ns / 1e9
    period = batch.per_period * batch.step_ns / 1e9
    for i in range(n_tau):
        wanted[i] = batch.scale[i] * min(max(batch.actions[e, i], -1.0), 1.0)
    decide(t, batch.x[e], batch.c[e], period, batch.bounds[e], batch.power[e], batch.counts[e], batch.newest[e], wanted)
    for i in range(n_tau):
        batch.queue[e, (batch.instants[e] + n_waiting - 1) % n_waiting, i] = wanted[i]
        wanted[i] = batch.queue[e, batch.instants[e] % n_waiting, i]
    if n_waiting > 1:
        limit_late(t, batch.x[e], batch.c[e], batch.power[e], batch.counts[e], wanted)
    if batch.dynamic[e] == 0:
        act(batch.drive[e], wanted, batch.u[e])
    if batch.dynamic[e] == 0 and n_shown == 1:
        advance(k, batch.per_period, batch.step_ns, batch.x[e], batch.u[e], batch.c[e])
    else:
        for j in range(k, k + batch.per_period):
            if batch.dynamic[e]:
                drives(j, batch.drive[e], batch.depths[e], batch.pipe[e], wanted, batch.slewed[e], batch.u[e])
            advance(j, 1, batch.step_ns, batch.x[e], batch.u[e], batch.c[e])
            for i in range(n_x):
                batch.late[e, (j + 1) % n_shown, i] = batch.x[e, i]
    batch.instants[e] += 1


def sense(batch: Batch, e: int, k: int, late: f64[n_shown, n_x]) -> None:
    """Measure machine e; an episode whose readings are not plausible ends."""
    at = e * batch.n_noise + batch.instants[e] % batch.n_noise
    if n_shown == 1:
        measure(batch.x[e], batch.errors[e], batch.noise[at], batch.measured[e])
    else:
        measure(late[(k + 1) % n_shown], batch.errors[e], batch.noise[at], batch.measured[e])
    if batch.status[e] == GOES_ON and batch.judged[e]:
        t = k * batch.step_ns / 1e9
        if plausible(t, batch.measured[e], batch.believed[e], batch.least, batch.before[e], batch.since[e]) >= 0:
            batch.status[e] = IMPLAUSIBLE


def fill(batch: Batch, e: int, t: float, passed: float, out: f64[n_out], columns: f64[n_columns]) -> None:
    """What reward and conditions may use, but for the last: whether the episode has ended by a fault."""
    for i in range(n_goal):
        batch.y[e, i] = batch.goals[batch.goal_from[e] + batch.instants[e], i]
    if follows:
        follow(t, batch.x[e], batch.y[e], batch.c_law[e], passed, batch.memory[e])
    if has_law:
        law(t, batch.x[e], batch.y[e], batch.c_law[e], batch.K, out)
    columns[0] = t
    for i in range(n_x):
        columns[1 + i] = batch.x[e, i]
    for i in range(n_tau):
        columns[1 + n_x + i] = batch.u[e, i]
    for i in range(n_s):
        columns[1 + n_x + n_tau + i] = out[n_tau + i]
    for i in range(n_goal):
        columns[1 + n_x + n_tau + n_s + i] = batch.y[e, i]


def period(first: int, last: int, moves: bool, batch: Batch) -> None:
    """Let a period pass for the machines `first` to below `last` whose episodes go on, and look at each after it.

    Without `moves` they are looked at where they are, and an episode does not end.
    """
    columns = empty(n_columns)
    wanted = empty(n_tau)
    start = empty(n_x)
    out = empty(n_out)
    for e in range(first, last):
        if batch.status[e] == GOES_ON:
            for i in range(n_x):
                start[i] = batch.x[e, i]
            if moves:
                pass_period(batch, e, wanted)
            k = batch.instants[e] * batch.per_period
            t = k * batch.step_ns / 1e9
            finite = 0.0
            for i in range(n_x):
                finite += batch.x[e, i]
            if not isfinite(finite):
                batch.status[e] = NOT_FINITE
                for i in range(n_x):
                    batch.x[e, i] = start[i]
            sense(batch, e, k, batch.late[e])
            if watched:
                found = faults(t, batch.x[e], batch.c[e])
                if batch.status[e] == GOES_ON and found != 0:
                    batch.status[e] = FAULT + found
            fill(batch, e, t, batch.per_period * batch.step_ns / 1e9 if moves else 0.0, out, columns)
            if batch.status[e] == GOES_ON:
                batch.status[e] = condition(columns)
            if batch.status[e] == GOES_ON and batch.instants[e] == batch.periods:
                batch.status[e] = DURATION
            faulty = batch.status[e] != GOES_ON and batch.status[e] != DURATION and batch.status[e] < END
            columns[n_columns - 1] = 1.0 if faulty else 0.0
            batch.rewards[e] = reward(columns)
            if not isfinite(batch.rewards[e]):
                batch.rewards[e] = 0.0
                if batch.status[e] == GOES_ON:
                    batch.status[e] = NO_REWARD
            if not moves:
                batch.status[e] = GOES_ON
            for i in range(n_state):
                batch.observed[e, i] = batch.measured[e, i]
            for i in range(n_targets):
                batch.observed[e, n_state + i] = batch.y[e, i]


def share(work: i64[n_work], batch: Batch, begins: bool, idle: int) -> bool:
    """Move machines as long as there are some; then wait, at most `idle` turns, for more; whether all are moved.

    All threads that are in it share the machines out among themselves; the one that begins waits for the others alone.
    """
    if begins:
        first = swap_shared(work[DONE], 0)
        first = swap_shared(work[NEXT], 0)
    turns = 0
    while turns <= idle:
        turns += 1
        first = add_shared(work[PAUSE], 1)  # on a cache line of its own: who waits does not disturb who works
        first = work[NEXT]
        if first < work[ALL]:
            first = add_shared(work[NEXT], work[SHARE])
        if first < work[ALL]:
            last = min(first + work[SHARE], work[ALL])
            period(first, last, True, batch)
            first = add_shared(work[DONE], last - first)
            turns = 0
        elif begins and work[DONE] >= work[ALL]:
            turns = idle + 1
    return add_shared(work[DONE], 0) >= work[ALL]
