"""What operators and publishers of goals may do, whenever it comes: exact on a virtual computer."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servonode.bus import Applied, Lifecycle, State, Status, Target
from servonode.bus.requests import HEADER, NEVER, NO_TICKET, REFUSALS, WANTS_TICKET
from servonode.bus.topology import CONTROLLER, GOAL_HELD, PLANT, TARGET
from tests.safety.cases import HOP, KINDS, WAITS, T, W, computer
from tests.safety.test_watchdogs import arm, armed_again
from tests.virtual import LOOK_NS, MS, Computer, Desk, Line, S

# 18: limits of an external plant

NONE, ONE = "plant.safety.limit={}", "plant.safety.limit={U1 = 1.0}"
LIMITS = [  # settings; what is said when it is to be armed, empty: it is; what each status shows
    ((NONE,), "input U1, U2 has no limit; give plant.safety.limit, or plant.safety.unsafe", []),
    ((ONE,), "input U2 has no limit; give plant.safety.limit, or plant.safety.unsafe", []),
    ((NONE, "plant.safety.unsafe=true"), "", ["no limit on U1, U2"]),
    ((ONE, "plant.safety.unsafe=true"), "", ["no limit on U2"]),
    ((NONE, "plant.actuator.limit=1.0"), "", []),
]


@pytest.mark.parametrize(("settings", "refused", "unsafe"), LIMITS, ids=range(len(LIMITS)))
@pytest.mark.parametrize("kind", ["serial", "external"])
def test_promise_18_no_external_plant_is_armed_without_limits(
    kind: str, settings: tuple[str, ...], refused: str, unsafe: list[str]
) -> None:
    with computer(kind, WAITS, *settings, arm=False) as here:
        here.until(lambda: here.plant.guard.lifecycle is Lifecycle.INACTIVE)
        here.go(10 * T)
        if refused:
            assert here.ask("arm")["refused"] == refused
            here.go(10 * T)
            assert here.ask("status")["lifecycle"] == "inactive"
            assert not [each for each in here.of(Applied) if each.desired]
        else:
            arm(here)
            here.until_active()
        for _ in range(3):
            assert here.ask("status")["unsafe"] == unsafe
            here.go(T)


# 28: requests

VALID = 50 * MS  # the time that a client gives its requests


def desk(here: Computer, node: str = PLANT) -> Desk:
    return Desk(here.processes[node])


def ticket(here: Desk, line: Line) -> bytes:
    """A new ticket."""
    found: bytes = here.ask(HEADER.pack(1, NO_TICKET, WANTS_TICKET), {}, line)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_promise_28_late_repeated_and_old_requests_are_not_carried_out(kind: str) -> None:
    line = Line(HOP)
    with computer(kind, WAITS) as here:
        here.until_active()
        asked = desk(here)

        def tells(header: bytes, verb: str, arrives: int) -> Any:
            return asked.ask(header, {"ask": verb}, Line(arrives - here.clock()))

        def lifecycle() -> str:
            return str(here.ask("status")["lifecycle"])

        # to the nanosecond, by the node's clock, since it gave the ticket
        for late, verb in ((1, "disarm"), (0, "disarm"), (1, "arm"), (0, "arm"), (W, "disarm")):
            before = lifecycle()
            header = HEADER.pack(1, ticket(asked, line), VALID)
            given = asked.replies[-1][0]
            reply = tells(header, verb, given + VALID + late)
            assert asked.replies[-1][0] == given + VALID + late
            assert (reply == {"error": REFUSALS["expired"]}) == (late > 0)
            here.go(3 * T)
            assert (lifecycle() == before) == (late > 0)
            if not late:  # repeated
                done = lifecycle()
                other = HEADER.pack(1, ticket(asked, line), VALID)
                assert tells(other, {"arm": "disarm", "disarm": "arm"}[verb], here.clock() + HOP)["done"]
                here.go(3 * T)
                undone = lifecycle()
                assert undone != done
                for again in (header, other, header):
                    assert tells(again, verb, here.clock() + HOP) == {"error": REFUSALS["replayed"]}
                    here.go(T)
                    assert lifecycle() == undone
                arm(here) if verb == "arm" else here.order("disarm")
                here.go(3 * T)
        # it comes in time, and its node does not look in time
        header, before = HEADER.pack(1, ticket(asked, line), VALID), len(asked.replies)
        asked.post(header, {"ask": "disarm"}, line)
        here.stall(VALID + 1)
        assert here.until(lambda: asked.replies[before:])[0][1] == {"error": REFUSALS["expired"]}
        assert tells(HEADER.pack(1, NO_TICKET, NEVER), "disarm", here.clock() + HOP) == {"error": REFUSALS["no_ticket"]}
        assert lifecycle() == "active"
        # nor does another start of the node obey; a stop needs no ticket, and none is too late, old or repeated
        header = HEADER.pack(1, ticket(asked, line), NEVER - 1)
        here.kill(PLANT)
        here.start(PLANT)  # in the same nanosecond, while the line has bytes of the dead one
        here.until_active()
        asked = desk(here)
        assert tells(header, "disarm", here.clock() + HOP) == {"error": REFUSALS["other_run"]}
        assert lifecycle() == "active"
        for _ in range(2):
            here.freeze(CONTROLLER, TARGET)
            sent = here.clock()
            asked.post(HEADER.pack(1, NO_TICKET, NEVER), {"ask": "estop"}, Line(2 * VALID))
            here.thaw(CONTROLLER, TARGET)
            fault = here.first(Status, lambda each: each.fault == "estop", sent)
            assert sent + 2 * VALID <= fault.mono <= sent + 2 * VALID + LOOK_NS
            armed_again(here, "reset_estop")
        asked.post(HEADER.pack(1, NO_TICKET, NEVER), {"ask": "stop"}, line)
        process: Any = here.processes[PLANT]
        here.until(lambda: process.over)


# 29: goals

TELEOP = str(Path(__file__).parents[2] / "examples" / "goals" / "teleop.toml")
EVERY_NS, TIMEOUT, RATE, V_MOST, OMEGA_MOST, U_MOST = 40 * MS, 300 * MS, 0.5, 0.6, 1.2, 0.4
NAN = math.nan
WRONG: list[Any] = [
    {"v": NAN, "omega": NAN}, {"v": math.inf, "omega": -math.inf}, {"v": "0.5", "omega": [1]}, {"V": 0.5}, None, {}, 3,
    {"v": 0.51, "omega": 0.0}, {"v": 0.5, "omega": -1e300}, {"v": 0.5, "more": 0.0}, [0.5, 1.0], {"v": True},
]  # fmt: skip
PUBLISHERS: dict[str, Callable[[int], Iterable[Any]]] = {  # what it asks for as this number
    "sticks": lambda n: [{"v": 0.45 * math.sin(0.08 * n), "omega": 0.8 * math.cos(0.12 * n)}],
    "jumps": lambda n: [{"v": 0.5 * (-1) ** (n // 3), "omega": -1.0}],
    "flood": lambda _: [{"v": 0.5 * (-1) ** number, "omega": 1.0} for number in range(50)],
    "wrong": lambda _: WRONG,
    "some wrong": lambda n: [WRONG[n % len(WRONG)], {"v": -0.5, "omega": 1.0}, WRONG[-n % len(WRONG)]],
}


@pytest.mark.parametrize(("kind", "how"), [*(("simulated", how) for how in PUBLISHERS), *(
    (kind, "some wrong") for kind in KINDS if kind != "simulated")])  # fmt: skip
def test_promise_29_whatever_its_goals_a_machine_stays_within_limits_and_comes_to_rest(kind: str, how: str) -> None:
    settings = (f"plant.safety.limit={U_MOST}", "controller.period=0.01", f"plant.safety.command_timeout={W / 1e9}")
    with computer(kind, WAITS, *settings, launch=TELEOP) as here:
        here.until_active()
        begun = here.clock()
        target = here.processes[TARGET]
        for number in range(20):  # and then it dies
            replies = [target.ask("goal", {"goal": each}) for each in PUBLISHERS[how](number)]
            last = here.clock()
            here.go(EVERY_NS)
            taken = [each.reply for each in replies if "done" in each.reply]
            assert bool(taken) == (how != "wrong")
        driven = here.of(Target, begun)[-1].target
        if taken:
            held = here.first(Status, lambda each: each.node == TARGET and each.values.get(GOAL_HELD), last)
            assert TIMEOUT < held.mono - last <= TIMEOUT + T
            assert "it goes back to 0" in here.ask("status", TARGET)["held"]
            here.go(round(max(abs(driven["v"]) / RATE, abs(driven["omega"]) / 2.0) * S) + 80 * T)
        assert here.ask("status")["lifecycle"] == "active"
        states = [each.state for each in here.of(State, begun)]
        assert max(abs(each["V"]) for each in states) <= V_MOST
        assert max(abs(each["Omega"]) for each in states) <= OMEGA_MOST
        assert max(abs(value) for each in here.of(Applied) for value in each.input.values()) <= U_MOST
        goals = [each.target for each in here.of(Target, begun)]
        assert max(abs(np.diff([each["v"] for each in goals]))) <= RATE * T / 1e9 * (1 + 1e-9)
        assert abs(goals[-1]["v"]) + abs(goals[-1]["omega"]) < 1e-2
        assert abs(states[-1]["V"]) + abs(states[-1]["Omega"]) < 0.02
        assert how == "wrong" or max(abs(each["V"]) for each in states) > 0.1  # they were followed
