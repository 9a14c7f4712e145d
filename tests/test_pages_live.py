"""Pages with runs in real time, followed word for word: commands are typed, nodes killed, firmware built and armed."""

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from servonode.plants.drivers.serial_transport import ports
from tests.helpers.firmware import needs_compiler
from tests.helpers.followed import DOCS, Done, Page, check

Follow = Callable[[str], list[Done]]
pytestmark = pytest.mark.slow  # runs in real time; firmware is compiled twice
LAUNCH, PORT = "launch/trailer_pursuit_serial.toml", "/tmp/robot"
PAGES = {
    "first_run": Page("tutorials/first_run.md", installs=1),
    "faults": Page("tutorials/faults.md"),
    "first_robot": Page("tutorials/first_robot.md"),
}
STEPS = [(name, number) for name, page in PAGES.items() for number in range(len(page.steps))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's folder of the first two pages."""
    return tmp_path_factory.mktemp("first_pages")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's clone: what the page on the robot needs of it."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(DOCS.parent / "firmware", folder / "firmware", ignore=shutil.ignore_patterns("build"))
    (folder / "launch").mkdir()
    text = (DOCS.parent / LAUNCH).read_text("utf-8")
    assert f'port = "{PORT}" ' in text
    (folder / LAUNCH).write_text(text.replace(PORT, f"{folder}/robot"), "utf-8")
    return folder


@pytest.fixture(scope="module")
def pages(clone: Path) -> dict[str, Page]:
    """The pages, that of the robot with a port of the test's own, and the serial ports of this computer."""
    present = " or ".join(ports()) or "another one (this computer has none at present)"
    replaced = {PORT: f"{clone}/robot", "take /dev/ttyS0": f"take {present}"}
    return PAGES | {"first_robot": Page("tutorials/first_robot.md", replaced=replaced)}


@pytest.fixture(scope="module")
def followed(pages: dict[str, Page], folder: Path, clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Follow:
    """All steps of a page, done in its order; each page once."""

    @cache
    def follow(name: str) -> list[Done]:
        return pages[name].follow(clone if name == "first_robot" else folder, tmp_path_factory.mktemp("bin"))

    return follow


@pytest.mark.parametrize(("name", "number"), STEPS, ids=[f"{name}: {PAGES[name].names[n]}" for name, n in STEPS])
def test_a_step_does_what_its_page_prints(pages: dict[str, Page], followed: Follow, name: str, number: int) -> None:
    check(pages[name].steps[number], followed(name)[number])


@pytest.mark.parametrize("file", ["trailer_pursuit.png", "turn.png", "turn.csv", "compare.png", "short.html"])
def test_what_the_page_promises_lies_in_the_folder(followed: Follow, folder: Path, file: str) -> None:
    followed("first_run")
    assert (folder / file).stat().st_size > 10_000


def test_every_row_that_a_run_prints_is_explained() -> None:
    page = PAGES["first_run"]
    rows = re.compile(r"^  (?:plant |controller )? *([a-z][a-z ]*?)(?: \[ms\])?  ", re.MULTILINE)
    printed = set(rows.findall(page.steps[0].printed or ""))
    explained = set(re.findall(r"^\| `([^`]+)` \|", page.path.read_text("utf-8"), re.MULTILINE))
    assert len(printed) >= 9
    assert printed <= explained


BOARD = """
#include "device.h"
#include "my_machine.h"

static const float limits[HIL_N_INPUTS] = {0.4f, 0.4f};

struct machine board(void)
{
    struct machine machine = {0};
    machine.schema = HIL_SCHEMA;
    machine.n_states = HIL_N_STATES;
    machine.n_inputs = HIL_N_INPUTS;
    machine.step_ns = HIL_STEP_NS;
    machine.limits = limits;
    return machine;
}
"""


def test_what_the_board_is_to_take_compiles_beside_its_header(followed: Follow, clone: Path, tmp_path: Path) -> None:
    needs_compiler()
    followed("first_robot")
    for pattern in ("packet.*", "device.*", "machine.h"):
        for each in (clone / "firmware").glob(pattern):
            shutil.copy(each, tmp_path)
    assert not (tmp_path / "my_machine.h").exists()
    shutil.copy(clone / "my_machine.h", tmp_path)
    (tmp_path / "board.c").write_text(BOARD, "utf-8")
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "board.c", "device.c", "packet.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
