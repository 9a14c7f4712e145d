"""The external driver: the machine is another process, which publishes at one address and subscribes to a second."""

from servonode.bus import BusError, Link, check_address, device_addresses, make_devices_folder
from servonode.plants.drivers.driver import Driver, DriverContext, DriverError, Stated, check_pace
from servonode.plants.plant import Plant

SECTION = "plant.device"


def _check(stated: Stated) -> None:
    """Refuse what is no address, and a speed that hardware does not have; `Connection.check_keys` looks for keys."""
    for key in ("state", "applied"):
        if (address := stated.device[key]) is not None and (problem := check_address(address, far=True)):
            raise DriverError(SECTION, key, problem)
    check_pace(stated)


def _addresses(stated: Stated, machine: str) -> tuple[str, ...]:
    """The addresses of the machine's states and of the inputs; absent ones follow from the machine's name.

    Raises:
        DriverError: an address is absent and the machine's name gives none that can be used, or both are the same.
    """
    found = {key: stated.device[key] for key in ("state", "applied")}
    missing = [key for key, address in found.items() if address is None]
    if missing:
        try:
            usual = dict(zip(found, device_addresses(machine), strict=True))
        except BusError as error:
            text = f"missing, and {error}; give an address such as ipc:///PATH"
            raise DriverError(SECTION, missing[0], text) from None
        for key in missing:
            if problem := check_address(usual[key]):
                text = f"missing, and {problem.partition(';')[0]}; give one, or set XDG_RUNTIME_DIR to a shorter folder"
                raise DriverError(SECTION, key, text)
            found[key] = usual[key]
    if found["state"] == found["applied"]:
        text = f"{found['state']!r} cannot serve states and inputs; give the machine a second address"
        raise DriverError(SECTION, "applied", text)
    return found["state"], found["applied"]


def _open(context: DriverContext) -> Plant:
    from servonode.plants.drivers.device import DevicePlant

    return DevicePlant(context, external_link(context))


def external_link(context: DriverContext) -> Link:
    """The link to the machine, with keys where it has one."""
    from servonode.bus import ExternalLink

    make_devices_folder(context.addresses)  # another run that has just ended may have removed it
    (state, applied), machine = context.addresses, context.stated.device.get("key", "")
    if not machine:
        return ExternalLink(state, applied, far=context.insecure)
    from servonode.bus.curve import Authenticator, SecureLink
    from servonode.bus.keys import KeyStore

    return SecureLink(state, applied, Authenticator(KeyStore(), context.own_key), machine)


DRIVER = Driver(
    name="external",
    summary="another process",
    reads=(
        "actuator.limit",
        "actuator.bandwidth",
        *(f"device.{key}" for key in ("state", "applied", "wait", "timeout", "any_speed", "sends", "key")),
    ),
    open=_open,
    readonly=True,
    speeds=True,
    servos=True,
    outside=True,
    check=_check,
    addresses=_addresses,
)
