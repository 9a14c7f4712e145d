"""The plant in real time on a clock that the test moves: its grid, its lateness, and its watch over commands.

Nothing sleeps. The node looks at no other clock than the one it is given, but for `time.thread_time_ns`, its own
computing, which stands still here unless a test says what was computed.
"""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servonode.bus import State
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.fault_ladder import Fault
from servonode.nodes.realtime import RealTime
from tests.helpers.stepped import MS, WAITS, Bench, puck

STEP_MS, PERIOD_MS = 1, 10
Happening = Callable[[Bench], object]


class Paced(Bench):
    """A run in real time. `computed`: the plant's own computing [ns]."""

    def __init__(self, closed_loop: ClosedLoop, latency_ns: int | None = MS // 2) -> None:
        super().__init__(closed_loop)
        self.computed = 0
        self.latency_ns = latency_ns
        run = closed_loop.launch.run
        self.pace = RealTime(self.node, run.speed, closed_loop.safety.command_timeout, run.lockstep_timeout)
        self.acted: list[tuple[int, tuple[float, ...]]] = []  # step from which an input acts, and the input
        self.on_write = lambda values: self.acted.append((self.node.plant.k, values))
        assert self.prepare()
        self.begin = self.clock.now
        self._late: dict[int, tuple[int, bool]] = {}
        self.bus.wakes_late = self._wakes_late

    def at(self, ms: float, happening: Happening) -> "Paced":
        """Plan what happens so long after the first state [ms of wall time]."""
        self.bus.plan(self.begin + round(ms * MS), lambda: happening(self))
        return self

    def late(self, ms: float, by_ms: float, own: bool = False) -> "Paced":
        """Have the first sleep to then or later [ms] end so much too late; `own`: for the plant computed so long."""
        self._late[self.begin + round(ms * MS)] = (round(by_ms * MS), own)
        return self

    def _wakes_late(self, deadline: int) -> int:
        for at in sorted(at for at in self._late if at <= deadline):
            by, own = self._late.pop(at)
            self.computed += by if own else 0
            return by
        return 0

    def run(self) -> "Paced":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("servonode.nodes.realtime.time", SimpleNamespace(thread_time_ns=lambda: self.computed))
            self.pace.run()
        return self

    @property
    def ms(self) -> float:
        """Wall time since the first state [ms]."""
        return (self.clock.now - self.begin) / MS

    @property
    def faults(self) -> list[str]:
        return [each.name for each in self.node.faults]

    def inputs(self) -> dict[int, tuple[float, ...]]:
        """The inputs that the record says acted, by step."""
        return {int(row[0]): tuple(row[-4:-2].tolist()) for row in self.node.record.rows}  # behind them the stamps


def silent(bench: Bench) -> None:
    bench.latency_ns = None


def says(word: str) -> Happening:
    return lambda bench: bench.node.handle_request(word)


# the grid


@pytest.mark.parametrize("speed", [1.0, 6.0, 0.3])
@pytest.mark.parametrize("step", ["0.001", "0.0001", "0.00037"])
def test_a_deadline_is_off_by_rounding_alone_however_long_the_run(speed: float, step: str, folder: Path) -> None:
    paced = Paced(puck(folder, f"run.speed={speed}", f"plant.step={step}", "run.duration=3.7", controlled=False))
    paced.pace.times.start_ns = paced.begin
    exact = Fraction(step) * 10**9 / Fraction(str(speed))
    for k in (1, 7, 1000, 10**5 + 1, 3 * 10**7 + 1):
        assert abs(paced.pace.times.due(k) - paced.begin - exact * k) <= 0.5 + float(exact * k) * 2**-52
    assert all(paced.pace.times.step(paced.pace.times.due(k) + 1) == k for k in range(1, 10_000, 7))


@pytest.mark.parametrize("speed", [1.0, 6.0, 0.3])
@pytest.mark.parametrize("events", [2000, pytest.param(30_000, marks=pytest.mark.soak)])
def test_the_grid_is_absolute_however_late_each_wake_up_was(speed: float, events: int, folder: Path) -> None:
    closed_loop = puck(folder, f"run.speed={speed}", f"run.duration={events / 1000}", "plant.parameters.c_b=1e-9",
                    controlled=False)  # fmt: skip
    paced = Paced(closed_loop)
    rng, wall = np.random.default_rng(5), paced.pace.times.step_ns
    paced.bus.wakes_late = lambda _: int(rng.integers(0, round(0.9 * wall)))
    off: list[float] = []

    def on_look() -> None:
        for state in paced.states:
            off.append(state.mono - paced.begin - state.k * wall)
        paced.states.clear()

    paced.bus.before_look = on_look
    paced.run()
    on_look()
    assert len(off) == events + 1
    assert min(off) >= -0.5
    assert max(off) < 0.9 * wall + 3
    assert paced.pace.summary()["misses"] == 0
    assert paced.pace.lateness.durations.count == events
    assert paced.pace.rate() == pytest.approx(speed, rel=2 / events)


@pytest.mark.parametrize(("every", "period"), [(1, 10), (7, 4), (25, 10)])
@pytest.mark.parametrize("speed", [1.0, 0.3])
def test_states_come_each_so_many_steps_and_at_each_control_instant(
    every: int, period: int, speed: float, folder: Path
) -> None:
    chosen = (f"plant.publish_every={every}", f"controller.period={period / 1000}", "run.duration=0.457")
    paced = Paced(puck(folder, *chosen, f"run.speed={speed}"), latency_ns=10_000).run()
    expected = sorted({*range(0, 457, every), *range(0, 457, period), 457})
    assert [state.k for state in paced.states] == expected
    assert [state.k for state in paced.states if state.control] == [k for k in expected if k % period == 0]
    assert [state.k for state in paced.states if state.final] == [457]
    start = paced.pace.times.start_ns
    late = [state.mono - start - state.k * paced.pace.times.step_ns for state in paced.states[1:]]
    assert max(map(abs, late)) <= 3
    assert (paced.faults, paced.pace.lateness.misses) == ([], 0)
    assert paced.counts["late_commands"] == 0


def test_the_clock_starts_with_the_first_answer_however_late(folder: Path) -> None:
    paced = Paced(puck(folder, "run.duration=0.1"))
    paced.law = lambda _: {"F": 0.1, "G": 0.0}
    paced.latency_ns = 3000 * MS
    paced.at(3000, lambda bench: setattr(bench, "latency_ns", MS)).run()
    assert paced.pace.times.start_ns == paced.begin + 3000 * MS
    assert (paced.faults, paced.pace.lateness.misses, paced.node.plant.k) == ([], 0, 100)
    assert paced.counts["resent_states"] == 29  # each 100 ms, as the same message
    assert len({state.seq for state in paced.states if state.k == 0}) == 1
    assert paced.pace.lateness.durations.maximum < 1e-6


@pytest.mark.parametrize("waits", [True, False])
def test_without_a_first_answer_the_run_does_not_begin(waits: bool, folder: Path) -> None:
    on_fault = "wait" if waits else "stop"
    chosen = ("run.duration=1", f'plant.safety.on_fault="{on_fault}"', "run.lockstep_timeout=2")
    paced = Paced(puck(folder, *chosen), latency_ns=None)
    first: list[float] = []
    paced.on_write = lambda _: first.append(paced.ms)
    paced.run()
    assert paced.faults == ["lockstep_timeout"]
    assert (
        paced.node.faults[0].text == "no answer to the state of step 0 within 2 s; check that the controller is running"
    )
    assert first[0] == pytest.approx(2000, abs=1e-3)
    assert paced.written[0] != (0.0, 0.0)  # the safe action


def test_a_stop_before_the_first_answer_waits_and_nothing_that_comes_acts(folder: Path) -> None:
    paced = Paced(puck(folder, "run.duration=0.5"), latency_ns=100 * MS)
    paced.law = lambda _: {"F": 0.77, "G": 0.77}
    paced.at(50, says("estop")).run()
    assert paced.faults == ["estop"]
    assert (0.77, 0.77) not in paced.written


@pytest.mark.parametrize(("duration", "steps"), [("0.1", 100), ("0.123", 123), ("0.009", 9), ("0.001", 1)])
def test_the_run_ends_with_its_last_step_also_where_that_is_no_control_instant(
    duration: str, steps: int, folder: Path
) -> None:
    paced = Paced(puck(folder, f"run.duration={duration}", "plant.publish_every=10")).run()
    assert (paced.node.plant.k, paced.faults, paced.pace.lateness.misses) == (steps, [], 0)
    assert paced.states[-1].k == steps
    assert paced.states[-1].final
    assert paced.statuses[-1].lifecycle == "finished"
    assert paced.node.record.rows[-1, 0] == steps
    assert paced.pace.summary()["wall_s"] == pytest.approx(steps / 1000, abs=1e-6)
    assert tuple(paced.node.plant.output) == (0.0, 0.0)


# commands


@pytest.mark.parametrize("latency", [0.0, 1.1, 9.7])
@pytest.mark.parametrize(("every", "speed"), [(1, 1.0), (10, 6.0), (3, 0.3)])
def test_a_command_acts_from_the_step_in_which_it_arrives(
    latency: float, every: int, speed: float, folder: Path
) -> None:
    chosen = ("run.duration=0.2", f"plant.publish_every={every}", f"run.speed={speed}")
    paced = Paced(puck(folder, *chosen), latency_ns=round(latency * MS / speed))
    paced.law = lambda state: {"F": state.k / 1000, "G": 0.0}
    paced.run()
    expected = {k + int(latency): (k / 1000, 0.0) for k in range(10, 200, 10)}
    acted = dict(paced.acted[1:])
    assert {k: values for k, values in acted.items() if 20 <= k < 190} == {
        k: values for k, values in expected.items() if 20 <= k < 190
    }
    recorded = paced.inputs()
    for k in range(30, 190):
        since = max(begin for begin in expected if begin <= k)
        assert recorded[k] == expected[since]
    assert "repeats" not in paced.counts
    assert paced.counts["late_commands"] == 0


@pytest.mark.parametrize(("delay", "latency"), [(1, 0.0), (1, 9.9), (2, 13.5), (2, 19.9)])
def test_with_a_delay_a_command_acts_at_its_control_instant_to_the_step(
    delay: int, latency: float, folder: Path
) -> None:
    chosen = ("run.duration=0.3", f"controller.delay={delay}", "plant.safety.repeats=0")
    paced = Paced(puck(folder, *chosen), latency_ns=round(latency * MS))
    paced.law = lambda state: {"F": state.k / 1000, "G": 0.0}
    paced.run()
    acted = {k: values[0] for k, values in paced.acted if 50 <= k < 300}
    assert acted == {k: (k - 10 * delay) / 1000 for k in range(50, 300, 10)}
    assert "repeats" not in paced.counts
    assert paced.counts["late_commands"] == 0


def test_a_command_beyond_its_delay_is_late_and_acts_at_once(folder: Path) -> None:
    paced = Paced(puck(folder, "run.duration=0.3", "controller.delay=1"), latency_ns=23_500_000)
    paced.law = lambda state: {"F": state.k / 1000, "G": 0.0}
    paced.run()
    acted = {k: values[0] for k, values in paced.acted if 100 <= k < 250}
    assert acted == {k: (k - 23) / 1000 for k in range(103, 250, 10)}
    assert paced.counts["late_commands"] > 20
    assert paced.faults == []


def test_a_controller_that_falls_behind_is_as_good_as_none_once_its_answers_are_older_than_the_watch(
    folder: Path,
) -> None:
    paced = Paced(puck(folder, "run.duration=2", WAITS))
    for i in range(100):  # 1 ms more each period: never more than 11 ms between two answers
        paced.at(95 + 10 * i, lambda bench, i=i: setattr(bench, "latency_ns", (1 + i) * MS))  # type: ignore[misc]
    paced.law = lambda state: {"F": state.t, "G": 0.0}
    paced.run()
    assert paced.faults == ["stale_command"]
    assert paced.counts["refused_stale"] >= 2
    last = max(values[0] for k, values in paced.acted if values[0] > 0)
    assert last == pytest.approx(0.39)  # the 30th answered in 30 ms
    assert paced.node.faults[0].t == pytest.approx(0.450, abs=1.1e-3)  # 30 ms after that answer came


# what stays away


def notices(paced: Paced) -> list[tuple[float, int]]:
    """When the faults to come are latched: wall time since the first state [ms], plant step."""
    latch, noticed = paced.guard.latch, list[tuple[float, int]]()

    def latched(fault: Fault) -> None:
        noticed.append((paced.ms, paced.node.plant.k))
        latch(fault)

    paced.guard.latch = latched  # type: ignore[method-assign]
    return noticed


@pytest.mark.parametrize("timeout_ms", [21.0, 38.6, 100.0])
@pytest.mark.parametrize("every", [1, 10, 100])
def test_a_silent_controller_is_noticed_to_the_moment(timeout_ms: float, every: int, folder: Path) -> None:
    chosen = (f"plant.safety.command_timeout={timeout_ms / 1000}", f"plant.publish_every={every}", "run.duration=1")
    paced = Paced(puck(folder, *chosen, "plant.safety.safe_time=0"))
    noticed = notices(paced)
    paced.at(200.7, silent).run()
    assert paced.faults == ["stale_command"]
    owed = 210.5  # the first state without an answer; the clock began with the first answer, after 0.5 ms
    (ms, k) = noticed[0]
    assert ms == pytest.approx(owed + timeout_ms, abs=1e-4)
    assert (k, len(noticed)) == (int(210 + timeout_ms), 1)
    text = f"no fresh command for {timeout_ms:.0f} ms: the machine's safe action; check that the controller is running "
    text += "and the computer is not busy (servonode doctor)"
    assert paced.node.faults[0].text == text
    steps = {values for k, values in paced.inputs().items() if 201 <= k < int(210 + timeout_ms)}
    assert steps == {(0.01, 0.02)}  # the last command acted until then


def test_while_a_newer_state_waits_the_watch_goes_on_from_the_last_answer(folder: Path) -> None:
    chosen = ("plant.safety.command_timeout=0.034", "plant.publish_every=10", "run.duration=1")
    paced = Paced(puck(folder, *chosen, "plant.safety.safe_time=0"), latency_ns=15 * MS)
    noticed = notices(paced)
    paced.at(200.7, silent).run()  # the state of 195 ms is answered at 210, that of 205 is not
    assert paced.faults == ["stale_command"]
    assert noticed[0][0] == pytest.approx(210 + 34, abs=1e-4)


def test_where_commands_may_resume_the_safe_action_acts_between(folder: Path) -> None:
    paced = Paced(puck(folder, "run.duration=1", 'plant.safety.on_fault="resume"'))
    paced.at(200.7, silent).at(400.2, lambda bench: setattr(bench, "latency_ns", MS // 2)).run()
    assert (paced.faults, paced.node.plant.k) == ([], 1000)
    assert (paced.counts["stale_commands"], paced.counts["resumed"]) == (1, 1)
    recorded = paced.inputs()
    assert recorded[239] == (0.01, 0.02)
    assert all(recorded[k] not in ((0.01, 0.02), (0.0, 0.0)) for k in range(240, 400))
    assert recorded[400] == (0.01, 0.02)


def test_what_was_missed_is_not_owed_after_a_new_arming(folder: Path) -> None:
    paced = Paced(puck(folder, "run.duration=2", WAITS, "plant.safety.safe_time=1.8"))
    begins: Happening = lambda bench: setattr(bench, "latency_ns", MS)  # noqa: E731
    paced.at(200.7, silent).at(500, begins).at(600, says("reset")).at(700, says("arm")).run()
    assert paced.faults == ["stale_command"]
    assert paced.node.plant.k == 2000
    assert paced.statuses[-1].lifecycle == "finished"
    assert len({state.run for state in paced.states}) == 2


def test_the_first_command_after_an_arming_has_the_time_of_a_first_answer(folder: Path) -> None:
    paced = Paced(puck(folder, "run.duration=3", WAITS, "run.lockstep_timeout=1.5"))
    paced.at(200, says("disarm")).at(300.7, says("arm")).at(301, silent)
    paced.run()
    assert paced.faults == ["stale_command"]
    assert "for 1500 ms" in paced.node.faults[0].text


@pytest.mark.parametrize("ms", [100.3, 103.2, 104.6, 109.9])
def test_a_stop_within_a_period_acts_from_its_step(ms: float, folder: Path) -> None:
    paced = Paced(puck(folder, "run.duration=0.3", "plant.publish_every=10"), latency_ns=0)
    paced.at(ms, says("estop")).run()
    assert paced.faults == ["estop"]
    k = int(ms)
    assert paced.node.faults[0].t == k / 1000
    recorded = paced.inputs()
    assert recorded[k - 1] == (0.01, 0.02)
    assert all(recorded[later][0] < -0.5 for later in range(k + 1, 290))


# lateness


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("by_ms", "misses", "counted"), [(1, 0, 0), (9, 0, 0), (11, 1, 0), (35, 3, 1), (200, 20, 1)])
def test_a_stall_is_counted_once_and_told_from_own_computing(
    by_ms: int, misses: int, counted: int, own: bool, folder: Path
) -> None:
    chosen = ("run.duration=1", "plant.publish_every=10", "plant.safety.lateness_limit=0.5")
    paced = Paced(puck(folder, *chosen), latency_ns=MS // 10).late(300, by_ms, own).run()
    assert (paced.faults, paced.node.plant.k) == ([], 1000)
    assert paced.pace.lateness.misses == misses
    assert (paced.pace.lateness.stalls, paced.pace.lateness.overruns) == ((0, counted) if own else (counted, 0))
    assert paced.pace.lateness.durations.maximum == pytest.approx(by_ms / 1000, abs=2e-6)
    late = sum(1 for state in paced.states if state.mono - paced.pace.times.due(state.k) > MS)
    assert late == -(-by_ms // 10) - (by_ms == 1)  # nothing adds up: then on the grid again


@pytest.mark.parametrize(("own", "name"), [(False, "host_stall"), (True, "overrun")])
@pytest.mark.parametrize("every", [1, 10])
def test_too_late_is_one_fault_of_its_name(own: bool, name: str, every: int, folder: Path) -> None:
    chosen = ("run.duration=3", f"plant.publish_every={every}", "plant.safety.lateness_limit=0.1", WAITS)
    paced = Paced(puck(folder, *chosen), latency_ns=MS // 10).late(300, 250, own)
    paced.at(900, says("reset")).at(1000, says("arm")).run()
    assert paced.faults == [name]
    assert paced.node.plant.k == 3000
    assert paced.statuses[-1].lifecycle == "finished"
    shown = "is 0.25 s behind the clock" if own else "did not run for 0.25 s"
    assert shown in paced.node.faults[0].text
    within = Paced(puck(folder, *chosen), latency_ns=MS // 10).late(300, 99.9, own).run()
    assert within.faults == []


@pytest.mark.parametrize("computed_ms", [1.5, 0.5])
def test_a_plant_that_falls_behind_little_by_little_is_an_overrun_also_on_a_busy_host(
    computed_ms: float, folder: Path
) -> None:
    chosen = ("run.duration=2", "plant.publish_every=10", "plant.safety.lateness_limit=0.102")
    paced = Paced(puck(folder, *chosen), latency_ns=MS // 10)
    advance = paced.node.plant.advance

    def slow(steps: int) -> None:
        paced.clock.now += round(1.5 * MS) * steps
        paced.computed += round(computed_ms * MS) * steps
        advance(steps)

    paced.node.plant.advance = slow  # type: ignore[method-assign]
    paced.run()
    assert paced.faults == ["overrun"]
    # 15 ms late at the end of the first period, which began in time, and 5 ms more at the end of each
    assert paced.node.faults[0].t == 0.19
    assert paced.pace.lateness.stalls == 0


def test_a_stall_while_a_command_is_owed_begins_the_wait_afresh_but_once(folder: Path) -> None:
    once = Paced(puck(folder, "run.duration=1", "plant.publish_every=10"), latency_ns=0)
    once.at(95, silent).late(110, 25).run()
    assert once.faults == ["stale_command"]
    assert once.node.faults[0].t == pytest.approx(0.165, abs=1e-3)  # 110 + 25 late, and 30
    twice = Paced(puck(folder, "run.duration=1", "plant.publish_every=10"), latency_ns=0)
    twice.at(95, silent).late(110, 25).late(150, 30).run()
    assert twice.faults == ["stale_command"]
    assert twice.node.faults[0].t <= 0.181
    none = Paced(puck(folder, "run.duration=1", "plant.publish_every=10"), latency_ns=0)
    none.at(95, silent).run()
    assert none.node.faults[0].t == pytest.approx(0.130, abs=1e-3)


def test_arming_is_refused_until_the_plant_has_caught_up(folder: Path) -> None:
    chosen = ("run.duration=3", "plant.publish_every=10", "plant.safety.lateness_limit=0.1", WAITS)
    paced = Paced(puck(folder, *chosen), latency_ns=MS // 10).late(300, 400)
    answers: list[dict[str, Any]] = []
    counted = paced.guard.latch

    def latch(fault: Fault) -> None:
        counted(fault)
        if not answers:  # still far behind
            answers.extend(paced.node.handle_request(word) for word in ("reset", "arm"))

    paced.guard.latch = latch  # type: ignore[method-assign]
    paced.at(900, says("arm")).run()
    assert "done" in answers[0]
    assert "refused" in answers[1]
    assert paced.faults == ["host_stall"]
    assert paced.statuses[-1].lifecycle == "finished"


# any course of events


COURSES = st.lists(
    st.tuples(
        st.floats(1.0, 400.0),
        st.one_of(
            st.sampled_from(["estop", "reset", "reset_estop", "arm", "disarm", "status", "silent", "answers"]),
            st.floats(0.0, 45.0),  # latency from now on [ms]
        ),
    ),
    max_size=12,
)
LATES = st.lists(st.tuples(st.floats(1.0, 400.0), st.floats(0.0, 120.0), st.booleans()), max_size=5)


def happens(paced: Paced, what: str | float) -> None:
    if isinstance(what, float):
        paced.latency_ns = round(what * MS)
    elif what in ("silent", "answers"):
        paced.latency_ns = None if what == "silent" else MS
    else:
        paced.node.handle_request(str(what))


@pytest.fixture(scope="module")
def harsh(folder: Path) -> ClosedLoop:
    chosen = ("plant.publish_every=3", "plant.safety.limit=0.9", "plant.safety.lateness_limit=0.05")
    return puck(folder, WAITS, *chosen, "controller.delay=1", "run.duration=0.5", "run.lockstep_timeout=0.2")


@given(course=COURSES, lates=LATES)
@settings(max_examples=60)
def test_any_course_of_events_keeps_time_and_is_safe(
    course: list[tuple[float, Any]], lates: list[tuple[float, float, bool]], harsh: ClosedLoop
) -> None:
    paced = Paced(harsh)

    def judge(values: tuple[float, ...]) -> None:
        assert all(abs(u) <= 0.9 for u in values)
        if paced.guard.lifecycle != "active":
            assert values in ((0.0, 0.0), paced.brake())
        paced.acted.append((paced.node.plant.k, values))

    paced.on_write = judge
    for ms, what in course:
        paced.at(ms, lambda _, what=what: happens(paced, what))  # type: ignore[misc]
    for ms, by, own in lates:
        paced.late(ms, by, own)
    paced.run()
    states: list[State] = paced.states
    ks = [state.k for state in states if state.k]
    assert ks == sorted(set(ks))
    start = paced.pace.times.start_ns
    assert all(state.mono >= start + int(state.k * paced.pace.times.step_ns) for state in states if state.k)
    rows = paced.node.record.rows[:, 0]
    assert np.array_equal(rows, np.arange(len(rows)))
    assert paced.node.plant.k == 500  # an estop waits, and so does every fault here
    times = [fault.t for fault in paced.node.faults]
    assert times == sorted(times)
