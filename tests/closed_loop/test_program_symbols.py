"""What a program may state beside residuals: damping, limits, setpoints, states, requirements; and machines' faults."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.bus import Command, MemoryBus, Switchboard
from servonode.closed_loop.launch_file import LaunchError
from servonode.kernels.library import library_text
from servonode.nodes.lockstep import come_to_rest, prepare
from servonode.nodes.node import Outbox
from servonode.nodes.plant_node import PlantNode
from servonode.record.run import Run
from servonode.simulation import loop_source
from servonode.simulation.event_integration import SimulationError
from servonode.simulation.simulate import simulate_nodes
from tests.helpers.machines import assert_same_bits

PUCK = '''"""A puck on ice with a weight that swings under it; two forces, or three, push it."""

from typing import Literal

from servonode.mechanics import Model, condition, coordinate, input_, parameter


def model(forces: Literal["two", "three"] = "two", fragile: bool = False) -> Model:
    x, y = coordinate("x", "place", "m"), coordinate("y", "place", "m")
    a, b = coordinate("a", "swing along x", "m"), coordinate("b", "swing along y", "m")
    m = parameter("m", "mass of the puck", "kg", default=2.0, above=0)
    w = parameter("w", "swinging mass", "kg", default=0.5, above=0)
    k = parameter("k", "stiffness", "N/m", default=8.0, above=0)
    c_b = parameter("c_b", "brake", "N s/m", default=3.0, above=0)
    F_x, F_y = input_("F_x", "force along x", "N"), input_("F_y", "force along y", "N")
    F_d = input_("F_d", "force along the diagonal", "N")
    inputs = {F_x: x.rate, F_y: y.rate}
    if forces == "three":
        inputs[F_d] = x.rate + y.rate
    swing = (x.rate + a.rate) ** 2 + (y.rate + b.rate) ** 2
    return Model(
        name="puck",
        description="puck with a weight",
        coordinates=(x, y, a, b),
        parameters=(m, w, k, c_b),
        kinetic=(m * (x.rate**2 + y.rate**2) + w * swing) / 2,
        potential=k * (a**2 + b**2) / 2,
        inputs=inputs,
        faults=(condition(x < 1.0, "over the edge (x >= 1 m)"),),
        safe={F_x: -c_b * x.rate, F_y: -c_b * y.rate} if not fragile else {},
    )
'''

SHUTTLE = '''"""Three carts on three rails, each pushed by its own force."""

from sympy import Matrix
from servonode.mechanics import Model, coordinate, input_


def model() -> Model:
    q = [coordinate(f"q{i}", "place", "m") for i in range(3)]
    F = [input_(f"F{i}", "force", "N") for i in range(3)]
    rates = Matrix([each.rate for each in q])
    M = Matrix([[3, 1, 0], [1, 2, 1], [0, 1, 4]])
    return Model(
        name="shuttle",
        description="three carts",
        coordinates=tuple(q),
        kinetic=(rates.T * M * rates)[0] / 2,
        inputs={F[0]: q[0].rate, F[1]: q[1].rate + q[0].rate / 2, F[2]: q[2].rate},
    )
'''
HEADER = """from sympy import Max, Min, cos, sin, sqrt
from servonode.controllers import Program, late, limit, residual, setpoint, signal, state
from servonode.mechanics import condition, parameter


def program(machine):
"""
Write = Callable[..., dict[str, Any]]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A launch with a program of this body, for a machine of this text."""
    monkeypatch.chdir(tmp_path)

    def write(body: str, machine: str = PUCK, duration: float = 2.0, **plant: Any) -> dict[str, Any]:
        (tmp_path / "machine.py").write_text(machine)
        (tmp_path / "goal.py").write_text(HEADER + "\n".join(f"    {line}" for line in body.splitlines()) + "\n")
        return {
            "run": {"duration": duration, "mode": "lockstep"},
            "plant": {"machine": "./machine.py:model", "step": 0.001, **plant},
            "controller": {"program": "./goal.py:program", "period": 0.01},
        }

    return write


def continuous(launch: dict[str, Any], **more: Any) -> Run:
    return servonode.simulate(launch, control="continuous", **more)


SPEEDS = """x, y = machine["x"], machine["y"]
rows = residual("x", x.rate - 0.3, "speed", "m/s", rate=2.0), residual("y", y.rate, "speed", "m/s", rate=2.0{more})
return Program("goal", "speeds", rows{given})
"""


def test_damping_is_taken_off_the_wanted_derivative(write: Write) -> None:
    launch = write(SPEEDS.format(more=', damping=0.7*machine["b"]', given=""), initial={"b": 0.05, "y_dot": 0.2})
    loop = servonode.load(launch)
    state = {"b": 0.05, "y_dot": 0.2, "x_dot": 0.1}
    rates = loop.derivatives(0.0, state, loop.law(0.0, state))
    assert rates["y_dot"] == pytest.approx(-2.0 * 0.2 - 0.7 * 0.05, abs=1e-13)
    assert rates["x_dot"] == pytest.approx(-2.0 * (0.1 - 0.3), abs=1e-13)


def test_a_limit_of_residuals_scales_their_accelerations_and_keeps_the_direction(write: Write) -> None:
    given = ', limits=(limit("a_lim", rows, 0.1, "acceleration"),)'
    launch = write(SPEEDS.format(more="", given=given))
    loop = servonode.load(launch)
    state = {"y_dot": 0.4, "a": 0.02, "b": -0.03, "a_dot": 0.1}
    rates = loop.derivatives(0.0, state, loop.law(0.0, state))
    wanted = np.array([2.0 * 0.3, -2.0 * 0.4])
    assert_allclose([rates["x_dot"], rates["y_dot"]], 0.1 * wanted / np.linalg.norm(wanted), atol=1e-13)
    launch["run"]["duration"], launch["plant"]["safety"] = 6.0, {"faults": False}
    run = servonode.simulate(launch)
    assert run.limits["a_lim"]["first"] == 0.0
    assert run.scale["a_lim"][0] == pytest.approx(0.1 / 0.6)
    assert run.scale["a_lim"][-1] == 1.0
    assert run.fault is None


def test_a_limit_of_inputs_comes_last(write: Write) -> None:
    given = """, limits=(
        limit("F_max", machine.inputs, 0.15, "force"), limit("a_lim", rows, 0.1, "acceleration"))"""
    loop = servonode.load(write(SPEEDS.format(more="", given=given)))
    state = {"y_dot": 0.4}
    inputs = loop.law(0.0, state)
    free = servonode.load(write(SPEEDS.format(more="", given="")))
    asked = np.array(list(free.law(0.0, state).values()))
    assert np.hypot(*inputs.values()) == pytest.approx(0.15)
    assert_allclose(list(inputs.values()), 0.15 * asked / np.linalg.norm(asked), atol=1e-13)


def test_a_limit_that_is_not_reached_changes_no_bit(write: Write) -> None:
    plain = servonode.simulate(write(SPEEDS.format(more="", given="")))
    given = ', limits=(limit("F_max", machine.inputs, 50, "force"),)'
    limited = servonode.simulate(write(SPEEDS.format(more="", given=given)))
    assert (plain.state["y"] == limited.state["y"]).all()
    assert limited.limits == {"F_max": {"instants": 0, "first": None}}


def test_setpoints_count_as_constant_and_expressions_are_limited_by_their_scale(write: Write) -> None:
    body = """x, y, v = machine["x"], machine["y"], machine["x"].rate
cap = limit("cap", (0.4 - v,), 0.05, "wanted acceleration")
inner = setpoint("inner", cap.scale * (0.4 - v))
rows = residual("a", machine["a"] + inner, "swing", "m", rate=6.0), residual("y", y.rate, "speed", "m/s", rate=2.0)
return Program("goal", "cascade", rows, setpoints=(inner,), limits=(cap,))
"""
    launch = write(body, initial={"x_dot": 0.1})
    loop = servonode.load(launch)
    state = {"x_dot": 0.1, "a": 0.01, "a_dot": 0.02}
    rates = loop.derivatives(0.0, state, loop.law(0.0, state))
    assert loop.residuals(0.0, state)["a"] == pytest.approx(0.01 + 0.05)
    assert rates["a_dot"] == pytest.approx(-12 * 0.02 - 36 * 0.06, abs=1e-12)  # a'' = -2 lambda a' - lambda^2 f
    near = {"x_dot": 0.38}
    assert loop.residuals(0.0, near)["a"] == pytest.approx(0.02)
    assert servonode.simulate(launch).limits["cap"]["first"] == 0.0


STATES = """x, y = machine["x"], machine["y"]
s = state("s", "way", "m", start=0.25 + y)
rows = residual("x", x - sin(s), "place", "m", rate=2.0), residual("y", y.rate - 0.5, "speed", "m/s", rate=2.0)
return Program("goal", "way", rows, states={s: y.rate * cos(s)})
"""


def test_a_state_of_the_program_is_part_of_the_continuous_motion(write: Write) -> None:
    launch = write(STATES, initial={"y": 0.1, "y_dot": 0.5, "on_program": True})
    run = continuous(launch, rtol=1e-12, atol=1e-12)
    # s' = 0.5 cos s is solved by the Gudermannian function
    start = np.arctanh(np.sin(0.35))
    assert_allclose(np.sin(run.program_state["s"]), np.tanh(start + 0.5 * run.t), atol=1e-10)
    assert_allclose(run.state["x"], np.sin(run.program_state["s"]), atol=1e-9)


def test_sampled_a_state_follows_by_a_rule_of_second_order(write: Write) -> None:
    launch = write(STATES, initial={"y": 0.1, "y_dot": 0.5, "on_program": True}, integrator="rk4")
    errors = []
    for period in (0.04, 0.02, 0.01):
        launch["controller"]["period"] = period
        run = servonode.simulate(launch)
        s = run.program_state["s"][-1]
        way = run.state["y"][-1] - run.state["y"][0]  # s' = y' cos s, whatever the inputs did to y
        errors.append(abs(np.sin(s) - np.tanh(np.arctanh(np.sin(0.35)) + way)))
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.15)


@pytest.mark.parametrize("body", [STATES, SPEEDS.format(more="", given=', limits=(limit("a", rows, 0.2, "a"),)')])
def test_the_nodes_give_the_same_bits_as_the_fused_loop(write: Write, body: str) -> None:
    launch = write(body, initial={"y": 0.1})
    assert_same_bits(servonode.simulate(launch), simulate_nodes(servonode.load(launch).closed_loop, 10))


def test_states_and_the_predictor_exclude_each_other(write: Write) -> None:
    launch = write(STATES)
    launch["controller"] |= {"delay": 1, "predictor": True}
    with pytest.raises(LaunchError, match=r"\[controller\] predictor: program goal has states of its own"):
        servonode.simulate(launch)


def test_relations_may_move_with_state_and_time(write: Write) -> None:
    body = """x, y = machine["x"], machine["y"]
g = signal("g", "slope", default="0.3 + 0.1*t")
rows = residual("x", x.rate - 0.3, "speed", "m/s", rate=2.0),
relation = machine["F_y"] + g * machine["F_x"] - y
return Program("goal", "along a line of force", rows, signals=(g,), relations=(relation,))
"""
    loop = servonode.load(write(body))
    for t, state in ((0.0, {"y": 0.4}), (2.0, {"x_dot": 1.0, "y": -0.2, "a": 0.1})):
        u = loop.law(t, state)
        assert u["F_y"] == pytest.approx(-(0.3 + 0.1 * t) * u["F_x"] + state["y"], abs=1e-13)
        rates = loop.derivatives(t, state, u)
        assert rates["x_dot"] == pytest.approx(-2 * (state.get("x_dot", 0.0) - 0.3), abs=1e-12)


def test_ideal_forces_lie_along_the_gradients(write: Write) -> None:
    body = """q = [machine[f"q{i}"] for i in range(3)]
product = residual("f", q[0] * q[1] - 0.2, "product", "m^2", rate=2.0)
rows = product, residual("g", q[2].rate - q[0].rate, "speeds", "m/s", rate=2.0)
return Program("goal", "ideal", rows, ideal=True)
"""
    loop = servonode.load(write(body, machine=SHUTTLE, initial={"q0": 0.5, "q1": 0.4}))
    state = {"q0": 0.5, "q1": 0.6, "q2": 0.1, "q0_dot": 0.2, "q1_dot": -0.3, "q2_dot": 0.1}
    u = np.array(list(loop.law(0.0, state).values()))
    forces = np.array([[1, 0.5, 0], [0, 1, 0], [0, 0, 1.0]]) @ u  # on the rates of the coordinates
    J = loop.terms(0.0, state)["J"]
    assert_allclose(J, [[0.6, 0.5, 0.0], [-1.0, 0.0, 1.0]], atol=1e-15)
    multipliers = np.linalg.lstsq(J.T, forces, rcond=None)[0]
    assert_allclose(J.T @ multipliers, forces, atol=1e-12)
    rates = loop.derivatives(0.0, state, loop.law(0.0, state))
    f, f_dot = 0.3 - 0.2, 0.2 * 0.6 - 0.3 * 0.5
    top = J[0] @ [rates[f"q{i}_dot"] for i in range(3)] + 2 * 0.2 * -0.3
    assert top == pytest.approx(-4 * f_dot - 4 * f, abs=1e-12)


# behind a residual, as an argument of Program, or a text of the machine that becomes another: why it is refused
IMPOSSIBLE = [
    ("", ", least_norm=True, ideal=True", "", "least_norm and ideal are given; complete it in one way"),
    ("", ", ideal=True", "", "ideal=True needs as many inputs as velocities, puck has 2 and 4"),
    ("", ', limits=(limit("a", (rows[0], machine["F_x"]), 1, "a"),)', "", "one kind of them"),
    ("", ', limits=(limit("a", (), 1, "a"),)', "", "one kind of them"),
    ("", ', limits=(limit("a", (residual("z", x, "z"),), 1, "a"),)', "", "has a residual that residuals= lacks"),
    ("", ', limits=(limit("a", rows, 1, "a"), limit("a", rows, 1, "a"))', "", "two limits are called 'a'"),
    ("", ', inputs={u: 0 for u in machine.inputs}, limits=(limit("a", rows, 1, "a"),)', "", "limit the inputs"),
    ("", ', states={state("x", "way"): 1}', "", "'x' is used twice"),
    ("", ", states={x: 1}", "", "was not made by state"),
    ("", ', states={state("energy", "e"): 1}', "", "'energy' is servonode's own"),
    ("", ', states={(s := state("s", "way")): 1, state("r", "way", start=s): 1}', "", "it contains another state"),
    ("", ", setpoints=(x,)", "", "was not made by setpoint"),
    (', damping="b"', "", "", "'b' is not an expression"),
    (', damping=parameter("q", "q", default=1)', "", "", "'q' is neither a state or parameter"),
    ("", ', requirements=(condition(late < parameter("q", "q", default=1), "no"),)', "", "'q' is neither a state"),
    ("", ', parameters=(parameter("lambda_x", "l", default=1),)', "", "'lambda_x' is servonode's own"),
    ("", ', parameters=(parameter("late", "l", default=1),)', "", "'late' is servonode's own"),
    ("", "", "condition(x < 1.0, -> condition(x < F_x,", "contains an input"),
    ("", "", "condition(x < 1.0, -> condition(x.acceleration < 1.0,", "contains 'x_ddot'"),
    ("", "", "F_y: -c_b * y.rate} -> F_y: -c_b * F_x}", "contains an input"),
    ("", "", "F_y: -c_b * y.rate} -> F_d: -c_b * y.rate}", "F_d, which is not an input of inputs="),
]


@pytest.mark.parametrize(("more", "given", "change", "text"), IMPOSSIBLE)
def test_what_cannot_be_is_one_line(write: Write, more: str, given: str, change: str, text: str) -> None:
    old, _, new = change.partition(" -> ")
    assert old in PUCK
    with pytest.raises(LaunchError) as caught:
        servonode.simulate(write(SPEEDS.format(more=more, given=given), machine=PUCK.replace(old, new)))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_requirements_see_gains_lateness_parameters_and_the_start(write: Write) -> None:
    given = """, parameters=(p := parameter("p", "p", default=None),), start={p: 2 * machine["m"] + y},
        requirements=(condition(rows[0].gain * late < p / 10, "lambda_x is too high for p"),),
        warnings=(condition(rows[1].gain < 2.5, "lambda_y is high"),)"""
    launch = write(SPEEDS.format(more="", given=given))
    assert servonode.simulate(launch).fault is None
    launch["controller"]["gains"] = {"lambda_x": 81.0, "lambda_y": 2.6}  # 0.005 s of lateness: 0.405 > 0.4
    with pytest.raises(LaunchError) as caught:
        servonode.simulate(launch)
    refusal = "program: lambda_x*late = 0.405, must be less than p/10 = 0.4: lambda_x is too high for p"
    assert refusal in str(caught.value)
    launch["plant"]["initial"] = {"y": 0.1}  # p = 4.1
    found = [(each.level, each.text) for each in servonode.check(launch).findings]
    assert ("warn", "lambda_y is high") in found
    launch["controller"]["settings"] = {"p": 3.9}
    with pytest.raises(LaunchError, match="too high"):
        servonode.simulate(launch)


def test_each_parameter_that_is_computed_at_the_start_gets_its_own_value(write: Write) -> None:
    given = """, parameters=(p := parameter("p", "p"), r := parameter("r", "r")),
        start={r: 2 + y, p: 5 * machine["m"]}"""
    loop = servonode.load(write(SPEEDS.format(more="", given=given), initial={"y": 0.25}))
    assert loop.closed_loop.control is not None
    assert loop.closed_loop.control.law.parameters == {"p": 10.0, "r": 2.25}


def test_derivatives_of_signals_may_stand_anywhere(write: Write) -> None:
    body = """x, y = machine["x"], machine["y"]
v, e, z = (signal(name, "function", default="0.1*t") for name in "vez")
s = state("s", "way", "m", start=z.rate)
rows = residual("x", x.rate - v, "speed", "m/s", rate=2.0), residual("y", y.rate, "speed", "m/s", rate=2.0)
cap = limit("cap", (e.derivative(3),), 1, "jerk")
return Program("goal", "any", rows, signals=(v, e, z), guards=(condition(5 > v.derivative(2), "jerk"),),
    requirements=(condition(e.derivative(4) < 1, "more"),), states={s: 1}, limits=(cap,))
"""
    run = servonode.simulate(write(body))
    assert run.program_state["s"][0] == pytest.approx(0.1)
    assert run.fault is None


# faults of the machine, and its safe action

RUNS_OFF = SPEEDS.format(more="", given="")


def test_a_fault_of_the_machine_ends_the_program_and_the_safe_action_takes_energy_out(write: Write) -> None:
    launch = write(RUNS_OFF, duration=12.0, initial={"x": 0.5, "x_dot": 0.3, "a": 0.05})
    run = servonode.simulate(launch, every=1)
    assert run.fault is not None
    assert (run.fault["name"], run.fault["text"], run.fault["node"]) == ("machine", "over the edge (x >= 1 m)", "plant")
    t = run.fault["t"]
    assert run.state["x"][run.t == t][0] >= 1.0
    assert run.t[-1] == pytest.approx(t + 5.0)
    after = run.t >= t
    assert_allclose(run.input["F_x"][after][:-1], -3.0 * run.state["x_dot"][after][:-1], atol=1e-15)
    assert np.max(np.diff(run.energy[after])) < 1e-9
    assert run.energy[-1] < 0.02 * run.energy[after][0]
    assert run.energy_error < 1e-6


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_the_time_of_the_safe_action_is_a_key(write: Write, seconds: float) -> None:
    run = servonode.simulate(write(RUNS_OFF, duration=12.0, initial={"x": 0.9}, safety={"safe_time": seconds}))
    assert run.fault is not None
    assert run.t[-1] - run.fault["t"] == pytest.approx(seconds)


def test_a_machine_without_a_brake_ends_at_the_fault(write: Write) -> None:
    run = servonode.simulate(write(RUNS_OFF, duration=12.0, initial={"x": 0.9}, settings={"fragile": True}))
    assert run.fault is not None
    assert run.t[-1] == run.fault["t"]
    assert run.input["F_x"][-1] == 0.0


def test_the_brake_stays_within_the_limits(write: Write) -> None:
    safety = {"limit": 0.4}
    run = servonode.simulate(write(RUNS_OFF, duration=12.0, initial={"x": 0.9, "x_dot": 0.4}, safety=safety), every=1)
    assert run.fault is not None
    braking = run.t >= run.fault["t"]
    assert np.max(np.abs(run.input["F_x"][braking])) == 0.4


def test_faults_can_be_switched_off(write: Write) -> None:
    run = servonode.simulate(write(RUNS_OFF, initial={"x": 0.9}, safety={"faults": False}))
    assert run.fault is None
    assert run.state["x"][-1] > 1.0


def test_a_start_beyond_a_fault_is_refused(write: Write) -> None:
    text = (
        r"\[plant.initial\]: the initial state violates a fault condition: over the edge .* another one, "
        r"or set plant.safety.faults"
    )
    with pytest.raises(LaunchError, match=text):
        servonode.simulate(write(RUNS_OFF, initial={"x": 1.1}))


def test_continuous_motion_ends_at_a_fault(write: Write) -> None:
    with pytest.raises(SimulationError, match="over the edge"):
        continuous(write(RUNS_OFF, initial={"x": 0.9}))


def test_a_law_that_stops_leads_to_the_safe_action_too(write: Write) -> None:
    given = ', guards=(condition(x < 0.8, "too far for the law"),)'
    run = servonode.simulate(write(SPEEDS.format(more="", given=given), duration=9.0, initial={"x": 0.6}), every=1)
    assert run.fault is not None
    assert (run.fault["name"], run.fault["text"]) == ("law", "too far for the law")
    assert run.energy[-1] < 0.02 * run.energy[run.t == run.fault["t"]][0]


def test_a_brake_too_strong_for_the_step_is_refused(write: Write) -> None:
    text = r"\[plant\] step: the safe action of puck, held over 0.001 s, adds energy .* reduce the brake"
    with pytest.raises(LaunchError, match=text):
        servonode.simulate(write(RUNS_OFF, parameters={"c_b": 2e4}))


def test_nothing_that_waits_behind_a_fault_acts(write: Write) -> None:
    closed_loop = servonode.load(write(RUNS_OFF, initial={"x_dot": 0.3})).closed_loop
    switchboard = Switchboard()
    bus, other = MemoryBus(switchboard, "plant"), MemoryBus(switchboard, "controller")
    plant = PlantNode(closed_loop, bus, [{"plant": ["state"]}], 1)
    assert prepare(plant, arm=True, timeout_s=0.0)
    states = other.subscriber({"plant": ["state"]})
    sent = Outbox("controller", other.publisher([{"controller": ["command"]}]))
    for k, fault in ((0, "guard"), (10, "")):
        plant.advance_to(k)
        plant.publish_state()
        (_, state), *_ = states.receive()
        sent.run = state.run
        sent.send(Command, k, k / 1e3, re=state.seq, target_seq=-1, input={"F_x": 50.0, "F_y": 0.0}, fault=fault)
    plant.take_commands()
    come_to_rest(plant)
    assert [each.text for each in plant.faults] == ["guard"]
    assert plant.guard.output.applied[0] == pytest.approx(-3.0 * plant.plant.x[4], rel=1e-2)
    assert plant.energy.present() < 0.01


def test_a_limit_that_vanishes_or_turns_negative_takes_all_and_reverses_nothing(write: Write) -> None:
    given = ', limits=(limit("F_max", machine.inputs, x, "force"),)'
    loop = servonode.load(write(SPEEDS.format(more="", given=given), initial={"x": 0.5}))
    assert loop.law(0.0, {"x": -0.5}) == {"F_x": 0.0, "F_y": 0.0}
    at_rest = {"x": 0.0, "x_dot": 0.3}
    assert loop.law(0.0, at_rest) == {"F_x": 0.0, "F_y": 0.0}


def test_settings_given_as_lists_reach_parameters_that_must_be_given(write: Write) -> None:
    body = """x, y = machine["x"], machine["y"]
p = [parameter(f"p_{i}", "speed", "m/s") for i in range(2)]
rows = residual("x", x.rate - p[0], "speed", "m/s", rate=2.0), residual("y", y.rate - p[1], "speed", "m/s", rate=2.0)
return Program("goal", "speeds", rows, parameters=p)
"""
    launch = write(body)
    launch["controller"]["settings"] = {"p": [0.2, -0.1]}
    assert servonode.load(launch).residuals(0.0) == {"x": -0.2, "y": 0.1}


def test_a_state_of_the_program_is_looked_at_by_name_and_starts_on_the_program(write: Write) -> None:
    loop = servonode.load(write(STATES, initial={"y": 0.1, "y_dot": 0.5, "on_program": True}))
    assert loop.start["x"] == pytest.approx(np.sin(0.35))
    assert loop.residuals(0.0, {"s": 0.0})["x"] == pytest.approx(np.sin(0.35))


def test_states_are_followed_over_the_fused_loop_s_pauses(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = write(STATES, initial={"y": 0.1}, duration=0.5)
    whole = servonode.simulate(launch)
    monkeypatch.setattr(loop_source, "_loops", {})
    monkeypatch.setattr(
        loop_source, "library_text", lambda *given: library_text(*given).replace("PAUSE = 2000000", "PAUSE = 70")
    )
    paused = servonode.simulate(launch)
    assert (paused.program_state["s"] == whole.program_state["s"]).all()


def test_the_rate_at_the_start_counts_where_the_first_states_are_lost(write: Write) -> None:
    launch = write(STATES, initial={"y": 0.1, "y_dot": 0.5, "on_program": True})
    launch["plant"]["sensor"] = {"drop": 0.5}
    for seed in range(1, 6):
        launch["run"]["seed"] = seed
        run = servonode.simulate(launch)
        last = np.flatnonzero(np.isfinite(run.program_state["s"]))[-1]
        way = np.tanh(np.arctanh(np.sin(0.35)) + run.state["y"][last] - 0.1)
        assert np.sin(run.program_state["s"][last]) == pytest.approx(way, abs=0.01)
