"""The episodes of an environment: which closed loop each of them is, drawn from what varies."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.key_table import key_of
from servonode.closed_loop.launch_error import KeyRefused, LaunchError, naming_file
from servonode.closed_loop.launch_file import with_section
from servonode.closed_loop.variation import Variation
from servonode.errors import StatementError, check_mapping, did_you_mean
from servonode.simulation.simulate import has_compiled_plant
from servonode.wings.explore.environments.quick import Numbers, Quick
from servonode.wings.explore.sections import Sweep
from servonode.wings.explore.sweeps.design import SWEEP, Axis, stated_axes
from servonode.wings.explore.sweeps.outcomes import is_random

MOST_DRAWS = 100  # until a draw is not refused
SEED = "run.seed"
OF_GOAL = ("target.", "controller.settings.", "goal.", "controller.parameters.")  # what goals may depend on


class Episodes:
    """The closed loops of episodes: the launch file's, with other values of the keys that vary.

    keys: these; with noise in the sensors the run's seed among them.
    """

    def __init__(self, base: ClosedLoop, vary: Mapping[str, Any]) -> None:
        """Raises LaunchError where a key or its range cannot be."""
        check_fit(base)
        self.base = base
        launch = with_section(base.launch, SWEEP, {"vary": stated_axes(vary)}) if vary else base.launch
        stated = launch.section(SWEEP, Sweep) if vary else None
        with naming_file(base.launch.file):
            self._axes = [Axis(key, each) for key, each in (stated.vary if stated else {}).items()]
            for axis in self._axes:
                if (known := key_of(axis.key)) and (known.times or known.sizes):
                    text = "cannot vary from episode to episode; make an environment for each value"
                    raise KeyRefused("sweep.vary", axis.key, text)
                if axis.key.startswith("plant.sensor.noise") and not any(base.sensor.noise):
                    text = "is 0 in the launch file, whose environment draws no noise; state some there"
                    raise KeyRefused("sweep.vary", axis.key, text)
        self.keys = tuple(axis.key for axis in self._axes)
        self._drawn = (*self.keys, SEED) if is_random(base) and SEED not in self.keys else self.keys
        self._variation = Variation(base, self._drawn) if self._drawn else None
        self._quick = Quick(base, self._drawn)

    @property
    def apart(self) -> bool:
        """Whether episodes may differ in their goals."""
        return any(key.startswith(OF_GOAL) for key in self.keys)

    def draw(
        self, rng: np.random.Generator, given: Mapping[str, float]
    ) -> tuple[dict[str, float], ClosedLoop | Numbers]:
        """The values of what varies, drawn but for those that are given, and the closed loop with them.

        Where only numbers of it change, these.

        Raises:
            StatementError: a given key does not vary; LaunchError: a hundred draws were refused, or the given values.
        """
        for key in given:
            if key not in self._drawn:
                near, choices = did_you_mean(key, self._drawn), ", ".join(self._drawn) or "none"
                raise StatementError(f"values: {key!r} does not vary here; {near}what varies: {choices}")
        if self._variation is None:
            return {}, self.base
        for attempt in range(MOST_DRAWS):
            values = {axis.key: float(axis.between(np.array([rng.random()]))[0]) for axis in self._axes}
            if SEED in self._drawn and SEED not in values:
                values[SEED] = int(rng.integers(2**31))
            values |= given
            try:
                wanted = [values[key] for key in self._drawn]
                return values, (self._quick.fits and self._quick.at(wanted)) or self._variation.at(wanted)
            except LaunchError:
                if attempt == MOST_DRAWS - 1 or given.keys() >= set(self._drawn):
                    raise
        raise AssertionError


def check_fit(base: ClosedLoop) -> None:
    """Refuse a launch file of which there is no environment.

    Raises:
        LaunchError: that is so.
    """
    launch, control, machine = base.launch, base.control, base.machine.description
    base.check_known_goals()

    def refuse(section: str, key: str | None, text: str) -> None:
        raise LaunchError(launch.file, section, key, f"{text}; an environment steps compiled equations")

    if control is None or launch.steps_per_period is None:
        text = "missing; an environment needs a period and a goal: give a program, such as open_loop"
        raise LaunchError(launch.file, "controller", None, text)
    if base.estimation is not None:
        refuse("estimator", None, "is a node's; leave it out: the state is observed")
    if not has_compiled_plant(base):
        refuse("plant", None, "is not moved by its equations alone; leave driver, command and [[fault]] out")
    if control.stated.predictor:
        refuse("controller", "predictor", "is the law's; leave it out")
    if base.sensor.drop:
        refuse("plant.sensor", "drop", "has lost states, at which nobody could act; leave it out")
    endless = [name for name, most in zip(machine.input_names, base.safety.limits.value, strict=True) if most == np.inf]
    if endless:
        text = f"missing for {', '.join(endless)}, whose share the action is; give what the machine can, such as "
        raise LaunchError(launch.file, "plant.safety", "limit", f"{text}plant__safety__limit=1.0")
    if launch.steps < launch.steps_per_period:
        raise LaunchError(launch.file, "run", "duration", "is shorter than a control period; give a longer one")


def mapping_of(options: Any) -> Mapping[str, Any]:
    """Options of a reset. Raises StatementError where they are no mapping."""
    if not isinstance(options or {}, Mapping):
        raise StatementError(f"options = {options!r:.40} is not a mapping; give {{'values': {{KEY: VALUE}}}}")
    return options or {}


def values_of(options: Mapping[str, Any] | None) -> Mapping[str, float]:
    """The values that options of a reset state, checked."""
    for key in (options := mapping_of(options)):
        if key != "values":
            raise StatementError(f"options: {key!r} is unknown; {did_you_mean(key, ['values'])}choose values")
    values: Mapping[str, float] = options.get("values", {})
    check_mapping("values", values, "plant.parameters.m1")
    for key, value in values.items():
        try:
            np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise StatementError(f"values: {key} = {value!r:.60} is not a number; give one") from None
    return values
