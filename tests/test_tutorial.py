"""docs/tutorial.md, followed word for word: its files are written, its commands typed, its output compared."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # deriving and compiling everything that the page does takes a minute
PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
FENCE, CAPTION, GAP = "```", re.compile(r"\*\*([\w.]+)\*\*"), "..."
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?")
ONCE = re.compile(r"^servonode: deriving and compiling .*\n", re.MULTILINE)  # where nothing is in the cache yet
TIMED = ("  rate ", "  missed ", "  timing ", "  plant ", "  controller ")  # rows that tell of the computer
WALL = re.compile(r" in \d+\.\d\d s$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the file name that stands in bold above it, the section's number."""

    language: str
    text: str
    name: str | None
    section: int


@dataclass(frozen=True)
class Step:
    """Commands of one block with what the page prints below them (None: nothing)."""

    commands: tuple[str, ...]
    printed: str | None

    @property
    def code(self) -> int:
        """The exit code of the last command that fits what is printed."""
        if self.printed is None:
            return 0
        return 2 if self.printed.startswith("servonode: ") else 1 if self.printed.endswith("verdict          no") else 0


def blocks() -> Iterator[Block]:
    lines = iter(PAGE.read_text("utf-8").splitlines())
    above, section = "", 0
    for line in lines:
        if line.startswith("## "):
            section += 1
        if line.startswith(FENCE):
            text = "\n".join(takewhile(lambda each: each != FENCE, lines))
            caption = CAPTION.fullmatch(above)
            yield Block(line.removeprefix(FENCE), text, caption and caption[1], section)
        above = line or above


BLOCKS = tuple(blocks())
FILES = {block.name: block.text + "\n" for block in BLOCKS if block.name}
PIECES = [block.text for block in BLOCKS if block.language == "python" and not block.name]


def steps() -> Iterator[Step]:
    """The commands behind the section that installs."""
    for block, after in zip(BLOCKS, (*BLOCKS[1:], None), strict=True):
        if block.language == "sh" and block.section > 1:
            yield Step(tuple(block.text.splitlines()), after.text if after and after.language == "text" else None)


STEPS = tuple(steps())


@dataclass(frozen=True)
class Done:
    """What a step's commands wrote, together, and their exit codes."""

    stdout: str
    stderr: str
    codes: tuple[int, ...]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's folder with the page's files."""
    folder = tmp_path_factory.mktemp("tutorial")
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.fixture(scope="module")
def followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """All steps, done in the page's order in a shell that knows `servonode` and `python`."""
    programs = tmp_path_factory.mktemp("bin")
    for name, words in (("servonode", f"{sys.executable} -m servonode.cli.main"), ("python", sys.executable)):
        (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}

    def type_in(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    found = []
    for step in STEPS:
        done = [type_in(command) for command in step.commands]
        texts = ["".join(getattr(each, stream) for each in done) for stream in ("stdout", "stderr")]
        found.append(Done(texts[0], texts[1], tuple(each.returncode for each in done)))
    return found


def agree(printed: str, actual: str, rough: bool) -> bool:
    """Whether two lines are the same, numbers to the printed digits (`rough`: within a tenth), times apart."""
    if printed.startswith(TIMED):
        return printed.split()[0] == actual.split()[0]
    printed, actual = WALL.sub("", printed), WALL.sub("", actual)
    if NUMBER.sub("#", printed) != NUMBER.sub("#", actual):
        return False
    for shown, found in zip(NUMBER.findall(printed), NUMBER.findall(actual), strict=True):
        last_digit = 10.0 ** int(Decimal(shown).as_tuple().exponent)
        tolerance = max(0.1 * abs(float(shown)) if rough else 1.01 * min(last_digit, 1.0), 1e-6)
        if "." not in shown and "e" not in shown:  # a whole number: a line, an index, a setting
            tolerance = 0.0
        if abs(float(shown) - float(found)) > tolerance:
            return False
    return True


def missing(printed: str, actual: str, rough: bool) -> str | None:
    """The first passage of the printed text (`...` parts them) that the actual text lacks; None: it is all there."""
    found, start = actual.splitlines(), 0
    passages = re.split(rf"^{re.escape(GAP)}$\n?", printed, flags=re.MULTILINE)
    for i, passage in enumerate(passages):
        lines = passage.splitlines()
        places = range(start, len(found) - len(lines) + 1)
        if i == 0 and lines:
            places = range(1)
        if i == len(passages) - 1 and lines:
            places = range(max(len(found) - len(lines), 0), len(found))[:1]
        fits = (p for p in places if all(agree(*pair, rough) for pair in zip(lines, found[p : p + len(lines)])))  # noqa: B905
        place = next(fits, None)
        if lines and place is None:
            return passage
        start = (place or start) + len(lines)
    return None


def test_the_page_has_files_pieces_and_steps() -> None:
    assert list(FILES) == ["car.py", "car.toml", "nose.py", "eight.toml", "changes.py", "look.py"]
    assert len(PIECES) >= 5
    assert len(STEPS) >= 12


@pytest.mark.parametrize("piece", PIECES)
def test_a_piece_is_part_of_a_file_of_the_page(piece: str) -> None:
    assert any(f"\n{piece}\n" in text for text in FILES.values())


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[step.commands[-1] for step in STEPS])
def test_a_step_does_what_the_page_prints(followed: list[Done], number: int) -> None:
    step, done = STEPS[number], followed[number]
    assert done.codes == (*[0] * (len(step.commands) - 1), step.code), done.stderr
    if step.code == 2:
        assert ONCE.sub("", done.stderr) == f"{step.printed}\n"
        return
    assert "Traceback" not in done.stderr
    rough = any(command.startswith("servonode run") for command in step.commands)
    lacks = missing(step.printed or GAP, done.stdout, rough)
    assert lacks is None, f"not printed:\n{lacks}\nbut:\n{done.stdout}"


@pytest.mark.parametrize("picture", ["car.png", "tutorial_car.png"])
def test_the_runs_leave_pictures(followed: list[Done], folder: Path, picture: str) -> None:
    assert (folder / picture).read_bytes().startswith(b"\x89PNG")


def test_the_equations_are_written_as_a_document_and_as_c(followed: list[Done], folder: Path) -> None:
    assert "\\begin{document}" in (folder / "car.tex").read_text("utf-8")
    assert "#include <math.h>" in (folder / "car.c").read_text("utf-8")


def test_the_page_shows_a_small_picture() -> None:
    (name,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE.read_text("utf-8"))
    assert (PAGE.parent / name).stat().st_size < 250_000
