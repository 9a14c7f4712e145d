"""The compiled control period of many machines: inputs, limits, drives, plant steps, sensors, goal, reward.

What becomes of an input has the bits of a run: the same effects and limits act, in the same order as in
`simulation/loop_source.py`.
"""

from dataclasses import replace
from typing import Annotated, Any, Protocol

from servonode.arrays import ANY, Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.definitions import cache
from servonode.environments.stated import Stated
from servonode.mechanics.signatures import Signature, Whole, sizes_text
from servonode.plants.effect_kernels import BELIEVED, DRIVE, ERRORS, LIMITS, drives_of, limits_of, readings_of

# how an episode stands; FAULT + i: fault i of the machine, from 1 on; END + i: stated condition i, from 0 on
CODES = {"GOES_ON": 0, "NOT_FINITE": 1, "IMPLAUSIBLE": 2, "NO_REWARD": 3, "DURATION": 4, "FAULT": 5, "END": 10_000}
GOES_ON, NOT_FINITE, IMPLAUSIBLE, NO_REWARD, DURATION, FAULT, END = CODES.values()
# entries: the next machine to be moved, how many are, of how many, so many at a time; and what a thread waits with
WORK, N_WORK = {"NEXT": 0, "DONE": 1, "ALL": 2, "SHARE": 3, "PAUSE": 16}, 24
Number = Annotated[Array, ANY]
Wholes = Annotated[Whole, ANY]
Inputs = Annotated[Array, ANY, "n_tau"]
States = Annotated[Array, ANY, "n_state"]
States_ = Annotated[Array, ANY, "n_x"]  # with the work


class PeriodKernel(Protocol):
    """The module of a control period of n machines; its arrays have an entry or a row a machine.

    queue, late and noise have several rows a machine, one behind the other: inputs that wait, states that the sensors
    have not yet shown, and the noise of the next `n_noise` readings. goals: targets and signals at each instant, from
    the row `goal_from` on.
    """

    def period(
        self, first: int, last: int, moves: bool, per_period: int, step_ns: int, least: float, periods: int,
        scale: Annotated[Array, "n_tau"], actions: Inputs, status: Wholes, instants: Wholes, x: States_,
        c: Annotated[Array, ANY, "n_constants"],
        u: Inputs, queue: Inputs, newest: Inputs, bounds: Annotated[Array, ANY, len(LIMITS), "n_tau"], power: Number,
        counts: Annotated[Whole, ANY, "n_counts"], dynamic: Wholes, drive: Annotated[Array, ANY, len(DRIVE), "n_tau"],
        depths: Annotated[Whole, ANY, "n_tau"], pipe: Annotated[Array, ANY, "n_pipe", "n_tau"], slewed: Inputs,
        late: States_, errors: Annotated[Array, ANY, len(ERRORS), "n_state"], n_noise: int, noise: States,
        measured: States_, judged: Wholes, believed: Annotated[Array, ANY, len(BELIEVED), "n_state"], before: States,
        since: Annotated[Array, ANY, 1], goals: Annotated[Array, ANY, "n_goal"], goal_from: Wholes,
        y: Annotated[Array, ANY, "n_y"], c_law: Annotated[Array, ANY, "n_c_law"], K: Annotated[Array, 3, "n_s", "n_s"],
        memory: Annotated[Array, ANY, "n_memory"], observed: Annotated[Array, ANY, "n_observed"], rewards: Number,
    ) -> None: ...  # fmt: skip


class TeamKernel(Protocol):
    """What several threads call at once to let a period pass for all machines. work: entries WORK, which they share."""

    def work(self, work: Annotated[Whole, N_WORK], begins: bool, idle: int) -> bool: ...


_SOURCE = '''\
{header}
from {steps} import n_x, n_tau, n_constants, advance
from {drives} import act, drives
from {readings} import n_state, measure, plausible
from {limits} import n_counts, limit as bring_within, limit_power
{imports}
{sizes}{stated}

def apply(
    t: f64, delay_at: i64, now_at: i64, period: f64, x: f64[n_x], c: f64[n_constants], queue: f64[:, n_tau],
    newest: f64[n_tau], bounds: f64[2, n_tau], power: f64, counts: i64[n_counts], wanted: f64[n_tau],
):
    """Put the wanted inputs, within all limits, into the queue, and leave in their place those that act now."""
    rates = empty(n_tau)
    if isfinite(power):
        input_rates(t, x, c, rates)
    bring_within(wanted, newest, period, bounds, power, rates, counts)
    for i in range(n_tau):
        queue[delay_at, i] = wanted[i]
        newest[i] = wanted[i]
        wanted[i] = queue[now_at, i]
    if delay_at != now_at and isfinite(power):
        limit_power(wanted, power, rates, counts)


{definition}\
    """Let a period pass for the machines `first` to below `last` whose episodes go on, and look at each after it.

    Without `moves` they are looked at where they are, and an episode does not end.
    """
    columns = empty(n_columns)
    wanted = empty(n_tau)
    start = empty(n_x)
    out = empty(n_out)
    for e in range(first, last):
        if status[e] == GOES_ON:
            for i in range(n_x):
                start[i] = x[e, i]
            k = instants[e] * per_period
            if moves:
                for i in range(n_tau):
                    wanted[i] = scale[i] * min(max(actions[e, i], -1.0), 1.0)
                at = e * depth + instants[e] % depth
                apply(
                    k * step_ns / 1e9, e * depth + (instants[e] + depth - 1) % depth, at, per_period * step_ns / 1e9,
                    x[e], c[e], queue, newest[e], bounds[e], power[e], counts[e], wanted
                )
                if dynamic[e] == 0:
                    act(drive[e], wanted, u[e])
                if dynamic[e] == 0 and n_late == 1:
                    advance(k, per_period, step_ns, x[e], u[e], c[e])
                else:
                    for j in range(k, k + per_period):
                        if dynamic[e]:
                            drives(j, drive[e], depths[e], pipe[e], wanted, slewed[e], u[e])
                        advance(j, 1, step_ns, x[e], u[e], c[e])
                        for i in range(n_x):
                            late[e * n_late + (j + 1) % n_late, i] = x[e, i]
                instants[e] += 1
                k += per_period
            t = k * step_ns / 1e9
            finite = 0.0
            for i in range(n_x):
                finite += x[e, i]
            if not isfinite(finite):
                status[e] = NOT_FINITE
                for i in range(n_x):
                    x[e, i] = start[i]
            if n_late == 1:
                measure(x[e], errors[e], noise[e * n_noise + instants[e] % n_noise], measured[e])
            else:
                measure(
                    late[e * n_late + (k + 1) % n_late], errors[e], noise[e * n_noise + instants[e] % n_noise],
                    measured[e]
                )
            if status[e] == GOES_ON and judged[e]:
                if plausible(t, measured[e], believed[e], least, before[e], since[e]) >= 0:
                    status[e] = IMPLAUSIBLE
            {faults}
            for i in range(n_goal):
                y[e, i] = goals[goal_from[e] + instants[e], i]
            {residuals}
            columns[0] = t
            for i in range(n_x):
                columns[1 + i] = x[e, i]
            for i in range(n_tau):
                columns[1 + n_x + i] = u[e, i]
            for i in range(n_s):
                columns[1 + n_x + n_tau + i] = out[n_tau + i]
            for i in range(n_goal):
                columns[1 + n_x + n_tau + n_s + i] = y[e, i]
            if status[e] == GOES_ON:
                status[e] = condition(columns)
            if status[e] == GOES_ON and instants[e] == periods:
                status[e] = DURATION
            columns[n_columns - 1] = 1.0 if status[e] != GOES_ON and status[e] != DURATION and status[e] < END else 0.0
            rewards[e] = reward(columns)
            if not isfinite(rewards[e]):
                rewards[e] = 0.0
                if status[e] == GOES_ON:
                    status[e] = NO_REWARD
            if not moves:
                status[e] = GOES_ON
            for i in range(n_state):
                observed[e, i] = measured[e, i]
            for i in range(n_targets):
                observed[e, n_state + i] = y[e, i]


{work}    """Move machines as long as there are some; then wait, at most `idle` turns, for more; whether all are moved.

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
            period(first, last, True, {names})
            done = add_shared(work[DONE], last - first)
            turns = 0
        elif begins and work[DONE] >= work[ALL]:
            turns = idle + 1
    return add_shared(work[DONE], 0) >= work[ALL]
'''
_LAW = "law(t, x[e], y[e], c_law[e], K, out)"
_FOLLOW = "follow(t, x[e], y[e], c_law[e], per_period * step_ns / 1e9 if moves else 0.0, memory[e])\n            "
_FAULTS = """\
found = faults(t, x[e], c[e])
            if status[e] == GOES_ON and found != 0:
                status[e] = FAULT + found
"""


def period_of(closed_loop: ClosedLoop, stated: Stated, sizes: dict[str, int]) -> Any:
    """The kernel, `period` and `work`, of environments of this closed loop, with reward and conditions as stated.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    machine, launch = closed_loop.machine, closed_loop.launch
    law = closed_loop.control.law if stated.has_residuals and closed_loop.control else None
    watched = launch.plant.safety.faults and machine.description.faults
    imports = f"from {machine.kernel.__name__} import input_rates{', faults' if watched else ''}\n"
    follows = law is not None and bool(law.description.states)
    if law is not None:
        names = "law, n_y, n_out, n_s, n_memory, n_constants as n_c_law" + (", follow" if follows else "")
        imports += f"from {law.kernel.__name__} import {names}\n"
    else:
        sizes = sizes | {"n_y": sizes["n_goal"], "n_out": 1, "n_s": 0, "n_memory": 0, "n_c_law": 0}
    sizes = sizes | CODES | WORK | {"n_columns": len(stated.columns)}
    parts = {
        "steps": machine.steps(launch.plant.integrator).__name__,
        "drives": drives_of(machine.n_inputs).__name__,
        "readings": readings_of(machine.n_state).__name__,
        "limits": limits_of(machine.n_inputs).__name__,
        "imports": imports,
        "sizes": sizes_text(sizes),
        "faults": _FAULTS if watched else "",
        "residuals": (_FOLLOW if follows else "") + _LAW if law else "",
    }
    key = cache.key_of("environment", repr((_SOURCE, parts, stated)), cache.code_digest("mechanics.emit"))
    return cache.load(key, lambda: (_source(stated, dict(parts)), b"{}"), "an environment")[0]


def _source(stated: Stated, parts: dict[str, str]) -> str:
    from servonode.environments.stated_source import HEADER, functions_of

    period, work = Signature.of(PeriodKernel, "period"), Signature.of(TeamKernel, "work")
    names = ", ".join(each.name for each in period.arguments[3:])
    work = replace(work, arguments=(work.arguments[0], *period.arguments[3:], *work.arguments[1:]))
    parts |= {"stated": functions_of(stated), "definition": period.definition(), "work": work.definition()}
    return _SOURCE.format(header=HEADER, names=names, **parts)
