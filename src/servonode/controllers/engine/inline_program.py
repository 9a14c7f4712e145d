"""A program stated in the launch file itself: residuals as expressions, goals of frames, without a Python file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from servonode.definitions.references import Option
from servonode.definitions.source_location import NOWHERE

if TYPE_CHECKING:
    from servonode.controllers.engine.program import Residual
    from servonode.controllers.engine.stated_expressions import Reader
    from servonode.mechanics.symbols import Condition

POSTURE_RATE = "posture_rate"  # the parameter that [controller.posture] rate sets


@dataclass(frozen=True)
class InlineProgram:
    """Residuals by name as expressions of t, states, rates, frames, the machine's parameters, targets and settings.

    `constants` are the names of settings that are numbers, `signals` those that are functions of time with their
    texts, `targets` the names in [target]. A name of an output stands for its expression. `goals` has the keys of
    [controller.goal.NAME] by frame; `posture` the wanted positions of joints, None: there is no posture.
    """

    residuals: Mapping[str, str | float]
    constants: tuple[str, ...] = ()
    signals: Mapping[str, str] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    least_norm: bool = False  # among inputs that are more than the residuals
    goals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    posture: Mapping[str, str | float] | None = None

    name: ClassVar[str] = "residuals"
    options: ClassVar[Mapping[str, Option]] = {}

    def digest(self, build_model: Any, options: Mapping[str, Any]) -> str:  # noqa: ARG002  (the texts say it all)
        stated = [dict(self.residuals), self.constants, dict(self.signals), self.targets, self.least_norm]
        return json.dumps([*stated, dict(self.goals), self.posture])

    def build(self, model: Any, options: Mapping[str, Any]) -> Any:  # noqa: ARG002  (it has none)
        """The Program on this Model.

        Raises:
            StatedError: an expression is wrong, or contains a name that is not known there.
            ModelError: a setting or target has a name that the machine uses.
        """
        from servonode.controllers.engine.program import Program, signal, target
        from servonode.controllers.engine.stated_expressions import Reader
        from servonode.mechanics.symbols import parameter

        constants = {name: parameter(name, "constant of the launch file", default=0.0) for name in self.constants}
        signals = {name: signal(name, "function of time", default=text) for name, text in self.signals.items()}
        targets = {name: target(name, "target") for name in self.targets}
        reader = Reader(model, (*signals.values(), *targets.values()), constants)
        residuals, guards = self._residuals(model, reader)
        postures, rate = self._postures(reader)
        return Program(
            name=self.name,
            description=", ".join(f"{each.quantity.name}: {each.quantity.description} = 0" for each in residuals),
            residuals=tuple(replace(each, place=NOWHERE) for each in residuals),
            parameters=(*constants.values(), *rate),
            signals=tuple(signals.values()),
            targets=tuple(targets.values()),
            guards=guards,
            least_norm=self.least_norm and len(residuals) < len(model.inputs),
            posture=postures,
            place=NOWHERE,
        )

    def _residuals(self, model: Any, reader: "Reader") -> "tuple[list[Residual], list[Condition]]":
        """Those that are stated, then those of the goals of frames with their guards."""
        from servonode.controllers.engine.program import residual
        from servonode.controllers.engine.stated_expressions import FrameGoal

        found, guards = list["Residual"](), list["Condition"]()
        for name, text in self.residuals.items():
            expression = reader(f"residuals.{name}", text)
            found.append(residual(name, expression, str(text), reader.unit(expression)))
        for frame, stated in self.goals.items():
            of_goal, beside = FrameGoal(model, frame, stated, reader).residuals()
            found, guards = [*found, *of_goal], [*guards, *beside]
        return found, guards

    def _postures(self, reader: "Reader") -> tuple[dict[Any, Any], list[Any]]:
        """The accelerations that the posture wants, and the parameter that is its rate."""
        from servonode.controllers.engine.stated_expressions import wanted_accelerations
        from servonode.mechanics.symbols import parameter

        if self.posture is None:
            return {}, []
        rate = parameter(POSTURE_RATE, "convergence rate of the posture", "1/s", default=1.0, above=0)
        return wanted_accelerations(reader, self.posture, rate), [rate]
