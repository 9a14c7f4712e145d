"""The definition of a driver: how the plant node reaches a machine; an entry of the table `DRIVERS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from servonode.errors import StatementError
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource
from servonode.plants.plant import Plant
from servonode.plants.plausible import Plausible
from servonode.plants.simulated import Motion, SimulatedPlant

if TYPE_CHECKING:  # the bus is loaded by the driver that needs it
    from servonode.plants.drivers.line_traffic import Traffic
    from servonode.plants.drivers.packet_link import Transport
    from servonode.plants.drivers.simulated_device import Workings
    from servonode.plants.drivers.terms import Clock, Terms

Array = npt.NDArray[np.float64]


class DriverError(StatementError):
    """A value in a launch file that its driver refuses: section, key, and what is wrong."""

    def __init__(self, section: str, key: str, text: str) -> None:
        super().__init__(text)
        self.section, self.key, self.text = section, key, text


@dataclass(frozen=True)
class Stated:
    """The keys for the driver in a launch file: the clock, [plant.device], [plant.link] and [plant.mujoco]."""

    lockstep: bool
    speed: float  # plant seconds per second of wall-clock time, in real time
    device: Mapping[str, Any]
    link: Mapping[str, Any]
    step_s: float = 1e-3  # plant step [s]
    period_s: float = 0.0  # between two control instants [s]; 0: no controller
    mujoco: Mapping[str, Any] = field(default_factory=dict)
    settings: Any = None  # [plant.device.settings] as the driver's own struct; None: it has none


@dataclass(frozen=True)
class MotionContext:
    """The arguments with which a driver moves a simulated machine by other means than its equations."""

    machine: Machine
    source: MachineSource
    start: npt.NDArray[np.float64]  # kernel state at step 0
    step_ns: int
    stated: Stated


@dataclass(frozen=True)
class DriverContext:
    """The arguments with which a driver opens a plant for a run."""

    machine: Machine
    simulation: Callable[[], SimulatedPlant]  # makes one of the machine at its initial state
    terms: "Terms"  # for a machine behind a link
    workings: "Workings"  # for a machine that is simulated behind a link
    plausible: Plausible | None  # judges the readings of a machine that is not in this process
    stated: Stated
    addresses: tuple[str, ...]
    clock: "Clock"
    state_every: int = 0  # plant steps between two states of a machine behind packets; 0: it chooses
    transport: "Callable[[Stated], Transport] | None" = None  # carries the packets; None: the machine speaks none

    @property
    def readonly(self) -> bool:
        """Whether the run only observes: nothing that commands the machine may be sent to it, not even zero."""
        return self.terms.readonly


@dataclass(frozen=True)
class Driver:
    """One way in which the plant node reaches a machine.

    summary: the way in a few words, for the reference page. reads: the tables and keys of [plant] that it reads beside
    those of every driver; those of other drivers are refused. open: makes the plant; what it opens belongs to the
    process.

    simulated: the machine is a simulation in the plant's own process. It arms itself, may be late, and needs no
    watchdog, because its failure harms nothing; its readings have no age. outside: the machine may be hardware. It
    needs a finite limit on every input, and may measure more than its state.

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
    check: Callable[[Stated], None] = lambda _: None
    addresses: Callable[[Stated, str], tuple[str, ...]] = lambda *_: ()
    motion: Callable[[MotionContext], Motion] | None = None
    ready: Callable[[Stated], None] = lambda _: None
    remarks: Callable[[Stated, Machine, Array], list[str]] = lambda *_: []
    transport: "Callable[[Stated], Transport] | None" = None
    traffic: "Callable[[Stated, Machine, int, int], Traffic] | None" = None

    def uses(self, table: str, key: str) -> bool:
        """Whether it reads this key of [plant.TABLE]."""
        if (table, key) == ("device", "settings"):
            return self.settings is not None
        return table in self.reads or f"{table}.{key}" in self.reads


def check_pace(stated: Stated) -> None:
    """Refuse a speed that hardware cannot have, unless the launch file says that it is a simulator."""
    if not stated.lockstep and stated.speed != 1 and not stated.device["any_speed"]:
        text = f"{stated.speed:g} is not possible for hardware, which runs at speed 1; give 1, or for a simulator "
        raise DriverError("run", "speed", f"{text}set plant.device.any_speed = true")
