"""Margins, best rates and largest speeds that are known in closed form, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

import servonode
from servonode.closed_loop.variation import Variation
from servonode.errors import StatementError
from servonode.mechanics.description import Quantity
from servonode.wings.explore.sweeps.fastest import _lines
from servonode.wings.explore.sweeps.outcomes import is_random
from servonode.wings.explore.sweeps.robustness import (
    LARGER,
    SMALLER,
    Deviation,
    Margin,
    Robustness,
    _questions,
    margins,
)
from tests.helpers.point_masses import launch
from tests.helpers.refusals import command

CIRCLING = "x - 1 + cos(t)"  # from rest at x = 0; the force is m cos(t)
FOLLOWING, CIRCLE = "x - x_d", {"x_d": "1 - cos(t)"}


def named(found: Robustness, name: str) -> list[Margin]:
    return [each for each in found.margins if each.name == name]


# margins


def test_delay_and_period_margins_of_a_first_order_residual() -> None:
    """v' = -lambda v(t - tau) decays for lambda tau < pi/2, a sampled v for lambda T < 2; it must fall to a tenth."""
    loop = servonode.load(launch("x_dot", 100.0, 2.0, period=0.02, plant={"initial": {"x_dot": 1.0}}))
    found = loop.robustness(seeds=1)
    delay, period = named(found, "delay")[0], named(found, "period")[0]
    assert delay.reason in ("goal missed", "goal still converging")
    assert np.pi / 4 - 0.05 < delay.size < np.pi / 4 - 0.01  # half a period is late anyhow, and what decays too slowly
    assert delay.low == delay.size < delay.high < delay.size + 0.01
    assert 0.94 < period.size < 1.0 <= period.high < 1.01 or 0.94 < period.size < period.high < 1.0
    assert all(not each.failed for each in found.of(SMALLER))


def test_mass_margin_of_a_sampled_second_order_residual() -> None:
    """A mass lighter by q than believed multiplies both gains by q; the sampled loop is stable for q below a limit."""
    rate, period = 10.0, 0.02
    loop = servonode.load(launch("x", 20.0, rate, period=period, plant={"initial": {"x": 1.0}}))
    smaller = next(each for each in loop.robustness(seeds=1).of(SMALLER) if each.name == "m")
    phi, gamma = np.array([[1.0, period], [0.0, 1.0]]), np.array([[period**2 / 2], [period]])
    feedback = np.array([[rate**2, 2 * rate]])

    def stable(q: float) -> bool:
        return bool(np.abs(np.linalg.eigvals(phi - q * gamma @ feedback)).max() < 1)

    limit = next(q for q in np.arange(1.0, 20.0, 0.01) if not stable(q))
    assert smaller.size == pytest.approx(min(limit, 5.0), rel=0.03)
    assert smaller.failed == (limit < 5.0)


def test_margin_of_random_runs_has_the_interval_of_the_crossing() -> None:
    """Success with probability 1 - size/2: the margin is where it is 90 %, within its interval."""
    generator = np.random.default_rng(5)

    def trial(values: np.ndarray) -> list[str]:  # type: ignore[type-arg]
        return ["" if generator.random() < 1 - size / 2 else "lost" for size in values[:, 0]]

    sizes = tuple(np.round(np.linspace(0.02, 1.0, 25), 3).tolist())
    line = Deviation("n", "noise", Quantity("n", "n", "1"), lambda size: [[size]] * 2000, sizes)
    (found,) = margins(trial, [line])
    assert found.size == pytest.approx(0.2, abs=0.05)
    assert 0 < found.low <= found.size < found.high
    assert found.low < 0.2 < found.high
    assert (found.failed, found.reason) == (True, "lost")


@pytest.mark.slow
def test_noise_margin_counts_seeds_and_has_an_exact_interval() -> None:
    found = servonode.load(launch(CIRCLING, 6.0, 3.0, period=0.01)).robustness(seeds=36)
    noise = named(found, "noise")[0]
    assert {each.runs for each in noise.tried} == {36}
    assert 0 < noise.low <= noise.size < noise.high
    rates = [each.rate for each in noise.tried]
    assert rates[0] == 1.0
    assert rates[-1] == 0.0
    figure = found.plot()
    figure.canvas.draw()
    labels = [axis.get_xlabel() for axis in figure.axes]
    assert labels == [
        "true value of the parameter, over the value that the law believes",
        "noise [%]",
        "delay [s]",
        "period [s]",
    ]
    assert str(found).startswith("Margins of <launch>\n  m       -")


@pytest.mark.parametrize(
    ("stated", "seeds"), [({}, 1), ({"bias": 0.01}, 1), ({"noise": 1e-4}, 3), ({"drop": 0.01}, 3)], ids=str
)
def test_noise_and_losses_of_the_state_have_every_seed(stated: dict[str, float], seeds: int) -> None:
    loop = servonode.load(launch(CIRCLING, 1.0, 3.0, period=0.01, plant={"sensor": stated}))
    found = loop.tune({"controller.gains.lambda": (1.0, 9.0)}, cost="max(abs(F))", runs=30, seeds=3)
    assert found.seeds == seeds
    assert {len(each.values(1.1)) for each in _questions(loop.closed_loop, seeds, seeds)[0][1]} == {seeds}


def test_noise_and_losses_of_a_sensor_that_an_estimator_reads_are_random() -> None:
    base = servonode.load("trailer_estimated").closed_loop
    assert is_random(base)
    assert base.sensing is not None
    names = [each.description.name for each in base.sensing.effects]
    rounded = {
        f"plant.sensors.{name}.{key}": value for name in names for key, value in (("quantum", 1e-3), ("noise", 0))
    }
    exact = Variation(base, list(rounded)).at(list(rounded.values()))
    assert not is_random(exact)
    assert is_random(Variation(exact, ["plant.sensors.gyroscope.drop"]).at([0.1]))
    assert is_random(Variation(exact, ["plant.sensors.gyroscope.noise"]).at([0.1]))


def test_the_law_keeps_the_parameters_that_it_believes() -> None:
    """A law that knew the true mass would not fail for any."""
    loop = servonode.load(launch("x - sin(t)", 20.0, 1.0, period=0.01))
    larger = next(each for each in loop.robustness(seeds=1).of(LARGER) if each.name == "m")
    assert (larger.failed, larger.reason) == (True, "goal missed")


def test_a_launch_file_whose_own_run_fails_has_no_margins() -> None:
    result = command("robustness", "trailer_look_ahead", "--set", "run.duration=5", "--require", "max(abs(V)) < 0.01")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "the run itself fails (max(abs(V)) ≥ 0.01), so nothing has a margin" in result.stderr


# the best rate


def test_the_best_rate_of_a_quadratic_cost_is_found() -> None:
    """v = exp(-lambda t), F = -lambda v: the cost 1/(2 lambda) + rho lambda/2 is least at 1/sqrt(rho)."""
    loop = servonode.load(launch("x_dot", 6.0, 2.0, period=0.005, plant={"initial": {"x_dot": 1.0}}))
    cost = "integral(x_dot**2) + 0.04*integral(F**2)"
    found = loop.tune({"controller.gains.lambda": (1.0, 20.0)}, cost=cost, runs=300)
    assert found.best["controller.gains.lambda"] == pytest.approx(5.0, rel=0.03)
    assert found.cost == pytest.approx(0.2, rel=0.02)
    assert found.own_cost == pytest.approx(1 / 4 + 0.04, rel=0.02)
    assert found.lines[0] == "[controller.gains]"
    assert servonode.load(launch("x_dot", 6.0, found.best["controller.gains.lambda"])).check().verdict
    again = loop.tune({"controller.gains.lambda": (1.0, 20.0)}, cost=cost, runs=300)
    assert np.array_equal(found.values, again.values)


@pytest.mark.parametrize(
    ("low", "high", "own", "best", "note"),
    [
        (6.0, 20.0, 5.0, 5.0, "no candidate that passes check is better than the launch file, whose values stay"),
        (6.0, 20.0, 2.0, 6.0, "controller.gains.lambda is at the lower end of its range, 6; beyond it the cost may be"),
        (1.0, 4.0, 2.0, 4.0, "controller.gains.lambda is at the upper end of its range, 4; beyond it the cost may be"),
    ],
)
def test_nothing_worse_than_the_launch_file_is_recommended_and_an_end_of_a_range_is_named(
    low: float, high: float, own: float, best: float, note: str
) -> None:
    loop = servonode.load(launch("x_dot", 6.0, own, period=0.005, plant={"initial": {"x_dot": 1.0}}))
    cost = "integral(x_dot**2) + 0.04*integral(F**2)"  # least at 5
    found = loop.tune({"controller.gains.lambda": (low, high)}, cost=cost, runs=100)
    assert found.best["controller.gains.lambda"] == pytest.approx(best, rel=0.02)
    assert found.cost <= found.own_cost
    assert note in str(found)
    assert bool(found.lines) == (best != own)
    axis = next(each for each in found.plot().axes if each.get_xlabel())
    for (left, right), seen in ((axis.get_xlim(), own), (axis.get_ylim(), found.own_cost)):
        assert left < seen < right


def test_costs_of_noisy_runs_are_means_over_seeds_that_chose_nothing() -> None:
    plant = {"initial": {"x_dot": 1.0}, "sensor": {"noise": 0.005}}
    loop = servonode.load(launch("x_dot", 3.0, 2.0, period=0.01, plant=plant), run__seed=7)
    found = loop.tune({"controller.gains.lambda": (1.0, 5.0)}, cost="max(abs(F))", runs=60, seeds=3)

    def mean(rate: float) -> float:
        values = [{"controller.gains.lambda": rate, "run.seed": float(seed)} for seed in (10, 11, 12)]
        return float(np.mean([np.abs(loop.simulate(values=each).input["F"]).max() for each in values]))

    assert found.cost == pytest.approx(mean(found.best["controller.gains.lambda"]), rel=1e-9)
    assert found.own_cost == pytest.approx(mean(2.0), rel=1e-9)
    assert found.cost > np.nanmin(found.costs)
    assert "on 3 seeds that chose nothing" in str(found)


def test_what_check_refuses_is_passed_over_and_named() -> None:
    """The least cost lies at the highest rate, which is too near to the limit of the sampled law."""
    loop = servonode.load(launch("x_dot", 5.0, 2.0, period=0.1, plant={"initial": {"x_dot": 1.0}}))
    found = loop.tune({"controller.gains.lambda": (10.0, 19.0)}, cost="-max(abs(F))", runs=100)
    assert found.refused
    assert "above 0.8 of the limit" in found.refused[0]
    assert found.best["controller.gains.lambda"] < 16.0


def test_periods_are_whole_plant_steps_and_the_map_has_a_bar() -> None:
    loop = servonode.load(launch(CIRCLING, 3.0, 3.0, period=0.01))
    found = loop.tune({"controller.gains.lambda": (1.0, 9.0), "controller.period": (0.005, 0.05)}, runs=60)
    steps = found.values[:, 1] / 0.005
    assert np.allclose(steps, np.round(steps))
    figure = found.plot()
    figure.canvas.draw()
    assert [axis.get_ylabel() for axis in figure.axes] == ["", "controller.period [s]", "cost"]


@pytest.mark.parametrize(("keys", "runs"), [(1, 8), (1, 30), (1, 100), (2, 33), (3, 100)])
def test_a_search_has_no_more_runs_than_it_may(keys: int, runs: int) -> None:
    """A cost of which every generation is as far from an end as the last."""
    loop = servonode.load(launch(CIRCLING, 0.5, 3.0, period=0.01))
    over = {"controller.gains.lambda": (1.0, 9.0), "plant.parameters.m": (0.9, 1.1), "plant.initial.x": (-0.1, 0.1)}
    found = loop.tune(dict(list(over.items())[:keys]), cost="1e3*sin(1e6*final(x))", require=["max(x) < 9"], runs=runs)
    assert runs / 2 < len(found.costs) <= runs


def test_runs_that_are_less_than_a_generation_are_refused() -> None:
    loop = servonode.load(launch(CIRCLING, 0.5, 3.0, period=0.01, plant={"sensor": {"noise": 0.001}}))
    text = "runs = 39 are fewer than the 40 of one generation of candidates; give at least so many, or fewer seeds"
    with pytest.raises(StatementError, match=text):
        loop.tune({"controller.gains.lambda": (1.0, 9.0)}, cost="max(x)", runs=39)


def test_a_large_cost_is_less_than_a_failure() -> None:
    """The force at the start, m lambda x(0), costs more the higher the rate; lower ones break the requirement."""
    loop = servonode.load(launch("x_dot", 3.0, 3.0, period=0.01, plant={"initial": {"x_dot": 1.0}}))
    over, cost = {"controller.gains.lambda": (1.0, 9.0)}, "1e20*max(abs(F))"
    found = loop.tune(over, cost=cost, require=["max(abs(F)) > 6.2"], runs=300)
    assert found.best["controller.gains.lambda"] == pytest.approx(6.2, rel=1e-3)
    assert found.cost == pytest.approx(6.2e20, rel=1e-3)


def test_a_search_without_a_success_says_why(tmp_path: Path) -> None:
    loop = servonode.load(launch("x", 4.0, 2.0, period=0.01, plant={"initial": {"x": 1.0}}))
    with pytest.raises(StatementError, match=r"all \d+ candidates fail: max\(abs\(F\)\) ≥ 0.001; give other ranges"):
        loop.tune({"controller.gains.lambda": (1.0, 9.0)}, require=["max(abs(F)) < 0.001"], runs=20)


@pytest.mark.parametrize(("bound", "own"), [(3.0, np.cosh(1.0)), (1.5, np.nan)])
def test_a_machine_without_a_goal_has_the_cost_of_a_run_that_keeps_the_requirement(bound: float, own: float) -> None:
    """m x'' = x from rest at 1 m is cosh(t / sqrt(m)) after 1 s."""
    stated = launch("x", 1.0, 1.0, k=1.0, plant={"initial": {"x": 1.0}})
    loop = servonode.load({key: stated[key] for key in ("run", "plant")})
    found = loop.tune({"plant.parameters.m": (0.5, 4.0)}, cost="max(x)", require=[f"max(x) < {bound}"], runs=300)
    assert found.own_cost == pytest.approx(own, rel=1e-6, nan_ok=True)
    assert found.cost == pytest.approx(np.cosh(0.5), rel=1e-2)


# the largest speed


def test_the_largest_speed_is_where_the_force_meets_its_limit() -> None:
    """x = 1 - cos(s t) takes the force s^2 cos(s t): with 4 N it is s = 2, at t = 0."""
    loop = servonode.load(launch(FOLLOWING, 10.0, 3.0, plant={"actuator": {"limit": 4.0}}, target=CIRCLE))
    found = loop.fastest()
    assert found.speed == pytest.approx(2.0, rel=0.006)
    assert found.broken is not None
    assert (found.broken.first, found.broken.first_t) == ("F", 0.0)
    assert [each.speed for each in found.drives] == sorted(each.speed for each in found.drives)
    shares = {each.speed: each.shares["F"] for each in found.drives if not each.reason}
    assert all(share == pytest.approx(speed**2 / 4, rel=1e-3) for speed, share in shares.items())
    assert found.lines[0] == "[run]"
    assert found.lines[3].startswith('x_d = "1 - cos((1.99')
    figure = found.plot()
    figure.canvas.draw()
    assert figure.axes[0].get_xlabel() == "speed of the goal, times the launch file's"


@pytest.mark.parametrize("stated", [{}, {"controller__settings__g": "0.2*sin(0.3*t)"}], ids=["default", "stated"])
def test_lines_of_a_faster_goal_have_the_functions_of_settings_too(stated: dict[str, str]) -> None:
    loop = servonode.load("trailer_hitch_swing", **stated, run__duration=30.0)
    lines = _lines(loop.closed_loop, 1.5004)
    assert lines[1:3] == ("duration = 20", "[controller.settings]")
    name, _, text = lines[3].partition(" = ")
    faster = servonode.load("trailer_hitch_swing", controller__settings__g=text.strip('"'))
    assert (len(lines), name) == (4, "g")
    for t in (0.0, 3.0, 20.0):
        whole, own = faster.closed_loop.goal(t)[0], loop.closed_loop.goal(1.5 * t)[0]
        assert whole == pytest.approx(own, rel=1e-12, abs=1e-12)


def test_a_goal_through_points_has_a_remedy_in_place_of_lines() -> None:
    """Rest to rest over d = 1 m in T by a quintic takes the acceleration 10/sqrt(3) d/T^2 at most."""
    target = {"x_d": {"points": [[0, 0.0], [10, 1.0]], "degree": 5}}
    loop = servonode.load(launch(FOLLOWING, 10.0, 3.0, plant={"actuator": {"limit": 1.0}}, target=target))
    found = loop.fastest()
    assert found.speed == pytest.approx(10 * np.sqrt(np.sqrt(3) / 10), rel=0.006)
    assert (found.lines, found.curve) == ((), "x_d")
    words = " ".join(str(found).split())
    assert "target.x_d leads through points, which no lines replace: divide all their times, and put" in words


def test_check_names_the_largest_speed_where_an_input_is_at_its_limit() -> None:
    report = servonode.load(
        launch(FOLLOWING, 10.0, 3.0, plant={"actuator": {"limit": 0.5}}, target=CIRCLE), strict=False
    ).check()
    texts = [each.text for each in report.findings if each.subject == "F" and each.level == "warn"]
    assert any("at 0.7 times the goal's speed (0.7*t for t) no limit is reached" in text for text in texts)


REFUSED = {
    "snowboarder_falls": "has no [controller], so there is no goal to drive",
    "snowboarder_too_weak": "the goal of program slalom has no function of t in [target]",
    "trailer_pursuit": "limits no input, so nothing says how fast is too fast; give plant.actuator.limit",
}


@pytest.mark.parametrize(("file", "text"), REFUSED.items())
def test_a_goal_without_speed_or_limit_is_one_line_and_exit_code_2(file: str, text: str) -> None:
    result = command("fastest", file)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert text in result.stderr


def test_a_start_that_asks_for_too_much_has_no_largest_speed(tmp_path: Path) -> None:
    words = ("--set", "plant.actuator.limit=0.3", "--json", "--output", str(tmp_path / "fastest.png"))
    result = command("fastest", "trailer_look_ahead", *words)
    printed = json.loads(result.stdout)
    assert (result.exit_code, printed["speed"], printed["lines"]) == (0, 0.0, [])
    assert (tmp_path / "fastest.png").is_file()
