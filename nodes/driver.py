"""Which plant stands behind the plant node: the launch file's driver, with all it needs."""

import numpy as np
from msgspec.structs import asdict

from servonode.bus import make_devices_folder
from servonode.closed_loop.closed_loop import Assembly
from servonode.closed_loop.driver_checks import external_addresses
from servonode.nodes.node import Clock
from servonode.plants.plant import Plant


def driven_plant(assembly: Assembly, clock: Clock) -> Plant:
    """The plant of a run; what the driver opens belongs to this process."""
    launch = assembly.launch
    if launch.plant.driver == "simulated":
        return assembly.plant()
    from servonode.plants.drivers import Impairments, Workings, external_plant, loopback_plant, terms_of

    watch = assembly.command_timeout or launch.plant.safety.command_timeout_floor
    terms = terms_of(
        assembly.machine, assembly.start, np.array(assembly.limits.value),
        lockstep=launch.run.mode == "lockstep", step_ns=launch.step_ns, period=(launch.period_ns or 0) / 1e9,
        speed=launch.run.speed, timeout=watch, state_timeout=launch.plant.device.timeout or watch,
        frozen_time=launch.plant.safety.frozen_time,
    )  # fmt: skip
    if launch.plant.driver == "external":
        state, applied = external_addresses(launch, assembly.machine.description.name)
        make_devices_folder((state, applied))  # another run that has just ended may have removed it
        return external_plant(assembly.machine, terms, state, applied, clock, assembly.plausible(own=True))
    workings = Workings(launch.plant.integrator, assembly.actuator, assembly.sensor, launch.run.seed)
    faults = Impairments(**asdict(launch.plant.link))
    return loopback_plant(
        assembly.machine, terms, workings, faults, launch.run.seed, clock, assembly.plausible(own=True)
    )
