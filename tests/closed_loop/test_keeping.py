"""What a launch file says of what is kept: its keys, the numbers that follow, and which of them change when."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.launch_file import LaunchError, launch_of_table, table_of
from servonode.closed_loop.parameters import judged, numbers_of, parameters_of
from servonode.closed_loop.variation import Variation
from servonode.controllers import Program, keep, residual
from servonode.controllers.engine.keeping import KeepNumbers
from servonode.mechanics import Model, coordinate, discrete, input_
from servonode.simulation.event_integration import SimulationError

x = coordinate("x", "place", "m")
STATED: dict[str, Any] = {"residuals": {"place": "x - 2"}, "gains": {"lambda": 5.0}, "duration": 2.0}
WALL, SIDE = "controller.keep.wall", "controller.keep.side"


def cart(**limits: float) -> Model:
    """A cart of 2 kg on which a force acts, at most 10 N."""
    force = input_("F", "force", "N", limit=10.0, **limits)
    return Model("cart", "a cart", coordinates=(x,), kinetic=x.rate**2, inputs={force: x.rate})


def loop(keep: Any = None, **more: Any) -> servonode.Loop:
    return servonode.load(cart, keep={"wall": 1.0 - x} if keep is None else keep, **STATED | more)


def law_of(found: servonode.Loop) -> Any:
    control = found.closed_loop.control
    assert control is not None
    return control.law


def numbers(found: servonode.Loop) -> dict[str, KeepNumbers]:
    made: dict[str, KeepNumbers] = law_of(found).keep_numbers
    return made


def test_a_text_counts_as_a_table_with_this_expression() -> None:
    table = {
        "run": {"duration": 1.0},
        "plant": {"machine": "diff_drive_trailer"},
        "controller": {"program": "pursuit", "keep": {"fast": "2 - V"}},
    }
    changes = ["controller.keep.fast.margin=0.1", "controller.keep.slow='V + 2'", "controller.keep.slow.rate=3"]
    controller = launch_of_table(table, changes).controller
    assert controller is not None
    assert [(each.expression, each.margin, each.rate) for each in controller.keeps.values()] == [
        ("2 - V", 0.1, None),
        ("V + 2", None, 3.0),
    ]
    again = launch_of_table(table_of(launch_of_table(table, changes))).controller
    assert again == controller


def test_what_is_absent_follows_from_period_delay_and_limits() -> None:
    found = numbers(loop({"wall": "1 - x", "fast": "3 - x_dot", "side": "F + 20"}, controller__delay=1))
    assert found["wall"] == pytest.approx((discrete.auto_rate(2, 0.01, 1), 10 / 2 / 2, 0.0, 1e-3))  # half of F/m
    assert found["fast"].rate == discrete.auto_rate(1, 0.01, 1)
    assert found["fast"].brake == found["side"].brake == np.inf
    assert numbers(loop(limits={"F": 4.0}))["wall"].brake == pytest.approx(1.0)
    stated = {"expression": "1 - x", "rate": 4.0, "brake": 3.0, "margin": 0.2, "tolerance": 0.01}
    assert numbers(loop({"wall": stated}))["wall"] == (4.0, 3.0, 0.2, 0.01)


def test_without_any_limit_the_brake_is_infinite() -> None:
    assert numbers(loop(plant__safety__limit=1e50))["wall"].brake > 1e49
    free = Model("free", "", coordinates=(x,), kinetic=x.rate**2, inputs={input_("F", "", "N"): x.rate})
    found = servonode.load(free, keep={"wall": "1 - x"}, **STATED)
    assert numbers(found)["wall"].brake == np.inf
    limited = servonode.load(free, controller__limits="keep", **STATED)
    assert "no input has a limit that controller.limits could keep" in str(limited.check())
    assert limited.simulate().fault is None


@pytest.mark.parametrize(("word", "limits"), [("clip", [[-np.inf], [np.inf]]), ("keep", [[-10.0], [10.0]])])
def test_the_law_knows_the_limits_of_inputs_where_it_is_to_keep_them(word: str, limits: Any) -> None:
    assert law_of(loop(controller__limits=word)).limits.tolist() == limits
    assert law_of(loop(controller__limits=word)).description.limited == (word == "keep")


def test_an_input_that_only_pushes_needs_a_law_that_knows_it() -> None:
    pushed = STATED | {"residuals": {"place": "x - 0.3*sin(2*t)"}}
    found = servonode.load(lambda: cart(at_least=0.0), controller__limits="keep", **pushed)
    assert law_of(found).limits.tolist() == [[0.0], [10.0]]
    assert found.simulate().input["F"].min() == 0.0
    with pytest.raises(LaunchError, match=r"\[controller\] limits: F is at least 0 N, .*give limits = \"keep\""):
        servonode.load(lambda: cart(at_least=0.0), **pushed)


def kept(machine: Model) -> Program:
    wall = keep("wall", 1 - machine["x"], "the wall", "m", margin=0.1, rate=9.0)
    return Program("kept", "", (residual("place", machine["x"] - 2, "", "m"),), keep=[wall])


def test_numbers_of_a_keep_of_the_program_are_stated_without_an_expression() -> None:
    stated = {name: value for name, value in STATED.items() if name != "residuals"} | {"program": kept}
    assert numbers(servonode.load(cart, **stated))["wall"][::2] == (9.0, 0.1)
    found = servonode.load(cart, keep={"wall": {"margin": 0.2}, "fast": "3 - x_dot"}, **stated)
    assert numbers(found)["wall"][::2] == (9.0, 0.2)
    assert found.simulate().state["x"].max() == pytest.approx(0.8, abs=1e-3)
    with pytest.raises(LaunchError, match="program kept keeps something of this name; give another one"):
        servonode.load(cart, keep={"wall": "1 - x"}, **stated)


def test_numbers_change_during_a_run_and_between_runs_without_a_new_derivation() -> None:
    found = loop({"wall": "1 - x", "side": "F + 20"})
    known = parameters_of(found.closed_loop)
    assert [key for key in known if key.startswith("controller.keep")] == [
        *(f"{WALL}.{word}" for word in ("margin", "tolerance", "rate", "brake")),
        f"{SIDE}.margin",
        f"{SIDE}.tolerance",
    ]
    assert {known[f"{WALL}.{word}"].unit for word in ("margin", "rate", "brake")} == {"m", "1/s", "m/s^2"}
    assert all(each.node == "controller" for key, each in known.items() if key.startswith("controller.keep"))
    new = judged(found.closed_loop, {}, {f"{WALL}.margin": 0.25, f"{SIDE}.tolerance": 0.5})
    assert new.control is not None
    assert new.control.law.kernel is law_of(found).kernel
    assert new.control.law.keep_numbers["wall"].margin == 0.25
    assert law_of(found).with_numbers(numbers_of(new, "controller")[: len(new.control.law.numbers())]).keep_numbers == (
        new.control.law.keep_numbers
    )
    variation = Variation(found.closed_loop, [f"{WALL}.brake", f"{WALL}.margin"])
    assert variation.units == ("m/s^2", "m")
    assert found.simulate(values={f"{WALL}.margin": 0.25}).state["x"].max() == pytest.approx(0.75, abs=1e-3)


DERIVED = "is part of the law's equations, which is derived"
UNCHANGEABLE = [
    ({f"{WALL}.expression": "2 - x"}, DERIVED), ({WALL: "2 - x"}, DERIVED), ({"controller.keep": {}}, DERIVED),
    ({f"{WALL}.priority": 2.0}, DERIVED), ({"controller.priority.place": 2.0}, DERIVED),
    ({f"{WALL}.margin": 1.5}, "1.5 m is more than the value at the initial state, 1 m"),
    ({"controller.keep.wal.margin": 0.1}, "unknown name; did you mean wall"),
    ({f"{WALL}.rate": 0.0}, "0 is not a number > 0"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "says"), UNCHANGEABLE)
def test_what_is_derived_or_does_not_fit_stays(values: dict[str, Any], says: str) -> None:
    found = loop()
    with pytest.raises(LaunchError, match=says):
        found.simulate(values=values)


def test_a_bounded_solution_is_followed_within_what_is_kept() -> None:
    goal = {"place": "x - 2*(1 - exp(-t**2))"}
    inverted = loop(residuals=goal, controller__inversion={})
    assert numbers(inverted)["wall"].brake == pytest.approx(2.5)
    assert 0.99 < inverted.simulate().state["x"].max() <= 1.0


def test_the_continuous_mode_judges_what_is_kept_at_states_that_are_reached() -> None:
    assert loop().simulate(control="continuous").state["x"].max() == pytest.approx(1.0, abs=1e-3)
    late = loop(initial={"x": 0.9, "x_dot": 5.0}, controller__limits="keep", strict=False)
    with pytest.raises(SimulationError, match=r"s keep wall: 1\.0 - x is -0\.\d* m, below 0"):
        late.simulate(control="continuous")


def test_a_setting_that_is_kept_by_alone_is_used() -> None:
    found = loop({"wall": "end - x"}, settings={"end": 1.0, "odd": 2.0})
    assert "controller.settings.odd is used by no residual" in str(found.check())
    assert "controller.settings.end is used by no residual" not in str(found.check())


class Free:
    """A controller in Python."""

    def __init__(self, plant: Any) -> None:
        pass

    def command(self, t: float, state: Any, goal: Any) -> dict[str, float]:  # noqa: ARG002
        return {"F": 0.0}


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a controller in Python": (
        lambda: servonode.load(cart, program=Free, keep={"wall": "1 - x"}),
        "keep.wall: .*is a controller in Python: what it gives is the input, which nothing is kept by",
    ),
    "its limits": (lambda: servonode.load(cart, program=Free, controller__limits="keep"), "limits: .*in Python"),
    "a number for a table": (lambda: loop({"wall": 3}), "3 is not a nonempty text or a table"),
    "41 rows": (lambda: loop({f"w{i}": f"{i + 1} - x" for i in range(41)}), "41 rows; at most 40"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept_is_refused(case: str) -> None:
    made, says = REFUSED[case]
    with pytest.raises(LaunchError, match=says):
        made()
