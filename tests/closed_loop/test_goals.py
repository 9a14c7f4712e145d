"""Goals of any order in a launch file: through points and samples, followed alike in every execution mode."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.closed_loop.launch_file import LaunchError
from tests.helpers.machines import assert_same_bits

MACHINE = '''"""A mass that a force pushes along a line."""

from servonode.mechanics import Model, coordinate, input_


def model() -> Model:
    x, F = coordinate("x", "place", "m"), input_("F", "force", "N")
    return Model(name="mass", description="a mass", coordinates=(x,), kinetic=x.rate**2 / 2, inputs={F: x.rate})
'''
POINTS = "{points = [[0.1, 0.0], [0.3, 0.5], [0.7, 0.25]]}"
LAUNCH = """[run]
duration = 1.0
mode = "lockstep"
[plant]
machine = "./machine.py:model"
[controller]
residuals = {jerk = "x_dot - goal_d3"}
[target]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the machine, and samples of two columns."""
    folder = tmp_path_factory.mktemp("goals")
    (folder / "machine.py").write_text(MACHINE)
    t = np.linspace(0.0, 1.0, 41)
    rows = [f"{a!r},{math.sin(3 * a)!r},{a * a!r}" for a in t.tolist()]
    (folder / "mass.csv").write_text("\n".join(["t,goal,square", *rows]) + "\n")
    return folder


def written(folder: Path, goal: str, name: str = "launch") -> str:
    file = folder / f"{name}.toml"
    file.write_text(f"{LAUNCH}goal = {goal}\n")
    return str(file)


def refusal(folder: Path, goal: str) -> str:
    with pytest.raises(LaunchError) as caught:
        servonode.load(written(folder, goal))
    return str(caught.value).partition("[")[2]


def test_a_law_finds_the_fourth_derivative_of_an_expression(folder: Path) -> None:
    loop = servonode.load(written(folder, '"0.3*sin(2*t)"'))
    assert loop.closed_loop.targets.entries == ("goal", "goal_dot", "goal_ddot", "goal_d3", "goal_d4")
    force = loop.law(0.25, {"x": 0.0, "x_dot": -2.4 * np.cos(0.5)})["F"]
    assert force == pytest.approx(4.8 * np.sin(0.5), rel=1e-13)  # x'' = g'''' where the residual is zero


@pytest.mark.parametrize("goal", ['"0.3*sin(2*t)"', POINTS, '{samples = "mass.csv"}'])
def test_the_fused_loop_and_the_nodes_have_the_same_bits_with_order_4(folder: Path, goal: str) -> None:
    file = written(folder, goal)
    ours, theirs = (servonode.simulate(file, loop=loop, every=1) for loop in ("fused", "nodes"))
    assert ours.residual_max["jerk"] > 0
    assert_same_bits(ours, theirs)


def test_samples_are_followed_as_the_function_that_they_are_of(folder: Path) -> None:
    targets = servonode.load(written(folder, '{samples = "mass.csv"}')).closed_loop.targets
    times = np.linspace(0.1, 0.9, 33)
    found = targets.table(times)
    assert_allclose(found[:, 0], np.sin(3 * times), atol=1e-9)
    assert_allclose(found[:, 3], -27 * np.cos(3 * times), atol=2e-4)
    square = servonode.load(written(folder, '{samples = "mass.csv", column = "square"}')).closed_loop.targets
    assert_allclose(square.table(times)[:, :4], np.stack([times**2, 2 * times, 2 + 0 * times, 0 * times], 1), atol=1e-7)


def test_a_goal_may_be_changed_for_one_simulation(folder: Path) -> None:
    loop = servonode.load(written(folder, POINTS))
    other: dict[str, Any] = {"goal": {"points": [[0.0, 0.0], [1.0, 1.0]], "stops": True}}
    run = loop.simulate(targets=other)
    assert run.targets["goal"][-1] == pytest.approx(1.0, abs=1e-14)
    assert loop.simulate().targets["goal"][-1] == pytest.approx(0.25, abs=1e-12)


@pytest.mark.parametrize(("goal", "said"), [
    ('{samples = "mass.csv", degree = 3}', "target.goal] degree: law 'residuals' needs derivative 4 of goal; the "
     "spline of mass.csv, of degree 3, has 2 continuous ones: write degree = 5, or leave it out"),
    ("{points = [[0, 0], [1, 1]], stops = true, degree = 7}", "target.goal] degree: law 'residuals' needs derivative 4 "
     "of goal; the polynomials between stops, of degree 7, have 3 continuous ones: write degree = 9"),
    ("{points = [[0, 0], [1, 1]], degree = 8}", "target.goal] degree: 8 is even; give 9"),
    ("{points = [[0, 0], [1, 1]], degree = 19}", "target.goal] degree: 19 is not a whole number >= 3 and <= 17"),
    ("{points = [[0, 0], [1, 1], [1, 2]]}", "target.goal] points: the time 1 s follows 1 s; give each point a later"),
    ("{points = [[0, 0]]}", "target.goal] points: 1 are too few; give at least 2 pairs of time and value"),
    ("{points = [[0, 0], [1, 1, 1]]}", "target.goal] points: "),
    ("{points = [[0, 0], [1, nan]]}", "target.goal] points: "),
    ("{stops = true}", 'target.goal] points: missing; give pairs of time and value, [[0, 0.0], [2, 1.5]], or samples'),
    ('{points = [[0, 0], [1, 1]], ends = "free"}', "target.goal] points: the spline through the points has 2 points; "
     "with free ends and degree 5, which the law 'residuals' needs for derivative 4, it takes 6: give more, or ends"),
    ('{points = [[0, 0], [1, 1]], ends = "free", stops = true}', 'target.goal] ends: "free" does not go with stops'),
    ('{points = [[0, 0], [1, 1]], column = "x"}', "target.goal] column: there are no samples with columns"),
    ('{samples = "nothing.csv"}', "target.goal] samples: "),
    ('{samples = "mass.csv", column = "squar"}', "target.goal] column: "),
    ('{point = [[0, 0], [1, 1]]}', "target.goal] point: unknown key; did you mean points?"),
    ("[1, 2]", "target] goal: [1, 2] is not a text, a number or a table by name"),
])  # fmt: skip
def test_a_goal_that_cannot_be_is_refused_with_the_remedy(folder: Path, goal: str, said: str) -> None:
    assert said in refusal(folder, goal)


def test_a_name_that_is_unknown_is_not_lost_among_derivatives(folder: Path) -> None:
    file = written(folder, '"t"')
    with pytest.raises(LaunchError, match="an expression may use goal, goal_ddot, goal_dot, t, x, x_dot, pi, numbers"):
        servonode.load(file, controller__residuals={"jerk": "x_dot - gaol_d3"})


def test_a_check_says_where_a_goal_jumps(folder: Path) -> None:
    said = {goal: [each.text for each in servonode.check(written(folder, goal)).findings if each.subject == "goal"]
            for goal in (POINTS, POINTS.replace("]]", "]], degree = 7"), POINTS.replace("0.7", "2.0"))}  # fmt: skip
    smooth, ends_with_snap, ends_later = said.values()
    assert smooth == ends_later == []
    begin, end = ends_with_snap
    assert begin.startswith("goal begins at t = 0.1 s with goal_d4 = ")
    assert end.startswith("goal ends at t = 0.7 s with goal_d4 = ")
    assert "which is 0 on the other side: it jumps; let it end at rest (ends, degree), or run for as long" in end


@pytest.mark.parametrize(("text", "said"), [
    ("", "has no column t; its first line must name its columns"),
    ("x,goal\n0,1\n", "has no column t"),
    ("t,other\n0,1\n", "has no column 'goal'; write column = one of other"),
    ("t,goal\n0,1\n1,\n", "line 3: goal is '', which is not a finite number"),
    ("t,goal\n0,1\n1,inf\n", "line 3: goal is 'inf', which is not a finite number"),
    ("t,goal\n0,1\n1\n", "line 3: goal is '', which is not a finite number"),
    ("t,goal\n1,1\n0,1\n2,2\n", "samples: the time 0 s follows 1 s"),
])  # fmt: skip
def test_a_file_of_samples_that_cannot_be_read_is_refused(folder: Path, text: str, said: str) -> None:
    (folder / "bad.csv").write_text(text)
    assert said in refusal(folder, '{samples = "bad.csv"}')
