"""The law in a microcontroller's firmware: whether the law of the launch file can act there, and its terms."""

from collections.abc import Iterator, Sequence

from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.estimation import Estimation
from servonode.closed_loop.launch_error import KeyRefused
from servonode.closed_loop.launch_keys import Plant
from servonode.controllers import ServoLaw
from servonode.mechanics.description import ProgramDescription, Quantity, derivative_name, derivatives
from servonode.plants.drivers.driver import LawTerms
from servonode.plants.drivers.installed import find_driver
from servonode.plants.drivers.packets import LARGEST, MOST_GOAL, law_schema_of

SECTION, KEY = "plant.device", "law"


def acts_in_device(plant: Plant) -> bool:
    """Whether the launch file asks for it, and its driver reaches firmware."""
    return plant.device.law and find_driver(plant.driver).uses("device", KEY)


def check_device_law(plant: Plant, control: Control | None, estimation: Estimation | None) -> None:
    """Refuse what is to act in firmware and cannot.

    Raises:
        KeyRefused: there is no controller, or its law needs more than the newest state and a goal.
    """
    if acts_in_device(plant):
        for obstacle in _obstacles(control, estimation):
            text = f"the law cannot act in firmware: {obstacle}; change that, or leave plant.device.law out"
            raise KeyRefused(SECTION, KEY, text)


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
    law = control.law
    orders = ", ".join(map(str, goal_orders(law))) or "0"
    return [
        f"#define HIL_LAW {function} /* of the same file */",
        f"#define HIL_LAW_SCHEMA UINT32_C({law_schema(law):#010x})",
        f"#define HIL_N_GOAL {len(goal_orders(law))}",
        f"#define HIL_GOAL_ORDERS {{{orders}}} /* how many of the entries behind each are its derivatives */",
        f"#define HIL_N_OUT {law.answer_layout.size}",
    ]


def law_schema(law: ServoLaw) -> int:
    """The number by which servonode and firmware know that they have the same law, gains and parameters."""
    program = law.description
    things = [*derivatives(program.targets, program.target_order)]
    things += derivatives([each.name for each in program.signals], program.signal_order)
    things += [(each.name, 0) for each in _integrators(program)]
    numbers = [*law.machine.parameters.values(), *law.parameters.values(), *law.K.ravel().tolist()]
    numbers += law.weights.tolist() if program.weighted else []
    return law_schema_of(program.name, [derivative_name(*each) for each in things], numbers)


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
