"""The man page holds every command of the core and of all wings."""

import subprocess
import sys

from tests.cli.test_man_page import PAGE, ROOT


def test_the_page_is_current() -> None:
    command = [sys.executable, str(ROOT / "packaging" / "man_page.py")]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert PAGE.read_text("utf-8") == made, "run: python packaging/man_page.py > docs/man/servonode.1"
