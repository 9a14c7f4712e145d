"""The program that follows a bounded solution: u = u*(t) + K(t) (x - x*(t)), the residuals of another one watched."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from servonode.controllers import ProgramSource
from servonode.definitions.references import Option


def star(name: str) -> str:
    """The signal that is a state or input on the bounded solution."""
    return f"{name}_star"


def gain(u: str, x: str) -> str:
    """The signal that feeds the error of a state back to an input."""
    return f"K_{u}_{x}"


def signal_names(inputs: Sequence[str], states: Sequence[str]) -> list[str]:
    """The signals of the program beside those of the base: u*, x*, then K by rows."""
    return [*map(star, inputs), *map(star, states), *(gain(u, x) for u in inputs for x in states)]


@dataclass(frozen=True)
class TrackingProgram:
    """Made from the program whose goal is followed."""

    base: ProgramSource
    held: tuple[str, ...]  # the states that are fed back

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def options(self) -> Mapping[str, Option]:
        return self.base.options

    def digest(self, build_model: Callable[[], Any], options: Mapping[str, Any]) -> str:
        return f"tracking {', '.join(self.held)} " + self.base.digest(build_model, options)

    def build(self, model: Any, options: Mapping[str, Any]) -> Any:
        """The Program on this Model; raises as the base does."""
        from servonode.controllers.engine.program import signal

        program = self.base.build(model, options)
        inputs, states = tuple(model.inputs), tuple(x for x in model.state if x.name in self.held)
        names = signal_names(tuple(u.name for u in inputs), self.held)
        units = [each.quantity.unit for each in (*inputs, *states)]
        units += [f"{u.quantity.unit}/({x.quantity.unit})" for u in inputs for x in states]
        stated = zip(names, units, strict=True)
        made = {name: signal(name, "of the bounded solution", unit, default="0") for name, unit in stated}
        law = {
            u: made[star(u.name)] + sum(made[gain(u.name, x.name)] * (x - made[star(x.name)]) for x in states)
            for u in inputs
        }
        return replace(
            program,
            inputs=law,
            signals=(*program.signals, *made.values()),
            relations=(),
            least_norm=False,
            ideal=False,
            limits=tuple(each for each in program.limits if each.kind != "demand"),
            requirements=(),  # of the servo law, which does not act
            warnings=(),
        )
