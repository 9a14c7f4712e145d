"""Drives that are servos: with feedback of their own, they are told the commands with which they give the inputs.

The input of a machine is the force of such a drive. So zero, limits and the safe action are those of the force, and a
command is only ever found from a force and the state at which the drive stands.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.machine import Machine


@dataclass(frozen=True)
class Servo:
    """A servo: its force is `gain` times its command, plus `bias` times (1, length, rate of the length).

    range: of the command. lengths: by coordinates, of which the length is the sum, each times its number and all times
    the gear, which the machine may have as a parameter NAME_gear.
    """

    gain: float
    bias: tuple[float, float, float]
    range: tuple[float, float] | None = None
    lengths: tuple[tuple[str, float], ...] = ()
    gear: float = 1.0

    @property
    def rests(self) -> bool:
        """Whether it can be told to have no force at rest, be it only at some places."""
        low, high = self.range or (-np.inf, np.inf)
        return bool(self.bias[1]) or low <= self.command(0.0, 0.0, 0.0) <= high

    def command(self, force: float, length: float, rate: float) -> float:
        """The command with which its force is this, at this length and rate."""
        constant, stiffness, damping = self.bias
        return (force - constant - stiffness * length - damping * rate) / self.gain


def input_of(name: str, inputs: Collection[str]) -> str:
    """The input of a machine that is called so, maybe with the suffix of its kind; "" without any."""
    return next((each for each in (name, f"{name}_torque", f"{name}_force") if each in inputs), "")


class ServoCommands:
    """The commands of a machine's servos by the names of their inputs.

    counts: how often each was beyond its range and was clipped, by `command:NAME`.
    """

    def __init__(self, machine: Machine, servos: Mapping[str, Servo], counts: Counter[str]) -> None:
        names, states = machine.description.input_names, machine.description.state_names
        self._machine, self.counts = machine, counts
        self._servos = {name: (names.index(name), servo) for name, servo in servos.items()}
        self._lengths = np.zeros((len(names), len(states)))
        for name, servo in servos.items():
            gear = machine.parameters.get(f"{name}_gear", servo.gear)
            for coordinate, share in servo.lengths:
                self._lengths[names.index(name), states.index(coordinate)] += gear * share

    def find(self, t: float, x: Array, forces: Array) -> dict[str, float] | None:
        """The commands with which the forces are these at a kernel state x.

        None: the servos are to rest where they stand, for all forces are zero or a command is not finite.
        """
        if not forces.any():
            return None
        lengths, rates = self._lengths @ x[: self._lengths.shape[1]], self._machine.input_rates(t, x)
        found = {name: each.command(forces[i], lengths[i], rates[i]) for name, (i, each) in self._servos.items()}
        if not np.isfinite(list(found.values())).all():
            return None
        for name, (_, servo) in self._servos.items():
            low, high = servo.range or (-np.inf, np.inf)
            self.counts[f"command:{name}"] += not low <= found[name] <= high
            found[name] = float(min(max(found[name], low), high))
        return found
