"""Where a controller of the user's own comes from, what it can be given, and the description that stands for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from servonode.arrays import Array
from servonode.controllers.own.view import PlantView
from servonode.definitions.references import Definition, Option
from servonode.errors import ModelError
from servonode.mechanics.description import ProgramDescription, Quantity

GOAL_ORDER = 2  # derivatives of each target that a goal holds
NEEDED = "give the class def command(self, t, state, goal), which returns the inputs"


class Controller(Protocol):
    """What a controller of the user's own has; `reset` and `residuals` may be missing.

    state (n_state,), goal and inputs (n_inputs,) are in the order that `PlantView` says.
    """

    def reset(self, seed: int) -> None: ...
    def command(self, t: float, state: Array, goal: Array) -> Array: ...
    def residuals(self, t: float, state: Array, goal: Array) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class OwnController:
    """A class, or a function that returns an object, in a Python source.

    Its arguments with defaults are set by [controller.settings]: numbers are parameters, texts and flags options.
    """

    definition: Definition

    @property
    def name(self) -> str:
        return self.definition.reference

    @cached_property
    def options(self) -> Mapping[str, Option]:
        return {name: each for name, each in self.definition.options.items() if not _is_number(each)}

    @cached_property
    def numbers(self) -> Mapping[str, Option]:
        """The arguments that are numbers."""
        return {name: each for name, each in self.definition.options.items() if _is_number(each)}

    def digest(self, build_model: Callable[[], Any], options: Mapping[str, Any]) -> str:  # noqa: ARG002  (see there)
        """A digest of its sources; nothing is derived from it."""
        return self.definition.digest()

    def build(self, model: Any, options: Mapping[str, Any]) -> Any:  # noqa: ARG002  (there is nothing to build)
        """Raise ModelError: nothing symbolic is known of it."""
        text = f"{self.definition.function} is a controller in Python, of which there are no equations; look at the"
        raise ModelError(f"{text} machine's, or at a launch file with a program", self.definition.place)

    def made(self, plant: PlantView, options: Mapping[str, Any], parameters: Mapping[str, float]) -> Controller:
        """The controller for a plant.

        Raises:
            ModelError: its source fails, or it has no `command`; the text names the line.
        """
        whole = {name for name, each in self.numbers.items() if isinstance(each.default, int)}
        given = {name: int(value) if name in whole else value for name, value in parameters.items()}
        controller: Controller = self.definition.call(plant, **options, **given)
        if not callable(getattr(controller, "command", None)):
            raise ModelError(f"{type(controller).__name__} has no command(); {NEEDED}", self.definition.place)
        return controller

    def description(self, targets: tuple[str, ...], residuals: Mapping[str, str]) -> ProgramDescription:
        """The description of a program that gives its inputs itself; residuals: unit by name."""
        return ProgramDescription(
            name=self.name,
            description="a controller in Python",
            residuals=tuple(Quantity(name, f"residual {name} of the controller", u) for name, u in residuals.items()),
            relative_degrees=(1,) * len(residuals),
            parameters=tuple(
                Quantity(name, f"{name} of the controller", default=float(each.default))
                for name, each in self.numbers.items()
            ),
            targets=targets,
            signals=(),
            signal_defaults=(),
            target_order=GOAL_ORDER,
            signal_order=0,
            guards=(),
            relations=0,
            completion="none",
            integral=False,
            explicit=True,
            own=True,
        )


def _is_number(option: Option) -> bool:
    return isinstance(option.default, int | float) and not isinstance(option.default, bool)
