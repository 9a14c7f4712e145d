"""What the page says where it cannot be shown."""

import sys

import pytest
from click.testing import CliRunner

from servonode.cli.main import main

# what is said


@pytest.mark.parametrize("words", [("page",), ("run", "trailer_pursuit", "--page", "--no-report")])
def test_without_its_libraries_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    said = 'servonode: the page needs uvicorn, not installed here: pip install "servonode[web]"'
    assert done.stderr == f"{said} (in a clone: uv sync --extra web)\n"
