"""What [controller] says of what is kept: what of it is derived, and the numbers by which a run keeps it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.launch_error import KeyRefused, check_names
from servonode.closed_loop.launch_keys import Controller, Keep
from servonode.closed_loop.near_states import DIFFERENCE, near_states, step_to
from servonode.controllers import ServoLaw
from servonode.controllers.engine.keeping import Keeping, KeepNumbers, StatedKeep
from servonode.mechanics import discrete
from servonode.mechanics.description import JOINT_LIMIT, Kept, Quantity
from servonode.mechanics.machine import Machine
from servonode.tables import several

SECTION = "controller.keep"
STATES, SPREAD = 60, 0.5  # random states, and how far from the initial state (m, rad, m/s, rad/s)
EASY = 0.1  # of the median: where velocities move a face less, nothing approaches it fast
SHARE = 0.5  # of the deceleration that the inputs' limits allow, which the barrier asks for
RANGE, SPEED = "range", "speed"
TRIED, WIDE, STEPS = 20, 2.0, 25  # states from which one that keeps all is looked for, how far away, steps from each
BEYOND, ROUNDING = 1.1, 1e-9  # a step goes so many times as far as the slope says
ENDS = {RANGE: (1e-3, 1e-3), SPEED: (5e-3, 1e-3)}  # margin and tolerance, of the whole range from end to end


def keeping_of(controller: Controller, machine: Machine) -> Keeping:
    """What is derived, for a machine; raises KeyRefused for an entry that cannot be."""
    stated = {}
    for name, each in controller.keeps.items():
        if not (name.isascii() and name.isidentifier()):
            text = "is not a valid name of a keep; use ASCII letters, digits and _, beginning with a letter"
            raise KeyRefused(SECTION, name, text)
        if each.expression is not None:
            stated[name] = StatedKeep(each.expression, each.priority or 1)
        elif each.priority is not None:
            text = "there is no expression beside it; give both, for a keep of the program has its own priority"
            raise KeyRefused(SECTION, f"{name}.priority", text)
    limits = controller.limits == "keep"
    if limits:
        stated = {name: StatedKeep(text) for name, text in _of_joints(machine)} | stated
    return Keeping(stated, controller.priority, limits, controller.conflict == "yield")


def _of_joints(machine: Machine) -> Iterator[tuple[str, str]]:
    """Name and expression of each range and speed of a joint that inputs move by themselves."""
    described, moved = machine.description, list(_moved(machine))
    ends = [set(each.names) for each in described.faults if each.name == JOINT_LIMIT]
    for q in moved:
        if {f"{q}_lower"} in ends and {f"{q}_upper"} in ends:
            yield f"{q}_{RANGE}", f"min({q}_upper - {q}, {q} - {q}_lower)"
    speeds = {each.name: each.rate_limit for each in described.state} if described.skeleton else {}
    for q in moved:
        if most := speeds.get(q):
            yield f"{q}_{SPEED}", f"min({most!r} - {q}_dot, {q}_dot + {most!r})"


def _moved(machine: Machine) -> Iterator[str]:
    """The coordinates whose rates do work with an input."""
    names, start = machine.description.state_names, machine.state({})
    for q in machine.description.coordinates:
        if (rate := f"{q}_dot") in machine.description.velocities:
            x = start.copy()
            x[[names.index(each) for each in machine.description.velocities]] = 0.0
            x[names.index(rate)] = 1.0
            if machine.input_rates(0.0, x).any():
                yield q


def with_keeping(
    law: ServoLaw, stated: Controller, timing: tuple[float, float], limits: tuple[float, ...], start: Array, y: Array
) -> ServoLaw:
    """The law with the numbers of what it keeps.

    timing: period [s] and delay [periods]. limits: the largest magnitude of each input. y: the goal at the start.

    Raises:
        KeyRefused: a margin is above the value at the start, or is of what is not kept.
    """
    described, inputs, most = law.description, law.machine.description.inputs, np.array(limits)
    if not described.keeps and stated.keep:
        text = f"program {described.name} keeps nothing whose numbers these could be; give the expression too"
        raise KeyRefused(SECTION, next(iter(stated.keep)), text)
    check_names(SECTION, stated.keep, [each.quantity.name for each in described.keeps])
    one_sided = [each for each in inputs if each.at_least is not None]
    if one_sided and not (described.limited or described.own):
        text = f"{one_sided[0].name} is at least {one_sided[0].at_least:g} {one_sided[0].unit}, which nothing would "
        raise KeyRefused("controller", "limits", f'{text}keep; give limits = "keep"')
    if not described.keeping:
        return law
    lower = least_inputs(inputs, most)
    bounds = (lower, most) if described.limited else (np.full(len(most), -np.inf), np.full(len(most), np.inf))
    keeps = described.keeps
    open_ = any(stated.keeps.get(each.quantity.name, Keep()).brake is each.brake is None for each in keeps)
    found = stopping(law, start, y, lower, most, STATES if open_ else 0) if keeps else []
    numbers, sizes = {}, _sizes(law.machine, stated)
    for each, (value, gives, _) in zip(keeps, found, strict=True):
        name, given = each.quantity.name, stated.keeps.get(each.quantity.name, Keep())
        brake = SHARE * gives if gives > 0.0 else np.inf
        numbers[name] = made = _numbers(each, given, timing, sizes.get(name), value, brake)
        if made.margin > max(value, 0.0) and value >= -made.tolerance:  # what is violated is refused as such
            unit = f" {each.quantity.unit}".removesuffix(" 1")
            text = f"{made.margin:g}{unit} is more than the value at the initial state, {value:.4g}{unit}; give less, "
            raise KeyRefused(SECTION, f"{name}.margin", f"{text}or start farther inside")
    return law.keeping(numbers, *bounds)


def _numbers(
    kept: Kept, given: Keep, timing: tuple[float, float], size: float | None, value: float, brake: float
) -> KeepNumbers:
    """The numbers of a keep: as given, else the program's, else what fits.

    size: of the range of a joint, else None. value: at the start. brake: that fits.
    """

    def first(*choices: float | None) -> float:
        return next(each for each in choices if each is not None)

    if given.brake is not None and 2 not in kept.degrees:
        text = f"its relative degree is {max(kept.degrees)}; only where that is 2 does a brake say anything: leave it "
        raise KeyRefused(SECTION, f"{kept.quantity.name}.brake", f"{text}out")
    rate = min((discrete.auto_rate(r, *timing) for r in kept.degrees if r), default=1.0)
    margin, tolerance = kept.margin, kept.tolerance
    if size is not None:
        margin, tolerance = (share * size for share in ENDS[kept.quantity.name.rpartition("_")[2]])
        margin = max(min(margin, value / 2), 0.0)
    return KeepNumbers(
        first(given.rate, kept.rate, rate),
        first(given.brake, kept.brake, brake),
        first(given.margin, margin),
        first(given.tolerance, tolerance),
    )


def _sizes(machine: Machine, stated: Controller) -> dict[str, float]:
    """The whole ranges, from end to end, of joints and their speeds that the law keeps, by keep."""
    found = dict[str, float]()
    most = {each.name: each.rate_limit or 0.0 for each in machine.description.state}
    for name, _ in _of_joints(machine) if stated.limits == "keep" else ():
        q, _, word = name.rpartition("_")
        if stated.keeps.get(name, Keep()).expression is None:
            ends = (machine.parameters[f"{q}_{end}"] for end in ("upper", "lower"))
            found[name] = 2 * most[q] if word == SPEED else next(ends) - next(ends)
    return found


class Stopping(NamedTuple):
    """What is known of a keep near the start.

    value: there, infinite where that depends on inputs. gives: the largest deceleration that inputs give wherever it is
    approached so fast that this just stops it, infinite where nothing is limited. at: the state where they give least.
    """

    value: float
    gives: float
    at: Array


def stopping(law: ServoLaw, start: Array, y: Array, lower: Array, upper: Array, count: int = STATES) -> list[Stopping]:
    """What inputs between these limits do for each keep: by so many states near the start, approached from there on."""
    keeps, described = law.description.keeps, law.machine.description
    plain = KeepNumbers(1.0, np.inf, 0.0, np.inf)  # by which a row of relative degree 2 is h'' + 2 h' + h >= 0
    law = law.keeping({each.quantity.name: plain for each in keeps}, lower, upper)
    faces = law.description.faces
    degrees = np.array([degree for _, degree in faces])
    velocities = [described.state_names.index(each) for each in described.velocities]

    def seen(x: Array) -> Array:
        """h, h' and the most h'' of each face."""
        rows = law.keep_rows(0.0, x, y)
        h, psi, b = rows.T[:3]
        return np.array([h, psi - h, most_of(rows[:, 4:], lower, upper) - b - 2.0 * psi + h])

    def keeps_all(found: Array) -> bool:
        return bool((found[0][degrees > 0] >= 0.0).all())

    def stops(k: int, distance: float) -> tuple[float, Array]:
        far = max(distance, min(float(h[k]) for _, (h, *_), _ in tried))
        near = [(x, h[k], speed[k], J[:, k], most[k]) for x, (h, speed, most), J in tried if h[k] <= far]
        easy = EASY * float(np.median([np.linalg.norm(each[3]) for each in near]))
        a = max(each[4] for each in near)
        weakest = a, start
        for _ in range(TRIED if 0.0 < a < np.inf else 0):
            weakest = np.inf, start
            for x, h, speed, J, _ in near:
                if (size := float(np.linalg.norm(J))) >= easy > 0.0:
                    at = x.copy()
                    at[velocities] -= (np.sqrt(2.0 * a * h) + speed) / size**2 * J
                    if keeps_all(found := seen(at)) and found[2][k] < weakest[0]:
                        weakest = float(found[2][k]), at
            if weakest[0] >= a * (1.0 - ROUNDING):
                return a, weakest[1]
            a = weakest[0] if weakest[0] > 0.0 else a / 2.0
        return weakest

    here, tried = seen(start), list[tuple[Array, Array, Array]]()
    for x in near_states(law.machine, start, np.random.default_rng(0), count if 2 in degrees else 0, SPREAD):
        if keeps_all(found := seen(x)):
            beside = [seen(x + side)[1] for side in DIFFERENCE * np.eye(len(x))[velocities]]
            tried.append((x, found, (np.array(beside) - found[1]) / DIFFERENCE))
    known = []
    for i in range(len(keeps)):
        own = [k for k, (keep, degree) in enumerate(faces) if keep == i and degree]
        value = min((float(here[0][k]) for k in own), default=np.inf)
        stopped = [stops(k, value) for k in own if degrees[k] == 2 and tried]
        known.append(Stopping(value, *min(stopped, key=lambda each: each[0], default=(np.inf, start))))
    return known


def least_inputs(inputs: Sequence[Quantity], most: Array) -> Array:
    """The least that each input may be, of which `most` is the largest magnitude."""
    least: Array = np.maximum(-most, [-np.inf if each.at_least is None else each.at_least for each in inputs])
    return least


def most_of(a: Array, lower: Array, upper: Array) -> Array:
    """The largest a tau of each row (n, n_tau) with inputs tau between these limits."""
    with np.errstate(invalid="ignore"):
        found: Array = np.where(a == 0.0, 0.0, np.where(a > 0.0, a * upper, a * lower)).sum(axis=1)
    return found


def approach(h: float, numbers: KeepNumbers) -> float:
    """alpha(h), the largest speed at which a barrier of relative degree 2 lets h fall."""
    k, brake = numbers.rate, numbers.brake
    return k * h if k * k * h <= brake else float(np.sqrt(brake * (2.0 * h - brake / k**2)))


def too_fast(law: ServoLaw, start: Array, y: Array) -> Iterator[tuple[str, str]]:
    """Each keep that the start approaches faster than its barrier allows, and what to say of it."""
    for (i, r), (h, psi, *_) in zip(law.description.faces, law.keep_rows(0.0, start, y).tolist(), strict=True):
        kept = law.description.keeps[i].quantity
        name, unit, own = kept.name, kept.unit, law.keep_numbers[kept.name]
        if r < 2 or psi >= -ROUNDING * (1.0 + abs(h) * own.rate):
            continue
        text = "the start is too fast for its barrier; start slower or farther away, or give a higher rate"
        if r == 2:
            allowed, k = approach(max(h, 0.0), own), own.rate
            speed = allowed - psi
            text = f"the start approaches it at {speed:.3g} {unit}/s, faster than the {allowed:.3g} of its barrier; "
            text += "start slower or farther away"
            if (left := h**2 - (speed / k) ** 2) > 0.0:
                brake = k**2 * (h - np.sqrt(left))
                text += f", or give brake = {1.01 * brake:.3g} if the inputs can give that"
        yield name, text


@np.errstate(invalid="ignore")
def where_kept(law: ServoLaw, start: Array, y: Array) -> str:
    """What else to say of a start that violates a keep: a state that keeps all, or which ones exclude each other."""
    described, keeps, violated = law.machine.description, law.description.keeps, np.zeros(0, int)
    of = np.array(law.description.faces)
    excluded = set[int]()

    def h(x: Array) -> Array:
        found: Array = law.keep_rows(0.0, x, y)[violated, 0]
        return found

    for x in (start, *near_states(law.machine, start, np.random.default_rng(0), TRIED, WIDE)):
        x, seen = law.machine.projected(0.0, x), list[set[int]]()
        for _ in range(STEPS):
            violated = np.flatnonzero((law.keep_rows(0.0, x, y)[:, 0] < -ROUNDING) & (of[:, 1] > 0))
            if not len(violated):
                changed = np.flatnonzero(np.abs(x - start)[:-1] > DIFFERENCE)
                return f", such as at {several(f'{described.state_names[i]} = {x[i]:.4g}' for i in changed)}"
            step = step_to(h, x, (1.0 - BEYOND) * h(x))
            if step is None:
                break
            x = law.machine.projected(0.0, x + step)
            seen.append({*of[violated, 0].tolist()})
        excluded = excluded or set().union(*seen[-5:])
    names = [keeps[i].quantity.name for i in sorted(excluded)]
    if len(names) < 2:
        return f"; no state was found near the start at which {several(names)} is kept"
    return f"; {several(names)} exclude each other: no state was found that keeps them all"
