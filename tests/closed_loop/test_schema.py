"""The reference page and the schema of the launch file, as the code makes them."""

import json
import re
import runpy
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec.structs import fields

from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.cli import complete
from servonode.closed_loop.hosts import shared_keys
from servonode.closed_loop.key_table import description, key_of, keys_of, keys_of_launch_files, sections
from servonode.closed_loop.schema import launch_schema
from tests.helpers.extras import json_validator
from tests.helpers.wings import ABSENT

DOCS = Path(__file__).parents[2] / "docs"
MADE_PAGE = runpy.run_path(str(DOCS / "_extensions" / "launch_reference.py"))["launch_reference"]()
LAUNCH_FILES = sorted(
    (Path(str(file)) for room in ("launch", "cli.templates") for file in files(f"servonode.{room}").iterdir()),
    key=str,
)
LAUNCH_FILES = [file for file in LAUNCH_FILES if file.suffix == ".toml" and not file.stem.endswith(ABSENT)]
GOOD: dict[str, Any] = {"run": {"duration": 1.0}, "plant": {"machine": "a"}}


@pytest.fixture(scope="module")
def schema() -> Any:
    content = json.loads(launch_schema())
    validator = json_validator(content)
    validator.check_schema(content)
    return validator


def test_every_key_is_on_the_page() -> None:
    """In the table of its section; a table in a table has a text of its own."""
    for section, struct in sections():
        table = MADE_PAGE.partition(f"\n## [{section}]\n")[2].partition("\n## ")[0]
        for key in (each.name for each in fields(struct)):
            texts = (f"[{section}.{key}]", f"[{section}.{key}.NAME]", f"## {section}.{key}\n")
            in_table = re.search(rf"\n\| `{key}(?: = [^`]+)?` \|", table)
            assert in_table or any(text in MADE_PAGE for text in texts), f"{section}.{key}"


def test_keys_that_are_tables_elsewhere_are_completed() -> None:
    """`initial` and `sensors` are tables of [plant], and keys of [estimator]."""
    assert {"estimator.initial", "estimator.sensors"} <= set(keys_of_launch_files())


@pytest.mark.parametrize("file", LAUNCH_FILES, ids=lambda file: file.stem)
def test_a_launch_file_that_comes_with_servonode_fits_the_schema(schema: Any, file: Path) -> None:
    schema.validate(tomllib.loads(file.read_text()))


def test_the_schema_knows_descriptions_with_units(schema: Any) -> None:
    described = schema.schema["$defs"]["Sensor"]["properties"]["delay"]["description"]
    assert described == "the age of a state message when it is published [s]"


@pytest.mark.parametrize(
    "wrong",
    [
        {"run": {"duration": -1.0}},
        {"run": {"duration": 1.0, "speeed": 2.0}},
        {"run": {"duration": 1.0, "mode": "fast"}},
        {"plant": {}},
        {"plant": {"machine": "a", "integrator": "rk5"}},
        {"plant": {"machine": "a", "step": "automatic"}},
        {"plant": {"machine": "a", "actuator": {"limit": -1.0}}},
        {"plant": {"machine": "a", "parameters": {"m": [1.0]}}},
        {"controller": {"period": 0.01}},
        {"controller": {"program": "a", "residuals": {"b": "x"}}},
        {"controler": {"program": "a"}},
    ],
    ids=str,
)
def test_the_schema_refuses_what_the_reader_refuses(schema: Any, wrong: dict[str, Any]) -> None:
    assert schema.is_valid(GOOD)
    assert not schema.is_valid(GOOD | wrong)


def test_one_line_of_a_struct_says_all_of_a_key(schema: Any) -> None:
    """Each key that has a name of its own: schema, completion, `param`, sweeps and runs on two computers."""
    completed = {each.value.rstrip("=") for each in complete.keys(click.Context(click.Command("a")), None, "")}
    for section, struct in sections():
        for field in keys_of(struct) if "NAME" not in section and "[" not in section else ():
            dotted, known = f"{section}.{field.name}", key_of(f"{section}.{field.name}")
            assert known is not None
            stated = schema.schema["$defs"][struct.__name__]["properties"][field.name]["description"]
            assert stated == description(field) + (f" [{known.unit}]" if known.unit else "")
            assert dotted in completed
            assert known.live in ("", PLANT, CONTROLLER, TARGET)
            assert known.live or known.derived or known.fixed, f"{dotted}: why it stays as it is during a run"
            table = {field.name: 1}
            for name in reversed(section.split(".")):
                table = {name: table}
            assert bool(list(shared_keys(table))) != known.here
