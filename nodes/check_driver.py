"""What a launch file states must be for the driver that it names."""

from servonode.nodes.launch_file import LaunchError
from servonode.nodes.launch_keys import Actuator, LaunchFile, Link, Sensor


def check_driver(launch: LaunchFile) -> None:
    """Refuse what the launch file states and its driver would pass over.

    Raises:
        LaunchError: link faults without a loopback, imperfections or disturbances of a machine that has its own,
            an address that is not on this computer.
    """
    from servonode.bus import check_address

    plant = launch.plant
    if plant.driver != "loopback" and plant.link != Link():
        text = f'is the loopback\'s; set driver = "loopback" in [plant], which is "{plant.driver}", or leave it out'
        raise LaunchError(launch.file, "plant.link", None, text)
    if plant.driver != "external":
        return
    own = {
        "plant.sensor": plant.sensor != Sensor(),
        "plant.actuator": plant.actuator != Actuator(limit=plant.actuator.limit),
        "plant.disturbance": bool(plant.disturbance),
    }
    for section, stated in own.items():
        if stated:
            text = "belongs to a simulation; an external machine has its own, leave it out (limit alone may stay)"
            raise LaunchError(launch.file, section, None, text)
    for key in ("state", "applied"):
        problem = check_address(getattr(plant.device, key))
        if problem:
            raise LaunchError(launch.file, "plant.device", key, problem)
