"""docs/tutorials/first_robot.md: firmware is built, tested, armed, killed and started again, as the page says."""

import shutil
from pathlib import Path

import pytest

from servonode.plants.drivers.serial_transport import ports
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


def test_the_board_gets_a_header(followed: list[Done], folder: Path) -> None:
    assert "#define" in (folder / "machine.h").read_text("utf-8")
