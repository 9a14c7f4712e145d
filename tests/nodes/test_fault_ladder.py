"""The fault ladder: what acts in each safe state, what wins, what stays, and what follows a fault."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servonode.bus.topology import PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.fault_ladder import SAFE_STATES, Fault, Ladder, SafeState
from servonode.nodes.lockstep import lockstep
from tests.helpers.stepped import MS, WAITS, Bench, active, puck

NAMES = sorted(SAFE_STATES)
AT = {safe_state: sorted(name for name in NAMES if SAFE_STATES[name] == safe_state) for safe_state in SafeState}


@pytest.fixture(scope="module")
def limp(folder: Path) -> ClosedLoop:
    """A machine that defines no safe action."""
    return puck(folder, WAITS, "plant.settings.brake=false")


def fault(name: str) -> Fault:
    return Fault(name, f"{name} happened", 1.0, PLANT)


# the ladder alone


def test_each_fault_has_its_safe_state_and_they_stand_in_this_order() -> None:
    assert [safe_state.name for safe_state in sorted(SafeState)] == ["NOMINAL", "WARN", "HOLD", "DAMP", "ZERO", "STOP"]
    assert {safe_state.name: AT[safe_state] for safe_state in SafeState if AT[safe_state]} == {
        "DAMP": [
            "estop",
            "host_stall",
            "law",
            "lockstep_timeout",
            "overrun",
            "robot",
            "stale_applied",
            "stale_command",
        ],
        "ZERO": [
            "device_law",
            "estimate",
            "flooding",
            "frozen_state",
            "implausible_state",
            "link_lost",
            "sensor_lost",
            "sensor_misfit",
            "stale_state",
        ],
        "STOP": ["device", "diverged", "jumps"],
    }


@given(st.lists(st.sampled_from(NAMES), max_size=20), st.sampled_from(list(SafeState)))
def test_the_most_severe_wins_in_any_order_and_each_name_counts_once(names: list[str], passing: SafeState) -> None:
    ladder = Ladder([])
    ladder.passing = passing
    first = [ladder.latch(fault(name)) for name in names]
    assert first == [name not in names[:i] for i, name in enumerate(names)]
    assert ladder.safe_state == max((SAFE_STATES[name] for name in names), default=passing)
    assert [each.name for each in ladder.latched] == list(dict.fromkeys(names))
    known = list(ladder.faults)
    ladder.reset()
    assert [each.name for each in ladder.latched] == [name for name in ("estop",) if name in names]
    ladder.reset(estop=True)
    assert (ladder.latched, ladder.safe_state, ladder.faults) == ([], SafeState.NOMINAL, known)
    assert all(ladder.latch(fault(name)) for name in dict.fromkeys(names))  # the same names count again
    assert ladder.faults == known * 2


# what acts


@pytest.mark.parametrize("name", NAMES)
def test_what_each_fault_lets_reach_the_machine(name: str, plain: ClosedLoop) -> None:
    bench = active(plain)
    bench.period(0.4, 0.3)
    bench.ask()
    bench.node.fault(name, "it happened")
    safe_state = SAFE_STATES[name]
    expected = bench.brake() if safe_state == SafeState.DAMP else (0.0, 0.0)
    assert bench.written[-1] == expected
    applied, status = bench.applied[-1], bench.statuses[-1]
    assert (applied.reasons, applied.desired, applied.re) == ([f"fault:{name}"], {}, -1)
    assert tuple(applied.input.values()) == expected
    assert (status.lifecycle, status.fault, status.safe_state) == ("fault", name, safe_state.name.lower())
    assert bench.node.status.describe()["text"] == "it happened"
    assert bench.node.must_end() == (safe_state == SafeState.STOP)
    count = len(bench.written)
    bench.period(1.0)
    assert bench.counts["refused_unarmed"] == 1
    assert (1.0, 0.0) not in bench.written
    assert (len(bench.written) > count) == (safe_state == SafeState.DAMP)  # computed again for each step


@pytest.mark.parametrize("name", AT[SafeState.DAMP])
def test_a_machine_without_safe_action_gets_zero_input(name: str, limp: ClosedLoop) -> None:
    bench = active(limp)
    bench.period(0.4, 0.3)
    bench.node.fault(name, "it happened")
    assert bench.written[-1] == (0.0, 0.0)
    assert bench.safely == 1  # the driver's own way, not a command
    assert (bench.guard.ladder.safe_state, bench.safe_state) == (SafeState.DAMP, "zero")
    bench.advance(20)
    assert bench.written[-1] == (0.0, 0.0)
    assert bench.safely == 1


def test_the_safe_action_follows_the_state_and_takes_energy_out(plain: ClosedLoop) -> None:
    bench = active(plain)
    bench.node.fault("estop", "it happened")
    energies = [bench.node.energy.present()]
    for _ in range(50):
        expected = bench.brake()
        bench.advance(1)
        assert bench.written[-1] == expected  # of the state at the beginning of the step
        energies.append(bench.node.energy.present())
    assert all(after < before for before, after in pairwise(energies))


def test_the_safe_action_is_computed_again_within_a_long_step_of_the_recording(plain: ClosedLoop) -> None:
    bench = Bench(plain, every=100).activate()
    bench.node.fault("estop", "it happened")
    count, held = len(bench.written), plain.safety.brake_steps
    bench.node.advance_to(bench.node.plant.k + 4 * held)
    assert len(bench.written) == count + 4


def test_the_safe_action_keeps_the_limits_of_value_and_is_not_slowed_by_the_rate(folder: Path) -> None:
    bench = active(puck(folder, WAITS, "plant.safety.limit=1.2", "plant.safety.rate_limit=1.0"))
    bench.node.fault("estop", "it happened")
    assert bench.written[-1][0] == -1.2  # 3 N s/m * 0.5 m/s would be 1.5
    assert bench.written[-1] == bench.brake()
    assert bench.written[-1][1] == pytest.approx(0.6, abs=1e-3)  # at once, from 0


def test_a_safe_action_that_is_not_finite_is_zero_input(plain: ClosedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = active(plain)
    bench.node.plant.x[2] = float("nan")
    bench.node.fault("estop", "it happened")
    assert (bench.written[-1], bench.safely, bench.node.must_end()) == ((0.0, 0.0), 0, False)
    bench.node.plant.finite = False  # as the plant itself finds it when it advances
    bench.node.fault("law", "it happened")
    assert (bench.written[-1], bench.safely, bench.node.must_end()) == ((0.0, 0.0), 1, True)


def test_after_the_reset_the_safe_action_goes_on(plain: ClosedLoop) -> None:
    bench = active(plain)
    bench.node.fault("estop", "it happened")
    bench.ask()
    bench.node.handle_request("reset_estop")
    assert bench.applied[-1].reasons == ["inactive"]
    for _ in range(5):
        expected = bench.brake()
        bench.advance(1)
        assert bench.written[-1] == expected
    assert (bench.guard.lifecycle, bench.safe_state) == ("inactive", "nominal")


# the safe states below damp


def test_a_limit_that_acts_is_the_safe_state_warn_until_none_does(folder: Path) -> None:
    bench = active(puck(folder, WAITS, "plant.safety.limit=0.5"))
    assert bench.safe_state == "nominal"
    bench.period(0.7, 0.2)
    assert (bench.written[-1], bench.safe_state) == ((0.5, 0.2), "warn")
    assert bench.applied[-1].reasons == ["limit:F"]
    assert bench.counts["saturated"] == bench.counts["limit:F"] == 1
    bench.period(0.5, 0.2)
    assert bench.safe_state == "nominal"


@pytest.mark.parametrize("delay", [0, 1, 2])
@pytest.mark.parametrize("budget", [0, 1, 3])
def test_a_missing_command_is_held_within_its_budget_and_then_the_safe_action_acts(
    delay: int, budget: int, folder: Path
) -> None:
    bench = active(puck(folder, WAITS, f"plant.safety.repeats={budget}", f"controller.delay={delay}"))
    for _ in range(3 + delay):
        bench.period(0.4)
    assert "repeats" not in bench.counts  # answers in time, also where they act later
    safe_states, written = [], []
    for _ in range(budget + delay + 3):
        bench.ask()
        bench.advance(10)
        safe_states.append(bench.safe_state)
        written.append(bench.written[-1] == (0.4, 0.0))
    held, damped = delay + budget, 3
    assert safe_states == ["nominal"] * delay + ["hold"] * budget + ["damp"] * damped
    assert written == [True] * held + [False] * damped
    assert bench.counts["repeats"] == budget + damped
    assert bench.counts["over_budget"] == 1
    assert bench.guard.lifecycle == "active"  # not latched
    expected = bench.brake()
    bench.advance(1)
    assert bench.written[-1] == expected
    bench.advance(9)
    for _ in range(delay + 1):
        assert bench.period(0.3)
    assert (bench.written[-1], bench.safe_state) == ((0.3, 0.0), "nominal")
    assert bench.guard.lifecycle == "active"


def test_without_a_budget_the_last_command_is_held(plain: ClosedLoop) -> None:
    bench = active(plain)
    bench.period(0.4)
    for held in range(1, 30):
        bench.ask()
        bench.advance(10)
        assert (bench.safe_state, bench.written[-1], bench.counts["repeats"]) == ("hold", (0.4, 0.0), held)
    bench.answer(0.2)
    assert bench.applied[-1].repeats == 0
    assert bench.safe_state == "nominal"


@pytest.mark.parametrize("budget", [0, 2])
def test_lost_states_count_as_repeats_in_lockstep_too(budget: int, folder: Path) -> None:
    chosen = ("run.duration=3", "plant.sensor.drop=0.5", f"plant.safety.repeats={budget}")
    bench = driven(puck(folder, *chosen, mode="lockstep"))
    counts, braked = bench.counts, [u for u in bench.written if u not in ((0.0, 0.0), (0.01, 0.02))]
    assert not bench.node.faults
    seen = {state.k for state in bench.states if state.control}
    lost = set(range(min(seen), 3000, 10)) - seen  # from the first answer on, each held or braked for one period
    assert counts["repeats"] == len(lost) > 100
    assert counts["repeats"] > counts["over_budget"] > 10
    assert braked


# what follows


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("on_fault", ["stop", "wait", "resume"])
def test_which_fault_ends_the_run(name: str, on_fault: str, folder: Path) -> None:
    bench = active(puck(folder, f'plant.safety.on_fault="{on_fault}"'))
    assert not bench.node.must_end()
    bench.node.fault(name, "it happened")
    final = SAFE_STATES[name] == SafeState.STOP or (on_fault != "wait" and name != "estop")
    assert bench.node.must_end() == final


def test_a_state_that_is_not_finite_ends_the_run_whatever_waits(plain: ClosedLoop) -> None:
    bench = active(plain)
    bench.node.plant.x[0] = float("inf")
    bench.advance(1)
    assert [each.name for each in bench.node.faults] == ["diverged"]
    assert (bench.safe_state, bench.written[-1], bench.node.must_end()) == ("stop", (0.0, 0.0), True)
    assert list(bench.node.handle_request("reset")) == ["refused"]


def driven(closed_loop: ClosedLoop, *happenings: tuple[int, Any], latency_ns: int = MS) -> Bench:
    """A run in lockstep with a law of its own, and what happens to it [ms after the start]."""
    bench = Bench(closed_loop)
    bench.latency_ns = latency_ns
    assert bench.prepare()
    for ms, happening in happenings:
        bench.bus.plan(bench.clock.now + ms * MS, lambda happening=happening: happening(bench))  # type: ignore[misc]
    lockstep(bench.node, closed_loop.launch.run.lockstep_timeout)
    return bench


def says(word: str) -> Any:
    return lambda bench: bench.node.handle_request(word)


@pytest.mark.parametrize(("safe_time", "steps"), [("0", 0), ("0.037", 37), ("0.5", 500), (None, 5000)])
def test_the_safe_action_acts_for_its_time_and_then_the_run_ends(
    safe_time: str | None, steps: int, folder: Path
) -> None:
    given = [] if safe_time is None else [f"plant.safety.safe_time={safe_time}"]
    bench = driven(
        puck(folder, "run.duration=8", *given, mode="lockstep"), (50, lambda b: setattr(b, "latency_ns", None))
    )
    assert [each.name for each in bench.node.faults] == ["lockstep_timeout"]
    assert bench.node.faults[0].t == bench.node.plant.t - steps / 1000
    assert bench.statuses[-1].lifecycle == "fault"
    assert bench.written[-1] == (0.0, 0.0)  # the plant is given back


def test_without_a_safe_action_there_is_no_time_for_it(folder: Path) -> None:
    settings = ("run.duration=8", "plant.settings.brake=false")
    bench = driven(puck(folder, *settings, mode="lockstep"), (50, lambda b: setattr(b, "latency_ns", None)))
    assert bench.node.faults[0].t == bench.node.plant.t


def test_a_machine_that_started_at_rest_and_is_at_rest_again_stays_under_its_safe_action(folder: Path) -> None:
    chosen = ("run.duration=30", "plant.safety.safe_time=100", "plant.initial.x_dot=0", "plant.initial.y_dot=0")
    bench = driven(puck(folder, *chosen, "plant.publish_every=10", mode="lockstep"), (50, says("estop")))
    assert [each.name for each in bench.node.faults] == ["estop"]
    assert bench.node.energy.present() < 1e-20
    assert bench.node.plant.k == bench.node.grid.steps


@pytest.mark.parametrize("ms", [0, 17])
def test_a_stop_whose_safe_action_reaches_the_end_of_a_lockstep_run_ends_it(ms: int, folder: Path) -> None:
    settings = ("run.duration=0.5", "plant.safety.safe_time=5")
    bench = driven(puck(folder, *settings, mode="lockstep"), (ms, says("estop")))
    assert [each.name for each in bench.node.faults] == ["estop"]
    assert bench.node.plant.k == bench.node.grid.steps


def test_a_stop_in_lockstep_waits_for_reset_and_arm_and_the_run_goes_on_under_a_new_id(folder: Path) -> None:
    settings = ("run.duration=1", "plant.safety.safe_time=0.1")
    happenings = (20, says("estop")), (900, says("reset_estop")), (1900, says("arm"))
    bench = driven(puck(folder, *settings, mode="lockstep"), *happenings)
    assert [each.name for each in bench.node.faults] == ["estop"]
    assert bench.node.plant.k == bench.node.grid.steps
    assert len({state.run for state in bench.states}) == 2
    assert bench.statuses[-1].lifecycle == "finished"
    stood = [status.k for status in bench.statuses if status.lifecycle in ("fault", "inactive")]
    assert stood[-1] == bench.node.faults[0].t * 1000 + 100  # time stood still after the safe action


def test_a_law_that_fails_ends_the_run_with_its_text(folder: Path) -> None:
    closed_loop = puck(folder, "run.duration=1", "plant.safety.safe_time=0.02", mode="lockstep")
    bench = active(closed_loop)
    bench.give(bench.command(bench.ask(), 0.4, fault="rank lost"))
    found = bench.node.faults[0]
    assert (found.name, found.text, found.node, found.t) == ("law", "rank lost", "controller", 0.01)
    assert bench.written[-1] == bench.brake()


def test_a_fault_of_the_machine_is_found_at_the_control_instant(folder: Path) -> None:
    bench = active(puck(folder, "plant.settings.edge=true", "plant.initial.x=0.991"))
    assert not bench.guard.failed
    for _ in range(10):
        bench.period(0.0)
    found = bench.node.faults[0]
    assert (found.name, found.text, found.t) == ("over_the_edge", "over the edge (x >= 1 m)", 0.02)


def test_a_fault_of_a_machine_without_controller_is_located_within_the_step(folder: Path) -> None:
    bench = Bench(puck(folder, "plant.settings.edge=true", "plant.initial.x=0.99", controlled=False))
    bench.prepare()
    bench.advance(40)
    found = bench.node.faults[0]
    assert (found.name, found.text) == ("over_the_edge", "over the edge (x >= 1 m)")
    assert found.t == pytest.approx(0.02, abs=1e-12)
    assert bench.safe_state == "damp"
