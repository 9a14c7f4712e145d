"""Known forces of a model: their checks, and what they add to the equations of motion."""

from itertools import chain
from typing import Any

import sympy

from servonode.errors import ModelError
from servonode.mechanics.differentiate import diff, gradient
from servonode.mechanics.model import Model
from servonode.mechanics.model_checks import at_generic_states, place_of
from servonode.mechanics.switches import SMOOTH, refuse_jumps, switches
from servonode.mechanics.symbols import Condition, time

Expr = Any
Matrix = Any  # sympy.Matrix
ROUNDING = 1e-9


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
    R, changing, place = sympy.sympify(model.dissipation), {*model.coordinates, time}, place_of(model, "dissipation")
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
