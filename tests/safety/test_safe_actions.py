"""Every machine's safe action: a brake in every state, within limits, held from step to step."""

from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose

from servonode.mechanics.machine import Machine
from servonode.nodes.launch_file import LaunchError, packaged, read_launch
from servonode.nodes.machines import check_safe_action
from servonode.nodes.safety import Limits, limited
from servonode.plants import PLANTS
from tests.conformance.cases import WITHOUT_INPUTS, Array, MachineCase, machine_cases, random_state, situations

STEP_NS = 1_000_000  # the default plant.step
H = STEP_NS / 1e9
STATES = 300
BRAKED = [case for name in PLANTS if name not in WITHOUT_INPUTS for case in machine_cases(name)]
every_brake = pytest.mark.parametrize(
    "case", BRAKED, ids=lambda case: "-".join([case.name, *dict(case.settings).values()])
)


def any_states(case: MachineCase, count: int, wide: float = 3.0) -> Iterator[Array]:
    """Random states, also such as are beyond the machine's faults; not where the inputs' map is singular."""
    rng = case.rng()
    for _ in range(count):
        x = random_state(case.machine, rng, rng.uniform(0.0, wide))
        if np.isfinite(case.machine.safe_input(0.0, x)).all():
            yield x


def braked(machine: Machine, x: Array, limits: Limits) -> Array:
    """The safe action at a state, through the filter."""
    asked = machine.safe_input(0.0, x).tolist()
    return np.array(limited(asked, [0.0] * len(asked), H, limits, machine.description.input_names)[0])


def without(machine: Machine, most: float) -> Limits:
    """One limit on the value of every input, and none on rate and power."""
    return Limits((most,) * machine.n_inputs, (np.inf,) * machine.n_inputs)


# what inputs work on


def test_machines_with_inputs_declare_a_safe_action_and_only_they() -> None:
    for name in PLANTS:
        for case in machine_cases(name):
            assert case.machine.description.brakes == (case.machine.n_inputs > 0) == (name not in WITHOUT_INPUTS)


@every_brake
def test_inputs_times_their_rates_are_the_power_in_the_work_entry(case: MachineCase) -> None:
    for at in situations(case, 40):
        rates = at.machine.input_rates(at.t, at.x)
        idle = at.machine.derivatives(at.t, at.x, np.zeros(at.machine.n_inputs))[-1]
        power = at.machine.derivatives(at.t, at.x, at.u)[-1] - idle
        assert rates.shape == (at.machine.n_inputs,)
        assert_allclose(at.u @ rates, power, rtol=0, atol=1e-12 * (np.abs(at.u) @ np.abs(rates) + abs(idle)))
        without_losses = at.machine.derivatives(at.t, at.x, 1e6 * at.u)[-1]
        assert_allclose(1e6 * at.u @ rates + idle, without_losses, rtol=0, atol=1e-6 * np.abs(at.u) @ np.abs(rates))


@cache
def stated_rates(case: MachineCase) -> tuple[list[str], Any]:
    """What the machine file says the inputs work on, as a function of states and parameters by sympy's printer."""
    model = case.source.build()
    stated = [sympy.sympify(on).xreplace(model.rates) for on in model.inputs.values()]
    symbols = sorted(set().union(*(each.free_symbols for each in stated)), key=str)
    return list(map(str, symbols)), sympy.lambdify(symbols, stated, "math")


@every_brake
def test_the_rates_are_those_that_the_machine_states(case: MachineCase) -> None:
    names, function = stated_rates(case)
    for at in situations(case, 10):
        values = dict(zip(at.machine.description.state_names, map(float, at.x), strict=False)) | at.machine.parameters
        found = at.machine.input_rates(at.t, at.x)
        expected = function(*(values[name] for name in names))
        assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.max(np.abs(expected)))


# a brake in every state


@every_brake
def test_no_input_of_the_safe_action_ever_drives(case: MachineCase) -> None:
    machine, acting = case.machine, 0
    for x in any_states(case, STATES):
        rates = machine.input_rates(0.0, x)
        for limits in (without(machine, np.inf), without(machine, 0.1), without(machine, 1e-12)):
            u = braked(machine, x, limits)
            assert (u * rates <= 0.0).all()  # of each input by itself, and so whatever a limit takes off
            acting += bool((u != 0.0).all())
    assert acting > 2.5 * STATES


@every_brake
def test_at_rest_it_asks_for_nothing(case: MachineCase) -> None:
    machine = case.machine
    moving = [machine.description.state_names.index(name) for name in machine.description.velocities]
    for x in any_states(case, 20):
        x[moving] = 0.0
        assert (machine.safe_input(0.0, x) == 0.0).all()


@every_brake
@pytest.mark.parametrize("most", [np.inf, 0.5])
def test_held_from_step_to_step_it_takes_energy_out(case: MachineCase, most: float) -> None:
    # without losses, so that a free machine keeps its energy and all work is the brake's; an input may only push
    # with the motion in the one step in which its rate changes sign
    lossless = {name: 0.0 for name in ("c_w", "c1", "c2", "c_j", "c_r") if name in case.machine.parameters}
    machine = case.machine.with_parameters(lossless)
    limits, advance = without(machine, most), machine.advancer("rk4")
    for x in any_states(case, 8, wide=1.0):
        x[-1] = 0.0
        start, rates = machine.energy(0.0, x), machine.input_rates(0.0, x)
        for k in range(1000):
            u, work = braked(machine, x, limits), x[-1]
            assert u @ rates <= 0.0
            assert advance(k, 1, STEP_NS, x, u, machine.c)
            after = machine.input_rates(0.0, x)
            turned = H * np.sum(np.where(rates * after < 0.0, np.abs(u * after), 0.0))
            assert x[-1] - work <= turned + 1e-12 * (1.0 + machine.energies(0.0, x)[0])
            rates = after
        assert x[-1] < 0.0
        assert_allclose(machine.energy(0.0, x) - start, x[-1], rtol=0, atol=1e-6 * (1.0 + abs(start)))
