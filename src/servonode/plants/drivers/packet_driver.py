"""Common functions of the drivers whose machine speaks the packets of docs/reference/firmware.md."""

from servonode.plants.drivers.driver import DriverContext
from servonode.plants.plant import Plant

KEYS = tuple(f"device.{key}" for key in ("wait", "timeout", "any_speed", "sends", "state_rate", "law", "law_tolerance"))


def open_packet_plant(context: DriverContext) -> Plant:
    """The plant of a run; the modules for packets are imported here, because not every run needs them."""
    from servonode.plants.drivers.packet_plant import packet_plant

    return packet_plant(context)
