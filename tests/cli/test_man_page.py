"""The man page holds every command, is current, and is read without a warning."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "man" / "servonode.1"


def test_the_page_is_current() -> None:
    command = [sys.executable, str(ROOT / "packaging" / "man_page.py")]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert PAGE.read_text("utf-8") == made, "run: python packaging/man_page.py > docs/man/servonode.1"


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
