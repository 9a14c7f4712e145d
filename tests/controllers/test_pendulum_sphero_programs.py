"""The pendulum sphero's programs: their torques against the same laws by hand, refusals, warnings, guards."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.controllers import ServoLaw, find_program, programs_of
from servonode.mechanics import ModelError
from tests.helpers import sphero_sheet
from tests.helpers.packaged import load_machine
from tests.helpers.small_machines import packaged_law

Array = Any
RATE, SPIN_RATE, TILT_RATE, OUTER_RATE = 2.7, 1.3, 6.0, 1.4
NO_LIMIT = {"a_lim": 1e9, "Q_max": 1e9}
CENTRE, RADIUS, DIRECTION = np.array([0.4, -0.7]), 1.2, np.array([-0.6, 1.1])
ALPHA, RHO0 = 0.8, 1.7
RULES = ("min_norm", "spin")
DRIVES = ("pursuit", "line", "circle", "trajectory", "stop", "bilimovich_speed")
CASES = [(name, rule) for name in DRIVES for rule in RULES]
CASES += [("bilimovich_free", "min_norm"), ("tilt", ""), ("cascade", "")]


def fast_and_slow(cases: list[tuple[str, str]]) -> list[Any]:
    """Each program with one rule is fast, the pursuit with both."""
    slow = [case for case in cases if case[1] == "spin" and case[0] != "pursuit"]
    return [pytest.param(*case, marks=pytest.mark.slow if case in slow else ()) for case in cases]


@pytest.fixture(scope="module")
def hand() -> ModuleType:
    """The laws by hand."""
    return sphero_sheet


@cache
def compiled(name: str, rule: str) -> ServoLaw:
    program, _, speed = name.partition("_")
    options = {"rule": rule} if rule else {}
    options |= {"speed": {"speed": "program"}.get(speed, speed)} if speed else {}
    return packaged_law(program, load_machine("pendulum_sphero", {}, {}), **options)


def law_of(name: str, rule: str = "min_norm", machine: dict[str, float] | None = None, **given: float) -> ServoLaw:
    """The law on a robot with these parameters; its own settings are `given` over those of the tests."""
    law = compiled(name, rule)
    known = {each.name for each in law.description.parameters}
    settings = {"alpha": ALPHA, "rho0": RHO0, "h": 0.1, "radius": RADIUS, "lambda_a": OUTER_RATE}
    settings |= {"point_0": CENTRE[0], "point_1": CENTRE[1]}
    settings |= {"direction_0": DIRECTION[0], "direction_1": DIRECTION[1]}
    settings = {key: value for key, value in {**settings, **given}.items() if key in known}
    fresh = ServoLaw(law.description, law.kernel, law.machine.with_parameters(machine or {}), settings)
    rates = {each.name: TILT_RATE if each.name.startswith("tilt") else RATE for each in law.description.residuals}
    fresh.stabilise({**rates, **({"spin": SPIN_RATE} if rule == "spin" else {})})
    return fresh.started(0.0, fresh.machine.state({}), goals(fresh, np.full((2, 3), 3.0)), settings)


def goals(law: ServoLaw, motion: Array) -> Array:
    """y for two goals with values, rates and second rates (2, 3)."""
    description = law.description
    order = max(description.target_order, description.signal_order)
    count = len(description.targets) + len(description.signals)
    return np.concatenate([each[: order + 1] for each in motion[:count]]) if count else np.zeros(0)


def wanted(name: str, by_hand: Any, goal: Array) -> Array:
    """The centre's acceleration that a program asks for, without internal damping."""
    laws: dict[str, Callable[[], Array]] = {
        "pursuit": lambda: by_hand.pursuit(goal.T, ALPHA, RHO0, RATE),
        "line": lambda: by_hand.line(CENTRE, DIRECTION, goal[0], RATE),
        "circle": lambda: by_hand.circle(CENTRE, RADIUS, goal[0], RATE),
        "trajectory": lambda: by_hand.trajectory(goal.T, RATE),
        "stop": lambda: by_hand.stop(RATE),
        "bilimovich_speed": lambda: by_hand.heading_and_speed(goal[0], goal[1], RATE),
        "cascade": lambda: by_hand.pursuit(goal.T, ALPHA, RHO0, OUTER_RATE),
    }
    return laws[name]()


def torque(hand: Any, name: str, rule: str, by_hand: Any, goal: Array, **given: float) -> Array:
    """The torque by hand, limits and damping included."""
    a_lim, Q_max, kappa = (given.get(key, other) for key, other in (("a_lim", 1e9), ("Q_max", 1e9), ("kappa", 0.0)))
    if name == "bilimovich_free":
        return hand.limited(by_hand.bilimovich(goal[0], RATE, kappa), Q_max)
    if name == "tilt":
        return hand.limited(by_hand.tilt(by_hand.tilt_acceleration(goal.T, TILT_RATE)), Q_max)
    a = wanted(name, by_hand, goal)
    if name == "cascade":
        n_d = np.zeros((3, 2))
        n_d[0] = by_hand.steady_tilt(hand.limited(a, a_lim))
        return hand.limited(by_hand.tilt(by_hand.tilt_acceleration(n_d, TILT_RATE)), Q_max)
    a = hand.limited(a - kappa * by_hand.n_dot[:2], a_lim)
    return hand.limited(by_hand.torque(a, rule, SPIN_RATE), Q_max)


def compare(hand: Any, name: str, rule: str, rng: np.random.Generator, **given: float) -> list[Array]:
    """The law and the hand agree at random states of random robots; the scales of the limits."""
    scales = []
    for index in range(12):
        p = {} if index % 4 == 0 else hand.random_parameters(rng)
        state, goal = hand.random_state(rng), rng.normal(size=(2, 3))
        if name == "tilt":
            goal *= 0.3
        law = law_of(name, rule, p, **given)
        x = law.machine.state(state)
        by_hand = hand.Law(law.machine.parameters, x[:15])
        if name == "cascade":
            law = law_of(name, rule, p, **{**given, "a_lim": given.get("fraction", 0.9) * by_hand.a_max})
        stated = {**given, **({"a_lim": law.parameters["a_lim"]} if name == "cascade" else {})}
        answer = law.evaluate(0.0, x, goals(law, goal))
        assert answer.status == 0, law.explain(answer)
        expected = torque(hand, name, rule, by_hand, goal, **stated)
        assert_allclose(answer.inputs, expected, rtol=0, atol=1e-9 * np.abs(expected).max(), err_msg=str(index))
        scales.append(answer.scales)
    return scales


LIMITS = {
    "free": {"kappa": 0.0, **NO_LIMIT},
    "damped": {"kappa": 0.07, **NO_LIMIT},
    "acceleration limited": {"kappa": 0.07, "a_lim": 0.8, "Q_max": 1e9},
    "torque limited": {"kappa": 0.07, "a_lim": 1e9, "Q_max": 0.2},
}


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize(("name", "rule"), fast_and_slow(CASES))
def test_the_torque_is_that_by_hand(hand: Any, rng: np.random.Generator, name: str, rule: str, limits: str) -> None:
    given = LIMITS[limits]
    if name == "bilimovich_free" and limits == "acceleration limited":  # across the heading only: see below
        given = given | {"a_lim": 1e9}
    scales = compare(hand, name, rule, rng, **given)
    if limits == "acceleration limited" and rule and name != "bilimovich_free":
        assert min(scale[0] for scale in scales) < 0.9
    elif limits == "torque limited":
        assert min(scale[-1] for scale in scales) < 0.9
    elif limits == "free":
        assert name == "cascade" or all(each == 1.0 for scale in scales for each in scale)


def test_free_bilimovich_bounds_the_acceleration_across(rng: np.random.Generator, hand: Any) -> None:
    for _ in range(8):
        law = law_of("bilimovich_free", "min_norm", kappa=0.0, a_lim=0.3, Q_max=1e9)
        x, g_B = law.machine.state(hand.random_state(rng)), rng.normal(size=3)
        answer = law.evaluate(0.0, x, goals(law, np.array([g_B, g_B])))
        assert answer.status == 0
        rates = law.machine.derivatives(0.0, x, answer.inputs)
        across = np.array([-g_B[0], -1]) / np.hypot(1, g_B[0])
        a = 0.15 * np.array([rates[6], -rates[5]])
        wanted = 0.15 * (g_B[1] * x[6] - RATE * (x[5] - g_B[0] * x[6])) / np.hypot(1, g_B[0])
        assert across @ a == pytest.approx(np.clip(wanted, -0.3, 0.3), rel=1e-9)


STATE_G = {"n_0": 0.36, "n_1": -0.48, "n_2": -0.8, "omega_0": 1, "omega_1": 2, "omega_2": 3}
STATE_G |= {"Omega_0": -0.5, "Omega_1": 0.7, "Omega_2": 1.1}


ON_A_TRAJECTORY = np.array([[0, 0.3, 0.3], [0, -0.15, -0.2]])  # its second rate is the wanted acceleration
ON_A_TILT = np.array([[0.36, -0.032, 0.5], [-0.48, -0.004, -1.0]])


@pytest.mark.parametrize(
    ("name", "rule", "rate", "goal", "printed"),
    [
        ("trajectory", "min_norm", 2.0, ON_A_TRAJECTORY, "0.1857079879, 0.04978247159, -0.06443893392"),
        ("trajectory", "spin", 2.0, ON_A_TRAJECTORY, "0.2691050122, -0.06141356083, 0.09"),
        ("bilimovich_free", "min_norm", 3.0, np.array([[0.4, 0.1, 0], [0, 0, 0]]), "0.3204936649, -0.1281974659"),
        ("tilt", "", 2.0, ON_A_TILT, "-0.4470038658, -0.3327967726, -0.001801159648"),
    ],
)
def test_the_printed_torques(name: str, rule: str, rate: float, goal: Array, printed: str, agree_in_print: Any) -> None:
    law = law_of(name, rule, **({} if name == "tilt" else {"kappa": 0.0}), **NO_LIMIT)
    law.stabilise({each.name: rate for each in law.description.residuals})
    answer = law.evaluate(0.0, law.machine.state(STATE_G), goals(law, goal))
    assert answer.status == 0
    agree_in_print(answer.inputs[: printed.count(",") + 1], printed)
    assert name != "bilimovich_free" or answer.inputs[2] == pytest.approx(0.0, abs=1e-15)


def test_a_cascade_at_rest_and_at_the_largest_acceleration_has_a_torque(hand: Any) -> None:
    law = law_of("cascade", "", rho0=2.0)
    answer = law.evaluate(0.0, law.machine.state({}), goals(law, np.array([[2.0, 0, 0], [0, 0, 0]])))
    assert answer.status == 0
    assert_allclose(answer.inputs, 0.0, atol=1e-15)
    for factor in np.linspace(0.99, 1.01, 101):
        p = {"M": 1.0 * factor}
        law = law_of("cascade", "", p)
        a_max = hand.Law(law.machine.parameters, law.machine.state({})[:15]).a_max
        law = law_of("cascade", "", p, a_lim=a_max)
        answer = law.evaluate(0.0, law.machine.state({}), goals(law, np.array([[40.0, 0, 0], [3.0, 0, 0]])))
        assert answer.status == 0
        assert answer.scales[0] < 0.1


def test_a_step_from_hanging_needs_the_printed_torque(agree_in_print: Any) -> None:
    law = default_law("stop", kappa=0.0, **NO_LIMIT)
    x = law.machine.state({"omega_1": -1 / 0.15 / 2.0})  # lambda v = 1 m/s^2
    answer = law.evaluate(0.0, x, np.zeros(0))
    assert answer.status == 0
    agree_in_print(np.linalg.norm(answer.inputs), "1.557")


# defaults, refusals, warnings, guards


def violated(law: ServoLaw, late: float = 0.005, start: dict[str, float] | None = None) -> tuple[list[str], list[str]]:
    y = goals(law, np.array([[2.0, 0, 0], [0.0, 0, 0]]))
    return law.violated(0.0, law.machine.state(start or {}), y, late)


def default_law(name: str, rule: str = "min_norm", machine: dict[str, float] | None = None, **given: float) -> ServoLaw:
    """The law with the default settings, started at the origin with the goal 2 m ahead."""
    law = compiled(name, rule)
    fresh = ServoLaw(law.description, law.kernel, law.machine.with_parameters(machine or {}), given)
    fresh.stabilise({each.name: each.default for each in law.description.residuals})
    y = goals(fresh, np.array([[2.0, 0, 0], [0.0, 0, 0]]))
    return fresh.started(0.0, fresh.machine.state({}), y, given)


def test_the_default_settings_are_those_of_the_page(agree_in_print: Any) -> None:
    law = default_law("pursuit")
    names = ("alpha", "rho0", "h", "v_max", "kappa", "Q_max")
    assert [law.parameters[name] for name in names] == [1.0, 2.0, 0.15, 0.0, 0.05, 1.2]
    agree_in_print(law.parameters["a_lim"], "0.7211237431")
    assert default_law("cascade", "").parameters["lambda_a"] == 1.0
    defaults = {each.name: each.default for each in compiled("pursuit", "spin").description.residuals}
    assert defaults == {"v_x": 2.0, "v_y": 2.0, "spin": 2.0}
    assert [each.default for each in compiled("cascade", "").description.residuals] == [10.0, 10.0]


@pytest.mark.parametrize(("name", "rule"), fast_and_slow(CASES))
def test_runaway_pendulum_is_refused_and_offered_the_cascade(name: str, rule: str, hand: Any) -> None:
    assert violated(default_law(name, rule)) == ([], [])
    refusals, warnings = violated(default_law(name, rule, hand.POINT))
    if not rule:  # tilts can be held with any pendulum
        assert (refusals, warnings) == ([], [])
        return
    assert any("runs away" in each and 'program = "cascade"' in each for each in refusals)
    numbers = "i + l**2*m = 0.024 kg m^2, must be at least 21*R*l*m/20 = 0.0315: this pendulum runs away"
    assert any(each.startswith(numbers) for each in refusals)


def test_the_refusal_begins_at_five_percent_above_a_runaway() -> None:
    i = 1.05 * 2.0 * 0.04 * 0.15 - 2.0 * 0.04**2  # A = 1.05 m l R
    for factor, refused in ((1 - 1e-9, True), (1 + 1e-9, False)):
        refusals, _ = violated(default_law("pursuit", machine={"i": i * factor, "C3": 0.01}))
        assert any("runs away" in each for each in refusals) == refused


@pytest.mark.parametrize(
    ("name", "finite"), [("line", ["offset"]), ("circle", ["distance"]), ("trajectory", ["x", "y"])]
)
@pytest.mark.parametrize("rule", RULES)
def test_rates_above_half_of_what_the_damping_allows_are_refused(name: str, rule: str, finite: list[str]) -> None:
    D0, G, kappa, omega_0 = 0.0056, 0.47, 0.05, 11.838194843
    largest = np.roots([1.0, G * kappa / (2 * D0), -(omega_0**2)]).max()
    assert largest == pytest.approx(10.8, abs=0.1)
    for residual in [each.name for each in compiled(name, rule).description.residuals]:
        for factor, high in ((0.999999, False), (1.000001, True)):
            law = default_law(name, rule)
            rates = {each.name: each.default for each in law.description.residuals}
            law.stabilise({**rates, residual: factor * largest / 2})
            refusals, _ = violated(law)
            assert refusals == [] or all(f"lambda_{residual} is too high" in each for each in refusals)
            assert bool(refusals) == (high and residual in finite)


def test_without_damping_no_rate_is_too_high() -> None:
    law = default_law("trajectory", kappa=0.0)
    law.stabilise({"x": 50.0, "y": 50.0})
    assert violated(law)[0] == []


@pytest.mark.parametrize(("name", "rule"), [("pursuit", "min_norm"), ("pursuit", "spin"), ("cascade", "")])
def test_gains_that_may_run_into_the_target_are_refused(name: str, rule: str) -> None:
    alpha = 0.6 / (2.0 - 0.15)
    assert alpha == pytest.approx(0.3243, abs=1e-4)
    for factor, refused in ((0.999, True), (1.001, False)):
        refusals, _ = violated(default_law(name, rule, alpha=factor * alpha, v_max=0.6))
        assert any("could be run into" in each for each in refusals) == refused
    assert violated(default_law(name, rule, alpha=0.01))[0] == []  # v_max not stated
    assert any(
        "rho0 = 0.15 m, must be greater than h = 0.15" in each
        for each in violated(default_law(name, rule, rho0=0.15))[0]
    )


@pytest.mark.parametrize(
    ("name", "good", "bad", "kind", "text"),
    [
        ("cascade", {"a_lim": 1.4422}, {"a_lim": 1.4423}, "refused", "above the largest acceleration"),
        ("pursuit", {"a_lim": 1.0281}, {"a_lim": 1.0282}, "warned", "past 75 degrees"),
        ("line", {"direction_0": 1.0}, {"direction_0": 0.0}, "refused", "is not a direction"),
    ],
)
def test_settings_are_refused_or_warned_of_from_their_bound_on(
    name: str, good: Any, bad: Any, kind: str, text: str
) -> None:
    rule = "" if name == "cascade" else "min_norm"
    assert text not in str(violated(default_law(name, rule, **good)))
    told = dict(zip(("refused", "warned"), violated(default_law(name, rule, **bad)), strict=True))
    assert [each for each, texts in told.items() if text in str(texts)] == [kind]


def test_zero_order_hold_that_excites_the_pendulum_is_a_warning(agree_in_print: Any) -> None:
    per_second = 0.08 / (11 / 3) * 7.035623640**2
    agree_in_print(per_second, "1.08")
    for late, warned in ((0.0499 / per_second, False), (0.0501 / per_second, True)):
        warnings = violated(default_law("pursuit"), late)[1]
        assert any("excite the pendulum" in each for each in warnings) == warned
    assert violated(default_law("pursuit", kappa=0.0))[1] != []
    assert violated(default_law("pursuit"), 1.5 * 0.02)[1] == []  # 20 ms and one late sample


def test_the_barrier_of_a_step_is_that_by_hand(hand: Any, agree_in_print: Any) -> None:
    """Pi(theta_u) = 0 at the upper root of m g l sin theta = (mu R - m l cos theta) a."""
    law = hand.Law(default_law("pursuit").machine.parameters, default_law("pursuit").machine.state({})[:15])
    ml, muR = law.ml, law.mu * 0.15

    def at_the_top(a: float) -> float:
        theta_m = np.arccos(ml / muR)
        low, high = theta_m, np.pi
        for _ in range(200):
            middle = (low + high) / 2
            if ml * 9.81 * np.sin(middle) > (muR - ml * np.cos(middle)) * a:
                low = middle
            else:
                high = middle
        return float(hand.potential(law, low, a))

    low, high = 0.5, law.a_max * (1 - 1e-12)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if at_the_top(middle) > 0 else (low, middle)
    agree_in_print(low, "1.2186143292")


def test_guards_stop_where_a_program_ends() -> None:
    pursuit, circle = law_of("pursuit", h=0.3), law_of("circle")
    near = np.array([[0.0, 0, 0], [0.0, 0, 0]])
    for distance, status in ((0.2999, 1), (0.3001, 0)):
        assert pursuit.evaluate(0.0, pursuit.machine.state({"X": distance}), goals(pursuit, near)).status == status
    for distance, status in ((0.0009, 1), (0.0011, 0)):
        x = circle.machine.state({"X": CENTRE[0] + distance, "Y": CENTRE[1]})
        assert circle.evaluate(0.0, x, goals(circle, near)).status == status
    tilt = law_of("tilt", "")
    for n_z, status in ((0.01, 1), (-0.01, 0)):
        x = tilt.machine.state({"n_0": np.sqrt(1 - n_z**2), "n_2": n_z})
        assert tilt.evaluate(0.0, x, goals(tilt, near)).status == status


def test_all_programs_are_known_with_their_options() -> None:
    with pytest.raises(ModelError, match="leave rule out"):
        compiled("bilimovich_free", "spin")
    for name, _ in CASES:
        entry = programs_of("pendulum_sphero")[name.partition("_")[0]]
        assert entry.machine == "pendulum_sphero"
        stated = find_program(entry.name, Path(), "pendulum_sphero").options
        assert entry.name in ("tilt", "cascade") or stated["rule"].choices == RULES
