"""Who dies, freezes, loops or stalls, and an emergency stop: when each driver's machine is safe, to the nanosecond.

On a virtual computer (`tests/virtual.py`), whose clock a look moves by `LOOK_NS`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from servonode.bus import Applied, Command, State, Status
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.nodes.node import STATUS_PERIOD_NS
from servonode.plants.record_layout import PlantRecordLayout
from tests.safety.cases import EVERY, HOP, LATENESS, LOCKSTEP, WAITS, T, W, computer
from tests.virtual import LOOK_NS, MS, US, Computer, Line, Puppet

PHASES = (0, HOP - 1, HOP + 1, 2 * HOP - 1, 2 * HOP + 1, T // 2, T - 1)  # after a control state [ns]
RESTS = "the emergency stop stays latched; clear it with servonode reset --estop"


def asked(computer: Computer, phase: int = 0, after: int | None = None) -> State:
    """The next control state, so long after it."""
    begun = computer.clock() + 1 if after is None else after
    state = computer.first(State, lambda each: each.control, begun)
    computer.go_to(state.mono + phase)
    return state


def brakes(computer: Computer) -> str:
    """The safe state of a machine whose state is trusted."""
    return "damp" if computer.loop.machine.description.has_safe_action else "zero"


def assert_safe_action(computer: Computer, since_ns: int, most_ns: int | None = None) -> None:
    """Since then the record is under the machine's safe action, computed anew from each row's own state."""
    machine, limits = computer.loop.machine, np.array(computer.loop.safety.limits.value)
    layout = PlantRecordLayout.of(machine.description)
    rows = computer.plant.record.rows
    braking = rows[rows[:, 0] * MS >= since_ns]
    assert len(braking) >= 50
    for row in braking:
        safe = machine.safe_input(row[0] / 1e3, np.append(row[layout.state], 0.0))
        expected = np.clip(safe, -limits, limits)
        np.testing.assert_allclose(row[layout.inputs], expected, rtol=1e-12, atol=1e-15)


def armed_again(computer: Computer, reset: str = "reset") -> Status:
    """Reset and armed, under a new run id; the first status that says active."""
    before, now = computer.plant.outbox.run, computer.clock()
    assert computer.order(reset) == "inactive"
    arm(computer)
    status = computer.status("active", now)
    assert status.run != before
    return status


def arm(computer: Computer) -> None:
    """Arm as soon as it can be: a machine behind a link answers a handshake first."""
    for _ in range(50):
        if not (refused := computer.ask("arm").get("refused")):
            return
        computer.go(T)
    raise AssertionError(refused)


def dies(computer: Computer) -> int:
    return computer.kill(CONTROLLER)


def comes_back(computer: Computer) -> None:
    computer.start(CONTROLLER)


def freezes(computer: Computer) -> int:
    return computer.freeze(CONTROLLER)


def goes_on(computer: Computer) -> None:
    computer.thaw(CONTROLLER)


@pytest.mark.parametrize(("ends", "begins"), [(dies, comes_back), (freezes, goes_on)], ids=["dead", "frozen"])
@pytest.mark.parametrize("kind", EVERY)
def test_promises_01_02_12_safe_action_within_timeout_and_period_of_the_controllers_end(
    kind: str, ends: Callable[[Computer], int], begins: Callable[[Computer], None]
) -> None:
    with computer(kind, WAITS) as here:
        here.until_active()
        here.go(3 * T)
        for phase in PHASES if kind == "simulated" else PHASES[2:5:2]:
            state = asked(here, phase)
            ended = ends(here)
            fault = here.status("fault", ended)
            unanswered = state.mono + (0 if phase < HOP else T)
            assert (fault.fault, fault.safe_state) == ("stale_command", brakes(here))
            assert fault.mono == unanswered + W + LOOK_NS
            assert fault.mono - ended <= W + T + LOOK_NS
            (stop,) = [each for each in here.of(Applied, ended) if "fault:stale_command" in each.reasons]
            assert (stop.mono, stop.desired) == (fault.mono, {})
            acts = here.plant.guard.output.applied.tolist()
            here.go(W)
            begins(here)
            here.go(W)
            assert here.ask("status")["lifecycle"] == "fault"
            assert "reset it first" in here.ask("arm")["refused"]
            assert list(stop.input.values()) == acts
            if kind != "device_law":
                assert_safe_action(here, here.plant.plant.k * MS - W)
            armed_again(here)
            here.go(5 * T)
        assert here.ask("status")["lifecycle"] == "active"


@pytest.mark.parametrize("kind", EVERY)
def test_promise_02_controller_that_loops_and_says_that_it_lives_is_as_good_as_dead(kind: str) -> None:
    with computer(kind, WAITS, absent=[CONTROLLER]) as here:
        puppet = here.put(CONTROLLER, Puppet)
        here.until_active()
        good = asked(here, 3 * HOP)
        puppet.answer = lambda state: puppet.beat(state) or []
        fault = here.status("fault", good.mono)
        assert (fault.fault, fault.mono) == ("stale_command", good.mono + T + W + LOOK_NS)
        assert len([each for each in here.of(Status, good.mono) if each.node == CONTROLLER]) == W // T
        puppet.answer = lambda state: [puppet.good(state)]
        armed_again(here)


@pytest.mark.parametrize("ends", ["kill", "freeze"])
@pytest.mark.parametrize("kind", EVERY)
def test_promise_03_controller_without_a_plant_falls_silent_and_forgets(kind: str, ends: str) -> None:
    integrates = kind != "device_law"  # no law with integrals acts in firmware
    with computer(kind, WAITS, *["controller.gains.integral=0.5"] * integrates) as here:
        here.until_active()
        here.go(30 * T)
        node = here.processes[CONTROLLER].node
        assert node.answerer.goal.integrals.any() == integrates
        state = asked(here, T // 2)
        ended = getattr(here, ends)(PLANT)
        silent = here.first(Status, lambda each: each.counts.get("plant_silent"), ended)
        assert (silent.node, silent.lifecycle, silent.mono) == (CONTROLLER, "inactive", state.mono + HOP + W)
        here.go(10 * T)
        assert here.of(Command, ended) == []
        assert not node.answerer.goal.integrals.any()
        if ends == "freeze":
            here.go(LATENESS)
            here.thaw(PLANT)
            assert here.status("fault", ended).fault == "host_stall"


@pytest.mark.parametrize("victim", [CONTROLLER, TARGET, "machine"])
@pytest.mark.parametrize("kind", ["simulated", "external"])
def test_promise_04_lockstep_never_hangs(kind: str, victim: str) -> None:
    if victim == "machine" and kind == "simulated":
        pytest.skip("its machine is no part of its own")
    with computer(kind, WAITS, "run.mode=lockstep", "run.duration=500") as here:
        here.until_active()
        here.go(10 * MS)
        (here.wire.freeze if victim == "machine" else here.freeze)(*[victim] * (victim != "machine"))
        frozen = here.clock()
        fault = here.status("fault", frozen)
        state = here.first(State, lambda each: (each.k, each.run) == (fault.k, fault.run))
        assert fault.fault == "lockstep_timeout"
        assert victim == "machine" or fault.mono == state.mono + LOCKSTEP
        here.wire.freeze(False) if victim == "machine" else here.thaw(victim)
        k = armed_again(here).k
        here.until(lambda: here.plant.plant.k > k + 100)


@pytest.mark.parametrize("kind", EVERY)
def test_promise_09_missed_steps_are_counted_and_no_time_is_lost(kind: str) -> None:
    with computer(kind, WAITS) as here:
        here.until_active()
        here.go(3 * T)
        pace = here.plant.pace
        for stall, misses, stalls in ((MS, 0, 0), (T + MS, 1, 0), (2 * T + MS, 2, 0), (W // 2 + T, 5, 1)):
            before = pace.misses if hasattr(pace, "misses") else pace.lateness.misses, pace.lateness.stalls
            state = asked(here, T - MS // 2)
            here.stall(stall, PLANT)
            here.go(3 * T)
            late = (
                state.mono + T - MS // 2 + stall
            )  # when it wakes; the next state was due half a millisecond after that
            assert (pace.lateness.misses - before[0], pace.lateness.stalls - before[1]) == (misses, stalls)
            states = [each for each in here.of(State, state.mono) if each.control]
            assert [each.k - state.k for each in states] == [
                10 * number for number in range(len(states))
            ]  # none is left out
            for each in states:
                due = state.mono + (each.k - state.k) * MS
                assert each.mono == due or due < late <= each.mono <= late + LOOK_NS * 20
            assert states[-1].mono == state.mono + (states[-1].k - state.k) * MS
        assert here.ask("status")["lifecycle"] == "active"


@pytest.mark.parametrize("kind", EVERY)
def test_promise_10_stall_of_the_computer_is_no_dead_controller(kind: str) -> None:
    with computer(kind, WAITS) as here:
        here.until_active()
        here.go(3 * T)
        for order in ((PLANT, CONTROLLER, TARGET), (CONTROLLER, TARGET, PLANT)):
            stalls = here.plant.pace.lateness.stalls
            asked(here, HOP // 2)  # an answer is owed
            begun = here.stall(2 * W, *order)
            here.go(20 * T)
            assert not [each.fault for each in here.of(Status, begun) if each.lifecycle == "fault"]
            assert here.plant.pace.lateness.stalls == stalls + 1
        # a controller that does not come back after it is found W later
        asked(here, HOP // 2)
        here.stall(2 * W, PLANT, TARGET) if here.freeze(CONTROLLER) else None
        over = here.clock()
        fault = here.status("fault", over)
        assert (fault.fault, fault.mono) == ("stale_command", over + W + LOOK_NS)
        here.thaw(CONTROLLER)
        armed_again(here)
        # many stalls hide no fault: only the first one lets it wait afresh
        asked(here, HOP // 2)
        here.freeze(CONTROLLER)
        here.stall(W // 2 + 2 * T, PLANT, TARGET)
        first = here.clock()
        here.go(T)
        here.stall(W // 2 + 2 * T, PLANT, TARGET)
        fault = here.status("fault", first)
        assert (fault.fault, fault.mono) == ("stale_command", first + W + LOOK_NS)
        here.thaw(CONTROLLER)
        armed_again(here)
        # longer than the limit it is a fault of its own
        asked(here, HOP // 2)
        here.stall(LATENESS + T + HOP)
        fault = here.status("fault", here.clock())
        assert (fault.fault, fault.mono) == ("host_stall", here.clock())


def test_promise_09_steps_that_take_longer_than_they_last_are_the_fault_overrun() -> None:
    with computer("simulated", WAITS) as here:
        here.until_active()
        plant, process = here.plant.plant, here.processes[PLANT]
        advance, begun = plant.advance, here.clock()

        def slow(steps: int, watched: bool = False) -> Any:
            process.spend(steps * 3 * MS // 2)
            return advance(steps, watched)

        plant.advance = slow
        fault = here.status("fault", begun)
        assert fault.fault == "overrun"
        assert here.plant.pace.lateness.stalls == 0
        lost = fault.mono - begun - (fault.k - 0) * MS
        assert LATENESS < lost <= LATENESS + 2 * T


@pytest.mark.parametrize("kind", EVERY)
def test_promise_12_restarted_nodes_find_a_plant_that_stays_safe(kind: str) -> None:
    with computer(kind, WAITS) as here:
        here.until_active()
        here.go(20 * T)
        run = here.plant.outbox.run
        asked(here, T // 2)
        here.kill(TARGET)
        here.go(2 * T)
        here.start(TARGET)
        here.go(300 * T)  # past the goals that the dead one had published
        assert (here.ask("status")["lifecycle"], here.plant.outbox.run) == ("active", run)  # nobody noticed
        # a controller that is back in time is another one: it is not obeyed
        status = here.first(Status, lambda each: each.node == PLANT, here.clock())
        here.go_to(status.mono + STATUS_PERIOD_NS - 3 * T)  # with the next one the target publishes goals for it
        killed = here.kill(CONTROLLER)
        here.go(T)
        here.start(CONTROLLER)
        fault = here.status("fault", killed)
        assert fault.fault == "stale_command"
        assert fault.counts["refused_src"] > 0
        armed_again(here)
        if kind == "sensors_only":
            return  # a plant node that estimates its state is not started again
        here.kill(PLANT)
        here.go(2 * T)
        here.arm = False
        here.start(PLANT)
        here.go(50 * T)
        assert here.ask("status")["lifecycle"] == "inactive"
        assert not here.plant.guard.output.applied.any() or here.plant.guard.output.braking
        arm(here)
        here.status("active", here.clock())


@pytest.mark.parametrize("kind", EVERY)
def test_promises_15_23_emergency_stop_acts_at_once_and_stays_latched(kind: str) -> None:
    with computer(kind, WAITS) as here:
        here.until_active()
        for phase in (0, HOP // 2, 3 * HOP, T // 3, T - 1):
            asked(here, phase)
            here.freeze(CONTROLLER, TARGET)
            now = here.clock()
            here.post("estop")
            fault = here.status("fault", now)
            assert (fault.fault, fault.values["estop"]) == ("estop", 1.0)
            assert now <= fault.mono <= now + LOOK_NS
            stop = here.first(Applied, lambda each: "fault:estop" in each.reasons, now)
            assert stop.mono == fault.mono
            here.go(2 * T)
            here.thaw(CONTROLLER, TARGET)
            assert here.ask("reset")["refused"] == RESTS
            assert here.ask("arm")["refused"] == "fault estop is latched; reset it first (servonode reset --estop)"
            assert [each["name"] for each in here.ask("status")["faults"]] == ["estop"]
            armed_again(here, "reset_estop")
        # beside another fault, a plain reset leaves it latched
        here.freeze(CONTROLLER)
        here.status("fault", here.clock())
        here.order("estop")
        here.thaw(CONTROLLER)
        assert [each["name"] for each in here.ask("status")["faults"]] == ["stale_command", "estop"]
        assert here.ask("reset")["note"] == RESTS
        assert [each["name"] for each in here.ask("status")["faults"]] == ["estop"]
        armed_again(here, "reset_estop")


def test_a_run_has_the_same_bits_each_time() -> None:
    def played() -> list[Any]:
        with computer("simulated", WAITS, hop=Line(HOP, loses=lambda number: number % 7 == 3)) as here:
            here.until_active()
            here.go(50 * T)
            here.stall(3 * T)
            here.go(50 * T)
            here.kill(CONTROLLER)
            here.go(20 * T)
            return list(here.published)

    first, second = played(), played()
    assert len(first) > 500
    assert first == second


def test_a_line_delays_by_its_rate_and_its_delay() -> None:
    line = Line(delay_ns=MS, rate=1e6, loses=lambda number: number == 1)
    assert [line.arrival(at, 100) for at in (0, 0, 0, MS)] == [100 * US + MS, None, 300 * US + MS, MS + 100 * US + MS]


def test_promise_16_without_a_watchdog_a_frozen_controller_is_not_missed() -> None:
    settings = ("plant.safety.unsafe=true", "plant.safety.command_timeout=0")
    with computer("simulated", WAITS, *settings) as here:
        here.until_active()
        here.freeze(CONTROLLER)
        here.go(20 * W)
        assert here.ask("status")["lifecycle"] == "active"  # which is why it is called unsafe
        assert here.ask("status")["unsafe"] == ["no command watchdog"]
