"""The parts of a resolved launch file: each is made once, when it is asked for, of its sections and other parts."""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from servonode.arrays import Array
from servonode.closed_loop.launch_error import KeyRefused
from servonode.closed_loop.launch_keys import Actuator, LaunchFile
from servonode.closed_loop.machine_section import (
    completed,
    initial_states,
    load,
    plant_source,
    preparation_of,
    with_given,
)
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource
from servonode.plants.effect_kernels import load_effects
from servonode.plants.prepare import Preparation

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property:
        """That of Python 3.11 has one lock for all objects: the threads of a sweep would wait for each other."""

        def __init__(self, function):
            self._function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, of, owner=None):
            return self if of is None else vars(of).setdefault(self._name, self._function(of))


P = ParamSpec("P")
R = TypeVar("R")
_EQUAL = (float, int, bool, str)  # kinds that are the same where they are equal


class Kept:
    """The newest result of each function: taken again where its arguments are the same objects, or equal.

    Threads may share it: what one of them has kept is whole, whichever comes last.
    """

    def __init__(self) -> None:
        self._newest: dict[Callable[..., Any], tuple[tuple[Any, ...], Any]] = {}

    def of(self, function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
        """The result of a function, which depends on its arguments alone and changes none of them."""
        given = (*arguments, *keywords.values())
        newest = self._newest.get(function)
        if newest is not None and all(map(_same, newest[0], given)):
            kept: R = newest[1]
            return kept
        result = function(*arguments, **keywords)
        self._newest[function] = given, result
        return result


def _same(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, _EQUAL) and a == b)


class MachineParts:
    """The machine of [plant]. stated: the launch file as it was read, before the machine prepared anything.

    kept: the results of functions, for a launch file with other numbers.
    """

    DERIVED: tuple[str, ...] = ("source", "preparation", "loaded")  # parts for whatever numbers
    is_variation = False  # of another launch file, of which it has the derived parts

    def __init__(self, stated: LaunchFile) -> None:
        self.stated, self.kept = stated, Kept()

    def with_parts(self, **parts: Any) -> Self:
        """The same with these in place of its own parts."""
        new = object.__new__(type(self))
        vars(new).update(vars(self) | parts)
        return new

    def varied(self, stated: LaunchFile) -> Self:
        """The same of a launch file with other numbers, of which no part is made yet but those that are derived."""
        new = type(self)(stated)
        vars(new).update({name: vars(self)[name] for name in ("kept", *self.DERIVED)} | {"is_variation": True})
        return new

    @cached_property
    def source(self) -> MachineSource:
        """Where the machine comes from."""
        return plant_source(self.stated.plant, self.stated.path.parent, self.stated.more)

    @cached_property
    def preparation(self) -> Preparation | None:
        """What the machine finds out itself, if anything."""
        return preparation_of(self.stated.plant, self.source)

    @cached_property
    def loaded(self) -> Machine:
        """The machine with its default parameters; from here on only these differ."""
        return load(self.source)

    @cached_property
    def launch(self) -> LaunchFile:
        """The launch file with numbers where the machine chooses them."""
        return completed(self.stated, self.source, self.preparation, self.loaded)

    @cached_property
    def given_machine(self) -> Machine:
        """The machine with its parameters."""
        plant, times = self.launch.plant, self.launch.times
        machine = self.kept.of(_with_parameters, self.source, self.loaded, plant.parameters, times.duration)
        if not machine.n_inputs:
            what = f"machine {machine.description.name} has no inputs"
            if self.launch.controller:
                raise KeyRefused("controller", "program", f"{what}; leave [controller] out")
            if plant.actuator != Actuator():
                raise KeyRefused("plant.actuator", None, f"{what}; leave [plant.actuator] out")
        machine.steps(plant.integrator)  # loaded here, once for all nodes that are forked
        load_effects(machine.n_state, machine.n_inputs)
        return machine

    @cached_property
    def stated_start(self) -> Array:
        """Its kernel state at t = 0, as [plant.initial] states it."""
        return self.kept.of(_stated_start, self.given_machine, self.launch.plant.initial)


def _with_parameters(
    source: MachineSource, loaded: Machine, parameters: Mapping[str, float | str], duration: float
) -> Machine:
    return with_given(source, loaded, "plant.parameters", parameters, duration)


def _stated_start(machine: Machine, initial: Mapping[str, Any]) -> Array:
    return machine.state(initial_states(initial, machine))
