"""The plant behind the plant node, as the launch file's driver opens it."""

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.machine import Machine
from servonode.nodes.node import Clock
from servonode.plants.drivers.driver import DriverContext, finite_limits
from servonode.plants.injection import Injector
from servonode.plants.plant import Plant
from servonode.plants.simulated import SimulatedPlant


def driven_plant(closed_loop: ClosedLoop, clock: Clock, injector: Injector | None = None) -> Plant:
    """The plant of a run; what the driver opens belongs to this process.

    injector: the faults of the run, else those of the launch file.
    """
    injector = injector or closed_loop.injector()
    launch, machine = closed_loop.launch, closed_loop.machine
    watch = closed_loop.safety.command_timeout or launch.plant.safety.command_timeout_floor

    def simulated_machine(machine: Machine, start: Array, step_ns: int) -> SimulatedPlant:
        actuator, sensor, seed = closed_loop.actuator, closed_loop.sensor, launch.run.seed
        integrator, suite = launch.plant.integrator, closed_loop.suite()
        motion = closed_loop.speed_motion(machine, step_ns)
        return SimulatedPlant(
            machine, start, step_ns, integrator, actuator, sensor, seed, motion=motion, suite=suite, injector=injector,
            linked=True,
        )  # fmt: skip

    context = DriverContext(
        machine,
        closed_loop.connection.stated,
        closed_loop.start,
        launch.step_ns,
        simulation=lambda: closed_loop.plant(injector),
        simulated_machine=simulated_machine,
        source=closed_loop.source,
        timeout=watch,
        state_timeout=launch.plant.device.timeout or watch,
        limits=finite_limits(machine, closed_loop.sent_limits, closed_loop.readonly),
        frozen_time=launch.plant.safety.frozen_time,
        brake_time=closed_loop.safety.brake_steps * launch.step_ns / 1e9,
        readonly=closed_loop.readonly,
        law=closed_loop.device_law,
        drives=closed_loop.drives,
        estimate=closed_loop.device_estimate,
        plausible=closed_loop.safety.plausible(own=True),
        own_key=closed_loop.own_key,
        insecure=closed_loop.insecure,
        addresses=closed_loop.connection.addresses(machine.description.name),
        state_every=closed_loop.check_traffic(),
        seed=launch.run.seed,
        clock=clock,
        injector=injector,
    )
    return closed_loop.driver.open(context)
