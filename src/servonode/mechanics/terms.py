"""What forces, bodies in velocities, first-order states and trees add to a model's equations, and their checks.

README eq. 3b (bodies), 3d (first-order states), 3e (trees).
"""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import sympy

from servonode.definitions.progress import counted, doing
from servonode.errors import ModelError
from servonode.mechanics.evaluate import are_zero
from servonode.mechanics.model import Model
from servonode.mechanics.model_checks import at_generic_states, reduced
from servonode.mechanics.straight_line import Auxiliary, along, along_matrix, diff, gradient, named, symbols_of
from servonode.mechanics.switches import SMOOTH, refuse_jumps, switches
from servonode.mechanics.symbols import Body, Condition, FirstOrder, time

_OF_MOTION = {"kinetic", "potential", "dissipation", "bodies", "constraints", "kinematics"}
ROUNDING = 1e-9
Matrix = Any  # sympy.Matrix
Expr = Any
Square = tuple[Expr, Expr]  # c and u of a term c u^2


@dataclass(frozen=True)
class Momenta:
    """Additions to the minimal form: M (n_v, n_v), h (n_v,), B (n_v, n_tau + n_N) of inputs and reactions; kinetic
    energy; power [W] of losses in velocities and of masses that change with time.
    """

    M: Matrix
    h: Matrix
    B: Matrix
    kinetic: Expr
    power: Expr


def momenta(model: Model, rates: dict[Expr, Expr], in_velocities: dict[Expr, Expr]) -> Momenta:
    """What the bodies of a model, and losses and inputs as far as they are given in velocities, add.

    `rates`: time and coordinates -> their rates along the motion; `in_velocities`: rate symbols -> G v + g0.

    Raises:
        ModelError: the velocity of a body is not linear in the velocities, or its inertia does not turn with it.
    """
    v = list(model.velocities)
    M, h = sympy.zeros(len(v)), sympy.zeros(len(v), 1)
    kinetic, power = sympy.Integer(0), sympy.Integer(0)
    for each in model.bodies:
        _check_inertia_turns(model, each, rates, in_velocities)
        for motion, N in each.momenta:
            u = motion.xreplace(in_velocities)
            if not len(u):
                continue
            U = sympy.Matrix([gradient(each, v) for each in u])
            if U.free_symbols & set(v):
                text = f"machine {model.name}: the motion of body {each.name} must be linear in the velocities"
                raise ModelError(text, each.place)
            M += U.T * N * U
            h += U.T * along_matrix(N * u, rates)
            kinetic += (u.T * N * u)[0] / 2
            power -= (u.T * N.applyfunc(lambda entry: diff(entry, time)) * u)[0] / 2
    moving = set(model.own_motions)
    losses = [diff(model.dissipation, each) if each in moving else sympy.Integer(0) for each in v]
    on = [[diff(rate, each) if each in moving else 0 for rate in model.acting.values()] for each in v]
    B = sympy.Matrix(len(v), len(model.acting), [entry for row in on for entry in row])
    for state, rate in model.first_order.items():
        i = v.index(state)
        M[i, i] = sympy.Integer(1)  # its mass
        for k, slope in enumerate(gradient(rate, list(model.inputs))):
            B[i, k] = slope
    return Momenta(
        M=M,
        h=h + sympy.Matrix(len(v), 1, losses).xreplace(in_velocities),
        B=B,
        kinetic=kinetic,
        power=power - sympy.Add(*(each * loss for each, loss in zip(v, losses, strict=True))),
    )


def motions(model: Model) -> list[Square] | None:
    """The kinetic energy as sum of c u^2 of motions u that are rates of something; None where it is not stated so.

    Such a motion, as the velocity of a point along an axis, has du/dq = (du/dq')': Lagrange's equations of c u^2 are
    2 c (du/dq') u' then, of which the terms that would cancel are not even made. What holds at random values with many
    digits holds (`evaluate.are_zero`).
    """
    rates = [q.rate for q in model.coordinates]
    moving = {time: sympy.Integer(1), **dict(zip(model.coordinates, rates, strict=True))}
    squares = _squares(sympy.sympify(model.kinetic), frozenset(model.parameters))
    if squares is None:
        return None
    differences = [
        along(by_rate, moving) - by_place
        for _, u in squares
        for by_rate, by_place in zip(gradient(u, rates), gradient(u, model.coordinates), strict=True)
    ]
    return squares if are_zero(differences) else None


def _squares(kinetic: Expr, constants: frozenset[Expr]) -> list[Square] | None:
    """The terms c u^2 of a sum of constants times squares or such sums; None where it is something else."""
    found: list[Square] = []
    waiting = [(sympy.Integer(1), kinetic)]
    while waiting:
        factor, node = waiting.pop()
        fixed = [each for each in sympy.Mul.make_args(node) if symbols_of(each) <= constants]
        if fixed and node != 0:
            node = sympy.Mul(*(each for each in sympy.Mul.make_args(node) if each not in fixed))
            factor *= sympy.Mul(*fixed)
        if node.is_Add:
            waiting += [(factor, each) for each in node.args]
        elif isinstance(node, Auxiliary):
            waiting.append((factor, node.definition))
        elif all(each.is_Pow and each.exp == 2 for each in sympy.Mul.make_args(node)):
            found.append((factor, sympy.Mul(*(each.base for each in sympy.Mul.make_args(node)))))
        elif node != 0:
            return None
    return found


def by_motions(
    squares: list[Square], v: list[Expr], motion: dict[Expr, Expr], in_velocities: dict[Expr, Expr]
) -> tuple[Matrix, Matrix]:
    """What terms c u^2 of the kinetic energy add to M_r (n_v, n_v) and h_r (n_v,), see `motions`.

    `motion`: time and coordinates -> their rates along the motion; `in_velocities`: rate symbols -> G v + g0.
    """
    M, h = sympy.zeros(len(v)), sympy.zeros(len(v), 1)
    for factor, stated in counted("deriving", "motion of a body", squares):
        u = stated.xreplace(in_velocities)
        U = sympy.Matrix(gradient(u, v))
        M += U * (2 * factor * U.T)
        h += U * named(2 * factor * along(u, motion))
    return M, h


def _check_inertia_turns(model: Model, body: Body, rates: dict[Expr, Expr], in_velocities: dict[Expr, Expr]) -> None:
    """The inertia in axes that do not turn must change as the body turns, N' = [w] N - N [w], or energy appears."""
    w = body.angular_velocity.xreplace(in_velocities)
    change = along_matrix(body.inertia, {symbol: rate for symbol, rate in rates.items() if symbol != time})
    if len(w) == 3:
        cross = sympy.Matrix([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
        change -= cross * body.inertia - body.inertia * cross
    if any(reduced(entry, model) != 0 for entry in change):
        text = f"machine {model.name}: the inertia of body {body.name} does not turn with it; write it in axes that do"
        raise ModelError(f"{text} not turn, as i*eye(3) + (c - i)*n*n.T for a body of revolution about n", body.place)


@dataclass(frozen=True)
class TreeTerms:
    """M (n, n) and h (n, 1) in the tree's motions, the generalized kinetic energy, the power [W] of explicit time."""

    motions: list[Expr]
    M: Matrix
    h: Matrix
    kinetic: Expr
    power: Expr


def tree_terms(model: Model) -> TreeTerms:
    """The terms of the model's tree; none where it has no tree."""
    if model.tree is None:
        return TreeTerms([], sympy.zeros(0, 0), sympy.zeros(0, 1), sympy.Integer(0), sympy.Integer(0))
    doing("deriving", "links")
    program = model.tree.recursion
    motions = [each.symbol for each in program.motions]
    if data := model.tree.data:
        bias = data.entries("tree_bias", motions, [sympy.Integer(0)] * len(motions))
        return TreeTerms(motions, data.entries("tree_mass"), bias, model.tree.kinetic, sympy.Integer(0))
    kinetic, power = program.kinetic, sympy.Integer(0)
    if time in symbols_of(program.kinetic) | symbols_of(program.potential):
        momenta = gradient(kinetic, motions)
        power = named(diff(program.potential, time) - diff(kinetic, time))
        kinetic = named(sympy.Add(*(p * u for p, u in zip(momenta, motions, strict=True)), -kinetic))
    return TreeTerms(motions, program.mass_matrix, sympy.Matrix(len(motions), 1, program.bias), kinetic, power)


def in_rates(terms: TreeTerms, rates: list[Expr]) -> tuple[Matrix, Matrix]:
    """M (n_q, n_q) and h (n_q, 1) of a tree whose motions are rates."""
    M, h = sympy.zeros(len(rates), len(rates)), sympy.zeros(len(rates), 1)
    places = [rates.index(each) for each in terms.motions]
    for i, k in enumerate(places):
        h[k] = terms.h[i]
        for j, other in enumerate(places):
            M[k, other] = terms.M[i, j]
    return M, h


def projected(
    terms: TreeTerms, v: list[Expr], in_velocities: dict[Expr, Expr], moving: dict[Expr, Expr]
) -> tuple[Matrix, Matrix]:
    """M_r (n_v, n_v) and h_r (n_v, 1): U^T M U and U^T (h + M U' v) of motions u = U v.

    in_velocities: rates -> G v + g0; moving: time and coordinates -> their rates along the motion.
    """
    u = [each.xreplace(in_velocities) for each in terms.motions]
    U = sympy.Matrix(len(u), len(v), [entry for each in u for entry in gradient(each, v)])
    drift = sympy.Matrix(len(u), 1, [along(each, moving) for each in u])
    places = _order(U)
    if places and not any(drift):  # the motions are the velocities
        h = terms.h.xreplace(in_velocities)
        return terms.M.extract(places, places), h.extract(places, [0])
    return U.T * terms.M * U, U.T * (terms.h.xreplace(in_velocities) + terms.M * drift)


def _order(U: Matrix) -> list[int]:
    """By velocity: the motion that it is; empty where motions are more than velocities in another order."""
    rows = [[k for k, entry in enumerate(U.row(i)) if entry != 0] for i in range(U.rows)]
    if U.rows != U.cols or any(len(row) != 1 or U[i, row[0]] != 1 for i, row in enumerate(rows)):
        return []
    return sorted(range(U.rows), key=lambda i: rows[i][0])


def check_forces(model: Model) -> tuple[Condition, ...]:
    """What does work does it on rates, in which it is linear; no force and no rate of a first-order state may jump.

    The requirements on parameters, those included that follow, see `refuse_jumps`.

    Raises:
        ModelError: one does not, or jumps.
    """
    what, at = f"machine {model.name}: ", model.place.argument
    still = dict.fromkeys(model.motions, sympy.Integer(0))
    does = [("forces", i, "a force", on) for i, (_, on) in enumerate(model.forces)]
    for word in ("inputs", "reactions"):
        does += [(word, i, f"{word[:-1]} {u.name}", on) for i, (u, on) in enumerate(getattr(model, word).items())]
    for word, i, which, on in does:
        slopes, text = gradient(on, list(still)), f"{what}{which} does work on {on}, "
        if any(each.free_symbols & still.keys() for each in slopes) or (word == "forces" and not any(slopes)):
            raise ModelError(f"{text}which is not linear in rates; give a rate such as x.rate", at(word, i))
        if word != "forces" and (rest := sympy.sympify(on).xreplace(still)) != 0:
            raise ModelError(f"{text}of which {rest} contains no rate and has no effect; leave it out", at(word, i))
    stated = [(f"the force on {on}", force, at("forces", i)) for i, (force, on) in enumerate(model.forces)]
    rates = enumerate(model.first_order.items())
    stated += [(f"the rate of {state.name}", rate, at("first_order", i)) for i, (state, rate) in rates]
    by = [("potential", q, q.rate) for q in model.coordinates]
    by += [("dissipation", each, each) for each in model.motions]
    for word, symbol, motion in by:
        force = diff(getattr(model, word), symbol)
        stated += [(f"the force of the {word} on {motion}", force, at(word))] if switches(force) else []
    followed = [refuse_jumps(what + which, each, place, SMOOTH) for which, each, place in stated]
    return (*model.requirements, *chain(*followed))


def check_losses(model: Model) -> tuple[str, ...]:
    """No term of the dissipation is without rates, but one that makes it zero at rest, as in sqrt(v**2 + e**2) - e.

    The square of a rate relative to a belt, (v - w)**2, is one term.

    A line on losses whose power has the wrong sign at random states, if it has.

    Raises:
        ModelError: one is.
    """
    R, place = sympy.sympify(model.dissipation), model.place.argument("dissipation")
    changing = {*model.coordinates, time}
    at_rest = R.xreplace(dict.fromkeys(model.motions, sympy.Integer(0)))
    terms = sympy.Add.make_args(sympy.expand_mul(R)) if at_rest.free_symbols & changing else ()
    without = [each for each in terms if each.free_symbols & changing and not each.free_symbols & set(model.motions)]
    values = at_generic_states(model, sympy.Matrix([at_rest, sympy.Add(*without)])) if without else []
    if any(abs(rest) > ROUNDING * abs(term) for rest, term in values):
        text = f"machine {model.name}: the term {without[0]} of the dissipation contains no rate, so it has no effect"
        raise ModelError(f"{text}; write losses as c*x.rate**2/2, stored energy as potential=", place)
    power = sympy.Add(*(each * diff(R, each) for each in model.motions)).xreplace(model.rates)
    taken = [float(each[0, 0]) for each in at_generic_states(model, sympy.Matrix([power]))]
    if min(taken, default=0.0) >= -ROUNDING * max(map(abs, taken), default=0.0):
        return ()
    text = f"the dissipation gives energy at some states ({-min(taken):.3g} W at a random one), as in a self-excited"
    return (f"{text} machine; where it is meant to take energy, correct its sign",)


def generalized(model: Model, rates: list[Expr]) -> Matrix:
    """The generalized forces (n,) of the known forces, one for each of these rates."""
    slopes = [gradient(on, rates) for _, on in model.forces]
    pushed = [[force * slope for slope in row] for (force, _), row in zip(model.forces, slopes, strict=True)]
    return sympy.Matrix(len(rates), 1, [sympy.Add(*column) for column in zip(*pushed, strict=True)] or [0] * len(rates))


def check_first_order(model: Model) -> None:
    """Rates must be linear in the inputs; energies, kinematics and losses know these states not.

    Raises:
        ModelError: they do not obey.
    """
    own, what = set(model.first_order), f"machine {model.name}"
    for v in model.velocities:
        if isinstance(v, FirstOrder) and v not in own:
            text = f"{what}: the first-order state {v.name} has no rate; give it in first_order={{{v.name}: ...}}"
            raise ModelError(text, model.place.argument("first_order"))
    for i, (state, rate) in enumerate(model.first_order.items()):
        place = model.place.argument("first_order", i)
        if any(each.free_symbols & set(model.inputs) for each in gradient(rate, list(model.inputs))):
            text = f"{what}: the rate of {state.name} is not linear in the inputs; write it as a + b*u, and let the"
            raise ModelError(f"{text} function of the command be the input", place)
    still = dict.fromkeys(model.motions, sympy.Integer(0))
    for word, where, stated, place in model.parts:
        if word == "dissipation":
            where, stated = "the dissipation at rest", stated.xreplace(still)
        if word in _OF_MOTION and (strange := own & stated.free_symbols):
            text = f"{what}: {where} contains the first-order state {min(strange, key=str)}, which is no motion"
            raise ModelError(f"{text}; let it act by forces=, or in the rate of another first-order state", place)


def drifts(model: Model) -> Matrix:
    """The rates (n_v, 1) of first-order states without inputs, 0 of all velocities."""
    off = dict.fromkeys(model.inputs, sympy.Integer(0))
    rates = [sympy.sympify(model.first_order.get(v, 0)).xreplace(off) for v in model.velocities]
    return sympy.Matrix(len(rates), 1, rates)
