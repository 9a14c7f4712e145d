"""What firmware of a launch file's machine includes: its header, and its sensors as C functions."""

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.device_terms import law_header
from servonode.closed_loop.estimation import Sensing, sensing_of
from servonode.errors import StatementError
from servonode.export.c import c_prefix, c_sensors, sensors_header
from servonode.plants.drivers.firmware_header import firmware_header


def machine_header(closed_loop: ClosedLoop) -> str:
    """The C header: sizes, step, initial state, schema number, and the same of the law in the firmware."""
    prefix, step_ns = c_prefix(closed_loop.launch.name), closed_loop.launch.step_ns
    lines = law_header(closed_loop.control, closed_loop.estimation, f"{prefix}_law")
    sensing = _sensing(closed_loop)
    lines += sensors_header(sensing, prefix) if sensing else []
    return firmware_header(closed_loop.machine, closed_loop.start, step_ns, f"{prefix}_plant_step", lines)


def sensor_models(closed_loop: ClosedLoop) -> str:
    """The sensor models of the machine as C functions; a comment where it has none that can be simulated."""
    sensing, name = _sensing(closed_loop), closed_loop.machine.description.name
    nothing = f"/* {name} has no simulated sensors: it defines none, or its motion cannot be linearised. */\n"
    return c_sensors(sensing, c_prefix(closed_loop.launch.name)) if sensing else nothing


def _sensing(closed_loop: ClosedLoop) -> Sensing | None:
    """The sensors of the machine; None where it defines none, or they cannot be simulated."""
    if not closed_loop.machine.description.sensors:
        return None
    launch = closed_loop.launch
    try:
        return sensing_of(launch.plant, closed_loop.source, closed_loop.machine, launch.times, launch.run.seed)
    except StatementError:
        return None
