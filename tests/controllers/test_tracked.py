"""Residuals that are an output less its goal: what is split in two, and what is not."""

import numpy as np
import pytest
from sympy import cos, sin, sympify

import servonode
from servonode.controllers import InlineProgram, residual
from servonode.controllers.engine.law_description import splits
from servonode.controllers.engine.program import Program
from servonode.errors import ModelError
from servonode.mechanics import Model, coordinate, input_, output, parameter


def crane() -> Model:
    x, theta = coordinate("x", "position of the trolley", "m"), coordinate("theta", "angle of the rod", "rad")
    rod, F = parameter("rod", "length of the rod", "m", default=1.0), input_("F", "force", "N")
    return Model(
        name="crane", description="a crane", coordinates=(x, theta), parameters=(rod,), inputs={F: x.rate},
        kinetic=x.rate**2 + (theta.rate * rod) ** 2, potential=-cos(theta),
        outputs=(output("load", "position of the load", x + rod * sin(theta), "m"),),
    )  # fmt: skip


def split_of(text: str, **program: object) -> tuple[str, str, str] | None:
    """Column, output and goal of a residual that a launch file states; None: it is not split."""
    model = crane()
    stated = InlineProgram({"r": text}, **program)  # type: ignore[arg-type]
    found = splits(model, stated.build(model, {}))
    return (found[0].described.column, str(found[0].output), str(found[0].goal)) if found else None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("theta - 0.4*sin(t)", ("theta", "theta", "0.4*sin(t)")),
        ("0.4*sin(t) - theta", ("theta", "theta", "0.4*sin(t)")),
        ("2*theta - sin(t)", ("theta", "theta", "0.5*sin(t)")),
        ("theta", ("theta", "theta", "0")),
        ("theta - 3.1", ("theta", "theta", "3.1")),
        ("x_dot - 0.2", ("x_dot", "x_dot", "0.2")),
        ("load - 0.4*sin(t)", ("load", "rod*sin(theta) + x", "0.4*sin(t)")),
        ("x + 2*rod*sin(theta) - t", ("", "2*rod*sin(theta) + x", "t")),
        ("x + 2*rod*sin(theta)", None),  # the residual is the output itself
        ("theta - sin(t)*x", ("theta", "theta", "x*sin(t)")),  # a reference that depends on the state
        ("x + 2*rod*sin(theta) - sin(t)*x", None),
        ("sin(theta - t)", None),
    ],
)
def test_a_residual_is_an_output_less_what_has_no_state(text: str, found: tuple[str, str, str] | None) -> None:
    assert_split(split_of(text), found)


def assert_split(split: tuple[str, str, str] | None, expected: tuple[str, str, str] | None) -> None:
    """Both have the same column, and the same expressions but for rounding."""
    if split is None or expected is None:
        assert split == expected
        return
    assert split[0] == expected[0]
    values = dict.fromkeys(("x", "theta", "rod", "x_dot", "t", "aim", "aim_dot", "g", "h"), 0.7)
    assert [float(sympify(each).subs(values)) for each in split[1:]] == pytest.approx(
        [float(sympify(each).subs(values)) for each in expected[1:]], rel=1e-14
    )


def test_targets_signals_and_settings_are_goals() -> None:
    assert split_of("theta - aim", targets=("aim",)) == ("theta", "theta", "aim")
    assert_split(split_of("theta - g*h", signals={"g": "sin(t)"}, constants=("h",)), ("theta", "theta", "g*h"))
    assert_split(split_of("theta - 0.1*aim_dot", targets=("aim",)), ("theta", "theta", "0.1*aim_dot"))


def test_a_program_states_the_output_of_a_residual() -> None:
    model = crane()
    x, theta = model["x"], model["theta"]
    of_path = residual("r", theta - sin(x), "angle less that of the path", "rad", output=theta)
    (found,) = splits(model, Program(name="p", description="", residuals=(of_path,)))
    assert (found.described.column, found.output, found.goal) == ("theta", theta, sin(x))
    with pytest.raises(ModelError, match="residual r"):
        residual("r", theta, "", output=sympify("f(x)"))


def test_a_run_has_output_and_goal_of_every_row() -> None:
    run = servonode.simulate("trailer_look_ahead", run__duration=0.2)
    (x, goal), far = run.tracked["point_x"], run.closed_loop.control
    assert far is not None
    ahead = far.law.parameters["L"]
    assert x == pytest.approx(run.state["X"] + ahead * np.cos(run.state["psi"]), abs=1e-12)
    assert goal == pytest.approx(run.targets["x"], abs=0)
    assert servonode.simulate("trailer_coast", run__duration=0.1).tracked == {}
