"""What the plant node needs of safety: limits, timeouts, what follows a fault; of [plant.safety] and the machine."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.closed_loop.launch_error import KeyRefused, per_name
from servonode.closed_loop.launch_keys import AUTO, Device, Plant, Run, Safety, Supervision, Times
from servonode.mechanics.description import MachineDescription
from servonode.plants.drivers.driver import Driver
from servonode.plants.drivers.installed import find_driver
from servonode.plants.effects import ActuatorEffects
from servonode.plants.limits import Limits, SoftStart
from servonode.plants.plausible import Plausible, StateLimits
from servonode.plants.speeds import Drives

BRAKE_HELD_NS = 1_000_000  # the safe action is computed again this often, or at each step where that is longer
BRAKING = 5.0  # s of the safe action after a fault, where the machine defines one
CLIPPED = 3  # control periods for which inputs that keep may be sought in vain
LATENESS = 1.0  # s (wall clock) by which a simulated plant may be late
LONGEST_ANSWER = 60.0  # s (wall clock) for a first answer, or one in lockstep, of an external plant
LONGEST_TIMEOUT = 10.0  # s (wall clock); a longer command timeout watches nothing, and must be called unsafe


@dataclass(frozen=True)
class SafetySettings:
    """What stands between the commands and the machine.

    on_fault: "stop", "wait" or "resume". brake_steps: plant steps for which one evaluation of the safe action is held;
    safe_steps: those for which it acts after a fault. unlimited: the inputs of an external plant that lack a limit and
    must have one. unsafe: what plant.safety.unsafe lets happen here, each in a few words; empty where it is not set.
    """

    limits: Limits  # what the safety filter lets through
    soft_start: SoftStart
    command_timeout: float | None  # s (wall clock); None: no controller, no command is awaited
    lateness_limit: float  # s (wall clock), of the plant itself
    on_fault: str
    brake_steps: int
    safe_steps: int
    unlimited: tuple[str, ...]
    limit_key: str  # of [plant.safety], which limits what is sent
    unsafe: tuple[str, ...]
    stated_readings: StateLimits  # as the launch file limits readings
    known_readings: StateLimits  # the same, by the machine's own limits where it defines none
    least: float  # s, see `Plausible`
    clipped: int  # control periods in a row for which a law that keeps may only be clipped

    def plausible(self, own: bool) -> Plausible | None:
        """What judges readings; None where nothing is limited. `own`: by the machine's limits where none is given."""
        limits = self.known_readings if own else self.stated_readings
        return Plausible(limits, self.least) if limits.any else None

    def check_limits(self) -> None:
        """Refuse an external plant without limits.

        Raises:
            KeyRefused: an input lacks one.
        """
        if self.unlimited:
            raise KeyRefused("plant.safety", self.limit_key, self.unlimited_text)

    @property
    def unlimited_text(self) -> str:
        """Why an external plant is not armed without limits, and the remedy."""
        example = ", ".join(f"{name} = 0.5" for name in self.unlimited)
        text = f"missing for {', '.join(self.unlimited)}: one wrong reading of an external plant could demand "
        what = "speed" if self.limit_key == "speed_limit" else "torque"
        text += f"any {what}; give {self.limit_key} = {{ {example} }} that the machine tolerates, or set "
        return f"{text}plant.safety.unsafe = true"


def safety_settings(
    safety: Safety, device: Device, driver: Driver, run: Run, supervision: Supervision, times: Times,
    described: MachineDescription, actuator: ActuatorEffects, drives: Drives | None = None,
) -> SafetySettings:  # fmt: skip
    """The settings of a launch file.

    Raises:
        KeyRefused: a name that the machine does not have, or a timeout that watches nothing.
    """
    limits, timeout = _limits(safety, described, actuator), command_timeout(safety, run.speed, times.period_ns)
    at_first = not driver.simulated and run.mode == "realtime"
    sent = drives.limit if drives else limits.value
    without = _without_limit(described, sent) if driver.outside else ()
    unsafe = [f"no limit on {', '.join(without)}"] if without else []
    unsafe += long_watches(safety, device, not driver.simulated, run, times.period_ns is not None, timeout)
    return SafetySettings(
        limits=limits,
        soft_start=_soft_start(safety, described, limits, times.period_ns, at_first),
        command_timeout=timeout,
        lateness_limit=lateness_limit(safety, driver.simulated, timeout),
        on_fault=_on_fault(safety, supervision),
        brake_steps=max(1, BRAKE_HELD_NS // times.step_ns),
        safe_steps=_safe_steps(safety, described, times.step_ns),
        unlimited=() if safety.unsafe else without,
        limit_key="speed_limit" if drives else "limit",
        unsafe=(tuple(unsafe) or ("plant.safety.unsafe is set",)) if safety.unsafe else (),
        stated_readings=_readings(safety, described, own=False),
        known_readings=_readings(safety, described, own=True),
        least=(times.period_ns or times.step_ns) / 1e9,
        clipped=CLIPPED if safety.repeats is None else safety.repeats,
    )


def _limits(safety: Safety, machine: MachineDescription, drives: ActuatorEffects) -> Limits:
    """What the safety filter lets through: what is stated, else the machine's own; at most what the drives can."""
    names = machine.input_names
    stated = per_name("plant.safety", "limit", safety.limit, names, np.nan)
    own = (each.limit or np.inf for each in machine.inputs)
    allowed = (most if np.isnan(given) else given for given, most in zip(stated, own, strict=True))
    return Limits(
        value=tuple(map(min, allowed, drives.limit)),
        rate=per_name("plant.safety", "rate_limit", safety.rate_limit, names, np.inf),
        power=np.inf if safety.power_limit is None else safety.power_limit,
    )


def _without_limit(machine: MachineDescription, limits: tuple[float, ...]) -> tuple[str, ...]:
    """The inputs without a finite limit."""
    return tuple(name for name, most in zip(machine.input_names, limits, strict=True) if not np.isfinite(most))


def _soft_start(
    safety: Safety, machine: MachineDescription, usual: Limits, period_ns: int | None, at_first: bool
) -> SoftStart:
    """What keeps a machine from lurching after an arming; a simulation begins at its own initial state."""
    names = machine.input_names
    stated = per_name("plant.safety", "arming_limit", safety.arming_limit, names, np.inf)
    limits = Limits(tuple(map(min, stated, usual.value)), usual.rate, usual.power)
    return SoftStart(
        ramp=round(safety.ramp * 1e9 / period_ns) if period_ns else 0,
        periods=round(safety.arming_time * 1e9 / period_ns) if period_ns and limits != usual else 0,
        limits=limits,
        at_first=at_first,
    )


def _on_fault(safety: Safety, policies: Supervision) -> str:
    """What follows a fault; where nodes are restarted the run waits."""
    chosen = safety.on_fault
    again = {policies.plant, policies.controller, policies.target} != {"never"}
    return chosen if chosen != AUTO else "wait" if again else "stop"


def _safe_steps(safety: Safety, machine: MachineDescription, step_ns: int) -> int:
    wanted = safety.safe_time
    seconds = (BRAKING if machine.has_safe_action else 0.0) if wanted is None else wanted
    return round(seconds * 1e9 / step_ns)


def _readings(safety: Safety, machine: MachineDescription, own: bool) -> StateLimits:
    """What a plausible reading keeps; `own`: the machine's limits where the launch file defines none."""
    described, names = machine.state, machine.state_names

    def limits(key: str, stated: Any, of_machine: list[float | None]) -> tuple[float, ...]:
        known = [most if own and most is not None else np.inf for most in of_machine]
        given = per_name("plant.safety", key, stated, names, np.nan)
        return tuple(most if np.isnan(more) else more for most, more in zip(known, given, strict=True))

    value = limits("state_limit", safety.state_limit, [each.limit for each in described])
    rate = limits("state_rate_limit", safety.state_rate_limit, [each.rate_limit for each in described])
    return StateLimits(names, value, rate)


def check_watches(plant: Plant, run: Run) -> None:
    """Refuse times beyond which nobody would notice that an external plant, or the plant itself, is lost.

    Raises:
        KeyRefused: there is such a time, without plant.safety.unsafe.
    """
    if find_driver(plant.driver).simulated or plant.safety.unsafe:
        return
    watches = (
        ("plant.device", "timeout", plant.device.timeout, LONGEST_TIMEOUT),
        ("plant.safety", "lateness_limit", plant.safety.lateness_limit, LONGEST_TIMEOUT),
        ("plant.safety", "frozen_time", plant.safety.frozen_time, LONGEST_TIMEOUT * run.speed),
        ("run", "lockstep_timeout", run.lockstep_timeout, LONGEST_ANSWER),
    )
    for section, key, value, longest in watches:
        if value is not None and value > longest:
            raise _unwatched(section, key, value, longest)
    if not plant.safety.faults:
        text = "false disables the detection of tilt, fall and lost contact on a real machine; leave it out, "
        raise KeyRefused("plant.safety", "faults", f"{text}or set plant.safety.unsafe = true")


def command_timeout(safety: Safety, speed: float, period_ns: int | None) -> float | None:
    """W [s, wall clock]: max(3 periods, the floor) unless stated [plant s]; None without a controller, or if unsafe.

    Raises:
        KeyRefused: a timeout that watches nothing, without plant.safety.unsafe.
    """
    if period_ns is None:
        return None
    stated = safety.command_timeout
    if stated is not None:
        if not (0 < stated / speed <= LONGEST_TIMEOUT or safety.unsafe):
            raise _unwatched("plant.safety", "command_timeout", stated, LONGEST_TIMEOUT * speed)
        if 0 < stated < period_ns / 1e9:
            text = f"{stated:g} s is shorter than a control period of {period_ns / 1e9:g} s: no command could be "
            raise KeyRefused("plant.safety", "command_timeout", f"{text}in time; give more")
        return stated / speed or None
    if safety.command_timeout_floor > LONGEST_TIMEOUT and not safety.unsafe:
        raise _unwatched("plant.safety", "command_timeout_floor", safety.command_timeout_floor)
    return max(3 * period_ns / 1e9 / speed, safety.command_timeout_floor)


def lateness_limit(safety: Safety, simulated: bool, timeout: float | None) -> float:
    """The plant's own lateness that is a fault [s, wall clock]; `timeout` is that of commands."""
    stated = safety.lateness_limit
    if stated is not None:
        return stated
    return LATENESS if simulated or timeout is None else timeout


def long_watches(
    safety: Safety, device: Device, real: bool, run: Run, controlled: bool, timeout: float | None
) -> list[str]:
    """The watches that are off or longer than they may be without plant.safety.unsafe, each in a few words."""
    found = []
    if controlled and timeout is None:
        found.append("no command watchdog")
    elif timeout is not None and timeout > LONGEST_TIMEOUT:
        found.append(f"command timeout {timeout:g} s")
    late = {"device timeout": device.timeout, "lateness limit": safety.lateness_limit}
    late["frozen time"] = safety.frozen_time / run.speed
    found += [f"{name} {value:g} s" for name, value in late.items() if real and (value or 0.0) > LONGEST_TIMEOUT]
    if real and run.lockstep_timeout > LONGEST_ANSWER:
        found.append(f"lockstep timeout {run.lockstep_timeout:g} s")
    if real and not safety.faults:
        found.append("the machine's own faults are off")
    return found


def _unwatched(section: str, key: str, value: float, longest: float = LONGEST_TIMEOUT) -> KeyRefused:
    text = f"{value:g} s would leave the machine without a watchdog; give more than 0 and at most {longest:g} s, "
    return KeyRefused(section, key, f"{text}or set plant.safety.unsafe = true")
