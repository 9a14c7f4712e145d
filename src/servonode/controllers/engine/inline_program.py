"""A program stated in the launch file itself: residuals as expressions, without a Python file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from servonode.definitions.references import Option
from servonode.definitions.source_location import NOWHERE
from servonode.errors import ModelError
from servonode.mechanics.description import MOST_DERIVATIVES, derivative_name
from servonode.mechanics.expression import ExpressionError, parse


class ResidualError(ModelError):
    """A residual of the launch file that is not an expression of what it may contain."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.section, self.key = "controller", f"residuals.{name}"


@dataclass(frozen=True)
class InlineProgram:
    """Residuals by name as expressions of t, states, rates, the machine's parameters, targets and settings.

    `constants` are the names of settings that are numbers, `signals` those that are functions of time with their
    texts, `targets` the names in [target]. A name of an output stands for its expression.
    """

    residuals: Mapping[str, str | float]
    constants: tuple[str, ...] = ()
    signals: Mapping[str, str] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    least_norm: bool = False  # among inputs that are more than the residuals

    name: ClassVar[str] = "residuals"
    options: ClassVar[Mapping[str, Option]] = {}

    def digest(self, build_model: Any, options: Mapping[str, Any]) -> str:  # noqa: ARG002  (the texts say it all)
        return json.dumps([dict(self.residuals), self.constants, dict(self.signals), self.targets, self.least_norm])

    def build(self, model: Any, options: Mapping[str, Any]) -> Any:  # noqa: ARG002  (it has none)
        """The Program on this Model.

        Raises:
            ResidualError: an expression is wrong, or contains a name that is not known there.
            ModelError: a setting or target is used by no residual, or has a name that the machine uses.
        """
        from servonode.controllers.engine.program import Program, residual, signal, target
        from servonode.mechanics.symbols import parameter, time

        constants = {name: parameter(name, "constant of the launch file", default=0.0) for name in self.constants}
        signals = {name: signal(name, "function of time", default=text) for name, text in self.signals.items()}
        targets = {name: target(name, "target") for name in self.targets}
        known: dict[str, Any] = {"t": time} | {q.rate.name: q.rate for q in model.coordinates}
        known |= {each.quantity.name: each.expression for each in model.outputs}
        known |= {each.name: each for each in (*model.state, *model.parameters)}
        for each in (*signals.values(), *targets.values()):
            known |= {derivative_name(each.name, n): each.derivative(n) for n in range(MOST_DERIVATIVES + 1)}
        known |= constants
        expressions = {name: _expression(name, text, known) for name, text in self.residuals.items()}
        for name, each in expressions.items():
            if reason := model.not_served(each):
                raise ResidualError(name, reason)
        _check_all_used(expressions, [*constants.values(), *signals.values(), *targets.values()])
        return Program(
            name=self.name,
            description=", ".join(f"{name}: {text} = 0" for name, text in self.residuals.items()),
            residuals=tuple(
                replace(residual(name, each, str(self.residuals[name]), _unit(each, model)), place=NOWHERE)
                for name, each in expressions.items()
            ),
            parameters=tuple(constants.values()),
            signals=tuple(signals.values()),
            targets=tuple(targets.values()),
            least_norm=self.least_norm and len(expressions) < len(model.inputs),
            place=NOWHERE,
        )


def _expression(name: str, text: str | float, known: Mapping[str, Any]) -> Any:
    import sympy

    try:
        expression = parse(text, tuple(known))
        expression.require_derivatives(1, f"residual {name}")
        return sympy.sympify(expression.sympy(known))
    except ExpressionError as error:
        raise ResidualError(name, str(error)) from error


ANGLES = ("wrap", "atan2")  # functions whose values are angles


def _unit(expression: Any, model: Any) -> str:
    """The unit of a residual: that of a state or rate that is one of its terms, else that of the first with one."""
    import sympy

    from servonode.mechanics.dimensions import Dimensions, known_dimensions
    from servonode.mechanics.units import unit_text

    units = {each: each.quantity.unit for each in model.state}
    units |= {q.rate: q.own_velocity().quantity.unit for q in model.coordinates}
    terms = sympy.Add.make_args(expression)
    alone = next((units[term] for term in terms if term in units), None)
    if alone is not None:
        return str(alone)
    if any(type(term).__name__ in ANGLES for term in terms):
        return "rad"
    dimensions = Dimensions(known_dimensions(model)[0])
    found = (dimensions.of("", term) for term in terms)
    return next((unit_text(each) for each in found if each is not None), "1")


def _check_all_used(expressions: Mapping[str, Any], symbols: list[Any]) -> None:
    used = {symbol.name for each in expressions.values() for symbol in each.free_symbols}
    for symbol in symbols:
        names = {symbol.name} | {derivative_name(symbol.name, n) for n in range(1, MOST_DERIVATIVES + 1)}
        if not used & names:
            raise ModelError(f"{symbol.name!r} is used by no residual; remove it, or use it in one")
