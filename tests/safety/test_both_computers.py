"""The promises of time for a run on two computers: exact, over a network with a delay, a rate and losses."""

from collections.abc import Callable
from itertools import product

import pytest

from servonode.bus import Applied, Command, State, Status
from servonode.bus.topology import CONTROLLER, PLANT, RELAY, TARGET
from servonode.nodes.relayed import ORDER_NS
from tests.safety.cases import HOP, KINDS, WAITS, T, W
from tests.safety.test_watchdogs import armed_again, asked
from tests.virtual import LOOK_NS, MS, Line
from tests.virtual_pair import AHEAD, Pair, RelayProcess

WAY = 3 * MS  # of the network, one way
NETWORKS: dict[str, Callable[[], Line]] = {
    "even": lambda: Line(WAY),
    "slow": lambda: Line(WAY, rate=250_000.0),
    "lossy": lambda: Line(WAY, rate=1e6, loses=lambda number: number % 23 == 7),
}
ENDS: dict[str, Callable[[Pair], int]] = {
    "controller dies": lambda pair: pair.desk.kill(CONTROLLER),
    "controller freezes": lambda pair: pair.desk.freeze(CONTROLLER),
    "desk dies": lambda pair: pair.desk.kill(CONTROLLER, TARGET, RELAY),
    "desk freezes": lambda pair: pair.desk.freeze(CONTROLLER, TARGET, RELAY),
    "its relay dies": lambda pair: pair.desk.kill(RELAY),
    "robot's relay dies": lambda pair: pair.robot.kill(RELAY),
    "network": lambda pair: pair.cut(),
}
ROWS = [
    *product(["simulated"], ["even"], ENDS), *product(KINDS[1:], ["even"], ["desk dies"]),
    *product(["simulated"], ["slow", "lossy"], ["controller dies", "its relay dies", "network"]),
]  # fmt: skip


def driven(kind: str, network: str) -> Pair:
    """A pair, once it is entered."""
    return Pair(kind, WAITS, there=NETWORKS[network](), back=NETWORKS[network]())


@pytest.mark.parametrize(("kind", "network", "how"), ROWS)
def test_promise_01_safe_action_within_timeout_and_period_whatever_ends(kind: str, network: str, how: str) -> None:
    with driven(kind, network) as pair:
        robot = pair.robot
        robot.until_active()
        asked(robot, T // 2)
        robot.go(10 * T)
        ended = ENDS[how](pair)
        fault = robot.status("fault", ended)
        answered = [each.re for each in robot.of(Applied) if each.re >= 0 and each.mono <= fault.mono]
        unanswered = next(each for each in robot.of(State) if each.control and each.seq > answered[-1])
        assert (fault.fault, fault.mono) == ("stale_command", unanswered.mono + W + LOOK_NS)
        under_way = 2 * (WAY + 4 * MS * (network != "even"))  # comes nevertheless
        assert W - T < fault.mono - ended <= W + T + LOOK_NS + under_way
        robot.go(5 * T)
        assert robot.ask("status")["lifecycle"] == "fault"
        assert "reset it first" in robot.ask("arm")["refused"]


@pytest.mark.parametrize("kind", ["simulated", "serial"])
def test_promises_01_03_a_network_that_comes_back_moves_no_machine(kind: str) -> None:
    with driven(kind, "even") as pair:
        pair.robot.until_active()
        pair.robot.go(10 * T)
        state = asked(pair.robot, T // 2)
        cut = pair.cut()
        silent = pair.desk.first(Status, lambda each: each.counts.get("plant_silent"), cut)
        assert (silent.node, silent.lifecycle) == (CONTROLLER, "inactive")
        assert silent.mono - AHEAD == state.mono + HOP + WAY + HOP + W  # by the desk's own clock
        pair.robot.status("fault", cut)
        pair.robot.go(20 * T)
        assert not pair.desk.of(Command, silent.mono)
        back = pair.robot.clock()
        pair.cut(lost=False)
        pair.robot.go(40 * T)
        assert pair.robot.ask("status")["lifecycle"] == "fault"
        assert not [each for each in pair.robot.of(Applied, back) if each.re >= 0]
        assert armed_again(pair.robot).mono > back
        pair.robot.go(5 * T)
        assert pair.robot.ask("status")["lifecycle"] == "active"


@pytest.mark.parametrize("ends", ["kill", "freeze"])
def test_promise_03_controller_of_a_plant_that_ends_on_the_other_computer_falls_silent(ends: str) -> None:
    with driven("simulated", "even") as pair:
        pair.robot.until_active()
        pair.robot.go(10 * T)
        state = asked(pair.robot, T // 2)
        getattr(pair.robot, ends)(PLANT)
        silent = pair.desk.first(Status, lambda each: each.counts.get("plant_silent"), state.mono)
        assert (silent.lifecycle, silent.mono - AHEAD) == ("inactive", state.mono + HOP + WAY + HOP + W)
        pair.desk.go(10 * T)
        assert not pair.desk.of(Command, silent.mono)


@pytest.mark.parametrize(("kind", "lost"), [("simulated", 0), ("external", 0), ("simulated", 1), ("simulated", 3)])
def test_promise_15_emergency_stop_of_the_desk_acts_when_it_arrives(kind: str, lost: int) -> None:
    """Where the network loses it, it is sent again until it is answered."""
    with driven(kind, "even") as pair:
        robot, desk = pair.robot, pair.desk
        robot.until_active()
        for phase in (HOP // 2, T - 1):
            asked(robot, phase)
            begun = robot.clock()
            desk.freeze(CONTROLLER, TARGET)
            pair.back.loses = lambda _, until=begun + lost * ORDER_NS: robot.clock() < until
            desk.ask("estop", RELAY)  # as by its signal
            stop = robot.first(Status, lambda each: each.values.get("estop") == 1.0, begun)
            again = 0 if not lost else lost * ORDER_NS
            assert again <= stop.mono - begun - WAY <= again + (50 * MS if lost else 2 * LOOK_NS)
            (acted,) = [each for each in robot.of(Applied, begun) if "fault:estop" in each.reasons]
            assert acted.mono == stop.mono
            desk.thaw(CONTROLLER, TARGET)
            robot.go(40 * T)
            assert "(servonode reset --estop)" in robot.ask("arm")["refused"]
            armed_again(robot, "reset_estop")
        # one of an operator of the desk, and one beside the robot while the network is gone
        relay = desk.processes[RELAY]
        assert isinstance(relay, RelayProcess)
        pair.back.loses = lambda _: False
        begun = robot.clock()
        relay.order("estop", PLANT)
        assert 0 <= robot.status("fault", begun).mono - begun - WAY <= 2 * LOOK_NS
        robot.go(WAY + T)
        assert relay.replies == [{"done": True, "lifecycle": "fault"}]
        armed_again(robot, "reset_estop")
        begun = pair.cut()
        robot.post("estop")
        assert begun <= robot.status("fault", begun).mono <= begun + LOOK_NS


def test_over_a_network_that_is_too_slow_no_command_older_than_the_timeout_acts() -> None:
    with Pair("simulated", WAITS, there=Line(WAY, rate=20_000.0), back=Line(WAY)) as pair:
        pair.robot.until_active()
        assert pair.robot.status("fault", pair.robot.clock()).fault == "stale_command"
        states = {each.seq: each.mono for each in pair.robot.of(State)}
        ages = [each.mono - states[each.re] for each in pair.robot.of(Applied) if each.re >= 0]
        assert len(ages) > 10
        assert 5 * T < max(ages) <= W
