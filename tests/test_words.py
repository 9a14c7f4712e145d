"""tools/words.py finds what it is for in each kind of text, and leaves ordinary English alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.links import broken_links
from tools.words import LONGEST, SOCKETS, found, found_in_c, found_in_page, found_in_python, long_sentences

FOUND = (
    "a residual of degree 2", "the rate of a residual", "the first rung", "what the hold leaves", "its start state",
    "the free motion", "a machine outside", "nothing was mended", "which is a no", "a door that is heard",
    "an asker", "let go of the fault", "the run ended well", "6 plant seconds per wall second", "the source's row",
    "its patience", "see ladder.py", "the law shall stop", "where there is none", "State a machine", "deaf to SIGHUP",
    "the moving picture", "a run that is going on", "a ring of bytes", "a truth value",
    "it lives its life", "dies into speed", "the wanted place", "the place of the load",
)  # fmt: skip
LEFT = (
    "relative degree 2", "a polynomial of degree 5", "the rate of the plate", "a zero-order hold", "the motors hold it",
    "from the start", "the plant", "an outside diameter", "amend it", "no answer", "fault_ladder.py", "the source code",
    "none of them", "an argument that is none of the choices", "it goes well", "the wall clock", "test_safety.py",
    "the value is None", "outdoor marshalling of rungless ladders",
    "takes the place of the tool", "in place of the cart",
)  # fmt: skip
LONG, HALF = "word " * (LONGEST + 1), "word " * 20
PYTHON = 'def f():  # the rung\n\n    """What the\n    hold leaves, `door`."""\n    return "a " "rung"\n'
PAGE = 'He said "the first rung".\n\n```\nthe door\n```\n\nThe name `rung` and $f$ [link](door.md).\n'
C = '/* one\n * free\n * motion */\nint door = hear("a door"); // "rung"\n'


def first(text: str, where: str) -> list[str]:
    return found(text, where)[:1]


ROWS: list[tuple[Callable[..., Any], str, list[str]]] = [  # what searches, a text, what begins each finding
    *((first, text, ["here:1: "]) for text in FOUND),
    *((found, text, []) for text in LEFT),
    (found_in_page, PAGE, []),
    (found_in_python, PYTHON, ["here:1: 'rung'", "here:3: 'the hold'", "here:5: 'rung'"]),
    (found_in_c, C, ["here:2: 'free", "here:4: 'door'"]),
    *((found_in_python, text, ["here:1: "]) for text in (
        "def ends_well(): ...", "class EndsWell: ...", "the_rung = 1", "self.door = 1", "def f(asker): ...",
        "def test_the_source_s_run_is_long(): ...")),
    (found_in_python, "wall_s = door()\ndef indoors(shaken_s): ...\n", []),
    (found_in_python, "is_neat = 1", []),
    (lambda text, _: found_in_python(text, "src/a.py"), "is_neat = 1", ["src/a.py:1: "]),
    (lambda text, _: found_in_python(text, SOCKETS[0] + "wire.py"), "is_shaken = 1", []),
    (lambda text, _: long_sentences(text), f"# Page\n\nShort. A {LONG}.\n\n* Item {LONG}.\n", ["A word", "* Item"]),
    (lambda text, _: long_sentences(text), f"| {LONG} |\n\nA `{LONG}`.\n\nOne {HALF}. Two {HALF}.\n", []),
]  # fmt: skip


@pytest.mark.parametrize(("search", "text", "begins"), ROWS, ids=[str(number) for number in range(len(ROWS))])
def test_each_text_gives_its_findings(search: Callable[..., Any], text: str, begins: list[str]) -> None:
    hits = search(text, "here")
    assert len(hits) == len(begins), hits
    assert all(hit.startswith(begin) for hit, begin in zip(hits, begins, strict=True)), hits


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    blob = "https://github.com/servonode/servonode/blob/main/no.md"
    (tmp_path / "a.md").write_text(f"# A b\n[1](a.md) [2](b.md) [3](#a-b) [4](#c)\n[5]: {blob}\n")
    assert list(broken_links(tmp_path / "a.md")) == ["b.md", "#c", blob]
