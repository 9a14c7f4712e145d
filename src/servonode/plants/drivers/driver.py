"""The definition of a driver: how the plant node reaches a machine; an entry of the table `DRIVERS` or of a wing."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from servonode.arrays import Array
from servonode.bus.durations import Clock
from servonode.errors import StatementError, did_you_mean
from servonode.mechanics.description import packed
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource
from servonode.plants.injection import Injector
from servonode.plants.keys import AddedSection
from servonode.plants.plant import Plant
from servonode.plants.plausible import Plausible
from servonode.plants.servos import Servo
from servonode.plants.simulated import Motion, SimulatedPlant
from servonode.plants.speeds import Drives

if TYPE_CHECKING:  # the bus is loaded by the driver that needs it
    from servonode.plants.drivers.estimated import EstimateTerms
    from servonode.plants.drivers.transport import Traffic, Transport

SETTINGS = "plant.device.settings"


class DriverError(StatementError):
    """A value in a launch file that its driver refuses: section, key, and what is wrong."""

    def __init__(self, section: str, key: str, text: str) -> None:
        super().__init__(text)
        self.section, self.key, self.text = section, key, text


@dataclass(frozen=True)
class Stated:
    """The keys for the driver in a launch file: the clock, [plant.device], [plant.link].

    more: what is stated in sections that wings and other packages add, by dotted name, such as plant.mujoco.
    """

    lockstep: bool
    speed: float  # plant seconds per second of wall-clock time, in real time
    device: Mapping[str, Any]
    link: Mapping[str, Any]
    step_s: float = 1e-3  # plant step [s]
    period_s: float = 0.0  # between two control instants [s]; 0: no controller
    more: Mapping[str, AddedSection] = field(default_factory=dict)
    settings: Any = None  # [plant.device.settings] as the driver's own struct; None: it has none


@dataclass(frozen=True)
class LawTerms:
    """The terms on which the law in a machine's firmware acts."""

    schema: int
    n_goal: int  # entries of its goal
    tolerance: tuple[float, ...]  # largest difference from the inputs that are sent, each in its unit


@dataclass(frozen=True)
class DriverContext:
    """The arguments with which a driver opens a plant for a run, or moves a simulated machine (`Driver.motion`).

    It is large because it is the only one: no driver needs all of it. simulation: makes the simulated plant of the
    launch file at its initial state. simulated_machine: makes the machine that is simulated behind a link, with these
    parameters, kernel state at step 0 and plant step [ns].
    """

    machine: Machine
    stated: Stated
    start: Array  # kernel state at step 0
    step_ns: int  # plant step
    simulation: Callable[[], SimulatedPlant]
    simulated_machine: Callable[[Machine, Array, int], SimulatedPlant] | None = None
    source: MachineSource | None = None
    # the terms on which a machine behind a link takes part
    timeout: float = 0.0  # s (wall clock) without an input after which the machine takes its safe action
    state_timeout: float = 0.0  # s (wall clock) without a state after which the machine counts as lost
    limits: Mapping[str, float] = field(default_factory=dict)  # largest magnitude of an input that has one
    frozen_time: float = float("inf")  # s of plant time for which readings may stay the same while inputs act
    brake_time: float = float("inf")  # s of plant time for which inputs of the safe action may be held
    resolution: float = 0.0  # relative; readings that differ by less may be equal
    readonly: bool = False  # the run only observes: nothing that commands the machine may be sent, not even zero
    law: LawTerms | None = None  # None: no law of the machine's own acts
    drives: Drives | None = None  # that take speeds; None: they take efforts
    efforts: tuple[float, ...] = ()  # largest magnitudes of what drives that take speeds do
    servos: Mapping[str, Servo] = field(default_factory=dict)  # by their inputs, of a driver that tells them commands
    estimate: "EstimateTerms | None" = None  # for a machine that sends only readings; None: it sends its state
    plausible: Plausible | None = None  # judges the readings of a machine that is not in this process
    addresses: tuple[str, ...] = ()
    own_key: str = ""  # the name of our key pair, for a machine with a key; empty: the only one that there is
    insecure: bool = False  # whether those addresses may be beyond this computer without keys
    state_every: int = 0  # plant steps between two states of a machine behind packets; 0: it chooses
    seed: int = 0
    clock: Clock = time.monotonic_ns
    injector: Injector | None = None  # the faults of the run; of them those of its link are the driver's own

    @property
    def lockstep(self) -> bool:
        """Whether time stands still between two inputs."""
        return self.stated.lockstep

    @property
    def speed(self) -> float:
        """Plant seconds per second of wall-clock time."""
        return self.stated.speed

    @property
    def start_values(self) -> dict[str, float | list[float]]:
        """The state at step 0, by name."""
        return packed(self.machine.description.layout, self.start[: self.machine.n_state].tolist())


def finite_limits(machine: Machine, limits: Sequence[float], readonly: bool = False) -> dict[str, float]:
    """The limits of the inputs that have one; all zero if readonly, so that nobody can move a machine that keeps them.

    limits: largest magnitude of each input; inf: no limit.
    """
    by_name = zip(machine.description.input_names, limits, strict=True)
    return {name: 0.0 if readonly else float(limit) for name, limit in by_name if readonly or isfinite(limit)}


@dataclass(frozen=True)
class Driver:
    """One way in which the plant node reaches a machine: all that the rest of servonode knows of it.

    It has many fields because nobody else asks for a driver's name; most drivers state a few of them.

    summary: the way in a few words, for the reference page. reads: the tables and keys of [plant] that it reads beside
    those of every driver; those of other drivers are refused. open: makes the plant; what it opens belongs to the
    process.

    simulated: the machine is a simulation in the plant's own process. It arms itself, may be late, and needs no
    watchdog, because its failure harms nothing; its readings have no age. outside: the machine may be hardware. It
    needs a finite limit on every input, and may measure more than its state.

    speeds: whether it supports drives that take speeds (plant.command = "velocity"); what it opens then has `drive`
    (`SpeedPlant`), and its motion, if any, takes speeds (`DriverContext.drives`) and tells its efforts.

    servos: whether it tells servos their commands, such as the positions of an arm (`Applied.servo`); a machine that
    has servos is armed with such a driver alone.

    motion: what moves the machine of a simulation in place of its equations, in each execution mode; raises
    DriverError.

    settings: its own keys in [plant.device.settings], as a msgspec Struct; the values of a launch file come as
    `Stated.settings`. readonly: whether it supports runs that only observe; what it opens then sends no input, no zero,
    no end (`DriverContext.readonly`). A `DevicePlant` does that by itself.

    check: raises DriverError for values that cannot be used, before anything is derived. addresses: those of a machine
    of this name, first the address at which it publishes, last that of servonode; raises DriverError. ready: raises
    DriverError where the machine cannot be reached now, just before a run. remarks: sentences for whoever starts or
    checks a run of this machine from this initial state.
    transport: what carries the packets of docs/reference/firmware.md; None: the machine does not speak them. traffic:
    of a run with this machine over packets, by the entries of a goal for its own law and its sensors in use.
    """

    name: str
    summary: str
    reads: tuple[str, ...]
    open: Callable[[DriverContext], Plant]
    simulated: bool = False
    outside: bool = False
    settings: type[Struct] | None = None
    readonly: bool = False
    speeds: bool = False
    servos: bool = False
    check: Callable[[Stated], None] = lambda _: None
    addresses: Callable[[Stated, str], tuple[str, ...]] = lambda *_: ()
    motion: Callable[[DriverContext], Motion] | None = None
    ready: Callable[[Stated], None] = lambda _: None
    remarks: Callable[[Stated, Machine, Array], list[str]] = lambda *_: []
    transport: "Callable[[Stated], Transport] | None" = None
    traffic: "Callable[[Stated, Machine, int, int], Traffic] | None" = None

    def uses(self, table: str, key: str) -> bool:
        """Whether it reads this key of [plant.TABLE]."""
        if (table, key) == ("device", "settings"):
            return self.settings is not None
        return table in self.reads or f"{table}.{key}" in self.reads


SIMULATED = Driver(
    name="simulated",
    summary="a simulation",
    reads=("actuator", "sensor", "disturbance"),
    open=lambda context: context.simulation(),
    simulated=True,
    readonly=True,
    speeds=True,
)


def check_pace(stated: Stated) -> None:
    """Refuse a speed that hardware cannot have, unless the launch file says that it is a simulator."""
    if not stated.lockstep and stated.speed != 1 and not stated.device["any_speed"]:
        text = f"{stated.speed:g} is not possible for hardware, which runs at speed 1; give 1, or for a simulator "
        raise DriverError("run", "speed", f"{text}set plant.device.any_speed = true")


def own_settings(driver: Driver, table: Mapping[str, Any]) -> msgspec.Struct | None:
    """The driver's settings in a launch file, with defaults; None for a driver without keys of its own.

    Raises:
        DriverError: an unknown key, one that is missing, a value that is not of its type or out of its bounds.
    """
    if driver.settings is None:
        return None
    known = {each.name: each for each in fields(driver.settings)}
    for name in table:
        if name not in known:
            near = did_you_mean(name, known)
            raise DriverError(SETTINGS, name, f"unknown key of driver {driver.name}; {near}choose {', '.join(known)}")
    values = {}
    for name, known_key in known.items():
        if name not in table:
            if known_key.required:
                raise DriverError(SETTINGS, name, f"missing; driver {driver.name} needs it")
            continue
        try:
            values[name] = msgspec.convert(table[name], known_key.type)
        except msgspec.ValidationError as error:
            what = str(error)[:1].lower() + str(error)[1:]
            raise DriverError(
                SETTINGS, name, f"{table[name]!r} cannot be taken by driver {driver.name}: {what}"
            ) from None
    return driver.settings(**values)
