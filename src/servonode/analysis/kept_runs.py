"""What becomes of what a law keeps in sampled runs: from the start, and from a tube of starts that promise to keep."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor, log10

import msgspec
import numpy as np

from servonode.analysis.goal_speed import lasting
from servonode.analysis.keeping import STATES, Rows, judge_rows, of, starts
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_file import with_step
from servonode.closed_loop.near_states import near_states
from servonode.closed_loop.static_checks import SPREAD, Examination
from servonode.controllers.engine.keeping import KeepNumbers
from servonode.controllers.engine.layout import GIVES_WAY
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.run import Run
from servonode.simulation.fused_loop import fused_loop, rows_of
from servonode.simulation.simulate import can_fuse
from servonode.tables import several

FINER = 20  # steps of a control period, between whose ends a sampled law is looked at
LONGEST = 200_000  # such steps of a run of the tube
MOST, FEWEST, WORK = 24, 4, 6_000_000  # runs of the tube; so many steps times states of all of them
CLOSEST = 6  # control periods of a run in which a keep is looked at between samples
LOOKS = 18  # states of a run at which conflicts are looked for
PROMISE = 1e-3  # share of a keep's range over the tube by which it may be violated
RESERVE = 2.0  # what sampling may take in other runs, of what it takes in those that were tried
SMALL = 0.1  # share of a keep's range up to which a margin is advised
FAR = 1e12  # below which a margin keeps nothing
LATE, LAST, STILL, LEFT = 0.25, 0.1, 1e-3, 0.02  # shares: of the time at the end; of a state's range; of a residual
ROUNDING = 1e-9


class Ran:
    """A run of the compiled loop: kernel states x and inputs u of each step, answers and their steps, what ended it."""

    def __init__(self, loop: ClosedLoop, table: Array, answers: Array, fault: str) -> None:
        self.loop, self.answers, self.fault, self.step = loop, answers, fault, loop.launch.step_ns / 1e9
        layout, self._layout = PlantRecordLayout.of(loop.machine.description), loop.known_control.law.record_layout
        self.x, self.u = np.ascontiguousarray(table[:, layout.x]), np.ascontiguousarray(table[:, layout.inputs])
        self.steps = answers[:, 0].astype(int)
        self.margins, self.residuals = self.part("margins"), self.part("residuals")
        self.states = self.part("states")
        self.per = loop.launch.steps_per_period or 1

    def part(self, name: str) -> Array:
        """A part of the answers, (n, size)."""
        found: Array = self.answers[:, getattr(self._layout, name)]
        return found

    def t(self, k: int) -> float:
        return float(k * self.step)

    def goal(self, k: int, i: int) -> Array:
        """y at a step, with the program's own states as of an answer."""
        return self.loop.goal(self.t(k), self.states[i])


def ran(closed_loop: ClosedLoop) -> Ran:
    """The run, as far as no fault ends it, with a row of each step."""
    law, launch = closed_loop.known_control.law, closed_loop.launch
    width = PlantRecordLayout.of(closed_loop.machine.description).computed.stop
    table = np.zeros((rows_of(launch.steps, 1), width))
    answers = np.zeros((launch.steps // (launch.steps_per_period or 1) + 2, law.record_layout.size))
    ended = fused_loop(closed_loop, 1, table, answers)
    if not ended.completed:
        table = table[: ended.stopped]
    fault = "" if ended.completed else ended.fault.name if ended.fault else "fault"
    return Ran(closed_loop, table, answers[: ended.answers], fault)


def begun_at(closed_loop: ClosedLoop, x: Array) -> ClosedLoop:
    """The closed loop that begins at another state, with the numbers of what is kept as they are."""
    control = closed_loop.known_control
    law = control.law.started(0.0, x, closed_loop.goal(0.0), control.stated.settings)
    return closed_loop.with_parts(start=x, control=replace(control, law=law))


def keeping_nothing(closed_loop: ClosedLoop) -> ClosedLoop:
    """The closed loop whose law keeps nothing, and does not know the limits of the inputs."""
    control, free = closed_loop.known_control, np.full(closed_loop.machine.n_inputs, np.inf)
    none = KeepNumbers(1.0, np.inf, -FAR, np.inf)
    law = control.law.keeping(dict.fromkeys(control.law.keep_numbers, none), -free, free)
    return closed_loop.with_parts(control=replace(control, law=law))


def on_finer_grid(closed_loop: ClosedLoop) -> ClosedLoop:
    """The same with plant steps of which at least FINER fit into a control period; not longer than LONGEST of them."""
    launch = closed_loop.launch
    period = launch.steps_per_period or 1
    parts = next((n for n in range(ceil(FINER / period), 10 * FINER) if launch.step_ns % n == 0), 1)
    unit = launch.period_ns or launch.step_ns
    step_ns = launch.step_ns // parts
    most = max(LONGEST * step_ns // unit, 1) * unit
    stated = msgspec.structs.replace(closed_loop.stated, fault=[])
    if launch.duration_ns > most:
        stated = lasting(closed_loop, most).stated
    fine = closed_loop.varied(with_step(stated, step_ns / 1e9))
    return fine.with_parts(machine=closed_loop.machine, start=closed_loop.start, examination=closed_loop.examination)


def judge_keeps(closed_loop: ClosedLoop, run: Run, found: Examination) -> None:
    """Add what is found of all that the law keeps."""
    control = closed_loop.control
    if control is None or not control.law.description.keeps:
        return
    rows = Rows(closed_loop)
    rng = np.random.default_rng(0)
    near = near_states(closed_loop.machine, closed_loop.start, rng, STATES, SPREAD)
    along = np.array(list(run.state.values())).T[:: max(1, len(run.t) // STATES)]
    on_run = np.column_stack([along, np.zeros(len(along))])
    judge_rows(rows, np.array([*near, *(rows.machine.projected(0.0, x) for x in on_run)]), found)
    _judge_clipping(rows, run, found)
    if not can_fuse(closed_loop):
        text = "the loop is not compiled as a whole, so that neither other starts nor states between samples were tried"
        found.add("warn", "keep", text)
        return
    fine = on_finer_grid(closed_loop)
    count = int(np.clip(WORK // (fine.launch.steps * fine.machine.n_state), FEWEST, MOST))
    tube = starts(closed_loop, count)
    runs = [ran(begun_at(fine, x)) for x in (closed_loop.start, *tube)]
    free = ran(keeping_nothing(fine))
    _judge_goal(rows, runs[0], free, found)
    _judge_conflicts(rows, runs, found)
    _judge_faults(rows, runs, found)
    _judge_samples(rows, runs, found)
    _judge_rest(rows, runs, found)
    late = runs[0].part("active")[-max(1, int(LATE * len(runs[0].answers))) :]
    for i, name in enumerate(rows.names):
        found.numbers["keeps"][name]["holds"] = bool((late[:, i] > 0.0).any())


def _judge_clipping(rows: Rows, run: Run, found: Examination) -> None:
    """Whether inputs are clipped behind a law that does not know their limits."""
    shares = {name: share for name, share in run.limited_share.items() if share}
    if shares and not rows.law.description.limited:
        name, share = max(shares.items(), key=lambda each: each[1])
        text = f"{name} is clipped for {share:.2g} of the time behind the law, which then keeps nothing for sure; give "
        found.add("warn", "limits", f'{text}controller.limits = "keep"')
    program, most = rows.law.description, np.array(rows.loop.safety.limits.value)
    if program.extension and program.limited and rows.integrates and np.isfinite(most).any():
        names = several([each.name for each in program.extension.integrators])
        text = f"while an input is at its limit {names} may wind up, and nothing is promised from then on; give limits"
        found.add("warn", "limits", f"{text} that runs do not reach, or a goal and rates that ask for less")


def _judge_goal(rows: Rows, own: Ran, free: Ran, found: Examination) -> None:
    """Whether the goal passes through what is forbidden: whether the law that keeps nothing does."""
    margins, steps = free.margins, free.steps
    names = [each.name for each in rows.law.description.residuals]
    for i, each in enumerate(rows.keeps):
        least = rows.numbers[i].margin
        forbidden = np.flatnonzero(margins[:, i] < least - 1e-6 * max(float(np.ptp(margins[:, i])), ROUNDING))
        if not len(forbidden):
            continue
        first, last = free.t(steps[forbidden[0]]), free.t(steps[forbidden[-1]])
        deep = float(least - margins[:, i].min())
        unit, until = each.quantity.unit, "s on" if forbidden[-1] == len(steps) - 1 else f"to {last:.3g} s"
        text = f"without it the run passes through what it forbids, from {first:.3g} {until}, by up to {of(deep, unit)}"
        rows_of_own = own.residuals[(own.steps >= steps[forbidden[0]]) & (own.steps <= steps[forbidden[-1]])]
        alone = np.abs(free.residuals[forbidden]).max(axis=0)
        left = np.abs(rows_of_own).max(axis=0, initial=0.0)
        more = [
            f"{name} by up to {size:.3g}"
            for name, size, was in zip(names, left, alone, strict=True)
            if size > was + LEFT * max(size, was)
        ]
        text += f"; left for it: {several(more) if more else 'no more than without it'}"
        found.add("warn", f"keep {each.quantity.name}", text)
        found.numbers["keeps"][each.quantity.name]["goal"] = {"from": first, "to": last, "by": deep}


def _judge_conflicts(rows: Rows, runs: Sequence[Ran], found: Examination) -> None:
    """Where no inputs within the limits keep all, along the run and those from other starts."""
    seen: dict[tuple[str, ...], list[tuple[int, float, Array, list[int]]]] = {}
    for j, each in enumerate(runs):
        for names, (k, x, which) in _first_conflicts(rows, each).items():
            seen.setdefault(names, []).append((j, each.t(k), x, which))
    for names, places in seen.items():
        j, t, x, which = places[0]
        others = sum(1 for place in places if place[0])
        where = "along the run" if j == 0 else f"from {others} of {len(runs) - 1} other starts"
        where += f" and from {others} of {len(runs) - 1} other starts" if j == 0 and others else ""
        reach = rows.limited_inputs(np.abs(rows.at(t, x)[which, 4:]).sum(axis=0))
        what = f"it needs more than {reach}" if len(which) == 1 else f"its rows exclude each other within {reach}"
        if len(names) > 1:
            what = f"it cannot be kept together with {several(names[1:])} by {reach}"
        text = f"{where}, first at t = {t:.3g} s ({rows.named(x)}), {what}; start slower or farther away, give a "
        text += f"smaller {'brake' if 2 in rows.degrees[which] else 'rate'} or stronger drives, or say by priority "
        text += "which gives way"
        found.add("warn", f"keep {names[0]}", text)
        found.numbers["keeps"][names[0]].setdefault("conflicts", []).append(
            {"t": t, "with": list(names[1:]), "runs": len(places)}
        )


def _first_conflicts(rows: Rows, each: Ran) -> dict[tuple[str, ...], tuple[int, Array, list[int]]]:
    """The first step of a run, with its state and rows, at which these keeps conflict; not all steps are looked at."""
    steps, margins, kept = each.steps, each.margins, each.part("keeping")[:, 0]
    if not len(steps):
        return {}
    looked = np.linspace(0, len(steps) - 1, min(LOOKS, len(steps))).astype(int)
    closest = [np.argsort(column)[: LOOKS // 3] for column in margins.T]
    yielding = np.flatnonzero(kept >= GIVES_WAY)[:LOOKS]
    found: dict[tuple[str, ...], tuple[int, Array, list[int]]] = {}
    for i in np.unique(np.concatenate([looked, yielding, *closest])):
        k = int(steps[i])
        if k >= len(each.x):
            break
        x = each.x[k]
        which = rows.conflict(rows.at(each.t(k), x, each.goal(k, int(i))), each.u[k])
        if which:
            found.setdefault(tuple(dict.fromkeys(rows.names[rows.of[row]] for row in which)), (k, x, which))
    return found


def _judge_faults(rows: Rows, runs: Sequence[Ran], found: Examination) -> None:
    """What ends runs from other starts."""
    ended = [each.fault for each in runs[1:] if each.fault]
    for fault in dict.fromkeys(ended):
        first = next(each for each in runs[1:] if each.fault == fault)
        text = f"{ended.count(fault)} of {len(runs) - 1} runs from other starts end by a fault, {fault}, such as from "
        found.add("warn", "keep", f"{text}{rows.named(first.loop.start)}; start nearer, or look at that run")


def _judge_samples(rows: Rows, runs: Sequence[Ran], found: Examination) -> None:
    """What sampling takes from the margins, and by how much at most each keep is violated from then on."""
    n = len(rows.keeps)
    least, low, high = np.full(n, np.inf), np.full(n, np.inf), np.full(n, -np.inf)
    for each in runs:
        low, high = np.minimum(low, each.margins.min(axis=0)), np.maximum(high, each.margins.max(axis=0))
        least = np.minimum(least, _between(rows, each))
    last = runs[0].t(runs[0].loop.launch.steps)
    for i, (kept, numbers) in enumerate(zip(rows.keeps, rows.numbers, strict=True)):
        name, unit = kept.quantity.name, kept.quantity.unit
        taken, reach = max(0.0, numbers.margin - float(least[i])), max(float(high[i] - min(low[i], least[i])), 0.0)
        promised = min(PROMISE * reach, numbers.tolerance)
        held = RESERVE * taken - numbers.margin <= promised
        found.numbers["keeps"][name] |= {
            "least": float(least[i]), "taken": taken, "range": reach, "promised": promised if held else None,
            "runs": len(runs), "grid": runs[0].loop.launch.steps_per_period,
        }  # fmt: skip
        text = f"in {len(runs)} runs of {last:g} s, all but one from other starts, between samples too: least "
        text += of(0.0 if abs(least[i]) < ROUNDING * reach else float(least[i]), unit)
        if taken > ROUNDING * (1.0 + reach):
            text += f"; sampling takes {of(taken, unit, 2)}"
        slower = ", or give a lower rate" if max(kept.degrees) else ""
        advised = f"margin = {_above(RESERVE * taken):.2g} keeps it between samples"
        if held:
            text += f", and {advised}" if RESERVE * taken > numbers.margin + ROUNDING * reach else ""
            text += f"; promised: never below {of(-promised, unit, 2)}"
        elif "conflicts" in found.numbers["keeps"][name]:
            text += ", by the conflict above; nothing is promised"
        elif any(each.fault for each in runs):
            text += ", up to the faults of runs; nothing is promised"
        elif RESERVE * taken > SMALL * reach:
            text += f", too much for a margin: nothing is promised; shorten the period and the delay{slower}"
        else:
            text += f", more than {PROMISE:g} of its range: {advised}{slower}"
        found.add("good" if held else "warn", f"keep {name}", text)


def _above(value: float) -> float:
    """A number of two digits that is not less."""
    if value <= 0.0:
        return 0.0
    unit = 10.0 ** (floor(log10(value)) - 1)
    return ceil(value / unit) * unit


def _between(rows: Rows, each: Ran) -> Array:
    """The least h of each keep within the control periods in which the samples are least."""
    margins, steps = each.margins, each.steps
    found: Array = margins.min(axis=0)
    closest = np.unique(np.concatenate([np.argsort(column)[:CLOSEST] for column in margins.T]))
    closest = np.unique(np.concatenate([closest, closest[closest > 0] - 1]))
    for i in closest:
        for k in range(int(steps[i]) + 1, min(int(steps[i]) + each.per + 1, len(each.x))):
            table = rows.at(each.t(k), each.x[k], each.goal(k, int(i)))
            at_u = table[:, 4:] @ each.u[k] - table[:, 2] if not rows.integrates else np.inf
            h = np.where(rows.degrees == 0, at_u, table[:, 0])
            for face, keep in enumerate(rows.of):
                found[keep] = min(found[keep], h[face] + rows.numbers[keep].margin)
    return found


def _judge_rest(rows: Rows, runs: Sequence[Ran], found: Examination) -> None:
    """Whether runs come to rest where a keep holds them, and the goal did not ask for it."""
    stuck: dict[str, list[Ran]] = {}
    for each in runs:
        if not each.fault and (name := _held(rows, each)):
            stuck.setdefault(name, []).append(each)
    for name, them in stuck.items():
        first = "the run comes" if them[0] is runs[0] else f"{len(them)} of {len(runs) - 1} runs from other starts come"
        text = f"{first} to rest at {rows.named(them[0].x[-1])}, where it acts and the goal is not reached, though the "
        text += "goal is allowed: give a goal that leads around, "
        found.add("warn", f"keep {name}", f"{text}a residual along the way a higher priority number, or another start")
        found.numbers["keeps"][name]["deadlocks"] = len(them)


def _held(rows: Rows, each: Ran) -> str:
    """The keep that holds a run at rest, though its goal is allowed; empty: none does."""
    n = max(2, int(LAST * len(each.answers)))
    residuals, active, states = each.residuals, each.part("active")[-n:], each.x[:, :-1]
    moved = np.ptp(states[-n * each.per :], axis=0)
    largest = np.abs(residuals).max(axis=0, initial=0.0)
    missed = np.abs(residuals[-1]) > LEFT * largest + 1e-6
    acting = np.flatnonzero((active > 0).mean(axis=0) > 0.5)
    if not (missed.any() and len(acting) and (moved <= STILL * np.ptp(states, axis=0) + ROUNDING).all()):
        return ""
    free = ran(keeping_nothing(each.loop))
    allowed = not free.fault and (free.margins[-1] >= rows.law.kept[2] - 1e-6).all()
    closer = np.abs(free.residuals[-1]) < np.abs(residuals[-1]) / 2
    return rows.names[acting[0]] if allowed and closer[missed].all() else ""
