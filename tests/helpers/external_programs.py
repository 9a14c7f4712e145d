"""How the external plants of examples/ are started, in each language; a test is skipped where one cannot be."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.external_c import external_c

EXAMPLES = Path(__file__).parents[2] / "examples"
PYTHON = [sys.executable, str(EXAMPLES / "external_plant.py")]


@cache
def _missing_for_node() -> str:
    """Why the one in JavaScript cannot be run here; empty: it can."""
    if shutil.which("node") is None:
        return "the command node is not found"
    command = ["node", "-e", "require('zeromq'); require('@msgpack/msgpack')"]
    found = subprocess.run(command, cwd=EXAMPLES, capture_output=True, check=False)
    return "" if found.returncode == 0 else "zeromq or @msgpack/msgpack is not found: npm install --prefix examples"


def external_node() -> list[str]:
    """The command of the one in JavaScript, with the packages that examples/package.json names."""
    if reason := _missing_for_node():
        pytest.skip(reason)
    return ["node", str(EXAMPLES / "external_plant.js")]


PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "python": lambda: PYTHON,
    "c": lambda: [external_c()],
    "node": external_node,
}
