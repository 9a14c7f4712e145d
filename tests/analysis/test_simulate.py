"""The sampled loop in one process: nodes on the bus in memory and the fused loop end in the same bits."""

import itertools
import time
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.api import simulate
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.mechanics.integrate import INTEGRATORS
from servonode.record.run import Run
from servonode.simulation import simulate as modes
from servonode.simulation.event_integration import SimulationError

PURSUIT: dict[str, Any] = {"run__duration": 1.0}
# what no packaged launch file has, whose bits tests/conformance/test_runs.py compares, limits and a delay included
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "two_periods_late": ("trailer_pursuit", {**PURSUIT, "controller__delay": 2}),
    "later_than_the_run": ("trailer_pursuit", {"run__duration": 0.05, "controller__delay": 9}),
    "one_wheel_limited": ("trailer_pursuit", {**PURSUIT, "plant__safety__limit": {"U2": 0.004}}),
    "cut_last_period": ("trailer_pursuit", {"run__duration": 1.237}),
    "shorter_than_a_period": ("trailer_pursuit", {"run__duration": 0.007}),
    "a_step_a_period": ("trailer_pursuit", {"run__duration": 0.5, "controller__period": 0.001}),
    "publishing_rarely": ("trailer_pursuit", {**PURSUIT, "plant__publish_every": 7}),
    "publishing_often": ("trailer_pursuit", {"run__duration": 0.5, "plant__publish_every": 1}),
    "believing_another_machine": ("trailer_pursuit", {**PURSUIT, "controller__parameters__m1": 5.0}),
    "another_machine": ("trailer_pursuit", {**PURSUIT, "plant__parameters": {"c_w": 0.003, "b": 0.8}}),
    "other_gains": ("trailer_pursuit", {**PURSUIT, "controller__gains": {"lambda": 3.0, "lambda_speed": 1.0}}),
    "goals_that_move": ("trailer_rates", {**PURSUIT, "controller__settings": {"v": "0.4 + 0.1*sin(2*t)"}}),
    "inputs_that_move": ("trailer_open_loop", {**PURSUIT, "controller__settings": {"U1": "0.02*sin(3*t)"}}),
    "coasting": ("trailer_coast", PURSUIT),
    **{f"by_{each}": ("trailer_pursuit", {"run__duration": 0.5, "plant__integrator": each}) for each in INTEGRATORS},
}


def columns(run: Run) -> dict[str, Any]:
    table = {"t": run.t, "k": run.k, "energy": run.energy, "work": run.work}
    return {**table, **run.state, **run.input, **{f"residual {n}": each for n, each in run.residual.items()}}


def assert_same_bits(one: Run, other: Run) -> None:
    ours, theirs = columns(one), columns(other)
    assert list(ours) == list(theirs)
    for name, column in ours.items():
        np.testing.assert_array_equal(column.view(np.int64), theirs[name].view(np.int64), name)
    assert one.residual_max == other.residual_max
    assert one.steps == other.steps


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`simulate` that must run the compiled loop: handing over to the nodes is an error."""

    def refuse(*_: Any) -> None:
        raise AssertionError("the fused loop gave up")

    monkeypatch.setattr(modes, "simulate_nodes", refuse)
    return simulate


@pytest.mark.parametrize("case", CASES)
def test_nodes_and_fused_loop_end_in_the_same_bits_at_every_step(fused: Any, case: str) -> None:
    name, options = CASES[case]
    run = fused(name, every=1, **options)
    assert_same_bits(run, simulate(name, loop="nodes", every=1, **options))
    assert len(run.t) == run.steps + 1


@pytest.mark.parametrize("loop", ["fused", "nodes"])
def test_fewer_rows_are_rows_of_the_full_record(loop: Any) -> None:
    full, *decimated = (
        simulate("trailer_pursuit", every=every, loop=loop, run__duration=1.237, controller__delay=1)
        for every in (1, 3, 10, 40, 999, 5000)
    )
    for every, thin in zip((3, 10, 40, 999, 5000), decimated, strict=True):
        kept = np.unique(np.append(np.arange(0, 1237, every), 1237))
        np.testing.assert_array_equal(thin.k, kept)
        for name, column in columns(full).items():
            if name != "energy":  # computed from the rows
                np.testing.assert_array_equal(columns(thin)[name], column[kept], name)


def test_a_run_keeps_at_most_twenty_thousand_rows_on_control_instants() -> None:
    run = simulate("trailer_pursuit", plant__step=0.0005, controller__period=0.001, run__duration=30.0)
    assert len(run.t) == 15_001
    assert set(np.diff(run.k)) == {4}


def test_a_command_acts_for_one_period_and_late_by_the_stated_delay() -> None:
    prompt, late = (
        simulate("trailer_open_loop", every=1, controller__delay=delay, controller__settings={"U1": "1 + t", "U2": "t"})
        for delay in (0, 2)
    )
    held = prompt.t - prompt.k % 10 * 0.001
    assert_allclose(prompt.input["U1"], 1 + held, rtol=1e-15)
    np.testing.assert_array_equal(late.input["U1"][20:], prompt.input["U1"][:-20])
    np.testing.assert_array_equal(late.input["U1"][:20], 0.0)


def test_limits_and_residuals_at_every_step() -> None:
    limits: dict[str, Any] = {"plant__actuator__limit": 0.01, "plant__safety__limit": {"U1": 0.004}}
    run = simulate("trailer_pursuit", every=1, run__duration=5.0, **limits)
    assert np.max(np.abs(run.input["U1"])) == 0.004
    assert np.max(np.abs(run.input["U2"])) == 0.01


def test_residuals_stand_at_control_instants_and_are_held_between_them() -> None:
    run = simulate("trailer_pursuit", every=1, run__duration=0.5, plant__initial__psi=0.1)
    for column in run.residual.values():
        np.testing.assert_array_equal(column, column[run.k - run.k % 10])
    error = run.state["psi"] - np.arctan2(run.targets["y"] - run.state["Y"], run.targets["x"] - run.state["X"])
    assert_allclose(run.residual["heading"][::10], error[::10], rtol=0, atol=1e-15)


def test_the_python_call_takes_every_kind_of_override() -> None:
    run = simulate(
        "trailer_pursuit",
        run__duration=0.1,
        target__x="3 + 0*t",
        target__y=np.float64(1.5),
        controller__settings={"variant": "finite"},
        plant__initial={"psi": np.array(0.25), "X": 1},
        plant__safety__limit={"U1": 3, "U2": np.float32(0.5)},
    )
    assert (run.state["psi"][0], run.state["X"][0], run.targets["x"][0], run.targets["y"][-1]) == (0.25, 1, 3, 1.5)


@pytest.mark.parametrize("wrong", [{"control": "continous"}, {"loop": "node"}, {"every": 0}, {"every": -10}])
def test_an_option_of_the_call_that_is_no_choice_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"[;?] (choose|give)"):
        simulate("trailer_coast", **wrong)


# energy


def test_energy_and_heading_are_exact_to_rounding() -> None:
    run = simulate("trailer_pursuit", every=1, plant__initial__psi=0.3)
    assert np.ptp(run.energy) > 1.0
    assert_allclose(run.energy - run.energy[0], run.work, rtol=0, atol=1e-12)
    assert run.energy_error == np.max(np.abs(run.energy - run.energy[0] - run.work)) < 1e-12
    drift = run.state["psi"] - 0.075 / 0.4 * (run.state["theta2"] - run.state["theta1"])
    assert_allclose(drift, 0.3, rtol=0, atol=1e-11)  # wheel angles of hundreds of rad, 125 664 roundings


def test_energy_changes_by_friction_and_a_poor_integrator_alone() -> None:
    run = simulate("trailer_coast", every=1, plant__parameters__c_w=0.01)
    assert run.energy[-1] < 0.5 * run.energy[0]
    assert run.energy_error < 1e-12
    poor, good = (simulate("trailer_coast", plant__step=0.02, plant__integrator=rule) for rule in ("euler", "rk4"))
    assert poor.energy_error > 1e-4  # J; the right answer has none
    assert good.energy_error < 1e-8
    run = simulate("trailer_coast", every=1)
    assert_allclose(run.energy, 1.13301813299, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(run.work, 0.0)


# faults


INTO_THE_ROBOT: dict[str, Any] = {
    "target__x": "2 - 0.5*t",
    "target__y": 0.0,
    "controller__settings__rho0": 0.06,
    "run__duration": 10.0,
}


def test_time_that_passes_changes_no_bit_of_a_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["run.duration=0.5", "controller.gains.integral=0.5", "plant.safety.command_timeout=0.02"]
    closed_loop = resolve(read_launch("trailer_pursuit", words))
    expected = modes.simulate_nodes(closed_loop, 10)
    clock = itertools.count(0, 30_000_000)  # at each look later than the command timeout
    for name in ("monotonic_ns", "perf_counter_ns", "time_ns"):
        monkeypatch.setattr(time, name, lambda: next(clock))
    slow = modes.simulate_nodes(closed_loop, 10)
    assert next(clock) > 0
    for name, torque in expected.input.items():
        np.testing.assert_array_equal(slow.input[name], torque, name)


@pytest.mark.parametrize("loop", ["fused", "nodes"])
def test_a_law_that_fails_stops_the_robot_with_its_brake(loop: Any) -> None:
    run = simulate("trailer_pursuit", every=1, loop=loop, **INTO_THE_ROBOT)
    assert run.fault is not None
    assert (run.fault["name"], run.fault["node"]) == ("law", "controller")
    assert "guard radius" in run.fault["text"]
    assert run.fault["t"] == 2.14
    assert run.t[-1] == 7.14
    braking = np.flatnonzero(run.t >= 2.14)[:-1]
    left = (run.state["V"] - 0.2 * run.state["Omega"]) / 0.075
    np.testing.assert_allclose(run.input["U1"][braking], -0.05 * left[braking], atol=1e-15)
    assert run.energy[-1] < 1e-3 * run.energy[braking[0]]
    distance = 2 - 0.5 * run.t - run.state["X"]
    assert distance[braking[0]] < 0.05 < distance[braking[0] - 10]


def test_a_law_that_fails_is_an_error_of_the_continuous_mode() -> None:
    with pytest.raises(SimulationError, match=r"at t = 2\.1\d* s the target is inside the guard radius"):
        simulate("trailer_pursuit", control="continuous", **INTO_THE_ROBOT)


@pytest.mark.parametrize("loop", ["fused", "nodes"])
def test_a_motion_that_escapes_is_a_fault(loop: Any) -> None:
    run = simulate("trailer_open_loop", loop=loop, controller__settings__U1=1e200)
    assert run.fault is not None
    assert run.fault["name"] == "diverged"
    assert run.t[-1] == run.fault["t"] < 1.0
    assert run.final()["energy"] in (None, "inf")


# imperfections


IMPERFECT: dict[str, dict[str, Any]] = {
    "noise": {"plant__sensor__noise": {"X": 0.002, "Y": 0.002, "psi": 0.002, "V": 0.005}},
    "drop": {"plant__sensor__drop": 0.2},
}


@pytest.mark.parametrize("effect", IMPERFECT)
def test_chance_derives_from_the_seed(effect: str) -> None:
    one, again, other = (
        simulate("trailer_pursuit", every=1, run__seed=seed, **PURSUIT, **IMPERFECT[effect]) for seed in (1, 1, 2)
    )
    assert_same_bits(one, again)
    assert not np.array_equal(one.input["U1"], other.input["U1"])


@pytest.mark.parametrize(
    "effect",
    [
        {"plant__actuator__rate_limit": 0.01},
        {"plant__actuator__lag": 0.05},
        {"plant__actuator__delay": 0.02},
        {"plant__actuator__quantum": 0.005},
        {"plant__actuator__dead_zone": 0.005},
        {"plant__sensor__bias": {"psi": 0.01}},
        {"plant__sensor__quantum": {"psi": 0.001}},
        {"plant__sensor__delay": 0.02},
        *IMPERFECT.values(),
    ],
    ids=lambda effect: next(iter(effect)),
)
def test_an_imperfection_changes_the_run_and_keeps_the_energy_balance(effect: dict[str, Any]) -> None:
    perfect, imperfect = (simulate("trailer_pursuit", every=1, **PURSUIT, **more) for more in ({}, effect))
    assert not imperfect.faults
    assert not np.array_equal(imperfect.state["X"], perfect.state["X"])
    assert imperfect.energy_error < 1e-12


def test_a_biased_heading_sensor_turns_the_robot_by_the_bias() -> None:
    options: dict[str, Any] = {"target__x": 5.0, "target__y": 0.0, "run__duration": 15.0}
    run = simulate("trailer_pursuit", plant__sensor__bias={"psi": 0.02}, **options)
    assert run.state["psi"][-1] == pytest.approx(-0.02, abs=1e-6)  # settled: exp(-2 * 15)
    assert run.residual["heading"][-1] == pytest.approx(0.0, abs=1e-6)


def test_lost_states_leave_the_last_command_in_place() -> None:
    run = simulate("trailer_open_loop", every=10, controller__settings={"U1": "t", "U2": 0}, plant__sensor__drop=0.3)
    held = np.diff(run.input["U1"]) == 0
    assert np.mean(held) == pytest.approx(0.3, abs=0.06)  # 1000 instants: four standard deviations
    fresh = np.flatnonzero(~held) + 1
    assert_allclose(run.input["U1"][fresh], run.t[fresh], rtol=1e-15)


def test_a_lagging_drive_answers_with_its_time_constant() -> None:
    run = simulate("trailer_open_loop", every=1, controller__settings={"U1": 0.02, "U2": 0}, plant__actuator__lag=0.05)
    assert_allclose(run.input["U1"], 0.02 * -np.expm1(-run.t / 0.05), rtol=1e-9)


def test_a_late_sensor_shows_the_state_of_its_delay_ago() -> None:
    run = simulate("trailer_rates", every=1, run__duration=3.0, plant__sensor__delay=0.05, controller__settings__v=0.4)
    measured = run.residual["speed"][50:] + 0.4
    assert_allclose(measured[::10], run.state["V"][:-50:10], rtol=0, atol=1e-15)
