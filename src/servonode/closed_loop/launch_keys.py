"""The keys of a launch file as frozen structs: each with its default, bounds, unit and description.

`msgspec.inspect.type_info` of these structs is the reference of the keys: page and schema are made of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar

from msgspec import Meta, Struct

from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.controllers.engine.curves import LEAST_DEGREE, MOST_DEGREE
from servonode.plants.drivers import our_names
from servonode.plants.keys import MAX_SECONDS, AddedSection, Impairments, Seconds, Share, Wait, key
from servonode.plants.machine_table import StatedMachine

AUTO = "auto"  # where the machine or servonode chooses
LARGEST = 1e50  # of any number, whatever its unit: products of a few larger ones would no longer be finite

# why a key stays as it is while a run is in progress
OF_GRID = "the plant and the law share the grid of control instants"
OF_DELAY = "the plant schedules commands by it, and the law is judged with it"
OF_OPTIONS = "options and expressions of t are derived before the run; what is a number can change"
OF_MACHINE = "is the machine itself; controller.parameters are what the law assumes of it"
OF_START = "is the state at the start of the run, which has passed"
OF_GOAL = "points, expressions of t and topics are compiled before the run; a goal stated as a number can change"

OptionalSeconds = Seconds | None
Pace = Annotated[float, Meta(ge=1e-6, le=1e6)]
Size = Annotated[float, Meta(ge=0)]
Chance = Annotated[float, Meta(ge=0, lt=1)]
Tolerance = Annotated[float, Meta(ge=1e-13, le=1e-3)]
Whole = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Text = Annotated[str, Meta(min_length=1)]
Numbers = float | dict[str, float] | None  # one for all names, or by name; None: the effect is absent
Sizes = Size | dict[str, Size] | None
Positive = Annotated[float, Meta(gt=0)]
Positives = Positive | dict[str, Positive] | None
Waits = Wait | dict[str, Wait] | None
Setting = float | int | str | bool | list[float]
Integrator = Literal["euler", "rk2", "heun", "ralston", "rk4", "radau"]
Restart = Literal["never", "on-failure", "always"]
Added = TypeVar("Added", bound=AddedSection)
# Installed packages add more; whether a name is one of theirs is seen when a launch file has it.
DriverName = Annotated[str, Meta(extra_json_schema={"enum": our_names()})]


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """A section of a launch file; the annotation of each key has its unit and description.

    A section has as many attributes as a launch file has keys in it. fixed: why they stay as they are while a run is in
    progress, unless a key says something else; of a section in another one: absent, what that says.
    """

    fixed: ClassVar[str] = ""


class Run(Section, frozen=True):
    """[run]: the duration and the clock."""

    fixed: ClassVar[str] = "the clock, the length and the files of a run are set when it starts"

    duration: Annotated[Seconds, key("the plant time after which the run ends", "s", times=True)]
    mode: Annotated[
        Literal["realtime", "lockstep"],
        key("the clock: real time, or lockstep, in which the plant waits for each answer"),
    ] = "realtime"
    speed: Annotated[Pace, key("plant seconds per second of wall-clock time in real time")] = 1.0
    seed: Annotated[Whole, key("the seed of all random effects")] = 1
    lockstep_timeout: Annotated[
        Seconds, key("the longest wait for an answer in lockstep, in real time for the first", "s (wall clock)")
    ] = 5.0
    lock_memory: Annotated[
        bool, key("whether the nodes' memory is locked against swapping, if permitted", here=True)
    ] = True
    priority: Annotated[
        Annotated[int, Meta(ge=0, le=98)],
        key("the SCHED_FIFO priority of plant and controller; 0: normal scheduling", here=True),
    ] = 0
    pin: Annotated[bool, key("whether plant and controller get a core each in real time", here=True)] = False
    telemetry: Annotated[
        Text | None,
        key("the address at which all topics are published for viewers, such as tcp://127.0.0.1:9872", here=True),
    ] = None


class Actuator(Section, frozen=True):
    """[plant.actuator]: the imperfections of the drives; one number for all inputs, or a table by input."""

    limit: Annotated[Sizes, key("the largest magnitude of an input", "its unit", of="input")] = None
    rate_limit: Annotated[Sizes, key("the fastest change of an input", "its unit per s", of="input")] = None
    lag: Annotated[Waits, key("the time constant of a first-order lag", "s", of="input")] = None
    delay: Annotated[Waits, key("the dead time before an input acts", "s", of="input", sizes=True)] = None
    quantum: Annotated[Sizes, key("the step to which an input is rounded", "its unit", of="input")] = None
    dead_zone: Annotated[Sizes, key("the magnitude up to which an input has no effect", "its unit", of="input")] = None
    bandwidth: Annotated[
        Positives,
        key("the bandwidth of velocity loops of drives that take speeds (absent: ideal)", "rad/s", of="input"),
    ] = None


class Sensor(Section, frozen=True):
    """[plant.sensor]: the errors of the published state; one number for all states, or a table by state."""

    noise: Annotated[Sizes, key("the standard deviation of white noise", "its unit", of="state")] = None
    bias: Annotated[Numbers, key("the constant error", "its unit", of="state")] = None
    quantum: Annotated[Sizes, key("the step to which a state is rounded", "its unit", of="state")] = None
    delay: Annotated[Wait, key("the age of a state message when it is published", "s", sizes=True)] = 0.0
    drop: Annotated[Chance, key("the probability that a state message is lost", sizes=True)] = 0.0


class SensorErrors(Section, frozen=True):
    """[plant.sensors.NAME]: the errors of one sensor of the machine; absent keys have the machine's own values."""

    noise: Annotated[Size | None, key("the standard deviation of white noise", "its unit", of="sensor")] = None
    quantum: Annotated[Size | None, key("the step to which a reading is rounded", "its unit", of="sensor")] = None
    rate: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None,
        key("the readings per second (absent: one each control instant)", "Hz"),
    ] = None
    delay: Annotated[Wait | None, key("the time from measurement to the message that carries the reading", "s")] = None
    drop: Annotated[Chance | None, key("the probability that a reading is lost")] = None
    lost_from: Annotated[Wait | None, key("the plant time at which the sensor fails", "s")] = None
    lost_for: Annotated[Wait, key("the duration of that failure", "s")] = 1.0


class Safety(Section, frozen=True):
    """[plant.safety]: what the plant node enforces on commands and readings; absent limits are the actuator's."""

    fixed: ClassVar[str] = "only limit, rate_limit and power_limit can be lowered while a run is in progress"

    limit: Annotated[Sizes, key("the largest magnitude of an input", "its unit", of="input", live=PLANT)] = None
    rate_limit: Annotated[Sizes, key("the fastest change of an input", "its unit per s", of="input", live=PLANT)] = None
    power_limit: Annotated[
        Size | None, key("the largest total power of the inputs when a command begins to act", "W", live=PLANT)
    ] = None
    speed_limit: Annotated[
        Sizes,
        key(
            "the largest speed for a drive that takes speeds; beyond it all shrink alike",
            "unit of what the input moves, per s",
        ),
    ] = None
    command_timeout: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_SECONDS)] | None,
        key(
            "the longest wait for a command (absent: 3 periods, at least command_timeout_floor; 0: no watchdog, "
            "which needs unsafe)",
            "s",
        ),
    ] = None
    unsafe: Annotated[
        bool, key("whether timeouts may be off or over 10 s (wall clock), and an external plant's inputs unlimited")
    ] = False
    ramp: Annotated[
        Annotated[float, Meta(ge=0, le=600)],
        key("the time after arming over which inputs grow to their values, as its square", "s"),
    ] = 0.5
    arming_limit: Annotated[
        Sizes, key("the largest magnitude of an input during arming_time (absent: limit)", "its unit", of="input")
    ] = None
    arming_time: Annotated[Seconds, key("the time after arming during which arming_limit holds", "s")] = 10.0
    state_limit: Annotated[
        Sizes, key("the largest plausible magnitude of a state (absent: the machine's)", "its unit", of="state")
    ] = None
    state_rate_limit: Annotated[
        Sizes, key("the fastest plausible change of a state (absent: the machine's)", "its unit per s", of="state")
    ] = None
    frozen_time: Annotated[
        Seconds, key("the longest time of identical readings although inputs should move the machine", "s")
    ] = 0.5
    repeats: Annotated[
        Whole | None,
        key(
            "the periods for which the last command may be held (absent: up to command_timeout), or inputs that keep "
            "be sought in vain (absent: 3)",
            "periods",
        ),
    ] = None
    lateness_limit: Annotated[
        Annotated[float, Meta(ge=0.001, le=MAX_SECONDS)] | None,
        key(
            "the lateness of the plant node that is a fault (absent: 1 if simulated, else command_timeout)",
            "s (wall clock)",
        ),
    ] = None
    command_timeout_floor: Annotated[Seconds, key("the least command_timeout if that is absent", "s (wall clock)")] = (
        0.02
    )
    faults: Annotated[bool, key("whether the machine's own faults, such as tilt or a fall, end the run")] = True
    safe_time: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_SECONDS)] | None,
        key("the duration of the safe action after a fault (absent: 5 if the machine has one)", "s"),
    ] = None
    on_fault: Annotated[
        Literal["auto", "stop", "wait", "resume"],
        key(
            "the reaction to a fault: stop ends the run, wait waits for a reset, resume continues with the next "
            "command; auto waits if nodes are restarted, else stops"
        ),
    ] = "auto"


_key = key  # for the class that has a field of this name


class Device(Section, frozen=True):
    """[plant.device]: the connection to a machine that is another process or hardware."""

    state: Annotated[
        Text | None,
        key("the address at which the machine publishes states (absent: the private socket MACHINE.state)", here=True),
    ] = None
    applied: Annotated[
        Text | None,
        key(
            "the address at which servonode publishes applied inputs (absent: the private socket MACHINE.applied)",
            here=True,
        ),
    ] = None
    port: Annotated[
        Text | None, key("the serial port of a microcontroller, such as /dev/serial/by-id/NAME", here=True)
    ] = None
    baud: Annotated[
        Annotated[int, Meta(ge=300, le=12_000_000)], key("the speed of the serial line; native USB ignores it", "bit/s")
    ] = 115200
    address: Annotated[
        Text | None, key("the numeric address and UDP port of a microcontroller, such as 127.0.0.1:9875", here=True)
    ] = None
    open_network: Annotated[
        bool, key("whether other computers may reach the address; packets are not authenticated", here=True)
    ] = False
    interface: Annotated[Text, key("the interface of python-can to a CAN bus")] = "socketcan"
    channel: Annotated[Text | None, key("the CAN bus of a microcontroller, such as can0")] = None
    bitrate: Annotated[Annotated[int, Meta(ge=10_000, le=1_000_000)], key("the rate of the CAN bus", "bit/s")] = 500_000
    id_to: Annotated[Annotated[int, Meta(ge=0, le=0x7FF)], key("the identifier of CAN frames to the machine")] = 0x101
    id_from: Annotated[Annotated[int, Meta(ge=0, le=0x7FF)], key("the identifier of CAN frames from the machine")] = (
        0x102
    )
    sends: Annotated[
        Literal["state", "readings"],
        key("what the machine sends: its state, or readings, of which the plant node estimates it"),
    ] = "state"
    state_rate: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        key("how often a microcontroller sends (absent: 1000, or what a serial line or CAN bus can carry)", "1/s"),
    ] = None
    law: Annotated[bool, key("whether the law in the firmware acts; the controller goes on as a check")] = False
    law_tolerance: Annotated[
        Share, key("the largest deviation of that law from the controller, as a share of each limit")
    ] = 0.1
    wait: Annotated[Seconds, key("the longest wait for the machine at the start", "s (wall clock)")] = 30.0
    timeout: Annotated[
        OptionalSeconds, key("the longest wait for a state (absent: command_timeout)", "s (wall clock)")
    ] = None
    settings: Annotated[dict[str, Setting], key("the settings of a driver from an installed package", apart=True)] = {}
    any_speed: Annotated[bool, key("whether run.speed may differ from 1, because the machine is a simulator")] = False
    key: Annotated[
        Text | None, _key("the name of the machine's trusted key, with the role plant; tcp needs one", here=True)
    ] = None


class Plant(Section, frozen=True):
    """[plant]: the machine, its integration, and its imperfections."""

    fixed: ClassVar[str] = "machine, driver, ports, drives and sensors are set when the run starts"

    machine: Annotated[
        Text | StatedMachine,
        key(
            "the machine; `servonode list machines` lists them; or the path of a URDF or MJCF file, or a table of its "
            "coordinates and energies"
        ),
    ]
    driver: Annotated[DriverName, key("the connection between plant node and machine")] = "simulated"
    command: Annotated[
        Literal["effort", "velocity"],
        key("what the drives take: forces and torques, or the speeds that these bring about"),
    ] = "effort"
    step: Annotated[
        Seconds | Literal["auto"],
        key('the integrator step; "auto": the machine chooses it, if it can', "s", times=True),
    ] = 0.001
    integrator: Annotated[
        Integrator, key("the integration method; rk2 is the midpoint rule, radau (Radau IIA) is for stiff machines")
    ] = "rk4"
    publish_every: Annotated[
        Count, key("the steps per state message; every control instant has one", "steps", sizes=True)
    ] = 1
    parameters: Annotated[
        dict[str, float | str],
        key(
            "the values that differ from the machine's defaults: numbers, functions of t, or auto",
            "SI",
            of="parameter",
            fixed=OF_MACHINE,
            apart=True,
        ),
    ] = {}
    settings: Annotated[
        dict[str, str | float | bool], key("the options of the machine", derived="an option of the machine", apart=True)
    ] = {}
    disturbance: Annotated[
        dict[str, str | float],
        key(
            "the disturbing forces by coordinate or input, as expressions of t and the states",
            "N or N m",
            derived="part of the machine's equations",
            apart=True,
        ),
    ] = {}
    initial: Annotated[
        dict[str, float | list[float] | bool | str],
        key(
            "the states at t = 0, or other quantities from which the machine computes them",
            "SI",
            of="start",
            fixed=OF_START,
            apart=True,
        ),
    ] = {}
    actuator: Actuator = Actuator()
    sensor: Sensor = Sensor()
    sensors: Annotated[
        dict[str, SensorErrors],
        key("the errors by sensor; `servonode show FILE` lists the sensors", of="sensor", apart=True),
    ] = {}
    safety: Safety = Safety()
    device: Device = Device()
    link: Impairments = Impairments()


class Supervision(Section, frozen=True):
    """[supervision]: whether the launcher restarts a node that ended early."""

    fixed: ClassVar[str] = "the launcher has begun with it"

    plant: Annotated[
        Literal["never", "on-failure"], key("when the plant node is restarted; never after a fault that ends the run")
    ] = "never"
    controller: Annotated[Restart, key("when the controller node is restarted")] = "never"
    target: Annotated[Restart, key("when the target node is restarted")] = "never"
    attempts: Annotated[Count, key("the most restarts of a node within window")] = 5
    window: Annotated[Seconds, key("the time over which restarts are counted", "s (wall clock)")] = 60.0
    backoff: Annotated[
        Wait, key("the wait before the second restart within window; it doubles each time", "s (wall clock)")
    ] = 0.1


class Hosts(Section, frozen=True):
    """[hosts]: the computer of some nodes, if a run is on two; nodes without an address run on the other computer."""

    fixed: ClassVar[str] = "the computers have met"

    plant: Annotated[
        Text | None, key("the tcp address of the plant node's computer, such as tcp://robot.local:7400", here=True)
    ] = None
    controller: Annotated[Text | None, key("the tcp address of the controller node's computer", here=True)] = None
    target: Annotated[Text | None, key("the tcp address of the target node's computer", here=True)] = None
    delay: Annotated[
        OptionalSeconds,
        key(
            "the longest time expected from a state until its command comes from the other computer; check counts it",
            "s (wall clock)",
        ),
    ] = None
    key: Annotated[
        Text | None,
        _key(
            "the name under which the other computer trusts that computer's key (absent: the first label of its name)",
            here=True,
        ),
    ] = None


class Inversion(Section, frozen=True):
    """[controller.inversion]: track the bounded solution of the goal; without this section the servo law alone acts."""

    tail: Annotated[
        OptionalSeconds, key("the time by which the solution extends beyond the run (absent: as needed)", "s")
    ] = None
    tolerance: Annotated[
        Tolerance, key("the largest error in an interval, relative to 1 plus the size of the states")
    ] = 1e-10
    weights: Annotated[
        dict[str, float],
        key("the weights of states and inputs in the feedback's cost (absent: by their ranges)", "1 per unit squared"),
    ] = {}


class FrameGoal(Section, frozen=True):
    """[controller.goal.NAME]: the wanted position and orientation of a frame or link of the machine's tree."""

    position: Annotated[
        list[float | str] | None,
        key("the wanted position (x, y, z): numbers, or expressions of t, targets and settings", "m"),
    ] = None
    x: Annotated[float | str | None, key("the wanted x alone", "m")] = None
    y: Annotated[float | str | None, key("the wanted y alone", "m")] = None
    z: Annotated[float | str | None, key("the wanted z alone", "m")] = None
    orientation: Annotated[
        list[float | str] | None,
        key(
            "the wanted orientation: roll, pitch, yaw about fixed x, y, z in this order (rad), or a quaternion (w, "
            "x, y, z)"
        ),
    ] = None
    axis_z: Annotated[
        list[float] | None, key("the direction of its z axis, instead of an orientation; [0, 0, 1]: level")
    ] = None
    relative_to: Annotated[Text | None, key("the frame in whose axes all this is (absent: the ground's)")] = None


class Posture(Section, frozen=True):
    """[controller.posture]: what joints do as far as the residuals leave them free; all other motions are braked."""

    joints: Annotated[
        dict[str, float | str],
        key("the wanted positions by joint: numbers, or expressions of t, targets and settings", "rad or m"),
    ] = {}
    rate: Annotated[Positive, key("the convergence rate of the posture", "1/s")] = 1.0


class Keep(Section, frozen=True):
    """[controller.keep.NAME]: what stays at or above zero; `NAME = "..."` below [controller.keep] is its expression."""

    expression: Annotated[
        Text | None,
        key(
            "what stays at or above zero: as a residual, with min, abs, contact forces and inputs; absent: the numbers "
            "of a keep of the program, or of limits",
            derived="part of the law's equations",
        ),
    ] = None
    rate: Annotated[
        Positive | None,
        key("how fast it may approach its margin (absent: by period and delay)", "1/s", of="keep", live=CONTROLLER),
    ] = None
    brake: Annotated[
        Positive | None,
        key(
            "the deceleration that stopping takes at most, of relative degree 2 (absent: half of what limits allow)",
            "unit of the keep per s^2",
            of="keep",
            live=CONTROLLER,
        ),
    ] = None
    margin: Annotated[
        Size | None,
        key(
            "how far above zero it stays (absent: the program's, else 0)",
            "unit of the keep",
            of="keep",
            live=CONTROLLER,
        ),
    ] = None
    tolerance: Annotated[
        Positive | None,
        key(
            "how far below zero is a fault (absent: the program's, else 1e-3)",
            "unit of the keep",
            of="keep",
            live=CONTROLLER,
        ),
    ] = None
    priority: Annotated[
        Count | None,
        key(
            "the order in which it gives way where not all can be kept: the largest number first (absent: 1)",
            derived="part of the law's equations",
        ),
    ] = None


class Controller(Section, frozen=True):
    """[controller]: the program and its period; without this section the inputs are zero and there is no watchdog."""

    fixed: ClassVar[str] = "the program, and what chooses its equations, is derived before the run"

    program: Annotated[
        Text | None, key("the program, of `servonode list programs`, or a program or controller in a file of yours")
    ] = None
    residuals: Annotated[
        dict[str, str | float],
        key(
            "the residuals, instead of a program: expressions of t, states, parameters, targets, settings",
            derived="part of the law's equations",
            apart=True,
        ),
    ] = {}
    goal: Annotated[
        dict[str, FrameGoal],
        key(
            "goals of frames by frame, in place of a program or beside residuals: each coordinate is a residual",
            apart=True,
        ),
    ] = {}
    posture: Posture | None = None
    period: Annotated[Seconds, key("the time between control instants", "s", times=True, fixed=OF_GRID)] = 0.01
    delay: Annotated[
        Whole,
        key("the time from a sample to the instant at which its command acts", "periods", fixed=OF_DELAY, sizes=True),
    ] = 0
    predictor: Annotated[bool, key("whether the law uses the state predicted over the delay")] = False
    damping: Annotated[
        Share,
        key(
            "the damping of the least squares, as a fraction of W, near singular goals: it begins where the "
            "condition of W is 1/damping, with a posture 1/damping^2 (0: none, the law stops where it is singular)",
            derived="part of the compiled law",
        ),
    ] = 0.0
    parameters: Annotated[
        dict[str, float],
        key(
            "the values that differ between the controller's model and the plant",
            "SI",
            of="parameter",
            live=CONTROLLER,
            apart=True,
        ),
    ] = {}
    gains: Annotated[
        dict[str, float | str | list[list[float]]],
        key('the gains: convergence rates, "auto", or matrices', "1/s", of="gain", live=CONTROLLER, apart=True),
    ] = {}
    settings: Annotated[
        dict[str, Setting],
        key("the options of the program", of="setting", live=CONTROLLER, fixed=OF_OPTIONS, apart=True),
    ] = {}
    weights: Annotated[
        dict[str, float],
        key("the weights of the inputs' squares in a least norm, by input (absent: 1)", of="weight", live=CONTROLLER),
    ] = {}
    limits: Annotated[
        Literal["clip", "keep"],
        key(
            "what the law makes of the limits of inputs: clip asks for what it wants, which is cut; keep asks for the "
            "best within them, and keeps the ranges of joints that the machine's file has",
            derived="part of the law's equations",
        ),
    ] = "clip"
    conflict: Annotated[
        Literal["yield", "fault"],
        key(
            "what happens where not all can be kept: something gives way, or the law stops",
            derived="part of the law's equations",
        ),
    ] = "yield"
    keep: Annotated[
        dict[str, Text | Keep],
        key(
            "what is kept at or above zero, before the residuals: expressions, or tables with numbers",
            derived="part of the law's equations",
            apart=True,
        ),
    ] = {}
    priority: Annotated[
        dict[str, Count],
        key(
            "the order of the residuals where they cannot all be followed, 1 first (absent: the program's, else 1)",
            derived="part of the law's equations",
            apart=True,
        ),
    ] = {}
    inversion: Inversion | None = None

    @property
    def keeps(self) -> dict[str, Keep]:
        """What is kept by name, a text as the table with this expression."""
        return {name: Keep(each) if isinstance(each, str) else each for name, each in self.keep.items()}


class Estimator(Section, frozen=True):
    """[estimator]: the law uses a state estimated from sensor readings; without this section, the plant's state."""

    fixed: ClassVar[str] = "the filter has begun with it"

    sensors: Annotated[list[str] | None, key("the sensors that the filter uses (absent: all)")] = None
    process_noise: Annotated[
        Size | dict[str, Size],
        key(
            "the root spectral density of white noise, by state (on its derivative) or input; one number: for all "
            "velocities",
            "unit of the rate, or input, per root Hz",
        ),
    ] = 0.05
    initial: Annotated[
        dict[str, float | list[float]], key("the estimated state at t = 0 (absent: the plant's)", "SI")
    ] = {}
    initial_std: Annotated[
        Size | dict[str, Size],
        key("the standard deviation of the initial estimate; states absent from a table are known", "its unit"),
    ] = 0.1
    gate: Annotated[
        Size | dict[str, Size] | None,
        key(
            "the innovation gate: the Mahalanobis distance beyond which a reading is rejected, for all or by sensor",
            "standard deviations of the innovation",
        ),
    ] = None
    std_limit: Annotated[
        dict[str, Size],
        key("the standard deviation, by state, above which a plant that estimates does not arm, or ends", "its unit"),
    ] = {}
    sensor_timeout: Annotated[
        dict[str, Seconds],
        key(
            "the longest time, by sensor, without a reading in such a plant, and with `gate` without one that is "
            "used (absent: its period and delay plus the wait for a state)",
            "s",
        ),
    ] = {}


OnLoss = Literal["rest", "hold", "start", "fault"]


class Goal(Section, frozen=True):
    """[target.NAME]: a goal through points, or one from outside during the run, instead of an expression of t."""

    points: Annotated[
        list[Annotated[list[float], Meta(min_length=2, max_length=2)]] | None,
        key("the points: pairs of time and value, `[[0, 0.0], [2, 1.5]]`", "s, unit of the target"),
    ] = None
    samples: Annotated[
        Text | None, key("the CSV file with the points, relative to the launch file, with a column `t`")
    ] = None
    column: Annotated[Text | None, key("the column of that file (absent: the target's name)")] = None
    degree: Annotated[
        Annotated[int, Meta(ge=LEAST_DEGREE, le=MOST_DEGREE)] | None,
        key("the degree of the polynomials between points, odd (absent: as high as the law needs)"),
    ] = None
    ends: Annotated[
        Literal["rest", "free"] | None,
        key(
            "the ends: rest makes (degree - 1)/2 derivatives zero, free does not (absent: rest for points, free for "
            "samples)"
        ),
    ] = None
    stops: Annotated[bool, key("whether the goal rests at each point")] = False
    state: Annotated[Text | None, key("the state of another robot of the launch, such as `leader.X`, as goal")] = None
    topic: Annotated[
        Text | None, key("the topic that delivers the value during the run (absent: `servonode goal` does)")
    ] = None
    address: Annotated[Text | None, key("the address of that topic: ipc:///PATH")] = None
    field: Annotated[
        Text | None, key("the field of its messages with the value, such as `pose.x` (absent: the target's name)")
    ] = None
    bandwidth: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        key(
            "the bandwidth of the filter that makes the derivatives, of any goal from outside (absent, with `state`: "
            "0.2/period)",
            "rad/s",
        ),
    ] = None
    range: Annotated[
        Annotated[list[float], Meta(min_length=2, max_length=2)] | None,
        key("the lowest and the highest value; one beyond is refused", "unit of the target", of="target"),
    ] = None
    rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        key("the rate at which the goal moves to another value (absent: as fast as the filter)", "unit per s"),
    ] = None
    start: Annotated[float, key("the value until the first message", "unit of the target", of="target")] = 0.0
    timeout: Annotated[
        Seconds, key("the longest wait for the next message; then the goal is lost", "s (wall clock)")
    ] = 1.0
    on_loss: Annotated[
        OnLoss,
        key(
            "what a lost goal does: rest brings it to rest, a place (m, rad) at its last value, a speed at 0; hold "
            "keeps the last value, start goes back to `start`, fault ends its commands"
        ),
    ] = "rest"
    fault_after: Annotated[
        Seconds | None, key("the time for which a lost goal is held, before its commands end", "s (wall clock)")
    ] = None

    @property
    def is_live(self) -> bool:
        """Whether its values come from outside during the run."""
        return any(each is not None for each in (self.topic, self.state, self.bandwidth))


class InjectedFault(Section, frozen=True):
    """[[fault]]: a fault that is injected into the run, to see what is made of it."""

    on: Annotated[Literal["drive", "sensor", "link", "node"], key("what fails")]
    kind: Annotated[
        Literal[
            "off", "stuck", "wrong_sign", "intermittent", "garbage", "noise", "slow", "delayed", "drop", "stall", "kill"
        ],
        key("how it fails"),
    ]  # fmt: skip
    at: Annotated[Wait, key("the plant time at which it begins", "s")]
    name: Annotated[
        Text | None,
        key("the input, state, sensor, direction of the link (state or applied) or node that fails (absent: each)"),
    ] = None
    duration: Annotated[OptionalSeconds, key("how long it lasts (absent: to the end of the run)", "s")] = None
    size: Annotated[Size | None, key("how large it is, if its kind has a size", "by its kind")] = None
    hardware: Annotated[bool, key("whether it may be injected into a machine that is no simulation")] = False


class Sections(Section, frozen=True):
    """The sections of a launch file."""

    run: Run
    plant: Plant
    controller: Controller | None = None
    estimator: Estimator | None = None
    supervision: Supervision = Supervision()
    hosts: Hosts | None = None
    target: Annotated[
        dict[str, str | float | Goal],
        key(
            "the goals by name: expressions of t, goals through points, or goals from outside",
            "SI",
            of="target",
            live=TARGET,
            fixed=OF_GOAL,
        ),
    ] = {}
    fault: Annotated[list[InjectedFault], key("the faults that are injected into the run")] = []


class Times(Struct, frozen=True):
    """The times of a launch file in whole ns, each a number of plant steps; no period without a controller."""

    step_ns: int
    duration_ns: int
    period_ns: int | None

    @property
    def step(self) -> float:
        """The plant step [s]."""
        return self.step_ns / 1e9

    @property
    def duration(self) -> float:
        """The duration of the run [s]."""
        return self.duration_ns / 1e9

    @property
    def period(self) -> float:
        """The time between two control instants [s]; 0 without a controller."""
        return (self.period_ns or 0) / 1e9

    @property
    def steps(self) -> int:
        """The plant steps of the whole run."""
        return self.duration_ns // self.step_ns

    @property
    def steps_per_period(self) -> int | None:
        """The plant steps between two control instants."""
        return None if self.period_ns is None else self.period_ns // self.step_ns


class LaunchFile(Sections, frozen=True, kw_only=True):
    """A launch file that fits together, with its times in whole ns."""

    path: Path
    file: str  # as the user named it
    name: str
    times: Times
    goal_speed: float = 1.0  # goal time per plant time, of functions of t in [target] and the program's settings
    more: Mapping[str, AddedSection] = {}  # what it states in sections of wings and other packages, by dotted name

    def section(self, name: str, kind: type[Added]) -> Added | None:
        """What it states in an added section, such as `plant.mujoco`; None: nothing."""
        found = self.more.get(name)
        assert found is None or isinstance(found, kind)
        return found

    @property
    def step_ns(self) -> int:
        return self.times.step_ns

    @property
    def duration_ns(self) -> int:
        return self.times.duration_ns

    @property
    def steps(self) -> int:
        return self.times.steps

    @property
    def period_ns(self) -> int | None:
        return self.times.period_ns

    @property
    def steps_per_period(self) -> int | None:
        return self.times.steps_per_period

    @property
    def times_of_steps(self) -> tuple[int, ...]:
        """The times [ns] that are whole numbers of plant steps."""
        return (self.duration_ns,) if self.period_ns is None else (self.duration_ns, self.period_ns)
