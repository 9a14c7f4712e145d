"""Whether the inputs can realise a program: responses, ranks, conditions (docs/explanation/mathematics.md, eq. 8).

The inputs move the accelerations by R, v' = a0 + R tau, and the residuals by W = J R. Any wanted top derivatives can
be served exactly where rank W = n_s; relations between inputs, F tau = tau_0, are rows below W.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from servonode.arrays import Array
from servonode.controllers.engine.law import ServoLaw
from servonode.mechanics.description import Completion, MachineDescription, Quantity
from servonode.mechanics.machine import Machine, ParameterError

Case = Literal["determined", "completed", "incomplete", "overdetermined", "singular"]
SINGULAR = 1e8  # condition from which on rank is lost and the law gives up (CONDITION_LIMIT of law_source)
REACHED = 1e-10  # a row of W below this share of |J_i| |R| is not moved by the inputs
NO_ROW = 1e-12  # a row of J that never exceeds this is rounding: the passive constraints cancel it
HALVINGS = 50  # of the distance between two states
MOST_MOVES = (
    1000  # of a search for a worse state, which may creep along a singular surface that is oblique to the states
)
SIDE, SAME = 1e-5, 1e-6  # differences by the state, and what of them is rounding
FADED = 1e-8  # a row of J below this share of its largest is not scaled up any more


def responses(machine: Machine, times: Array, states: Array) -> Array:
    """R (n, n_v, n_tau), what a unit of each input adds to v', at states (n, n_x) with their times (n,) [s]."""
    d, kernel, c = machine.description, machine.kernel, machine.c
    rows = [d.state_names.index(name) for name in d.velocities]
    still = np.array(states)
    still[:, rows] = 0.0  # R depends on coordinates alone, and without a bias nothing cancels
    inputs = list(np.eye(machine.n_inputs + 1, machine.n_inputs, k=-1))  # none, then a unit of each
    rates = np.zeros((len(still), len(inputs), still.shape[1]))
    for t, x, found in zip(times.tolist(), still, rates, strict=True):
        for u, dx in zip(inputs, found, strict=True):
            kernel.derivatives(t, x, u, c, dx)
    accelerations = rates[:, :, rows].transpose(0, 2, 1)
    result: Array = accelerations[:, :, 1:] - accelerations[:, :, :1]
    return result


@dataclass(frozen=True)
class Sample:
    """W (with F below) at one state, its rows scaled to unit norm of J so that units do not decide.

    `condition` is sigma_max / sigma_min of the scaled rows, for a single one |R| / |W|. `direction` (n_rows,) is the
    left singular vector of sigma_min: the combination of rows that the inputs move least.
    """

    time: float  # s
    state: Array
    rank: int
    condition: float
    direction: Array
    decisive: tuple[int, ...] | None = None  # state entries on which the condition depends; None: not searched


@dataclass(frozen=True)
class Survey:
    """What W is over many states. Arrays have n_s entries: `reach` the largest |W_i| / (|J_i| |R|) of each row, 0
    where the passive constraints cancel it; `size` the largest |J_i|. `dependence` (n_rows,) is each row's largest
    share in `Sample.direction`. Without a state inside the program's domain only names and counts are there.
    """

    residuals: tuple[str, ...]
    relative_degrees: tuple[int, ...]
    inputs: tuple[str, ...]
    states: tuple[str, ...]
    count: int = 0
    outside: int = 0  # states that a guard refuses or where W is not finite
    lowest_rank: int = 0
    highest_rank: int = 0
    reach: Array = field(default_factory=lambda: np.zeros(0))
    size: Array = field(default_factory=lambda: np.zeros(0))
    dependence: Array = field(default_factory=lambda: np.zeros(0))
    worst: Sample | None = None
    crossing: Sample | None = None  # where det W changes its sign between states, although no condition tells so
    rolls: bool = False  # whether constraints on rates hold the machine
    same: bool = False  # whether the residuals themselves depend on each other, as functions of the state
    unreachable: str = ""  # why no derivative of the residuals will do, where that was found
    vanishing: tuple[str, ...] = ()  # parameters whose value 0 makes W singular at all states


@dataclass(frozen=True)
class Realisability:
    """Whether the inputs can realise the program, the case, a sentence, and the remedy (empty if realisable).

    `about` names the residual in question where there is a single one.
    """

    realisable: bool
    case: Case
    text: str
    remedy: str = ""
    about: str | None = None


def random_states(machine: MachineDescription, start: Array, rng: Generator, count: int, spread: float) -> Array:
    """States (count, n_x) within `spread` of `start` in every entry, no work; the minimal form admits them all."""
    states: Array = start + rng.uniform(-spread, spread, (count, len(start)))
    states[:, len(machine.state) :] = 0.0
    return states


def unsurveyed(law: ServoLaw) -> Survey:
    """A survey of no state: the names alone, enough where numbers of rows and inputs decide."""
    machine = law.machine.description
    names = tuple(each.name for each in law.description.residuals)
    return Survey(
        names,
        law.description.relative_degrees,
        machine.input_names,
        machine.state_names,
        rolls=machine.rolls,
        unreachable=law.description.unreachable,
    )


def survey(law: ServoLaw, states: Array, times: Array, goals: Array, search: bool = True) -> Survey:
    """Rank and condition of W, or of [W; F], at states (n, n_x) with their times (n,) [s] and goals y (n, n_y).

    F (n_rel, n_tau) are the coefficients of the program's relations. `search` moves from the worst state to worse
    ones, within the box that the states span: random states do not lie on a singular surface.

    Raises:
        ValueError: the program gives its inputs directly and has no W.
    """
    if law.description.explicit:
        raise ValueError(f"program {law.description.name} gives its inputs directly; there is no W to survey")
    inside, terms = _terms(law, times, states, goals)
    if not len(inside):
        return replace(unsurveyed(law), outside=len(states))
    lengths = _norms(terms.J)
    strengths = _sizes(terms.R)
    size: Array = lengths.max(axis=0)
    samples = _samples(terms, size)
    at = inside[int(np.argmax(samples.condition))]
    t, x, y, decisive = float(times[at]), states[at], goals[at], None
    if search:
        conditions = partial(_conditions, law, t, y=y, size=size)
        x, decisive = _search(conditions, x, states.min(axis=0), states.max(axis=0))
    worst = _sample(law, t, x, y, size, decisive)
    regular = search and worst.condition < SINGULAR
    reached = _norms(terms.W) / np.where(strengths > 0, strengths, np.inf)[:, None]
    n_rows, highest = samples.direction.shape[1], int(samples.rank.max())
    return replace(
        unsurveyed(law),
        count=len(inside),
        outside=len(states) - len(inside),
        lowest_rank=min(worst.rank, int(samples.rank.min())),
        highest_rank=highest,
        reach=np.max(reached / np.where(lengths > 0, lengths, 1.0), axis=0) * (size > NO_ROW),
        size=size,
        dependence=np.max(np.abs(samples.direction), axis=0),
        worst=worst,
        crossing=_crossing(law, terms, times[inside], states[inside], goals[inside]) if regular else None,
        vanishing=_vanishing(law, times, states, goals) if highest < n_rows else (),
        same=highest < n_rows and _same(law, t, states[at], y),
    )


def _same(law: ServoLaw, t: float, x: Array, y: Array) -> bool:
    """Whether the residuals are functions of each other: their derivatives by the state are dependent."""
    ahead, behind = (
        [law.evaluate(t, x + side * row, y).residuals.copy() for row in SIDE * np.eye(law.machine.n_state, len(x))]
        for side in (1, -1)
    )
    slopes = (np.array(ahead) - np.array(behind)).T / (2 * SIDE)
    return bool(np.isfinite(slopes).all() and np.linalg.matrix_rank(slopes, tol=SAME) < len(slopes))


def _vanishing(law: ServoLaw, times: Array, states: Array, goals: Array) -> tuple[str, ...]:
    """Parameters whose value is 0, and with another value of which, or of all of them, W is regular at some state."""

    def regular(names: Sequence[str]) -> bool:
        try:
            inside, terms = _terms(_with_values(law, names), times, states, goals)
        except ParameterError:  # it cannot have another value
            return False
        samples = _samples(terms, _norms(terms.J).max(axis=0)) if len(inside) else None
        return samples is not None and int(samples.rank.max()) == samples.direction.shape[1]

    values = law.machine.parameters | law.parameters
    zero = [name for name, value in values.items() if value == 0.0]
    return tuple(name for name in zero if regular([name])) or (tuple(zero) if regular(zero) else ())


def _with_values(law: ServoLaw, names: Sequence[str]) -> ServoLaw:
    """The law with other values than 0 of these parameters.

    Raises:
        ParameterError: the machine does not admit them.
    """

    def others(parameters: Sequence[Quantity]) -> dict[str, float]:
        return {each.name: each.default or 1.0 for each in parameters if each.name in names}

    machine = law.machine.with_parameters(others(law.machine.description.parameters))
    return law.on(machine).with_parameters(others(law.description.parameters))


@dataclass(frozen=True)
class _Terms:
    """Of a law at n states: J (n, n_s, n_v), R (n, n_v, n_tau), W (n, n_s, n_tau), F (n, n_rel, n_tau).

    Where unknowns are rates of integrators, W stands for J and 1 for R.
    """

    J: Array
    R: Array
    W: Array
    F: Array


@dataclass(frozen=True)
class _Samples:
    """Rank (n,), condition (n,) and direction (n, n_rows) at n states, see `Sample`."""

    rank: npt.NDArray[np.int64]
    condition: Array
    direction: Array


def _terms(
    law: ServoLaw, times: Array, states: Array, goals: Array, rows_alone: bool = False
) -> tuple[npt.NDArray[np.int64], _Terms]:
    """Which of the states are inside the domain of the program, and J, R, W, F there.

    rows_alone: R is 0 where no condition needs it.
    """
    n, answer = len(states), law.answer()
    found = {name: np.zeros((n, *one.shape)) for name, one in law.term_arrays().items()}
    good = np.zeros(n, dtype=bool)
    for i, (t, x, y) in enumerate(zip(times.tolist(), np.ascontiguousarray(states), goals, strict=True)):
        law.kernel.terms(t, x, y, law.c, *(each[i] for each in found.values()))
        good[i] = law.compute(t, x, y, answer) <= 0
    J, W, F = found["J"], found["W"], found["F"]
    inside = np.flatnonzero(good & np.isfinite(W.sum(axis=(1, 2))) & np.isfinite(J.sum(axis=(1, 2))))
    if law.description.extension and law.description.extension.integrators:  # not all unknowns are inputs
        return inside, _Terms(W[inside], np.tile(np.eye(W.shape[2]), (len(inside), 1, 1)), W[inside], F[inside])
    needed = not rows_alone or W.shape[1] == 1 or F.shape[1]
    R = responses(law.machine, times[inside], states[inside]) if needed else np.zeros((len(inside), 1, 1))
    return inside, _Terms(J[inside], R, W[inside], F[inside])


def _samples(terms: _Terms, size: Array) -> _Samples:
    strength = _sizes(terms.R)
    scale = np.maximum(_norms(terms.J), np.where(size > NO_ROW, FADED * size, 1.0))
    # relations are as heavy as a scaled row of W may be
    relations = terms.F * strength[:, None, None] / _norms(terms.F)[:, :, None]
    rows = np.concatenate([terms.W / scale[:, :, None], relations], axis=1)
    U, sigma, _ = np.linalg.svd(rows)
    largest = strength if rows.shape[1] == 1 else sigma[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        condition = largest / sigma[:, -1]
    return _Samples(
        rank=np.sum(sigma * SINGULAR > largest[:, None], axis=1),
        condition=np.where(sigma[:, -1] > 0, condition, np.inf),
        direction=U[:, :, sigma.shape[1] - 1],
    )


def _sample(law: ServoLaw, t: float, x: Array, y: Array, size: Array, decisive: tuple[int, ...] | None) -> Sample:
    """The sample at one state inside the program's domain."""
    there = _samples(_terms(law, np.array([t]), x[None], y[None])[1], size)
    return Sample(t, x, int(there.rank[0]), float(there.condition[0]), there.direction[0], decisive)


def _crossing(law: ServoLaw, terms: _Terms, times: Array, states: Array, goals: Array) -> Sample | None:
    """The state between two of n, inside the domain, at which det W becomes zero; None where it keeps its sign.

    Where the gradient of a residual fades together with W, as that of theta**2 does, the condition is that of the
    scaled row and does not rise.
    """
    found = _determinants(terms)
    if found is None or not (found.min() < 0 < found.max()):
        return None
    i, k = int(np.argmin(found)), int(np.argmax(found))
    x, y = (np.stack([each[i], each[k]]) for each in (states, goals))
    last = np.inf
    for _ in range(HALVINGS):
        middle, goal = x.mean(axis=0), y.mean(axis=0)
        between, there = _terms(law, times[i : i + 1], middle[None], goal[None])
        now = _determinants(there)
        if not len(between) or now is None:
            return None
        last, side = abs(now[0]), int(now[0] > 0)
        x[side], y[side] = middle, goal
    if last > FADED * min(found.max(), -found.min()):
        return None  # it jumps
    n_rows = there.W.shape[1]
    away = np.tile(x[1], (len(x[1]), 1)) + np.diag(np.ptp(states, axis=0)) / 4
    inside, beside = _terms(law, np.full(len(away), times[i]), away, np.tile(y[1], (len(away), 1)))
    change = _determinants(beside)
    large = FADED * found.max()
    decisive = tuple(inside[np.abs(change) > large].tolist()) if change is not None else None
    at = np.where(np.abs(x[1]) < 1e-9, 0.0, x[1])  # rounding of the halving
    return Sample(float(times[i]), at, n_rows - 1, np.inf, np.ones(n_rows), decisive)


def _determinants(terms: _Terms) -> Array | None:
    """Of [W; F] at n states, (n,); None where it is not square."""
    rows = np.concatenate([terms.W, terms.F], axis=1)
    if rows.shape[1] != rows.shape[2]:
        return None
    result: Array = np.linalg.det(rows)
    return result


def _norms(rows: Array) -> Array:
    """The norm of each row of matrices (n, k, m), as (n, k)."""
    result: Array = np.linalg.norm(rows, axis=2)
    return result


def _sizes(matrices: Array) -> Array:
    """The norm of each of n matrices, the root of its entries' squares."""
    flat = matrices.reshape(len(matrices), 1, -1)
    result: Array = np.sqrt(flat @ flat.transpose(0, 2, 1)).reshape(-1)
    return result


def _conditions(law: ServoLaw, t: float, states: Array, y: Array, size: Array) -> Array:
    """The condition at each of the states, at one time and goal; 0 outside the program's domain."""
    n = len(states)
    conditions = np.zeros(n)
    inside, terms = _terms(law, np.full(n, t), states, np.tile(y, (n, 1)), rows_alone=True)
    conditions[inside] = _samples(terms, size).condition
    return conditions


def _search(conditions: Callable[[Array], Array], x: Array, low: Array, high: Array) -> tuple[Array, tuple[int, ...]]:
    """Pattern search for the largest condition from a state on, inside a box: where, and the decisive entries."""
    best, share, moved = conditions(x[None])[0], 0.25, 0
    while share > 1e-12 and best < SINGULAR and moved < MOST_MOVES:
        moved += 1
        moves = np.diag(high - low)[high > low] * share
        near = np.clip(x + np.concatenate([moves, -moves]), low, high)
        found = conditions(near)
        if max(found, default=0.0) > best * (1 + 1e-9):
            best, x = found.max(), near[int(np.argmax(found))]
        else:
            share /= 2
    away = low + (high - low) * np.where(2 * x > low + high, 0.2, 0.8)
    changed = conditions(np.where(np.eye(len(x), dtype=bool), away, x))
    return x, tuple(i for i, each in enumerate(changed) if each < 0.99 * min(best, SINGULAR))


def realisability(
    survey: Survey, n_s: int, n_tau: int, n_relations: int = 0, completion: Completion = "none"
) -> Realisability:
    """The realisability of n_s servo-constraints and n_relations relations for n_tau inputs (README eq. 8).

    Raises:
        ValueError: ranks are needed, and the survey has none or is of a program with other relations.
    """
    n_rows, worst = n_s + n_relations, survey.worst
    counted = _count(survey, n_s, n_tau, n_relations, completion)
    if counted:
        return counted
    if worst is None:
        raise ValueError(
            f"none of {survey.outside} states is inside the program's domain; survey closer to the initial state"
        )
    if len(worst.direction) != n_rows:
        raise ValueError(f"the survey is not of a program with {n_relations} relations; survey that one")
    hows = {"least_norm": "the least norm", "ideal": "forces along their gradients"}
    how = (hows | {"posture": "a posture that yields to them"}).get(completion, "")
    how = _several(n_relations, "relation") if n_relations else how
    word = {"least_norm": "least_norm=True", "ideal": "ideal=True", "posture": "posture="}.get(completion, "")
    word = "relations=" if n_relations else word
    return _unreached(survey, word) or _rank(survey, worst, n_rows, word) or _fine(survey, worst, n_s == n_tau, how)


def _count(survey: Survey, n_s: int, n_tau: int, n_relations: int, completion: Completion) -> Realisability | None:
    wanted = f"{_several(n_s, 'servo-constraint')} ({', '.join(survey.residuals)})"
    wanted += f" and {_several(n_relations, 'relation')}" if n_relations else ""
    inputs = f"{_several(n_tau, 'input')} ({', '.join(survey.inputs)})"
    surplus = n_s + n_relations - n_tau
    if surplus > 0:
        text = f"{wanted} for {inputs}: {surplus} too many, they cannot all be realised unless they happen to agree"
        return Realisability(False, "overdetermined", text, f"leave out {surplus} of them")
    if surplus < 0 and completion == "none":
        text = f"{wanted} for {inputs}: {_several(-surplus, 'combination')} of the inputs left open"
        remedy = "complete the program: another residual (best, the motion is then determined; for example the speed), "
        remedy += f"a relation between {' and '.join(survey.inputs)}, or least_norm=True"
        return Realisability(False, "incomplete", text, remedy)
    return None


def _unreached(survey: Survey, completed: str) -> Realisability | None:
    """A residual that no input moves, at any state."""
    for name, r, reach, size in zip(survey.residuals, survey.relative_degrees, survey.reach, survey.size, strict=True):
        if reach < REACHED and size > NO_ROW:
            text = f"no input ({', '.join(survey.inputs)}) reaches derivative {r} of residual {name}"
            remedy = f"its relative degree is higher than {r}, or nothing moves it: write {name} with one rate more"
            if survey.unreachable:
                text, remedy = (
                    f"{text}; {survey.unreachable}",
                    f"in place of {name} choose an output that an input moves",
                )
            elif completed:
                text, remedy = f"{text}; {_not_extended(completed)}", _without(completed)
        elif reach < REACHED:
            text = f"residual {name} is fixed by the passive constraints: its row is a combination of theirs"
            remedy = f"leave {name} out: a servo-constraint can ask neither for nor against what they fix"
        else:
            continue
        return _because_of_zeros(survey, Realisability(False, "singular", text, remedy, name))
    return None


def _not_extended(completed: str) -> str:
    """The limit of programs that choose among the inputs."""
    return (
        f"with {completed} a residual is differentiated at most twice, and no integrators are looked for: the law "
        "does so only where there are as many residuals as inputs"
    )


def _without(completed: str) -> str:
    remedy = f"give as many residuals as inputs and leave out {completed}"
    if completed == "relations=":
        remedy += ", or let the machine have the relation: a single input that does the work of those it ties together"
    return remedy


def _rank(survey: Survey, worst: Sample, n_rows: int, completed: str) -> Realisability | None:
    """Rows that depend on each other, at all states or at some."""
    inputs = " and ".join(survey.inputs)
    if survey.highest_rank < n_rows:
        text = f"{_involved(survey, survey.dependence)} depend on each other at all {survey.count} states tried: "
        text += (
            f"{inputs} move them by {survey.highest_rank} combination(s) only, rank {survey.highest_rank} of {n_rows}"
        )
        remedy = f"choose another output, such that the inputs move {n_rows} of them"
        text += f"; {survey.unreachable}, so that no integrators help" if survey.unreachable else ""
        if survey.same:
            text += "; they are functions of each other"
            remedy = "leave out one of them, and give another output in its place"
        elif completed:
            text, remedy = f"{text}; {_not_extended(completed)}", f"{remedy}, or {_without(completed)}"
        if survey.rolls and not survey.same and set(survey.relative_degrees) == {2}:
            remedy += "; for the position of an axle take a look-ahead point"
        return _because_of_zeros(survey, Realisability(False, "singular", text, remedy))
    lost = f"{inputs} {'loses' if len(survey.inputs) == 1 else 'lose'} control of"
    if survey.lowest_rank < n_rows:
        text = f"{lost} {_involved(survey, np.abs(worst.direction))} at some states: condition "
        text += f"{worst.condition:.2g} at {_state(survey, worst)}"
        remedy = "complete the program otherwise (best with a residual for the speed), or keep away from such states"
        return Realisability(False, "singular", text, remedy)
    if survey.crossing is not None:
        text = f"{lost} {' and '.join(survey.residuals)} at some states: "
        text += f"the determinant of W changes its sign at {_state(survey, survey.crossing)}"
        return Realisability(False, "singular", text, "choose another output, or keep away from such states")
    return None


def _because_of_zeros(survey: Survey, found: Realisability) -> Realisability:
    """What is found, or that it is so because parameters are 0, for which no law has been derived."""
    if not survey.vanishing:
        return found
    names = " and ".join(survey.vanishing)
    them = "it" if len(survey.vanishing) == 1 else "them"
    remedy = (
        f"give {them} another value, or leave {them} out of the equations: the law is derived for values other than "
    )
    remedy += f"0, and finds the integrators that the inputs need without {them} only then; or {found.remedy}"
    return replace(found, text=f"{found.text}, because {names} = 0", remedy=remedy)


def _fine(survey: Survey, worst: Sample, determined: bool, how: str) -> Realisability:
    served = f"{', '.join(survey.residuals)} can be realised by {' and '.join(survey.inputs)}"
    found = f"condition at most {worst.condition:.3g}, at {_state(survey, worst)}"
    if determined:
        return Realisability(True, "determined", f"{served} uniquely; {found}")
    return Realisability(
        True, "completed", f"{served}, completed by {how}; what this leaves free is not controlled; {found}"
    )


def _involved(survey: Survey, share: Array) -> str:
    names = [*survey.residuals, *(f"relation {i + 1}" for i in range(len(share) - len(survey.residuals)))]
    return " and ".join(name for name, part in zip(names, share, strict=True) if part > 1e-6)


def _state(survey: Survey, worst: Sample) -> str:
    """`t = 0 s, phi = -4e-10`: the decisive entries, or all where nobody searched for them."""
    entries = range(len(survey.states)) if worst.decisive is None else worst.decisive
    return ", ".join([f"t = {worst.time:.3g} s", *(f"{survey.states[i]} = {worst.state[i]:.3g}" for i in entries)])


def _several(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"
