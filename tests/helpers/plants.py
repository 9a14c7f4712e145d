"""What a test needs for a machine behind a link: the context of its driver."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from servonode.mechanics.machine import Machine
from servonode.plants.drivers.driver import DriverContext, Stated, finite_limits
from servonode.plants.effects import ActuatorEffects, SensorEffects
from servonode.plants.simulated import SimulatedPlant

STEP_NS = 1_000_000


def free_drives(n: int) -> ActuatorEffects:
    """Drives without limits that do at once what they are told."""
    return ActuatorEffects((np.inf,) * n, (np.inf,) * n, *((0.0,) * n,) * 4)


def exact_sensor(n: int) -> SensorEffects:
    """A sensor that shows the true state."""
    return SensorEffects(*((0.0,) * n,) * 3, delay=0.0, drop=0.0)


def context(machine: Machine, start: Any, limits: Sequence[float] = (), **changes: Any) -> DriverContext:
    """The context of a run in real time with this kernel state at step 0; changes: of it, or of its clock.

    limits: largest magnitude of each input; empty: none.
    """
    clock = {"lockstep": False, "speed": 1.0, "device": {}, "link": {}, "period_s": 0.01}
    stated = Stated(**{key: changes.pop(key, value) for key, value in clock.items()})
    limits = limits or (np.inf,) * machine.n_inputs

    def simulated(machine: Machine, start: Any, step_ns: int) -> SimulatedPlant:
        drives, sensor = free_drives(machine.n_inputs), exact_sensor(machine.n_state)
        return SimulatedPlant(machine, start, step_ns, "rk4", drives, sensor, 0)

    stated_limits = {
        "limits": finite_limits(machine, limits),
        "timeout": 0.1,
        "state_timeout": 0.1,
        "simulated_machine": simulated,
    }
    return DriverContext(
        machine,
        stated,
        start,
        STEP_NS,
        simulation=lambda: simulated(machine, start, STEP_NS),
        **stated_limits | changes,
    )
