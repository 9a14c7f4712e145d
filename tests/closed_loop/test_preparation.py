"""Machines that prepare their own runs: start, parameters, step; faults whose time is located."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import servonode
from servonode.closed_loop.launch_file import LaunchError
from tests.helpers.refusals import command

MACHINE = """
from math import cos, sin

from servonode.mechanics import Model, condition, coordinate, parameter
from servonode.plants.prepare import Preparation, Prepared, Unprepared


def prepare(wanted):
    if "angle" not in wanted.initial:
        return Prepared(dict(wanted.initial), {"E": 1.0}, notes=("no angle was given",))
    angle, kind = wanted.initial["angle"], wanted.initial.get("kind", "level")
    if kind not in ("level", "steep"):
        raise Unprepared("plant.initial", "kind", f"{kind!r} is unknown; choose level, steep")
    E = wanted.parameters["E"] if "E" in wanted.given else wanted.parameters["m"] * 2
    step = None if wanted.step else wanted.duration / 100
    return Prepared({"x": cos(angle), "y": sin(angle)}, {"E": E}, step)


PREPARE = Preparation(prepare, start=("angle", "kind"), auto=("E",), settles_step=True)


def model():
    x, y = coordinate("x", "x", "m"), coordinate("y", "y", "m")
    m, E = parameter("m", "mass", "kg", default=3.0), parameter("E", "energy", "J", default=1.0)
    return Model(
        name="point",
        description="point mass that falls",
        kinetic=m * (x.rate**2 + y.rate**2) / 2,
        potential=10 * m * y,
        parameters=(m, E),
        coordinates=(x, y),
        faults=(condition(y > -2, "fell below -2 m"),),
    )
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("point")
    (folder / "point.py").write_text(MACHINE)
    (folder / "plain.py").write_text(MACHINE.replace("PREPARE =", "UNUSED ="))
    return folder


def launch(folder: Path, machine: str = "point", duration: float = 0.5, **plant: Any) -> dict[str, Any]:
    return {"run": {"duration": duration}, "plant": {"machine": f"{folder}/{machine}.py:model", **plant}}


def test_start_and_parameters_are_the_machines(folder: Path) -> None:
    run = servonode.simulate(launch(folder, initial={"angle": 1.0}))
    assert run.state["x"][0] == math.cos(1.0)
    assert run.state["y"][0] == math.sin(1.0)
    assert run.closed_loop.machine.parameters == {"m": 3.0, "E": 6.0}


def test_auto_is_as_if_nothing_were_given_and_a_number_is_kept(folder: Path) -> None:
    for stated, energy in (("auto", 8.0), (2.5, 2.5)):
        plant = {"initial": {"angle": 1.0}, "parameters": {"E": stated, "m": 4.0}}
        assert servonode.simulate(launch(folder, **plant)).closed_loop.machine.parameters == {"m": 4.0, "E": energy}


def test_a_step_is_chosen_where_it_is_auto(folder: Path) -> None:
    run = servonode.simulate(launch(folder, initial={"angle": 1.0}, step="auto"))
    assert run.closed_loop.launch.plant.step == 0.005
    assert run.steps == 100
    assert run.t[-1] == 0.5


@pytest.mark.parametrize(
    ("plant", "section", "key", "text"),
    [
        ({"initial": {"angle": 1.0, "kind": "wide"}}, "plant.initial", "kind", "'wide' is unknown; choose level"),
        ({"initial": {"angel": 1.0}}, "plant.initial", "angel", "did you mean angle"),
        ({"initial": {"angle": True}}, "plant.initial", "angle", "True is neither a number nor a text"),
        ({"actuator": {"limit": 1.0}}, "plant.actuator", None, r"has no inputs; leave \[plant.actuator\] out"),
        ({"initial": {"x": "much"}}, "plant.initial", "x", "'much' is not a number"),
        ({"parameters": {"m": "auto"}}, "plant.parameters", "m", 'give a number; "auto" is for E'),
        ({"step": 0.3}, "run", "duration", "is not a whole number of plant steps"),
    ],
)
def test_what_cannot_be_prepared_names_section_and_key(
    folder: Path, plant: dict[str, Any], section: str, key: str | None, text: str
) -> None:
    with pytest.raises(LaunchError, match=text) as caught:
        servonode.simulate(launch(folder, **plant))
    assert (caught.value.section, caught.value.key) == (section, key)


def test_a_machine_that_prepares_nothing_takes_no_auto(folder: Path) -> None:
    with pytest.raises(LaunchError, match="does not choose its step; give a number of seconds"):
        servonode.simulate(launch(folder, "plain", step="auto"))
    with pytest.raises(LaunchError, match=r"plain.py:model does not choose it; give a number$"):
        servonode.simulate(launch(folder, "plain", parameters={"E": "auto"}))


def test_a_failing_preparation_is_one_line_of_the_users_file(folder: Path) -> None:
    (folder / "broken.py").write_text(MACHINE.replace('wanted.parameters["m"] * 2', 'wanted.parameters["mass"] * 2'))
    with pytest.raises(LaunchError, match=r"broken.py line 14: KeyError: 'mass'; correct this line"):
        servonode.simulate(launch(folder, "broken", initial={"angle": 1.0}))
    (folder / "no.py").write_text(MACHINE + "\nPREPARE = prepare\n")
    with pytest.raises(LaunchError, match=r"no.py: PREPARE is no Preparation; write it as PREPARE = Preparation"):
        servonode.simulate(launch(folder, "no"))


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ('Prepared({"qq": 1.0}, {"E": 1.0})', "initial 'qq', which the machine does not have"),
        ('Prepared({"x": "a"}, {"E": 1.0})', "x = 'a', which is not a finite number"),
        ('Prepared({"x": float("nan")}, {"E": 1.0})', "x = nan, which is not a finite number"),
        ("Prepared({})", "no E, which was left to it"),
        ('Prepared({}, {"E": 1.0}, notes="hello")', "notes that are one text instead of a tuple of texts"),
        ("None", "None; let it return Prepared"),
    ],
)
def test_what_a_preparation_gives_is_checked(folder: Path, answer: str, complaint: str) -> None:
    file = folder / "answers.py"
    file.write_text(MACHINE.replace('    if "angle" not in', f"    return {answer}\n    if 'angle' not in"))
    with pytest.raises(LaunchError, match=re.escape(complaint)):
        servonode.simulate(launch(folder, "answers"))


def test_a_step_that_was_left_to_it_must_be_given(folder: Path) -> None:
    (folder / "stepless.py").write_text(MACHINE.replace("wanted.duration / 100", "None"))
    with pytest.raises(LaunchError, match="gave no step, which was left to it"):
        servonode.simulate(launch(folder, "stepless", step="auto", initial={"angle": 1.0}))


@pytest.mark.parametrize("stated", ["PREPARE: Preparation =", "if True:\n    PREPARE ="])
def test_a_preparation_is_found_however_it_is_stated(folder: Path, stated: str) -> None:
    (folder / "stated.py").write_text(MACHINE.replace("PREPARE =", stated))
    assert servonode.simulate(launch(folder, "stated", initial={"angle": 0.5})).state["x"][0] == math.cos(0.5)


def test_a_preparation_is_found_through_a_star_import_and_is_not_asked_of_one_without(folder: Path) -> None:
    (folder / "shared.py").write_text(MACHINE)
    stars = "from math import *\nfrom shared import *\nfrom sympy import *\n"
    (folder / "through.py").write_text(f"{stars}def model{MACHINE.partition('def model')[2]}")
    assert servonode.simulate(launch(folder, "through", initial={"angle": 0.5})).state["x"][0] == math.cos(0.5)
    (folder / "starred.py").write_text("from sympy import *\n" + MACHINE.replace("PREPARE =", "UNUSED ="))
    assert servonode.simulate(launch(folder, "starred")).state["x"][0] == 0.0


FALL = math.sqrt(2 * 2 / 10)


@pytest.mark.parametrize("publish_every", [1, 7, 500])
def test_the_time_of_a_fault_is_located_between_the_steps(folder: Path, publish_every: int) -> None:
    run = servonode.simulate(launch(folder, duration=1.0, publish_every=publish_every))
    assert run.fault is not None
    assert run.fault["t"] == pytest.approx(FALL, abs=1e-12)
    assert run.fault["text"] == "fell below -2 m"
    assert run.steps == math.ceil(FALL / 1e-3)


def test_a_fault_that_passes_by_itself_is_found_whatever_is_published(folder: Path) -> None:
    passing = MACHINE.replace('condition(y > -2, "fell below -2 m")', 'condition((y + 2)**2 > 0.01, "is at -2 m")')
    (folder / "passing.py").write_text(passing)
    reached = math.sqrt(2 * 1.9 / 10)
    for publish_every in (1, 300, 1000):
        run = servonode.simulate(launch(folder, "passing", duration=1.0, publish_every=publish_every))
        assert run.fault is not None
        assert run.fault["t"] == pytest.approx(reached, abs=1e-12)
    run = servonode.simulate(launch(folder, "passing", duration=1.0, safety={"faults": False}), every=500)
    assert [(each.text, each.t) for each in run.warnings] == [("is at -2 m", pytest.approx(reached, abs=1e-12))]


def test_a_fault_that_may_pass_is_a_warning_with_its_time(folder: Path) -> None:
    run = servonode.simulate(launch(folder, duration=1.0, safety={"faults": False}))
    assert run.fault is None
    assert run.t[-1] == 1.0
    assert [(each.text, each.t) for each in run.warnings] == [("fell below -2 m", pytest.approx(FALL, abs=1e-12))]


def test_the_command_line_says_it(folder: Path) -> None:
    file = folder / "fall.toml"
    file.write_text('[run]\nduration = 1.0\n[plant]\nmachine = "./point.py:model"\n')
    done = command("simulate", str(file), "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["fault"]["t"] == pytest.approx(FALL, abs=1e-12)
