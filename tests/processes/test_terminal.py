"""What is printed never holds up a run, whoever reads it."""

import fcntl
import os
import pty
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.helpers.runs import START_S

LAUNCH = "trailer_pursuit"
SHORT = ("--set", "run.duration=0.5", "--set", "run.mode=lockstep", "--set", "run.lockstep_timeout=60")
COMMAND = [sys.executable, "-m", "servonode.cli.main", "run", LAUNCH, "--no-report", *SHORT]


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="sn-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


def on_terminal(ends: ExitStack, file: Path, stops: bool) -> "subprocess.Popen[bytes]":
    """A run on a terminal that nobody reads; with `stops` it is stopped as by Ctrl-S."""
    ours, theirs = pty.openpty()
    ends.callback(os.close, ours)

    def prepare() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        if stops:
            termios.tcflow(0, termios.TCOOFF)

    command = [*COMMAND, "--name", file.stem, "--output", str(file)]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = subprocess.Popen(command, preexec_fn=prepare, **streams)  # type: ignore[call-overload]
    os.close(theirs)
    return process  # type: ignore[no-any-return]


SHELL = {  # what stands behind the command, the exit code
    ">/dev/full": 1,
    ">/dev/full 2>/dev/full": 1,
    "2>&1 | head -1": 0,
    "<&- >&- 2>&-": 0,
    "--json >&-": 2,
}


def test_a_run_ends_as_it_should_wherever_its_output_goes_and_no_terminal_holds_it_up(tmp_path: Path) -> None:
    begun = list[tuple[str, Path, subprocess.Popen[str]]]()
    files = {tmp_path / "stopped.csv": True, tmp_path / "unread.csv": False}
    with ExitStack() as ends:  # all at once
        held = {file: on_terminal(ends, file, stops) for file, stops in files.items()}
        for number, rest in enumerate(SHELL):
            (folder := tmp_path / str(number)).mkdir()
            typed = (
                f"{' '.join(COMMAND)} --name shell{number} --output {folder / 'a.csv'} {rest}; exit ${{PIPESTATUS[0]}}"
            )
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            begun.append((rest, folder, subprocess.Popen(["bash", "-c", typed], text=True, **pipes)))  # type: ignore[call-overload]
        for rest, folder, process in begun:
            _, said = process.communicate(timeout=START_S)
            assert (rest, process.returncode) == (rest, SHELL[rest]), said
            assert "Traceback" not in said
            assert [each.name for each in folder.iterdir()] == ([] if SHELL[rest] == 2 else ["a.csv"])
            if SHELL[rest] != 2:
                assert len((folder / "a.csv").read_text().splitlines()) == 502
            if rest == ">/dev/full":
                assert "standard output: the result could not be written (No space left on device)" in said
        for file, process in held.items():
            assert process.wait(START_S) == 0
            assert len(file.read_text().splitlines()) == 502
