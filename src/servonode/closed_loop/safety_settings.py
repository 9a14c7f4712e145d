"""What the plant node needs of safety: limits, timeouts, what follows a fault; of [plant.safety] and the machine."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.closed_loop.launch_file import LaunchError, per_name
from servonode.closed_loop.launch_keys import AUTO, LaunchFile
from servonode.closed_loop.watches import command_timeout, lateness_limit, long_watches
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.installed import find_driver
from servonode.plants.effects import ActuatorEffects
from servonode.plants.limits import Limits, SoftStart
from servonode.plants.plausible import Plausible, StateLimits

BRAKE_HELD_NS = 1_000_000  # the safe action is computed again this often, or at each step where that is longer
BRAKING = 5.0  # s of the safe action after a fault, where the machine defines one


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
    unsafe: tuple[str, ...]
    stated_readings: StateLimits  # as the launch file limits readings
    known_readings: StateLimits  # the same, by the machine's own limits where it defines none
    least: float  # s, see `Plausible`

    def plausible(self, own: bool) -> Plausible | None:
        """What judges readings; None where nothing is limited. `own`: by the machine's limits where none is given."""
        limits = self.known_readings if own else self.stated_readings
        return Plausible(limits, self.least) if limits.any else None

    def check_limits(self, launch: LaunchFile) -> None:
        """Refuse an external plant without limits.

        Raises:
            LaunchError: an input lacks one.
        """
        if self.unlimited:
            raise LaunchError(launch.file, "plant.safety", "limit", self.unlimited_text)

    @property
    def unlimited_text(self) -> str:
        """Why an external plant is not armed without limits, and the remedy."""
        example = ", ".join(f"{name} = 0.5" for name in self.unlimited)
        text = f"missing for {', '.join(self.unlimited)}: one wrong reading of an external plant could demand "
        text += f"any torque; give limit = {{ {example} }} that the machine tolerates, or set plant.safety.unsafe"
        return f"{text} = true"


def safety_settings(launch: LaunchFile, machine: Machine, drives: ActuatorEffects) -> SafetySettings:
    """The settings of a launch file.

    Raises:
        LaunchError: a name that the machine does not have, or a timeout that watches nothing.
    """
    safety, limits, timeout = launch.plant.safety, _limits(launch, machine, drives), command_timeout(launch)
    without = _without_limit(launch, machine, limits)
    unsafe = [f"no limit on {', '.join(without)}"] if without else []
    unsafe += long_watches(launch, timeout)
    return SafetySettings(
        limits=limits,
        soft_start=_soft_start(launch, machine, limits),
        command_timeout=timeout,
        lateness_limit=lateness_limit(launch, timeout),
        on_fault=_on_fault(launch),
        brake_steps=max(1, BRAKE_HELD_NS // launch.step_ns),
        safe_steps=_safe_steps(launch, machine),
        unlimited=() if safety.unsafe else without,
        unsafe=(tuple(unsafe) or ("plant.safety.unsafe is set",)) if safety.unsafe else (),
        stated_readings=_readings(launch, machine, own=False),
        known_readings=_readings(launch, machine, own=True),
        least=(launch.period_ns or launch.step_ns) / 1e9,
    )


def _limits(launch: LaunchFile, machine: Machine, drives: ActuatorEffects) -> Limits:
    """What the safety filter lets through: at most what the drives can."""
    safety, names = launch.plant.safety, machine.description.input_names
    allowed = per_name(launch.file, "plant.safety", "limit", safety.limit, names, np.inf)
    return Limits(
        value=tuple(map(min, allowed, drives.limit)),
        rate=per_name(launch.file, "plant.safety", "rate_limit", safety.rate_limit, names, np.inf),
        power=np.inf if safety.power_limit is None else safety.power_limit,
    )


def _without_limit(launch: LaunchFile, machine: Machine, limits: Limits) -> tuple[str, ...]:
    """The inputs without a finite limit, of an external plant."""
    if not find_driver(launch.plant.driver).outside:
        return ()
    names = machine.description.input_names
    return tuple(name for name, most in zip(names, limits.value, strict=True) if not np.isfinite(most))


def _soft_start(launch: LaunchFile, machine: Machine, usual: Limits) -> SoftStart:
    """What keeps a machine from lurching after an arming; a simulation begins at its own initial state."""
    safety, period_ns = launch.plant.safety, launch.period_ns
    names = machine.description.input_names
    stated = per_name(launch.file, "plant.safety", "arming_limit", safety.arming_limit, names, np.inf)
    limits = Limits(tuple(map(min, stated, usual.value)), usual.rate, usual.power)
    return SoftStart(
        ramp=round(safety.ramp * 1e9 / period_ns) if period_ns else 0,
        periods=round(safety.arming_time * 1e9 / period_ns) if period_ns and limits != usual else 0,
        limits=limits,
        at_first=not find_driver(launch.plant.driver).simulated and launch.run.mode == "realtime",
    )


def _on_fault(launch: LaunchFile) -> str:
    """What follows a fault; where nodes are restarted the run waits."""
    chosen, policies = launch.plant.safety.on_fault, launch.supervision
    again = {policies.plant, policies.controller, policies.target} != {"never"}
    return chosen if chosen != AUTO else "wait" if again else "stop"


def _safe_steps(launch: LaunchFile, machine: Machine) -> int:
    wanted = launch.plant.safety.safe_time
    seconds = (BRAKING if machine.description.has_safe_action else 0.0) if wanted is None else wanted
    return round(seconds * 1e9 / launch.step_ns)


def _readings(launch: LaunchFile, machine: Machine, own: bool) -> StateLimits:
    """What a plausible reading keeps; `own`: the machine's limits where the launch file defines none."""
    safety, described, names = launch.plant.safety, machine.description.state, machine.description.state_names

    def limits(key: str, stated: Any, of_machine: list[float | None]) -> tuple[float, ...]:
        known = [most if own and most is not None else np.inf for most in of_machine]
        given = per_name(launch.file, "plant.safety", key, stated, names, np.nan)
        return tuple(most if np.isnan(more) else more for most, more in zip(known, given, strict=True))

    value = limits("state_limit", safety.state_limit, [each.limit for each in described])
    rate = limits("state_rate_limit", safety.state_rate_limit, [each.rate_limit for each in described])
    return StateLimits(names, value, rate)
