"""Whether the inputs can realise a program: responses, ranks, conditions (mechanics/README.md, eq. 8).

The inputs move the accelerations by R, v' = a0 + R tau, and the residuals by W = J R. Any wanted top derivatives can
be served exactly where rank W = n_s; relations between inputs, F tau = tau_0, are rows below W.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from servonode.controllers.engine.law import ServoLaw
from servonode.mechanics.description import Completion, MachineDescription
from servonode.mechanics.machine import Machine

Array = npt.NDArray[np.float64]
Terms = tuple[Array, Array, Array, Array]  # J (n_s, n_v), R (n_v, n_tau), W (n_s, n_tau), F (n_rel, n_tau)
Case = Literal["determined", "completed", "incomplete", "overdetermined", "singular"]
SINGULAR = 1e8  # condition from which on rank is lost and the law gives up (CONDITION_LIMIT of law_source)
REACHED = 1e-10  # a row of W below this share of |J_i| |R| is not moved by the inputs
NO_ROW = 1e-12  # a row of J that never exceeds this is rounding: the passive constraints cancel it
FADED = 1e-8  # a row of J below this share of its largest is not scaled up any more


def response_by_projector(M: Array, A: Array, B: Array) -> Array:
    """R (n_q, n_tau) = M^-1 (I - A^T C^-1 A M^-1) B, C = A M^-1 A^T; M (n_q, n_q), A (n_c, n_q), B (n_q, n_tau).

    Raises:
        LinAlgError: M is singular, or rows of A are redundant.
    """
    free, held = np.linalg.solve(M, B), np.linalg.solve(M, A.T)
    result: Array = free - held @ np.linalg.solve(A @ held, A @ free)
    return result


def response_by_null_space(M: Array, A: Array, B: Array) -> Array:
    """The same R (n_q, n_tau) = Z (Z^T M Z)^-1 Z^T B, Z an orthonormal basis of the kernel of A; M may be singular.

    Raises:
        LinAlgError: M is singular on the kernel of A.
    """
    Z = np.linalg.svd(A)[2][np.linalg.matrix_rank(A) if len(A) else 0 :].T
    result: Array = Z @ np.linalg.solve(Z.T @ M @ Z, Z.T @ B)
    return result


def response(machine: Machine, t: float, x: Array) -> Array:
    """R (n_v, n_tau) of the minimal form, in velocities: what a unit of each input adds to v'."""
    d = machine.description
    rows = [d.state_names.index(name) for name in d.velocities]
    still = x.copy()
    still[rows] = 0.0  # R depends on coordinates alone, and without a bias nothing cancels
    free = machine.derivatives(t, still, np.zeros(machine.n_inputs))[rows]
    return np.column_stack([machine.derivatives(t, still, unit)[rows] - free for unit in np.eye(machine.n_inputs)])


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
    return Survey(names, law.description.relative_degrees, machine.input_names, machine.state_names)


def survey(law: ServoLaw, states: Array, times: Array, goals: Array, search: bool = True) -> Survey:
    """Rank and condition of W, or of [W; F], at states (n, n_x) with their times (n,) [s] and goals y (n, n_y).

    F (n_rel, n_tau) are the coefficients of the program's relations. `search` moves from the worst state to worse
    ones, within the box that the states span: random states do not lie on a singular surface.

    Raises:
        ValueError: the program states its inputs itself and has no W.
    """
    if law.description.explicit:
        raise ValueError(f"program {law.description.name} states its inputs itself; there is no W to survey")
    tried = [(t, x, y, _terms(law, t, x, y)) for t, x, y in zip(times, states, goals, strict=True)]
    inside = [(t, x, y, terms) for t, x, y, terms in tried if terms]
    if not inside:
        return replace(unsurveyed(law), outside=len(states))
    lengths = np.array([np.linalg.norm(J, axis=1) for *_, (J, *_) in inside])
    reached = np.array([np.linalg.norm(W, axis=1) / np.linalg.norm(R) for *_, (_, R, W, _) in inside])
    size: Array = lengths.max(axis=0)
    samples = [_sample(t, x, terms, size) for t, x, _, terms in inside]
    first = max(range(len(samples)), key=lambda i: samples[i].condition)
    worst = _search(law, samples[first], inside[first][2], size, states) if search else samples[first]
    return replace(
        unsurveyed(law),
        count=len(inside),
        outside=len(states) - len(inside),
        lowest_rank=min(worst.rank, *(each.rank for each in samples)),
        highest_rank=max(each.rank for each in samples),
        reach=np.max(reached / np.where(lengths > 0, lengths, 1.0), axis=0) * (size > NO_ROW),
        size=size,
        dependence=np.max([np.abs(each.direction) for each in samples], axis=0),
        worst=worst,
    )


def _terms(law: ServoLaw, t: float, x: Array, y: Array) -> Terms | None:
    """J, R, W at a state, or None outside the domain of the program."""
    x = np.ascontiguousarray(x)
    terms = law.terms(t, x, y)
    if law.evaluate(t, x, y).status > 0 or not np.isfinite([terms["W"].sum(), terms["J"].sum()]).all():
        return None
    return terms["J"], response(law.machine, t, x), terms["W"], terms["F"]


def _sample(t: float, x: Array, terms: Terms, size: Array) -> Sample:
    J, R, W, F = terms
    strength = np.linalg.norm(R)
    scale = np.maximum(np.linalg.norm(J, axis=1), np.where(size > NO_ROW, FADED * size, 1.0))
    relations = F * strength / np.linalg.norm(F, axis=1, keepdims=True)  # as heavy as a scaled row of W may be
    U, sigma, _ = np.linalg.svd(np.vstack([W / scale[:, None], relations]))
    largest = strength if len(U) == 1 else sigma[0]
    condition = float(largest / sigma[-1]) if sigma[-1] > 0 else np.inf
    return Sample(float(t), x, int(np.sum(sigma * SINGULAR > largest)), condition, U[:, len(sigma) - 1])


def _search(law: ServoLaw, sample: Sample, y: Array, size: Array, states: Array) -> Sample:
    """Pattern search for the largest condition from a sample on, at its time and goal, inside the states' box."""
    low, high, share = states.min(axis=0), states.max(axis=0), 0.25

    def condition(x: Array) -> float:
        terms = _terms(law, sample.time, x, y)
        return _sample(sample.time, x, terms, size).condition if terms else 0.0

    best, x = sample.condition, sample.state
    while share > 1e-12 and best < SINGULAR:
        moves = np.diag(high - low)[high > low] * share
        near = [np.clip(x + move, low, high) for move in [*moves, *-moves]]
        found = [condition(each) for each in near]
        if max(found, default=0.0) > best * (1 + 1e-9):
            best, x = max(found), near[int(np.argmax(found))]
        else:
            share /= 2
    away = low + (high - low) * np.where(2 * x > low + high, 0.2, 0.8)
    changed = [condition(np.where(row, away, x)) for row in np.eye(len(x), dtype=bool)]
    decisive = tuple(i for i, each in enumerate(changed) if each < 0.99 * min(best, SINGULAR))
    terms = _terms(law, sample.time, x, y)
    assert terms is not None
    return replace(_sample(sample.time, x, terms, size), decisive=decisive)


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
        raise ValueError(f"none of {survey.outside} states is inside the program's domain; survey nearer to its start")
    if len(worst.direction) != n_rows:
        raise ValueError(f"the survey is not of a program with {n_relations} relations; survey that one")
    how = {"least_norm": "the least norm", "ideal": "forces along their gradients"}.get(completion, "")
    how = _several(n_relations, "relation") if n_relations else how
    return _unreached(survey) or _rank(survey, worst, n_rows) or _fine(survey, worst, n_s == n_tau, how)


def _count(survey: Survey, n_s: int, n_tau: int, n_relations: int, completion: Completion) -> Realisability | None:
    wanted = f"{_several(n_s, 'servo-constraint')} ({', '.join(survey.residuals)})"
    wanted += f" and {_several(n_relations, 'relation')}" if n_relations else ""
    inputs = f"{_several(n_tau, 'input')} ({', '.join(survey.inputs)})"
    surplus = n_s + n_relations - n_tau
    if surplus > 0:
        text = f"{wanted} for {inputs}: {surplus} too many, they cannot all be served unless they agree by chance"
        return Realisability(False, "overdetermined", text, f"leave out {surplus} of them")
    if surplus < 0 and completion == "none":
        text = f"{wanted} for {inputs}: {_several(-surplus, 'combination')} of the inputs left open"
        remedy = "complete the program: another residual (best, the motion is then determined; for example the speed), "
        remedy += f"a relation between {' and '.join(survey.inputs)}, or least_norm=True"
        return Realisability(False, "incomplete", text, remedy)
    return None


def _unreached(survey: Survey) -> Realisability | None:
    """A residual that no input moves, at any state."""
    for name, r, reach, size in zip(survey.residuals, survey.relative_degrees, survey.reach, survey.size, strict=True):
        if reach < REACHED and size > NO_ROW:
            text = f"no input ({', '.join(survey.inputs)}) reaches derivative {r} of residual {name}"
            remedy = f"its relative degree is higher than {r}, or nothing moves it: state {name} with one rate more"
        elif reach < REACHED:
            text = f"residual {name} is fixed by the passive constraints: its row is a combination of theirs"
            remedy = f"leave {name} out: a servo-constraint can ask neither for nor against what they fix"
        else:
            continue
        return Realisability(False, "singular", text, remedy, name)
    return None


def _rank(survey: Survey, worst: Sample, n_rows: int) -> Realisability | None:
    """Rows that depend on each other, at all states or at some."""
    inputs = " and ".join(survey.inputs)
    if survey.highest_rank < n_rows:
        text = f"{_involved(survey, survey.dependence)} depend on each other at all {survey.count} states tried: "
        text += (
            f"{inputs} move them by {survey.highest_rank} combination(s) only, rank {survey.highest_rank} of {n_rows}"
        )
        remedy = "choose another output; for the place of an axle take a look-ahead point"
        return Realisability(False, "singular", text, remedy)
    if survey.lowest_rank < n_rows:
        text = f"{inputs} lose their hold of {_involved(survey, np.abs(worst.direction))} at some states: condition "
        text += f"{worst.condition:.2g} at {_state(survey, worst)}"
        remedy = "complete the program otherwise (best with a residual for the speed), or keep away from such states"
        return Realisability(False, "singular", text, remedy)
    return None


def _fine(survey: Survey, worst: Sample, determined: bool, how: str) -> Realisability:
    served = f"{', '.join(survey.residuals)} can be served by {' and '.join(survey.inputs)}"
    found = f"condition at most {worst.condition:.3g}, at {_state(survey, worst)}"
    if determined:
        return Realisability(True, "determined", f"{served}, in one way; {found}")
    return Realisability(
        True, "completed", f"{served}, completed by {how}; what this leaves free moves by itself; {found}"
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
