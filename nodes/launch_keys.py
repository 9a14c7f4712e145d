"""The keys of a launch file as frozen structs: default, bounds, unit and one sentence each.

`msgspec.inspect.type_info` of these structs is the reference of the keys (`reference.py` prints it).
"""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

AUTO = "auto"  # where the machine or servonode chooses
MAX_SECONDS = 9e9  # 285 years; in nanoseconds within 64 bits

Seconds = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]
OptionalSeconds = Seconds | None
Positive = Annotated[float, Meta(gt=0)]
Size = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Chance = Annotated[float, Meta(ge=0, lt=1)]
Whole = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Text = Annotated[str, Meta(min_length=1)]
Numbers = float | dict[str, float] | None  # one for all names, or by name; None: the effect is absent
Sizes = Size | dict[str, Size] | None
Setting = float | int | str | bool | list[float]
Integrator = Literal["euler", "rk2", "heun", "ralston", "rk4"]


def _key(sentence: str, unit: str = "") -> Meta:
    return Meta(description=sentence, extra={"unit": unit})


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """A section of a launch file; each key has its unit and sentence in its annotation."""


class Run(Section, frozen=True):
    """[run]: how long and against which clock."""

    duration: Annotated[Seconds, _key("the plant time after which the run ends", "s")]
    mode: Annotated[Literal["realtime", "lockstep"], _key("the clock: the wall's, or wait for answers")] = "realtime"
    speed: Annotated[Positive, _key("plant seconds per wall second in real time")] = 1.0
    seed: Annotated[Whole, _key("the number every random effect derives from")] = 1
    lockstep_timeout: Annotated[
        Seconds, _key("how long an answer may take in lockstep, the first one in real time too", "wall s")
    ] = 5.0


class Actuator(Section, frozen=True):
    """[plant.actuator]: the physics of the drives; a number for all inputs or a table by input."""

    limit: Annotated[Sizes, _key("the largest magnitude of an input", "its unit")] = None
    rate_limit: Annotated[Sizes, _key("the fastest change of an input", "its unit per s")] = None
    lag: Annotated[Sizes, _key("the time constant of a first-order lag", "s")] = None
    delay: Annotated[Sizes, _key("the dead time before an input acts", "s")] = None
    quantum: Annotated[Sizes, _key("the step to which an input is rounded", "its unit")] = None
    dead_zone: Annotated[Sizes, _key("the magnitude up to which an input has no effect", "its unit")] = None


class Sensor(Section, frozen=True):
    """[plant.sensor]: how a published state differs from the true one; numbers for all states or by state."""

    noise: Annotated[Sizes, _key("the standard deviation of white noise", "its unit")] = None
    bias: Annotated[Numbers, _key("the constant error", "its unit")] = None
    quantum: Annotated[Sizes, _key("the step to which a state is rounded", "its unit")] = None
    delay: Annotated[Size, _key("the age of a state message when it is published", "s")] = 0.0
    drop: Annotated[Chance, _key("the probability that a state message is lost")] = 0.0


class Safety(Section, frozen=True):
    """[plant.safety]: what the filter in front of the plant enforces; absent limits are the actuator's."""

    limit: Annotated[Sizes, _key("the largest magnitude let through", "its unit")] = None
    command_timeout: Annotated[
        OptionalSeconds, _key("the longest wait for a command (absent: 3 periods, at least the floor)", "s")
    ] = None
    command_timeout_floor: Annotated[Seconds, _key("the least wait where the timeout is absent", "wall s")] = 0.02
    faults: Annotated[bool, _key("whether the machine's own faults (tilt, fall, contact lost) end the run")] = True
    safe_time: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_SECONDS)] | None,
        _key("how long a fault is followed by the safe action (absent: 5 where the machine brakes)", "s"),
    ] = None
    on_fault: Annotated[Literal["stop", "resume"], _key("what follows a fault: the end, or go on")] = "stop"


class Plant(Section, frozen=True):
    """[plant]: the machine, how it is integrated, and its imperfections."""

    machine: Annotated[Text, _key("the machine; `servonode list machines`")]
    driver: Annotated[Literal["simulated"], _key("what stands behind the plant node")] = "simulated"
    step: Annotated[
        Seconds | Literal["auto"], _key('the integrator step; "auto": the machine chooses, where it can', "s")
    ] = 0.001
    integrator: Annotated[Integrator, _key("the integration rule; rk2 is the midpoint rule")] = "rk4"
    publish_every: Annotated[Count, _key("steps per state message; control instants always have one", "steps")] = 1
    parameters: Annotated[
        dict[str, float | str], _key("what differs from the machine's defaults, a function of t, or auto", "SI")
    ] = {}
    settings: Annotated[dict[str, str | float | bool], _key("the machine's named options")] = {}
    disturbance: Annotated[
        dict[str, str | float], _key("forces by coordinate or input, expressions of t and states", "N or N m")
    ] = {}
    initial: Annotated[
        dict[str, float | list[float] | bool | str],
        _key("state values at t = 0, or what the machine starts from", "SI"),
    ] = {}
    actuator: Actuator = Actuator()
    sensor: Sensor = Sensor()
    safety: Safety = Safety()


class Controller(Section, frozen=True):
    """[controller]: the program and how often it runs; without it, zero input and no command watchdog."""

    program: Annotated[Text | None, _key("the program; `servonode list programs`")] = None
    residuals: Annotated[
        dict[str, str | float], _key("instead of a program: expressions of t, states, parameters, targets, settings")
    ] = {}
    period: Annotated[Seconds, _key("the time between control instants", "s")] = 0.01
    delay: Annotated[Whole, _key("the time after which a command acts", "periods")] = 0
    predictor: Annotated[bool, _key("whether the law computes from the state predicted over the delay")] = False
    damping: Annotated[
        Share, _key("0: stop where the goal is singular; else damped least squares, with this share of W")
    ] = 0.0
    parameters: Annotated[dict[str, float], _key("what differs in the model the law believes", "SI")] = {}
    gains: Annotated[dict[str, float | str | list[list[float]]], _key('rates, "auto", or matrices', "1/s")] = {}
    settings: Annotated[dict[str, Setting], _key("the program's own options")] = {}


class Sections(Section, frozen=True):
    """The sections of a launch file."""

    run: Run
    plant: Plant
    controller: Controller | None = None
    target: Annotated[dict[str, str | float], _key("expressions of t by name", "SI")] = {}


class LaunchFile(Sections, frozen=True, kw_only=True):
    """A launch file that fits together, with its times in whole ns; no period without controller."""

    path: Path
    file: str  # as the user named it
    name: str
    step_ns: int
    duration_ns: int
    steps: int  # in the whole run
    period_ns: int | None
    steps_per_period: int | None
