"""A fault that is injected into a run, from [[fault]] or an operator's request: whether it can be, and where."""

from servonode.bus.topology import NODES, PLANT, RELAY
from servonode.closed_loop.launch_error import KeyRefused, choices, unknown
from servonode.closed_loop.launch_keys import LARGEST, InjectedFault, LaunchFile
from servonode.mechanics.description import MachineDescription
from servonode.plants.drivers.installed import find_driver
from servonode.plants.injection import DIRECTIONS, KINDS, SIZES, Injection

MOST_WAITING = 1_000_000  # plant steps that a signal may be late by
LONGEST_STALL = 60.0  # s of a node


def injection(
    fault: InjectedFault, section: str, launch: LaunchFile, machine: MachineDescription, sensors: tuple[str, ...]
) -> Injection:
    """The fault that a section states. sensors: of the machine, where somebody reads them.

    Raises:
        KeyRefused: it cannot be.
    """
    if fault.kind not in KINDS[fault.on]:
        text = f"{fault.kind} is no fault of a {fault.on}; choose {choices(KINDS[fault.on])}"
        raise KeyRefused(section, "kind", text)
    if fault.at >= launch.times.duration:
        text = f"{fault.at:g} s is not within the run of {launch.times.duration:g} s; give less"
        raise KeyRefused(section, "at", text)
    _check_hardware(fault, section, launch)
    step = launch.times.step
    begin = round(fault.at / step)
    end = float("inf") if fault.duration is None else begin + max(round(fault.duration / step), 1)
    return Injection(
        fault.on, fault.kind, _names(fault, section, launch, machine, sensors), begin, end, _size(fault, section, step)
    )


def _check_hardware(fault: InjectedFault, section: str, launch: LaunchFile) -> None:
    """Refuse what a machine that is no simulation cannot do, or is not to do by accident."""
    if not find_driver(launch.plant.driver).outside:
        return
    if fault.on in ("drive", "sensor"):
        text = (
            f"a {fault.on} of a machine behind driver {launch.plant.driver} cannot be made to fail from here; choose "
        )
        raise KeyRefused(section, "on", f'{text}link or node, or take driver = "simulated"')
    if not fault.hardware:
        text = (
            f"driver {launch.plant.driver} may move a real machine; say hardware = true if this fault is meant for it"
        )
        raise KeyRefused(section, "hardware", text)


def _names(
    fault: InjectedFault, section: str, launch: LaunchFile, machine: MachineDescription, sensors: tuple[str, ...]
) -> tuple[str, ...]:
    """What fails: the name that is stated, else each there is."""
    nodes = tuple(node for node in NODES if node != RELAY) if launch.controller else (PLANT,)
    known = {
        "drive": machine.input_names,
        "sensor": (*sensors, *machine.state_names),
        "link": DIRECTIONS,
        "node": nodes,
    }[fault.on]
    if fault.name is not None:
        if fault.name not in known:
            raise KeyRefused(section, "name", unknown(f"{fault.name} is no {fault.on}", fault.name, known))
        return (fault.name,)
    if fault.on == "node":
        raise KeyRefused(section, "name", f"missing; name the node that fails: {choices(known)}")
    return sensors or known if fault.on == "sensor" else known


def _size(fault: InjectedFault, section: str, step: float) -> float:
    """How large it is; 0 where its kind has no size."""
    if fault.kind == "stall" and not 0.0 < (fault.duration or 0.0) <= LONGEST_STALL:
        raise KeyRefused(section, "duration", f"give for how long the node stalls, at most {LONGEST_STALL:g} s")
    wanted = fault.kind in SIZES and (fault.on, fault.kind) != ("link", "garbage")
    if not wanted:
        if fault.size is not None:
            raise KeyRefused(section, "size", f"{fault.kind} of a {fault.on} has no size; leave it out")
        return 0.0
    size = fault.size or 0.0
    if not size > 0.0:
        raise KeyRefused(section, "size", f"give {SIZES[fault.kind]}, above 0")
    most = 1.0 if fault.kind == "drop" else MOST_WAITING * step if fault.kind == "delayed" else LARGEST
    if not size <= most:
        raise KeyRefused(section, "size", f"{size:g} is more than {most:g}; give {SIZES[fault.kind]}")
    return size
