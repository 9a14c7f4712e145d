"""The window on a run: what it takes in and shows, what it says where it cannot, and that the run never notices it."""

import contextlib
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.backend_bases import KeyEvent

import servonode
from servonode.bus import BusError, Command, Status, run_folder
from servonode.cli.main import main
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch, table_of
from servonode.loop import Loop
from servonode.mechanics.description import packed
from servonode.operator.find_runs import find_runs
from servonode.operator.run_parameters import stored_closed_loop
from servonode.views.display import NoDisplay, Options, gui_backend
from servonode.views.live_run import GOALS, ROWS, STATES, Feed, LiveRun, run_shown
from servonode.views.palette import GOAL
from servonode.views.panel_specs import FieldError, chosen_panels, extra_columns
from servonode.views.window import Window
from tests.helpers.headless import headless_figure
from tests.helpers.talk import Talk

assert_allclose: Any = np.testing.assert_allclose


@pytest.fixture(scope="module")
def loop() -> Loop:
    return servonode.load("trailer_pursuit", run__duration=1.0)


class Given(LiveRun):
    """A run whose messages the test gives."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        super().__init__("given", span=1.0)
        self.begin(closed_loop)
        self.alive = True
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


@pytest.fixture
def feed(loop: Loop) -> Feed:
    return Feed(loop.closed_loop, 1.0)


@pytest.fixture
def talk(loop: Loop) -> Talk:
    return Talk(loop.closed_loop)


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


def test_feed_leaves_out_an_age_between_the_clocks_of_two_computers(loop: Loop) -> None:
    robot = "tcp://robot.local:7400"
    shown = []
    for nodes in (("plant",), ("plant", "controller"), ("plant", "controller", "target"), ("controller", "target")):
        hosts = [f"hosts.{node}={robot}" for node in nodes]
        closed_loop = resolve(read_launch(loop.closed_loop.launch.path, hosts), strict=False)
        feed, talk = Feed(closed_loop, 1.0), Talk(closed_loop)
        for message in (talk.target(0), talk.state(0), talk.report(0, mono=10**18), talk.state(15)):
            feed.take(message)
        shown.append(bool(np.isfinite(feed.ring.columns["timing_age"]).any()))
        assert np.isfinite(feed.ring.columns["timing_law"]).any()
    assert shown == [False, True, True, False]


def test_feed_row_has_state_outputs_inputs_target_and_rare_values(loop: Loop, feed: Feed, talk: Talk) -> None:
    report = talk.report(0, mono=talk.state(0).mono + 400_000)
    for message in (talk.target(0), talk.target(10), talk.target(20), talk.state(0), report, talk.status(0)):
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
    assert found["timing_age"] == pytest.approx([np.nan, 0.4], nan_ok=True)  # since its state
    x = np.append(talk.x, 0.0)
    outputs = loop.closed_loop.machine.outputs(0.015, x, np.array([1.0, 2.0]))
    assert {name: found[name][-1] for name in outputs} == pytest.approx(outputs)


@pytest.mark.slow
def test_whatever_comes_memory_is_bounded_and_the_span_is_kept(feed: Feed, talk: Talk) -> None:
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


def test_feed_of_a_restarted_plant_has_nothing_of_the_run_before(loop: Loop, feed: Feed) -> None:
    old, new = (Talk(loop.closed_loop, run=run) for run in (7, 8))
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


def test_the_rate_is_that_of_the_last_second(feed: Feed, talk: Talk) -> None:
    assert feed.rate == 0.0
    for k in range(0, 3000, 10):
        state = talk.state(k)
        feed.take(msgspec.structs.replace(state, mono=10**9 + state.k * 250_000))
    assert feed.rate == pytest.approx(4.0)


def test_fault_text_comes_from_the_bus_or_the_machine(feed: Feed, talk: Talk) -> None:
    feed.take(talk.state(0))
    header = talk.header(0, "controller")
    feed.take(Command(**header, re=0, target_seq=-1, input={"U1": 0.0, "U2": 0.0}, fault="W lost rank"))
    feed.take(talk.status(0, "fault", "law"))
    assert feed.fault_text == "law: W lost rank"
    sphero = servonode.load("sphero_runs_over").closed_loop
    feed, x = Feed(sphero, 1.0), sphero.start[:-1].copy()
    names = sphero.machine.description.state_names
    x[names.index("n_0")], x[names.index("n_2")] = 0.9999, 0.0
    talk = Talk(sphero)
    feed.take(talk.state(0, state=packed(sphero.machine.description.layout, x.tolist())))
    feed.take(talk.status(0, "fault", "tilt"))
    violated = sphero.machine.fault(0.0, np.append(x, 0.0))
    assert violated is not None
    assert feed.fault_text == f"tilt: {violated.text}"


# what is shown


def title(window: Window) -> Any:
    for _ in range(6):
        give(window)
    assert window.picture is not None
    return window.picture._title._text


@pytest.mark.slow
def test_window_shows_what_has_come_and_obeys_its_keys(window: Window, talk: Talk, tmp_path: Path) -> None:
    give(window, *(talk.state(k) for k in range(0, 200, 10)), talk.status(190))
    before = pixels(window)
    give(window, *(talk.state(k) for k in range(200, 400, 10)))
    assert (pixels(window) != before).any()
    said = title(window).get_text()
    assert said.startswith("given     t = 0.4 s     1 plant seconds per second     active")

    press(window, " ")  # holds the picture while data is taken in
    give(window)
    before = pixels(window)[60:]  # below the title
    give(window, *(talk.state(k) for k in range(400, 600, 10)))
    assert_allclose(pixels(window)[60:], before)
    assert window.feed is not None
    assert window.feed.t == pytest.approx(0.59)
    press(window, " ")
    give(window)
    assert (pixels(window)[60:] != before).any()

    with contextlib.chdir(tmp_path):
        press(window, "s")
        assert (tmp_path / "given_0.59.png").stat().st_size > 10_000
        window.options = Options(save="b.svg")
        press(window, "s")
        assert (tmp_path / "b.svg").read_text().startswith("<?xml")
        window.options = Options(save="nowhere/b.png")
        press(window, "s")
    assert window._message.startswith("cannot save: ")
    press(window, "q")
    assert window.closed


@pytest.mark.slow
def test_a_fault_stands_in_the_title_and_another_launch_file_makes_another_picture(window: Window, talk: Talk) -> None:
    source: Any = window.source
    give(window, talk.state(0), talk.status(0, "fault", "stale_command"))
    source.alive = False
    text = title(window)
    assert text.get_text() == "given     t = 0.0 s     ended by a fault     FAULT stale_command"
    assert text.get_color() == GOAL

    first = window.picture
    source.begin(source.closed_loop)  # the same launch file
    window.begin()
    assert window.picture is first
    assert window.feed is not None
    assert len(window.feed.ring) == 0
    source.begin(servonode.load("sphero_pursuit", run__duration=1.0).closed_loop)
    window.begin()
    assert window.picture is not None
    assert [view.view.title for view in window.picture.views][:2] == ["from above", "direction n from above"]
    assert len(window.figure.axes) == len(window.picture.views) + len(window.picture.panels)
    give(window, *(Talk(source.closed_loop).state(k) for k in range(0, 200, 10)))
    assert window.feed.t == pytest.approx(0.19)


# which run


@pytest.mark.usefixtures("runs")
def test_shown_run_is_found_by_name_file_or_as_the_only_one() -> None:
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


@pytest.mark.usefixtures("runs")
def test_shown_run_connects_once_all_nodes_have_started() -> None:
    launch = read_launch("trailer_pursuit", ["run.duration=2", "controller.gains.lambda=3", "plant.sensor.noise=1e-4"])
    described = {"launch": {"table": table_of(launch), "path": str(launch.path), "file": launch.file}}
    source = LiveRun("a")
    with run_folder("a") as folder:
        folder.register(["plant"], described)
        assert not source.look(0.0)
        folder.register(["plant"], described | {"open": True})
        assert not source.look(0.01)  # not yet again
        assert source.look(10.0)
        assert not source.look(20.0)
        assert source.alive
        first = source.closed_loop
        assert first is not None
        assert first.launch == launch
    with pytest.raises(BusError, match="does not say what it runs"):
        stored_closed_loop({"run": "a"})
    source.look(30.0)
    assert not source.alive
    assert source.receive() == []
    assert source._inbox is None
    with run_folder("a") as folder:
        folder.register(["plant"], described | {"open": True})
        assert source.look(40.0)
        assert source.closed_loop is first  # the same launch file
    source.leave()


# what is said, and runs on processes


@pytest.fixture
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
@pytest.mark.usefixtures("no_display")
@pytest.mark.parametrize("words", [("plot",), ("run", "trailer_pursuit", "--plot")])
def test_missing_display_is_refused_before_anything_starts(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(
        "servonode: there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set): log in with ssh -X"
    )


def test_a_backend_that_opens_no_windows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    with pytest.raises(NoDisplay) as refused:
        gui_backend()
    said = "MPLBACKEND=agg of the environment opens no windows; unset it, or log in with"
    assert str(refused.value).startswith(said)


def test_options_of_the_window_without_it_are_refused() -> None:
    result = CliRunner().invoke(main, ["run", "trailer_pursuit", "--panel", "V"])
    assert result.exit_code == 2
    assert "give --plot as well" in result.output
