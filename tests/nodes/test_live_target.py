"""Goals over a topic: read from a real socket, filtered, published for each state; what cannot be is refused."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import zmq
from numpy.testing import assert_allclose

import servonode
from servonode.bus import Lifecycle, MemoryBus, State, Status, Switchboard, Target
from servonode.bus.codec import Intake
from servonode.bus.topology import NODES, PLANT, TARGET, subscribers
from servonode.bus.zmq_subscriber import FieldReader
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import LaunchError, read_launch
from servonode.controllers.engine.follow_filter import FilterDesign, FollowFilter
from servonode.nodes.target_node import LiveTargetNode
from tests.closed_loop.test_goals import MACHINE
from tests.helpers.events import LONG_S, eventually
from tests.helpers.runs import private_runtime

LAUNCH = """[run]
duration = 2.0
[plant]
machine = "./machine.py:model"
[plant.safety]
limit = 1e3
[controller]
residuals = {{jerk = "x_dot - goal_d3 + 0.001*other"}}
[target]
other = "0.1*t"
[target.goal]
topic = "pose"
address = "ipc://{place}"
field = "pose.1"
bandwidth = 25.0
start = 0.5
timeout = 0.3
on_loss = "fault"
"""


@pytest.fixture
def place() -> Iterator[str]:
    """The path of a socket, which must be short."""
    with private_runtime() as folder:
        yield str(folder / "pose")


@pytest.fixture
def file(tmp_path: Path, place: str) -> str:
    (tmp_path / "machine.py").write_text(MACHINE)
    (tmp_path / "live.toml").write_text(LAUNCH.format(place=place))
    return str(tmp_path / "live.toml")


@pytest.fixture
def closed_loop(file: str) -> ClosedLoop:
    return resolve(read_launch(file))


@pytest.fixture
def bench(closed_loop: ClosedLoop, poses: Any) -> Iterator["Bench"]:
    bench = Bench(closed_loop, poses)
    yield bench
    bench.close()


@pytest.fixture
def poses(place: str) -> Iterator[zmq.Socket[bytes]]:
    socket = zmq.Context.instance().socket(zmq.XPUB)
    socket.bind(f"ipc://{place}")
    yield socket
    socket.close(0)


class Bench:
    """A live target node on a bus in memory, whose samples come over a socket."""

    def __init__(self, closed_loop: ClosedLoop, poses: Any) -> None:
        board, self.poses, self.now = Switchboard(), poses, 10**9
        plant = MemoryBus(board, PLANT)
        self.node = LiveTargetNode(closed_loop, MemoryBus(board, TARGET), subscribers(NODES, live=True), self.clock)
        self.states, self.goals = plant.publisher(), plant.subscriber({TARGET: ["target"]})
        self.seq, self.run = 0, 1
        assert poses.poll(LONG_S * 1e3)
        poses.recv()  # the node has subscribed: whatever is sent comes, once

    def clock(self) -> int:
        return self.now

    def close(self) -> None:
        for each in self.node.followed:
            if each.samples is not None:
                each.samples.close()

    def sample(self, value: float) -> None:
        """Have the node receive a sample."""
        self.poses.send_multipart([b"pose", msgspec.msgpack.encode({"pose": [0.0, value]})])
        assert eventually(lambda: self.node.work() and self.node.followed[0].newest == value)

    def state(self, k: int) -> list[Target]:
        """The goals that the node publishes for a control state."""
        self.seq += 1
        header = {"run": self.run, "mono": 1, "node": PLANT, "src": 2, "seq": self.seq, "control": True}
        state = State(t=k / 1e3, k=k, state={"x": 0.0, "x_dot": 0.0}, input={"F": 0.0}, **header)
        self.states.publish("state", state)
        self.node.work()
        return [each for _, each in self.goals.receive() if isinstance(each, Target)]


def test_each_state_is_followed_by_the_filtered_goal_of_its_instant(bench: "Bench") -> None:
    wanted = FollowFilter(FilterDesign(4, 25.0), 0.5)
    names, k = ("goal", "goal_dot", "goal_ddot", "goal_d3", "goal_d4"), 0
    for value, steps in ((None, 0), (None, 10), (0.75, 10), (0.8, 20), (-1.0, 10), (-1.0, 0)):
        if value is not None:
            bench.sample(value)
        k += steps
        wanted.advance(0.5 if value is None else value, steps / 1e3)
        (goal,) = bench.state(k)
        assert goal.k == k
        assert_allclose([goal.target[name] for name in names], wanted.output(), rtol=0, atol=1e-6)
        assert goal.target["other"] == pytest.approx(0.1 * k / 1e3, rel=1e-14)
    assert abs(wanted.output()[4]) > 1.0


def test_a_predictor_finds_the_goals_that_it_looks_ahead_for(file: str, poses: Any) -> None:
    ahead = Bench(resolve(read_launch(file, ["controller.delay=2", "controller.predictor=true"])), poses)
    ahead.state(0)
    ahead.sample(0.9)
    goals, wanted = ahead.state(10), FollowFilter(FilterDesign(4, 25.0), 0.5)
    assert [each.k for each in goals] == [10, 20, 30, 40]
    for each in goals:
        wanted.advance(0.9, 0.01)
        assert each.target["goal"] == pytest.approx(wanted.output()[0], abs=1e-12)
        assert each.target["other"] == pytest.approx(0.1 * each.k / 1e3, rel=1e-14)
    ahead.close()


def test_samples_that_stay_away_end_the_run_and_none_at_all_do_not(bench: "Bench") -> None:
    bench.now += 10**10
    assert len(bench.state(0)) == 1
    assert bench.node.failed is None
    bench.sample(0.6)

    def refused() -> bool:
        bench.poses.send_multipart([b"pose", msgspec.msgpack.encode({"pose": [0.0, float("nan")]})])
        bench.node.work()
        return bool(bench.node.followed[0].counts["type"])

    assert eventually(refused)
    bench.now += 299_000_000
    assert len(bench.state(10)) == 1
    bench.now += 2_000_000
    bench.node.work()
    assert bench.node.failed is not None
    assert bench.node.failed.text.startswith("no sample of goal has come from ipc://")
    assert " messages refused: type " in bench.node.failed.text
    assert bench.state(20) == []


def test_while_a_run_is_paused_no_goal_is_lost(bench: "Bench") -> None:
    def told(paused: float) -> None:
        header: dict[str, Any] = {"run": 1, "mono": 1, "node": PLANT, "src": 2, "seq": 0, "counts": {}}
        bench.states.publish(
            "status", Status(t=0.0, k=0, lifecycle=Lifecycle.ACTIVE, values={"paused": paused}, **header)
        )
        bench.node.work()

    bench.sample(0.7)
    bench.state(0)
    bench.now += 200_000_000
    bench.node.work()
    told(1.0)
    for _ in range(100):
        bench.now += 20_000_000
        bench.node.work()
    told(0.0)
    bench.now += 90_000_000
    assert len(bench.state(10)) == 1  # 0.29 s beside the pause
    bench.now += 30_000_000
    bench.node.work()
    assert [fault.name for fault in bench.node.faults] == ["target"]


@pytest.mark.parametrize(("on_loss", "kept", "said"), [("hold", 0.6, "it keeps its last value"), ("start", 0.5, "0.5")])
def test_a_lost_goal_is_named_and_held_or_goes_back_to_its_start_until_samples_come_again(
    file: str, poses: Any, on_loss: str, kept: float, said: str
) -> None:
    lossy = Bench(resolve(read_launch(file, [f"target.goal.on_loss={on_loss}"])), poses)
    lossy.state(0)
    lossy.sample(0.6)
    assert lossy.node.describe()["text"] == ""
    for k in (10, 1000, 2000):
        lossy.now += 10**9
        lossy.node.work()
        (goal,) = lossy.state(k)
    assert goal.target["goal"] == pytest.approx(kept, abs=1e-6)
    stands = lossy.node.describe()
    assert (stands["lifecycle"], stands["counts"]["lost_goal"]) == ("active", 1)
    assert stands["text"].startswith("no sample of goal has come from ipc://")
    assert stands["text"].endswith(said)
    lossy.sample(0.8)
    (goal,) = lossy.state(3000)
    assert goal.target["goal"] == pytest.approx(0.8, abs=1e-6)
    assert lossy.node.describe()["text"] == ""
    lossy.close()


def test_a_goal_that_ended_its_commands_is_followed_in_a_new_run_once_samples_come_again(bench: "Bench") -> None:
    bench.state(0)
    bench.sample(0.6)
    bench.now += 10**9
    bench.node.work()
    assert bench.node.failed is not None
    bench.run = 2
    assert bench.state(0) == []
    bench.run = 1
    bench.sample(0.7)
    assert bench.state(10) == []  # not in the run that has seen it fail
    bench.run = 3
    assert len(bench.state(0)) == 1
    assert bench.node.failed is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("keys", "values"), [((), (1.7e308, -1e150)), (("target.goal.range=[-1, 1]",), (1.01, -5.0))])
def test_samples_beyond_the_range_or_the_reach_of_the_filter_are_refused_and_do_not_keep_a_goal_alive(
    file: str, poses: Any, keys: tuple[str, ...], values: tuple[float, ...]
) -> None:
    bounded = Bench(resolve(read_launch(file, list(keys))), poses)
    bounded.state(0)
    bounded.sample(0.6)
    for value in values:
        before = bounded.node.followed[0].counts["range"]
        payload = msgspec.msgpack.encode({"pose": [0.0, value]})

        def refused(payload: bytes = payload, before: int = before) -> bool:
            bounded.poses.send_multipart([b"pose", payload])
            bounded.node.work()
            return bounded.node.followed[0].counts["range"] > before

        assert eventually(refused)
    assert bounded.state(10)[0].target["goal"] < 0.6
    bounded.now += 310_000_000
    bounded.node.work()
    assert bounded.node.failed is not None
    assert " messages refused: range " in bounded.node.failed.text
    bounded.close()


@pytest.mark.parametrize(("payload", "reason"), [
    (b"", "malformed"), (b"\xc1", "malformed"), (b"\x91" * 3000, "malformed"), (b"\x80", "missing"),
    (msgspec.msgpack.encode({"pose": [1.0]}), "missing"), (msgspec.msgpack.encode({"pose": {"a": 1}}), "missing"),
    (msgspec.msgpack.encode({"pose": [0, "1"]}), "type"), (msgspec.msgpack.encode({"pose": [0, True]}), "type"),
    (msgspec.msgpack.encode({"pose": [0, float("nan")]}), "type"), (b"\x00" * 70000, "length"),
    (b'{"pose": [0, NaN]}', "malformed"), (b'{"pose": [0, 1e999]}', "malformed"), (b"{" * 60000, "malformed"),
    (b'{"pose": ' + b"[" * 30000 + b"]" * 30000 + b"}", "malformed"), (b'{"pose": [0, 1' + b"0" * 400 + b"]}", "type"),
    (b'{"pose": [0, 1], "sent_ns": "now"}', "type"), (b'{"pose": [0, 1], "sent_ns": 1}', "late"),
    (b'{"pose": [0, 1], "sent_ns": 9223372036854775807}', "late"),
])  # fmt: skip
def test_what_is_no_number_is_counted_and_left_out(payload: bytes, reason: str) -> None:
    intake = Intake(["pose"], FieldReader("pose.1", 1.0))
    assert intake.take(b"pose", payload) is None
    assert intake.counts == {reason: 1}
    assert intake.take(b"other", payload) is None
    assert intake.take(b"pose", msgspec.msgpack.encode({"pose": [0, 3]})) == ("pose", 3.0)
    assert intake.take(b"pose", b'{"pose": [0, 3]}') == ("pose", 3.0)


def test_a_message_that_says_when_it_was_sent_counts_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    intake, now = Intake(["pose"], FieldReader("x", 0.5)), 10**12
    monkeypatch.setattr("servonode.bus.zmq_subscriber.time", SimpleNamespace(monotonic_ns=lambda: now))
    sent = (now - 400_000_000, now - 300_000_000, now - 300_000_000, now - 350_000_000, now - 600_000_000, now)
    taken = [intake.take(b"pose", b'{"x": 1, "sent_ns": %d}' % each) is not None for each in sent]
    assert taken == [True, True, False, False, False, True]
    assert intake.counts == {"replayed": 2, "late": 1}


@pytest.mark.parametrize(("setting", "said"), [
    ("run.mode=lockstep", "[target.goal] topic: is followed in real time only; set run.mode"),
    ("target.goal.address=tcp://127.0.0.1:9000", "[target.goal] address: 'tcp://127.0.0.1:9000' has no keys"),
    ("target.goal.address=pose", "[target.goal] address: 'pose' is not an address; take ipc:///PATH"),
    ("target.goal.on_loss=wait", '--set target.goal.on_loss: "wait" is unknown; choose fault, hold, rest or start'),
    ("target.goal.bandwidth=1000", "[target.goal] bandwidth: 1000 rad/s lets the steps between two control instants"),
    ("target.goal.points=[[0, 1], [1, 2]]", "[target.goal] points: does not go with a goal from outside, or leave"),
    ('target.goal={topic = "pose"}', "[target.goal] address: missing; give the address"),
    ('target.goal={topic = "pose", address = "ipc:///a"}', "[target.goal] bandwidth: missing; give the bandwidth"),
    ("target.goal={points = [[0, 1], [1, 2]], bandwidth = 3}", "[target.goal] points: does not go with a goal from"),
    ("target.goal={points = [[0, 1], [1, 2]], rate = 3}", "[target.goal] rate: belongs to a goal from outside"),
    ('target.goal={bandwidth = 3, field = "x"}', "[target.goal] field: belongs to a topic, and none is given; give"),
    ("target.goal={bandwidth = 3}", '[target.goal] on_loss: "rest" needs a unit, and nothing tells whether'),
    ("target.goal.range=[1, 2]", "[target.goal] start: 0.5 is beyond range = [1, 2]; give both so that it"),
    ("target.goal.range=[2, -2]", "[target.goal] start: 0.5 is beyond range = [2, -2]"),
    ("target.goal.range=[1]", "target.goal.range"), ("target.goal.rate=0", "target.goal.rate"),
])  # fmt: skip
def test_a_topic_that_cannot_be_followed_is_refused(file: str, setting: str, said: str) -> None:
    with pytest.raises(LaunchError) as caught:
        resolve(read_launch(file, [setting]))
    assert said in str(caught.value)


def test_a_check_says_how_late_the_filter_is_and_a_simulation_has_no_topic(file: str) -> None:
    report = servonode.check(file)
    remark, warning = (each.text for each in report.findings if each.subject == "goal")
    assert warning.startswith("goal has neither range nor rate: one wrong value moves the machine as far as")
    assert (
        "through 5 lags of 25 rad/s: it follows 0.2 s late; before the first message, and in a check, it is 0.5; "
        "without a message for 0.3 s its commands end" in remark
    )
    with pytest.raises(LaunchError, match=r"for a simulation give it another way, as --set target\.goal="):
        servonode.simulate(file)
