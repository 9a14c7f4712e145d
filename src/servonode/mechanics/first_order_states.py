"""States of a machine that are no motion, such as a motor's current: x' = a + b tau (README eq. 3d)."""

from collections.abc import Iterator
from typing import Any

import sympy

from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.mechanics.differentiate import gradient
from servonode.mechanics.model import Model
from servonode.mechanics.symbols import FirstOrder

Expr = Any
Matrix = Any  # sympy.Matrix
_ENERGIES = ("kinetic", "potential")


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
    for where, expression, place in _of_motion(model):
        if strange := own & expression.free_symbols:
            text = f"{what}: {where} contains the first-order state {min(strange, key=str)}, which is no motion"
            raise ModelError(f"{text}; let it act by forces=, or in the rate of another first-order state", place)


def _of_motion(model: Model) -> Iterator[tuple[str, Any, Place]]:
    """What is about motion alone: its name, its expression or what has symbols, where it is given."""
    yield from (
        (f"the {word} energy", sympy.sympify(getattr(model, word)), model.place.argument(word)) for word in _ENERGIES
    )
    still = dict.fromkeys(model.motions, sympy.Integer(0))
    yield (
        "the dissipation at rest",
        sympy.sympify(model.dissipation).xreplace(still),
        model.place.argument("dissipation"),
    )
    yield from ((f"the body {each.name}", each, each.place) for each in model.bodies)
    yield from ((f"the constraint {each.quantity.name}", each.row, each.place) for each in model.constraints)
    for q, rate in model.kinematics.items():
        yield f"the rate of {q.name}", sympy.sympify(rate), model.place_of_kinematics(q)


def extended(model: Model, M: Matrix, B: Matrix) -> tuple[Matrix, Matrix]:
    """The bodies' M (n_v, n_v) and B (n_v, n_tau + n_N), with a unit mass and the inputs' slopes in their rows."""
    M, B, inputs = M.copy(), B.copy(), list(model.inputs)
    for state, rate in model.first_order.items():
        i = model.velocities.index(state)
        M[i, i] = sympy.Integer(1)
        for k, slope in enumerate(gradient(rate, inputs)):
            B[i, k] = slope
    return M, B


def drifts(model: Model) -> Matrix:
    """The rates (n_v, 1) of first-order states without inputs, 0 of all velocities."""
    off = dict.fromkeys(model.inputs, sympy.Integer(0))
    rates = [sympy.sympify(model.first_order.get(v, 0)).xreplace(off) for v in model.velocities]
    return sympy.Matrix(len(rates), 1, rates)
