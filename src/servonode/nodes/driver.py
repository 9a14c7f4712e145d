"""The plant behind the plant node, as the launch file's driver opens it."""

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.node import Clock
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.simulated_device import Workings
from servonode.plants.drivers.terms import terms_of
from servonode.plants.plant import Plant


def driven_plant(closed_loop: ClosedLoop, clock: Clock) -> Plant:
    """The plant of a run; what the driver opens belongs to this process."""
    launch, machine = closed_loop.launch, closed_loop.machine
    watch = closed_loop.safety.command_timeout or launch.plant.safety.command_timeout_floor
    terms = terms_of(
        machine, closed_loop.start, np.array(closed_loop.safety.limits.value),
        lockstep=launch.run.mode == "lockstep", step_ns=launch.step_ns, period=(launch.period_ns or 0) / 1e9,
        speed=launch.run.speed, timeout=watch, state_timeout=launch.plant.device.timeout or watch,
        frozen_time=launch.plant.safety.frozen_time,
        brake_time=closed_loop.safety.brake_steps * launch.step_ns / 1e9, readonly=closed_loop.readonly,
        law=closed_loop.device_law, estimate=closed_loop.device_estimate,
    )  # fmt: skip
    context = DriverContext(
        machine,
        simulation=closed_loop.plant,
        terms=terms,
        workings=Workings(
            launch.plant.integrator, closed_loop.actuator, closed_loop.sensor, launch.run.seed, closed_loop.suite
        ),
        plausible=closed_loop.safety.plausible(own=True),
        stated=closed_loop.connection.stated,
        addresses=closed_loop.connection.addresses(machine.description.name),
        clock=clock,
        state_every=closed_loop.check_traffic(),
        transport=closed_loop.driver.transport,
    )
    return closed_loop.driver.open(context)
