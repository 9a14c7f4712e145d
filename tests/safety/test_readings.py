"""What a plant believes of its machine's readings, and what it sends to its machine: exact on a virtual computer."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, cast

import pytest

from servonode.bus import Applied, Setup, State, decode
from servonode.bus.topology import CONTROLLER, PLANT
from servonode.closed_loop.closed_loop import observing
from servonode.plants.drivers import packets
from servonode.plants.drivers.handshake import RESEND_NS
from servonode.plants.drivers.link_watch import BACKLOG, MESSAGES_PER_MS
from tests.helpers import machine_packets
from tests.safety.cases import COMMON, HOP, LATENESS, WAITS, T, W, computer
from tests.safety.test_watchdogs import armed_again, asked
from tests.virtual import LOOK_NS, MS, Computer, Line, S
from tests.wires import Falsify, Firmware, LinedWire, loop_of, parted, wired

LEAVES = {  # ms: until the line has taken the last message, where it is not taken at once, and the driver has closed
    "serial": 4, "sensors_only": 4, "device_law": 4, "can": 6, "460800 baud": 6, "115200 baud": 21, "57600 baud": 42,
}  # fmt: skip
UNDER_WAY = {"can": 5 * MS}  # as long as a state takes, behind the one before it
SAFE, FROZEN, FLOOD = 100 * MS, 200 * MS, 200  # safe_time, frozen_time; how often each state comes in a flood
OTHERS = (  # slow
    "udp", "can", "sensors_only", "device_law", "external_speeds", "own_driver",
    "57600 baud", "115200 baud", "460800 baud",
)  # fmt: skip


def received(*others: str) -> pytest.MarkDecorator:
    """Wires that keep each message: two in the fast tests, and these."""
    slow = (pytest.param(each, marks=pytest.mark.slow) for each in others)
    return pytest.mark.parametrize("kind", ["serial", "external", *slow])


ENDS: dict[str, tuple[str, tuple[str | int, ...], int]] = {
    # a setting; what is asked or happens at a control state, or is waited [ns]; when the run is over, after that state
    "stop": (WAITS, ("stop",), SAFE),
    "stop within a period": (WAITS, (3 * HOP, "stop"), SAFE),
    "stop at the end of a period": (WAITS, (T - 1, "stop"), SAFE),
    "second stop": (WAITS, ("stop", 5 * T // 2, "stop"), 5 * T // 2),  # cuts the braking short
    "disarmed": (WAITS, ("disarm", 2 * SAFE, "stop"), 2 * SAFE),
    "emergency stop": (WAITS, ("estop", 2 * SAFE, "stop"), 2 * SAFE),
    "frozen machine": (WAITS, ("freeze", T // 2, "stop"), SAFE),
    "fault": ("plant.safety.on_fault=stop", ("kill",), W + SAFE),
    "over": ("run.duration=0.5", (), 500 * MS - 31 * T),
}  # fmt: skip


def over(here: Computer) -> int:
    """The time at which the plant's process ends, awaited."""
    plant: Any = here.processes[PLANT]
    here.until(lambda: plant.over)
    return here.clock()


def ended(here: Computer, kind: str, due: int) -> None:
    """The run ends when it is due, with zero and `final`, sent twice, and nothing is sent after them."""
    end = over(here)
    here.go(W)
    *before, first, last = here.wire.orders
    assert [(each.kind, each.final, any(each.inputs)) for each in (first, last)] == [("applied", True, False)] * 2
    assert not any(each.final for each in before)
    assert due <= first.at <= last.at == end <= due + LOOK_NS + LEAVES.get(kind, 0) * MS


@received(*OTHERS)
@pytest.mark.parametrize("how", ENDS)
def test_promise_24_however_a_run_ends_its_machine_gets_zero_and_the_end(kind: str, how: str) -> None:
    setting, steps, due = ENDS[how]
    with computer(kind, setting) as here:
        here.until_active()
        here.go(30 * T)
        begun = asked(here).mono
        others: dict[Any, Callable[[], object]] = {"freeze": here.wire.freeze, "kill": lambda: here.kill(CONTROLLER)}
        for step in steps:
            here.go(step) if isinstance(step, int) else others.get(step, partial(here.post, step))()
        ended(here, kind, begun + due)
        if "stop" in steps:
            acted = here.first(Applied, lambda each: bool(each.reasons), begun)
            assert any(acted.input.values())  # it braked
        here.wire.freeze(False)
        here.go(T)
        assert isinstance(here.wire.machine, Firmware) or not any(here.wire.acting)  # which brakes by itself now


@received(*OTHERS)
def test_promise_24_a_machine_that_does_not_answer_gets_zero_and_the_end(kind: str) -> None:
    with computer(kind, "plant.device.wait=1") as here:
        here.wire.silent = True
        ended(here, kind, here.clock() + S + RESEND_NS)


def setups(here: Computer) -> list[list[float]]:
    """The limits of each handshake that was sent; all else that was sent fails."""
    assert {order.kind for order in here.wire.orders} == {"setup"}
    sent: list[Any] = [data for _, data in here.wire.messages()]
    if isinstance(here.wire.machine, Firmware):
        return [list(machine_packets.read_setup(packets.decode(data)[1]).limits) for data in sent]
    return [[*setup.limits.values()] for setup in (cast(Setup, decode(*parted(data))) for data in sent)]


@received("udp", "can", "external_speeds")
def test_promise_27_a_machine_that_is_observed_gets_the_handshake_and_nothing_else(kind: str) -> None:
    loop = observing(loop_of(kind, *COMMON, WAITS, "plant.initial.V=0.5"))
    with Computer(loop, Line(HOP), wire=wired(kind)) as here:
        here.go(50 * T)
        assert here.ask("status")["would_send"].keys() == set(loop.machine.description.input_names)
        assert "--readonly" in here.ask("arm")["refused"]
        assert len(setups(here)) == 1
        fault = here.status("fault", frozen := here.wire.freeze())
        assert (fault.fault, fault.values["readonly"]) == ("stale_state", 1.0)
        assert W - MS < fault.mono - frozen <= W + T
        here.wire.freeze(False)
        here.order("reset")
        happens: list[Callable[[], object]] = [
            lambda: here.order("estop"), lambda: here.order("reset_estop"), lambda: here.kill(CONTROLLER),
            lambda: here.start(CONTROLLER), lambda: here.stall(LATENESS + T), lambda: here.kill(PLANT),
            lambda: here.start(PLANT),
        ]  # fmt: skip
        for each in happens:
            here.go(2 * W)
            each()
        here.go(5 * W)
        assert here.ask("status")["lifecycle"] == "inactive"
        here.post("stop")
        over(here)
        here.go(2 * W)
        assert len(sent := setups(here)) == 4  # each plant's first, and one for each reset
        assert not any(map(sum, sent))
        assert not any(any(each.input.values()) for each in here.of(State))
        assert not any(here.wire.acting)


def kept(make: Callable[[list[Any]], dict[str, Any]]) -> Callable[[], Falsify]:
    """Messages made of all that were said so far, the last one the newest."""
    return lambda: partial(lambda said, each: said.append(each) or [each | make(said)], [])


FALSE: list[tuple[Callable[[], Falsify], str, str, int]] = [  # the fault, a part of its text, after how long [ns]
    (kept(lambda said: {"state": said[-1]["state"] | {"V": 3e9}}), "implausible_state", "V = 3e+09 is beyond 20", 0),
    (kept(lambda said: {"state": said[-1]["state"] | {"psi": -7.0}}), "implausible_state", "(is an angle wrapped?)", 0),
    (kept(lambda said: {"state": said[0]["state"]}), "frozen_state", "bit by bit, for 0.2 s of plant time", FROZEN),
    (kept(lambda said: {"k": 2 * said[0]["k"] - said[-1]["k"]}), "stale_state", "messages refused: backward", W),
    (kept(lambda said: {word: said[len(said) // 2][word] for word in ("k", "state")}),  # half as fast as they are
     "stale_state", "ms old by the machine's own step stamps, although states come", 2 * W),
    (lambda: lambda _: [], "stale_state", "no good state of the machine for", W),
    (lambda: lambda said: [said] * FLOOD, "flooding", "more than 10000 messages a second",
     math.ceil(BACKLOG / (FLOOD - MESSAGES_PER_MS)) * MS),
]  # fmt: skip


@received("udp", "external_speeds", "own_driver", "can", "device_law", "460800 baud")
def test_promise_21_false_readings_are_named_faults_within_their_time_and_a_period(kind: str) -> None:
    with computer(kind, WAITS, f"plant.safety.frozen_time={FROZEN / 1e9}") as here:
        here.until_active()
        for make, name, text, limit in FALSE:
            if name == "flooding" and isinstance(here.wire, LinedWire):
                continue  # a line carries no flood, and its machine keeps the newest state alone
            here.go(30 * T)
            asked(here, MS // 3)
            here.wire.falsify = make()
            begun = here.clock()  # the first false state is said within the millisecond
            fault = here.status("fault", begun)
            here.wire.falsify = None
            assert (fault.fault, fault.safe_state) == (name, "zero")
            assert text in here.ask("status")["faults"][0]["text"]
            under_way = UNDER_WAY.get(kind, 0) * (1 + (limit > 0))  # the first false one, and the one that decides
            assert limit - MS < fault.mono - begun <= limit + MS + T + under_way
            (stop,) = [each for each in here.of(Applied, begun) if f"fault:{name}" in each.reasons]
            assert (stop.mono, set(stop.input.values())) == (fault.mono, {0.0})
            assert not any(any(order.inputs) for order in here.wire.orders if order.at > fault.mono)
            here.go(T)
            armed_again(here)
        assert here.counts["refused_backward"] > 0
        assert abs(here.plant.record.rows[:, 1:9]).max() < 10.0  # no false reading was recorded
        assert all(before.k <= after.k for before, after in pairwise(here.of(State)))


def ages(here: Computer, since: int) -> list[float]:
    """Of the readings in the control states since then [ns]."""
    return [each.age * 1e9 for each in here.of(State, since) if each.control]


@received(  # at 57600 baud there are not more than 50 states a second
    *(each for each in OTHERS if each != "57600 baud")
)
def test_promise_20_ages_are_those_of_the_readings(kind: str) -> None:
    with computer(kind, WAITS) as here:
        here.until_active()
        here.go(30 * T)
        usual = ages(here, here.go(0) - 10 * T)
        assert max(usual) - min(usual) < MS
        here.wire.falsify = lambda said: [said] if said["k"] % 20 == 0 else []  # at 50 Hz
        here.go(2 * T)
        slow, begun = here.counts["slow_states"], here.clock()
        here.go(40 * T)
        found = ages(here, begun + 1)
        assert here.counts["slow_states"] == slow + 20
        assert all(abs(after - before) == pytest.approx(T, abs=MS) for before, after in pairwise(found))
        here.wire.falsify = None
        here.go(10 * T)
        # what waits on the way is as old as it has waited, but for the hundredth by which clocks may differ
        before, late = ages(here, here.clock() - 5 * T)[-1], 40 * MS
        here.wire.back.delay_ns += late
        begun = here.go(late + 2 * T)
        here.go(20 * T)
        for number, age in enumerate(ages(here, begun + 1)):
            assert late - 0.01 * (late + (number + 3) * T) - MS <= age - before <= late
        assert here.ask("status")["lifecycle"] == "active"
        here.wire.back.delay_ns += W
        assert here.status("fault", here.clock()).fault == "stale_state"
