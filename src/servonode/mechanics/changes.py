"""Changes of a machine by a launch file: parameters that are functions of time, and disturbances.

Both enter the Lagrangian before the derivation, so that l(t) brings l' and l'' into the equations, and a disturbance
does its work in the energy balance.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from servonode.errors import ModelError
from servonode.mechanics.expression import ExpressionError, parse

Texts = Mapping[str, str | float]
Kind = Literal["varying", "disturbance"]


@dataclass(frozen=True)
class Changes:
    """Expressions by name: `varying` parameters as functions of t, `disturbance` forces as functions of t and state."""

    varying: Texts = field(default_factory=dict)
    disturbance: Texts = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.varying or self.disturbance)


class ChangeError(ModelError):
    """A change that the machine cannot take."""

    def __init__(self, kind: Kind, name: str, text: str) -> None:
        super().__init__(text)
        self.section = "plant.parameters" if kind == "varying" else "plant.disturbance"
        self.key = name


def changed(model: Any, changes: Changes) -> Any:
    """The Model with the changes made.

    Raises:
        ChangeError: a name that the model does not have, or a text that is not an expression of what it may contain.
    """
    from servonode.mechanics.symbols import Rate, time

    parameters = {each.name: each for each in model.parameters}
    varying = {
        _known("varying", name, parameters, "parameter"): _expression("varying", name, text, {"t": time}, order=2)
        for name, text in changes.varying.items()
    }
    rates = {
        Rate(each.name, order): function.diff(time, order) for each, function in varying.items() for order in (1, 2)
    }
    model = replace(model.mapped(lambda expression: expression.xreplace({**varying, **rates})), varying=varying)
    pushed = {each.name: each for each in (*model.coordinates, *model.inputs)}
    symbols = {"t": time} | {each.name: each for each in (*model.state, *model.parameters)}
    disturbances = {
        _known("disturbance", name, pushed, "coordinate or input"): _expression("disturbance", name, text, symbols)
        for name, text in changes.disturbance.items()
    }
    disturbances = {name: force.xreplace(varying) for name, force in disturbances.items()}
    return replace(model, disturbances=disturbances)


def _known(kind: Kind, name: str, known: Mapping[str, Any], word: str) -> Any:
    if name not in known:
        raise ChangeError(kind, name, f"the machine has no {word} of this name; choose {', '.join(sorted(known))}")
    return known[name]


def _expression(kind: Kind, name: str, text: str | float, symbols: Mapping[str, Any], order: int = 0) -> Any:
    import sympy

    try:
        expression = parse(text, tuple(symbols))
        expression.require_derivatives(order, name)
        return sympy.sympify(expression.sympy(symbols))
    except ExpressionError as error:
        raise ChangeError(kind, name, str(error)) from error
