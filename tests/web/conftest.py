"""Runs for the tests of the page, in a runtime folder of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.runs import Runs, private_runs


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    with private_runs(tmp_path) as found:
        yield found
