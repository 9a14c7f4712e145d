"""The guard in front of a plant: which commands act, what arming asks for, what limits make of a command."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from servonode.bus import Command
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.answers import OUTSTANDING
from servonode.nodes.fault_ladder import ESTOP_STAYS_LATCHED, MACHINE, SAFE_STATES, SafeState
from tests.helpers.stepped import MS, SRC, WAITS, Bench, active, puck

RATE = "plant.safety.rate_limit=10"  # 0.1 N a period
LOOPBACK = 'plant.driver="loopback"'


# commands


def test_a_good_answer_acts_from_its_instant_and_is_told(plain: ClosedLoop) -> None:
    bench = active(plain)
    command = bench.command(bench.ask(), 0.4, -0.3)
    assert bench.give(command)
    assert bench.written[-1] == (0.4, -0.3)
    applied = bench.applied[-1]
    assert (applied.input, applied.desired) == ({"F": 0.4, "G": -0.3}, {"F": 0.4, "G": -0.3})
    assert (applied.re, applied.reasons, applied.repeats, applied.k) == (command.seq, [], 0, 10)
    bench.advance(10)
    assert bench.ask().input == {"F": 0.4, "G": -0.3}


POISON = {"F": 77.0, "G": -77.0}
REFUSED: dict[str, dict[str, Any]] = {
    "shape": {"input": {"F": 77.0}},
    "non_finite": {"input": {"F": math.nan, "G": 77.0}},
    "run": {"input": POISON, "run": 12345},
    "future": {"input": POISON, "re": 10**6},
    "old": {"input": POISON, "re": -1},
    "src": {"input": POISON, "src": SRC + 1},
}


def test_more_states_than_can_wait_for_an_answer_are_forgotten_oldest_first(plain: ClosedLoop) -> None:
    bench = active(plain)
    states = []
    for _ in range(OUTSTANDING + 6):
        states.append(bench.ask())
        bench.advance(10)
    assert bench.counts["missed_commands"] == 6
    assert not bench.give(bench.command(states[5], 0.4))
    assert bench.counts["refused_old"] == 1
    assert bench.give(bench.command(states[6], 0.4))


def test_of_two_answers_in_one_look_the_newest_acts_and_an_older_state_cannot_be_answered_any_more(
    plain: ClosedLoop,
) -> None:
    bench = active(plain)
    first = bench.ask()
    bench.advance(10)
    second = bench.ask()
    assert bench.give(bench.command(first, 0.3), bench.command(second, 0.4))
    assert bench.written[-1] == (0.4, 0.0)
    assert bench.counts["late_commands"] == 1
    bench.advance(10)
    first = bench.ask()
    bench.advance(10)
    second = bench.ask()
    assert bench.give(bench.command(second, 0.5), bench.command(second, 0.6), bench.command(first, 0.7))
    assert bench.written[-1] == (0.5, 0.0)
    counts = bench.counts
    assert (counts["refused_repeated"], counts["refused_old"], counts["missed_commands"]) == (1, 1, 1)


def test_an_answer_in_the_name_of_another_controller_is_refused_until_the_run_is_armed_anew(plain: ClosedLoop) -> None:
    bench = active(plain)
    assert not bench.period(0.4, src=SRC + 1)
    assert bench.counts["refused_src"] == 1
    bench.node.handle_request("estop")
    assert not bench.period(0.4, src=SRC + 1)
    assert bench.counts["refused_src"] == 1  # unarmed, any controller counts as one that answers
    assert "done" in bench.node.handle_request("reset_estop")
    assert "done" in bench.node.handle_request("arm")
    assert bench.period(0.4, src=SRC + 1)
    assert not bench.period(0.5)
    assert bench.counts["refused_src"] == 2
    assert bench.written[-1] == (0.4, 0.0)


# limits


def test_where_a_fault_resumes_a_successor_of_the_controller_may_answer(folder: Path) -> None:
    bench = active(puck(folder, 'plant.safety.on_fault="resume"'))
    assert bench.period(0.25, src=SRC + 1)
    assert bench.written[-1] == (0.25, 0.0)


def test_commands_are_missed_and_held_while_active_alone(plain: ClosedLoop) -> None:
    bench = active(plain)
    for missed, held in ((2, 2), (2, 2)):
        for _ in range(2):
            bench.ask()
            bench.advance(10)
        bench.period(0.0)
        assert (bench.counts["missed_commands"], bench.counts["repeats"]) == (missed, held)
        bench.node.handle_request("disarm")


def test_a_slow_answer_is_a_sign_of_life_but_does_not_act(plain: ClosedLoop) -> None:
    bench = active(plain)
    bench.guard.answers.oldest_ns = 5 * MS
    for acts, counted in ((True, {}), (False, {"refused_stale": 1})):
        command = bench.command(bench.ask(), 0.25)
        bench.advance(5 if acts else 6)
        assert bench.give(command) == acts
        assert counted.items() <= bench.counts.items()
        bench.advance(5 if acts else 4)
    bench.node.handle_request("disarm")
    command = bench.command(bench.ask(), 0.25)
    bench.advance(8)
    assert not bench.give(command)
    assert (bench.guard.answers.age_ns(), bench.counts["refused_stale"]) == (0, 1)


def test_limits_are_lowered_while_armed_and_rise_to_those_of_the_start_when_not(folder: Path) -> None:
    limits = ("plant.safety.limit=2", "plant.safety.rate_limit=300", "plant.safety.power_limit=0.5")
    bench = active(puck(folder, WAITS, *limits))
    lower, start = [0.5, 1.0, 200.0, 200.0, 0.25], [2.0, 2.0, 300.0, 300.0, 0.5]
    for wrong in ([], lower[1:], [2.5, *start[1:]], [-0.5, *lower[1:]], [*start[:4], 0.75], [math.nan, *lower[1:]]):
        with pytest.raises(ValueError, match=r"above|limits are given"):
            bench.guard.lower(wrong)
    bench.guard.lower(lower)
    with pytest.raises(ValueError, match=r"0\.6 is above 0\.5: the machine is armed"):
        bench.guard.lower([0.6, *lower[1:]])
    assert bench.period(1.0)
    assert 0.0 < bench.written[-1][0] * bench.states[-1].state["x_dot"] <= 0.25 * (1 + 1e-12)
    bench.node.handle_request("disarm")
    assert bench.acting[0] == -0.5  # 3 N s/m times more than 0.4 m/s
    bench.guard.lower(start)
    bench.advance(1)
    assert bench.acting[0] < -1.0
    with pytest.raises(ValueError, match="has limits of its start"):
        bench.guard.lower([2.5, *start[1:]])


def test_lowered_power_counts_when_a_delayed_command_acts(folder: Path) -> None:
    bench = active(puck(folder, WAITS, "controller.delay=1", "plant.safety.power_limit=5"))
    limits, plant, powers = bench.guard.limiter.limits, bench.node.plant, list[float]()
    bench.guard.lower([*limits.value, *limits.rate, 0.125])
    bench.on_write = lambda values: powers.append(
        float(bench.node.closed_loop.machine.input_rates(plant.t, plant.x) @ np.array(values))
    )
    for _ in range(5):
        assert bench.period(2.0)
    assert max(powers) == pytest.approx(0.125, rel=1e-12)


def test_the_rate_starts_from_zero_however_long_the_plant_was_armed(folder: Path) -> None:
    bench = Bench(puck(folder, WAITS, RATE))
    bench.prepare()
    for _ in range(300):
        bench.ask()
        bench.advance(10)
    for i in range(1, 15):
        bench.period(0.95, -0.05)
        assert bench.written[-1] == pytest.approx((min(i / 10, 0.95), -0.05), abs=1e-12)
    assert bench.counts["rate:F"] == 9


def test_the_rate_starts_from_zero_after_zero_input(folder: Path) -> None:
    bench = active(puck(folder, WAITS, RATE, "plant.settings.brake=false"))
    for _ in range(10):
        bench.period(1.0)
    assert bench.written[-1] == pytest.approx((1.0, 0.0))
    assert "done" in bench.node.handle_request("disarm")
    assert bench.written[-1] == (0.0, 0.0)
    assert "done" in bench.node.handle_request("arm")
    assert bench.period(1.0)
    assert bench.written[-1] == pytest.approx((0.1, 0.0), abs=1e-12)


def test_the_rate_starts_from_the_brake_after_the_brake(folder: Path) -> None:
    bench = active(puck(folder, WAITS, RATE))
    bench.node.handle_request("disarm")
    bench.advance(17)
    assert bench.written[-1][0] < -1.3
    bench.advance(3)
    assert "done" in bench.node.handle_request("arm")
    bench.ask()
    last = bench.written[-1]
    assert bench.give(bench.command(None, 1.0, 1.0))
    assert bench.written[-1] == pytest.approx((last[0] + 0.1, last[1] + 0.1), abs=1e-12)


@pytest.mark.parametrize("held", [1, 5, 40])
def test_the_rate_allows_one_period_however_long_the_command_was_held(held: int, folder: Path) -> None:
    bench = active(puck(folder, WAITS, RATE))
    bench.period(0.1)
    for _ in range(held):
        bench.ask()
        bench.advance(10)
    bench.period(1.0)
    assert bench.written[-1] == pytest.approx((0.2, 0.0), abs=1e-12)


@pytest.mark.parametrize("delay", [1, 2])
def test_the_rate_goes_from_one_command_to_the_next_also_while_they_wait(delay: int, folder: Path) -> None:
    bench = active(puck(folder, WAITS, RATE, f"controller.delay={delay}"))
    values = []
    for _ in range(8 + delay):
        bench.period(1.0)
        values.append(bench.acting[0])
    assert values[delay:] == pytest.approx([i / 10 for i in range(1, 9)], abs=1e-12)


def test_power_is_cut_only_where_it_goes_into_the_machine(folder: Path) -> None:
    bench = active(puck(folder, WAITS, "plant.safety.power_limit=0.1"))
    x_dot, y_dot = (float(bench.node.plant.x[i]) for i in (2, 3))
    assert (x_dot, y_dot) == (0.5, -0.2)
    bench.period(1.0, 0.5)
    factor = 0.1 / (x_dot - 0.5 * 0.2)
    assert bench.written[-1] == pytest.approx((factor, 0.5 * factor))
    assert bench.applied[-1].reasons == ["power"]
    assert bench.safe_state == "warn"
    bench.period(-50.0, 50.0)
    assert (bench.written[-1], bench.safe_state) == ((-50.0, 50.0), "nominal")


@pytest.mark.parametrize("delay", [1, 2])
def test_power_is_judged_when_the_command_acts(delay: int, folder: Path) -> None:
    bench = active(puck(folder, WAITS, "plant.safety.power_limit=0.1", f"controller.delay={delay}"))
    bench.answer(0.2)
    bench.node.plant.x[2] = 5.0  # ten times as fast when it acts
    bench.advance(10 * delay)
    bench.node.act()
    F = bench.written[-1][0]
    assert F * float(bench.node.plant.x[2]) == pytest.approx(0.1, rel=1e-9)


def test_the_rate_counts_from_what_power_has_left_of_a_delayed_command(folder: Path) -> None:
    bench = active(puck(folder, WAITS, RATE, "plant.safety.power_limit=0.1", "controller.delay=1"))
    bench.period(0.1)
    bench.period(0.2)  # at 0.5 m/s, and faster when it acts
    state = bench.ask()
    bench.node.act()
    (acting, _) = bench.acting
    assert 0.19 < acting < 0.2
    bench.give(bench.command(state, 0.0))
    bench.advance(10)
    bench.ask()
    bench.node.act()
    assert bench.acting[0] == pytest.approx(acting - 0.1, rel=1e-12)


def test_value_and_power_win_over_the_rate(folder: Path) -> None:
    bench = active(puck(folder, WAITS, RATE, "plant.safety.limit=0.15", "plant.safety.power_limit=0.01"))
    bench.period(1.0)
    F, G = bench.written[-1]
    assert pytest.approx(0.01) == F * 0.5 - G * 0.2
    assert bench.applied[-1].reasons == ["limit:F", "rate:F", "power"]
    bench.node.plant.x[2] = -0.5  # now the same force takes energy out
    for _ in range(3):
        bench.period(1.0)
    assert bench.written[-1] == (0.15, 0.0)


# the operator


def refused(answer: dict[str, Any]) -> str:
    assert set(answer) - {"later"} == {"refused"}, answer
    return str(answer["refused"])


def test_arming_is_refused_with_its_reason_in_each_state(plain: ClosedLoop) -> None:
    bench = Bench(plain)
    assert refused(bench.node.handle_request("arm")) == "the machine has not answered yet; wait until it does"
    bench.prepare()
    assert refused(bench.node.handle_request("arm")) == "the plant is already armed"
    bench.period(0.0)
    assert refused(bench.node.handle_request("arm")) == "the plant is already armed"
    bench.node.handle_request("estop")
    latched = "fault estop is latched; reset it first (servonode reset --estop)"
    assert refused(bench.node.handle_request("arm")) == latched
    bench.node.handle_request("reset_estop")
    bench.node.fault("law", "it happened")
    assert refused(bench.node.handle_request("arm")) == "fault law is latched; reset it first (servonode reset)"
    bench.node.handle_request("estop")
    both = "faults law, estop are latched; reset them first (servonode reset --estop)"
    assert refused(bench.node.handle_request("arm")) == both
    bench.node.handle_request("reset_estop")
    bench.clock.now += 31 * MS
    refusal = "no controller answers the states; start it, or look at servonode status"
    assert refused(bench.node.handle_request("arm")) == refusal
    bench.guard.unlimited = ("F", "G")
    unlimited = "input F, G has no limit; give plant.safety.limit, or plant.safety.unsafe"
    assert refused(bench.node.handle_request("arm")) == unlimited
    bench.guard.unlimited = ()
    bench.answer(0.0)
    bench.clock.now += 30 * MS  # the command timeout, to the moment
    assert bench.node.handle_request("arm") == {"done": True, "lifecycle": "arming"}


def test_disarm_and_reset_are_refused_with_their_reason(plain: ClosedLoop) -> None:
    bench = Bench(plain)
    assert refused(bench.node.handle_request("disarm")) == "the plant is unconfigured, not armed"
    bench.activate()
    assert refused(bench.node.handle_request("reset")) == "no fault is latched: the plant is active"
    assert bench.node.handle_request("disarm") == {"done": True, "lifecycle": "inactive"}
    assert refused(bench.node.handle_request("disarm")) == "the plant is inactive, not armed"
    assert refused(bench.node.handle_request("reset")) == "no fault is latched: the plant is inactive"
    bench.node.handle_request("estop")
    assert refused(bench.node.handle_request("disarm")) == "the plant is fault, not armed"
    assert refused(bench.node.handle_request("reset")) == ESTOP_STAYS_LATCHED
    assert bench.guard.arm(None) == "fault estop is latched; reset it first (servonode reset --estop)"
    assert bench.node.handle_request("status")["reset_ago"] is None
    assert bench.node.handle_request("reset_estop") == {"done": True, "lifecycle": "inactive"}
    bench.clock.now += 5 * 10**9
    assert bench.node.handle_request("status")["reset_ago"] == 5.0
    bench.node.fault("device", "it happened")
    for word in ("reset", "reset_estop"):
        assert refused(bench.node.handle_request(word)) == "fault device ends the run; restart it"


def test_a_machine_whose_state_is_known_again_brakes_also_while_it_is_armed(plain: ClosedLoop) -> None:
    bench = Bench(plain)
    assert bench.prepare()
    assert bench.guard.lifecycle == "arming"
    bench.guard.output.state_unknown = True
    bench.guard.trust_state()
    assert (bench.guard.output.braking, bench.guard.lifecycle) == (True, "arming")


def test_arming_before_the_start_needs_no_answer_and_the_run_keeps_its_id(plain: ClosedLoop) -> None:
    bench = Bench(plain)
    run = bench.node.outbox.run
    assert bench.prepare()
    assert (bench.guard.lifecycle, bench.guard.lifecycle.published) == ("arming", "inactive")
    assert bench.period(0.4)
    assert (bench.guard.lifecycle, bench.node.outbox.run) == ("active", run)


def test_each_arming_begins_a_run_id_and_nothing_of_the_one_before_acts(plain: ClosedLoop) -> None:
    bench = active(plain)
    runs = [bench.node.outbox.run]
    for word in ("disarm", "estop") * 3:
        old = bench.command(bench.ask(), 77.0)
        bench.node.handle_request(word)
        if word == "estop":
            bench.node.handle_request("reset_estop")
        assert "done" in bench.node.handle_request("arm")
        runs.append(bench.node.outbox.run)
        assert not bench.give(old)
        assert not bench.guard.answers.are_due()  # a state of the run before is nobody's debt
        assert bench.period(0.0)
    assert len(set(runs)) == 7
    assert bench.counts["refused_run"] == 6
    assert (77.0, 0.0) not in bench.written


def test_disarmed_the_safe_action_acts_and_commands_are_counted(plain: ClosedLoop) -> None:
    bench = active(plain)
    bench.period(0.4)
    bench.node.handle_request("disarm")
    assert bench.written[-1] == bench.brake()
    assert bench.applied[-1].reasons == ["disarmed"]
    for _ in range(4):
        assert not bench.period(0.7)
    assert bench.counts["refused_unarmed"] == 4
    assert (0.7, 0.0) not in bench.written
    assert bench.guard.lifecycle == "inactive"


@pytest.mark.parametrize("word", ["disarm", "estop"])
def test_what_waits_for_its_instant_is_gone_after_a_stop(word: str, folder: Path) -> None:
    bench = active(puck(folder, WAITS, "controller.delay=2"))
    bench.period(0.5)
    bench.period(0.6)
    bench.node.handle_request(word)
    bench.advance(50)
    assert not {(0.5, 0.0), (0.6, 0.0)} & set(bench.written)


def test_a_stop_before_the_gate_waits_for_its_reset_and_does_not_arm_by_itself(plain: ClosedLoop) -> None:
    bench = Bench(plain)
    assert bench.node.handle_request("estop") == {"done": True, "lifecycle": "fault"}
    begin, seen = bench.clock.now, []

    def looked(word: str) -> Callable[[], None]:
        return lambda: seen.append((bench.guard.lifecycle, bench.node.handle_request(word)))

    for at, word in ((1000, "arm"), (2000, "reset_estop"), (3000, "status"), (4000, "arm")):
        bench.bus.plan(begin + at * MS, looked(word))
    assert bench.prepare()
    assert [each[0] for each in seen] == ["fault"] * 2 + ["inactive"] * 2
    assert "refused" in seen[0][1]
    assert seen[3][1] == {"done": True, "lifecycle": "arming"}
    assert bench.clock.now >= begin + 4000 * MS


def test_a_plain_reset_beside_another_fault_leaves_the_emergency_stop(plain: ClosedLoop) -> None:
    bench = active(plain)
    bench.node.fault("law", "it happened")
    bench.node.handle_request("estop")
    assert "done" in bench.node.handle_request("reset")
    assert ([each.name for each in bench.guard.ladder.latched], bench.guard.lifecycle) == (["estop"], "fault")
    assert "refused" in bench.node.handle_request("arm")
    assert "done" in bench.node.handle_request("reset_estop")


def test_a_plant_without_controller_is_active_at_once_and_again_after_a_stop(folder: Path) -> None:
    bench = Bench(puck(folder, WAITS, controlled=False))
    assert bench.prepare()
    assert (bench.guard.lifecycle, bench.written, bench.safely) == ("active", [(0.0, 0.0)], 0)
    bench.advance(5)
    bench.node.handle_request("estop")
    bench.advance(5)
    assert bench.written[-1] != (0.0, 0.0)
    bench.node.handle_request("reset_estop")
    assert bench.node.handle_request("arm") == {"done": True, "lifecycle": "active"}
    count = len(bench.written)
    bench.advance(50)
    assert (bench.written[-1], len(bench.written)) == ((0.0, 0.0), count)  # the safe action acts no more
    assert "refused_unarmed" not in bench.counts


# a machine that is not there


def cut(folder: Path, *more: str) -> Bench:
    """Behind a link that is cut 0.1 s after the handshake, for 0.4 s."""
    link = ("plant.link.cut_at=0.1", "plant.link.cut_for=0.4", *more)
    return Bench(puck(folder, WAITS, LOOPBACK, *link))


def watched(bench: Bench, steps: int) -> None:
    """Let time pass, the machine judged at each step."""
    for _ in range(steps):
        if bench.node.grid.is_control(bench.node.plant.k):
            bench.answer(0.0)
        bench.advance(1)
        found = bench.node.link.fault()
        if found is not None:
            bench.node.fault(*found)


def test_a_machine_that_takes_no_inputs_is_sent_its_safe_action(folder: Path) -> None:
    """Its state is known, so that the fault of the link does not release the brake."""
    bench = cut(folder, 'plant.link.cut="applied"')
    bench.activate()
    watched(bench, 145)
    assert (bench.node.faults[0].name, bench.safe_state) == ("stale_applied", "damp")
    assert bench.written[-1] == pytest.approx(bench.brake())
    assert bench.written[-1] != (0.0, 0.0)


def test_a_machine_that_is_lost_gets_zero_until_it_has_answered_again(folder: Path) -> None:
    bench = cut(folder, 'plant.link.cut="both"')
    bench.activate()
    watched(bench, 85)
    assert not bench.guard.failed
    watched(bench, 60)
    found = bench.node.faults[0]
    assert (found.name, bench.safe_state, bench.written[-1]) == ("stale_state", "zero", (0.0, 0.0))
    assert found.t == pytest.approx(0.1 + 0.03, abs=0.002)  # cut, and the command timeout
    assert "done" in bench.node.handle_request("reset")
    assert bench.safe_state == "nominal"
    count = len(bench.written)
    watched(bench, 100)
    assert set(bench.written[count:]) <= {(0.0, 0.0)}  # its state is of long ago: no brake from that
    assert refused(bench.node.handle_request("arm")).startswith("the machine has not answered yet: ")
    watched(bench, 400)
    assert not bench.guard.output.state_unknown
    assert bench.written[-1] != (0.0, 0.0)  # it has answered: its own safe action
    assert bench.written[-1] == pytest.approx(bench.brake(), abs=0.01)
    assert "done" in bench.node.handle_request("arm")
    watched(bench, 11)
    assert bench.guard.lifecycle == "active"


def test_a_machine_lost_before_it_was_armed_is_a_fault_and_arming_is_refused(folder: Path) -> None:
    bench = cut(folder, 'plant.link.cut="both"')
    asked: list[dict[str, Any]] = []
    begin = bench.clock.now
    for at in (150, 160):  # the watch looks each 100 ms while nothing happens
        bench.bus.plan(begin + at * MS, lambda: asked.append(bench.node.handle_request("arm")))
    bench.bus.plan(begin + 350 * MS, lambda: setattr(bench.node, "stop", True))
    assert not bench.prepare(arm=False)
    assert all("not well: no good state" in refused(each) or "is latched" in refused(each) for each in asked)
    assert [each.name for each in bench.node.faults] == ["stale_state"]
    assert set(bench.written) <= {(0.0, 0.0)}


def slow(folder: Path) -> Bench:
    """Behind a link on which each message takes 0.2 s, so that the handshake takes 0.4 s."""
    times = ("plant.safety.command_timeout=1", "plant.device.timeout=1")
    return Bench(puck(folder, WAITS, LOOPBACK, "plant.link.delay=0.2", *times))


def test_a_stop_before_a_machine_has_answered_is_zero_input_and_then_its_own_safe_action(folder: Path) -> None:
    bench = slow(folder)
    begin, brakes = bench.clock.now, []
    bench.on_write = lambda values: brakes.append((bench.clock.now - begin, values, bench.brake()))
    bench.bus.plan(begin + 100 * MS, lambda: bench.node.handle_request("estop"))
    bench.bus.plan(begin + 3000 * MS, lambda: setattr(bench.node, "stop", True))
    bench.prepare()
    assert (bench.guard.lifecycle, bench.safe_state) == ("fault", "damp")
    early = [values for at, values, _ in brakes if at < 400 * MS]
    assert early == [(0.0, 0.0)]  # where it is and how fast is not known
    later = [(values, brake) for at, values, brake in brakes if at >= 400 * MS]
    assert all(values == brake for values, brake in later)
    assert len(later) > 100  # again, as the state changes
    assert max(map(abs, later[-1][0])) < 0.3 < max(map(abs, later[0][0]))


def test_a_run_is_not_armed_before_the_machine_has_answered_whatever_was_asked(folder: Path) -> None:
    bench = slow(folder)
    begin = bench.clock.now
    answers: list[dict[str, Any]] = []
    for at, word in ((100, "estop"), (150, "reset_estop"), (160, "arm"), (170, "arm")):
        bench.bus.plan(begin + at * MS, lambda word=word: answers.append(bench.node.handle_request(word)))  # type: ignore[misc]
    bench.bus.plan(begin + 2000 * MS, lambda: setattr(bench.node, "stop", True))
    assert not bench.prepare(arm=False)
    assert [each["later"] for each in answers[2:]] == [True] * 2  # without an operator
    assert refused(answers[2]).startswith("the machine has not answered yet")
    assert bench.guard.lifecycle != "arming"


def test_a_machine_that_never_answers_ends_the_start(folder: Path) -> None:
    bench = Bench(puck(folder, WAITS, LOOPBACK, "plant.link.loss=1"))
    begin = bench.clock.now
    assert not bench.prepare()
    assert (bench.clock.now - begin) / MS == pytest.approx(1000, abs=101)
    assert bench.node.faults[0].name == "device"
    assert bench.node.faults[0].text == "no machine answered within 1 s: no machine answers"
    assert (bench.safe_state, bench.node.must_end()) == ("stop", True)


# any sequence

# what each refused command asks for: limits and rate limits lead there from no round number
REFUSED_FORCE = 0.7654321


class AnySequence(RuleBasedStateMachine):
    """Whatever is asked of the guard, and in whatever order."""

    closed_loop: ClosedLoop

    met: set[str]  # over all sequences

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(self.closed_loop)
        self.bench.on_write = self.judge
        self.old: list[Command] = []
        self.bench.node.status.publish()

    def judge(self, values: tuple[float, ...]) -> None:
        """What is written, at the moment at which it is."""
        bench, guard = self.bench, self.bench.guard
        assert all(map(math.isfinite, values))
        assert all(abs(u) <= limit for u, limit in zip(values, bench.limits, strict=True))
        assert REFUSED_FORCE not in map(abs, values), "a refused command acts"
        if guard.lifecycle != "active" or not guard.controlled:
            assert values in ((0.0, 0.0), bench.brake())
            if guard.ladder.latched and guard.ladder.safe_state >= SafeState.ZERO:
                assert values == (0.0, 0.0)

    @initialize(arm=st.sampled_from([True, True, True, False]), stopped=st.sampled_from([False, False, False, True]))
    def begin(self, arm: bool, stopped: bool) -> None:
        if stopped:
            self.bench.node.handle_request("estop")
        self.bench.bus.plan(self.bench.clock.now + 1000 * MS, lambda: setattr(self.bench.node, "stop", True))
        self.bench.prepare(arm)
        self.bench.node.stop = False
        self.bench.ask()

    @rule(F=st.floats(-2.0, 2.0), G=st.floats(-2.0, 2.0))
    def good(self, F: float, G: float) -> None:
        guard, state = self.bench.guard, self.bench.state
        if REFUSED_FORCE in (abs(F), abs(G)):
            return
        may = guard.lifecycle.accepts_commands and self.bench.guard.answers.are_due()
        self.old.append(self.bench.command(state, REFUSED_FORCE, REFUSED_FORCE))
        assert self.bench.give(self.bench.command(state, F, G)) == may
        self.met.add(guard.lifecycle)

    @rule(F=st.floats(-2.0, 2.0), periods=st.integers(1, 6), latency=st.integers(0, 9))
    def goes_on(self, F: float, periods: int, latency: int) -> None:
        for _ in range(periods):
            self.advance(latency)
            self.good(F, -F / 2)
            self.advance(10 - latency)

    @rule()
    def recovers(self) -> None:
        node, guard = self.bench.node, self.bench.guard
        if node.must_end():
            return
        self.advance(10)
        self.good(0.0, 0.0)
        if guard.failed:
            assert "done" in node.handle_request("reset_estop")
        if guard.lifecycle == "inactive":
            assert "done" in node.handle_request("arm"), node.handle_request("arm")
        self.advance(10)
        self.good(0.1, 0.1)
        assert guard.lifecycle == "active"

    @rule(reason=st.sampled_from([each for each in REFUSED if each != "src"]))
    def bad(self, reason: str) -> None:
        before = self.refusals()
        poison = {name: math.copysign(REFUSED_FORCE, value) for name, value in REFUSED[reason]["input"].items()}
        if reason == "non_finite":
            poison["F"] = math.inf
        changes: dict[str, Any] = REFUSED[reason] | {"input": poison}
        command = self.bench.command(self.bench.state, None, 0.0, **changes)
        assert not self.bench.guard.consider(command, self.bench.node.plant.k, self.bench.node.plant.k)
        assert self.refusals() == before + 1

    def refusals(self) -> int:
        return sum(n for name, n in self.bench.counts.items() if name.startswith("refused_"))

    @rule()
    def foreign_or_replayed(self) -> None:
        if self.bench.guard.lifecycle == "active" and self.bench.node.closed_loop.safety.on_fault == "wait":
            assert not self.bench.give(self.bench.command(self.bench.state, REFUSED_FORCE, REFUSED_FORCE, src=SRC + 1))
        if self.old:
            assert not self.bench.give(self.old.pop(0))

    @rule(
        name=st.sampled_from(["estop", "stale_command", "law", "overrun", "host_stall", "stale_state", "stale_applied"])
    )
    def fails(self, name: str) -> None:
        guard = self.bench.guard
        self.met.add(f"{guard.lifecycle}, then {name}")
        self.bench.node.fault(name, "it happened")
        assert self.bench.guard.failed

    @rule()
    def law_fails(self) -> None:
        answers = self.bench.guard.lifecycle.accepts_commands
        if self.bench.guard.answers.are_due():
            self.bench.give(self.bench.command(self.bench.state, REFUSED_FORCE, fault="rank lost"))
            assert not answers or self.bench.guard.failed

    @rule(word=st.sampled_from(["estop", "reset", "reset_estop", "arm", "disarm", "status"]))
    def operator(self, word: str) -> None:
        node, guard = self.bench.node, self.bench.guard
        run, lifecycle, failed = node.outbox.run, guard.lifecycle, guard.failed
        stopped = any(fault.name == "estop" for fault in guard.ladder.latched)
        answer = node.handle_request(word)
        assert len(answer) >= 1
        if "refused" in answer:
            assert (guard.lifecycle, guard.failed, node.outbox.run) == (lifecycle, failed, run)
        elif word == "arm":
            assert (lifecycle, failed) == ("inactive", False)
            assert not guard.controlled or node.outbox.run != run
        elif word == "reset":
            names = [fault.name for fault in guard.ladder.latched]
            assert (failed, guard.lifecycle, names) in ((True, "inactive", []), (True, "fault", ["estop"]))
            assert (names == ["estop"]) == stopped
        elif word == "reset_estop":
            assert (failed, guard.lifecycle, guard.failed) == (True, "inactive", False)
        elif word == "disarm":
            assert (guard.lifecycle, failed) == ("inactive", False)

    @rule(steps=st.integers(1, 35))
    def advance(self, steps: int) -> None:
        for _ in range(steps):
            self.bench.node.act()
            self.bench.advance(1)
            self.bench.node.link.fault()
            if self.bench.node.grid.is_control(self.bench.node.plant.k):
                self.bench.ask()

    @rule(ms=st.sampled_from([1, 29, 31, 5000]))
    def wait(self, ms: int) -> None:
        self.bench.clock.now += ms * MS

    @invariant()
    def stands(self) -> None:
        node, guard = self.bench.node, self.bench.guard
        latched = guard.ladder.latched
        assert (guard.lifecycle == "fault") == guard.failed
        assert guard.ladder.safe_state == max(
            (SAFE_STATES.get(each.name, MACHINE) for each in latched), default=guard.ladder.passing
        )
        assert len({each.name for each in latched}) == len(latched)
        assert np.isfinite(guard.output.applied).all()
        assert guard.output.by_name == dict(zip(guard.limiter.names, guard.output.applied.tolist(), strict=True))
        assert guard.output.due is None or guard.lifecycle == "active"
        standing = node.status.describe()
        assert (standing["lifecycle"], standing["safe_state"]) == (
            guard.lifecycle.published,
            guard.safe_state.name.lower(),
        )


HARSH = (WAITS, "plant.safety.limit=1.25", "plant.safety.rate_limit=80", "plant.safety.power_limit=0.4")
VARIANTS: dict[str, tuple[str, ...]] = {
    "plain": (WAITS,),
    "harsh": HARSH,
    "repeats": (*HARSH, "plant.safety.repeats=1", "controller.delay=2"),
    "limp": (*HARSH, "plant.settings.brake=false", "plant.safety.repeats=0"),
    "resumes": ('plant.safety.on_fault="resume"', "controller.delay=1"),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("examples", [25, pytest.param(1000, marks=pytest.mark.soak)])
def test_any_sequence_of_commands_stops_and_armings_is_safe(variant: str, examples: int, folder: Path) -> None:
    met: set[str] = set()
    machine = type("Sequence", (AnySequence,), {"closed_loop": puck(folder, *VARIANTS[variant]), "met": met})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=30, deadline=None, derandomize=True)
    )
    assert {each.partition(",")[0] for each in met} >= {"active", "fault", "inactive"}
    assert any(each.startswith("active, then") for each in met)
