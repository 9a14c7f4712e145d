"""The reference names what there is, and numbers that stand on several pages agree."""

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import click
import pytest

from servonode.cli.create import new
from servonode.plants.view import View
from servonode.version import SITE

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src/servonode"
ADDRESS = re.compile(rf"{re.escape(SITE)}[\w/.-]*\w")
ROOMS = ("cli", "bus", "nodes", "closed_loop", "controllers", "mechanics", "plants", "analysis", "export")


def text_of(name: str) -> str:
    return " ".join((ROOT / name).read_text("utf-8").split())


# numbers of the benchmarks


def rows_of(heading: str) -> dict[str, list[str]]:
    """The table below these words in the benchmarks, by the first cell of each row."""
    table = (ROOT / "benchmarks" / "README.md").read_text("utf-8").partition(heading)[2]
    lines = [line for line in table.partition("\n|")[2].partition("\n\n")[0].splitlines()[2:] if line]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {each[0]: each[1:] for each in cells}


def derived() -> dict[str, float]:
    """How long machines took to be derived [s]."""
    table = rows_of("**How derivation grows**") | {"chain 16": rows_of("by the angles in its joints:")["16"]}
    return {name: float(cells[0].removesuffix(" s")) for name, cells in table.items()}


@pytest.mark.parametrize(
    ("file", "words", "machine"),
    [
        ("docs/comparison.md", "a car with six trailers takes ([0-9.]+) s", "car 6"),
        ("docs/comparison.md", "a chain of 12 links by joint angles ([0-9.]+) s", "chain 12"),
        ("docs/comparison.md", "one of 16 links ([0-9.]+) s", "chain 16"),
        ("docs/reference/machines_and_programs.md", "16 links by joint angles takes ([0-9.]+) s", "chain 16"),
    ],
)
def test_times_of_derivation_are_those_of_the_benchmarks(file: str, words: str, machine: str) -> None:
    (quoted,) = re.findall(words, text_of(file))
    digits = len(quoted.partition(".")[2])
    assert quoted == f"{derived()[machine]:.{digits}f}"


# views


def test_the_table_of_a_view_has_every_field_of_it() -> None:
    text = (DOCS / "reference" / "machines_and_programs.md").read_text("utf-8")
    table = text.partition("| field of a View |")[2].partition("\n\n")[0]
    named = [re.findall(r"`(\w+)", row.split("|")[1]) for row in table.splitlines()[2:]]
    assert sorted(name for names in named for name in names) == sorted(each.name for each in fields(View))


@pytest.mark.parametrize("module", ["view", "prepare", "physical_model"])
def test_what_stands_beside_a_machine_is_in_the_python_reference(module: str) -> None:
    name = f"servonode.plants.{module}"
    own = [
        word
        for word, each in vars(import_module(name)).items()
        if (inspect.isclass(each) or inspect.isfunction(each)) and each.__module__ == name and not word.startswith("_")
    ]
    assert len(own) >= 2
    listed = (DOCS / "reference" / "python.md").read_text("utf-8").partition(f".. automodule:: {name}\n")[2]
    members = listed.partition(":members:")[2].partition("\n")[0].split(", ")
    assert sorted(each.strip() for each in members) == sorted(own)


def test_the_changelog_has_every_kind_of_file_that_new_makes() -> None:
    (kinds,) = re.findall(r"`servonode new ([\w|]+)`", text_of("CHANGELOG.md"))
    kind = next(each for each in new.params if each.name == "kind")
    assert isinstance(kind.type, click.Choice)
    assert sorted(kinds.split("|")) == sorted(kind.type.choices)


# where help and errors point to


def strings() -> Iterator[str]:
    """Every text of the package's code that is no docstring."""
    for room in ROOMS:
        for file in (PACKAGE / room).rglob("*.py"):
            tree = ast.parse(file.read_text("utf-8"))
            docstrings = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
            for each in ast.walk(tree):
                if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in docstrings:
                    yield each.value


def test_the_site_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["urls"]["Documentation"] == SITE


def test_an_error_that_names_a_page_names_one_that_is_there() -> None:
    named = {
        found
        for room in ROOMS
        for file in (PACKAGE / room).rglob("*.py")
        for found in re.findall(r"\{page\('([\w/]+)'\)\}", file.read_text("utf-8"))
    }
    assert named == {"how_to/own_laws"}
    assert all((DOCS / f"{each}.md").is_file() for each in named)
