"""docs/tutorials/first_robot.md: firmware is built, tested, armed, killed and started again, as the page says."""

import shutil
import subprocess
from pathlib import Path

import pytest

from servonode.plants.drivers.serial_transport import ports
from tests.helpers.firmware import needs_compiler
from tests.helpers.followed import DOCS, Done, Page, check

pytestmark = pytest.mark.slow  # firmware is compiled twice, and runs in real time
NAME, LAUNCH, PORT = "tutorials/first_robot.md", "launch/trailer_pursuit_serial.toml", "/tmp/robot"
STEPS = len(Page(NAME).steps)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's clone: what the page needs of it."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(DOCS.parent / "firmware", folder / "firmware", ignore=shutil.ignore_patterns("build"))
    (folder / "launch").mkdir()
    text = (DOCS.parent / LAUNCH).read_text("utf-8")
    assert f'port = "{PORT}" ' in text
    (folder / LAUNCH).write_text(text.replace(PORT, f"{folder}/robot"), "utf-8")
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    """The page with a port of the test's own, and the serial ports of this computer."""
    present = " or ".join(ports()) or "another one (this computer has none at present)"
    return Page(NAME, replaced={PORT: f"{folder}/robot", "take /dev/ttyS0": f"take {present}"})


@pytest.fixture(scope="module")
def followed(page: Page, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """All steps, done in the page's order."""
    return page.follow(folder, tmp_path_factory.mktemp("bin"))


@pytest.mark.parametrize("number", range(STEPS), ids=Page(NAME).names)
def test_a_step_does_what_the_page_prints(page: Page, followed: list[Done], number: int) -> None:
    check(page.steps[number], followed[number])


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


@pytest.mark.usefixtures("followed")
def test_what_the_board_is_to_take_compiles_beside_its_header(folder: Path, tmp_path: Path) -> None:
    needs_compiler()
    for pattern in ("packet.*", "device.*", "machine.h"):
        for each in (folder / "firmware").glob(pattern):
            shutil.copy(each, tmp_path)
    assert not (tmp_path / "my_machine.h").exists()
    shutil.copy(folder / "my_machine.h", tmp_path)
    (tmp_path / "board.c").write_text(BOARD, "utf-8")
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "board.c", "device.c", "packet.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
