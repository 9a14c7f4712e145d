"""A controller of the user's own as a law: what it returns is checked, and its errors are texts with their line."""

import os
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, TypeVar, cast

import numpy as np

from servonode.arrays import Array
from servonode.controllers.engine.kernels import LawKernel
from servonode.controllers.engine.law import ServoLaw
from servonode.controllers.engine.layout import FAILED, GOOD, Answer
from servonode.controllers.own.source import Controller, OwnController
from servonode.controllers.own.view import PlantView
from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.mechanics.description import ProgramDescription
from servonode.mechanics.machine import Machine, ParameterError
from servonode.tables import Row, named

T = TypeVar("T")
LEFT = 3  # exit code of a process that the user's code has forked


@dataclass
class OwnKernel:
    """What a law in Python has instead of a compiled module: where it comes from, and for which plant it is."""

    source: OwnController
    options: Mapping[str, Any]
    plant: PlantView | None = None  # None: not yet known
    seed: int = 0
    n_constants: int = field(default=0, init=False)
    __name__: str = field(default="python", init=False)

    def constants(self, p: Array, c: Array) -> None:
        """Leave `c` empty: nothing is computed ahead."""


class OwnLaw(ServoLaw):
    """The law of a controller of the user's own; one that has begun holds the controller of one run."""

    def __init__(
        self, description: ProgramDescription, kernel: OwnKernel, machine: Machine, parameters: Mapping[str, float]
    ) -> None:
        super().__init__(description, cast(LawKernel, kernel), machine, parameters)
        self.own = kernel
        self._controller: Controller | None = None  # None: not begun, or its construction failed
        self._input_names = machine.description.input_names
        self._residual_names = [each.name for each in description.residuals]
        self._why = ""  # why it answers no more until it is reset
        self._process = 0

    def table(self) -> tuple[str, list[Row]]:
        """Its residuals, which are only watched, and its settings."""
        title, rows = super().table()
        watched = [(each.name, f"{named(each.description, each.unit)}, watched") for each in self.description.residuals]
        return title, [*watched, *rows[len(watched) :]]

    def placed(self, plant: PlantView, seed: int) -> "OwnLaw":
        """The law for this plant; its controller's `reset` gets the seed."""
        law = copy(self)
        law.own = OwnKernel(self.own.source, self.own.options, plant, seed)
        return law

    def described(self, description: ProgramDescription) -> "OwnLaw":
        """The law with another description, of the residuals that its controller gives."""
        return OwnLaw(description, self.own, self.machine, self.parameters)

    def check_parameters(self, names: Any = None) -> None:
        super().check_parameters(names)
        for name, each in self.own.source.numbers.items():
            if isinstance(each.default, int) and not float(self.parameters[name]).is_integer():
                raise ParameterError(name, f"{self.parameters[name]:g} is not a whole number; give one")

    def begin(self) -> "OwnLaw":
        """The law with a controller of its own; one that cannot be made answers with the reason."""
        if self._process:
            return self
        law = copy(self)
        made, plant = self.own.source.made, self.own.plant
        assert plant is not None
        law._process = os.getpid()
        try:
            law._controller = law._given(lambda: made(plant, self.own.options, self.parameters))
        except ModelError as error:
            law._why = str(error)
        law.reset()
        return law

    def reset(self) -> None:
        """Have the controller begin again."""
        if self._controller is None:
            return
        self._why = ""
        reset = getattr(self._controller, "reset", None)
        if reset is not None:
            try:
                self._given(lambda: reset(self.own.seed))
            except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever a user's code raises is its fault)
                self._why = str(self.own.source.definition.explain(error))

    def compute(self, t: float, x: Array, y: Array, answer: Answer) -> int:
        """Have the controller answer the state; a status that is not good has its reason in the answer."""
        assert self._process, "a law in Python is begun before it computes"
        answer.status, answer.why = GOOD, self._why
        if not answer.why:
            answer.why = self._why = self._answered(t, x[: self.machine.n_state].copy(), y.copy(), answer)
        if answer.why:
            answer.status = FAILED
        return answer.status

    def evaluate(self, t: float, x: Array, y: Array) -> Answer:
        law = self.begin()
        answer = law.answer()
        law.compute(t, x, y, answer)
        return answer

    def explain(self, answer: Answer, remedy: str = "") -> str:  # noqa: ARG002  (its own text has one)
        return answer.why

    def _answered(self, t: float, state: Array, goal: Array, answer: Answer) -> str:
        """Fill the answer; why that is not possible, empty where it is."""
        controller = self._controller
        assert controller is not None
        try:
            inputs = self._given(lambda: controller.command(t, state, goal))
            if complaint := _misfit(inputs, answer.inputs, self._input_names):
                return f"{self._place('command')}: command() {complaint}"
            answer.one_condition()
            if self.n_s:
                return self._watched(self._given(lambda: controller.residuals(t, state, goal)), answer)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever a user's code raises is its fault)
            return str(self.own.source.definition.explain(error))
        return ""

    def _given(self, work: Callable[[], T]) -> T:
        """What the user's code gives; a copy of this process that it forks is ended, which must not answer too."""
        try:
            return work()
        finally:
            if os.getpid() != self._process:
                os._exit(LEFT)

    def _watched(self, values: Mapping[str, float], answer: Answer) -> str:
        """Take the residuals; why that is not possible, empty where it is."""
        try:
            answer.residuals[:] = [values[name] for name in self._residual_names]
        except (KeyError, TypeError, ValueError):
            names = ", ".join(self._residual_names)
            return f"{self._place('residuals')}: residuals() gave no number for each of {names}; let it do so each time"
        return ""

    def stated_residuals(self, t: float, state: Array, goal: Array) -> dict[str, str]:
        """The unit of each residual that the controller gives at a state; empty where it has none.

        Raises:
            ModelError: they are no numbers by name.
        """
        controller = self._controller
        if controller is None or not hasattr(controller, "residuals"):
            return {}
        place, units = self._place("residuals"), getattr(controller, "residual_units", {})
        try:
            x = state[: self.machine.n_state].copy()
            values = self._given(lambda: controller.residuals(t, x, goal.copy()))
            numbers = {name: float(value) for name, value in values.items()}
        except (AttributeError, TypeError, ValueError) as error:
            text = 'residuals() gives no numbers by name; let it return a dictionary, as {"angle": 0.1}'
            raise ModelError(text, place) from error
        except (Exception, SystemExit) as error:
            raise self.own.source.definition.explain(error) from error
        wrong = next((name for name in numbers if not (name.isascii() and name.isidentifier())), None)
        if wrong is not None:
            text = (
                f"{wrong!r} is not a valid name of a residual; use ASCII letters, digits and _, beginning with a letter"
            )
            raise ModelError(text, place)
        return {name: str(units.get(name, "1")) for name in numbers}

    def _place(self, method: str) -> Place:
        """The line at which a method of the controller is defined."""
        code = getattr(getattr(self._controller, method), "__code__", None)
        return Place(code.co_filename, code.co_firstlineno) if code else self.own.source.definition.place


def _misfit(given: Any, inputs: Array, names: tuple[str, ...]) -> str:
    """Take what `command` has returned as inputs; why it does not fit, empty where it does."""
    try:
        if isinstance(given, np.ma.MaskedArray) or np.asarray(given).dtype.kind not in "biufO":  # text, complex numbers
            raise TypeError
        values = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        return f"returned {type(given).__name__}; {_wanted(names)}"
    if values.shape != inputs.shape and not (values.shape == () and len(inputs) == 1 and given is not None):
        shown = "nothing" if given is None else f"an array of shape {values.shape}"
        return f"returned {shown}; {_wanted(names)}"
    inputs[:] = values
    taken = inputs.tolist()
    if all(map(isfinite, taken)):
        return ""
    name, value = next((name, value) for name, value in zip(names, taken, strict=True) if not isfinite(value))
    return f"returned {value} for {name}; {_wanted(names)}"


def _wanted(names: tuple[str, ...]) -> str:
    return f"let it return an array of {len(names)} finite number{'s' if len(names) > 1 else ''} for {', '.join(names)}"
