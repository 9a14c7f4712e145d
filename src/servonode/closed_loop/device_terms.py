"""What a machine does by itself: a law in firmware, readings alone in place of its state, drives that take speeds."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.estimation import Estimation
from servonode.closed_loop.launch_error import KeyRefused, choices, per_name
from servonode.closed_loop.launch_keys import LaunchFile, Plant
from servonode.closed_loop.static_checks import SPREAD, Examination
from servonode.controllers import ServoLaw
from servonode.controllers.engine.realize import random_states
from servonode.mechanics.description import (
    MachineDescription,
    ProgramDescription,
    Quantity,
    derivative_name,
    derivatives,
)
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.driver import LawTerms
from servonode.plants.drivers.estimated import EstimateTerms, Foresight
from servonode.plants.drivers.installed import find_driver, our_drivers
from servonode.plants.drivers.packets import LARGEST, MOST_GOAL, law_schema_of
from servonode.plants.speeds import Drives, independent, speeds_after

READINGS = "readings"
TELLS = 4.0  # quanta, likewise
SURE = 8.0  # standard deviations by which a reading must change that nothing else explains
AHEAD_S = 1e-6  # over which the effect of efforts on speeds is judged
POSES = 20  # random states near the initial one in which it is
ITERATIONS = 2  # of a law's solver for each row and input: twice what any has taken
SLOW = 0.3  # share of a difference that is made up in a period, below which it is warned of
OF_EFFORTS = ("rate_limit", "quantum", "dead_zone")  # keys of [plant.actuator] in the unit of an effort


def acts_in_device(plant: Plant) -> bool:
    """Whether the launch file asks for it, and its driver reaches firmware."""
    return plant.device.law and find_driver(plant.driver).uses("device", "law")


def check_device_law(plant: Plant, control: Control | None, estimation: Estimation | None) -> None:
    """Refuse what is to act in firmware and cannot.

    Raises:
        KeyRefused: there is no controller, or its law needs more than the newest state and a goal.
    """
    if acts_in_device(plant):
        for obstacle in _obstacles(control, estimation):
            text = f"the law cannot act in firmware: {obstacle}; change that, or leave plant.device.law out"
            raise KeyRefused("plant.device", "law", text)


def law_terms(plant: Plant, control: Control | None, limits: Sequence[float]) -> LawTerms | None:
    """On what terms the firmware's own law acts within these limits; None where it is not to."""
    if control is None or not acts_in_device(plant):
        return None
    tolerance = tuple(min(plant.device.law_tolerance * each, LARGEST) for each in limits)
    return LawTerms(law_schema(control.law), len(goal_orders(control.law)), tolerance)


def law_header(control: Control | None, estimation: Estimation | None, function: str) -> list[str]:
    """Lines of the C header for firmware with this law, whose function has this name; the reason if it has none."""
    obstacle = next(_obstacles(control, estimation), None)
    if obstacle is not None or control is None:
        return [f"/* Its law cannot act in firmware: {obstacle}. */"]
    law, most = control.law, _solver_operations(control.law)
    each_s = math.ceil(most / control.times.period)
    orders = ", ".join(map(str, goal_orders(law))) or "0"
    return [
        f"#define HIL_LAW {function} /* of the same file */",
        f"#define HIL_LAW_SCHEMA UINT32_C({law_schema(law):#010x})",
        f"#define HIL_N_GOAL {len(goal_orders(law))}",
        f"#define HIL_GOAL_ORDERS {{{orders}}} /* how many of the entries behind each are its derivatives */",
        f"#define HIL_N_OUT {law.answer_layout.size}",
        *(
            [f"#define HIL_LAW_OPERATIONS_PER_S {each_s} /* of its solver, with double, as estimated */"]
            if most
            else []
        ),
    ]


def _solver_operations(law: ServoLaw) -> int:
    """An estimate of the additions and multiplications that keeping may take of one evaluation; 0: it keeps nothing.

    It counts ITERATIONS for each row and input, and a factor for each level of priorities and for what they leave free.
    """
    program, n = law.description, law.machine.n_inputs
    if not program.keeping:
        return 0
    rows = sum(len(each.degrees) for each in program.keeps)
    levels = len(set(program.priorities)) + 1
    return ITERATIONS * (rows + n) * (rows * (2 * n + 4) + 15 * n**2 + 20 * n) + levels * 10 * n**3


def law_schema(law: ServoLaw) -> int:
    """The number by which servonode and firmware know that they have the same law, gains and parameters."""
    program = law.description
    things = [*derivatives(program.targets, program.target_order)]
    things += derivatives([each.name for each in program.signals], program.signal_order)
    things += [(each.name, 0) for each in _integrators(program)]
    numbers = [*law.machine.parameters.values(), *law.parameters.values(), *law.K.ravel().tolist()]
    numbers += law.weights.tolist() if program.weighted else []
    numbers += [*law.kept.T.ravel().tolist(), *law.limits.ravel().tolist()] if program.keeping else []
    names = [derivative_name(*each) for each in things]
    names += [f"{each.quantity.name} {each.priority} {each.quantity.description}" for each in program.keeps]
    names += ["yields" if program.yields else "conflict", *map(str, program.priorities)] if program.keeping else []
    return law_schema_of(program.name, names, numbers)


def goal_orders(law: ServoLaw) -> list[int]:
    """Of each entry of the goal: how many of the entries behind it are its derivatives.

    What the law's integrators hold is sent with the goal: the controller integrates, the firmware keeps nothing.
    """
    program = law.description
    parts = ((program.targets, program.target_order), (program.signals, program.signal_order))
    chains = [most + 1 for things, most in parts for _ in things]
    if program.extension:
        chains += _chains(program.extension.chained)
    return [length - 1 - n for length in chains for n in range(length)]


def _integrators(program: ProgramDescription) -> Sequence[Quantity]:
    """The states of the law that dynamic extension adds to those of the program."""
    return program.extension.integrators if program.extension else ()


def _chains(chained: Sequence[bool]) -> list[int]:
    """The lengths of the chains of integrators in which each is the rate of the one before."""
    lengths, length = list[int](), 0
    for goes_on in chained:
        length += 1
        if not goes_on:
            lengths.append(length)
            length = 0
    return lengths


def _obstacles(control: Control | None, estimation: Estimation | None) -> Iterator[str]:
    """Why the law cannot act on a machine's own state and a goal alone."""
    if control is None:
        yield "there is no [controller]"
        return
    if control.law.description.own:
        yield f"{control.stated.program} is a controller in Python"
        return
    yield from _memory(control)
    if control.stated.delay:
        yield f"controller.delay = {control.stated.delay}, but in firmware a command acts at once"
    if control.stated.predictor:
        yield "controller.predictor predicts the state, but the firmware knows it"
    if estimation is not None:
        yield "the firmware has no [estimator]"
    if (size := len(goal_orders(control.law))) > MOST_GOAL:
        yield f"its goal has {size} entries, but a packet holds {MOST_GOAL}"


def _memory(control: Control) -> Iterator[str]:
    program = control.law.description
    if own := program.states[: len(program.states) - len(_integrators(program))]:
        yield f"program {program.name} has states of its own ({', '.join(each.name for each in own)})"
    if program.integral:
        yield f"program {program.name} feeds back integrals of its residuals"


def sends_readings(plant: Plant) -> bool:
    """Whether the machine sends no state, and its driver can do with that."""
    return plant.device.sends == READINGS and find_driver(plant.driver).uses("device", "sends")


def check_device_readings(plant: Plant, restarted: bool, estimation: Estimation | None) -> None:
    """Refuse a machine whose state could not be estimated, as it sends no readings, or readings alone.

    restarted: whether the plant node may be.

    Raises:
        KeyRefused: packets of the state with an [estimator]; readings alone without one, or with a plant node that
            may be restarted.
    """
    if not sends_readings(plant):
        if estimation is not None and find_driver(plant.driver).transport is not None:
            text = f'packets of driver = "{plant.driver}" carry the state or readings, never both; give '
            text += f'plant.device.sends = "{READINGS}" with firmware that sends its readings, or leave this section '
            raise KeyRefused("estimator", None, f"{text}out")
        return
    if estimation is None:
        text = f'"{READINGS}" says that the machine sends no state, and there is no [estimator] that would find it; '
        raise KeyRefused("plant.device", "sends", f'{text}add one, or have the machine send its state and say "state"')
    if restarted:
        text = "a plant node that is restarted has lost its estimate, and where the machine is would not be known; "
        raise KeyRefused("supervision", "plant", f'{text}give "never" with plant.device.sends = "{READINGS}"')


def estimate_terms(plant: Plant, estimation: Estimation | None) -> EstimateTerms | None:
    """On what terms the plant node estimates the machine's state; None where the machine sends it."""
    if estimation is None or not sends_readings(plant):
        return None
    settings, observed = estimation.settings, estimation.observer.machine
    machine, step = observed.description, settings.step_ns / 1e9
    silence = {settings.sensors[i].name: estimation.silence[i] for i in settings.used}
    names = tuple(each.name for each in settings.sensors)
    return EstimateTerms(
        estimation.estimator, machine.input_names, machine.columns, names, silence, estimation.std_limits,
        math.ceil(estimation.wait / step), step, lambda x, u, seconds: _unseen(observed, x, u, seconds),
        _foresight(estimation, plant.safety.frozen_time),
    )  # fmt: skip


def _foresight(estimation: Estimation, frozen_time: float) -> Foresight:
    """What the equations predict of the readings of the sensors in use, which may stay the same so long [s]."""
    observer, settings = estimation.observer, estimation.settings
    step_ns = settings.step_ns
    machine, sensors = observer.machine, settings.sensors
    advance = machine.advancer(observer.integrator)

    def measure(k: int, x: Array, u: Array) -> Array:
        z = np.zeros(observer.n_z)
        observer.measure(k * step_ns / 1e9, x, u, z)
        return z

    return Foresight(
        lambda k, n, x, u: advance(k, n, step_ns, x, u, machine.c), measure,
        {sensors[i].name: i for i in settings.used},
        {sensors[i].name: TELLS * sensors[i].quantum + SURE * sensors[i].noise for i in settings.used},
        math.ceil(frozen_time * 1e9 / step_ns), step_ns / 1e9,
    )  # fmt: skip


def _unseen(machine: Machine, x: Array, u: Array, seconds: float) -> Array:
    """How a state may have moved in a time in which nobody saw it (2, n): on as it did, and to rest."""
    description = machine.description
    moves = [float(name in description.velocities) for name in description.columns]
    return np.array([machine.derivatives(0.0, x, u)[:-1] * seconds, x[:-1] * moves])


def drives_of(plant: Plant, machine: MachineDescription) -> Drives | None:
    """The velocity loops of drives that take speeds; None: they take efforts.

    Raises:
        KeyRefused: a name that is no input, or a key of drives that take the other.
    """
    limit, bandwidth = plant.safety.speed_limit, plant.actuator.bandwidth
    if plant.command == "effort":
        for section, key, value in (("safety", "speed_limit", limit), ("actuator", "bandwidth", bandwidth)):
            if value is not None:
                text = 'is for drives that take speeds, and plant.command is "effort"; leave it out, or set '
                raise KeyRefused(f"plant.{section}", key, f'{text}plant.command = "velocity"')
        return None
    for key in OF_EFFORTS:
        if getattr(plant.actuator, key) is not None:
            text = 'is of efforts, and with plant.command = "velocity" the drives take speeds; leave it out'
            raise KeyRefused("plant.actuator", key, text)
    names = machine.input_names
    return Drives(
        per_name("plant.safety", "speed_limit", limit, names, np.inf),
        per_name("plant.actuator", "bandwidth", bandwidth, names, np.inf),
    )


def check_speeds(launch: LaunchFile, machine: Machine, start: Array) -> None:
    """Refuse what drives that take speeds cannot do, where plant.command says that they do.

    Raises:
        KeyRefused: there is nothing whose speed they could set, or inputs whose speeds depend on each other.
    """
    plant, description = launch.plant, machine.description
    if plant.command == "effort":
        return
    obstacle = ""
    if not launch.controller:
        obstacle = "the speeds are those after a control period, and there is no [controller]; add one"
    elif not find_driver(plant.driver).speeds:
        able = choices(f'"{name}"' for name, each in our_drivers().items() if each.speeds)
        obstacle = f'driver "{plant.driver}" sends efforts alone; choose {able}'
    elif acts_in_device(plant):
        obstacle = "the law acts in the machine's firmware, with efforts; leave plant.device.law out"
    elif sends_readings(plant):
        obstacle = "an estimate from readings alone needs the efforts of the drives; leave plant.device.sends out"
    else:
        rng = np.random.default_rng(0)
        states = [start, *random_states(description, start, rng, POSES, SPREAD)]
        gains = [speeds_after(machine, 0.0, x, AHEAD_S)[1] for x in states]
        idle = [name for i, name in enumerate(description.input_names) if not any(gain[i, i] > 0 for gain in gains)]
        if idle:
            obstacle = f"{', '.join(idle)} changes no velocity of its own that a drive could hold"
        elif not independent(gains[0]) or not any(map(independent, gains[1:])):
            obstacle = f"the speeds of {', '.join(description.input_names)} depend on each other, so that no drive can "
            obstacle += "hold its own (more inputs than motions, or a singular pose)"
        obstacle += '; use command = "effort", or a machine with one drive for each motion' if obstacle else ""
    if obstacle:
        raise KeyRefused("plant", "command", f'"velocity" is not possible: {obstacle}')


def examine_speeds(drives: Drives, machine: Machine, period: float, found: Examination) -> None:
    """Add what `check` says of drives that take speeds; period [s]."""
    slow = []
    for name, limit, share in zip(machine.description.input_names, drives.limit, drives.share(period), strict=True):
        most = "" if np.isinf(limit) else f", at most {limit:g} in its SI unit"
        text = f"{name} is sent as the speed of what it moves{most}; in a period its drive makes up {share:.0%} of it"
        found.add("good", "speeds", text)
        slow += [name] if share < SLOW else []
    if slow:
        text = f"the drives of {', '.join(slow)} are slow beside a period of {period:g} s: differences of speed are "
        text += "sent several times too large; lengthen controller.period, or check plant.actuator.bandwidth"
        found.add("warn", "speeds", text)
