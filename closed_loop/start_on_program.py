"""The initial condition on the program: states that a launch file leaves open are chosen so that residuals vanish."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.controller_section import Control, ProgramRefused
from servonode.closed_loop.launch_file import LaunchError, worded
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.closed_loop.machine_section import initial_states
from servonode.controllers import ServoLaw
from servonode.errors import StatementError

Array = npt.NDArray[np.float64]
ITERATIONS, TOLERANCE, DIFFERENCE = 50, 1e-13, 1e-6


class NoStart(StatementError):
    """No initial condition on the program was found; the text says how near it came."""


def wants_program_start(launch: LaunchFile) -> bool:
    """Whether the launch file leaves states open, to be chosen so that residuals vanish.

    Raises:
        LaunchError: on_program is neither true nor false.
    """
    wanted = launch.plant.initial.get("on_program", False)
    if not isinstance(wanted, bool):
        raise LaunchError(launch.file, "plant.initial", "on_program", f"{wanted!r} is not true or false; give one")
    return wanted


def program_start(launch: LaunchFile, control: Control, x: Array) -> tuple[Control, Array]:
    """The control with what its program computes from the initial state x, and that state, on the program if wanted.

    Raises:
        LaunchError: a parameter of the program is out of its bounds; ProgramRefused: there is no such state.
    """
    with worded(launch.file, "controller.settings"):
        control.law.check_parameters(control.given)  # before anything is computed with them
    law = control.law.started(0.0, x, control.goal(0.0), control.given)
    control = replace(control, law=law)
    if not wants_program_start(launch):
        return control, x
    given = list(initial_states(launch, law.machine))
    for _ in range(2):  # the program's own initial states depend on the machine's
        with worded(launch.file, "plant.initial", "on_program", ProgramRefused):
            x = start_on_program(law, x, control.goal(0.0), given)
        law = law.with_own_states(0.0, x, control.goal(0.0))
        control = replace(control, law=law)
    return control, x


def start_on_program(law: ServoLaw, start: Array, goal: Array, given: Collection[str]) -> Array:
    """The start nearest to `start` with f = 0, and f' = 0 for residuals of relative degree 2, at t = 0.

    Only states not in `given` move (Gauss-Newton with the smallest step). The work entry stays.

    Raises:
        NoStart: the residuals do not vanish within the given states.
    """
    names = law.machine.description.state_names
    free = [i for i, name in enumerate(names) if name not in given]
    x = start.copy()
    for _ in range(ITERATIONS):
        f = _residuals(law, x, goal)
        if np.max(np.abs(f), initial=0.0) < TOLERANCE:
            return x
        slope = _slope(law, x, goal, free)
        if not (np.isfinite(f).all() and np.isfinite(slope).all()):
            raise NoStart(_not_finite(law, x, names, given))
        step, *_ = np.linalg.lstsq(slope, -f, rcond=1e-10)
        x[free] += step
    worst = float(np.max(np.abs(_residuals(law, x, goal))))
    if worst < 1e-9:
        return x
    raise NoStart(
        f"no start on the program was found with {', '.join(given) or 'nothing'} given "
        f"(the residuals come down to {worst:.2g}); give fewer states, or other values"
    )


def _not_finite(law: ServoLaw, x: Array, names: Collection[str], given: Collection[str]) -> str:
    at = ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, x, strict=False) if name not in given)
    residuals = ", ".join(each.name for each in law.description.residuals)
    return f"no start on the program was found: {residuals} or their slopes are not finite at {at}; give states near it"


def _residuals(law: ServoLaw, x: Array, goal: Array) -> Array:
    """f of all residuals, f' of those of relative degree 2, and what violates holonomic constraints."""
    answer = law.evaluate(0.0, x, goal)
    finite = [i for i, relative_degree in enumerate(law.description.relative_degrees) if relative_degree == 2]
    return np.concatenate([answer.residuals, answer.rates[finite], law.machine.position_residual(0.0, x)])


def _slope(law: ServoLaw, x: Array, goal: Array, free: list[int]) -> Array:
    """Derivative of the residuals by the free states, by central differences."""
    columns = []
    for i in free:
        ahead, behind = x.copy(), x.copy()
        ahead[i] += DIFFERENCE
        behind[i] -= DIFFERENCE
        columns.append((_residuals(law, ahead, goal) - _residuals(law, behind, goal)) / (2 * DIFFERENCE))
    return np.array(columns).T
