"""What check says of keeps, against closed forms: what stops, edges without input, goals beyond, rows that conflict."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy

import servonode
from servonode.analysis.keeping import EDGE, Rows, starts
from servonode.closed_loop.keeping import approach
from servonode.closed_loop.launch_error import LaunchError
from servonode.controllers.engine.keeping import KeepNumbers
from servonode.mechanics import Model, coordinate, input_, parameter
from tests.helpers.small_machines import cart_pole

M, F = 2.0, 10.0  # of the cart
x = coordinate("x", "place", "m")
phi = coordinate("phi", "angle from hanging", "rad")


def cart() -> Model:
    force = input_("F", "force", "N", limit=F)
    return Model("cart", "a cart", coordinates=(x,), kinetic=M * x.rate**2 / 2, inputs={force: x.rate})


def pendulum() -> Model:
    """A bob of 1 kg at 1 m whose weight is 10 N, and a motor of 2 N m."""
    g = parameter("g", "weight", "N m", default=10.0)
    torque = input_("tau", "torque", "N m", limit=2.0)
    energy = phi.rate**2 / 2
    potential = -g * sympy.cos(phi)
    return Model(
        "pendulum", "", energy, coordinates=(phi,), parameters=(g,), potential=potential, inputs={torque: phi.rate}
    )


CASES: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "wall": (cart, {"keep": {"wall": "1 - x"}, "residuals": {"place": "x - 2*sin(t)"}, "controller__limits": "keep"}),
    "steep": (
        cart,
        {"keep": {"wall": {"expression": "1 - x", "brake": 8.0}}, "residuals": {"place": "x - 0.5*sin(t)"}},
    ),
    "pole": (
        cart_pole,
        {"keep": {"level": "pi/2 - theta", "low": "1.2 - theta"}, "residuals": {"place": "x - 0.1*sin(t)"}},
    ),
    "gap": (cart, {"keep": {"a": "F - 20 + x", "b": "3 - x"}, "residuals": {"place": "x - 0.1*sin(t)"}}),
    "lift": (
        pendulum,
        {"keep": {"up": {"expression": "0.6 - phi", "brake": 1.5}}, "residuals": {"angle": "phi - 0.1*sin(t)"}},
    ),
    "crash": (cart, {"keep": {"wall": {"expression": "1 - x", "brake": 8.0}}, "residuals": {"place": "x - 2*sin(t)"}}),
    "hot": (
        pendulum,
        {"keep": {"fast": "2 - phi_dot"}, "residuals": {"angle": "phi - 0.1*sin(t)"}, "gains": {"lambda": 1.0}},
    ),
    "slow": (
        cart,
        {"keep": {"fast": {"expression": "0.5 - x_dot", "rate": 30.0}}, "residuals": {"place": "x - 2*sin(t)"}},
    ),
}


def loop(name: str, **more: Any) -> servonode.Loop:
    machine, stated = CASES[name]
    given = {"gains": {"lambda": 5.0}, "duration": 3.0, "period": 0.005, **stated, **more}
    return servonode.load(machine, strict=False, **given)


@cache
def report(name: str) -> Any:
    return loop(name).check()


def said(name: str, keep: str) -> str:
    return "\n".join(f"{each.level}: {each.text}" for each in report(name).findings if each.subject == f"keep {keep}")


def numbers(name: str, keep: str) -> dict[str, Any]:
    found: dict[str, Any] = report(name).numbers["keeps"][keep]
    return found


def test_its_numbers_are_one_line() -> None:
    assert "1 - x, relative degree 2, rate 66.67 1/s, brake 2.5 m/s^2 (auto), margin 0 m, tolerance 0.001 m" in said(
        "wall", "wall"
    )
    assert "brake 8 m/s^2, margin" in said("steep", "wall")


def test_the_speed_from_which_it_stops_is_that_of_a_braked_cart() -> None:
    brake = F / M / 2
    found = numbers("wall", "wall")
    rate = found["rate"]
    assert found["stops_from"] == pytest.approx(np.sqrt(brake * (2.0 - brake / rate**2)), rel=1e-4)
    assert (found["stops_within"], found["deceleration"]) == pytest.approx((1.0, F / M), rel=1e-5)
    assert "good: with F at most 10 N it can stop from 2.24 m/s within 1 m, as fast as" in said("wall", "wall")


def test_a_brake_above_what_the_inputs_give_is_told_with_the_one_that_fits() -> None:
    found = numbers("steep", "wall")
    assert found["stops_from"] == pytest.approx(np.sqrt(2 * F / M), rel=1e-4)
    assert found["brake_that_fits"] == pytest.approx(0.9 * F / M, rel=1e-4)
    assert "a brake of 8 m/s^2 is more than they give" in said("steep", "wall")


def test_what_the_inputs_cannot_hold_is_told_with_its_place() -> None:
    assert "good: with tau at most 2 N m it can stop" in said("lift", "up")  # gravity helps
    text = "tau at most 2 N m cannot stop it at phi = "
    found = loop("lift", keep={"down": "phi + 0.6"}, initial={"phi": 0.0}).check()
    assert "cannot stop" not in str(found)
    hung = loop("lift", keep={"up": "phi - 0.3"}, initial={"phi": 0.5}).check()  # 2 N m hold up to sin(phi) = 0.2
    assert text in hung.text()


def test_where_no_input_moves_its_edge_is_found() -> None:
    text = said("pole", "level")
    assert "no input moves its edge at theta = 1.57, so that nothing keeps it there" not in text
    assert "no input moves its edge at theta = 1.57" in text
    assert "no input moves" not in said("pole", "low")
    assert numbers("pole", "level")["without_input"]["theta"] == pytest.approx(np.pi / 2, abs=1e-5)


def test_when_the_goal_passes_through_what_is_forbidden_is_that_of_the_law_alone() -> None:
    free = loop("wall", keep={}, controller__limits="clip").simulate(every=1)
    beyond = free.t[free.state["x"] > 1.0]
    goal = numbers("wall", "wall")["goal"]
    assert (goal["from"], goal["to"]) == pytest.approx((beyond[0], beyond[-1]), abs=0.01)
    assert goal["by"] == pytest.approx(free.state["x"].max() - 1.0, abs=1e-3)
    assert "without it the run passes through what it forbids" in said("wall", "wall")
    assert "left for it: place by up to" in said("wall", "wall")
    assert "the goal passes" not in said("steep", "wall")


def test_rows_that_exclude_each_other_are_told_with_both_names() -> None:
    rows = Rows(loop("wall", keep={"a": "10 - F", "b": "1 - x"}).closed_loop)
    table = rows.at(0.0, rows.loop.start)
    assert rows.conflict(table) == []
    assert rows.conflict(np.array([[0, 0, 6.0, 0, 1.0], [0, 0, -5.0, 1, -1.0]])) == [0, 1]
    assert rows.conflict(np.array([[0, 0, 5.0, 0, 1.0], [0, 0, -6.0, 1, -1.0]])) == []
    assert rows.conflict(np.array([[0, 0, 11.0, 0, 1.0], [0, 0, -6.0, 1, -1.0]])) == [0]
    assert rows.conflict(np.array([[0, 0, 0.1, 0, 0.0]])) == [0]


def test_along_the_run_and_from_other_starts_the_first_conflict_is_told() -> None:
    text = said("crash", "wall")
    assert "along the run and from 24 of 24 other starts, first at t = 0.5" in text
    assert "it needs more than F at most 10 N" in text


def test_a_run_that_its_limits_cut_behind_the_law_is_told_to_keep_them() -> None:
    found = loop("wall", controller__limits="clip").check()
    assert 'give controller.limits = "keep"' in found.text()
    assert 'give controller.limits = "keep"' not in report("wall").text()


def test_limits_behind_integrators_are_told() -> None:
    crane = Path(__file__).parents[2] / "examples/kept/crane.toml"
    changed = {"run.duration": 0.05, "controller.limits": "keep", "plant.safety.limit.F": 150.0}
    found = servonode.load(crane, strict=False, values=changed).check().findings
    (told,) = (each.text for each in found if each.subject == "limits")
    assert "while an input is at its limit demanded_M_w, demanded_M_w_dot may wind up" in told


def test_starts_keep_and_reach_to_the_edge() -> None:
    closed_loop = loop("wall").closed_loop
    rows, found = Rows(closed_loop), starts(closed_loop, 200, seed=3)
    assert found.shape == (200, 3)
    assert all(rows.keeps_at(each) for each in found)
    wide = starts(closed_loop, 200, seed=3, spread=np.array([1.5, 0.1]))
    assert np.abs(wide[:, 1]).max() <= 0.1
    for some, ends in ((found, np.array([0.5, 0.5])), (wide, np.array([1.5, 0.1]))):
        near = np.array([1.0 - each[0] < 0.08 or (np.abs(each[:2]) >= (1 - EDGE) * ends).any() for each in some])
        assert near[::2].all()
        assert 0.5 <= near.mean() < 0.75
    assert 0.9 < wide[:, 0].max() <= 1.0
    assert np.array_equal(found, starts(closed_loop, 200, seed=3))
    assert not np.array_equal(found, starts(closed_loop, 200, seed=4))


def test_a_start_is_promised_only_where_it_keeps_until_a_command_acts() -> None:
    late = Rows(loop("hot", controller__delay=1).closed_loop)
    for speed, kept in ((1.8, True), (1.99, True), (1.993, False), (1.999, False)):  # 1.5 rad/s^2 for 5 ms
        assert late.keeps_at(np.array([-np.arcsin(0.15), speed, 0.0])) is kept
        assert Rows(loop("hot").closed_loop).keeps_at(np.array([-np.arcsin(0.15), speed, 0.0]))


def test_sampling_takes_from_the_margin_what_a_speed_goes_on_for_a_period() -> None:
    found = numbers("slow", "fast")
    assert found["relative_degrees"] == [1]
    assert found["least"] >= -found["taken"] - 1e-12
    assert found["promised"] is None or found["promised"] <= 1e-3 * found["range"] + 1e-15
    assert found["grid"] == 20


def test_a_barrier_of_relative_degree_2_has_the_speed_of_its_brake() -> None:
    numbers = KeepNumbers(10.0, 3.0, 0.0, 1e-3)
    edge = 3.0 / 10.0**2
    assert approach(edge / 2, numbers) == pytest.approx(5 * edge)
    assert approach(edge, numbers) == pytest.approx(approach(edge * (1 + 1e-12), numbers))
    assert approach(1.0, numbers) ** 2 == pytest.approx(3.0 * (2.0 - edge))


REFUSED = {
    "two that exclude each other": (
        {"keep": {"right": "x - 2", "left": "1 - x"}, "initial": {"x": 0.5}},
        "keep right: x - 2 is -1.5 m.*; right, left exclude each other: no state was found that keeps them all",
    ),
    "a start beside what is kept": (
        {"keep": {"right": "x - 2", "left": "3 - x"}, "initial": {"x": 0.5}},
        "or start where it is kept, such as at x = 2.15",
    ),
    "a start too fast": (
        {"initial": {"x": 0.0, "x_dot": 3.0}},
        r"keep wall: the start approaches it at 3 m/s, faster than the 2.23 of its barrier.* give brake = 4.5",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_start_from_which_nothing_is_kept_is_refused_before_anything_moves(case: str) -> None:
    changed, says = REFUSED[case]
    stated = {"gains": {"lambda": 5.0}, "duration": 1.0, "controller__limits": "keep", **CASES["wall"][1]}
    with pytest.raises(LaunchError, match=says):
        servonode.load(cart, **{**stated, **changed})
