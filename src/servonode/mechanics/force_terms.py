"""Known forces of a model: their checks, and what they add to the equations of motion."""

from typing import Any

import sympy

from servonode.errors import ModelError
from servonode.mechanics.differentiate import diff, gradient
from servonode.mechanics.model import Model
from servonode.mechanics.switches import SMOOTH, refuse_jumps, switches

Expr = Any
Matrix = Any  # sympy.Matrix


def check_forces(model: Model) -> None:
    """Each force must do work on a rate, in which it is linear; no force may jump, nor those of potential and losses.

    Raises:
        ModelError: one does not, or jumps.
    """
    rates = model.motions
    for i, (force, on) in enumerate(model.forces):
        place, slopes = model.place.argument("forces", i), gradient(on, rates)
        if not any(slopes) or any(each.free_symbols & set(rates) for each in slopes):
            text = f"machine {model.name}: a force does work on {on}, which is not linear in rates"
            raise ModelError(f"{text}; give a rate such as x.rate", place)
        refuse_jumps(f"machine {model.name}: the force on {on}", force, place, SMOOTH)
    for q in model.coordinates:
        for word, by in (("potential", q), ("dissipation", q.rate)):
            force = diff(getattr(model, word), by)
            if switches(force):
                refuse_jumps(
                    f"machine {model.name}: the force of the {word} on {q.rate}",
                    force,
                    model.place.argument(word),
                    SMOOTH,
                )


def generalized(model: Model, rates: list[Expr]) -> Matrix:
    """The generalized forces (n,) of the known forces, one for each of these rates."""
    slopes = [gradient(on, rates) for _, on in model.forces]
    pushed = [[force * slope for slope in row] for (force, _), row in zip(model.forces, slopes, strict=True)]
    return sympy.Matrix(len(rates), 1, [sympy.Add(*column) for column in zip(*pushed, strict=True)] or [0] * len(rates))
