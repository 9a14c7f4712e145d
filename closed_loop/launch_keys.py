"""The keys of a launch file as frozen structs: default, bounds, unit and one sentence each.

`msgspec.inspect.type_info` of these structs is the reference of the keys (`reference.py` prints it).
"""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.link_keys import Impairments
from servonode.plants.drivers.mujoco_keys import Contact
from servonode.plants.keys import MAX_SECONDS, Seconds, Share, Wait, key

AUTO = "auto"  # where the machine or servonode chooses
LARGEST = 1e50  # of any number, whatever its unit: products of a few larger ones would no longer be finite

OptionalSeconds = Seconds | None
Pace = Annotated[float, Meta(ge=1e-6, le=1e6)]
Size = Annotated[float, Meta(ge=0)]
Chance = Annotated[float, Meta(ge=0, lt=1)]
Whole = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Text = Annotated[str, Meta(min_length=1)]
Numbers = float | dict[str, float] | None  # one for all names, or by name; None: the effect is absent
Sizes = Size | dict[str, Size] | None
Waits = Wait | dict[str, Wait] | None
Setting = float | int | str | bool | list[float]
Integrator = Literal["euler", "rk2", "heun", "ralston", "rk4"]
Restart = Literal["never", "on-failure", "always"]
# Installed packages add more; whether a name is one of theirs is seen when a launch file has it.
DriverName = Annotated[str, Meta(extra_json_schema={"enum": sorted(DRIVERS)})]


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """A section of a launch file; each key has its unit and sentence in its annotation."""


class Run(Section, frozen=True):
    """[run]: how long and against which clock."""

    duration: Annotated[Seconds, key("the plant time after which the run ends", "s")]
    mode: Annotated[Literal["realtime", "lockstep"], key("the clock: the wall's, or wait for answers")] = "realtime"
    speed: Annotated[Pace, key("plant seconds per wall second in real time")] = 1.0
    seed: Annotated[Whole, key("the number every random effect derives from")] = 1
    lockstep_timeout: Annotated[
        Seconds, key("how long an answer may take in lockstep, the first one in real time too", "s (wall clock)")
    ] = 5.0
    lock_memory: Annotated[bool, key("whether the nodes' memory is kept from being swapped out, where permitted")] = (
        True
    )
    priority: Annotated[
        Annotated[int, Meta(ge=0, le=98)], key("the SCHED_FIFO priority of plant and controller; 0: ordinary")
    ] = 0
    pin: Annotated[bool, key("whether in real time plant and controller get a core each")] = False
    telemetry: Annotated[
        Text | None,
        key(
            "where all topics are published for viewers, such as tcp://127.0.0.1:9872; this computer only (absent: not)"
        ),
    ] = None


class Actuator(Section, frozen=True):
    """[plant.actuator]: the physics of the drives; a number for all inputs or a table by input."""

    limit: Annotated[Sizes, key("the largest magnitude of an input", "its unit")] = None
    rate_limit: Annotated[Sizes, key("the fastest change of an input", "its unit per s")] = None
    lag: Annotated[Waits, key("the time constant of a first-order lag", "s")] = None
    delay: Annotated[Waits, key("the dead time before an input acts", "s")] = None
    quantum: Annotated[Sizes, key("the step to which an input is rounded", "its unit")] = None
    dead_zone: Annotated[Sizes, key("the magnitude up to which an input has no effect", "its unit")] = None


class Sensor(Section, frozen=True):
    """[plant.sensor]: how a published state differs from the true one; numbers for all states or by state."""

    noise: Annotated[Sizes, key("the standard deviation of white noise", "its unit")] = None
    bias: Annotated[Numbers, key("the constant error", "its unit")] = None
    quantum: Annotated[Sizes, key("the step to which a state is rounded", "its unit")] = None
    delay: Annotated[Wait, key("the age of a state message when it is published", "s")] = 0.0
    drop: Annotated[Chance, key("the probability that a state message is lost")] = 0.0


class SensorErrors(Section, frozen=True):
    """[plant.sensors.NAME]: the errors of a sensor of the machine; what is absent is as the machine states it."""

    noise: Annotated[Size | None, key("the standard deviation of white noise", "its unit")] = None
    quantum: Annotated[Size | None, key("the step to which a reading is rounded", "its unit")] = None
    rate: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None, key("readings per second (absent: one each control instant)", "Hz")
    ] = None
    delay: Annotated[Wait | None, key("from measuring to the state message that brings it", "s")] = None
    drop: Annotated[Chance | None, key("the probability that a reading is lost")] = None
    lost_from: Annotated[Wait | None, key("the plant time from which on it gives nothing (absent: never)", "s")] = None
    lost_for: Annotated[Wait, key("for how long it then gives nothing", "s")] = 1.0


class Safety(Section, frozen=True):
    """[plant.safety]: what the filter in front of the plant enforces; absent limits are the actuator's."""

    limit: Annotated[Sizes, key("the largest magnitude let through", "its unit")] = None
    rate_limit: Annotated[Sizes, key("the fastest change let through", "its unit per s")] = None
    power_limit: Annotated[
        Size | None,
        key("the most power the inputs may put into the machine together, when a command starts to act", "W"),
    ] = None
    command_timeout: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_SECONDS)] | None,
        key("the longest wait for a command (absent: 3 periods, at least the floor; 0: none, needs unsafe)", "s"),
    ] = None
    unsafe: Annotated[
        bool, key("whether watches may be off or longer than 10 s of wall time, and inputs of a machine without limit")
    ] = False
    ramp: Annotated[
        Annotated[float, Meta(ge=0, le=600)],
        key("how long after an arming the inputs grow, with its square, to what is asked", "s"),
    ] = 0.5
    arming_limit: Annotated[
        Sizes, key("the largest magnitude let through in the time after an arming (absent: the limit)", "its unit")
    ] = None
    arming_time: Annotated[Seconds, key("how long after an arming that holds", "s")] = 10.0
    state_limit: Annotated[
        Sizes, key("the largest magnitude of a reading that is believed (absent: the machine's)", "its unit")
    ] = None
    state_rate_limit: Annotated[
        Sizes, key("the fastest change of a reading that is believed (absent: the machine's)", "its unit per s")
    ] = None
    frozen_time: Annotated[
        Seconds, key("how long a machine's readings may be the same, bit by bit, while inputs should move it", "s")
    ] = 0.5
    repeats: Annotated[
        Whole | None,
        key("how long the last command is held when none comes (absent: to the command timeout)", "periods"),
    ] = None
    lateness_limit: Annotated[
        Annotated[float, Meta(ge=0.001, le=MAX_SECONDS)] | None,
        key(
            "the plant's own lateness that is a fault (absent: 1 if simulated, else the command timeout)",
            "s (wall clock)",
        ),
    ] = None
    command_timeout_floor: Annotated[Seconds, key("the least wait where the timeout is absent", "s (wall clock)")] = (
        0.02
    )
    faults: Annotated[bool, key("whether the machine's own faults (tilt, fall, contact lost) end the run")] = True
    safe_time: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_SECONDS)] | None,
        key("how long a fault is followed by the safe action (absent: 5 where the machine brakes)", "s"),
    ] = None
    on_fault: Annotated[
        Literal["auto", "stop", "wait", "resume"],
        key(
            "what follows a fault: the end, waiting for a reset (auto: where nodes are started again), or going on "
            "when commands come again"
        ),
    ] = "auto"


class Device(Section, frozen=True):
    """[plant.device]: a machine that is another process or hardware."""

    state: Annotated[
        Text | None, key("where the external machine publishes its states (absent: MACHINE.state, a private socket)")
    ] = None
    applied: Annotated[
        Text | None, key("where servonode publishes what is applied (absent: MACHINE.applied, a private socket)")
    ] = None
    port: Annotated[
        Text | None, key("the serial port of a microcontroller, such as /dev/serial/by-id/NAME or /dev/ttyACM0")
    ] = None
    baud: Annotated[
        Annotated[int, Meta(ge=300, le=12_000_000)], key("the speed of the serial line; any over native USB", "bit/s")
    ] = 115200
    address: Annotated[
        Text | None, key("the numeric address and UDP port of a microcontroller, such as 127.0.0.1:9875")
    ] = None
    open_network: Annotated[
        bool, key("whether that address may be one that other computers reach; packets have no keys")
    ] = False
    law: Annotated[
        bool, key("whether the law acts that a microcontroller's firmware was built with; the controller goes on")
    ] = False
    law_tolerance: Annotated[
        Share, key("by how much that law may differ from the controller, as a share of each input's limit")
    ] = 0.1
    wait: Annotated[Seconds, key("how long to wait for the machine at the start", "s (wall clock)")] = 30.0
    timeout: Annotated[
        OptionalSeconds,
        key("the longest wait for a state of the machine (absent: the command timeout)", "s (wall clock)"),
    ] = None
    settings: Annotated[dict[str, Setting], key("the keys that a driver of an installed package has of its own")] = {}
    any_speed: Annotated[
        bool, key("whether an external machine may be run at a speed other than 1: a simulator, never hardware")
    ] = False


class Plant(Section, frozen=True):
    """[plant]: the machine, how it is integrated, and its imperfections."""

    machine: Annotated[Text, key("the machine; `servonode list machines`")]
    driver: Annotated[
        DriverName,
        key(f"what stands behind the plant node: {', '.join(each.summary for each in DRIVERS.values())}"),
    ] = "simulated"
    step: Annotated[
        Seconds | Literal["auto"], key('the integrator step; "auto": the machine chooses, where it can', "s")
    ] = 0.001
    integrator: Annotated[Integrator, key("the integration rule; rk2 is the midpoint rule")] = "rk4"
    publish_every: Annotated[Count, key("steps per state message; control instants always have one", "steps")] = 1
    parameters: Annotated[
        dict[str, float | str], key("what differs from the machine's defaults, a function of t, or auto", "SI")
    ] = {}
    settings: Annotated[dict[str, str | float | bool], key("the machine's named options")] = {}
    disturbance: Annotated[
        dict[str, str | float], key("forces by coordinate or input, expressions of t and states", "N or N m")
    ] = {}
    initial: Annotated[
        dict[str, float | list[float] | bool | str],
        key("state values at t = 0, or what the machine starts from", "SI"),
    ] = {}
    actuator: Actuator = Actuator()
    sensor: Sensor = Sensor()
    sensors: Annotated[dict[str, SensorErrors], key("errors by sensor; `servonode show FILE` lists them")] = {}
    safety: Safety = Safety()
    device: Device = Device()
    link: Impairments = Impairments()
    mujoco: Contact = Contact()


class Supervision(Section, frozen=True):
    """[supervision]: whether the launcher starts a node again that has ended early."""

    plant: Annotated[
        Literal["never", "on-failure"],
        key("when the plant node is started again; a fault of the run ends it for good"),
    ] = "never"
    controller: Annotated[Restart, key("when the controller node is started again")] = "never"
    target: Annotated[Restart, key("when the target node is started again")] = "never"
    attempts: Annotated[Count, key("the most restarts of a node within the window")] = 5
    window: Annotated[Seconds, key("the time over which restarts are counted", "s (wall clock)")] = 60.0
    backoff: Annotated[
        Wait, key("the wait before a second restart in the window, doubled for each more", "s (wall clock)")
    ] = 0.1


class Controller(Section, frozen=True):
    """[controller]: the program and how often it runs; without it, zero input and no command watchdog."""

    program: Annotated[Text | None, key("the program; `servonode list programs`")] = None
    residuals: Annotated[
        dict[str, str | float], key("instead of a program: expressions of t, states, parameters, targets, settings")
    ] = {}
    period: Annotated[Seconds, key("the time between control instants", "s")] = 0.01
    delay: Annotated[Whole, key("the time after which a command acts", "periods")] = 0
    predictor: Annotated[bool, key("whether the law computes from the state predicted over the delay")] = False
    damping: Annotated[
        Share, key("0: stop where the goal is singular; else damped least squares, with this share of W")
    ] = 0.0
    parameters: Annotated[dict[str, float], key("what differs in the model the law believes", "SI")] = {}
    gains: Annotated[dict[str, float | str | list[list[float]]], key('rates, "auto", or matrices', "1/s")] = {}
    settings: Annotated[dict[str, Setting], key("the program's own options")] = {}


class Estimator(Section, frozen=True):
    """[estimator]: the law works on an estimate from readings of sensors; without it, on the plant's state."""

    kind: Annotated[Literal["ekf", "ukf"], key("the filter: extended or unscented Kalman")] = "ekf"
    sensors: Annotated[list[str] | None, key("which of the machine's sensors it uses (absent: all)")] = None
    process_noise: Annotated[
        Size | dict[str, Size],
        key(
            "root spectral density of white noise on states' rates and on inputs, by name; a number: on all velocities",
            "unit of the rate, or input, per root Hz",
        ),
    ] = 0.05
    initial: Annotated[
        dict[str, float | list[float]], key("what it believes at t = 0 (absent: the plant's own initial state)", "SI")
    ] = {}
    initial_std: Annotated[
        Size | dict[str, Size], key("the standard deviation of that; by name: others are known exactly", "its unit")
    ] = 0.1


class Sections(Section, frozen=True):
    """The sections of a launch file."""

    run: Run
    plant: Plant
    controller: Controller | None = None
    estimator: Estimator | None = None
    supervision: Supervision = Supervision()
    target: Annotated[dict[str, str | float], key("expressions of t by name", "SI")] = {}


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
