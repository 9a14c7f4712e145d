"""A driver whose machine is a simulation."""

from servonode.plants.drivers.driver import Driver

DRIVER = Driver(
    name="cart_simulation",
    summary="a simulation, by another package",
    reads=("actuator", "sensor"),
    open=lambda context: context.simulation(),
    simulated=True,
)
