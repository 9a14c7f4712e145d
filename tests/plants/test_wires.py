"""Each driver over its wire in memory: what acts, what is found of a machine that freezes, dies or lies, and when."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.wired import TIMEOUT_MS, hosted
from tests.wires import MS, WIRES, losing, spoiling

REMOTE = [each for each in WIRES if each not in ("simulated", "mujoco")]
DIFFERENT = ["loopback", "udp", "serial", "can", "external", "own_driver"]  # the first one is in the plant's process
PORTS = [each for each in REMOTE if each in ("serial", "sensors_only", "device_law") or "baud" in each]
LINED = ["can", *PORTS]
BRAKING = ["udp", *LINED]  # firmware, which brakes by itself


@pytest.mark.parametrize("kind", REMOTE)
def test_machine_takes_inputs_and_its_end_is_zero_or_its_own_brake(kind: str) -> None:
    with hosted(kind) as host:
        host.go(300)
        assert host.remote.fault() is None
        assert host.plant.x[4] > 0.05
        assert host.wire.acting[0] > 0.0
        if host.wire.machine is None:
            return
        assert host.wire.machine.truth()["V"] == pytest.approx(host.plant.x[4], abs=0.02)
        host.plant.close()
        sent = host.wire.orders
        assert [each.kind for each in sent[:2]] == ["setup", "applied"]
        assert (sent[-1].final, set(sent[-1].inputs)) == (True, {0.0})
        host.queue.go(20 * MS)
        brakes = kind in BRAKING and kind != "sensors_only"  # which does not know how fast it is
        assert all(each < 0.0 if brakes else each == 0.0 for each in host.wire.acting)


@pytest.mark.parametrize("what", ["freeze", "kill", "pull", "silent"])
@pytest.mark.parametrize("kind", DIFFERENT)
def test_machine_without_a_word_is_a_fault_in_time(kind: str, what: str) -> None:
    with hosted(kind) as host:
        host.go(100)
        if what == "silent":
            host.wire.silent = True
        else:
            getattr(host.wire, what)()
        name, _, after_ms = host.fault()
        gone = (kind in BRAKING and kind != "udp" and what == "pull") or (kind in PORTS and what == "kill")
        assert name == ("link_lost" if gone else "stale_state")
        assert after_ms == 1 if gone else TIMEOUT_MS <= after_ms <= TIMEOUT_MS + 20


@pytest.mark.parametrize("kind", [*DIFFERENT[1:], "sensors_only"])
def test_machine_acts_safely_by_itself_and_is_there_again_in_a_new_run(kind: str) -> None:
    with hosted(kind) as host:
        host.go(300)
        host.wire.back.cut = True
        host.wire.to.cut = True
        host.queue.go(TIMEOUT_MS * MS + 2 * MS)
        assert all(each <= 0.0 for each in host.wire.acting)  # V > 0
        if kind != "sensors_only":  # of which nobody knows where it is after so long
            fast = host.wire.machine.truth()["V"]
            host.queue.go(2000 * MS)
            slow = host.wire.machine.truth()["V"]  # the time constant of the brake is 0.46 s
            assert slow / fast == pytest.approx(0.05 if kind in BRAKING else 1.0, abs=0.05)
        host.wire.plug()
        assert host.fault()[0] == "stale_state"
        host.begin()
        host.go(50)
        assert host.remote.fault() is None
        assert host.wire.acting[0] > 0.0


@pytest.mark.parametrize("kind", DIFFERENT[1:])
def test_machine_that_has_started_anew_is_no_more_in_the_run(kind: str) -> None:
    with hosted(kind) as host:
        host.go(100)
        host.wire.kill()
        host.fault()
        host.wire.restart()
        host.go(300)
        host.begin()
        assert "the machine has started anew" in host.remote.obstacle
        host.remote.accept_origin()
        assert host.remote.obstacle == ""


def test_machine_of_readings_alone_is_known_after_a_hang_and_not_after_a_restart() -> None:
    with hosted("sensors_only") as host:
        host.go(100)
        host.wire.freeze()
        assert host.fault()[0] == "stale_state"
        host.wire.freeze(False)
        host.begin()
        host.go(50)
        assert host.remote.fault() is None
        host.wire.kill()
        assert host.fault()[0] == "link_lost"
        host.wire.restart()
        host.queue.go(300 * MS)
        host.plant.begin(99, host.plant.k)
        for _ in range(300):
            host.queue.go(MS)
            assert not host.remote.connected()
        assert "the machine has restarted, so its sensors may count from zero" in host.remote.no_answer_reason()


@pytest.mark.parametrize("kind", [*DIFFERENT[1:], "sensors_only"])
def test_lost_and_spoilt_messages_cost_nothing_but_themselves(kind: str) -> None:
    share = 0.002 if kind == "can" else 0.05  # of frames; of messages
    with hosted(kind, to={"loses": losing(share), "spoils": spoiling(share)}) as host:
        host.wire.back.loses, host.wire.back.spoils = losing(share, 2), spoiling(share, 3)
        host.go(1000)
        assert host.remote.fault() is None
        assert sum(n for name, n in host.plant.counts.items() if name.startswith("refused_")) > 0
        assert 0.0 < host.plant.x[4] < 2.0
        assert host.wire.machine.truth()["V"] == pytest.approx(host.plant.x[4], abs=0.1)


FALSE: dict[str, tuple[Callable[[dict[str, Any]], list[dict[str, Any]]], str]] = {
    "absurd": (lambda said: [said | {"state": said["state"] | {"V": 3e9}}], "implausible_state"),
    "a heading that is wrapped": (
        lambda said: [said | {"state": said["state"] | {"psi": said["state"]["psi"] - 6.28 * (said["k"] % 90 > 45)}}],
        "implausible_state",
    ),
    "steps that go back": (lambda said: [said | {"k": max(250 - said["k"], 0)}], "stale_state"),
    "each 200 times": (lambda said: [said] * 200, "flooding"),
}
FLOODS = ("each 200 times",)


@pytest.mark.parametrize("what", FALSE)
@pytest.mark.parametrize("kind", DIFFERENT[1:])
def test_states_that_no_machine_can_have_are_faults(kind: str, what: str) -> None:
    if what in FLOODS and kind in LINED:
        pytest.skip("a line that keeps only the newest packet carries no flood")
    falsify, fault = FALSE[what]
    with hosted(kind) as host:
        host.go(150)
        host.wire.falsify = falsify
        assert host.fault()[0] == fault
