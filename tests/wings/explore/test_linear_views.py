"""Linear views: the plant, the closed loops, frequency response and margins against closed forms and python-control."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm
from scipy.optimize import minimize_scalar
from sympy import cos

import servonode
from servonode.analysis.linear_system import LinearSystem, checked_slope
from servonode.errors import StatementError
from servonode.mechanics import Model, coordinate, discrete, input_, parameter
from servonode.wings.explore.linear.frequency_response import Cut, CutLoop, cut_loop
from servonode.wings.explore.linear.margins import largest_mu
from tests.helpers import verdict_machines

PERIOD, RATE, MASS = 0.02, 6.0, 2.0


def cut_at(loop: servonode.Loop, cut: Cut) -> CutLoop:
    """The sampled loop at its start, cut."""
    x, own = loop._with_own({})
    return cut_loop(loop.closed_loop, 0.0, x, own, cut)


def cart() -> Model:
    x, m, F = (
        coordinate("x", "place", "m"),
        parameter("m", "mass", "kg", default=MASS, above=0),
        input_("F", "force", "N"),
    )
    return Model("cart", "cart", m * x.rate**2 / 2, coordinates=(x,), parameters=(m,), inputs={F: x.rate})


def two_carts() -> Model:
    """Two masses with a spring between, a force on each."""
    x, y = coordinate("x", "place", "m"), coordinate("y", "place", "m")
    m, c = parameter("m", "mass", "kg", default=1.5, above=0), parameter("c", "stiffness", "N/m", default=30.0)
    F, G = input_("F", "force", "N"), input_("G", "force", "N")
    kinetic, spring = m * (x.rate**2 + 2 * y.rate**2) / 2, c * (x - y) ** 2 / 2
    return Model("two", "two carts", kinetic, coordinates=(x, y), parameters=(m, c), potential=spring,
                 inputs={F: x.rate, G: y.rate})  # fmt: skip


def held(machine: Any = cart, residuals: Any = None, plant: Any = None, **controller: Any) -> servonode.Loop:
    residuals = residuals or {"place": "x"}
    controller = {"residuals": residuals, "period": PERIOD, "gains": {"lambda": RATE}, **controller}
    plant = {"machine": machine, **(plant or {})}
    launch = {"run": {"duration": 3.0}, "plant": plant, "controller": controller}
    return servonode.load(launch, strict=False)  # some of them are beyond the limits


def both_held(**controller: Any) -> servonode.Loop:
    return held(two_carts, {"a": "x", "b": "y - x"}, gains={"lambda_a": 4.0, "lambda_b": 9.0}, **controller)


def by_hand(late: float = 0.0) -> tuple[Any, Any, Any]:
    """A, B, K of a cart with a force that is late by less than a period, the force of the sample before as a state."""
    T, a = PERIOD, late
    whole, rest = np.array([[T**2 / 2], [T]]) / MASS, np.array([[(T - a) ** 2 / 2], [T - a]]) / MASS
    K = MASS * np.array([[RATE**2, 2 * RATE]])
    if not late:
        return np.array([[1, T], [0, 1.0]]), whole, K
    A = np.block([[np.array([[1, T], [0, 1.0]]), whole - rest], [np.zeros((1, 3))]])
    return A, np.vstack([rest, [[1.0]]]), np.append(K, [[0.0]], axis=1)


def test_a_cart_has_the_matrices_of_its_closed_form() -> None:
    found = held().linearize()
    assert found.about == "equilibrium"
    assert found.stable
    assert_allclose(found.plant.A, np.array([[0, 1], [0, 0]]), atol=1e-10)
    assert_allclose(found.plant.B, np.array([[0], [1 / MASS]]), atol=1e-10)
    assert found.plant.outputs == ("x", "x_dot", "residual_place")
    assert_allclose(found.plant.C, np.array([[1, 0], [0, 1], [1, 0]]), atol=1e-10)
    assert_allclose(found.closed.poles, np.full(2, -RATE), atol=1e-4)  # a double one, of which an error has the root
    A, B, K = by_hand()
    assert found.sampled is not None
    assert_allclose(found.sampled.A, A - B @ K, atol=1e-10)
    assert_allclose(found.sampled.B, B, atol=1e-10)
    assert found.plant.units["F"] == "N"


def test_a_drive_that_is_late_by_a_part_of_a_period_is_in_the_sampled_loop_exactly() -> None:
    found = held(plant={"actuator": {"delay": 0.007}}).linearize().sampled
    A, B, K = by_hand(0.007)
    assert found is not None
    assert found.states == ("x", "x_dot", "F_1_ago")
    assert_allclose(found.A, A - B @ K, atol=1e-9)


EFFECTS: dict[str, Any] = {
    "delay": {"delay": 2},
    "predictor": {"delay": 2, "predictor": True},
    "integral": {"gains": {"lambda": RATE, "integral": 0.7}},
    "drives": {"plant": {"actuator": {"lag": 0.015, "delay": 0.013}}},
    "late sensors": {"plant": {"sensor": {"delay": 0.027}}},
}


@pytest.mark.parametrize("effects", EFFECTS)
def test_a_small_run_is_that_of_the_linear_sampled_loop(effects: str) -> None:
    given = {**EFFECTS[effects]}
    plant = {"initial": {"theta": 1e-4}, **given.pop("plant", {})}
    loop = held(verdict_machines.pendulum, {"angle": "theta"}, plant, **given)
    system = loop.linearize(state={"theta": 0.0}).sampled
    assert system is not None
    run = loop.simulate(every=round(PERIOD / 0.001))
    z = np.zeros(len(system.states))
    for name in system.states:
        if name.partition("_seen_in_")[0] == "theta":
            z[system.states.index(name)] = 1e-4
    found = []
    for _ in run.t:
        found.append(z[0])
        z = system.A @ z
    assert_allclose(run.state["theta"], found, atol=2e-9)


def test_a_crane_has_the_poles_of_its_zero_dynamics() -> None:
    loop = held(verdict_machines.crane, {"place": "x"}, gains={"lambda": 4.0})
    found = loop.linearize()
    assert "x" not in found.passive
    modes = found.closed.poles
    p = loop.machine.parameters
    half = p["c"] / (2 * p["m"] * p["L"] ** 2)
    swing = np.sqrt(p["g"] / p["L"] - half**2)  # of the load under a trolley that is held
    assert_allclose(sorted(modes[np.abs(modes.imag) > 0.1].imag), [-swing, swing], rtol=1e-6)
    assert found.plant.reach().rank == 4
    assert found.plant.reach()


def test_what_no_input_reaches_is_counted_with_its_singular_values() -> None:
    A = np.diag([1.0, 2.0, 3.0])
    system = LinearSystem("of three", A, np.array([[1.0], [1.0], [0.0]]), np.eye(3), np.zeros((3, 1)),
                          ("a", "b", "c"), ("u",), ("a", "b", "c"), {})  # fmt: skip
    reach = system.reach()
    assert (reach.rank, reach.n, bool(reach)) == (2, 3, False)
    assert len(reach.singular_values) == 2
    assert reach.left_out < 1e-12


def test_a_motion_is_called_one_and_its_poles_decide_nothing() -> None:
    found = held(residuals={"place": "x - sin(t)"}).linearize()
    assert (found.about, found.stable) == ("motion", None)
    assert "do not decide" in repr(found)
    assert held(residuals={"place": "x - 0.3"}).linearize(equilibrium=True).state["x"] == pytest.approx(0.3)


def test_python_control_gets_the_same_systems_with_their_names() -> None:
    control = pytest.importorskip("control")
    found = both_held().linearize()
    for system in (found.plant, found.closed, found.sampled):
        assert system is not None
        other = system.to_control()
        assert other.input_labels == list(system.inputs)
        assert other.state_labels == list(system.states)
        assert_allclose(np.sort_complex(other.poles()), np.sort_complex(system.poles), atol=1e-9)
        assert_allclose(control.ctrb(other.A, other.B).shape[0], system.reach().n)
        omega = np.array([0.5, 3.0, 20.0])
        assert_allclose(other(np.exp(1j * omega * PERIOD) if other.dt else 1j * omega), np.moveaxis(
            system.response(omega), 0, -1), rtol=1e-8, atol=1e-12)  # fmt: skip
    assert found.sampled is not None
    assert found.sampled.to_control().dt == PERIOD


def test_without_python_control_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "control", None)
    with pytest.raises(StatementError, match="pip install control"):
        held().linearize().plant.to_control()


def test_the_margins_of_a_cart_are_those_of_its_closed_form() -> None:
    margins = held().margins()
    found = margins["F"]
    assert found.gain[0] == 0.0
    assert found.gain[1] == pytest.approx(1 / (RATE * PERIOD), rel=1e-6)  # Jury's criterion at z = -1
    A, B, K = by_hand()

    def L(w: float) -> complex:
        return complex((K @ np.linalg.solve(np.exp(1j * w * PERIOD) * np.eye(2) - A, B))[0, 0])

    assert abs(L(found.phase_frequency)) == pytest.approx(1.0, rel=1e-6)
    assert np.angle(-L(found.phase_frequency)) == pytest.approx(found.phase, rel=1e-6)
    assert found.delay == pytest.approx(found.phase / found.phase_frequency)
    grid = np.linspace(0.01, np.pi / PERIOD, 20_001)
    sizes = np.array([L(w) for w in grid])
    assert found.modulus == pytest.approx(np.abs(1 + sizes).min(), rel=1e-6)
    assert found.disk == pytest.approx(1 / np.abs(1 / (1 + sizes) - 0.5).max(), rel=1e-6)
    assert margins.disk == pytest.approx(found.disk)


@pytest.mark.slow
@pytest.mark.parametrize("cut", ["inputs", "sensors"])
def test_at_the_ends_of_its_gain_margin_an_eigenvalue_is_on_the_circle(cut: Any) -> None:
    loop = both_held(delay=1)
    from servonode.wings.explore.linear.margins import others_closed

    cut_loop = cut_at(loop, cut)
    margins = loop.margins(cut=cut)
    assert len(margins.signals) == len(cut_loop.names) > 1
    for i, each in enumerate(margins.signals):
        single = others_closed(cut_loop.open, i)
        for end in each.gain:
            if 0 < end < np.inf:
                inner = single.A + end * single.B @ np.linalg.solve(np.eye(1) - end * single.D, single.C)
                assert np.abs(np.linalg.eigvals(inner)).max() == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("size", 10.0 ** np.arange(-4, 5))
def test_the_disk_of_two_signals_is_that_of_the_best_scaling(rng: np.random.Generator, size: float) -> None:
    M = (rng.normal(size=(2, 2)) + 1j * rng.normal(size=(2, 2))) * [[1, size], [1, 1]]

    def norm(log: float) -> float:
        return float(np.linalg.norm(M * [[1, np.exp(-log)], [np.exp(log), 1]], 2))

    least = minimize_scalar(norm, bounds=(-12, 12), method="bounded", options={"xatol": 1e-10}).fun
    assert largest_mu(M) == pytest.approx(least, rel=1e-8)


@pytest.mark.slow
def test_margins_agree_with_python_control() -> None:
    control = pytest.importorskip("control")
    loop = both_held(delay=1)
    margins = loop.margins()
    L = cut_at(loop, "inputs").open
    from servonode.wings.explore.linear.margins import others_closed

    for i, each in enumerate(margins.signals):
        single = others_closed(L, i)
        system = control.ss(single.A, single.B, -single.C, -single.D, PERIOD)
        sampled = control.frd(system, np.linspace(0.5, 0.999 * np.pi / PERIOD, 20_000))
        gain, degrees, modulus, _, _, _ = control.stability_margins(sampled)
        assert each.gain[1] == pytest.approx(gain, rel=1e-3)
        assert np.degrees(each.phase) == pytest.approx(degrees, rel=1e-3)
        assert each.modulus == pytest.approx(modulus, rel=1e-3)
    whole = control.ss(L.A, L.B, -L.C, -L.D, PERIOD)
    omega = np.geomspace(0.1, np.pi / PERIOD, 400)
    S = np.linalg.inv(np.eye(2) + np.moveaxis(whole(np.exp(1j * omega * PERIOD)), -1, 0))
    norms = np.linalg.norm(S - np.eye(2) / 2, 2, axis=(1, 2))
    assert margins.disk >= 1 / norms.max() - 1e-3  # a scaling may only add to it
    diagonal = [np.abs(S[:, i, i] - 0.5).max() for i in range(2)]
    assert margins.disk <= 1 / max(diagonal) + 1e-9  # all at once bear no more than one alone


def test_factors_within_the_disk_of_all_signals_leave_the_loop_stable() -> None:
    loop = both_held(delay=1)
    margins, cut_loop = loop.margins(), cut_at(loop, "inputs")
    low, high = (2 - margins.disk) / (2 + margins.disk), (2 + margins.disk) / (2 - margins.disk)
    system, rng = cut_loop.open, np.random.default_rng(3)
    for _ in range(200):
        factors = np.diag(rng.choice([low, high, *rng.uniform(low, high, 2)], 2))
        assert np.abs(np.linalg.eigvals(system.A + system.B @ factors @ system.C)).max() < 1 + 1e-9


def test_drives_as_late_as_the_margin_says_leave_the_loop_stable_and_one_step_more_does_not() -> None:
    delay = held().margins().delay
    assert delay is not None
    assert discrete.limit(2, delay / PERIOD) > RATE * PERIOD > discrete.limit(2, (delay + 0.001) / PERIOD)

    def grown(late: float) -> float:
        plant = {"actuator": {"delay": round(late, 9)}, "initial": {"x": 1e-3}}
        x = np.abs(held(plant=plant, gains={"lambda": RATE}).simulate(every=1).state["x"])
        return float(x[-len(x) // 3 :].max() / x[len(x) // 3 : -len(x) // 3].max())

    assert grown(delay - 0.01) < 1.0
    assert grown(delay + 0.01) > 1.0


def test_what_is_asked_wrongly_is_refused_with_a_remedy() -> None:
    loop = held(residuals={"place": "x - sin(t)"})
    with pytest.raises(StatementError, match="numbers above 0, in rad/s"):
        loop.frequency_response([1.0, -2.0])
    with pytest.raises(StatementError, match="choose inputs or sensors"):
        loop.frequency_response(cut="outputs")  # type: ignore[arg-type]
    with pytest.raises(StatementError, match="'x' is not an input; choose of F"):
        loop.linearize().plant.part(inputs=["x"])
    coasting = servonode.load({"run": {"duration": 1.0}, "plant": {"machine": cart}})
    assert coasting.linearize().sampled is None
    with pytest.raises(StatementError, match=r"has no \[controller\]"):
        coasting.margins()


def test_a_loop_that_does_not_decay_has_no_margin() -> None:
    margins = held(gains={"lambda": 1.2 / PERIOD}).margins()  # above the limit of 1
    assert not margins.stable
    assert (margins["F"].phase, margins.disk, margins.delay) == (0.0, 0.0, 0.0)
    loop = held(gains={"lambda": 0.0})
    coasts = loop.margins()
    assert not coasts.stable
    assert coasts["F"].gain == (0.0, np.inf)  # there is no feedback that could do harm
    assert "what the law neither moves nor sees" in coasts.remarks[-1]


def test_sensitivity_and_complementary_sensitivity_add_up_to_one() -> None:
    response = both_held().frequency_response()
    assert_allclose(response.S + response.T, np.broadcast_to(np.eye(2), response.S.shape), atol=1e-9)
    assert response.omega[-1] == pytest.approx(np.pi / PERIOD)
    assert len(response.plot().axes) == 3


def test_poles_along_a_run_follow_each_pole() -> None:
    loop = held(verdict_machines.pendulum, {"angle": "theta - sin(t)"})
    poles = loop.poles(times=30)
    assert poles.rates.shape == (30, 2)
    assert_allclose(poles.rates, -RATE, atol=1e-3)  # the law makes the residuals linear wherever they are
    assert len(poles.plot().axes) == 2
    with pytest.raises(StatementError, match="not a number of times"):
        loop.poles(times=0)


def test_the_zero_order_hold_of_a_spring_is_its_matrix_exponential() -> None:
    found = both_held().linearize()
    whole = np.block([[found.plant.A, found.plant.B], [np.zeros((2, 6))]])
    assert found.sampled is not None
    assert_allclose(found.sampled.B, expm(whole * PERIOD)[:4, 4:], rtol=1e-6, atol=1e-9)


def upright() -> Model:
    """A pendulum that stands at theta = 0 over its motor."""
    theta, u = coordinate("theta", "angle", "rad"), input_("u", "torque", "N m")
    m, h = parameter("m", "mass", "kg", default=1.0, above=0), parameter("h", "length", "m", default=0.8, above=0)
    kinetic, potential = m * h**2 * theta.rate**2 / 2, 9.81 * m * h * cos(theta)
    return Model("upright", "a pendulum that stands", kinetic, coordinates=(theta,), parameters=(m, h),
                 potential=potential, inputs={u: theta.rate})  # fmt: skip


def test_what_a_law_cancels_stays_in_the_loop_that_is_cut() -> None:
    """Of the speed alone the closed loop does not depend on the angle, but with gravity by itself it falls."""
    T, h, rate = 0.01, 0.8, 8.0
    loop = held(upright, {"speed": "theta_dot"}, period=T, gains={"lambda": rate})
    found = loop.linearize()
    assert found.passive == ("theta",)
    assert_allclose(found.without_passive("plant").poles, [np.sqrt(9.81 / h), -np.sqrt(9.81 / h)], rtol=1e-8)
    assert found.without_passive("closed").states == ("theta_dot",)

    def largest(gain: float, mass: float) -> float:  # of the law u = -gain h^2 (g/h theta + rate theta_dot) for m = 1
        moves = np.array([[0, 1, 0], [9.81 / h, 0, 1 / (mass * h**2)], [0, 0, 0]])
        hold = expm(moves * T)
        K = gain * h**2 * np.array([[9.81 / h, rate]])
        return float(np.abs(np.linalg.eigvals(hold[:2, :2] - hold[:2, 2:] @ K)).max())

    assert largest(0.9, 1.0) == pytest.approx(1.00168, abs=1e-5)
    for cut in ("inputs", "sensors"):
        whole = cut_at(loop, cut).open
        assert len(whole.A) == 2
        assert np.abs(np.linalg.eigvals(whole.closed)).max() == pytest.approx(1.0, abs=1e-9)
    A, B, C = (getattr(cut_at(loop, "inputs").open, name) for name in "ABC")
    assert np.abs(np.linalg.eigvals(A + 0.9 * B @ C)).max() == pytest.approx(largest(0.9, 1.0), abs=1e-8)
    assert not loop.margins().stable  # any smaller gain lets it fall
    heavier = held(upright, {"speed": "theta_dot"}, {"parameters": {"m": 1.1}}, period=T, gains={"lambda": rate},
                   parameters={"m": 1.0})  # fmt: skip
    radius = np.abs(np.linalg.eigvals(cut_at(heavier, "inputs").open.closed)).max()
    assert radius == pytest.approx(largest(1.0, 1.1), abs=1e-8)
    assert radius == pytest.approx(1.00152, abs=1e-5)


@pytest.mark.parametrize("mass", [1e-4, 1500.0, 1e5])
def test_a_heavy_cart_has_the_margins_of_a_light_one(mass: float) -> None:
    """Force and mass cancel: L of a cart under the inverting law does not depend on its mass."""
    loops = [held(plant={"parameters": {"m": each}}, delay=1, period=0.01, gains={"lambda": 8.0}) for each in (1, mass)]
    light, heavy = (each.margins() for each in loops)
    T = 0.01
    A = np.array([[1, T, T**2 / 2], [0, 1, T], [-64.0, -16.0, 0]])  # the force a period late, per mass, is a state
    assert heavy.radius == pytest.approx(np.abs(np.linalg.eigvals(A)).max(), abs=1e-8)
    assert heavy.radius == pytest.approx(0.940148, abs=1e-6)
    assert len(cut_at(loops[1], "inputs").open.A) == 3
    assert_allclose(heavy["F"].gain, light["F"].gain, rtol=1e-6)
    assert (heavy["F"].phase, heavy["F"].delay) == pytest.approx((light["F"].phase, light["F"].delay), rel=1e-6)
    assert heavy.delay == light.delay


def test_what_keeps_its_amplitude_is_not_stable() -> None:
    """A pendulum without friction that hangs: +-j sqrt(g/h), whose real parts are rounding of either sign."""
    hangs = servonode.load({"run": {"duration": 1.0}, "plant": {"machine": upright}}).linearize(state={"theta": np.pi})
    assert_allclose(hangs.closed.poles.imag, [np.sqrt(9.81 / 0.8), -np.sqrt(9.81 / 0.8)], rtol=1e-9)
    assert hangs.stable is False
    swings = held(decoupled, plant={"step": PERIOD}).linearize()
    assert swings.sampled is not None
    assert 1 - 1e-9 < swings.sampled.radius < 1  # the error of the plant's steps, which damp by (w h)^6 / 144
    assert swings.stable is False


def decoupled() -> Model:
    """A cart that is pushed, and a pendulum without friction and without force."""
    x, theta, F = coordinate("x", "place", "m"), coordinate("theta", "angle", "rad"), input_("F", "force", "N")
    kinetic = (MASS * x.rate**2 + theta.rate**2) / 2
    return Model("apart", "apart", kinetic, coordinates=(x, theta), potential=-9.81 * cos(theta), inputs={F: x.rate})


def test_a_delay_margin_leaves_out_what_the_law_neither_moves_nor_sees() -> None:
    alone, beside = held().margins(), held(decoupled).margins()
    assert beside.hidden == pytest.approx(1.0, abs=1e-9)
    assert not beside.stable
    assert beside.delay == alone.delay
    assert beside.radius == pytest.approx(alone.radius, abs=1e-8)


def test_integral_action_that_makes_up_for_a_wrong_belief_is_named() -> None:
    gains = {"lambda": RATE, "integral": 0.5}
    wrong = held(upright, {"angle": "theta - 0.5"}, gains=gains, parameters={"m": 1.2}).linearize(equilibrium=True)
    assert any("comes to rest where they are not" in each for each in wrong.remarks)
    assert not held(upright, {"angle": "theta - 0.5"}, gains=gains).linearize(equilibrium=True).remarks


@pytest.mark.parametrize("z", [3e-3, 2.5e-3, 1.1e-3])
def test_slopes_at_small_coordinates_are_those_of_their_closed_form(z: float) -> None:
    """A mass of 0.1 kg in the potential k / z, k = 1 N mm^2, whose steps of 1 mm would meet the pole."""
    found, doubtful = checked_slope(lambda x: 1 / x**2, np.array([z]))
    assert (found[0, 0], doubtful) == (pytest.approx(-2 / z**3, rel=1e-8), [])

    def gap() -> Model:
        x, F = coordinate("z", "gap", "m", start=z), input_("F", "force", "N")
        kinetic, potential = 0.1 * x.rate**2 / 2, 1e-6 / x
        return Model("gap", "a gap", kinetic, coordinates=(x,), potential=potential, inputs={F: x.rate})

    plant = held(gap, {"gap": f"z - {z}"}).linearize().plant
    assert plant.A[1, 0] == pytest.approx(-2e-6 / z**3 / 0.1, rel=1e-8)


def test_slopes_at_large_coordinates_have_steps_that_are_not_larger_than_what_they_look_at() -> None:
    found, doubtful = checked_slope(np.sin, np.array([5000.0]))
    assert (found[0, 0], doubtful) == (pytest.approx(np.cos(5000.0), rel=1e-7), [])
    steep, doubtful = checked_slope(lambda x: np.sin(3000 * x), np.array([0.0]))
    assert (steep[0, 0], doubtful) == (pytest.approx(3000.0, rel=1e-7), [])


def test_slopes_next_to_a_limit_are_those_on_this_side_of_it_and_others_are_doubted() -> None:
    near, doubtful = checked_slope(lambda x: np.minimum(x, 1e-4), np.array([0.0]))
    assert (near[0, 0], doubtful) == (pytest.approx(1.0, rel=1e-9), [])
    assert checked_slope(lambda x: np.minimum(x, 1e-6), np.array([0.0]))[1] == [0]
    limit = MASS * RATE**2 * 0.1  # of the force at 0.1 m
    for within, named in ((1e-2, False), (1e-5, True)):
        plant = {"safety": {"limit": {"F": limit + within}}}
        loop = held(plant=plant).linearize(state={"x": -0.1})
        assert loop.closed.A[1, 0] == pytest.approx(-(RATE**2), rel=1e-6) or named
        assert any(each.startswith("slopes by x, x_dot are in doubt") for each in loop.remarks) == named
