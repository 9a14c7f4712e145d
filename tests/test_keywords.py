"""Keywords of the public functions: one spelling of each launch key in all of them, sympy in place of texts."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy
from sympy import sin

import servonode
from servonode.closed_loop.key_table import key_of
from servonode.errors import ServonodeError
from servonode.keywords import KEYWORDS, VALUES
from servonode.mechanics import Model, coordinate, input_, t, time

x, F = coordinate("x", "place", "m"), input_("F", "force", "N")
CART = Model("cart", "a cart", coordinates=(x,), kinetic=x.rate**2, inputs={F: x.rate})
GOAL = {"place": x - sin(t) / 3}
SHORT: dict[str, Any] = {"residuals": GOAL, "duration": 0.5, "period": 0.02}
OF_LOOP = set(KEYWORDS) - {"residuals", "program", "keep"}  # whose change needs a derivation


def cart() -> Model:
    return CART


def same(one: servonode.Run, other: servonode.Run) -> bool:
    return all(np.array_equal(column, other.columns[name]) for name, column in one.columns.items())


@pytest.fixture(scope="module")
def loop() -> servonode.Loop:
    return servonode.load("trailer_pursuit", duration=0.1)


@pytest.mark.parametrize(
    "function", [servonode.simulate, servonode.check, servonode.run, servonode.load, servonode.sweep]
)
def test_each_function_has_all_of_them_and_each_is_a_key(function: Callable[..., Any]) -> None:
    arguments = inspect.signature(function).parameters
    assert {*KEYWORDS, VALUES} <= set(arguments)
    assert OF_LOOP | {VALUES} <= set(inspect.signature(servonode.Loop.simulate).parameters)
    assert all(key_of(key) is not None for key in KEYWORDS.values())


@pytest.mark.parametrize("residual", [GOAL["place"], "x - sin(t)/3", sympy.Eq(x, sin(sympy.Symbol("t")) / 3)])
@pytest.mark.parametrize("machine", [CART, cart, lambda: CART], ids=["Model", "function", "lambda"])
def test_a_model_with_keywords_is_the_run_of_nested_mappings(machine: Any, residual: Any) -> None:
    controller = {"period": 0.02, "residuals": {"place": "x - sin(t)/3"}}
    nested = servonode.simulate({"run": {"duration": 0.5}, "plant": {"machine": CART}, "controller": controller})
    found = servonode.simulate(machine, **SHORT | {"residuals": {"place": residual}})
    assert same(found, nested)
    assert time is t


@pytest.mark.parametrize("spelling", [
    {"controller__gains__lambda": 3.0}, {"controller__gains": {"lambda": 3.0}}, {"gains": {"lambda": 3.0}},
    {"gains": {"lambda": sympy.Integer(3)}}, {"values": {"controller.gains.lambda": 3.0}},
])  # fmt: skip
def test_all_spellings_of_a_key_give_one_run_from_a_launch_file_and_from_a_loop(
    spelling: Any, loop: servonode.Loop
) -> None:
    wanted = loop.simulate(values={"controller.gains.lambda": 3.0})
    assert not same(wanted, loop.simulate())
    assert same(loop.simulate(**spelling), wanted)
    assert same(servonode.simulate("trailer_pursuit", **{"duration": 0.1, **spelling}), wanted)


def test_entries_are_changed_and_residuals_and_limits_replaced(loop: servonode.Loop) -> None:
    found = loop.simulate(targets={"x": 2 + sin(t)}, initial={"phi": sympy.pi / 8}, limits={"U1": 0.2}, duration=0.2)
    assert found.state["phi"][0] == np.pi / 8
    assert found.targets["x"][-1] == pytest.approx(2 + np.sin(0.2), rel=1e-15)
    assert np.ptp(found.targets["y"]) == np.ptp(loop.simulate(duration=0.2).targets["y"])
    assert np.abs(found.input["U1"]).max() <= 0.2
    first = servonode.load(CART, **SHORT, limits=2.0, program=None)
    assert first.closed_loop.launch.plant.actuator.limit == 2.0
    controller = first.closed_loop.launch.controller
    assert controller is not None
    assert controller.residuals == {"place": "x - sin(t)/3"}


def test_keeps_of_sympy_are_those_of_texts() -> None:
    found = servonode.load(CART, **SHORT, keep={"wall": 0.1 - x, "far": {"expression": x + sympy.Rational(1, 2)}})
    controller = found.closed_loop.launch.controller
    assert controller is not None
    assert [each.expression for each in controller.keeps.values()] == ["0.1 - x", "x + 1/2"]
    assert same(found.simulate(), servonode.simulate(CART, **SHORT, keep={"wall": "0.1 - x", "far": "x + 1/2"}))


def test_a_program_may_be_given_and_a_machine_be_named() -> None:
    assert servonode.load("diff_drive_trailer").closed_loop.control is None
    assert servonode.load("servonode.plants.diff_drive_trailer:model").machine.description.name == "diff_drive_trailer"
    found = servonode.check("diff_drive_trailer", program="rates", duration=0.1)
    assert set(found.residuals) == {"speed", "rate"} or found.residuals


def test_the_speed_of_the_goal_is_a_value_everywhere(loop: servonode.Loop) -> None:
    held = servonode.simulate("trailer_pursuit", duration=0.1, values={"goal.speed": 0})
    assert np.ptp(held.targets["x"]) == 0.0
    assert same(held, loop.simulate(goal__speed=0))
    with pytest.raises(ServonodeError, match=r"\[goal\] speed: no function of t"):
        servonode.check(CART, **SHORT, goal__speed=2)


z = sympy.Symbol("z")


@pytest.mark.parametrize(("keywords", "text"), [
    ({"residuals": {"place": z - x}}, r"<cart> \[controller\] residuals.place: unknown name 'z'.* may use t, x, x_dot"),
    ({"residuals": {"place": sympy.sign(x)}}, r"residuals: 'sign\(x\)' is not part of an expression; use abs, .*tanh"),
    ({"residuals": {"place": sympy.Symbol("x + 1")}}, r"'x \+ 1' is not a name"),
    ({"residuals": {"place": sympy.I * x}}, r"'I' in '.*' is not a real number"),
    ({"residuals": {"place": x < 1}}, r"'x < 1' is not an expression"),
    ({"keep": 1 - x}, r"keep=1 - x is not a mapping; give values by name"),
    ({"keep": {"wall": x < 1}}, r"keep\['wall'\]: 'x < 1' is not an expression"),
    ({"keep": {"wall": {"rate": 3}}}, r"\[controller.keep\] wall: program residuals keeps nothing"),
    ({"residuals": x - 1}, r"residuals=x - 1 is not a mapping; give values by name"),
    ({"residuals": {3: x}}, r"residuals: 3 is not a name"),
    ({"period": "fast"}, r'<cart> period: "fast" is not a number > 0'),
    ({"gains": {"lamda": 3}}, r"\[controller.gains\] lamda: unknown name; did you mean lambda\?"),
    ({"limits": -1}, r"<cart> limits: -1 is not a number >= 0"),
    ({"values": {"goal.spee": 1}}, r"values\['goal.spee'\]: 'goal.spee' is no key; did you mean goal.speed\?"),
    ({"values": {"run.durations": 1}}, r"<cart> values\['run.durations'\]: unknown key; did you mean duration\?"),
    ({"durations": 3}, r"load\(\) has no argument 'durations'; did you mean duration\?"),
])  # fmt: skip
def test_what_does_not_fit_is_one_line_with_the_keyword(keywords: Any, text: str) -> None:
    with pytest.raises(ServonodeError, match=text) as raised:
        servonode.load(CART, **SHORT | keywords)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("keywords", "text"), [
    ({"residuals": {"speed": "V"}}, r"\[controller\] residuals: is part of the law's equations, which is derived"),
    ({"program": "rates"}, r"the value of program = 'rates' is not a number"),
    ({"plant__machine": "furuta"}, r"the value of plant__machine = 'furuta' is not a number"),
    ({"values": {"run.duration": "x"}}, r"the value of run.duration = 'x' is not a number"),
    ({"durations": 1}, r"simulate\(\) has no argument 'durations'; did you mean duration\?"),
    ({"initial": {"fi": 1}}, r"\[plant.initial\] fi: unknown name"),
])  # fmt: skip
def test_a_loop_refuses_what_needs_another_one(keywords: Any, text: str, loop: servonode.Loop) -> None:
    with pytest.raises(ServonodeError, match=text) as raised:
        loop.simulate(**keywords)
    assert "\n" not in str(raised.value)


def test_a_class_is_no_machine() -> None:
    with pytest.raises(ServonodeError, match=r"launch=<class .* is not a launch file; give"):
        servonode.load(Model)  # type: ignore[arg-type]
