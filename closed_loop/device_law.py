"""The law in a microcontroller's firmware: whether the law of the launch file can act there, and its terms."""

from collections.abc import Iterator, Sequence

from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.estimation import Estimation
from servonode.closed_loop.launch_file import LaunchError
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.controllers import ServoLaw
from servonode.mechanics.description import derivative_name, derivatives
from servonode.plants.drivers.installed import find_driver
from servonode.plants.drivers.packets import LARGEST, MOST_GOAL, law_schema_of
from servonode.plants.drivers.terms import LawTerms

SECTION, KEY = "plant.device", "law"


def acts_in_device(launch: LaunchFile) -> bool:
    """Whether the launch file asks for it, and its driver reaches firmware."""
    return launch.plant.device.law and find_driver(launch.plant.driver).uses("device", KEY)


def check_device_law(launch: LaunchFile, control: Control | None, estimation: Estimation | None) -> None:
    """Refuse what is to act in firmware and cannot.

    Raises:
        LaunchError: there is no controller, or its law needs more than the newest state and a goal.
    """
    if acts_in_device(launch):
        for obstacle in _obstacles(launch, control, estimation):
            text = f"the law cannot act in firmware: {obstacle}; change that, or leave plant.device.law out"
            raise LaunchError(launch.file, SECTION, KEY, text)


def law_terms(launch: LaunchFile, control: Control | None, limits: Sequence[float]) -> LawTerms | None:
    """On what terms the firmware's own law acts within these limits; None where it is not to."""
    if control is None or not acts_in_device(launch):
        return None
    tolerance = tuple(min(launch.plant.device.law_tolerance * each, LARGEST) for each in limits)
    return LawTerms(law_schema(control.law), len(goal_orders(control.law)), tolerance)


def law_header(launch: LaunchFile, control: Control | None, estimation: Estimation | None, function: str) -> list[str]:
    """Lines of the C header for firmware with this law, whose function has this name; the reason if it has none."""
    obstacle = next(_obstacles(launch, control, estimation), None)
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
    numbers = [*law.machine.parameters.values(), *law.parameters.values(), *law.K.ravel().tolist()]
    return law_schema_of(program.name, [derivative_name(*each) for each in things], numbers)


def goal_orders(law: ServoLaw) -> list[int]:
    """Of each entry of the goal: how many of the entries behind it are its derivatives."""
    program = law.description
    parts = ((program.targets, program.target_order), (program.signals, program.signal_order))
    return [most - n for things, most in parts for _ in things for n in range(most + 1)]


def _obstacles(launch: LaunchFile, control: Control | None, estimation: Estimation | None) -> Iterator[str]:
    """Why the law cannot act on a machine's own state and a goal alone."""
    if control is None or launch.controller is None:
        yield "there is no [controller]"
        return
    yield from _memory(control)
    if launch.controller.delay:
        yield f"controller.delay = {launch.controller.delay}, but in firmware a command acts at once"
    if launch.controller.predictor:
        yield "controller.predictor predicts the state, but the firmware knows it"
    if estimation is not None:
        yield "the firmware has no [estimator]"
    if (size := len(goal_orders(control.law))) > MOST_GOAL:
        yield f"its goal has {size} entries, but a packet holds {MOST_GOAL}"


def _memory(control: Control) -> Iterator[str]:
    program = control.law.description
    if program.states:
        yield f"program {program.name} has states of its own ({', '.join(each.name for each in program.states)})"
    if program.integral:
        yield f"program {program.name} feeds back integrals of its residuals"
