"""What a C file is made of: machine, law, limits, delay and goal of a launch file, and what of it C does not have."""

from collections.abc import Iterator
from dataclasses import dataclass

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_file import LaunchError
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.controllers import ServoLaw
from servonode.controllers.engine.signals import Signals, load_signals
from servonode.mechanics.machine import Machine
from servonode.plants.limits import Limits, SoftStart


@dataclass(frozen=True)
class Exported:
    """The numbers and kernels of one C file: a field for each part of it.

    period_s: None without a controller. targets, signals: the launch file's goal. missing: what the launch file asks
    for and the file does not do, a sentence each.
    """

    machine: Machine
    law: ServoLaw | None
    integrator: str
    step_s: float
    period_s: float | None
    name: str
    start: Array  # kernel state at t = 0
    limits: Limits
    soft_start: SoftStart | None  # None: the controller begins at once
    delay: int  # control periods
    clipped: int  # control periods in a row for which a law that keeps may only be clipped
    targets: Signals
    signals: Signals
    missing: tuple[str, ...]

    @classmethod
    def of(cls, closed_loop: ClosedLoop, name: str | None = None) -> "Exported":
        """That of a resolved launch file; name: what it is called in the C file, absent: as the launch file.

        Raises:
            LaunchError: its law follows a bounded solution, or is in Python.
        """
        launch, control = closed_loop.launch, closed_loop.control
        if closed_loop.has_own_controller:
            text = "is a controller in Python, of which there is no C; name a program, or leave [controller] out"
            raise LaunchError(launch.file, "controller", "program", text)
        signals = control.signals if control else load_signals({}, 0)
        if not isinstance(signals, Signals):
            text = "the bounded solution is a table of the run, which C does not get; leave the section out"
            raise LaunchError(launch.file, "controller.inversion", None, text)
        return cls(
            machine=closed_loop.machine,
            law=control.law if control else None,
            integrator=launch.plant.integrator,
            step_s=launch.step_ns / 1e9,
            period_s=launch.period_ns / 1e9 if launch.period_ns else None,
            name=launch.name if name is None else name,
            start=closed_loop.start,
            limits=closed_loop.safety.limits,
            soft_start=closed_loop.safety.soft_start if closed_loop.safety.soft_start.at_first else None,
            delay=launch.controller.delay if launch.controller else 0,
            clipped=closed_loop.safety.clipped,
            targets=closed_loop.targets,
            signals=signals,
            missing=tuple(_missing(closed_loop)),
        )

    @property
    def n_goal(self) -> int:
        """Number of entries of the goal that a caller gives: targets and signals with their derivatives."""
        return self.law.goal_layout.states.start if self.law else 0


def _missing(closed_loop: ClosedLoop) -> Iterator[str]:
    launch, safety = closed_loop.launch, closed_loop.safety
    if launch.controller and launch.controller.predictor and launch.controller.delay:
        yield "controller.predictor: the law acts on the measured state, not on the one predicted over the delay."
    for goal in closed_loop.live:
        yield f"target.{goal.name}.topic: the goal's own function keeps its start; the caller gives y with what comes."
    if closed_loop.estimation is not None:
        yield "The estimator: the law acts on the x that the caller gives, a state or an estimate of it."
    if servos := closed_loop.source.servos():
        yield f"Commands of the servos ({', '.join(servos)}): inputs are the forces that they are to give."
    drives = closed_loop.actuator
    if not drives.ideal:
        wanted = ("rate_limit", "lag", "delay", "quantum", "dead_zone")
        keys = _stated(launch, "actuator", wanted)
        yield f"plant.actuator ({keys}): in the plant step inputs act at once, as they are."
    if not closed_loop.sensor.ideal:
        keys = _stated(launch, "sensor", ("noise", "bias", "quantum", "delay", "drop"))
        yield f"plant.sensor ({keys}): x is the state that the caller gives."
    soft = safety.soft_start
    if closed_loop.control and not soft.at_first and (soft.ramp or soft.periods):
        keys = ", ".join(["ramp"] * bool(soft.ramp) + ["arming_limit"] * bool(soft.periods))
        yield f"plant.safety ({keys}): in a simulation and in lockstep the first inputs act at once, so they do here."
    if launch.plant.safety.faults and closed_loop.machine.description.faults:
        names = ", ".join(dict.fromkeys(each.name for each in closed_loop.machine.description.faults))
        yield f"Faults of the machine ({names}): no state stops the controller but by its law's guards."
    yield "Timeouts, arming, the fault ladder and checks of readings: they are the caller's."


def _stated(launch: LaunchFile, section: str, keys: tuple[str, ...]) -> str:
    stated = getattr(launch.plant, section)
    return ", ".join(key for key in keys if getattr(stated, key))
