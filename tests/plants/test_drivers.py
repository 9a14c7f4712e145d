"""Machines behind a link: the driver against a machine of a few lines, and the loopback machine with its faults.

Time is a number in these tests, so they neither sleep nor depend on how busy the computer is.
"""

import math
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from msgspec import structs
from msgspec.structs import asdict

from servonode.bus import Applied, ExternalLink, Message, Setup, State, Status, decode
from servonode.bus.codec import BOUND, encode_frames, message_intake
from servonode.bus.link import MACHINE_TOPICS
from servonode.mechanics.machine import Machine
from servonode.nodes.plant_machine import EnergyAccount
from servonode.plants.drivers.applied_inputs import AppliedSafeAction
from servonode.plants.drivers.device import DevicePlant
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.installed import find_driver
from servonode.plants.drivers.simulated_device import LoopbackLink
from servonode.plants.impairments import both_ways
from servonode.plants.keys import Impairments
from servonode.plants.plausible import Plausible, StateLimits
from servonode.plants.simulated import SimulatedPlant
from tests.helpers.packaged import load_machine
from tests.helpers.plants import context, exact_sensor, free_drives

MS = 10**6  # ns
STEP_NS = MS
U = np.array([0.02, 0.03])
FREE, SEES_ALL = free_drives(2), exact_sensor(8)


class Clock:
    """Monotonic ns that pass only when told to."""

    def __init__(self) -> None:
        self.now = 10**12

    def __call__(self) -> int:
        return self.now

    def go(self, ms: float) -> None:
        self.now += round(ms * MS)


class Wire:
    """A link to nothing: what was sent, as it arrives, and what the machine is made to say, as bytes."""

    def __init__(self) -> None:
        self._intake = message_intake({"machine": MACHINE_TOPICS})
        self.counts: Counter[str] = self._intake.counts
        self.fds: tuple[int, ...] = ()
        self.lost = self.hint = ""
        self.sent: list[Message] = []
        self.waiting: list[tuple[bytes, bytes]] = []
        self.life: list[str] = []

    def open(self) -> None:
        self.life.append("open")

    def send(self, topic: str, message: Message) -> None:
        self.sent.append(decode(*encode_frames(topic, message)))

    def says(self, topic: str, message: Message) -> None:
        self.waiting.append(encode_frames(topic, message))

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        taken = [self._intake.take(*frames) for frames in self.waiting[:bound]]
        del self.waiting[:bound]
        return [each for each in taken if each is not None]

    def due(self) -> int | None:
        return None

    def renew(self) -> None:
        self.life.append("renew")

    def listened(self) -> bool | None:
        return False

    def close(self) -> None:
        self.life.append("close")

    def newest(self, kind: type[Message]) -> Message:
        return [each for each in self.sent if isinstance(each, kind)][-1]

    def count(self, kind: type[Message]) -> int:
        return sum(isinstance(each, kind) for each in self.sent)


STATE = {"X": 1.0, "Y": 2.0, "psi": 0.1, "phi": 0.2, "V": 0.3, "Omega": 0.4, "theta1": 5.0, "theta2": 6.0}
GOOD = {
    "t": 0.0, "seq": 0, "run": 77, "k": 0, "mono": 1, "node": "robot", "src": 9,
    "state": STATE, "input": {}, "control": False,
}  # fmt: skip


def state(**changes) -> State:
    return State(**{**GOOD, **changes})


def terms(machine: Machine, **changes) -> DriverContext:
    start = machine.state({"V": 0.4, "phi": 0.3, "Omega": 0.1})
    return context(machine, start, (0.5, np.inf), **{"timeout": 0.03, "state_timeout": 0.05} | changes)


class Rig:
    """A device plant, what it is wired to, and its clock."""

    def __init__(self, machine: Machine, **changes) -> None:
        self.clock, self.wire = Clock(), Wire()
        self.plant = DevicePlant(terms(machine, clock=self.clock, **changes), self.wire)
        self.info = self.plant.open()

    def connect(self, **changes) -> "Rig":
        self.plant.begin(77, changes.get("k", 0))
        self.wire.says("state", state(**changes))
        assert self.plant.remote.connected()
        return self

    def pass_ms(self, ms: int) -> None:
        for _ in range(ms):
            self.clock.go(1)
            self.plant.advance(1)

    def receives(self, **changes) -> None:
        """A state comes, and a millisecond passes."""
        self.wire.says("state", state(**changes))
        self.pass_ms(1)

    @property
    def fault(self) -> str | None:
        """The name of the fault."""
        found = self.plant.remote.fault()
        return found and found[0]


@pytest.fixture
def rig(trailer) -> Rig:
    return Rig(trailer)


@pytest.fixture
def lockstep(trailer) -> Rig:
    return Rig(trailer, lockstep=True)


# the handshake


def test_opening_tells_what_is_known_of_the_machine_and_sends_nothing(rig):
    assert (rig.wire.life, rig.wire.sent) == (["open"], [])
    assert (rig.info.machine, rig.info.step, rig.info.simulated) == ("diff_drive_trailer", 0.001, False)
    assert rig.info.limits == (0.5, math.inf)
    rig.plant.safe()
    rig.plant.close()  # nor does closing before any run
    assert rig.wire.sent == []


def test_the_setup_says_all_that_a_machine_must_know(rig, trailer):
    rig.plant.begin(77, 3000)
    assert not rig.plant.remote.connected()
    setup = rig.wire.newest(Setup)
    assert isinstance(setup, Setup)
    assert (setup.run, setup.k, setup.t, setup.node) == (77, 3000, 3.0, "plant")
    assert (setup.machine, setup.mode, setup.inputs) == ("diff_drive_trailer", "realtime", ["U1", "U2"])
    assert (setup.step, setup.period, setup.speed, setup.timeout) == (0.001, 0.01, 1.0, 0.03)
    assert setup.limits == {"U1": 0.5}  # infinity does not travel
    assert setup.parameters == trailer.parameters
    assert setup.start == dict(zip(STATE, [0, 0, 0, 0.3, 0.4, 0.1, 0, 0], strict=True))


def test_the_setup_is_sent_again_each_100_ms_until_a_state_of_this_run_comes_and_the_link_is_renewed(rig):
    rig.plant.begin(77, 0)
    assert rig.plant.remote.due() == rig.clock.now + 100 * MS
    for tenth in range(20):
        assert rig.wire.count(Setup) == tenth + 1
        rig.clock.go(99)
        assert not rig.plant.remote.connected()
        assert rig.wire.count(Setup) == tenth + 1
        rig.clock.go(1)
        assert not rig.plant.remote.connected()
    assert len({each.seq for each in rig.wire.sent}) == 21
    assert rig.wire.life == ["open", "renew", "renew"]
    assert rig.plant.remote.no_answer_reason() == "no machine is connected; start it with the same two addresses"
    rig.wire.says("state", state())
    assert rig.plant.remote.connected()
    assert rig.plant.x[:-1].tolist() == list(STATE.values())
    assert math.isnan(rig.plant.x[-1])
    assert rig.plant.remote.due() is None
    rig.clock.go(1000)
    assert rig.plant.remote.connected()
    assert rig.wire.count(Setup) == 21


def test_only_a_state_of_this_run_and_of_this_machine_is_an_answer(rig):
    rig.plant.begin(77, 0)
    rig.wire.says("state", state(run=78))
    rig.wire.says("state", state(state={"X": 1.0}))
    assert not rig.plant.remote.connected()
    assert rig.plant.counts == {"refused_run": 1, "refused_shape": 1}
    assert rig.plant.remote.no_answer_reason().endswith("(2 messages refused: run 1, shape 1)")


def test_a_machine_that_cannot_take_part_says_so_and_that_is_a_fault(rig):
    rig.plant.begin(77, 0)
    report = {"lifecycle": "fault", "fault": "my inputs are L, R", "counts": {}, "values": {}}
    header = {name: GOOD[name] for name in ("t", "seq", "k", "mono", "node", "src")}
    rig.wire.says("status", Status(**header, run=76, **report))
    assert not rig.plant.remote.connected()
    assert rig.fault is None
    rig.wire.says("status", Status(**header, run=77, **report))
    assert not rig.plant.remote.connected()
    assert rig.plant.remote.fault() == ("device", "the machine reports: my inputs are L, R")
    rig.connect()
    assert rig.fault is None


def test_what_else_the_machine_measures_is_kept_as_it_said_last(rig):
    rig.connect(extra={"battery": 24.5, "temperature": 31.0})
    for seq, more, kept in ((1, {}, {"battery": 24.5, "temperature": 31.0}), (2, {"battery": 24.4}, {"battery": 24.4})):
        rig.receives(seq=seq, **({"extra": more} if more else {}))
        assert rig.plant.extra == kept


def test_a_new_run_forgets_the_states_of_the_one_before(rig):
    rig.connect()
    rig.plant.begin(78, 500)
    rig.wire.says("state", state(seq=1))  # sent before the machine knew of this run: nothing to count
    assert not rig.plant.remote.connected()
    assert not rig.plant.counts
    rig.wire.says("state", state(run=78, seq=0, k=500, src=10, state={**STATE, "X": 3.0}))
    assert rig.plant.remote.connected()
    assert (rig.plant.k, rig.plant.t, rig.plant.x[0]) == (500, 0.5, 3.0)
    rig.receives(seq=2)  # now it is
    assert rig.plant.counts == {"refused_run": 1}


# real time


def test_what_is_written_is_sent_at_once_with_its_header(rig):
    rig.connect(seq=4)
    rig.pass_ms(10)
    rig.plant.write(U)
    sent = rig.wire.newest(Applied)
    assert isinstance(sent, Applied)
    assert sent.input == {"U1": 0.02, "U2": 0.03}
    assert (sent.run, sent.k, sent.t, sent.state_seq, sent.final) == (77, 10, 0.01, 4, False)
    rig.plant.write(-U)
    assert [each.seq for each in rig.wire.sent if isinstance(each, Applied)] == [0, 1]
    assert rig.plant.output.tolist() == [-0.02, -0.03]


def test_the_newest_state_is_read_under_our_own_stamp(rig, trailer):
    rig.connect()
    assert EnergyAccount(rig.plant, trailer).present() == trailer.energy(0.0, np.array([*STATE.values(), 0.0])) > 0
    rig.wire.says("state", state(seq=1, k=4000, t=4.0, state={**STATE, "X": 1.5}))
    rig.wire.says("state", state(seq=2, k=4001, t=4.001, state={**STATE, "X": 1.6}))
    rig.pass_ms(5)
    reading = rig.plant.read()
    assert (reading.k, reading.t, reading.state[0]) == (5, 0.005, 1.6)
    assert (rig.plant.remote.arrived(), rig.plant.finite, rig.plant.drops()) == (True, True, False)
    for i in range(60):
        rig.receives(seq=i + 3, k=4001)  # the same step once more is no fresh reading
    assert rig.fault == "stale_state"


def test_a_plant_that_waits_to_be_armed_keeps_up_with_the_machine(rig):
    rig.connect()
    for i in range(100):
        rig.clock.go(10)
        rig.wire.says("state", state(seq=i + 1, k=10 * (i + 1), state={**STATE, "X": float(i)}))
        assert rig.plant.remote.arrived()
        assert (rig.plant.x[0], rig.plant.k, rig.fault) == (i, 0, None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run": 78}, "refused_run"),
        ({"src": 10}, "refused_src"),
        ({"seq": 0}, "old_states"),
        ({"state": {**STATE, "X": [1.0, 2.0]}}, "refused_shape"),
        ({"state": {**STATE, "Z": 1.0}}, "refused_shape"),
        ({"state": {name: STATE[name] for name in list(STATE)[1:]}}, "refused_shape"),
        ({"state": {}}, "refused_shape"),
        ({"applied_seq": 1000}, "refused_future"),
        ({"state": {**STATE, "V": math.nan}}, "refused_non_finite"),
        ({"state": {**STATE, "V": -math.inf}}, "refused_non_finite"),
        ({"input": {"U1": math.nan}}, "refused_non_finite"),
        ({"seq": -1}, "refused_limits"),
        ({"extra": {"my battery": 1.0}}, "refused_type"),
        ({"extra": {"\x1b[2J": 1.0}}, "refused_type"),
        ({"extra": {"b" * 65: 1.0}}, "refused_limits"),
        ({"extra": {"battery": math.nan}}, "refused_non_finite"),
        ({"extra": {f"cell{i}": 1.0 for i in range(65)}}, "refused_limits"),
        ({"state": {f"x{i}": 0.0 for i in range(300)}}, "refused_limits"),
    ],
)
def test_a_state_that_cannot_be_is_refused_by_reason_and_soon_missed(rig, changes, reason):
    rig.connect()
    before = rig.plant.x.tolist()
    for i in range(51):
        rig.receives(**{"seq": i + 1, "state": {**STATE, "X": 9.0}, **changes})
        fault = rig.plant.remote.fault()
        assert (fault is None) == (i < 50)
    assert rig.plant.x[:-1].tolist() == before[:-1]
    assert rig.plant.counts == {reason: 51}
    assert fault is not None
    assert fault[0] == "stale_state"
    assert "for 51 ms (51 messages refused: " + reason.removeprefix("refused_") + " 51)" in fault[1]


def test_bytes_that_are_no_message_are_refused_by_reason_too(rig, rng):
    rig.connect()
    for _ in range(60):
        rig.wire.waiting.append((b"state", rng.bytes(200)))
        rig.wire.waiting.append((b"statement", b"\x80"))
        rig.pass_ms(1)
    counts = rig.plant.counts
    assert counts["refused_topic"] == 60
    assert sum(counts.values()) == 120
    assert rig.fault == "stale_state"


def test_the_fault_is_gone_with_the_next_good_state_and_counts_from_there(rig):
    rig.connect()
    rig.wire.says("state", state(run=5))
    rig.pass_ms(60)
    assert "(1 messages refused: run 1)" in rig.plant.remote.fault()[1]
    rig.wire.says("state", state(seq=1, k=60))
    assert rig.fault is None  # what waits is looked at before anything is judged
    rig.pass_ms(60)
    assert "refused" not in rig.plant.remote.fault()[1]


def test_a_stall_of_our_own_begins_the_wait_afresh(rig):
    rig.connect()
    rig.plant.write(U)
    rig.clock.go(500)
    rig.plant.remote.restart_timeouts(rig.clock.now)
    assert rig.fault is None
    rig.pass_ms(51)
    assert rig.fault == "stale_state"


def test_inputs_that_the_machine_does_not_take_are_a_fault_though_its_states_come_and_nothing_grows(rig):
    rig.connect()
    for i in range(200):
        rig.plant.write(U)
        rig.receives(seq=i + 1, k=i + 1, applied_seq=min(max(i - 40, -1), 60))  # late, but steady, up to number 60
        assert (rig.fault is None) == (i < 111)  # number 61 was sent at 61 ms, and now it is i + 1
    name, text = rig.plant.remote.fault()
    assert (name, "has taken no input sent in the last 139 ms" in text) == ("stale_applied", True)
    rig.receives(seq=300, k=201, applied_seq=199)
    assert rig.fault is None
    for _ in range(10000):
        rig.plant.write(U)
    assert len(rig.plant.inputs._untaken) <= 4096


# how old a reading is, by the machine's own step stamps


def test_a_reading_is_as_old_as_its_arrival_says(rig):
    rig.connect()
    for k in range(20, 200, 20):  # at 50 Hz
        rig.pass_ms(20)
        rig.receives(seq=k, k=k)
        reading = rig.plant.read()
        assert (reading.k, reading.step) == (rig.plant.k, k)
        assert reading.age == pytest.approx(0.001, abs=0.001)
        rig.clock.go(7)
        assert rig.plant.read().age == pytest.approx(reading.age + 0.007)
        rig.clock.go(-8)


def test_a_reading_that_has_waited_on_the_way_is_old_when_it_comes(rig):
    rig.connect()
    for k in range(1, 60):
        rig.receives(seq=k, k=k)
    late = [state(seq=60 + i, k=60 + i) for i in range(40)]
    rig.pass_ms(40)
    rig.wire.says("state", late[0])  # measured when step 60 was due, which is 40 ms ago
    rig.pass_ms(1)
    assert rig.plant.read().age == pytest.approx(0.040, abs=0.001)  # the drift that is allowed for
    assert rig.fault is None
    for each in late[1:3]:
        rig.pass_ms(6)  # each 6 ms one step of 1 ms: the queue grows
        rig.wire.says("state", each)
    rig.pass_ms(1)
    name, text = rig.plant.remote.fault()
    assert name == "stale_state"
    assert "ms old by the machine's own step stamps, although states come" in text


@pytest.mark.parametrize("stamps", [{"k": 39, "t": 0.041}, {"k": 41, "t": 0.039}, {"k": 0}])
def test_stamps_that_go_backward_are_refused(rig, stamps):
    rig.connect()
    rig.pass_ms(40)
    rig.receives(seq=1, k=40, t=0.04, state={**STATE, "X": 3.0})
    rig.receives(**{"seq": 2, "t": 0.041, "state": {**STATE, "X": 9.0}, **stamps})
    assert rig.plant.x[0] == 3.0
    assert rig.plant.counts == {"refused_backward": 1}


@pytest.mark.parametrize(("drift", "fault"), [(-0.02, None), (0.0, None), (0.009, None), (0.05, "stale_state")])
def test_a_clock_that_drifts_slowly_is_followed(rig, drift, fault):
    rig.connect()
    for i in range(1, 3000):
        newest = rig.wire.sent[-1]
        echo = newest.seq if isinstance(newest, Applied) else -1
        rig.receives(seq=i, k=int(i * (1 - drift)), applied_seq=echo)
    found = rig.plant.remote.fault()
    assert (found and found[0]) == fault


def test_a_machine_that_floods_is_told_from_a_queue_after_a_stall(rig):
    rig.connect()
    rig.clock.go(2000)
    for i in range(2000):  # what came while this process was stalled
        rig.wire.says("state", state(seq=i + 1, k=i + 1))
    rig.plant.advance(2000)
    rig.plant.advance(1)
    assert rig.plant.distrust is None
    for i in range(100):
        for j in range(100):
            rig.wire.says("state", state(seq=3000 + 100 * i + j, k=2001 + i))
        rig.pass_ms(1)
    assert rig.fault == "flooding"
    rig.connect(run=77, seq=90_000, k=0)
    assert rig.fault is None


# which readings are believed


def judged(trailer, **limits):
    made = {
        key: tuple(limits.get(key, {}).get(name, np.inf) for name in STATE) for key in ("value", "rate")
    }  # fmt: skip
    rig = Rig(trailer)
    plausible = Plausible(StateLimits(tuple(STATE), **made), 0.01)
    rig.plant = DevicePlant(terms(trailer, frozen_time=0.1, clock=rig.clock, plausible=plausible), rig.wire)
    rig.plant.open()
    return rig.connect()


@pytest.mark.parametrize("value", [1.01, -1e9, 1e300])
def test_a_reading_beyond_its_limit_is_a_fault_and_not_taken_also_in_the_handshake(trailer, value):
    rig = judged(trailer, value={"V": 1.0})
    rig.receives(seq=1, k=1, state={**STATE, "V": 1.0})
    assert rig.fault is None
    rig.wire.says("state", state(seq=2, k=2, state={**STATE, "V": value}))
    rig.receives(seq=3, k=3, state={**STATE, "V": 0.5})  # a good one does not make up for it
    name, text = rig.plant.remote.fault()
    assert (name, f"V = {value:g} is beyond 1" in text) == ("implausible_state", True)
    assert rig.plant.x[4] == 1.0
    assert rig.plant.counts == {"refused_implausible": 2}
    rig.connect(seq=4, k=3)
    assert rig.fault is None
    rig.plant.begin(78, 0)
    rig.wire.says("state", state(run=78, state={**STATE, "V": value}))
    assert not rig.plant.remote.connected()
    assert rig.fault == "implausible_state"


def test_a_reading_that_jumps_is_a_fault_unless_time_has_passed(trailer):
    rig = judged(trailer, rate={"psi": 100.0})
    for k, psi in ((1, 1.0), (2, 0.1), (101, 9.9), (102, 9.0)):  # 1 rad in a control period, 10 in 0.1 s
        rig.receives(seq=k, k=k, state={**STATE, "psi": psi})
        assert rig.plant.distrust is None
    rig.receives(seq=103, k=103, state={**STATE, "psi": 9.0 - 2 * math.pi})
    name, text = rig.plant.remote.fault()
    assert name == "implausible_state"
    assert "psi jumped from 9 to 2.7" in text
    assert "is an angle wrapped?" in text


@pytest.mark.parametrize(("push", "moves"), [(U, False), (0 * U, False), (U, True)])
def test_readings_that_stay_the_same_while_inputs_act_are_a_fault(trailer, push, moves):
    rig = judged(trailer)
    rig.plant.write(push)
    found = []
    for k in range(1, 300):
        values = {**STATE, "X": 1.0 + 1e-12 * k} if moves else STATE
        rig.receives(seq=k, k=k, state=values, applied_seq=0)
        if rig.plant.distrust:
            found.append((k, rig.plant.distrust[0]))
    assert found[:1] == ([(101, "frozen_state")] if push.any() and not moves else [])


def test_a_machine_that_rests_where_its_inputs_hold_it_is_not_frozen(trailer):
    rig = judged(trailer)
    for first, last, push, fault in ((1, 300, 0 * U, None), (300, 420, U, "frozen_state")):
        rig.plant.write(push)
        for k in range(first, last):
            rig.receives(seq=k, k=k, state=dict.fromkeys(STATE, 0.0), applied_seq=0)
        assert (rig.plant.distrust and rig.plant.distrust[0]) == fault


def test_what_is_held_is_sent_again_while_nothing_is_written(rig):
    rig.connect()
    rig.plant.write(U)
    rig.pass_ms(100)  # a third of the machine's timeout is 10 ms
    assert rig.wire.count(Applied) == 10
    assert rig.wire.newest(Applied).input == {"U1": 0.02, "U2": 0.03}
    rig.plant.safe()
    assert rig.wire.newest(Applied).input == {"U1": 0.0, "U2": 0.0}
    rig.pass_ms(11)
    assert rig.wire.newest(Applied).input == {"U1": 0.0, "U2": 0.0}


def test_closing_says_zero_and_final_twice_and_once_for_all(rig):
    rig.connect()
    rig.plant.write(U)
    rig.plant.close()
    rig.plant.close()
    last = rig.wire.sent[-2:]
    assert [(each.input, each.final) for each in last] == [({"U1": 0.0, "U2": 0.0}, True)] * 2
    assert last[0].seq < last[1].seq
    assert rig.wire.count(Applied) == 3
    assert rig.wire.life == ["open", "close"]


# lockstep


def test_in_lockstep_the_input_goes_with_the_steps_it_is_for(lockstep):
    lockstep.connect()
    lockstep.plant.write(U)
    assert lockstep.wire.count(Applied) == 0
    lockstep.plant.advance(10)
    sent = lockstep.wire.newest(Applied)
    assert (sent.input, sent.k, sent.until) == ({"U1": 0.02, "U2": 0.03}, 0, 10)
    assert not lockstep.plant.remote.arrived()
    assert lockstep.plant.k == 0
    lockstep.wire.says("state", state(seq=1, k=10, applied_seq=0, state={**STATE, "X": 1.1}))
    assert lockstep.plant.remote.arrived()
    assert (lockstep.plant.k, lockstep.plant.x[0]) == (10, 1.1)


def test_in_lockstep_what_is_not_answered_is_sent_again_as_the_same_message(lockstep):
    lockstep.connect()
    lockstep.plant.write(U)
    lockstep.plant.advance(10)
    for _ in range(3):
        assert lockstep.plant.remote.due() == lockstep.clock.now + 100 * MS
        lockstep.clock.go(100)
        assert not lockstep.plant.remote.arrived()
    sent = [each for each in lockstep.wire.sent if isinstance(each, Applied)]
    assert len(sent) == 4
    assert len(set(map(repr, sent))) == 1
    assert lockstep.plant.counts == {"resent": 3}
    assert lockstep.plant.remote.fault() is None  # how long to wait is the plant node's to say


def test_in_lockstep_only_the_state_of_the_step_asked_for_is_the_answer(lockstep):
    lockstep.connect()
    lockstep.plant.advance(10)
    lockstep.wire.says("state", state(seq=1, k=0, state={**STATE, "X": 7.0}))  # once more the state before
    lockstep.wire.says("state", state(seq=2, k=9))
    lockstep.wire.says("state", state(seq=3, k=11))
    assert not lockstep.plant.remote.arrived()
    assert lockstep.plant.x[0] == 1.0
    assert lockstep.plant.counts == {"refused_step": 2}
    lockstep.wire.says("state", state(seq=4, k=10))
    assert lockstep.plant.remote.arrived()


# the loopback machine


class Loop:
    """A loopback plant on a clock of its own."""

    def __init__(self, machine, impairments=None, effects=(FREE, SEES_ALL), noise_seed=0, seed=3, **changes) -> None:
        self.clock = Clock()
        given = {"link": asdict(impairments or Impairments()), "seed": seed, "clock": self.clock}
        context = terms(machine, simulated_machine=partial(moved, effects=effects, seed=noise_seed), **given | changes)
        link = LoopbackLink(context)
        self.plant = DevicePlant(context, link)
        self.device = link.device
        self.plant.open()

    def connect(self, run=77, k=0) -> "Loop":
        self.plant.begin(run, k)
        self.wait(self.plant.remote.connected)
        return self

    def wait(self, done) -> None:
        """Let time pass from event to event."""
        begin = self.clock.now
        while not done():
            assert self.clock.now < begin + 20000 * MS, self.plant.remote.no_answer_reason()
            self.clock.now = max(self.plant.remote.due(), self.clock.now)

    def go(self, steps=10) -> None:
        self.plant.advance(steps)
        self.wait(self.plant.remote.arrived)

    def pass_ms(self, ms: int, write=None) -> tuple[str, str] | None:
        """Real time passes, up to the first fault, which is returned."""
        for _ in range(ms):
            self.clock.go(1)
            self.plant.advance(1)
            if write is not None:
                self.plant.write(write)
            if fault := self.plant.remote.fault():
                return fault
        return None


def moved(machine, start, step_ns, effects=(FREE, SEES_ALL), seed=0) -> SimulatedPlant:
    return SimulatedPlant(machine, start, step_ns, "rk4", *effects, seed)


def simulated(machine, actuator=FREE) -> SimulatedPlant:
    return moved(machine, machine.state({"V": 0.4, "phi": 0.3, "Omega": 0.1}), STEP_NS, (actuator, SEES_ALL))


HARD = Impairments(delay=0.002, jitter=0.01, loss=0.1, duplicate=0.2, reorder=0.1)
SLOW_DRIVES = replace(FREE, limit=(0.025,) * 2, lag=(0.02,) * 2, delay=(0.003,) * 2)


@pytest.mark.parametrize("impairments", [Impairments(), HARD], ids=["ideal", "hard"])
@pytest.mark.parametrize("actuator", [FREE, SLOW_DRIVES], ids=["free", "slow"])
def test_in_lockstep_a_loopback_moves_as_the_simulated_plant_bit_for_bit(trailer, impairments, actuator):
    loop = Loop(trailer, impairments, (actuator, SEES_ALL), lockstep=True).connect()
    reference = simulated(trailer, actuator)
    for i in range(100):
        u = U * math.sin(0.1 * i)
        for plant in (loop.plant, reference):
            plant.write(u)
        reference.advance(10)
        loop.go(10)
        assert loop.plant.k == reference.k
        assert loop.plant.x[:-1].tolist() == reference.x[:-1].tolist()
    assert loop.plant.counts.keys() <= {"resent", "old_states"}


def test_a_hard_link_in_lockstep_repeats_exactly_from_its_seed(trailer):
    faults = structs.replace(HARD, corrupt=0.05)

    def history(seed):
        loop = Loop(trailer, faults, seed=seed, lockstep=True).connect()
        begin = loop.clock.now
        for _ in range(100):
            loop.plant.write(U)
            loop.go()
        return loop.clock.now - begin, dict(loop.plant.counts), dict(loop.device.counts), loop.plant.x.tobytes()

    assert history(1) == history(1)
    assert history(1)[:3] != history(2)[:3]


def test_parameters_and_start_come_with_the_setup(trailer):
    heavy = trailer.with_parameters({"m1": 40.0, "I1": 7.0})
    loop, reference = Loop(trailer, lockstep=True), simulated(heavy)
    loop.plant.handshake.context = replace(loop.plant.context, machine=heavy)
    loop.connect()
    for plant in (loop.plant, reference):
        plant.write(U)
    reference.advance(100)
    loop.go(100)
    assert loop.plant.x[:-1].tolist() == reference.x[:-1].tolist()


def test_a_run_that_begins_later_finds_the_machine_where_it_was(trailer):
    loop = Loop(trailer, lockstep=True).connect()
    loop.plant.write(U)
    loop.go(100)
    before = loop.plant.x.tobytes()
    loop.connect(run=78, k=100)
    assert loop.plant.x.tobytes() == before
    assert loop.plant.k == 100
    loop.go(10)
    assert loop.plant.k == 110
    loop.connect(run=79, k=0)
    assert loop.plant.x[:-1].tolist() == simulated(trailer).x[:-1].tolist()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"machine": "hoop_on_profile"}, "this machine is diff_drive_trailer, not hoop_on_profile"),
        ({"parameters": {"m1": -1.0}}, "must be greater than 0"),
        ({"start": {"X": 0.0}}, "'Y'"),
        ({"timeout": 0.0}, "timeout"),
    ],
)
def test_a_machine_that_does_not_fit_refuses_to_take_part(trailer, changes, says):
    loop = Loop(trailer)
    link, send = loop.plant.link, loop.plant.link.send
    link.send = lambda topic, message: send(topic, structs.replace(message, **changes))
    loop.plant.begin(77, 0)
    loop.clock.go(1)
    assert not loop.plant.remote.connected()
    name, text = loop.plant.remote.fault()
    assert name == "device"
    assert says in text


def test_a_motion_that_escapes_is_reported_by_the_machine(trailer):
    loop = Loop(trailer, lockstep=True).connect()
    loop.plant.write(np.array([1e300, -1e300]))
    loop.plant.advance(1000)
    assert not loop.plant.remote.arrived()
    assert loop.plant.remote.fault() == ("device", "the machine reports: its state is no longer finite")


@pytest.mark.parametrize("speed", [0.5, 1.0, 6.0])
def test_in_real_time_the_machine_runs_on_its_own_clock_to_the_end_of_a_run(trailer, speed):
    loop, reference = Loop(trailer, speed=speed).connect(), simulated(trailer)
    for plant in (loop.plant, reference):
        plant.write(U)
    loop.clock.go(1)  # the input arrives in the machine's first step at the latest
    assert loop.pass_ms(400, U) is None
    reference.advance(loop.device.plant.k)
    assert loop.device.plant.k == pytest.approx(401 * speed, abs=1)
    assert np.allclose(loop.plant.x[:-1], reference.x[:-1], rtol=0, atol=0.02)
    loop.plant.close()
    stopped = []
    for ms in (1, 100):
        loop.clock.go(ms)
        loop.plant.link.receive()
        stopped.append(loop.device.plant.k)
    assert stopped[0] == stopped[1]
    assert loop.device.plant.output.tolist() == [0.0, 0.0]
    assert loop.device.due() is None


def test_a_loopback_publishes_each_step_but_at_most_each_ms_and_each_period_at_least(trailer):
    for speed, period, every in ((1.0, 0.01, 1), (6.0, 0.01, 6), (100.0, 0.01, 10), (0.1, 0.01, 1), (100.0, 0.0, 100)):
        loop = Loop(trailer, speed=speed, period_s=period).connect()
        assert loop.device._going.every == every


def test_without_fresh_inputs_the_machine_is_safe_by_itself_after_its_timeout(trailer):
    loop = Loop(trailer, Impairments(cut="applied", cut_at=0.1)).connect()
    for ms, acting in ((99, U), (28, U), (5, 0 * U)):
        for _ in range(ms):
            loop.pass_ms(1, U)
        assert loop.device.plant.output.tolist() == acting.tolist()


def test_a_cut_towards_the_machine_is_stale_applied_and_heals(trailer):
    loop = Loop(trailer, Impairments(cut="applied", cut_at=0.1, cut_for=0.2)).connect()
    assert loop.pass_ms(99, U) is None
    assert loop.pass_ms(60, U)[0] == "stale_applied"
    assert loop.clock.now - loop.plant.link._to.origin == pytest.approx(151 * MS, abs=2 * MS)
    for _ in range(200):
        loop.pass_ms(1, U)
    assert loop.plant.remote.fault() is None
    assert loop.device.plant.output.tolist() == U.tolist()


@pytest.mark.parametrize(("cut", "acting"), [("state", -U), ("both", 0 * U)])
def test_a_cut_from_the_machine_is_stale_state_and_only_one_both_ways_makes_it_safe(trailer, cut, acting):
    loop = Loop(trailer, Impairments(cut=cut, cut_at=0.1)).connect()
    assert loop.pass_ms(99, U) is None
    name, text = loop.pass_ms(60, U)
    assert name == "stale_state"
    assert "for 50 ms" in text or "for 51 ms" in text
    for _ in range(100):
        loop.pass_ms(1, -U)
    assert loop.device.plant.output.tolist() == acting.tolist()


def test_a_link_slower_than_the_timeout_is_stale_applied_though_states_stream(trailer):
    assert Loop(trailer, Impairments(delay=0.03)).connect().pass_ms(200, U)[0] == "stale_applied"
    assert Loop(trailer, Impairments(delay=0.02)).connect().pass_ms(200, U) is None


APPLIED = {
    "t": 0.0, "run": 77, "k": 0, "mono": 1, "node": "plant", "src": 5, "input": {"U1": 1.0, "U2": 1.0}, "desired": {},
    "re": -1, "reasons": [], "repeats": 0,
}  # fmt: skip


def test_a_machine_refuses_inputs_of_another_run_old_ones_and_those_of_other_names(trailer):
    loop = Loop(trailer).connect()
    assert loop.pass_ms(5, U) is None
    for changes in ({"run": 78, "seq": 99}, {"seq": 2}, {"seq": 99, "input": {"U1": 1.0}}):
        loop.plant.link.send("applied", Applied(**{**APPLIED, **changes}))
    loop.device.take(loop.clock.now, (b"applied", b"\x93"))
    loop.clock.go(1)
    loop.plant.advance(1)
    assert loop.device.counts == {"run": 1, "old": 1, "shape": 1, "type": 1}
    assert loop.device.plant.output.tolist() == U.tolist()


def test_in_lockstep_a_machine_goes_only_from_where_it_is_and_not_too_far(trailer):
    loop = Loop(trailer, lockstep=True).connect()
    loop.plant.write(U)
    loop.go(10)
    for k, until, seq in ((9, 20, 50), (11, 20, 50), (10, 9, 50), (10, 10**12, 50), (10, 20, 0)):
        loop.plant.link.send("applied", Applied(**{**APPLIED, "k": k, "until": until, "seq": seq}))
    assert loop.plant.link.receive() == []
    assert loop.device.plant.k == 10
    assert loop.device.counts == {"old": 5}
    loop.go(10)
    assert loop.plant.k == 20


def test_after_a_long_stall_no_more_states_wait_than_a_queue_holds(trailer):
    loop = Loop(trailer).connect()
    loop.clock.go(60_000)
    assert (len(loop.plant.link.receive(10**6)) <= BOUND, loop.device.plant.k) == (True, 60_000)


def test_sensor_and_drives_of_the_launch_file_act_in_the_machine(trailer):
    sensor = replace(SEES_ALL, noise=(0.01,) * 8, drop=0.2)
    loop = Loop(trailer, effects=(SLOW_DRIVES, sensor), noise_seed=5, lockstep=True).connect()
    exact = simulated(trailer, SLOW_DRIVES)
    errors = []
    for _ in range(100):
        for plant in (loop.plant, exact):
            plant.write(U)
        exact.advance(10)
        loop.go(10)
        errors.append(loop.plant.x[:-1] - exact.x[:-1])
    assert np.std(errors) == pytest.approx(0.01, rel=0.1)
    assert loop.plant.counts["resent"] > 10


# impairments


def passed(impairments: Impairments, n: int = 4000, gap_ms: float = 1.0):
    """Numbers that come out of one way, with their delays [s]."""
    way, _ = both_ways(impairments, 11)
    out = []
    for i in range(n + 1000):
        now = round(i * gap_ms * MS)
        out += [(int.from_bytes(b), now - int.from_bytes(b) * round(gap_ms * MS), a) for a, b in way.arrivals(now)]
        if i < n:
            way.send(now, (b"topic", i.to_bytes(8)))
    return out


@pytest.mark.parametrize("faults", [Impairments(), Impairments(delay=0.01, jitter=0.02)])
def test_a_delay_and_its_jitter_are_in_their_bounds_and_keep_the_order(faults):
    out = passed(faults)
    assert [number for number, _, _ in out] == list(range(4000))
    late = np.array([late for _, late, _ in out]) / 1e9
    assert faults.delay <= late.min() <= late.max() <= faults.delay + faults.jitter + 0.001  # taken at the next look


@pytest.mark.parametrize("chance", [0.0, 0.05, 0.5, 1.0])
def test_chances_are_what_they_say(chance):
    spread = 5 * math.sqrt(4000 * chance * (1 - chance)) + 1e-9
    assert len(passed(Impairments(loss=chance))) == pytest.approx(4000 * (1 - chance), abs=spread)
    assert len(passed(Impairments(duplicate=chance))) == pytest.approx(4000 * (1 + chance), abs=spread)
    out = passed(Impairments(corrupt=chance))
    assert len(out) == 4000
    damaged = [i for i, (number, _, topic) in enumerate(out) if (number, topic) != (i, b"topic")]
    assert len(damaged) == pytest.approx(4000 * chance, abs=spread)


def test_a_reordered_message_comes_right_behind_the_next_one():
    numbers = [number for number, _, _ in passed(Impairments(reorder=0.1))]
    swapped = [i for i in range(len(numbers) - 1) if numbers[i] > numbers[i + 1]]
    assert sorted(numbers) == list(range(len(numbers)))
    assert 250 < len(swapped) < 450
    assert all(numbers[i] == numbers[i + 1] + 1 for i in swapped)
    assert passed(Impairments(reorder=1.0))[0][0] == 1


def test_each_effect_draws_for_itself_and_a_full_queue_takes_no_more():
    """So that a run with loss alone loses the same messages as one with loss and jitter."""
    lost = [set(range(4000)) - {n for n, _, _ in passed(Impairments(loss=0.1, jitter=jitter))} for jitter in (0, 0.01)]
    assert lost[0] == lost[1]
    way, _ = both_ways(Impairments(delay=1.0), 1)
    for i in range(5000):
        way.send(i, (b"topic", b""))
    assert len(list(way.arrivals(10**12))) == 1000


@pytest.mark.parametrize(("name", "kind"), [("loopback", LoopbackLink), ("external", ExternalLink)])
def test_a_driver_makes_a_plant_behind_its_link_that_opens_nothing_yet(trailer, name, kind):
    plant = find_driver(name).open(terms(trailer, addresses=("tcp://127.0.0.1:1", "tcp://127.0.0.1:2")))
    assert isinstance(plant, DevicePlant)
    assert isinstance(plant.link, kind)
    assert plant.remote.fds == ()
    plant.close()


def test_a_machine_with_vectors_in_its_state_travels_too():
    sphero = load_machine("pendulum_sphero", {}, {})
    start = sphero.state({})
    made, m = context(sphero, start, lockstep=True, clock=Clock()), sphero.n_inputs
    plant = DevicePlant(made, LoopbackLink(made))
    plant.open()
    plant.begin(1, 0)
    assert plant.remote.connected()
    plant.write(np.full(m, 0.01))
    plant.advance(100)
    assert plant.remote.arrived()
    reference = made.simulation()
    reference.write(np.full(m, 0.01))
    reference.advance(100)
    assert plant.x[:-1].tolist() == reference.x[:-1].tolist()


# a machine that brakes by itself


class BrakingWire(Wire):
    """A link to a machine that brakes as long as it is told to. orders: of each input sent, whether it was told."""

    brakes = True

    def __init__(self) -> None:
        super().__init__()
        self.orders: list[bool] = []

    def send(self, topic: str, message: Message) -> None:
        if isinstance(message, Applied):
            self.orders.append(isinstance(message, AppliedSafeAction))
            message = Applied(**structs.asdict(message))  # as a packet has it, beside the order
        super().send(topic, message)


@pytest.fixture
def braking(trailer, monkeypatch) -> Rig:
    monkeypatch.setattr(f"{__name__}.Wire", BrakingWire)
    return Rig(trailer).connect()


def test_order_to_brake_is_sent_once_a_period_and_not_once_a_step(braking) -> None:
    for k in range(1, 101):
        braking.plant.brake(U)
        braking.pass_ms(1)
        braking.wire.says("state", state(seq=k, k=k, t=k * 1e-3, applied_seq=braking.plant.inputs.seq))
    assert braking.wire.orders == [True] * 10  # of 10 ms each


def test_failed_link_does_not_release_the_brake_but_a_failed_machine_does(braking) -> None:
    braking.plant.brake(U)
    braking.pass_ms(60)
    assert braking.plant.remote.fault()[0] == "stale_state"
    braking.plant.safe()
    assert braking.wire.orders[-1]
    braking.wire.says("status", Status(
        t=0.06, seq=1, run=77, k=60, mono=1, node="robot", src=9, lifecycle="fault", fault="no encoder", counts={},
        values={},
    ))  # fmt: skip
    braking.pass_ms(1)
    assert braking.plant.remote.fault()[0] == "device"
    braking.plant.safe()
    assert not braking.wire.orders[-1]  # its state is not to be trusted
    assert set(braking.wire.newest(Applied).input.values()) == {0.0}
