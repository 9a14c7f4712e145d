"""From a Model to its equations of motion, in full form with multipliers and in minimal form.

Full form, in the rates q' (README eq. 1):      M q'' + h = B tau + A^T Lambda,   A q'' = gamma.
Minimal form, in the velocities v (README eq. 3): M_r v' + h_r = B_r tau with q' = G v + g0 and A G = 0,
M_r = G^T M G, h_r = G^T [M (G' v + g0') + h], B_r = G^T B (Maggi's projection).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sympy

from servonode.definitions.progress import counted, doing
from servonode.errors import ModelError
from servonode.mechanics.equations import Equations, column, drift_of_kinematics
from servonode.mechanics.model import Model
from servonode.mechanics.model_checks import (
    check_constraints_hold,
    check_identities_hold,
    check_independent,
    check_inertia,
    check_speaks_in_rates,
    check_symbols,
)
from servonode.mechanics.reactions import check_reactions, check_rows
from servonode.mechanics.straight_line import (
    along,
    auxiliaries_of,
    diff,
    exact,
    gradient,
    in_parts,
    named,
    ordered,
    symbols_of,
)
from servonode.mechanics.switches import switches
from servonode.mechanics.symbols import Input, Rate, time
from servonode.mechanics.terms import (
    TreeTerms,
    by_motions,
    check_first_order,
    check_forces,
    check_losses,
    drifts,
    generalized,
    in_rates,
    momenta,
    motions,
    projected,
    tree_terms,
)
from servonode.mechanics.trig_reduce import is_large, trig_reduce

Matrix = Any  # sympy.Matrix
Expr = Any
Tidy = Callable[[Expr], Expr]  # how an entry of the equations is written
LONGEST = 1000  # operations of reduced equations, from which on a straight-line program may be shorter


def derive(model: Model) -> Equations:
    """The equations of motion of a model.

    Those of a machine whose kinetic energy is large (`trig_reduce.is_large`), or whose reduced sums would be longer,
    are straight-line programs: their entries contain auxiliary symbols (`straight_line`).

    Raises:
        ModelError: the kinetic energy is not quadratic in the rates, the kinematics are not linear in the
            velocities, a constraint is not linear in the rates or is not satisfied by the kinematics, or the
            constraints are redundant.
    """
    if _is_large(model):
        return _derived(model, large=True)
    reduced = _derived(model, large=False)
    if _operations(reduced) <= LONGEST:
        return reduced
    shortest = min(reduced, _derived(model, large=True), key=_operations)
    return replace(shortest, by_numbers=reduced.by_numbers)


def _operations(equations: Equations) -> int:
    """Of mass matrix and bias of the minimal form, definitions counted once."""
    entries = [*equations.M_r, *equations.h_r]
    return int(sum(map(sympy.count_ops, [*entries, *(each.definition for each in ordered(entries))])))


def _derived(stated: Model, large: bool) -> Equations:
    """The equations, multiplied out and reduced, or as straight-line programs."""
    model = _in_rates(stated, large)
    check_symbols(model)
    check_reactions(model)
    check_first_order(model)
    check_speaks_in_rates(model)
    required = check_forces(model)
    notes = (*stated.notes, *check_losses(stated))
    model = replace(_with_moving_potential(model), notes=notes, requirements=required)
    tidy: Tidy = named if large else partial(trig_reduce, constants=set(model.parameters))
    tree = tree_terms(model)
    full = _full_form(model, tree, tidy)
    doing("deriving", "constraints")
    check_independent(model, full.A)
    by_numbers = check_constraints_hold(model, full.A, full.b, full.G, full.g0)
    motion = _motion(model, full, large)
    by_numbers += check_identities_hold(model, motion.moving)
    doing("deriving", "minimal form")
    if model.independent and not large:
        tidy = sympy.sympify  # as stated: quotients would only grow
    equations = replace(_minimal_form(model, full, tree, motion, tidy), by_numbers=by_numbers)
    check_rows(equations)
    return equations


@dataclass(frozen=True)
class _Full:
    """The full form without disturbances and known forces, and the kinematics q' = G v + g0.

    by_forces (n_q, n_tau + n_reactions) is B of inputs, then of reactions. stated: M and h without the tree's.
    """

    rates: list[Expr]
    M: Matrix
    h: Matrix
    stated: tuple[Matrix, Matrix]
    by_forces: Matrix
    A: Matrix
    b: Matrix
    gamma: Matrix
    G: Matrix
    g0: Matrix


@dataclass(frozen=True)
class _Motion:
    """What moves how: rates -> velocities; time and coordinates -> their rates in velocities.

    `bias` is h + M (q'' - G v').
    """

    v: Matrix
    in_velocities: dict[Expr, Expr]
    moving: dict[Expr, Expr]
    bias: Matrix
    large: bool


@dataclass(frozen=True)
class _Forces:
    """Forces that are known beside inputs: Q (n_q,) on coordinates, Q_v (n_v,) on velocities, their power [W]."""

    Q: Matrix
    Q_v: Matrix
    power: Expr


def _in_rates(model: Model, large: bool) -> Model:
    """The model with exact numbers, its bodies in rates; of a large one in parts that have names.

    Rates of parameters are zero: those that vary have been replaced already.
    """
    if large:
        model = model.mapped(in_parts)  # before anything goes through its expressions by recursion
    at_rest = {Rate(p.name, order): sympy.Integer(0) for p in model.parameters for order in (1, 2)}

    def changed(stated: Expr) -> Expr:
        """Decimal numbers are fractions, so that 0.5*m*v**2 cancels as m*v**2/2 does; compiled they are as typed."""
        expression = stated.xreplace(at_rest)
        return expression.xreplace({each: exact(each) for each in expression.atoms(sympy.Float)})

    model = model.mapped(changed)
    known = [each for each in model.bodies if not each.free_symbols & set(model.velocities)]
    kinetic = sympy.Add(model.kinetic, *(each.kinetic for each in known))
    rest = tuple(each for each in model.bodies if each not in known)
    return replace(model, kinetic=in_parts(kinetic) if large else kinetic, bodies=rest)


def _with_moving_potential(model: Model) -> Model:
    """L = T - U with that part of U in T that contains rates: a generalized potential, as of a magnetic field."""
    U, rates = model.potential, [q.rate for q in model.coordinates]
    for term in sympy.Add.make_args(U) if U.free_symbols & set(rates) else ():
        second = [entry for slope in gradient(term, rates) for entry in gradient(slope, rates)]
        if (switches(term) and term.free_symbols & set(rates)) or set().union(*map(symbols_of, second)) & set(rates):
            text = f"machine {model.name}: the term {term} of the potential is not linear or quadratic in the rates"
            raise ModelError(f"{text}; state what it does by forces=", model.place.argument("potential"))
    at_rest = U.xreplace(dict.fromkeys(rates, sympy.Integer(0)))
    return model if at_rest == U else replace(model, kinetic=model.kinetic + at_rest - U, potential=at_rest)


def _full_form(model: Model, tree: TreeTerms, tidy: Tidy) -> _Full:
    rates = [q.rate for q in model.coordinates]
    M, h = stated = _euler_lagrange(model, rates, tidy)
    if tree.motions and not model.speaks_in_velocities:
        of_tree = in_rates(tree, rates)
        M, h = (M + of_tree[0]).applyfunc(tidy), (h + of_tree[1]).applyfunc(tidy)
    works_on = [sympy.sympify(on) for on in model.acting.values()]
    by_forces = sympy.Matrix(len(rates), len(works_on), [diff(on, rate) for rate in rates for on in works_on])
    return _Full(rates, M, h, stated, by_forces, *_constraint_rows(model, rates), *_kinematics(model))


def _motion(model: Model, full: _Full, large: bool) -> _Motion:
    v = column(model.velocities)
    in_velocities = model.rates if large else dict(zip(full.rates, full.G * v + full.g0, strict=True))
    moving = {time: sympy.Integer(1), **dict(zip(model.coordinates, in_velocities.values(), strict=True))}
    bias = full.M * drift_of_kinematics(model, full.G, full.g0, v) + full.h
    return _Motion(v, in_velocities, moving, bias, large)


def _minimal_form(model: Model, full: _Full, tree: TreeTerms, motion: _Motion, tidy: Tidy) -> Equations:
    in_velocities, n_tau = motion.in_velocities, len(model.inputs)
    extra = momenta(model, motion.moving, in_velocities)
    if model.speaks_in_velocities:
        M, h = projected(tree, list(motion.v), in_velocities, motion.moving)
        extra = replace(extra, M=extra.M + M, h=extra.h + h)
    _check_moved_by_velocities(model, full.g0)
    inertia, bias = _inertia_and_bias(model, full, tree, motion)
    M_r = (inertia + extra.M).applyfunc(tidy)
    check_inertia(model, M_r)
    forces = _known_forces(model, full, motion, extra.B)
    _check_moved_by_reactions(model, full.M, full.h - forces.Q, full.by_forces)
    power = sympy.Add(*(u * sympy.sympify(on) for u, on in model.acting.items()))  # of inputs and reactions
    power -= sympy.Add(*(rate * diff(model.dissipation, rate) for rate in full.rates))
    power += extra.power + _moving_constraints(model, full, motion.bias - forces.Q)
    power += diff(model.potential, time) - diff(model.kinetic, time) + tree.power  # of explicit time, -dL/dt
    h_r = (bias + extra.h).applyfunc(tidy) - (full.G.T * forces.Q).xreplace(in_velocities) - forces.Q_v
    h_r -= drifts(model).xreplace(in_velocities)
    forces_r = (full.G.T * full.by_forces + extra.B).applyfunc(tidy).xreplace(in_velocities)
    kinetic = (_generalized_kinetic(model, full.rates) + tree.kinetic).xreplace(in_velocities) + extra.kinetic
    return Equations(
        model=model,
        M=full.M,
        h=full.h - forces.Q,
        B=full.by_forces[:, :n_tau],
        A=full.A,
        b=full.b,
        gamma=full.gamma,
        G=full.G,
        g0=full.g0,
        M_r=M_r,
        h_r=h_r,
        B_r=forces_r[:, :n_tau],
        N_r=forces_r[:, n_tau:],
        kinetic=tidy(kinetic),
        potential=sympy.sympify(model.potential + model.tree.potential if model.tree else model.potential),
        power=tidy(power.xreplace(in_velocities)) + forces.power,
    )


def _inertia_and_bias(model: Model, full: _Full, tree: TreeTerms, motion: _Motion) -> tuple[Matrix, Matrix]:
    """M_r and h_r of the kinetic energy in rates; of a large machine by its motions, where it is a sum of squares."""
    if model.tree and model.tree.data and not model.speaks_in_velocities:
        M, h = full.stated
        of_tree = projected(tree, list(motion.v), motion.in_velocities, motion.moving)
        bias = M * drift_of_kinematics(model, full.G, full.g0, motion.v) + h
        return full.G.T * M * full.G + of_tree[0], full.G.T * bias.xreplace(motion.in_velocities) + of_tree[1]
    squares = motions(model) if motion.large and model.tree is None else None
    if squares is None:
        return full.G.T * full.M * full.G, full.G.T * motion.bias.xreplace(motion.in_velocities)
    inertia, bias = by_motions(squares, list(motion.v), motion.moving, motion.in_velocities)
    static = sympy.Matrix(_static_forces(model, full.rates))
    return inertia, bias + full.G.T * static.xreplace(motion.in_velocities)


def _known_forces(model: Model, full: _Full, motion: _Motion, on_velocities: Matrix) -> _Forces:
    """Disturbances and known forces. `on_velocities`: what inputs and reactions do on velocities themselves."""
    n_tau = len(model.inputs)
    pushed = sympy.Matrix(n_tau, 1, [model.disturbances.get(u, sympy.Integer(0)) for u in model.inputs])
    Q = full.by_forces[:, :n_tau] * pushed + generalized(model, full.rates)
    for name, force in model.disturbances.items():
        if not isinstance(name, Input):
            Q[model.coordinates.index(name)] += force
    Q_v = on_velocities[:, :n_tau] * pushed + generalized(model, list(motion.v))
    on_rates = sympy.Add(*(rate * force for rate, force in zip(full.rates, Q, strict=True)))
    own = (v * force for v, force in zip(motion.v, Q_v, strict=True) if v in model.own_motions)
    return _Forces(Q, Q_v, on_rates.xreplace(motion.in_velocities) + sympy.Add(*own))


def _check_moved_by_velocities(model: Model, g0: Matrix) -> None:
    """Energies in velocities know nothing of what moves by itself."""
    if model.speaks_in_velocities and any(entry != 0 for entry in g0):
        text = f"machine {model.name}: coordinates that move by themselves (q' = G v + g0 with g0 not zero) need "
        raise ModelError(
            f"{text}energies, losses and inputs in rates; write them so", model.place.argument("kinematics")
        )


def _check_moved_by_reactions(model: Model, M: Matrix, h: Matrix, by_forces: Matrix) -> None:
    """A coordinate whose rate is a reaction only follows: no inertia and no force may belong to it."""
    for i, q in enumerate(model.coordinates):
        if q in model.moved_by_reactions and (any(M[i, :]) or h[i] != 0 or any(by_forces[i, :])):
            text = f"machine {model.name}: {q.name} moves with a reaction, so energies, powers and forces must not"
            raise ModelError(f"{text} contain it; give them without {q.name}", model.place_of_kinematics(q))


def _is_large(model: Model) -> bool:
    """Whether one of the energies, or a rate, is large; the kinetic energy in velocities is what grows fastest."""
    if model.tree is not None or any(auxiliaries_of(each) for each in model.kinematics.values()):
        return True
    kinetic, constants = sympy.Add(model.kinetic, *(each.kinetic for each in model.bodies)), set(model.parameters)
    stated = [kinetic, model.potential, model.dissipation, *model.kinematics.values()]
    if any(is_large(sympy.sympify(each), constants) for each in stated):
        return True
    return is_large(kinetic.xreplace(model.rates), constants)


def _generalized_kinetic(model: Model, rates: list[Expr]) -> Expr:
    """T2 - T0, the kinetic part of the generalized energy; T itself where it is purely quadratic."""
    T, still = sympy.sympify(model.kinetic), dict.fromkeys(rates, sympy.Integer(0))
    momenta = gradient(T, rates)
    if T.xreplace(still) == 0 and all(p.xreplace(still) == 0 for p in momenta):
        return T
    return sympy.Add(*(p * rate for p, rate in zip(momenta, rates, strict=True))) - T


def _moving_constraints(model: Model, full: _Full, bias: Matrix) -> Expr:
    """Power of the constraint forces, Lambda^T b = g0^T (M q'' + h - B tau); `bias` is h + M (q'' - G v')."""
    if all(entry == 0 for entry in full.g0):
        return sympy.Integer(0)
    force = full.M * full.G * column([v.rate for v in model.velocities]) + bias
    if model.acting:
        force -= full.by_forces * column(model.acting)
    return (full.g0.T * force)[0]


def _euler_lagrange(model: Model, rates: list[Expr], tidy: Tidy) -> tuple[Matrix, Matrix]:
    """M (n_q, n_q) and h (n_q,) with d/dt dT/dq' - dT/dq + dU/dq + dR/dq' = M q'' + h."""
    T = sympy.sympify(model.kinetic)
    momenta = gradient(T, rates)
    rows = [gradient(p, rates) for p in counted("deriving", "row of the mass matrix", momenta)]
    M = sympy.Matrix(rows).applyfunc(tidy)
    unwanted = M.free_symbols & set(rates)
    if unwanted:
        raise ModelError(
            f"machine {model.name}: the kinetic energy is not quadratic in the rates "
            f"{', '.join(sorted(map(str, unwanted)))}; its second derivative still contains them: state it as a sum "
            "of inertia times products of two rates (potential energy and losses have arguments of their own)",
            model.place.argument("kinetic"),
        )
    moving = {time: sympy.Integer(1), **dict(zip(model.coordinates, rates, strict=True))}
    parts = list(zip(momenta, gradient(T, model.coordinates), _static_forces(model, rates), strict=True))
    bias = [
        tidy(along(p, moving) - slope + force) for p, slope, force in counted("deriving", "row of the full form", parts)
    ]
    return M, sympy.Matrix(bias)


def _static_forces(model: Model, rates: list[Expr]) -> list[Expr]:
    """dU/dq + dR/dq' (n_q,)."""
    slopes = zip(gradient(model.potential, model.coordinates), gradient(model.dissipation, rates), strict=True)
    return [slope + loss for slope, loss in slopes]


def _constraint_rows(model: Model, rates: list[Expr]) -> tuple[Matrix, Matrix, Matrix]:
    """A (n_c, n_q), b (n_c,) and gamma = b' - A' q' (n_c,)."""
    n = len(model.constraints)
    A, b, gamma = sympy.zeros(n, len(rates)), sympy.zeros(n, 1), sympy.zeros(n, 1)
    for i, each in enumerate(model.constraints):
        row = gradient(each.row, rates)
        if any(entry.free_symbols & set(rates) for entry in row):
            raise ModelError(
                f"machine {model.name}, constraint {each.quantity.name}: the row must be linear in the rates; "
                "a constraint on coordinates is given without rates, it is differentiated for you",
                each.place,
            )
        A[i, :] = sympy.Matrix([row])
        b[i] = -each.row.xreplace(dict.fromkeys(rates, sympy.Integer(0)))
        change = [diff(each.row, time)]
        change += [diff(each.row, q) * rate for q, rate in zip(model.coordinates, rates, strict=True)]
        gamma[i] = -sympy.Add(*change)
    return A, b, gamma


def _kinematics(model: Model) -> tuple[Matrix, Matrix]:
    """G (n_q, n_v) and g0 (n_q,) of q' = G v + g0."""
    rows, velocities = [], set(model.velocities)
    for q, rate in model.kinematics.items():
        row = gradient(rate, model.velocities)
        if any(sympy.sympify(entry).free_symbols & velocities for entry in row):
            text = f"machine {model.name}: the rate of {q.name} must be linear in the velocities, q' = G v + g0"
            raise ModelError(text, model.place_of_kinematics(q))
        strange = sorted(symbol.name for symbol in rate.free_symbols if isinstance(symbol, Rate))
        if strange:
            text = f"machine {model.name}: the rate of {q.name} contains {strange[0]}; write it in velocities"
            raise ModelError(text, model.place_of_kinematics(q))
        rows.append(row)
    still = dict.fromkeys(model.velocities, sympy.Integer(0))
    g0 = sympy.Matrix([sympy.sympify(rate).xreplace(still) for rate in model.kinematics.values()])
    return sympy.Matrix(len(rows), len(model.velocities), [entry for row in rows for entry in row]), g0
