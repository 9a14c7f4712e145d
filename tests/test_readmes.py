"""Each room's README: one paragraph, whose files and names are those of the code; and CONTRIBUTING's walks likewise."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.wings import wing
from tests.test_import_rules import MAY_IMPORT, PACKAGE, ROOT

ROOMS = [
    *(room for room in MAY_IMPORT if room != "servonode" and not room.startswith("wings/")),
    *(room for room in MAY_IMPORT if room.startswith("wings/") and wing(room.removeprefix("wings/"))),
    *(["wings"] if (PACKAGE / "wings").is_dir() else []),
]
MOST_WORDS = 160
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
MOST_OF_CONTRIBUTING = 1200  # words


@cache
def defined(file: Path) -> frozenset[str]:
    """The functions, classes and constants of a file, and what its classes have: `method` and `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        match node:
            case ast.ClassDef(name=name, body=body):
                inside = {each for part in body for each in named_by(part)}
                found |= {name, *inside, *(f"{name}.{each}" for each in inside)}
            case _:
                found |= named_by(node)
    return frozenset(found)


def named_by(node: ast.stmt) -> set[str]:
    """The function, or the variables, that a statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {each.id for each in targets if isinstance(each, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def misnamed(text: str, folder: Path) -> list[str]:
    """What a text has in backquotes that is not in a folder: a file, a subfolder, or a name.

    A name belongs to the file that was named last before it; before the first one, to any file of the folder.
    """
    wrong, file = [], None
    for token in re.findall(r"`([^`]+)`", text):
        if "/" in token or token.endswith(".py"):
            is_there = (folder / token).is_dir() if token.endswith("/") else (folder / token).is_file()
            file = folder / token if is_there and token.endswith(".py") else file
        else:
            is_there = any(token in defined(each) for each in ([file] if file else folder.rglob("*.py")))
        if not is_there:
            wrong.append(f"`{token}`" + (f" of {file.name}" if file and "/" not in token else ""))
    return wrong


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_tells_in_one_paragraph_what_it_is_for_where_one_enters_and_one_walk(room: str) -> None:
    title, text = (PACKAGE / room / "README.md").read_text("utf-8").split("\n\n", 1)
    assert re.fullmatch(r"# [^\n]+", title)
    assert "\n\n" not in text.strip()
    text = " ".join(text.split())
    assert len(text.split()) <= MOST_WORDS
    assert misnamed(text, PACKAGE / room) == []
    if room != "wings":
        walk = text.partition("One walk: ")[2]
        assert len(re.findall(r"`[\w/]+\.py` `", walk)) >= 3


def test_a_name_is_looked_for_in_the_file_that_is_named_before_it() -> None:
    told = "`codec.py` `encode`, `Intake.take`, `ipc/`, `ipc/wire.py` `Connection` `send`, `TOPICS`; `gone.py`"
    assert misnamed(told, PACKAGE / "bus") == ["`TOPICS` of wire.py", "`gone.py` of wire.py"]
    assert misnamed("`TOPICS`, `no_such_name`", PACKAGE / "bus") == ["`no_such_name`"]


def test_contributing_is_short_and_its_walks_lead_through_the_code() -> None:
    assert len(CONTRIBUTING.split()) <= MOST_OF_CONTRIBUTING
    text = CONTRIBUTING.partition("Two walks ")[2].partition("\n\n[")[0]
    walks = re.findall(r"^\* \*\*.+?\*\*: (.+?)(?=\n\*|\Z)", text, re.MULTILINE | re.DOTALL)
    assert [misnamed(each, PACKAGE) for each in walks] == [[], []]
