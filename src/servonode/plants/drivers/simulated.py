"""The simulated driver: the machine is a simulation in the plant's own process."""

from servonode.plants.drivers.driver import Driver

DRIVER = Driver(
    name="simulated",
    summary="a simulation",
    reads=("actuator", "sensor", "disturbance"),
    open=lambda context: context.simulation(),
    simulated=True,
    readonly=True,
)
