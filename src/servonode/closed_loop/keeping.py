"""What [controller] says of what is kept: what of it is derived, and the numbers by which a run keeps it."""

from collections.abc import Iterator, Sequence

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.launch_error import KeyRefused, check_names
from servonode.closed_loop.launch_keys import Controller, Keep
from servonode.controllers import ServoLaw
from servonode.controllers.engine import realize
from servonode.controllers.engine.keeping import Keeping, KeepNumbers, StatedKeep
from servonode.mechanics import discrete
from servonode.mechanics.description import JOINT_LIMIT, Kept, Quantity
from servonode.mechanics.machine import Machine
from servonode.tables import several

SECTION = "controller.keep"
STATES, SPREAD, NEARLY, FEW = 150, 0.5, 0.1, 5  # random states, and how far from the initial state (m, rad, m/s, rad/s)
SHARE = 0.5  # of the deceleration that the inputs' limits allow, which the barrier asks for
RANGE, SPEED = "range", "speed"
TRIED, WIDE, STEPS = 20, 2.0, 25  # states from which one that keeps all is looked for, how far away, steps from each
BEYOND, DIFFERENCE, ROUNDING = 1.1, 1e-6, 1e-9  # a step goes so many times as far as the slope says
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


def _check_numbers(controller: Controller, law: ServoLaw) -> None:
    """Refuse numbers of what the law does not keep."""
    kept = [each.quantity.name for each in law.description.keeps]
    if not kept and controller.keep:
        text = f"program {law.description.name} keeps nothing whose numbers these could be; give the expression too"
        raise KeyRefused(SECTION, next(iter(controller.keep)), text)
    check_names(SECTION, controller.keep, kept)


def with_keeping(
    law: ServoLaw, stated: Controller, timing: tuple[float, float], limits: tuple[float, ...], start: Array, y: Array
) -> ServoLaw:
    """The law with the numbers of what it keeps.

    timing: period [s] and delay [periods]. limits: the largest magnitude of each input. y: the goal at the start.

    Raises:
        KeyRefused: a margin is above the value at the start, or is of what is not kept.
    """
    described, inputs, most = law.description, law.machine.description.inputs, np.array(limits)
    _check_numbers(stated, law)
    one_sided = [each for each in inputs if each.at_least is not None]
    if one_sided and not (described.limited or described.own):
        text = f"{one_sided[0].name} is at least {one_sided[0].at_least:g} {one_sided[0].unit}, which nothing would "
        raise KeyRefused("controller", "limits", f'{text}keep; give limits = "keep"')
    if not described.keeping:
        return law
    lower = least_inputs(inputs, most)
    bounds = (lower, most) if described.limited else (np.full(len(most), -np.inf), np.full(len(most), np.inf))
    keeps = described.keeps
    plain = {each.quantity.name: KeepNumbers(1.0, np.inf, 0.0, each.tolerance) for each in keeps}
    unstated = [stated.keeps.get(each.quantity.name, Keep()).brake is each.brake is None for each in keeps]
    found = _found(law.keeping(plain, *bounds), start, y, lower, most, unstated) if keeps else []
    numbers, sizes = {}, _sizes(law.machine, stated)
    for each, (value, brake) in zip(keeps, found, strict=True):
        name, given = each.quantity.name, stated.keeps.get(each.quantity.name, Keep())
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
        text = (
            f"its relative degree is {max(kept.degrees)}; only where that is 2 does a brake say anything: leave it out"
        )
        raise KeyRefused(SECTION, f"{kept.quantity.name}.brake", text)
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


def _found(
    law: ServoLaw, start: Array, y: Array, lower: Array, upper: Array, wanted: Sequence[bool]
) -> list[tuple[float, float]]:
    """Of each keep its value at the start, infinite where that depends on inputs, and, if wanted, the brake that fits.

    law: with rates 1, no brakes and no margins, so that a row of relative degree 2 is h'' + 2 h' + h >= 0. The brake is
    a share of the largest deceleration that inputs between lower and upper give at random states near the start that
    have all kept and are just stopped by it, see `_stops`.
    """
    degrees = np.array([r for each in law.description.keeps for r in each.degrees])
    rows = law.keep_rows(0.0, start, y)
    second = (degrees == 2) & np.array(wanted)[rows[:, 3].astype(int)]
    tried, machine = [], law.machine
    states = realize.random_states(machine.description, start, np.random.default_rng(0), STATES, SPREAD)
    for x in states if second.any() else ():
        h, psi, b, _, *A = law.keep_rows(0.0, machine.projected(0.0, x), y).T
        pull = np.array(A).T
        if (h[degrees > 0] >= 0.0).all():
            tried.append((h, psi - h, most_of(pull, lower, upper) - b - 2.0 * psi + h))
    approaches, found = np.array(tried).reshape(-1, 3, len(degrees)), []  # none where the start keeps nothing
    for i in range(len(law.description.keeps)):
        own = rows[:, 3] == i
        value = float(np.min(rows[own & (degrees > 0), 0], initial=np.inf))
        brake = SHARE * min((_stops(approaches[:, :, k]) for k in np.flatnonzero(own & second)), default=np.inf)
        found.append((value, brake))
    return found


def _stops(states: Array) -> float:
    """The largest deceleration that inputs give wherever it just stops: at each of the states h, h', most h'' (n, 3)
    with h'^2 between NEARLY and all of 2 h times it. Where FEW are that fast, the least of those which they stop;
    infinite without any such state.
    """
    h, speed, most = states.T
    with np.errstate(invalid="ignore"):
        need = np.minimum(speed, 0.0) ** 2 / (2 * h)
        for each in np.sort(most[most > 0.0])[::-1].tolist():
            near = (need >= NEARLY * each) & (need <= each)
            if near.sum() > FEW and (most[near] >= each).all():
                return float(each)
    return float(np.min(most[(most > 0.0) & (need <= most)], initial=np.inf))


def least_inputs(inputs: Sequence[Quantity], most: Array) -> Array:
    """The least that each input may be, of which `most` is the largest magnitude."""
    least: Array = np.maximum(-most, [-np.inf if each.at_least is None else each.at_least for each in inputs])
    return least


def most_of(a: Array, lower: Array, upper: Array) -> Array:
    """The largest a tau of each row (n, n_tau) with inputs tau between these limits."""
    with np.errstate(invalid="ignore"):
        found: Array = np.where(a == 0.0, 0.0, np.where(a > 0.0, a * upper, a * lower)).sum(axis=1)
    return found


def approach(h: float, numbers: KeepNumbers) -> tuple[float, float]:
    """alpha(h), the largest speed at which a barrier of relative degree 2 lets h fall, and its slope by h."""
    k, brake = numbers.rate, numbers.brake
    if k * k * h <= brake:
        return k * h, k
    speed = float(np.sqrt(brake * (2.0 * h - brake / k**2)))
    return speed, brake / speed


def too_fast(law: ServoLaw, start: Array, y: Array) -> Iterator[tuple[str, str]]:
    """Each keep that the start approaches faster than its barrier allows, and what to say of it."""
    numbers = law.keep_numbers
    faces = [(each, r) for each in law.description.keeps for r in each.degrees]
    for (each, r), (h, psi, *_) in zip(faces, law.keep_rows(0.0, start, y).tolist(), strict=True):
        name, unit, own = each.quantity.name, each.quantity.unit, numbers[each.quantity.name]
        if r < 2 or psi >= -ROUNDING * (1.0 + abs(h) * own.rate):
            continue
        text = "the start is too fast for its barrier; start slower or farther away, or give a higher rate"
        if r == 2:
            allowed, _ = approach(max(h, 0.0), own)
            speed, k = allowed - psi, own.rate
            text = (
                f"the start approaches it at {speed:.3g} {unit}/s, faster than the {allowed:.3g} of its barrier; start "
            )
            text += "slower or farther away"
            if (left := h**2 - (speed / k) ** 2) > 0.0:
                brake = k**2 * (h - np.sqrt(left))
                text += f", or give brake = {1.01 * brake:.3g} if the inputs can give that"
        yield name, text


@np.errstate(invalid="ignore")
def where_kept(law: ServoLaw, start: Array, y: Array) -> str:
    """What else to say of a start that violates a keep: a state that keeps all, or which ones exclude each other."""
    described, keeps = law.machine.description, law.description.keeps
    of = [(i, r) for i, each in enumerate(keeps) for r in each.degrees]
    moved = np.array([r > 0 for _, r in of])
    rng, excluded = np.random.default_rng(0), set[int]()
    for x in (start, *realize.random_states(described, start, rng, TRIED, WIDE)):
        x, seen = law.machine.projected(0.0, x), list[set[int]]()
        for _ in range(STEPS):
            lack = np.maximum(-law.keep_rows(0.0, x, y)[:, 0], 0.0) * moved
            violated = np.flatnonzero(lack > ROUNDING)
            if not len(violated):
                changed = np.flatnonzero(np.abs(x - start)[:-1] > DIFFERENCE)
                return f", such as at {several(f'{described.state_names[i]} = {x[i]:.4g}' for i in changed)}"
            sides = DIFFERENCE * np.eye(len(x))[:-1]
            beside = np.array([law.keep_rows(0.0, x + side, y)[violated, 0] for side in sides]).T
            slopes = (beside + lack[violated, None]) / DIFFERENCE  # h is -lack here
            if not np.isfinite(slopes).all():
                break
            step = np.linalg.lstsq(slopes, BEYOND * lack[violated], rcond=1e-9)[0]
            x = law.machine.projected(0.0, x + np.append(step, 0.0))
            seen.append({of[face][0] for face in violated})
        excluded = excluded or set().union(*seen[-5:])
    names = [keeps[i].quantity.name for i in sorted(excluded)]
    if len(names) < 2:
        return f"; no state was found near the start at which {several(names)} is kept"
    return f"; {several(names)} exclude each other: no state was found that keeps them all"
