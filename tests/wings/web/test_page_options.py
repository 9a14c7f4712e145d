"""What the page says where it cannot be shown, or is interrupted while it starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from servonode.cli.main import main
from servonode.version import TOP
from servonode.views.display import fresh

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


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),  # while its modules are still loading
        ("call_process('a', 'b')\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt: exit(130)", 130),
    ],
)
def test_ctrl_c_ends_a_process_beside_without_a_traceback(text: str, code: int, tmp_path: Path) -> None:
    begin = "import os, signal\nfrom servonode.nodes.node_process import call_process\n"
    (tmp_path / "loading.py").write_text(begin + text)
    (tmp_path / "sitecustomize.py").write_text(
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # a job in the background ignores it
    )
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{TOP}"}
    done = subprocess.run(fresh("loading"), env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")
