"""What every machine of PLANTS must be, with every choice of its options, at random admissible states."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.closed_loop.launch_file import LaunchError, read_launch
from servonode.mechanics.description import Quantity
from servonode.mechanics.integrate import INTEGRATORS
from servonode.mechanics.machine import Machine
from servonode.plants import PLANTS, packaged_machine
from servonode.plants.drawn import drawn_views
from tests.conformance.cases import (
    MACHINES,
    TRIES,
    WITHOUT_INPUTS,
    Array,
    MachineCase,
    Situation,
    accelerations,
    input_map,
    mass_matrix,
    random_state,
    situations,
    slope,
)
from tests.helpers.wings import launches

DOCS = Path(__file__).parents[2] / "docs" / "systems"
STEPS = (4, 8, 16, 32, 64, 128, 256)
every_machine = pytest.mark.parametrize("case", MACHINES)
every_name = pytest.mark.parametrize("name", PLANTS)


def speed(rates: Array) -> float:
    return float(np.max(np.abs(rates[:-1])))


# the arrays


@every_machine
def test_the_defaults_are_valid_and_the_default_start_is_no_fault(case: MachineCase) -> None:
    machine = case.machine
    for quantity in machine.description.parameters:
        assert quantity.default is not None
        assert quantity.complaint(quantity.default) is None
        assert machine.parameters[quantity.name] == quantity.default
    start = machine.state({})
    assert machine.fault(0.0, start) is None
    assert_allclose(machine.position_residual(0.0, start), 0.0, atol=1e-15)


@every_machine
def test_arrays_are_finite_and_constraints_held(case: MachineCase) -> None:
    for at in situations(case):
        description = at.machine.description
        assert at.x.shape == (len(description.state) + 1,)
        assert set(description.state_names) == {*description.coordinates, *description.velocities}
        rates = at.machine.derivatives(at.t, at.x, at.u)
        assert rates.shape == at.x.shape
        outputs = at.machine.outputs(at.t, at.x, at.u)
        assert list(outputs) == [each.name for each in description.outputs]
        assert np.isfinite([*rates, *outputs.values(), at.machine.energy(at.t, at.x)]).all()
        passive, held = description.constraints, description.stabilised
        residual = at.machine.constraint_residual(at.t, at.x)
        assert residual.shape == (len(passive) + len(held),)
        # what reactions hold, a random state does not
        assert_allclose(residual[: len(passive)], 0.0, atol=1e-13 * (1 + speed(rates)))


# the equations


@every_machine
def test_the_energy_changes_by_the_power_of_inputs_and_losses(case: MachineCase) -> None:
    for at in situations(case):
        rates = at.machine.derivatives(at.t, at.x, at.u)
        found = slope(lambda s: np.array(at.machine.energies(at.t + s, at.x + s * rates)), speed(rates))  # noqa: B023
        scale = np.sum(np.abs(found)) + abs(rates[-1])
        assert_allclose(np.sum(found), rates[-1], rtol=0, atol=1e-10 * (scale + at.machine.energies(at.t, at.x)[0]))


@every_machine
def test_mass_matrix_is_positive_definite_and_maps_unit_inputs(case: MachineCase) -> None:
    # M_r of the kinetic energy, B_r of the power: neither knows the equations of motion that are tested here
    for at in situations(case):
        M, B = mass_matrix(at.machine, at.t, at.x), input_map(at.machine, at.t, at.x)
        assert_allclose(M, M.T, rtol=0, atol=1e-12 * np.max(M))
        assert np.min(np.linalg.eigvalsh(M)) > 1e-9 * np.max(M)
        free = accelerations(at.machine, at.machine.derivatives(at.t, at.x, np.zeros(at.machine.n_inputs)))
        for k, unit in enumerate(np.eye(at.machine.n_inputs)):
            response = accelerations(at.machine, at.machine.derivatives(at.t, at.x, unit)) - free
            assert_allclose(M @ response, B[:, k], rtol=0, atol=1e-9 * np.max(M) * (1 + np.max(np.abs(response))))


def without_losses(machine: Machine) -> Machine:
    """The machine with every parameter that may be zero and is by default at its default."""
    lossless = {each.name: 0.0 for each in machine.description.parameters if each.default == 0.0 == each.at_least}
    return machine.with_parameters(lossless)


@every_machine
def test_without_losses_the_motion_runs_backwards_as_well(case: MachineCase) -> None:
    # v'(q, -v) = v'(q, v): inertial forces are quadratic in the velocities, which no gyroscopic slip of a sign is
    if case.machine.description.stabilised:
        pytest.skip("residuals decay forwards in time")
    for at in situations(case):
        machine = without_losses(at.machine)
        back = at.x.copy()
        for name in machine.description.velocities:
            back[machine.description.state_names.index(name)] *= -1
        zero = np.zeros(machine.n_inputs)
        ahead, behind = (accelerations(machine, machine.derivatives(at.t, x, zero)) for x in (at.x, back))
        assert_allclose(behind, ahead, rtol=0, atol=1e-12 * (1 + np.max(np.abs(ahead))))


@every_machine
def test_the_minimal_form_agrees_with_the_full_form(case: MachineCase) -> None:
    if not case.machine.description.has_full_form:
        pytest.skip("stated in velocities: there is no full form")
    for at in situations(case):
        rates, (accelerated, forces) = at.machine.derivatives(at.t, at.x, at.u), at.machine.full(at.t, at.x, at.u)
        where = [at.machine.description.state_names.index(name) for name in at.machine.description.coordinates]
        found = slope(lambda s: at.machine.derivatives(at.t + s, at.x + s * rates, at.u)[where], speed(rates))  # noqa: B023
        assert_allclose(found, accelerated, rtol=0, atol=1e-8 * (1 + np.max(np.abs(accelerated))))
        of = at.machine.matrices(at.t, at.x)
        balance = [of.M @ accelerated, of.h, -of.B @ at.u, -of.A.T @ forces]
        assert_allclose(sum(balance), 0.0, atol=1e-11 * (1 + np.max(np.abs(balance))))
        assert_allclose(of.A @ accelerated, of.gamma, rtol=0, atol=1e-11 * (1 + np.max(np.abs(accelerated))))
        assert_allclose(of.M, of.M.T, rtol=0, atol=1e-13 * np.max(of.M))


@every_machine
def test_the_full_form_is_that_of_lagrange_found_from_the_energies(case: MachineCase) -> None:
    # d/dt dT/dv - dT/dq + dV/dq of T = v'M(q)v/2 and V by differences: h, but for losses, whose power is the rest of it
    if not case.machine.description.has_full_form:
        pytest.skip("stated in velocities: there is no full form")
    for at in situations(case):
        machine, idle = without_losses(at.machine), np.zeros(at.machine.n_inputs)
        for each in (machine, at.machine):
            names = each.description.state_names
            where = [names.index(name) for name in each.description.coordinates]
            v, of = each.derivatives(at.t, at.x, idle)[where], each.matrices(at.t, at.x)
            assert v @ of.M @ v / 2 == pytest.approx(each.energies(at.t, at.x)[0], rel=1e-12, abs=1e-12)

            def of_place(s: float, i: int, each: Machine = each) -> Array:
                moved = at.x.copy()  # noqa: B023
                moved[i] += s
                return np.append(each.matrices(at.t, moved).M.ravel(), each.energies(at.t, moved)[1])  # noqa: B023

            slopes = [slope(lambda s, i=i: of_place(s, i), 1.0) for i in where]
            dM = np.array([found[:-1].reshape(of.M.shape) for found in slopes])  # dM[k] = dM/dq_k
            inertia = np.einsum("k,kij,j->i", v, dM, v) - np.einsum("ikj,k,j->i", dM, v, v) / 2
            rest = of.h - inertia - np.array([found[-1] for found in slopes])
            scale = 1 + np.max(np.abs(of.h)) + np.max(np.abs(inertia))
            power = each.derivatives(at.t, at.x, idle)[-1]
            assert rest @ v == pytest.approx(-power, abs=1e-8 * scale * (1 + np.max(np.abs(v))))
            if abs(power) < 1e-14:
                assert_allclose(rest, 0.0, atol=1e-8 * scale)


# the steps


def after(at: Situation, integrator: str, duration: float, steps: int) -> Array:
    x, step = at.x.copy(), at.machine.stepper(integrator)
    h = duration / steps
    for i in range(steps):
        step(at.t + i * h, x, at.u, at.machine.c, h)
    return x


@every_machine
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_every_integrator_has_its_order(case: MachineCase, integrator: str) -> None:
    at, measured = situations(case)[0], list[float]()
    for duration in (0.1, 1.0, 10.0):  # a slow motion takes longer
        exact = after(at, "rk4", duration, 4096)
        scale = 1 + np.abs(exact)
        errors = [float(np.max(np.abs(after(at, integrator, duration, n) - exact) / scale)) for n in STEPS]
        measured = measured or [float(np.log2(one / half)) for one, half in pairwise(errors) if half > 1e-11]
    assert measured, "the motion is too slow to measure an order"
    assert measured[-1] == pytest.approx(INTEGRATORS[integrator].order, abs=0.15), measured


@every_machine
def test_what_is_held_stays_held_over_steps(case: MachineCase) -> None:
    for at in situations(case):
        for name in INTEGRATORS:
            x = after(at, name, 0.1, 100)
            assert_allclose(at.machine.position_residual(at.t, x), 0.0, atol=1e-10, err_msg=name)
        assert_allclose(at.machine.position_residual(at.t, after(at, "rk4", 0.1, 100)), 0.0, atol=1e-14)


# the safe action


@every_machine
def test_the_safe_action_never_gives_energy(case: MachineCase) -> None:
    if not case.machine.n_inputs:
        pytest.skip("the machine has no inputs")
    for at in situations(case):
        x, h, step = at.x.copy(), 1e-3, at.machine.stepper("rk4")
        energy = [at.machine.energy(at.t, x)]
        scale = at.machine.energies(at.t, x)[0] + 1.0
        for i in range(500):
            t = at.t + i * h
            u = at.machine.safe_input(t, x)
            assert u.shape == at.u.shape
            assert at.machine.derivatives(t, x, u)[-1] <= 1e-12 * scale
            step(t, x, u, at.machine.c, h)
            energy.append(at.machine.energy(t, x))
        assert np.isfinite(energy).all()
        assert np.max(np.diff(energy)) <= 1e-9 * scale


@every_machine
def test_after_a_fault_the_run_goes_on_under_the_safe_action(case: MachineCase) -> None:
    if not case.machine.n_inputs:
        pytest.skip("the machine has no inputs")
    machine = case.machine
    at = situations(case)[0]
    launch = {
        "run": {"duration": 0.5, "mode": "lockstep"},
        "plant": {
            "machine": case.name,
            "settings": dict(case.settings),
            "initial": initial(machine, at.x),
            "safety": {"safe_time": 0.3},
        },
        "controller": {
            "program": "open_loop",
            "settings": {
                each.name: f"{value} + 1e-30*sqrt(0.095 - t)"
                for each, value in zip(machine.description.inputs, at.u, strict=True)
            },
        },
    }
    run = servonode.simulate(launch, every=1)
    assert run.fault is not None
    assert (run.fault["name"], run.fault["t"]) == ("law", 0.1)
    after = run.t >= 0.1
    assert run.t[-1] == pytest.approx(0.4)
    states = np.vstack([*run.state.values(), np.zeros(len(run.t))]).T[after]
    braked = np.array([machine.safe_input(t, x) for t, x in zip(run.t[after], states, strict=True)])
    assert_allclose(run.inputs.T[after][:-1], braked[:-1], rtol=0, atol=1e-12)
    energy = run.energy[after]
    assert np.max(np.diff(energy)) <= 1e-9 * (1 + machine.energies(0.0, at.x)[0])


def initial(machine: Machine, x: Array) -> dict[str, float | list[float]]:
    """A state as [plant.initial] has it."""
    vectors = machine.description.vectors
    entries = {entry for names in vectors.values() for entry in names}
    values = dict(zip(machine.description.state_names, map(float, x), strict=False))
    start: dict[str, float | list[float]] = {name: value for name, value in values.items() if name not in entries}
    return start | {name: [values[entry] for entry in names] for name, names in vectors.items()}


@every_machine
def test_a_fault_of_the_machine_is_found_and_refused_as_a_start(case: MachineCase) -> None:
    machine, rng = case.machine, case.rng()
    texts = [each.text for each in machine.description.faults]
    if not texts:
        pytest.skip("the machine defines no faults")
    found: dict[str | None, Array] = {}
    for _ in range(TRIES):
        x = random_state(machine, rng, wide=4.0)
        violated = machine.fault(0.0, x)
        found.setdefault(violated.text if violated else None, x)
        if len(found) > len(texts):
            break
    assert {*texts, None} == found.keys()
    for text in texts:
        plant = {"machine": case.name, "settings": dict(case.settings), "initial": initial(machine, found[text])}
        with pytest.raises(LaunchError, match=re.escape(text)):
            servonode.load({"run": {"duration": 1.0}, "plant": plant})


# the description


def quantities(machine: Machine) -> Iterator[Quantity]:
    description = machine.description
    yield from (*description.state, *description.inputs, *description.parameters, *description.outputs)


def words(text: str) -> set[str]:
    """Everything that stands between backquotes, word by word."""
    return {word for quoted in re.findall(r"`+([^`]+)`+", text) for word in re.findall(r"\w+", quoted, re.ASCII)}


@every_machine
def test_names_are_described_and_stand_on_the_machines_page(case: MachineCase) -> None:
    for each in quantities(case.machine):
        assert each.name.isascii(), each
        assert each.name.isidentifier(), each
        assert each.description.strip(), each
        assert each.unit.strip(), each
    texts = (*case.machine.description.requirements, *case.machine.description.warnings)
    assert all(each.text.strip() for each in (*texts, *case.machine.description.faults))
    assert case.machine.description.name == case.name
    assert case.machine.description.description == PLANTS[case.name]
    description = case.machine.description
    known = words((DOCS / f"{case.name}.md").read_text())
    entries = {entry for names in description.vectors.values() for entry in names}
    names = {each.name for each in quantities(case.machine) if each.name not in entries} | {*description.vectors}
    listed = {name for name, option in case.source.definition.options.items() if option.choices}
    names |= {case.name, *dict(case.settings), *(str(value) for name, value in case.settings if name in listed)}
    assert names - known == set()


@every_machine
def test_a_machine_without_inputs_takes_no_controller(case: MachineCase) -> None:
    assert (case.machine.n_inputs == 0) == (case.name in WITHOUT_INPUTS)
    if case.machine.n_inputs:
        return
    launch = {"run": {"duration": 1.0}, "plant": {"machine": case.name}, "controller": {"program": "open_loop"}}
    with pytest.raises(LaunchError, match=r"\[controller\] program: .* has no inputs; leave \[controller\] out"):
        servonode.load(launch)


# what comes with a machine


@every_name
def test_a_launch_file_uses_the_machine_and_its_file_begins_with_its_axes(name: str) -> None:
    assert [each for each in launches() if read_launch(each).plant.machine == name]
    import inspect
    import sys

    packaged_machine(name).definition.call()
    text = inspect.getdoc(sys.modules[f"servonode.plants.{name}"]) or ""
    assert len(text.split()) > 30
    assert "xes" in text


def values_of(machine: Machine, x: Array, u: Array) -> dict[str, float]:
    """States, inputs and outputs by name: what the functions of a View are given."""
    description = machine.description
    values = dict(zip(description.state_names, map(float, x), strict=False))
    values |= dict(zip(description.input_names, map(float, u), strict=True))
    return values | machine.outputs(0.0, x, u)


@every_machine
def test_the_machine_has_views_that_are_finite(case: MachineCase) -> None:
    for at in situations(case):
        given = values_of(at.machine, at.x, at.u) | {"t": 0.0}, at.machine.parameters
        views = drawn_views(at.machine, case.source.views(), case.source.definition.file.name)
        assert views
        for view in views:
            assert {name for names in view.trails.values() for name in names} <= given[0].keys()
            lines = [line for draw in (view.outline, view.guides) if draw for line in draw(*given)]
            lines += [np.array(arrow) for arrow in (view.arrows(*given) if view.arrows else {}).values()]
            assert lines
            for line in map(np.asarray, lines):
                assert line.ndim == 2
                assert line.shape[1] == 2
                assert np.isfinite(line).all()
            assert view.caption is None or view.caption(*given)
