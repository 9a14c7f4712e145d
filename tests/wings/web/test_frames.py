"""A run as lines for the page: layout, rows, scenes, statuses; and the views of machines as JSON."""

import json
import subprocess
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import servonode
from servonode.bus import Estimate, State
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.view import View
from servonode.views.live_run import LiveRun
from servonode.views.scene import Scene
from servonode.views.shapes import ArrowScale, Instant, Shapes
from servonode.wings.web import frames as module
from servonode.wings.web.frames import Frames, TooLarge, feed, layout_of
from servonode.wings.web.html_report import Motion, recorded_views
from servonode.wings.web.view_data import shapes_data, view_layout
from tests.helpers.live_runs import NODE, needs_node
from tests.helpers.talk import Talk


@pytest.fixture(scope="module")
def sphero() -> ClosedLoop:
    return servonode.load("sphero_pursuit", run__duration=1.0).closed_loop


@pytest.fixture(scope="module")
def trailer() -> ClosedLoop:
    return servonode.load("trailer_pursuit", run__duration=1.0).closed_loop


def frames_of(closed_loop: ClosedLoop) -> Frames:
    source = LiveRun("given", estimates=True)
    source.begin(closed_loop)
    source.alive = True
    return Frames(source)


def said(frames: Frames) -> dict[str, Any]:
    """The lines of a frame by their word."""
    found = dict(line.rstrip(b"\n").split(b" ", 1) for line in frames.lines())
    return {word.decode(): json.loads(content) for word, content in found.items()}


def test_a_view_that_is_clicked_is_told_the_ranges_of_its_goals(trailer: ClosedLoop) -> None:
    def click(**keys: Any) -> list[Any]:
        closed_loop = servonode.load("base_tap", **keys).closed_loop
        each = msgspec.json.decode(msgspec.json.encode(layout_of(closed_loop, "base")["views"][0]))
        return [each["click"], each["range"]]

    assert click() == [["x", "y"], [[-3.0, 3.0], [-3.0, 3.0]]]
    free = {"bandwidth": 5.0, "rate": 0.25}
    assert click(target__y=free) == [["x", "y"], [[-3.0, 3.0], [None, None]]]
    assert [layout_of(trailer, "trailer")["views"][0][key] for key in ("click", "range")] == [[], []]


@pytest.mark.parametrize(
    ("given", "x", "y"),
    [
        ({}, (0, 0.2), (0, 0.2)),  # a report
        ({"click": [], "range": []}, (0, 0.2), (0, 0.2)),
        ({"click": ["x", "y"], "range": [[-3, 3], [-1, 2]]}, (-3, 3), (-1, 2)),
        ({"click": ["x", "y"], "range": [[-3, 3], [None, None]]}, (-3, 3), (-0.9, 1.1)),
        ({"click": ["x", "y"], "range": [[-1e308, 1e308], [5, 6]]}, (-9.9, 10.1), (0, 6)),
    ],
)
@needs_node
def test_a_map_shows_where_a_click_may_send_the_goal(given: dict[str, Any], x: Any, y: Any) -> None:
    script = (Path(module.__file__).with_name("assets") / "scene.js").read_text()
    view = json.dumps({"layout": {"used": 0.3, **given}, "limits": None})
    script += f"const view = Object.assign(Object.create(MachineView.prototype), {view}); SCENE.room = 0;\n"
    script += "view.follow({lines: [[[0, 0], [0.2, 0.2]]], inertias: [], guides: []}, []);\n"
    script += "process.stdout.write(JSON.stringify(view.limits));"
    assert NODE is not None
    done = subprocess.run([NODE, "-"], input=script, capture_output=True, text=True, check=True)
    limits = json.loads(done.stdout)
    assert (limits["x"], limits["y"]) == (pytest.approx(x), pytest.approx(y))


def test_page_frame_has_new_rows_and_the_machine_at_the_last(trailer: ClosedLoop) -> None:
    frames, talk = frames_of(trailer), Talk(trailer)
    first = said(frames)
    assert set(first) == {"layout", "status"}
    layout = first["layout"]
    assert (layout["name"], layout["program"], layout["mode"]) == ("given", "pursuit", "realtime")
    assert [trail["columns"] for trail in layout["views"][0]["trails"]] == [["X", "Y"], ["X2", "Y2"]]
    assert layout["views"][0]["goal"] == ["target_x", "target_y"]
    panels = layout["panels"]
    assert [each["logarithmic"] for each in panels][-2:] == [True, True]
    assert [panels[3]["title"], panels[-2]["title"]] == ["hitch angle φ [rad]", "residuals, magnitude [m/s,\u00a0rad]"]
    assert [curve["name"] for curve in panels[4]["curves"]] == ["θ̇₁", "θ̇₂"]
    for message in (talk.target(0), talk.state(0), talk.status(0), talk.target(10), talk.state(15)):
        frames._feed.take(message)
    frame = said(frames)
    assert frame["rows"]["t"] == [0.0, 0.015]
    assert frame["rows"]["V"] == [0.0, 0.015]
    assert frame["rows"]["target_x"] == [0.0, 10.0]
    assert frame["rows"]["residual_speed"] == [None, None]  # JSON has no other word for it
    assert frame["rows"]["timing_round_trip"] == [None, pytest.approx(0.3)]
    assert frame["scene"]["t"] == 0.015
    assert len(frame["scene"]["views"][0]["lines"]) == 7
    assert set(said(frames)) <= {"status"}
    frames._feed.take(talk.state(30))
    assert said(frames)["rows"]["t"] == [0.03]


def test_feed_draws_nothing_until_somebody_looks_and_then_all_that_is_kept(
    trailer: ClosedLoop, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, "CHUNK", 2)
    talk, written, looks = Talk(trailer), list[bytes](), deque([False, False, True])
    batches = deque([[talk.state(15 * i) for i in range(n, n + 2)] for n in (0, 2, 4)])

    class Given(LiveRun):
        def look(self, now: float) -> bool:  # noqa: ARG002
            new = self.feed is None
            if new:
                self.begin(trailer)
            return new

        def receive(self) -> list[Any]:
            return [("", message) for message in batches.popleft()]

    def wait(_: float) -> bool:
        if not looks:
            raise BrokenPipeError
        assert not written
        return looks.popleft()

    with pytest.raises(BrokenPipeError):
        feed(Given("given"), written.append, wait)
    words, contents = zip(*(line.split(b" ", 1) for line in written), strict=True)
    assert words == (b"layout", b"rows", b"rows", b"rows", b"scene", b"status")
    times = [json.loads(each)["t"] for word, each in zip(words, contents, strict=True) if word == b"rows"]
    assert times == [[0.0, 0.015], [0.03, 0.045], [0.06, 0.075]]


def estimate_of(talk: Talk, k: int) -> Estimate:
    names = talk.closed_loop.machine.description.state_names
    return Estimate(
        **talk.header(k, "controller"), state=dict.fromkeys(names, 0.3), std=dict.fromkeys(names, 0.1),
        innovation={}, nis=0.0, readings=0, nees=0.0, dimensions=0, re=k,
    )  # fmt: skip


def test_feed_shows_an_estimate_with_its_band() -> None:
    closed_loop = servonode.load("trailer_estimated", run__speed=1.0, run__duration=1.0).closed_loop
    frames, talk = frames_of(closed_loop), Talk(closed_loop)
    panels = said(frames)["layout"]["panels"]
    curves = next(each["curves"] for each in panels if each["curves"][0]["column"] == "phi")
    assert [(each["column"], each.get("band"), each["color"]) for each in curves] == [
        ("phi", None, 0), ("estimate_phi", ["low_phi", "high_phi"], 0),
    ]  # fmt: skip
    assert not any("band" in each for panel in panels if panel["logarithmic"] for each in panel["curves"])

    for message in (talk.state(0), talk.state(10), estimate_of(talk, 10), talk.state(20)):
        frames._feed.take(message)
    assert "rows" not in said(frames)  # they wait for their estimate
    frames._feed.take(talk.state(30))
    rows = said(frames)["rows"]
    assert rows["t"] == [0.0, 0.01, 0.02]  # they waited a frame; the fourth still does
    assert rows["estimate_phi"] == [None, 0.3, None]
    assert [rows["low_phi"][1], rows["high_phi"][1]] == pytest.approx([0.1, 0.5])
    frames._feed.take(estimate_of(talk, 20))  # of a row that is complete
    frames._feed.take(estimate_of(talk, 30))
    assert said(frames)["rows"]["estimate_V"] == [0.3]


def shown_in_turn(states: list[State], estimates: list[Estimate], closed_loop: ClosedLoop) -> dict[str, list[Any]]:
    """The rows of all frames of 33 ms, where each reads its publishers in turn as libzmq does: s0 e0 s1 e3 s2 s3."""
    frames = frames_of(closed_loop)
    found: dict[str, list[Any]] = {"t": [], "estimate_phi": []}
    for k in range(0, states[-1].k + 100, 33):
        batches = [deque(each for each in kind if k <= each.k < k + 33) for kind in (states, estimates)]
        while any(batches):
            for batch in filter(None, batches):
                frames._feed.take(batch.popleft())
        rows = said(frames).get("rows", {})
        for name in found:
            found[name] += rows.get(name, [])
    return found


@pytest.mark.parametrize(("first", "late"), [(0, 0), (1, 0), (7, 0), (0, 4)])
def test_feed_rows_have_their_estimates_in_any_order_of_publishers(first: int, late: int) -> None:
    closed_loop = servonode.load("trailer_estimated", run__speed=1.0, run__duration=20.0).closed_loop
    talk = Talk(closed_loop)
    states = [talk.state(k) for k in range(first, 2000)]
    estimates = [
        msgspec.structs.replace(estimate_of(talk, each.k), k=each.k + late) for each in states if each.control
    ]  # `k` is when it arrives
    found = shown_in_turn(states, estimates, closed_loop)
    instants = [each.t for each in estimates[first > 0 :]]
    assert found["t"][first > 0 :][-len(instants) :] == instants
    assert found["t"] == sorted(found["t"])
    assert len(found["t"]) <= len(instants) + 2
    missing = [t for t, each in zip(found["t"], found["estimate_phi"], strict=True) if each is None]
    assert missing == ([states[0].t] if first else [])

    states = [talk.state(k, control=k == 0) for k in range(200)]  # final ones have no estimate
    found = shown_in_turn(states, [estimate_of(talk, 0)], closed_loop)
    assert found["estimate_phi"] == [0.3] + [None] * (len(found["t"]) - 1)
    assert np.diff(found["t"]).max() < 0.025


def test_a_plant_that_starts_anew_makes_the_page_begin_anew(trailer: ClosedLoop) -> None:
    frames, old, new = frames_of(trailer), Talk(trailer, run=7), Talk(trailer, run=8)
    frames._feed.take(old.state(500))
    assert said(frames)["rows"]["t"] == [0.5]
    frames._feed.take(new.state(0))
    frame = said(frames)
    assert next(iter(frame)) == "layout"
    assert frame["rows"]["t"] == [0.0]


def test_a_status_says_how_every_node_stands(trailer: ClosedLoop) -> None:
    frames, talk = frames_of(trailer), Talk(trailer)
    times = {"p50": 1e-3, "p99": 2e-3, "p999": 3e-3, "max": 4e-3}
    plant = msgspec.structs.replace(
        talk.status(0, "fault", "estop"),
        values={f"round_trip_{key}": each for key, each in times.items()} | {"armed": 0.0, "estop": 1.0},
        counts={"missed_commands": 3},
        safe_state="braking",
    )
    for message in (plant, talk.status(0, "active", node="controller")):
        frames._feed.take(message)
    status = said(frames)["status"]
    expected = {"armed": False, "stopped": True, "safe_state": "braking", "standing": "fault"}
    assert {name: status[name] for name in expected} == expected
    assert [(each["node"], each["lifecycle"], each["fault"]) for each in status["nodes"]] == [
        ("plant", "fault", "estop"),
        ("controller", "active", ""),
    ]
    milliseconds = {key: 1e3 * each for key, each in times.items()}
    assert status["timing"] == [{"node": "plant", "name": "round trip"} | milliseconds]
    assert status["counts"] == [{"node": "plant", "name": "missed commands", "count": 3}]


def test_a_view_that_draws_too_much_is_refused_in_words(trailer: ClosedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    frames, talk = frames_of(trailer), Talk(trailer)
    frames._feed.take(talk.state(0))
    said(frames)
    frames._feed.take(talk.state(15))
    monkeypatch.setattr(module, "LINE", 100)
    with pytest.raises(TooLarge, match=r"one rows of this run has \d+ bytes, a page takes 100; draw less in its VIEW"):
        said(frames)


def test_recorded_views_are_json_with_limits_of_the_whole_run() -> None:
    run = servonode.load("sphero_pursuit", run__duration=1.0).simulate()
    scene = Scene.of(run)
    columns = scene.known | {f"target_{name}": values for name, values in scene.goals.items()}
    views = recorded_views(scene, Motion.of(run.t), columns)
    json.dumps(views)
    drawn = [each["shapes"][-1] for each in views]
    assert [len(each["arrows"]) for each in drawn] == [1] * len(views)
    assert drawn[-1]["caption"].endswith("°")
    assert np.shape(drawn[0]["lines"][0]) == (49, 2)
    across = views[0]["limits"]["x"]
    assert across[0] <= min(columns["X"]) <= max(columns["target_x"]) <= across[1]
    arrows = [each["arrows"][0]["vector"] for each in views[0]["shapes"]]
    assert views[0]["largest"] == pytest.approx(max(np.hypot(*vector) for vector in arrows))


def test_arrow_scale_grows_and_ignores_rounding(sphero: ClosedLoop) -> None:
    scale = ArrowScale(sphero.views[0], sphero.machine)
    columns = {"N_x": np.array([1.0]), "N_y": np.array([1.0])}
    for size, largest in ((1e-15, 0.0), (2.0, 3.0), (2.5, 3.0), (float("nan"), 3.0), (4.0, 6.0)):
        scale.follow([Shapes([], [], {"a": np.array([[0.0, 0.0], [size, 0.0]])}, "")], columns)
        assert scale.largest == largest


def test_a_view_of_unknown_values_has_no_goal_and_null_points(trailer: ClosedLoop) -> None:
    view = View(outline=lambda _, __: [np.array([[np.nan, np.inf]])], goal=("x", "y"))
    assert view_layout(view, ["x"])["goal"] is None
    shapes = Shapes.of(view, Instant(trailer.source, {}, {}))
    assert msgspec.json.encode(shapes_data(shapes)["lines"]) == b"[[[null,null]]]"


def test_the_wanted_path_is_told_as_far_as_the_machine_needs_it() -> None:
    closed_loop = servonode.load("trailer_reverse", run__duration=1.0).closed_loop
    frames, talk = frames_of(closed_loop), Talk(closed_loop)
    frames._feed.take(talk.state(0))
    (line,) = said(frames)["wanted"]["views"][0]
    assert line["name"] == "wanted line"
    assert np.ptp(line["points"], axis=0).max() > 1.0
    frames._feed.take(talk.state(15))
    assert "wanted" not in said(frames)  # it has been told
    frames._feed.take(Talk(closed_loop, run=9).state(0))
    assert said(frames)["wanted"]["views"][0] == [line]


def test_a_small_lean_is_magnified_and_its_title_says_so(sphero: ClosedLoop) -> None:
    frames = frames_of(sphero)
    frames._feed.take(Talk(sphero).state(15))
    seen = frames._scene(frames._feed.ring.columns | {"theta": np.array([0.03]), "n_0": np.array([0.03])})["views"]
    assert any("x5" in each["title"] for each in seen)
