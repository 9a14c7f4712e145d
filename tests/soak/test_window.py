"""The window beside a run: frozen, killed, closed, and on a virtual display."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import servonode
from servonode.loop import Loop
from servonode.views.display import Options
from servonode.views.window import Window
from tests.helpers.headless import headless_figure
from tests.helpers.runs import START_S, Process, Runs, eventually, operator
from tests.views.test_window import Given

END_S = 90.0  # a window takes only what nobody else wants

FORGIVING = ("plant.safety.command_timeout_floor=0.5", "run.speed=1")

ONTO_AGG = """
import sys
from servonode.views import window as w
from servonode.views.live_run import LiveRun
from tests.helpers.headless import headless_figure
source = LiveRun(sys.argv[1])
source.wait_open()
shown = w.Window(headless_figure(), source, w.Options())
shown.begin()
print("open", flush=True)
shown.run()
"""


@pytest.fixture(scope="module")
def loop() -> Loop:
    return servonode.load("trailer_pursuit", run__duration=1.0)


@pytest.fixture
def window(loop: Loop) -> Window:
    shown = Window(headless_figure(), Given(loop.closed_loop), Options(span=1.0))
    shown.begin()
    return shown


# what is said, and runs on processes


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_frozen_or_killed_window_changes_nothing_for_the_run(runs: Runs) -> None:
    run = runs.start("trailer_pursuit", *FORGIVING, "run.duration=3.0")
    run.wait_open()
    command = [sys.executable, "-c", ONTO_AGG, run.name]
    with contextlib.ExitStack() as opened:
        windows = [opened.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) for _ in range(2)]
        for window in windows:
            opened.callback(window.kill)
            assert window.stdout is not None
            assert window.stdout.readline() == "open\n"
        windows[0].send_signal(signal.SIGSTOP)
        windows[1].kill()
        assert run.popen.wait(START_S) == 0
        assert run.printed["faults"] == []


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """A virtual display."""
    read, write = os.pipe()
    command = ["Xvfb", "-displayfd", str(write), "-noreset", "-screen", "0", "1500x950x24"]
    server = subprocess.Popen(command, pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as stream:
        number = stream.readline().strip()
    yield f":{number}"
    server.terminate()
    server.wait(END_S)


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("Xvfb"), reason="needs a virtual display: apt install xvfb"
)
class TestOnADisplay:
    """The real window, on a virtual display."""

    @pytest.fixture(autouse=True)
    def shown(self, display: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DISPLAY", display)

    def its_window(self, run: Process) -> int:
        assert eventually(lambda: run.left_over(b"window"), START_S), run.stderr
        return run.left_over(b"window")[0]

    def gone(self, pid: int) -> bool:
        """Within a while, and no zombie is left."""
        return eventually(lambda: not Path(f"/proc/{pid}").exists(), END_S)

    @pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
    def test_run_with_a_window_ends_and_leaves_nothing(self, runs: Runs, end: int) -> None:
        run = runs.start("trailer_pursuit", *FORGIVING, "run.duration=5.0", words=["--plot"])
        pid = self.its_window(run)
        run.wait_open()
        time.sleep(0.5)
        os.kill(pid, end)
        if end == signal.SIGKILL:
            assert self.gone(pid)
            assert run.popen.poll() is None, run.stderr  # reaped while the run goes on
        assert run.popen.wait(START_S) == 0
        assert run.printed["faults"] == []
        assert "[window]" not in run.stderr
        if end == signal.SIGSTOP:
            os.kill(pid, signal.SIGKILL)
            assert self.gone(pid)
        assert runs.left_files() == []

    def test_the_window_outlives_the_run_until_it_is_closed(self, runs: Runs) -> None:
        run = runs.start("trailer_pursuit", *FORGIVING, "run.duration=2.0", words=["--plot"])
        pid = self.its_window(run)
        assert run.popen.wait(START_S) == 0
        assert runs.left_files() == []  # it holds neither folder nor lock
        time.sleep(0.5)
        assert run.left_over(b"window") == [pid]
        os.kill(pid, signal.SIGINT)
        assert self.gone(pid)

    @pytest.mark.usefixtures("runs")
    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (("run", "trailer_pursuit", "--plot", "--panel", "V,W"),
             "panel 'V,W': unknown name 'W'; choose from X, Y, psi"),
            (("plot", "nix"), "no run named 'nix' is in progress; start one with servonode run FILE"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_shown_is_refused_in_one_line(self, words: tuple[str, ...], text: str) -> None:
        done = operator(*words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith(f"servonode: {text}")
