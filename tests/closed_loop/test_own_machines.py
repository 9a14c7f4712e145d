"""Machines and programs of a user's own: in files beside the launch file, in packages, in the launch file itself."""

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.plants import MachineSource, find_machine
from tests.helpers.machines import assert_same_bits
from tests.helpers.refusals import command as servo

Write = Callable[..., Path]

SLIDER = '''"""A slider on a rail."""

from typing import Literal

from servonode.mechanics import Model, coordinate, input_, parameter
from stiffnesses import SOFT


def model(spring: Literal["soft", "hard", "none"] = "soft", copies: int = 1, grease: bool = False) -> Model:
    """A slider on a rail, with a spring. And more."""
    x = coordinate("x", "place", "m")
    m = parameter("m", "mass", "kg", default=2.0, above=0)
    k = parameter("k", "stiffness", "N/m", default={"soft": SOFT, "hard": 50.0, "none": 0.0}[spring], at_least=0)
    c = parameter("c", "friction", "N s/m", default=0.5 if grease else 1.0, at_least=0)
    F = input_("F", "force", "N")
    return Model(
        name="slider",
        description="slider on a rail",
        coordinates=(x,),
        parameters=(m, k, c),
        kinetic=copies * m * x.rate**2 / 2,
        potential=k * x**2 / 2,
        dissipation=c * x.rate**2 / 2,
        inputs={F: x.rate},
    )
'''
PROGRAM = '''"""A goal for anything that has an x."""

from typing import Literal

from servonode.controllers import Program, residual, signal, target
from servonode.mechanics import Model, parameter


def program(machine: Model, way: Literal["ahead", "back"] = "ahead") -> Program:
    """x follows a target."""
    goal = target("goal", "the goal", "m")
    lead = signal("lead", "by how much x leads", "m", default="0.1*sin(t)")
    share = parameter("share", "share of the goal", default=1.0)
    sign = {"ahead": 1, "back": -1}[way]
    return Program(
        name="follow",
        description="x follows a target",
        residuals=(residual("place", machine["x"] - sign * share * goal - lead, "x less goal", "m", rate=2.0),),
        parameters=(share,),
        targets=(goal,),
        signals=(lead,),
    )
'''
LAUNCH = """
[run]
duration = 0.5
[plant]
machine = "./slider.py:model"
initial.x = 0.3
"""
FOLLOW = """
[controller]
program = "./follow.py:program"
[target]
goal = "0.5*cos(2*t)"
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the slider, its neighbour and its launch file into a folder; what is given replaces or adds files."""

    def write(folder: str = "mine", soft: float = 8.0, launch: str = LAUNCH, **more: str) -> Path:
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        files = {"slider": SLIDER, "stiffnesses": f"SOFT = {soft}\n", "follow": PROGRAM} | more
        for name, text in files.items():
            (place / f"{name}.py").write_text(text)
        (place / "slide.toml").write_text(launch)
        return place / "slide.toml"

    return write


def refusal(file: Path, **overrides: Any) -> str:
    """Why a launch file is refused, after its name."""
    with pytest.raises(LaunchError) as caught:
        servonode.load(file, **overrides)
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix(f"{file} ")


def stiffness(file: Path, **overrides: Any) -> float:
    """k + what else pulls at x = 1 [N/m], by the compiled motion of a mass of 2 kg."""
    return -2.0 * servonode.load(file, **overrides).derivatives(0.0, {"x": 1.0})["x_dot"]


def machine_source(file: Path) -> MachineSource:
    """The slider beside a launch file, by its path."""
    return MachineSource(find_machine("./slider.py:model", file.parent))


def stated_stiffness(file: Path) -> float:
    """The default of k, of running the slider's file."""
    return float(machine_source(file).build()["k"].quantity.default)


# files beside the launch file


def test_a_machine_in_a_file_runs_from_python_and_from_the_command_line(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = write()
    run = servonode.simulate(file)
    decay, rate = 0.25, np.sqrt(4.0 - 0.25**2)
    expected = 0.3 * np.exp(-decay * run.t) * (np.cos(rate * run.t) + decay / rate * np.sin(rate * run.t))
    assert_allclose(run.state["x"], expected, rtol=0, atol=1e-13)
    monkeypatch.chdir(tmp_path)  # the file's place is relative to the launch file, not to the working folder
    result = servo("simulate", "mine/slide.toml", "--json")
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert printed["state"] == run.final()["state"]
    assert set(printed["state"]) == {"x", "x_dot"}


def test_what_a_file_imports_from_beside_it_is_forgotten_and_two_folders_do_not_mix(write: Write) -> None:
    one, other = write("one", soft=8.0), write("other", soft=9.0)
    before = (list(sys.path), {name for name in sys.modules if "stiffnesses" in name})
    assert stiffness(one) == pytest.approx(8.0, rel=1e-14)
    assert stiffness(other) == pytest.approx(9.0, rel=1e-14)
    assert [stated_stiffness(each) for each in (one, other, one)] == [8.0, 9.0, 8.0]  # run again, whatever is cached
    assert (list(sys.path), {name for name in sys.modules if "stiffnesses" in name}) == before
    assert not list(one.parent.rglob("*.pyc"))


def test_an_edit_of_a_file_or_of_its_neighbour_is_seen_at_once(write: Write) -> None:
    file = write(soft=8.0)
    neighbour, machine = file.with_name("stiffnesses.py"), file.with_name("slider.py")
    assert stiffness(file) == pytest.approx(8.0, rel=1e-14)
    stamp = neighbour.stat()
    neighbour.write_text("SOFT = 9.0\n")  # as long as before, with the same time of change
    os.utime(neighbour, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert neighbour.stat().st_size == stamp.st_size
    assert stiffness(file) == pytest.approx(9.0, rel=1e-14)
    machine.write_text(SLIDER.replace("potential=k * x**2 / 2", "potential=k * x**2 / 4"))
    assert stiffness(file) == pytest.approx(4.5, rel=1e-14)
    machine.write_text(SLIDER)
    neighbour.write_text("SOFT = 8.0\n")
    assert stiffness(file) == pytest.approx(8.0, rel=1e-14)


def test_neighbours_of_neighbours_and_packages_beside_a_file_belong_to_it(write: Write) -> None:
    file = write(stiffnesses="from springs.steel import SOFT\n")
    springs = file.parent / "springs"
    springs.mkdir()
    (springs / "__init__.py").write_text("")
    keys = set()
    for steel, data in (("8.0", "1.0"), ("18.0", "1.0"), ("18.0", "2.0")):
        (springs / "steel.py").write_text(f"from .data import VALUE\n\nSOFT = VALUE * {steel}\n")
        (springs / "data.py").write_text(f"VALUE = {data}\n")
        assert stated_stiffness(file) == float(steel) * float(data)
        keys.add(machine_source(file).key)
    (springs / "unrelated.py").write_text("VALUE = 3.0\n")
    keys.add(machine_source(file).key)
    assert len(keys) == 3


def test_a_neighbour_is_meant_though_the_caller_has_imported_another_of_its_name(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = write("one", soft=8.0), write("other", soft=9.0)
    monkeypatch.syspath_prepend(one.parent)
    monkeypatch.setitem(sys.modules, "stiffnesses", importlib.import_module("stiffnesses"))
    assert stated_stiffness(other) == 9.0


def test_a_neighbour_may_have_a_name_that_begins_with_servonode(write: Write) -> None:
    slider = SLIDER.replace("stiffnesses", "servonode_springs")
    files = [write(each, slider=slider, servonode_springs=f"SOFT = {each}\n") for each in ("8.0", "9.0")]
    try:
        assert [stated_stiffness(file) for file in files] == [8.0, 9.0]
    finally:
        sys.modules.pop("servonode_springs", None)


# options


def test_options_of_the_function_come_from_the_settings(write: Write) -> None:
    file = write()
    loop = servonode.load(file, plant__settings={"spring": "hard", "grease": True, "copies": 2})
    # two masses of 2 kg on a spring of 50 N/m with friction 0.5
    assert loop.derivatives(0.0, {"x": 1.0, "x_dot": 2.0})["x_dot"] == pytest.approx(-51.0 / 4.0, rel=1e-14)


def test_the_default_of_an_option_may_be_a_constant_of_the_file(write: Write) -> None:
    named = SLIDER.replace("copies: int = 1", "copies: int = COPIES")
    named = named.replace("def model(", "COPIES = 1\nCOPIES = 3\n\n\ndef model(")
    loop = servonode.load(write(slider=named), plant__settings={"spring": "hard", "grease": True})
    # three masses of 2 kg on a spring of 50 N/m with friction 0.5
    assert loop.derivatives(0.0, {"x": 1.0, "x_dot": 2.0})["x_dot"] == pytest.approx(-51.0 / 6.0, rel=1e-14)


def test_options_of_a_program_come_from_the_settings(write: Write) -> None:
    file = write(launch=LAUNCH + FOLLOW)
    expected = "[controller.settings] way: 'bak' is unknown; did you mean back? choose ahead, back"
    assert expected in refusal(file, controller__settings__way="bak")
    there, back = (servonode.load(file, controller__settings__way=way) for way in ("ahead", "back"))
    assert there.residuals(0.0)["place"] == pytest.approx(0.3 - 0.5, abs=1e-15)
    assert back.residuals(0.0)["place"] == pytest.approx(0.3 + 0.5, abs=1e-15)


# packages

SELF_CONTAINED = SLIDER.replace("from stiffnesses import SOFT\n", "").replace("SOFT", "8.0")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An installed package with a machine and a program, and entry points of both."""
    site = tmp_path / "site"
    package = site / "some_robots"
    information = site / "some_robots-1.0.dist-info"
    for folder in (package, information):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "slider.py").write_text(SELF_CONTAINED)
    (package / "goals.py").write_text(PROGRAM)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: some-robots\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[servonode.machines]\nsome_slider = some_robots.slider:model\n\n"
        "[servonode.programs]\nsome_goal = some_robots.goals:program\n"
    )
    monkeypatch.syspath_prepend(site)
    yield "some_robots"
    for name in [each for each in sys.modules if each.partition(".")[0] == "some_robots"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("machine", "program"),
    [("some_slider", "some_goal"), ("some_robots.slider:model", "some_robots.goals:program")],
    ids=["entry_points", "modules"],
)
def test_machines_and_programs_of_installed_packages_run_by_name(
    package: str, tmp_path: Path, machine: str, program: str
) -> None:
    file = tmp_path / "a.toml"
    text = (LAUNCH + FOLLOW).replace("./slider.py:model", machine).replace("./follow.py:program", program)
    file.write_text(text + "[controller.settings]\nshare = 0.5\nlead = 0\n")
    run = servonode.simulate(file, control="continuous")
    f0 = 0.3 - 0.25
    assert_allclose(run.residual["place"], (f0 + 2 * f0 * run.t) * np.exp(-2 * run.t), rtol=0, atol=1e-11)


def test_the_list_shows_what_packages_add(package: str) -> None:
    lines = servo("list", "machines").stdout.splitlines()
    assert "some_slider" in [line.split()[0] for line in lines]
    assert "from some_robots.slider" in servo("list", "machines").stdout
    assert (
        json.loads(servo("list", "programs", "--json").stdout)["installed packages"]["some_goal"]
        == "from some_robots.goals"
    )


def test_a_mistyped_name_of_a_packages_machine_is_answered_with_it(package: str, write: Write) -> None:
    file = write(launch=LAUNCH.replace("./slider.py:model", "some_slidr"))
    assert "[plant] machine: 'some_slidr' is unknown; did you mean some_slider? choose " in refusal(file)


# residuals in the launch file

INLINE = """
[controller]
residuals = {place = "x - share*goal - lead"}
gains.lambda = 2.0
[controller.settings]
share = 0.75
lead = "0.1*sin(3*t)"
[target]
goal = "0.5*cos(2*t)"
"""
UNUSED = "controller.settings.share", "controller.settings.lead", "target.goal"
STATED = FOLLOW.replace(
    '"./follow.py:program"', '"./follow.py:program"\nsettings = {share = 0.75, lead = "0.1*sin(3*t)"}'
)


@pytest.mark.parametrize("control", ["sampled", "continuous"])
def test_residuals_of_the_launch_file_end_in_the_same_bits_as_the_program(write: Write, control: Any) -> None:
    inline, stated = (
        servonode.simulate(write(name, launch=LAUNCH + text), control=control, loop="nodes", every=1)
        for name, text in (("inline", INLINE), ("stated", STATED))
    )
    assert_same_bits(inline, stated)
    assert inline.units == stated.units
    assert inline.units["residual_place"] == "m"
    assert inline.residual["place"][0] == pytest.approx(0.3 - 0.375, abs=1e-15)
    assert np.ptp(inline.input["F"]) > 1.0


def test_a_setting_of_an_inline_residual_changes_the_motion_without_a_new_derivation(write: Write) -> None:
    file = write(launch=LAUNCH + INLINE)
    one, other = (servonode.load(file, controller__settings__share=share) for share in (0.75, 0.5))
    assert one.closed_loop.control is not None
    assert other.closed_loop.control is not None
    assert one.closed_loop.control.law.kernel is other.closed_loop.control.law.kernel
    assert other.residuals(0.0)["place"] == pytest.approx(0.3 - 0.25, abs=1e-15)


def test_a_setting_or_target_that_no_residual_uses_is_a_warning(write: Write) -> None:
    unused = 'residuals = {place = "x - 0.2"}'
    launch = write(launch=LAUNCH + INLINE.replace('residuals = {place = "x - share*goal - lead"}', unused))
    said = {f"{key} is used by no residual" for key in UNUSED}
    report = servonode.check(launch)
    assert said == {each.text for each in report.findings if each.level == "warn" and "is used by" in each.text}
    run = servonode.simulate(launch)
    assert said <= {each.text for each in run.warnings}
    assert run.residual["place"][0] == pytest.approx(0.1)


# parameters that are functions of time


def test_a_parameter_must_keep_its_bounds_over_the_run(write: Write) -> None:
    file = write(launch=f'{LAUNCH}parameters = {{m = "2 - 0.2*t", k = 18}}\n')
    run = servonode.simulate(file)
    assert run.energy_error < 1e-12
    rates = servonode.load(file).derivatives(0.5, {"x": 1.0, "x_dot": 3.0})
    # (m x')' = m x'' - 0.2 x' = -k x - c x'
    assert rates["x_dot"] == pytest.approx((-18.0 - 3.0 + 0.2 * 3.0) / 1.9, rel=1e-14)
    text = refusal(file, run__duration=12.0)
    assert text.startswith("[plant.parameters] m: ")
    assert "must be greater than 0 (mass) at t = " in text
    assert 10.0 <= float(text.rpartition("at t = ")[2].removesuffix(" s")) <= 12.0


def test_a_number_in_quotes_is_a_constant(write: Write) -> None:
    one, other = write(launch=LAUNCH + "parameters.k = 9.0\n"), write("b", launch=LAUNCH + 'parameters.k = "18/2"\n')
    keys = {servonode.load(file).closed_loop.source.key for file in (one, other)}
    assert len(keys) == 1
    assert stiffness(other) == pytest.approx(9.0, rel=1e-14)


# a start on holonomic constraints

ROD = '''"""A pendulum in the place of its mass."""

from servonode.mechanics import Model, constraint, coordinate, parameter, velocity


def model() -> Model:
    x, y = coordinate("x", "place", "m"), coordinate("y", "height", "m")
    w = velocity("w", "rate", "rad/s")
    m = parameter("m", "mass", "kg", default=0.5, above=0)
    l = parameter("l", "length", "m", default=2.0, above=0)
    return Model(
        name="rod",
        description="pendulum in places",
        parameters=(m, l),
        kinematics={x: -y * w, y: x * w},
        velocities=(w,),
        kinetic=m * (x.rate**2 + y.rate**2) / 2,
        potential=m * 9.81 * y,
        constraints=(constraint("S", "force of the rod", x**2 + y**2 - l**2),),
    )
'''
ROD_LAUNCH = '[run]\nduration = 0.2\n[plant]\nmachine = "./rod.py:model"\ninitial = {{x = {}, y = {}}}\n'


def test_a_start_off_a_holonomic_constraint_is_refused_with_the_nearest_start(write: Write) -> None:
    file = write(rod=ROD, launch=ROD_LAUNCH.format(1.5, -2.0))
    assert refusal(file) == (
        "[plant.initial]: the initial state violates the constraint S, whose expression is 2.25 instead of 0; "
        "nearby holds x = 1.2, y = -1.6"
    )
    far = refusal(write(rod=ROD, launch=ROD_LAUNCH.format(0.0, 0.0)))
    assert far.endswith(
        "whose expression is -4 instead of 0; no state nearby satisfies it, choose another initial state"
    )


def test_a_start_that_was_rounded_is_brought_onto_the_constraint(write: Write) -> None:
    file = write(rod=ROD, launch=ROD_LAUNCH.format(1.4142, -1.4142))
    start = servonode.load(file).start
    assert start["x"] ** 2 + start["y"] ** 2 == pytest.approx(4.0, abs=1e-15)
    assert start["x"] == pytest.approx(np.sqrt(2), abs=1e-15)  # the nearest: straight outwards
    run = servonode.simulate(file, every=1)
    assert_allclose(run.state["x"] ** 2 + run.state["y"] ** 2, 4.0, rtol=0, atol=2e-15)


def test_a_start_must_fit_the_length_that_the_launch_file_gives(write: Write) -> None:
    file = write(rod=ROD, launch=ROD_LAUNCH.format(0.0, -2.0) + "parameters.l = 3.0\n")
    assert "the initial state violates the constraint S, whose expression is -5 instead of 0" in refusal(file)
    assert servonode.load(file, plant__initial={"y": -3.0}).start["y"] == -3.0
