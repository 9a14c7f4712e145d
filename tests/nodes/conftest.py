"""What the tests of the plant node share: the folder of the puck, and the puck as most of them want it."""

from pathlib import Path

import pytest

from servonode.closed_loop.closed_loop import ClosedLoop
from tests.helpers.stepped import WAITS, puck


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("puck")


@pytest.fixture(scope="module")
def plain(folder: Path) -> ClosedLoop:
    """A machine with a safe action of its own; a fault waits for its reset."""
    return puck(folder, WAITS)
