"""The man page is read without a warning."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "man" / "servonode.1"


def test_man_shows_it_without_a_warning() -> None:
    if not shutil.which("man"):
        pytest.skip("man is not installed")
    command = ["man", "-l", "--warnings", str(PAGE)]
    shown = subprocess.run(
        command, capture_output=True, text=True, env={"MANWIDTH": "80", "PATH": "/usr/bin:/bin"}, check=True
    )
    assert shown.stderr == ""
    assert "servonode hil accept" in shown.stdout
    assert "  --set KEY=VALUE" in shown.stdout
