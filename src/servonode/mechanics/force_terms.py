"""Known forces of a model: their checks, and what they add to the equations of motion."""

from typing import Any

import sympy

from servonode.errors import ModelError
from servonode.mechanics.differentiate import diff, gradient
from servonode.mechanics.model import Model
from servonode.mechanics.model_checks import at_generic_states, place_of
from servonode.mechanics.switches import SMOOTH, refuse_jumps, switches
from servonode.mechanics.symbols import time

Expr = Any
Matrix = Any  # sympy.Matrix
ROUNDING = 1e-9


def check_forces(model: Model) -> None:
    """What does work does it on rates, in which it is linear; no force may jump, nor those of potential and losses.

    Raises:
        ModelError: one does not, or jumps.
    """
    still = dict.fromkeys(model.motions, sympy.Integer(0))
    does = [("forces", i, "a force", on) for i, (_, on) in enumerate(model.forces)]
    does += [(word, i, f"{word[:-1]} {each.name}", sympy.sympify(on)) for word in ("inputs", "reactions")
             for i, (each, on) in enumerate(getattr(model, word).items())]  # fmt: skip
    for word, i, what, on in does:
        slopes, place = gradient(on, list(still)), model.place.argument(word, i)
        text = f"machine {model.name}: {what} does work on {on}, "
        if any(each.free_symbols & still.keys() for each in slopes) or (word == "forces" and not any(slopes)):
            raise ModelError(f"{text}which is not linear in rates; give a rate such as x.rate", place)
        if word != "forces" and (rest := on.xreplace(still)) != 0:
            raise ModelError(f"{text}of which {rest} contains no rate and has no effect; leave it out", place)
    for i, (force, on) in enumerate(model.forces):
        refuse_jumps(f"machine {model.name}: the force on {on}", force, model.place.argument("forces", i), SMOOTH)
    by = [("potential", q, q.rate) for q in model.coordinates]
    by += [("dissipation", each, each) for each in model.motions]
    for word, symbol, motion in by:
        force = diff(getattr(model, word), symbol)
        if switches(force):
            what = f"machine {model.name}: the force of the {word} on {motion}"
            refuse_jumps(what, force, model.place.argument(word), SMOOTH)


def check_losses(model: Model) -> None:
    """No term of the dissipation is without rates, but one that makes it zero at rest, as in sqrt(v**2 + e**2) - e.

    Raises:
        ModelError: one is.
    """
    R, changing = sympy.sympify(model.dissipation), {*model.coordinates, time}
    at_rest = R.xreplace(dict.fromkeys(model.motions, sympy.Integer(0)))
    if not at_rest.free_symbols & changing:
        return
    terms = [each for each in sympy.Add.make_args(sympy.expand(R)) if not each.free_symbols & set(model.motions)]
    without = [each for each in terms if each.free_symbols & changing]
    values = at_generic_states(model, sympy.Matrix([at_rest, sympy.Add(*without)]))
    if without and any(abs(rest) > ROUNDING * abs(term) for rest, term in values):
        text = f"machine {model.name}: the term {without[0]} of the dissipation contains no rate, so it has no effect"
        raise ModelError(
            f"{text}; write losses as c*x.rate**2/2, stored energy as potential=", place_of(model, "dissipation")
        )


def gives_energy(model: Model) -> tuple[str, ...]:
    """A line on losses whose power has the wrong sign at random states, if it has."""
    power = sympy.Add(*(each * diff(model.dissipation, each) for each in model.motions)).xreplace(model.rates)
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
