"""Pause, step and speed of a simulated plant: on a clock that the test moves, and on processes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import servonode
from servonode.bus import MemoryBus, Switchboard
from servonode.bus.fleet_memory import BEGUN, ENDED, FINISHED, RESUME_NS, FleetMemory
from servonode.bus.topology import PLANT
from servonode.nodes.lockstep import lockstep
from servonode.nodes.plant_node import PlantNode
from servonode.nodes.realtime import RealTime
from tests.helpers.stepped import MS, WAITS, Bench, puck
from tests.nodes.test_real_time import Happening, Paced, notices, silent

SHORT = "run.duration=0.5"


def asks(verb: str, answers: list[dict[str, Any]] | None = None, **arguments: Any) -> Happening:
    """A request; its answer goes to `answers`, or it must be done."""

    def happens(bench: Bench) -> None:
        answer = bench.node.handle_request(verb, arguments)
        if answers is None:
            assert answer.get("done"), answer
        else:
            answers.append(answer)

    return happens


def rows(bench: Bench) -> np.ndarray:
    """What the plant has recorded, as bits."""
    return np.array(bench.node.record.rows).view(np.int64)


# in real time, on a clock of the test's


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_a_run_that_was_paused_has_the_bits_and_times_of_one_that_was_not(
    delay: int, speed: float, folder: Path
) -> None:
    chosen = (SHORT, f"controller.delay={delay}", f"run.speed={speed}")
    whole = Paced(puck(folder, *chosen)).run()
    paced = Paced(puck(folder, *chosen)).at(60.3, asks("pause")).at(90_000, asks("resume"))
    paced.at(90_020.2, asks("pause")).at(95_000, asks("step", periods=3)).at(99_000, asks("resume")).run()
    np.testing.assert_array_equal(rows(paced), rows(whole))
    assert paced.faults == []
    summary, expected = paced.node.summary(), whole.node.summary()
    assert summary["times"] == expected["times"]  # no period and no age contains a pause
    assert (summary["counts"], paced.pace.lateness.misses) == (expected["counts"], 0)
    assert summary["pauses"] == 3
    assert summary["paused_s"] == pytest.approx(98.9, abs=0.1)
    assert paced.pace.summary()["rate"] == pytest.approx(whole.pace.summary()["rate"])
    assert paced.pace.summary()["wall_s"] == pytest.approx(whole.pace.summary()["wall_s"] + summary["paused_s"])


def test_a_paused_plant_publishes_no_state_and_says_where_it_stands(folder: Path) -> None:
    answers: list[dict[str, Any]] = []
    paced = Paced(puck(folder, SHORT)).at(60.8, asks("pause", answers)).at(5000, asks("status", answers))
    paced.at(5001, asks("resume")).run()
    assert answers[0] == {"done": True, "lifecycle": "active", "until": 0.07}
    assert (answers[1]["paused"], answers[1]["t"], answers[1]["lifecycle"]) == (True, 0.07, "active")
    begun = next(state.mono for state in paced.states if state.k == 70) - paced.begin
    assert begun == pytest.approx(5001 * MS, abs=MS)
    stood = [status.k for status in paced.statuses if status.values["paused"]]
    assert set(stood) == {70}
    assert len(stood) >= 20  # a launcher takes a plant without a status for one that hangs


def test_a_pause_hides_no_controller_that_is_gone_and_makes_none_late(folder: Path) -> None:
    chosen = ("run.duration=1", "plant.publish_every=100", "plant.safety.safe_time=0")
    alone = Paced(puck(folder, *chosen)).at(200.7, silent)
    noticed = notices(alone)
    alone.run()
    paced = Paced(puck(folder, *chosen)).at(200.7, silent).at(215, asks("pause")).at(60_000, asks("resume"))
    later = notices(paced)
    paced.run()
    assert paced.faults == alone.faults == ["stale_command"]
    assert paced.node.faults == alone.node.faults
    assert later[0][0] - paced.node.pause.paused_ns / MS == pytest.approx(noticed[0][0], abs=1e-3)


@pytest.mark.parametrize(("answered_at", "acts"), [(25.0, True), (60.0, False)])
def test_an_answer_from_before_a_pause_acts_only_within_its_own_time(
    answered_at: float, acts: bool, folder: Path
) -> None:
    paced = Paced(puck(folder, SHORT)).at(95, silent).at(101, asks("pause")).at(5000, asks("resume"))
    begins: Happening = lambda bench: setattr(bench, "latency_ns", MS // 2)  # noqa: E731
    paced.at(4999, begins)

    def answer(bench: Bench) -> None:
        bench.publish(bench.command(next(state for state in bench.states if state.k == 100), 0.5))

    paced.at(100 + answered_at, answer).run()
    assert paced.counts.get("refused_stale", 0) == (0 if acts else 1)
    assert [k for k, values in paced.acted if values[0] == 0.5] == ([110] if acts else [])
    assert paced.faults == []


@pytest.mark.parametrize("mode", ["realtime", "lockstep"])
def test_an_emergency_stop_ends_a_pause_and_plant_time_goes_on_under_the_safe_action(mode: str, folder: Path) -> None:
    happenings: list[tuple[float, Happening]] = [
        (105, asks("pause")), (2000, asks("estop")), (9000, asks("reset_estop")), (9010, asks("arm")),
    ]  # fmt: skip
    bench = Paced(puck(folder, "run.duration=10", mode=mode))
    for at, happening in happenings:
        bench.at(at, happening)
    if mode == "realtime":
        bench.run()
    else:
        bench.law = lambda _: {"F": 0.01, "G": 0.02}
        lockstep(bench.node, 5.0)
    assert bench.faults == ["estop"]
    (fault,) = bench.node.faults
    stood = next(status.t for status in bench.statuses if status.values["paused"])
    assert fault.t == stood
    assert bench.node.plant.k == 10_000
    assert bench.node.pause.at is None
    assert bench.node.pause.paused_ns < 2000 * MS


@pytest.mark.parametrize("mode", ["realtime", "lockstep"])
def test_a_paused_run_ends_when_it_is_told_to(mode: str, folder: Path) -> None:
    bench = Paced(puck(folder, "run.duration=10", mode=mode)).at(105, asks("pause"))
    bench.at(3000, lambda bench: bench.node.halt())
    if mode == "realtime":
        bench.run()
    else:
        lockstep(bench.node, 5.0)
    assert bench.statuses[-1].lifecycle == "finished"
    assert bench.node.plant.k < 10_000
    assert bench.ms == pytest.approx(3000, abs=1)


def test_while_paused_it_is_disarmed_but_not_armed(folder: Path) -> None:
    answers: list[dict[str, Any]] = []
    paced = Paced(puck(folder, "run.duration=1", WAITS)).at(105, asks("pause")).at(2000, asks("disarm"))
    paced.at(2100, asks("arm", answers)).at(2200, asks("resume")).at(2300, asks("arm")).run()
    assert (
        answers[0]["refused"] == "the run is paused, so that no controller answers; resume it first (servonode resume)"
    )
    assert (paced.faults, paced.node.plant.k) == ([], 1000)


@pytest.mark.parametrize("speeds", [(0.02, 1.0, 20.0), (50.0, 0.1, 3.0), (7.0, 7.0, 0.05)])
def test_at_another_speed_every_period_lasts_as_long_as_it_says(speeds: tuple[float, ...], folder: Path) -> None:
    chosen = ("run.duration=2", "plant.safety.command_timeout_floor=0.001")
    paced = Paced(puck(folder, *chosen), latency_ns=10_000)
    asked = dict(zip((200, 700, 1200), speeds, strict=True))

    def act(values: tuple[float, ...]) -> None:  # at the first write from a step on
        if asked and paced.node.plant.k >= next(iter(asked)):
            paced.bus.plan(paced.clock.now, lambda: asks("speed", speed=asked.pop(next(iter(asked))))(paced))

    paced.on_write = act
    paced.run()
    assert (paced.faults, paced.node.plant.k) == ([], 2000)
    assert {key: paced.counts.get(key, 0) for key in ("refused_stale", "repeats")} == {"refused_stale": 0, "repeats": 0}
    sent = {state.k: state.mono for state in paced.states if state.control}
    for first, speed in zip((250, 750, 1300), speeds, strict=True):
        assert (sent[first + 100] - sent[first]) / 1e8 == pytest.approx(1 / speed, rel=1e-3)
    assert paced.node.summary()["speed_changes"] == list(speeds)
    assert paced.statuses[-1].values["speed"] == speeds[-1]


@pytest.mark.parametrize("before_ms", [0.5, 20.0, 250.0])
def test_a_controller_that_stays_away_is_noticed_at_another_speed_too(before_ms: float, folder: Path) -> None:
    chosen = ("run.duration=1", "plant.safety.safe_time=0")
    paced = Paced(puck(folder, *chosen)).at(1, asks("speed", speed=0.1)).at(1400, silent)
    paced.at(1400 + before_ms, asks("speed", speed=1.0)).run()
    assert paced.faults == ["stale_command"]
    owed = paced.node.faults[0].t - max(state.t for state in paced.states if state.t <= 0.145)
    assert 0.01 < owed < 0.05  # three periods and what was under way


# in real time, of several robots


def beside_another(folder: Path, simulated: bool = True) -> Any:
    """The puck in a launch with another robot, for which nobody waits."""
    entries = {robot: {name: i for i, name in enumerate("xyuv")} for robot in ("own", "other")}
    memory = FleetMemory(entries, simulated=simulated)
    memory.words[1, BEGUN], memory.words[1, ENDED] = 1, FINISHED
    return puck(folder, SHORT).with_parts(member=memory.member("own"))


def test_a_pause_by_way_of_another_robot_leaves_one_common_clock(folder: Path) -> None:
    loop = beside_another(folder)
    paced, other = Paced(loop), loop.member.memory.member("other")
    stood: list[tuple[int, bool]] = []

    def notes(bench: Bench) -> None:
        stood.append((bench.node.plant.k, bench.node.pause.paused))

    def lets_pass(instant: int | None) -> Happening:
        return lambda bench: other.pause_from(instant, bench.clock())

    paced.at(60.3, lets_pass(10)).at(700.0, notes).at(900.4, lets_pass(13)).at(920.0, notes)
    paced.at(1500.0, notes).at(2000.7, lets_pass(None)).run()
    assert stood == [(100, True), (100, False), (130, True)]
    assert paced.faults == []
    assert (
        paced.pace.times.start_ns == paced.begin + round(2000.7 * MS) + RESUME_NS - 130 * MS
    )  # the same for whoever has stood there
    whole = Paced(puck(folder, SHORT)).run()
    np.testing.assert_array_equal(rows(paced), rows(whole))


def test_an_operator_of_one_robot_pauses_at_an_instant_that_no_other_has_passed(folder: Path) -> None:
    paced = Paced(beside_another(folder)).at(70.3, asks("pause"))
    refused: list[dict[str, Any]] = []
    paced.at(300.0, asks("speed", refused, speed=2.0)).at(400.0, asks("resume")).run()
    assert refused == [
        {"refused": "the robots of a launch share one clock, whose speed in real time is fixed: state run.speed"}
    ]
    assert paced.node.pause.stood == 80
    assert paced.node.summary()["pauses"] == 1


def test_robots_that_are_not_all_simulated_are_not_paused(folder: Path) -> None:
    bench = Bench(beside_another(folder, simulated=False))
    for verb in ("pause", "step", "speed", "resume"):
        assert "not all are simulated" in bench.node.handle_request(verb, {"speed": 2.0, "periods": 1})["refused"]


# in lockstep, on a clock of the test's


def driven(folder: Path, *happenings: tuple[float, Happening]) -> Paced:
    bench = Paced(puck(folder, SHORT, mode="lockstep"))
    for at, happening in happenings:
        bench.at(at, happening)
    lockstep(bench.node, 5.0)
    return bench


def test_lockstep_pauses_steps_and_goes_at_a_speed_with_equal_bits(folder: Path) -> None:
    whole, answers = driven(folder), list[dict[str, Any]]()
    assert whole.ms < 50  # each answer takes half a millisecond
    paced = driven(
        folder, (3.2, asks("pause", answers)), (90_000, asks("step", answers, periods=4)),
        (90_100, asks("step", answers, periods=2)), (90_200, asks("step", answers, periods=1)),
        (95_000, asks("speed", answers, speed=0.5)), (95_001, asks("resume", answers)),
    )  # fmt: skip
    np.testing.assert_array_equal(rows(paced), rows(whole))
    first = answers[0]["until"]
    steps = [0.0, 0.04, 0.06, 0.07, 0.07]
    assert [answer["until"] for answer in answers[:5]] == pytest.approx([first + step for step in steps])
    assert answers[5] == {"done": True, "lifecycle": "active", "until": None}
    left = 0.5 - answers[3]["until"]
    assert paced.ms == pytest.approx(95_001 + left / 0.5 * 1000, abs=3)
    assert paced.faults == []
    assert paced.node.all_counts() == whole.node.all_counts()


def test_lockstep_goes_as_fast_as_its_nodes_again(folder: Path) -> None:
    paced = driven(folder, (3.2, asks("speed", speed=0.01)), (1500, asks("speed", speed="max")))
    assert paced.ms < 1500 + 1000 + 50
    assert paced.node.summary()["speed_changes"] == [0.01, None]


# what is refused


def refused(answer: dict[str, Any]) -> str:
    assert list(answer) == ["refused"]
    return str(answer["refused"])


def test_what_cannot_be_paused_stepped_or_resumed_says_why(folder: Path) -> None:
    bench = Bench(puck(folder, mode="lockstep"))
    asked: Callable[..., str] = lambda verb, **more: refused(bench.node.handle_request(verb, more))  # noqa: E731
    standing = "the plant is not armed, so that its time stands still; arm it first (servonode arm)"
    assert asked("pause") == standing
    bench.activate()
    for verb in ("resume", "step"):
        assert asked(verb, periods=1) == "the run is not paused; pause it first (servonode pause)"
    assert "done" in bench.node.handle_request("pause")
    assert bench.node.handle_request("status")["pauses_at"] == bench.node.pause.until
    assert asked("pause") == "the run is paused already; let it go on (servonode resume)"
    bench.node.handle_request("disarm")
    assert asked("step", periods=1) == standing
    bench.node.handle_request("estop")
    assert asked("step", periods=1) == "fault estop is latched; reset it first (servonode reset --estop)"


@pytest.mark.parametrize("verb", ["pause", "resume", "step", "speed"])
def test_the_time_of_a_machine_that_is_not_simulated_cannot_be_changed(verb: str, folder: Path) -> None:
    bench = Bench(puck(folder)).activate()
    bench.node.plant.simulated = False
    text = f"the time of a machine behind driver 'simulated' cannot be changed; {verb} is for simulated plants"
    assert refused(bench.node.handle_request(verb, {"periods": 1, "speed": 2.0})) == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20), lambda of: st.lists(of, max_size=3)
)


@given(value=VALUES)
@settings(deadline=None)
def test_whatever_is_asked_for_is_taken_or_refused_in_a_sentence(value: Any, tmp_path_factory: Any) -> None:
    bench = ASKED.get("bench") or ASKED.setdefault("bench", Bench(puck(tmp_path_factory.mktemp("puck"))).activate())
    bench.node.pause.at = 100
    for verb, word in (("step", "periods"), ("speed", "speed")):
        answer = bench.node.handle_request(verb, {word: value})
        number = isinstance(value, int | float) and not isinstance(value, bool)
        assert list(answer) == ["refused"] or number
    assert 0.01 <= (bench.node.pause.speed or 0.0) <= 1e6


ASKED: dict[str, Bench] = {}


# on processes


def test_a_plant_that_is_late_is_as_late_at_another_speed() -> None:
    now = 10**12
    node = PlantNode(servonode.load("trailer_pursuit").closed_loop, MemoryBus(Switchboard(), PLANT), (), 1, lambda: now)
    real = RealTime(node, 6.0, 0.1, 1.0)
    real.times.start_ns = now - real.times.due(10) - 30_000_000
    node.pause.carry_out("speed", {"speed": 0.05})
    real._keep_speed(10)
    assert now - real.times.due(10) == pytest.approx(30_000_000, abs=1000)
    assert real.times.due(11) - real.times.due(10) == 20_000_000
