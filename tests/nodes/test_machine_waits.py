"""While a plant waits for others, its machine's link is served: else nobody could connect meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servonode.nodes.lockstep import await_answer, rearmed
from tests.helpers.stepped import Bench, puck

LOOPBACK = ('plant.driver="loopback"', "plant.safety.limit=50")
SECOND = 10**9  # ns


@pytest.fixture
def bench(folder: Path) -> Bench:
    return Bench(puck(folder, *LOOPBACK, mode="lockstep"))


@pytest.fixture
def looks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The times at which the link was asked for messages."""
    remote: Any = bench.node.plant.remote
    link: Any = remote.link
    times: list[int] = []
    receive: Callable[..., object] = link.receive
    monkeypatch.setattr(link, "receive", lambda *of: times.append(bench.clock.now) or receive(*of))
    return times


def test_a_plant_that_waits_for_its_arming_serves_the_link(
    bench: Bench, looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(deadline_ns: int, fds: object = ()) -> bool:
        bench.clock.now = deadline_ns
        bench.node.stop = len(looks) >= 10
        return False

    monkeypatch.setattr(bench.bus, "wait", wait)
    begin = bench.clock.now
    assert not rearmed(bench.node)
    assert bench.clock.now - begin < 2 * SECOND


def test_a_plant_that_waits_for_a_command_serves_the_link(bench: Bench, looks: list[int]) -> None:
    bench.prepare()
    bench.ask()
    looks.clear()
    assert not await_answer(bench.node, 1.0)
    assert [each.name for each in bench.node.faults] == ["lockstep_timeout"]
    assert len(looks) >= 5


def test_what_is_due_at_once_is_not_slept_over(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[int | None] = []
    monkeypatch.setattr(bench.bus, "wait", lambda deadline_ns, _: deadlines.append(deadline_ns))
    for due in (0, 7, None, 2 * SECOND):
        monkeypatch.setattr(bench.node.plant.remote, "due", lambda due=due: due)
        bench.node.wait_for_machine(SECOND)
    assert deadlines == [0, 7, SECOND, SECOND]
