"""Exported C: its text, compiled without a warning, loaded."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.export.c import c_file
from servonode.export.c_export import Exported

WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wvla", "-Wshadow", "-Wstrict-prototypes"]
Library = Callable[[str], ctypes.CDLL]


def c_text(a: ClosedLoop, name: str = "run") -> str:
    """The C file of a closed loop."""
    return c_file(Exported.of(a, name))


def pointer(array: Any) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def compiler() -> str:
    """The C compiler; the test is skipped where it is missing."""
    found = shutil.which("cc")
    if found is None:
        pytest.skip("no C compiler: the command cc is not found")
    return found


def builder(folder: Callable[[], Path]) -> Library:
    """What compiles a C file in a new folder without a warning and loads it; the same text once."""
    program = compiler()

    @cache
    def build(text: str) -> ctypes.CDLL:
        at = folder()
        (at / "run.c").write_text(text)
        flags = [*WARNINGS, "-O2", "-ffp-contract=off", "-fPIC", "-shared"]
        command = [program, *flags, "run.c", "-o", "run.so", "-lm"]
        result = subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        loaded = ctypes.CDLL(str(at / "run.so"))
        loaded.run_plant_step.restype = None
        return loaded

    return build
