"""What other processes do at the sockets of a run: garbage, floods, crowds, odd requests; the stop acts beside them."""

import random
import sys
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from servonode.bus import MessageError, Requester
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from tests.helpers.runs import NODES, START_S, Process, Runs, Watch, eventually, operator
from tests.helpers.strangers import framed_garbage, raw_garbage, stranger
from tests.processes.test_nodes import WAITS, active

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
PATIENT = (WAITS, "plant.safety.command_timeout=10", "plant.safety.lateness_limit=10")


FLOODS = ("many subscriptions", "subscriptions come and go", "requests", "stream")


def test_promises_17_22_garbage_odd_requests_and_floods_stop_neither_plant_nor_estop(runs: Runs) -> None:
    run, rng = active(runs, *PATIENT), random.Random(21)
    pids, before = run.pids(), run.ask("status")
    places = sorted(str(path) for path in run.path.iterdir() if path.is_socket())
    assert len(places) == 6
    for place in places:
        for _ in range(10):
            raw_garbage(place, rng)
        framed_garbage(place, rng)
    assert run.pids() == pids
    for node in NODES:
        assert run.ask("status", node, START_S)["fault"] == ""
    after = run.ask("status")
    assert (after["lifecycle"], after["t"] > before["t"]) == ("active", True)
    odd_requests_end_no_node(run)
    crowds_stop_neither_plant_nor_estop(run, FLOODS)
    run.stop()


def crowds_stop_neither_plant_nor_estop(run: Process, whats: tuple[str, ...]) -> None:
    """Beside these strangers the plant stays active until the emergency stop, which reaches it."""
    pids = run.pids()
    with ExitStack() as stack, Watch(run.name) as watch:
        for what in whats:
            for kind in ("req",) if what in ("requests", "stream") else ("pub", "req"):
                stack.enter_context(stranger(what, str(run.path / f"{PLANT}.{kind}")))
        began = watch.status("active", within_s=START_S)
        later = watch.until(lambda m: m.node == PLANT and m.t > began.t + 1.0, began.mono, START_S)
        assert (watch.latest().lifecycle, watch.latest().run) == ("active", began.run)
        done = operator("estop", run.name, patient=True)
        assert done.returncode in (0, 1), done.stderr  # 1: it was signalled, and its answer did not get through
        assert watch.status("fault", later.mono, within_s=START_S).fault == "estop"
    assert run.pids() == pids
    assert eventually(lambda: answers(run), START_S)


def answers(run: Process) -> bool:
    """Whether the plant answers requests, once strangers have gone."""
    with suppress(TimeoutError):
        return bool(run.ask("status")["lifecycle"] == "fault")
    return False


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


ODD: list[dict[str, Any]] = [
    {}, {"ask": None}, {"ask": True}, {"ask": ""}, {"ask": "x" * 1000}, {"ask": "ARM"}, {"ask": ["estop"]},
    {"ask": {"estop": 1.0}}, {"ask": [[-1000] * 200] * 100}, {"ask": nested(3)}, {"ask": ["\u2028\x00" * 200] * 100},
    {"tell": "estop"}, {"ask": "status", "more": [0.5] * 256}, {str(i): [1.0] * 30 for i in range(200)},
]  # fmt: skip


def odd_requests_end_no_node(run: Process) -> None:
    """No odd or huge request ends a node, and an operator's word is for the plant alone."""
    pids = run.pids()
    for node in NODES:
        with Requester(run.path, node) as requester:
            for request in ODD:
                with suppress(MessageError):  # what cannot be put into a message stays here
                    answer = requester.ask(request, START_S)
                    assert ("error" in answer) != (request.get("ask") == "status"), request
            assert requester.ask({"ask": "status"}, START_S)["node"] == node
    for node in (CONTROLLER, TARGET):
        for word in ("arm", "disarm", "estop", "reset", "reset_estop"):
            assert "refused" in run.ask(word, node)
    assert (run.pids(), run.ask("status")["lifecycle"]) == (pids, "active")
