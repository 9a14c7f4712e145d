"""Checks of a model: what is wrong is refused with the line of the user's source and the remedy."""

from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import sympy

from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.mechanics.drawing import magnification
from servonode.mechanics.evaluate import GenericPoints, are_zero, at_states
from servonode.mechanics.model import Model
from servonode.mechanics.straight_line import along, auxiliaries_of
from servonode.mechanics.symbols import LONGEST_SIDE, before, time
from servonode.mechanics.trig_reduce import is_large, trig_reduce

Matrix = Any  # sympy.Matrix
Expr = Any
Stated = tuple[str, Expr, Place]  # what, its expression, where


def check_symbols(model: Model) -> None:
    """Every symbol of a model's expressions must be one of the model's own."""
    motion = {*model.state, *model.parameters, time, *(q.rate for q in model.coordinates)}
    energies = motion | {p.rate for p in model.parameters}
    known = energies | set(model.symbols)
    later = known | {v.rate for v in model.velocities} | {q.acceleration for q in model.coordinates}
    later |= {each.multiplier for each in model.constraints}
    later -= {q.acceleration for q in model.moved_by_reactions}  # the rate of a reaction is not known
    known -= {*model.inputs, *model.reactions, *(q.rate for q in model.moved_by_reactions)}
    of_inputs = {each.multiplier for each in model.constraints} | set(model.reactions)  # as no sensor measures
    coordinates, parameters = {*model.coordinates, *model.parameters, time}, set(model.parameters)
    allowed = dict.fromkeys(("kinetic", "potential", "dissipation", "bodies", "links"), energies)
    allowed |= dict.fromkeys(("constraints", "forces", "residuals", "safe"), known)
    allowed |= dict.fromkeys(("reactions", "acts_on"), motion) | {"inputs": motion | set(model.reactions)}
    allowed |= {"kinematics": known | set(model.reactions), "first_order": known | set(model.inputs)}
    allowed |= dict.fromkeys(("stabilised", "outputs", "warnings"), later) | {"sensors": later - of_inputs}
    allowed |= {"drawing": later | {magnification}, "trails": known | {magnification}}
    allowed |= {"identities": coordinates, "requirements": parameters}
    allowed |= {"jumps": {*model.state, *model.parameters, time, *map(before, model.state)}}
    allowed |= {"faults": (known if model.inputs else later) | set(model.assemblies)}
    for jump in model.jumps:
        strange = [symbol for symbol in jump.changes if symbol not in model.state]
        if strange:
            text = f"machine {model.name}: the jump {jump.description!r} sets {strange[0]}, which is not a state"
            raise ModelError(f"{text}; choose from {', '.join(symbol.name for symbol in model.state)}", jump.place)
    for word, what, stated, place in model.parts:
        if word in allowed:
            _refuse_unknown(model, what, stated, allowed[word], place)


def _refuse_unknown(model: Model, what: str, expression: Expr, symbols: set[Any], place: Place) -> None:
    """An expression must contain these symbols alone."""
    free = expression.free_symbols
    if what.startswith(("the fault", "the safe")) and free & set(model.inputs):
        text = f"machine {model.name}: {what} contains an input; use only states, rates and parameters"
        raise ModelError(text, place)
    unknown = sorted(symbol.name for symbol in free - symbols)
    if unknown and unknown[0] in {each.name for each in (*model.inputs, *model.reactions)}:
        text = f"machine {model.name}: {what} contains {unknown[0]}, which is not known there"
        text += "; use only states, rates and parameters"
        if what.startswith("the fault"):
            text += "; faults may contain reactions where the machine has no inputs"
        raise ModelError(text, place)
    if unknown:  # rates of parameters, which few machines need, are not offered
        choices = sorted({symbol.name for symbol in symbols - {p.rate for p in model.parameters}})
        raise ModelError(
            f"machine {model.name}: {what} contains {unknown[0]!r}, which the model does not list; "
            f"add it to the model or use one of {', '.join(choices)}",
            place,
        )


def check_speaks_in_rates(model: Model) -> None:
    """Energies and constraints must be given in rates: a velocity in them would count as a constant.

    Bodies, losses and inputs may contain velocities where there is no constraint whose multiplier would miss them.
    """
    words = {"kinetic", "potential", "constraints"}
    words |= {"bodies", "dissipation", "inputs", "acts_on"} if model.constraints else set()
    for word, what, stated, place in model.parts:
        wrong = stated.free_symbols & set(model.own_motions) if word in words else ()
        if wrong:
            name = min(symbol.name for symbol in wrong)
            raise ModelError(
                f"machine {model.name}: {what} contains the velocity {name}; write it in rates of coordinates "
                "such as x.rate (the kinematics say what these are in velocities)",
                place,
            )
    growing = set().union(*(rate.free_symbols for rate in model.first_order.values()))
    for i, (u, on) in enumerate(model.inputs.items()):
        if not sympy.sympify(on).free_symbols & set(model.motions) and not (on == 0 and u in growing):
            text = f"machine {model.name}: input {u.name} does work on no coordinate's rate; give one such as x.rate"
            text += f", or 0 for one that acts in first_order= alone ({{{u.name}: 0}})" if model.first_order else ""
            raise ModelError(text, model.place.argument("inputs", i))


def check_independent(model: Model, A: Matrix) -> None:
    """At a generic state no constraint follows from the others."""
    tried = at_generic_states(model, A)
    if not tried or not model.constraints or any(np.linalg.matrix_rank(rows) == len(rows) for rows in tried):
        return
    rows, names = tried[0], ", ".join(each.quantity.name for each in model.constraints)
    implied = next(i for i in range(len(rows)) if np.linalg.matrix_rank(rows[: i + 1]) <= i)
    text = f"machine {model.name}: the constraints {names} are redundant; leave out what others imply"
    raise ModelError(f"{text} ({model.constraints[implied].quantity.name})", model.constraints[implied].place)


def check_identities_hold(model: Model, rates: dict[Expr, Expr]) -> tuple[str, ...]:
    """The kinematics must keep each identity; those of which numbers say so, by name.

    `rates`: time and coordinates -> their rates along the motion.
    """
    by_numbers = []
    for i, (name, expression) in enumerate(model.identities.items()):
        left = left_over(along(expression, rates), model)
        if left != 0 and not vanishes(left, model):
            text = f"machine {model.name}: the kinematics do not keep the identity {name} (its rate is {_shown(left)})"
            raise ModelError(f"{text}; correct one of them", model.place.argument("identities", i))
        if left != 0:
            by_numbers.append(name)
    return tuple(by_numbers)


def left_over(expression: Expr, model: Model) -> Expr:
    """What is left of an expression that is meant to vanish; where a proof is too large or not known, all of it."""
    expression, constants = sympy.sympify(expression), set(model.parameters)
    is_straight_line = auxiliaries_of(expression) or is_large(expression, constants)  # or ought to be one
    return expression if is_straight_line else trig_reduce(expression, constants)


def reduced(expression: Expr, model: Model) -> Expr:
    """`left_over`, and 0 also where only numbers say that nothing is (see `vanishes`)."""
    return sympy.Integer(0) if vanishes(expression, model) else left_over(expression, model)


def vanishes(expression: Expr, model: Model) -> bool:
    """Whether numbers say that it vanishes where the identities hold, as that of a quaternion's norm (`are_zero`)."""
    for each in map(sympy.expand, model.identities.values()):
        squares = {q: sympy.expand(q**2 - each / (each.coeff(q, 2) or 1)) for q in model.coordinates}
        roots = [(q, sympy.sqrt(r)) for q, r in squares.items() if q in each.free_symbols - r.free_symbols]
        expression = sympy.sympify(expression).xreplace(dict(roots[:1]))
    return are_zero([expression])


def _shown(left: Expr) -> str:
    """An expression that does not vanish, as far as it can be read, and the largest of its values at random states."""
    if left.is_number:
        return str(left)
    found = max((value for (value,) in GenericPoints(real=False).values([left])), key=abs, default=None)
    text = "" if auxiliaries_of(left) or len(str(left)) > LONGEST_SIDE else f"{left}, "
    return f"{text}{'not finite' if found is None else mpmath.nstr(found, 3)} at a random state"


def check_inertia(model: Model, M_r: Matrix) -> None:
    """At a generic state every velocity has inertia; M_r is the minimal mass matrix."""
    tried = [np.linalg.eigh(_scaled(each)) for each in at_generic_states(model, M_r) if len(each)]
    if not tried or any(values[0] > 1e-12 * np.abs(values).max() for values, _ in tried):
        return
    weakest = tried[0][1][:, 0]
    links = {str(motion): f" (link {each.name})" for each in (model.tree.links if model.tree else ())
             for joint in each.joints for motion in joint.motions}  # fmt: skip
    weak = [v.name for v, part in zip(model.velocities, weakest, strict=True) if abs(part) > 1e-6]
    names = ", ".join(name + links.get(name, "") for name in weak)
    raise ModelError(
        f"machine {model.name}: a velocity among {names} has no inertia (the mass matrix is singular): no kinetic "
        "energy belongs to it, or no coordinate moves with it; give it mass, give kinematics= in which it moves "
        "a coordinate, or leave it out",
        model.place.argument("kinetic"),
    )


def _scaled(M: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A symmetric matrix with ones on its diagonal, where this is not zero: the same whatever the units are."""
    scale = np.sqrt(np.abs(np.diag(M)))
    scale[scale == 0.0] = 1.0
    scaled: npt.NDArray[np.float64] = (M + M.T) / 2 / np.outer(scale, scale)
    return scaled


def at_generic_states(model: Model, matrix: Matrix) -> list[npt.NDArray[np.float64]]:
    """The matrix at random states with default parameters, as far as it has a real value there."""
    ranges = ((0.2, 0.9), (1.1, 3.0), (-2.0, 2.0), (5.0, 20.0))
    moving = [*model.coordinates, *model.velocities]
    random = [np.random.default_rng(seed).uniform(*each, len(moving)) for seed, each in enumerate(ranges)]
    states = {p: np.full(len(ranges), p.quantity.default) for p in model.parameters} | {time: np.full(len(ranges), 0.3)}
    states |= dict(zip(moving, np.transpose(random), strict=True))
    for joint in model.tree.balls if model.tree else ():
        quaternion = np.array([states[q] for q in joint.coordinates])
        states |= dict(zip(joint.coordinates, quaternion / np.linalg.norm(quaternion, axis=0), strict=True))
    found = at_states(list(matrix), states).reshape(len(ranges), *matrix.shape)
    return [numbers for numbers in found if np.isfinite(numbers).all()]  # roots of negative numbers, divisions by zero


def check_constraints_hold(model: Model, A: Matrix, b: Matrix, G: Matrix, g0: Matrix) -> tuple[str, ...]:
    """The kinematics must satisfy each constraint: by a proof, or at random states with many digits.

    The names of those of which only numbers say so.
    """
    by_numbers = dict[str, None]()
    for i in range(0 if model.independent else len(model.constraints)):  # kinematics that were solved for satisfy them
        for entry in (*(A[i, :] * G), *(A[i, :] * g0 - b[i, :])):
            left = left_over(entry, model)
            if left != 0 and not vanishes(left, model):
                raise _broken(model, i, A, left)
            if left != 0:
                by_numbers[model.constraints[i].quantity.name] = None
    expected = len(model.coordinates) - len(model.constraints)
    if model.constraints and len(model.own_motions) != expected:
        raise ModelError(
            f"machine {model.name}: {len(model.coordinates)} coordinates less {len(model.constraints)} "
            f"constraints leave {expected} velocities, but {len(model.own_motions)} are given "
            f"({', '.join(v.name for v in model.own_motions)}): a constraint is redundant or missing",
            model.place.argument("constraints"),
        )
    return tuple(by_numbers)


def _broken(model: Model, i: int, A: Matrix, leftover: Expr) -> ModelError:
    """The error of a constraint that the kinematics do not satisfy."""
    each = model.constraints[i]
    own = {v.of for v in model.velocities}  # whose rates are velocities
    free = [q.name for q, factor in zip(model.coordinates, A[i, :], strict=True) if factor != 0 and q in own]
    if free:
        wanted = len(model.coordinates) - len(model.constraints)
        return ModelError(
            f"machine {model.name}: no kinematics are given for {', '.join(free)}, so their rates are free, which the "
            f"constraint {each.quantity.name} forbids; state kinematics={{{free[0]}: ..., ...}}, the rates as linear "
            f"expressions of {wanted} velocities, q' = G v, for which every constraint holds, or name as many "
            "coordinates in independent=",
            each.place,
        )
    return ModelError(
        f"machine {model.name}: the kinematics q' = G v do not satisfy the constraint "
        f"{each.quantity.name} (left over: {_shown(leftover)}); correct the row or the kinematics",
        each.place,
    )
