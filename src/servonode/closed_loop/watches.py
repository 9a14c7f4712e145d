"""The timeouts after which a lost command, machine or node is noticed, and those that plant.safety.unsafe allows."""

from servonode.closed_loop.launch_error import KeyRefused
from servonode.closed_loop.launch_keys import Device, Plant, Run, Safety
from servonode.plants.drivers.installed import find_driver

LATENESS = 1.0  # s (wall clock) by which a simulated plant may be late
LONGEST_ANSWER = 60.0  # s (wall clock) for a first answer, or one in lockstep, of an external plant
LONGEST_TIMEOUT = 10.0  # s (wall clock); a longer command timeout watches nothing, and must be called unsafe


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
