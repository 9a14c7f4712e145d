"""Sections of launch files that an installed package adds: read, overridden, varied, completed, refused, broken."""

import json
from pathlib import Path
from typing import Any

import pytest

import servonode
from servonode import extensions
from servonode.closed_loop.added_sections import all_sections
from servonode.closed_loop.key_table import key_of, keys_of_launch_files
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.launch_file import launch_of_table, read_launch, table_of, with_values
from servonode.closed_loop.launch_text import launch_text
from servonode.closed_loop.schema import launch_schema
from servonode.closed_loop.variation import Variation, stated_number
from servonode.extensions import ExtensionError
from servonode.plants.keys import AddedSection
from tests.helpers.extras import json_validator
from tests.helpers.packages import install_groups
from tests.helpers.refusals import command, refusal, refused_command

PAINT = '''
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from servonode.plants.keys import AddedSection, key


class Coat(Struct, frozen=True, forbid_unknown_fields=True):
    colour: Annotated[str, key("the colour")]
    mass: Annotated[float, key("the mass of the coat", "kg")] = 0.1


class Sensor(AddedSection, frozen=True):
    """[plant.paint]: the paint of the machine."""

    mass: Annotated[Annotated[float, Meta(ge=0)], key("the mass of the paint", "kg")] = 0.1
    layers: Annotated[Annotated[int, Meta(ge=1)], key("the number of layers")] = 2
    coats: Annotated[dict[str, Coat], key("the coats by name", apart=True)] = {}


class Wall(AddedSection, frozen=True):
    """[wall]: where the robot hangs."""

    alone: ClassVar[str] = "there is one wall; leave it out"

    height: Annotated[float, key("the height of the wall", "m")]

    @classmethod
    def stated(cls, table):
        return {"height": table["feet"] / 3.2808399} if "feet" in table else table

    def __post_init__(self):
        if self.height < 0:
            raise ValueError(f"a wall of {self.height:g} m is a pit; give a positive height")


class Bare(AddedSection, frozen=True):
    size: float = 1.0
'''
NAMES = {"plant.paint": "paint:Sensor", "wall": "paint:Wall"}
BROKEN = {
    "gone": "package broken 1.0: its section of launch files 'gone' (no_such_module:Gone) cannot be imported (Modul",
    "number": "package broken 1.0: its section of launch files 'number' (math:pi) is of type float, not a class",
    "text": "package broken 1.0: its section of launch files 'text' (builtins:str) is not derived of servonode.p",
    "bare": "package broken 1.0: its section of launch files 'bare' (paint:Bare) does not say what its key 'size' is;",
    "twice": "package broken 1.0 and package second 1.0 both have a section of launch files 'twice'",
}
TABLE: dict[str, Any] = {
    "run": {"duration": 0.1},
    "plant": {"machine": "pendulum_sphero", "paint": {"layers": 3, "coats": {"first": {"colour": "red"}}}},
    "wall": {"feet": 10},
}


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A good package and broken ones."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(package: str, entries: dict[str, str], **modules: str) -> None:
        install_groups(tmp_path, package, {"servonode.sections": entries}, **modules)

    install("paint-shop", NAMES, paint=PAINT)
    broken = {"gone": "no_such_module:Gone", "number": "math:pi", "text": "builtins:str", "bare": "paint:Bare"}
    install("broken", {**broken, "twice": "paint:Wall"})
    install("second", {"twice": "paint:Wall", "plant.step": "paint:Wall"})


def stated(name: str, launch: Any) -> Any:
    found = launch.section(name, AddedSection)
    assert found is not None
    return found


def test_what_is_stated_there_is_read_overridden_written_and_read_again() -> None:
    launch = launch_of_table(TABLE, ["plant.paint.mass=0.5", "plant.paint.coats.first.mass=2"])
    paint = stated("plant.paint", launch)
    assert (paint.mass, paint.layers, paint.coats["first"].mass) == (0.5, 3, 2.0)
    assert stated("wall", launch).height == pytest.approx(3.048)  # as its own function has the table
    assert launch.section("plant.mujoco", AddedSection) is None
    again = launch_of_table(table_of(launch), path=launch.path, file=launch.file)
    assert again == launch
    assert "[plant.paint.coats.first]" in launch_text(launch)


def test_its_numbers_vary_stated_or_not() -> None:
    launch = launch_of_table(TABLE)
    changed = with_values(launch, {"plant.paint.mass": 0.2, "plant.paint.coats.first.mass": 0.3, "wall.height": 4.0})
    paint = stated("plant.paint", changed)
    assert (paint.mass, paint.layers, paint.coats["first"].mass) == (0.2, 3, 0.3)
    assert stated("wall", changed).height == 4.0
    assert stated("plant.paint", launch).mass == 0.1
    closed_loop = servonode.load("trailer_pursuit", run__duration=0.1).closed_loop
    assert stated_number(closed_loop.stated, "plant.paint.mass") == 0.1
    variation = Variation(closed_loop, ["plant.paint.mass", "plant.paint.layers"])
    assert variation.units == ("kg", "1")
    new = variation.at([0.7, 4.0])
    assert (stated("plant.paint", new.launch).mass, stated("plant.paint", new.launch).layers) == (0.7, 4)
    text = "[wall]: a wall of -2 m is a pit; give a positive height"
    assert text in refusal(LaunchError, with_values, launch, {"wall.height": -2.0})
    text = "[wall]: the launch file has no such section, which cannot vary; write it"
    assert text in refusal(LaunchError, Variation, closed_loop, ["wall.height"])


def test_one_line_of_its_struct_says_all_of_a_key() -> None:
    known, layers = key_of("plant.paint.mass"), key_of("plant.paint.layers")
    assert known is not None
    assert layers is not None
    assert (known.table, known.unit, layers.is_whole) == ("plant.paint.mass", "kg", True)
    assert known.fixed == "machine, driver, ports, drives and sensors are set when the run starts"
    inner, wall = key_of("plant.paint.coats.first.mass"), key_of("wall.height")
    assert inner is not None
    assert (inner.table, inner.names, inner.unit) == ("plant.paint.coats", ("first", "mass"), "kg")
    assert wall is not None
    assert wall.fixed == "it is read when the run starts"
    assert keys_of_launch_files()["wall.height"] == "the height of the wall"


def test_editors_know_it_beside_a_struct_of_the_core_with_the_same_name() -> None:
    schema = json_validator(json.loads(launch_schema(installed=True)))
    table = {**TABLE, "wall": {"height": 2.0}}
    assert schema.is_valid(table)
    assert not schema.is_valid({**table, "wall": {"heigth": 2.0}})
    assert not schema.is_valid({**table, "plant": {**TABLE["plant"], "sensor": {"layers": 2}}})
    assert not json_validator(json.loads(launch_schema())).is_valid(table)
    assert {"paint", "wall"} & set(all_sections().__struct_fields__) == set()


def test_python_states_it_as_any_other_section() -> None:
    loop = servonode.load("trailer_pursuit", run__duration=0.1, wall={"height": 2.0}, plant__paint__layers=7)
    assert stated("wall", loop.closed_loop.launch).height == 2.0
    assert stated("plant.paint", loop.closed_loop.launch).layers == 7


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("plant.paint.mas=1", "--set plant.paint.mas: unknown key; did you mean mass? Choose coats, layers or mass"),
        ("plant.paint.mass=-1", "--set plant.paint.mass: -1 is not a number >= 0; give the mass of the paint, in kg"),
        ("plant.paint.coats.x.mass=1", "[plant.paint.coats.x] colour: missing; give the colour: a text"),
        ("plant.pain.mass=1", "--set plant.pain.mass: unknown key; did you mean paint? Choose "),
        ("plant.paint=1", "--set plant.paint: 1 is not a section; write its keys below [plant.paint]"),
        ("wal.height=1", "--set wal.height: unknown section; did you mean wall? Choose "),
        ("wall={}", "not SECTION.KEY=VALUE"),
        ("wall.heigth=1", "unknown key; did you mean height? "),
        ("wall.height=-1", "--set wall.height: a wall of -1 m is a pit; give a positive height"),
        ("wall.feet=[]", "--set wall.feet: paint.Wall failed (TypeError: unsupported operand"),
    ],
)
def test_a_key_that_is_wrong_there_is_one_line(setting: str, text: str) -> None:
    said = refused_command("check", "trailer_pursuit", "--set", setting)
    assert text in said


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_one_is_one_line_where_it_is_named_and_the_rest_works(name: str) -> None:
    assert BROKEN[name] in refused_command("check", "trailer_pursuit", "--set", f"{name}.size=1")
    assert refusal(ExtensionError, read_launch, "trailer_pursuit", [f"{name}.size=1"])
    assert command("check", "trailer_pursuit").exit_code == 0
    assert f"{name}.size" not in keys_of_launch_files()


def test_what_is_there_once_is_refused_of_a_robot_of_several(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(
        '[robots.a]\ninclude = "trailer_pursuit"\n[robots.b]\ninclude = "trailer_pursuit"\nwall.height = 1.0\n'
    )
    assert "[robots.b.wall]: there is one wall; leave it out" in refused_command("check", str(file))


def test_without_its_wing_a_section_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_of_wings", dict)
    text = refusal(LaunchError, read_launch, "trailer_sweep")
    assert text.startswith("trailer_sweep [sweep]: unknown section; choose ")


def test_a_package_takes_no_name_of_the_core() -> None:
    assert read_launch("trailer_pursuit", ["plant.step=0.002"]).plant.step == 0.002
