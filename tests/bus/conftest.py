"""Fixtures of the bus."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for the sockets of a run."""
    made = Path(tempfile.mkdtemp(prefix="sn", dir="/tmp"))  # short: a socket's path has 107 bytes
    yield made
    shutil.rmtree(made)
