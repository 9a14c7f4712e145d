"""The initial condition on the program: states that a launch file leaves open are chosen so that residuals vanish."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.launch_error import KeyRefused, ProgramUnfit, stated_in
from servonode.closed_loop.machine_section import initial_states
from servonode.controllers import ServoLaw
from servonode.errors import StatementError

ITERATIONS, TOLERANCE, DIFFERENCE, TRIES = 50, 1e-13, 1e-6, 5


class NoStart(StatementError):
    """No initial condition on the program was found; the text says how near it came."""


def wants_program_start(initial: Mapping[str, Any]) -> bool:
    """Whether [plant.initial] leaves states open, to be chosen so that residuals vanish.

    Raises:
        KeyRefused: on_program is neither true nor false.
    """
    wanted = initial.get("on_program", False)
    if not isinstance(wanted, bool):
        raise KeyRefused("plant.initial", "on_program", f"{wanted!r} is not true or false; give one")
    return wanted


def law_at_start(
    law: ServoLaw, goal: Callable[[ServoLaw], Array], stated: Collection[str], initial: Mapping[str, Any], x: Array
) -> tuple[ServoLaw, Array]:
    """The law with what its program computes from the initial state x, and that state, on the program if wanted.

    goal: y at t = 0 of a law. stated: the settings of the program. initial: [plant.initial].

    Raises:
        KeyRefused: a parameter of the program is out of its bounds; ProgramUnfit: there is no such state.
    """
    given = frozenset(stated) & {each.name for each in law.description.parameters}
    with stated_in("controller.settings"):
        law.check_parameters(given)  # before anything is computed with them
    law = law.started(0.0, x, goal(law), given)
    if not wants_program_start(initial):
        return law, x
    fixed = list(initial_states(initial, law.machine))
    with stated_in("plant.initial", "on_program", ProgramUnfit):
        if law.description.extension:
            x, own = start_extended(law, x, goal(law), fixed)
            return law.with_initial_states(0.0, x, goal(law), own), x
        for _ in range(2):  # the program's own initial states depend on the machine's
            x = start_on_program(law, x, goal(law), fixed)
            law = law.with_own_states(0.0, x, goal(law))
    return law, x


def start_on_program(law: ServoLaw, start: Array, goal: Array, given: Collection[str]) -> Array:
    """The start nearest to `start` with f = 0, and f' = 0 for residuals of relative degree 2, at t = 0.

    Only states not in `given` move (Gauss-Newton with the smallest step). The work entry stays.

    Raises:
        NoStart: the residuals do not vanish within the given states.
    """
    return _solved(law, partial(_residuals, law, goal=goal), start, given)


def start_extended(law: ServoLaw, start: Array, goal: Array, given: Collection[str]) -> tuple[Array, Array]:
    """The same for a law with an extension: f and all derivatives below the relative degree vanish at t = 0.

    The law's own integrators, whose starts come second, are free too; states of the program itself are not.

    Raises:
        NoStart: as `start_on_program`.
    """
    part, n_x = law.goal_layout.states, len(start)
    fixed = len(law.description.states) - len(law.description.extension.integrators)  # type: ignore[union-attr]
    held = [each.name for each in law.description.states[:fixed]]

    def residuals(z: Array) -> Array:
        y = goal.copy()
        y[part] = z[n_x:]
        x = np.ascontiguousarray(z[:n_x])
        return np.concatenate([*law.chains(0.0, x, y), law.machine.position_residual(0.0, x)])

    own = np.where(np.isfinite(goal[part]), goal[part], 0.0)  # singular where the machine stands
    found = _solved_from_near(law, residuals, np.concatenate([start, own]), [*given, *held, "work"])
    return np.ascontiguousarray(found[:n_x]), found[n_x:]


def _solved_from_near(
    law: ServoLaw, residuals: Callable[[Array], Array], start: Array, given: Collection[str]
) -> Array:
    """`_solved`, from states beside the start too where it fails: a rope of length 0 has no direction."""
    rng = np.random.default_rng(0)
    for beside in [np.zeros(len(start)), *rng.uniform(0.2, 0.8, (TRIES, len(start)))]:
        try:
            return _solved(law, residuals, start, given, beside)
        except NoStart as error:
            last = error
    raise last


def _solved(
    law: ServoLaw,
    residuals: Callable[[Array], Array],
    start: Array,
    given: Collection[str],
    beside: Array | None = None,
) -> Array:
    """The zero of the residuals that is nearest to `start`: states of machine and law, and the work between.

    It is looked for from `beside` away.
    """
    own = [each.name for each in law.description.states] if len(start) > law.machine.n_state + 1 else []
    names = [*law.machine.description.state_names, *(["work", *own] if own else [])]
    free = [i for i, name in enumerate(names) if name not in given]
    x = start.copy()
    if beside is not None:
        x[free] += beside[free]
    for _ in range(ITERATIONS):
        f = residuals(x)
        if np.max(np.abs(f), initial=0.0) < TOLERANCE:
            return x
        slope = _slope(residuals, x, free)
        if not (np.isfinite(f).all() and np.isfinite(slope).all()):
            raise NoStart(_not_finite(law, x, names, given))
        step, *_ = np.linalg.lstsq(slope, -f, rcond=1e-10)
        x[free] += step
    left = np.abs(residuals(x))
    if (left < 1e-9 * np.abs(slope).max(axis=1, initial=1.0)).all():  # high derivatives are large numbers
        return x
    given = [name for name in given if name in law.machine.description.state_names]
    never = f"; {law.description.unreachable}" if law.description.unreachable else ""
    raise NoStart(
        f"no initial state on the program was found with {', '.join(given) or 'nothing'} given "
        f"(the residuals only decrease to {left.max():.2g}){never}; give fewer states, or other values"
    )


def _not_finite(law: ServoLaw, x: Array, names: Collection[str], given: Collection[str]) -> str:
    at = ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, x, strict=False) if name not in given)
    residuals = ", ".join(each.name for each in law.description.residuals)
    return (
        f"no initial state on the program was found: {residuals} or their derivatives are not finite at "
        f"{at}; give states near it"
    )


def _residuals(law: ServoLaw, x: Array, goal: Array) -> Array:
    """f of all residuals, f' of those of relative degree 2, and what violates holonomic constraints."""
    answer = law.evaluate(0.0, x, goal)
    finite = [i for i, relative_degree in enumerate(law.description.relative_degrees) if relative_degree == 2]
    return np.concatenate([answer.residuals, answer.rates[finite], law.machine.position_residual(0.0, x)])


def _slope(residuals: Callable[[Array], Array], x: Array, free: list[int]) -> Array:
    """Derivative of the residuals by the free states, by central differences."""
    columns = []
    for i in free:
        ahead, behind = x.copy(), x.copy()
        ahead[i] += DIFFERENCE
        behind[i] -= DIFFERENCE
        columns.append((residuals(ahead) - residuals(behind)) / (2 * DIFFERENCE))
    return np.array(columns).T
