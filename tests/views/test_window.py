"""The window on a run: what it takes in and shows, what it says where it cannot, and that the run never notices it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from matplotlib.backend_bases import KeyEvent

import servonode
from servonode.bus import BusError, Command, State, Status, run_folder
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import launch_of_table, read_launch, table_of
from servonode.loop import Loop
from servonode.mechanics.description import packed
from servonode.operator.find_runs import find_runs
from servonode.views.palette import GOAL
from servonode.views.panel_choice import FieldError, chosen_panels, extra_columns
from servonode.views.shown_run import ShownRun, run_shown, stored_closed_loop
from servonode.views.window import Window, headless_figure
from servonode.views.window_feed import GOALS, ROWS, STATES, Feed
from servonode.views.window_process import Options
from tests.helpers.runs import private_runtime
from tests.helpers.talk import Talk

assert_allclose: Any = np.testing.assert_allclose
START_S, END_S = 60.0, 90.0  # a window takes only what nobody else wants
COMMAND = [sys.executable, "-m", "servonode.cli.main"]
ALSO_SLOWLY = [pytest.param(end, marks=pytest.mark.slow) for end in (signal.SIGSTOP, signal.SIGTERM)]
ONTO_AGG = """
import sys
from servonode.views import window as w
from servonode.views.shown_run import ShownRun
source = ShownRun(sys.argv[1])
source.wait_open()
shown = w.Window(w.headless_figure(), source, w.Options())
shown.begin()
print("open", flush=True)
shown.run()
"""


@pytest.fixture(scope="module")
def loop() -> Loop:
    return servonode.load("trailer_pursuit", run__duration=1.0)


class Given(ShownRun):
    """A run whose messages the test gives."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        super().__init__("given")
        self.closed_loop, self.alive = closed_loop, True
        self.messages: list[Any] = []

    def look(self, now: float) -> bool:  # noqa: ARG002
        return False

    def receive(self) -> list[Any]:
        messages, self.messages = self.messages, []
        return [("", message) for message in messages]


@pytest.fixture
def window(loop: Loop) -> Window:
    shown = Window(headless_figure(), Given(loop.closed_loop), Options(span=1.0))
    shown.begin()
    return shown


def give(window: Window, *messages: Any) -> None:
    source: Any = window.source
    source.messages += messages
    window.frame()


def press(window: Window, key: str) -> None:
    canvas = window.figure.canvas
    canvas.callbacks.process("key_press_event", KeyEvent("key_press_event", canvas, key))


def pixels(window: Window) -> Any:
    return np.asarray(window.figure.canvas.buffer_rgba()).copy()


# what is taken in


def test_extra_measurements_stand_in_title_and_chosen_panels(loop: Loop) -> None:
    feed, talk = Feed(loop.closed_loop, 1.0, ["extra_battery"]), Talk(loop.closed_loop)
    values = {"extra_battery": 24.5} | {f"extra_cell{i}": 4.0 + i for i in range(9)}
    status = Status(**talk.header(5, "plant"), lifecycle="active", counts={}, values=values)
    for message in (talk.state(0), status, talk.state(15)):
        feed.take(message)
    assert feed.ring.columns["extra_battery"].tolist() == pytest.approx([np.nan, 24.5], nan_ok=True)
    assert feed.extra == "battery 24.5, cell0 4, cell1 5, cell2 6"  # no more than there is room for


def test_panel_may_show_what_only_an_external_plant_measures(loop: Loop) -> None:
    outside = resolve(read_launch("trailer_pursuit_external"), strict=False)
    assert chosen_panels(outside, ["extra_battery,extra_cell0"], timing=True)[0].label == "[its unit]"
    assert extra_columns(outside, ["V,Omega", "extra_battery,extra_cell0"]) == ["extra_battery", "extra_cell0"]
    with pytest.raises(FieldError, match="unknown name 'extra_battery'"):
        chosen_panels(loop.closed_loop, ["extra_battery"], timing=True)


def test_feed_row_has_state_outputs_inputs_target_and_rare_values(loop: Loop) -> None:
    feed, talk = Feed(loop.closed_loop, 1.0), Talk(loop.closed_loop)
    for message in (talk.target(0), talk.target(10), talk.target(20), talk.state(0), talk.report(0), talk.status(0)):
        feed.take(message)
    feed.take(talk.state(15))
    found = {name: column.tolist() for name, column in feed.ring.columns.items()}
    assert found["t"] == [0.0, 0.015]
    assert found["V"] == [0.0, 0.015]
    assert found["U2"] == [2.0, 2.0]
    assert found["target_x"] == [0.0, 10.0]
    assert found["residual_heading"] == pytest.approx([np.nan, -2e-3], nan_ok=True)
    assert found["timing_round_trip"] == pytest.approx([np.nan, 0.3], nan_ok=True)
    assert found["timing_law"] == pytest.approx([np.nan, 0.05], nan_ok=True)
    x = np.append(talk.x, 0.0)
    outputs = loop.closed_loop.machine.outputs(0.015, x, np.array([1.0, 2.0]))
    assert {name: found[name][-1] for name in outputs} == pytest.approx(outputs)


def test_report_age_counts_from_its_state(loop: Loop) -> None:
    feed, talk = Feed(loop.closed_loop, 1.0), Talk(loop.closed_loop)
    feed.take(talk.state(10))
    feed.take(talk.report(10, mono=10**9 + 10 * 10**6 + 400_000))
    feed.take(talk.state(20))
    assert feed.ring.columns["timing_age"][-1] == pytest.approx(0.4)


def test_whatever_comes_memory_is_bounded_and_the_span_is_kept(loop: Loop) -> None:
    feed, talk = Feed(loop.closed_loop, 1.0), Talk(loop.closed_loop)
    size = feed.ring._data.nbytes
    for k in range(3 * ROWS):
        feed.take(talk.state(k, control=True))
        feed.take(talk.target(k + 10**6))
    assert feed.ring._data.nbytes == size
    assert len(feed._goals) <= GOALS
    assert len(feed._sent) <= STATES
    t = feed.ring.columns["t"]
    assert t[-1] == pytest.approx((3 * ROWS - 1) * 1e-3)
    assert t[-1] - t[0] >= 1.0


def test_feed_skips_states_that_are_too_close_but_the_last(loop: Loop) -> None:
    feed, talk = Feed(loop.closed_loop, 100.0), Talk(loop.closed_loop)
    for k in range(1001):
        feed.take(talk.state(k, final=k == 1000))
    t = feed.ring.columns["t"]
    assert np.diff(t)[:-1].min() >= 2 * 100.0 / ROWS
    assert t[-1] == 1.0
    assert feed.final


def test_feed_of_a_restarted_plant_has_nothing_of_the_run_before(loop: Loop) -> None:
    feed, old, new = Feed(loop.closed_loop, 1.0), Talk(loop.closed_loop, run=7), Talk(loop.closed_loop, run=8)
    for k in range(0, 100, 10):
        feed.take(old.target(k))
        feed.take(old.state(k))
    feed.take(old.status(90, "fault", "law"))
    feed.take(new.report(0))  # not before its plant has spoken
    feed.take(new.state(0))
    feed.take(old.target(0))
    feed.take(old.report(90))
    feed.take(new.state(10))
    columns = feed.ring.columns
    assert columns["t"].tolist() == [0.0, 0.01]
    assert np.isnan(columns["target_x"]).all()
    assert np.isnan(columns["residual_speed"]).all()
    assert (feed.run, feed.fault_text) == (8, "")


def test_the_rate_is_that_of_the_last_second(loop: Loop) -> None:
    feed, talk = Feed(loop.closed_loop, 1.0), Talk(loop.closed_loop)
    assert feed.rate == 0.0
    for k in range(0, 3000, 10):
        state = talk.state(k)
        feed.take(msgspec.structs.replace(state, mono=10**9 + state.k * 250_000))
    assert feed.rate == pytest.approx(4.0)


def test_fault_text_comes_from_the_bus_or_the_machine(loop: Loop) -> None:
    feed, talk = Feed(loop.closed_loop, 1.0), Talk(loop.closed_loop)
    feed.take(talk.state(0))
    header = talk.header(0, "controller")
    feed.take(Command(**header, re=0, target_seq=-1, input={"U1": 0.0, "U2": 0.0}, fault="W lost rank"))
    feed.take(talk.status(0, "fault", "law"))
    assert feed.fault_text == "law: W lost rank"
    sphero = servonode.load("sphero_runs_over").closed_loop
    feed, x = Feed(sphero, 1.0), sphero.start[:-1].copy()
    names = sphero.machine.description.state_names
    x[names.index("n_0")], x[names.index("n_2")] = 0.9999, 0.0
    state = packed(sphero.machine.description.layout, x.tolist())
    feed.take(
        State(
            **talk.header(0, "plant"),
            state=state,
            input=dict.fromkeys(sphero.machine.description.input_names, 0.0),
            control=True,
        )
    )
    feed.take(talk.status(0, "fault", "tilt"))
    violated = sphero.machine.fault(0.0, np.append(x, 0.0))
    assert violated is not None
    assert feed.fault_text == f"tilt: {violated.text}"


# what is shown


def test_a_frame_shows_what_has_come_and_says_so_above(window: Window, loop: Loop) -> None:
    talk = Talk(loop.closed_loop)
    give(window, *(talk.state(k) for k in range(0, 200, 10)), talk.status(190))
    before = pixels(window)
    give(window, *(talk.state(k) for k in range(200, 400, 10)))
    assert (pixels(window) != before).any()
    for _ in range(6):
        give(window)
    assert window.picture is not None
    assert window.picture._title.text.startswith("given     t = 0.4 s     1 plant seconds per second     active")


def test_space_holds_the_picture_while_data_is_taken_in(window: Window, loop: Loop) -> None:
    talk = Talk(loop.closed_loop)
    give(window, *(talk.state(k) for k in range(0, 200, 10)))
    press(window, " ")
    give(window)
    before = pixels(window)[60:]  # below the title
    give(window, *(talk.state(k) for k in range(200, 400, 10)))
    assert_allclose(pixels(window)[60:], before)
    assert window.feed is not None
    assert window.feed.t == pytest.approx(0.39)
    press(window, " ")
    give(window)
    assert (pixels(window)[60:] != before).any()


def test_s_saves_the_picture_and_q_closes(window: Window, loop: Loop, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    give(window, *(Talk(loop.closed_loop).state(k) for k in range(0, 200, 10)))
    press(window, "s")
    assert (tmp_path / "given_0.19.png").stat().st_size > 10_000
    window.options = Options(save="b.svg")
    press(window, "s")
    assert (tmp_path / "b.svg").read_text().startswith("<?xml")
    window.options = Options(save="nowhere/b.png")
    press(window, "s")
    assert window._message.startswith("cannot save: ")
    press(window, "q")
    assert window.closed


def test_a_fault_stands_in_the_title(window: Window, loop: Loop) -> None:
    talk = Talk(loop.closed_loop)
    give(window, talk.state(0), talk.status(0, "fault", "stale_command"))
    source: Any = window.source
    source.alive = False
    for _ in range(6):
        give(window)
    assert window.picture is not None
    text = window.picture._title._text
    assert text.get_text() == "given     t = 0.0 s     ended by a fault     FAULT stale_command"
    assert text.get_color() == GOAL


def test_window_on_another_launch_file_makes_another_picture(window: Window, loop: Loop) -> None:
    give(window, *(Talk(loop.closed_loop).state(k) for k in range(0, 200, 10)))
    source: Any = window.source
    first = window.picture
    window.begin()  # the same launch file
    assert window.picture is first
    assert window.feed is not None
    assert len(window.feed.ring) == 0
    source.closed_loop = servonode.load("sphero_pursuit", run__duration=1.0).closed_loop
    window.begin()
    assert window.picture is not None
    assert [view.view.title for view in window.picture.views][:2] == ["from above", "direction n from above"]
    assert len(window.figure.axes) == len(window.picture.views) + len(window.picture.panels)
    give(window, *(Talk(source.closed_loop).state(k) for k in range(0, 200, 10)))
    assert window.feed.t == pytest.approx(0.19)


# which run


def test_what_a_run_runs_is_read_from_its_registry() -> None:
    launch = read_launch("sphero_pursuit", ["run.duration=2", "controller.gains.lambda=3", "plant.sensor.noise=1e-4"])
    stored = json.loads(json.dumps({"table": table_of(launch), "path": str(launch.path), "file": launch.file}))
    assert launch_of_table(stored["table"], path=Path(stored["path"]), file=stored["file"]) == launch
    closed_loop = stored_closed_loop({"run": "a", "launch": stored})
    assert closed_loop.launch.run.duration == 2.0
    with pytest.raises(BusError, match="does not say what it runs"):
        stored_closed_loop({"run": "a"})


@pytest.fixture
def runtime() -> Iterator[str]:
    with private_runtime() as folder:
        yield str(folder)


def test_shown_run_is_found_by_name_file_or_as_the_only_one(runtime: str) -> None:
    with pytest.raises(BusError, match=r"^no run is in progress; start one with servonode run FILE"):
        run_shown(None)
    with run_folder("left"):
        assert list(find_runs()) == ["left"]
        assert run_shown(None) == run_shown("left") == run_shown("some/left.toml") == "left"
        with pytest.raises(BusError, match=r"^no run named 'nix' is in progress; choose left$"):
            run_shown("nix")
        with run_folder("right"), pytest.raises(BusError, match=r"name one of left, right$"):
            run_shown(None)
    assert find_runs() == {}


def test_shown_run_connects_once_all_nodes_have_started(runtime: str) -> None:
    launch = read_launch("trailer_pursuit")
    described = {"launch": {"table": table_of(launch), "path": str(launch.path), "file": launch.file}}
    source = ShownRun("a")
    with run_folder("a") as folder:
        folder.register(["plant"], described)
        assert not source.look(0.0)
        folder.register(["plant"], described | {"open": True})
        assert not source.look(0.01)  # not yet again
        assert source.look(10.0)
        assert not source.look(20.0)
        assert source.alive
        first = source.closed_loop
    source.look(30.0)
    assert not source.alive
    assert source.receive() == []
    assert source._inbox is None
    with run_folder("a") as folder:
        folder.register(["plant"], described | {"open": True})
        assert source.look(40.0)
        assert source.closed_loop is first  # the same launch file
    source.leave()


# what is said


def said(*words: str, **env: str) -> tuple[int, str]:
    given = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")}
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, env=given | env, check=False)
    return done.returncode, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
@pytest.mark.parametrize("words", [("plot",), ("run", "trailer_pursuit", "--plot")])
def test_missing_display_is_refused_before_anything_starts(words: tuple[str, ...]) -> None:
    code, text = said(*words)
    assert code == 2
    assert text.startswith(
        "servonode: there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set): log in with ssh -X"
    )
    assert text.count("\n") == 1


def test_a_backend_that_opens_no_windows_is_named() -> None:
    code, text = said("plot", MPLBACKEND="agg")
    assert (code, text.count("\n")) == (2, 1)
    assert text.startswith("servonode: MPLBACKEND=agg of the environment opens no windows; unset it, or log in with")


def test_options_of_the_window_without_it_are_refused() -> None:
    code, text = said("run", "trailer_pursuit", "--panel", "V")
    assert code == 2
    assert "give --plot as well" in text


# runs on processes


class Running:
    """A run of the robot with trailer in real time."""

    def __init__(self, folder: Path, runtime: str, *words: str, duration: float = 3.0) -> None:
        self.name, self._folder = f"test-{os.getpid()}-{time.monotonic_ns()}", folder
        forgiving = ("--set", "plant.safety.command_timeout_floor=0.5", "--set", "run.speed=1")
        command = [*COMMAND, "run", "trailer_pursuit", "--name", self.name, "--no-report", "--json"]
        self._stderr = folder / "stderr"
        with (folder / "stdout").open("w") as stdout, self._stderr.open("w") as stderr:
            self.popen = subprocess.Popen(
                [*command, *forgiving, "--set", f"run.duration={duration}", *words],
                stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL, env={**os.environ, "XDG_RUNTIME_DIR": runtime},
            )  # fmt: skip

    def wait_until_it_moves(self) -> None:
        limit = time.monotonic() + START_S
        while self.name not in self.stderr:
            assert self.popen.poll() is None, self.stderr
            assert time.monotonic() < limit, self.stderr
            time.sleep(0.02)

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def completes(self) -> dict[str, Any]:
        assert self.popen.wait(START_S) == 0, self.stderr
        printed: dict[str, Any] = json.loads((self._folder / "stdout").read_text())
        assert printed["faults"] == []
        return printed


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("end", [signal.SIGSTOP, signal.SIGKILL])
def test_frozen_or_killed_window_changes_nothing_for_the_run(tmp_path: Path, runtime: str, end: int) -> None:
    run = Running(tmp_path, runtime)
    run.wait_until_it_moves()
    command = [sys.executable, "-c", ONTO_AGG, run.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as window:
        assert window.stdout is not None
        assert window.stdout.readline() == "open\n"
        time.sleep(0.5)
        window.send_signal(end)
        try:
            run.completes()
        finally:
            window.kill()


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

    def windows(self, name: str) -> list[int]:
        """The window processes of a run."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").split()
                if words[:2] == [b"servonode:", b"window"] and name.encode() in words:
                    found.append(int(folder.name))
        return found

    def its_window(self, run: Running) -> int:
        limit = time.monotonic() + START_S
        while not (found := self.windows(run.name)):
            assert run.popen.poll() is None, run.stderr
            assert time.monotonic() < limit
            time.sleep(0.02)
        return found[0]

    def gone(self, pid: int) -> bool:
        """Within a while, and no zombie is left."""
        limit = time.monotonic() + END_S
        while Path(f"/proc/{pid}").exists() and time.monotonic() < limit:
            time.sleep(0.05)
        return not Path(f"/proc/{pid}").exists()

    @pytest.mark.parametrize("end", [signal.SIGKILL, ALSO_SLOWLY[0], ALSO_SLOWLY[1]])
    def test_run_with_a_window_ends_and_leaves_nothing(
        self, display: str, tmp_path: Path, runtime: str, monkeypatch: pytest.MonkeyPatch, end: int
    ) -> None:
        monkeypatch.setenv("DISPLAY", display)
        at_once = end in (signal.SIGKILL, signal.SIGSTOP)  # a window that is being built answers other signals later
        run = Running(tmp_path, runtime, "--plot", duration=6.0 if at_once else 10.0)
        pid = self.its_window(run)
        run.wait_until_it_moves()
        time.sleep(0.5)
        os.kill(pid, end)
        if end != signal.SIGSTOP:
            assert self.gone(pid)
            assert run.popen.poll() is None, run.stderr  # reaped while the run goes on
        run.completes()
        assert "[window]" not in run.stderr
        if end == signal.SIGSTOP:
            os.kill(pid, signal.SIGKILL)
            assert self.gone(pid)
        assert list(Path(runtime).iterdir()) == []

    @pytest.mark.slow
    def test_the_window_outlives_the_run_until_it_is_closed(
        self, display: str, tmp_path: Path, runtime: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DISPLAY", display)
        run = Running(tmp_path, runtime, "--plot")
        pid = self.its_window(run)
        run.completes()
        assert list(Path(runtime).iterdir()) == []  # it holds neither folder nor lock
        time.sleep(0.5)
        assert self.windows(run.name) == [pid]
        os.kill(pid, signal.SIGINT)
        assert self.gone(pid)

    def test_an_unknown_panel_is_refused_before_the_run_starts(self, display: str) -> None:
        code, text = said("run", "trailer_pursuit", "--plot", "--panel", "V,W", DISPLAY=display)
        assert code == 2
        assert "servonode: panel 'V,W': unknown name 'W'; choose from X, Y, psi" in text

    @pytest.mark.usefixtures("runtime")
    def test_an_unknown_run_is_told(self, display: str) -> None:
        code, text = said("plot", "nix", DISPLAY=display)
        assert code == 2
        assert text.startswith("servonode: no run named 'nix' is in progress; start one with servonode run FILE")
