"""The loopback driver: a simulated machine in the plant's own process, behind an unreliable link."""

from servonode.plants.drivers.driver import Driver, DriverContext
from servonode.plants.plant import Plant


def _open(context: DriverContext) -> Plant:
    from servonode.plants.drivers.device import DevicePlant
    from servonode.plants.drivers.simulated_device import LoopbackLink

    return DevicePlant(context, LoopbackLink(context))


DRIVER = Driver(
    name="loopback",
    summary="a simulation behind a faulty link",
    reads=("actuator", "sensor", "disturbance", "link", "device.wait", "device.timeout", "device.sends"),
    open=_open,
    readonly=True,
    speeds=True,
    servos=True,
)
