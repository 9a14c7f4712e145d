"""Goals by requests: judged whole in the target node, followed at a limited rate, held where none comes any more."""

from pathlib import Path
from typing import Any

import pytest

from servonode.bus import MemoryBus, State, Status, Switchboard, Target
from servonode.bus.topology import GOAL_HELD, NODES, PLANT, TARGET, subscribers
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import LaunchError, read_launch
from servonode.nodes.target_node import NONE_LIVE, LiveTargetNode, TargetNode

WALK = """from servonode.controllers import Program, residual, target


def program(machine):
    v, omega = target("v", "wanted speed", "m/s"), target("omega", "wanted yaw rate", "rad/s")
    speed = residual("speed", machine["V"] - v, "speed less v", "m/s", rate=2.0)
    turn = residual("turn", machine["Omega"] - omega, "yaw rate less omega", "rad/s", rate=2.0)
    return Program("walk", "speed and yaw rate", residuals=(speed, turn), targets=(v, omega))
"""
EXAMPLES = Path(__file__).parents[2] / "examples" / "goals"


class Bench:
    """A target node on a bus in memory, its clock, and the plant that it answers."""

    def __init__(self, file: str, *settings: str) -> None:
        board, self.now, self.seq, self.run = Switchboard(), 10**9, 0, 1
        plant = MemoryBus(board, PLANT)
        closed_loop = resolve(read_launch(EXAMPLES / f"{file}.toml", list(settings)))
        self.node = LiveTargetNode(closed_loop, MemoryBus(board, TARGET), subscribers(NODES, live=True), self.clock)
        self.states, self.inbox = plant.publisher(), plant.subscriber({TARGET: ["target", "status"]})
        self.names = closed_loop.machine.description.state_names
        self.received: list[Any] = []

    def clock(self) -> int:
        return self.now

    def ask(self, **goal: Any) -> dict[str, Any]:
        return self.node.handle_request("goal", {"goal": goal})

    def state(self, k: int) -> list[Target]:
        """The goals that the node publishes for a control state."""
        self.seq += 1
        header = {"run": self.run, "mono": 1, "node": PLANT, "src": 2, "seq": self.seq, "control": True}
        state: dict[str, Any] = dict.fromkeys(self.names, 0.0)
        self.states.publish("state", State(t=k / 1e3, k=k, state=state, input={"U1": 0.0, "U2": 0.0}, **header))
        self.node.work()
        found = [each for _, each in self.inbox.receive()]
        self.received += found
        return [each for each in found if isinstance(each, Target)]

    def drive(self, begin: int, end: int, step: int = 10) -> list[dict[str, float]]:
        """The goals at each control state from one step to another, while the clock goes on."""
        goals = []
        for k in range(begin, end, step):
            goals += [each.target for each in self.state(k)]
            self.now += step * 1_000_000
        return goals


@pytest.fixture
def teleop() -> Bench:
    return Bench("teleop")


@pytest.fixture
def way_points() -> Bench:
    return Bench("way_points")


def test_a_speed_goes_there_at_its_rate_and_back_to_0_when_nobody_gives_it_any_more(teleop: Bench) -> None:
    teleop.state(0)
    assert teleop.ask(v=0.5, omega=-1.0) == {"done": True, "lifecycle": "active", "t": 0.0}
    goals = teleop.drive(10, 300)
    assert 0.3 < max(each["v_dot"] for each in goals) <= 0.5
    assert teleop.node.values() == {}
    goals += teleop.drive(300, 3000)
    assert max(abs(each["v"]) for each in goals) < 0.5
    assert goals[-1] == pytest.approx(dict.fromkeys(goals[-1], 0.0), abs=1e-6)
    stands = teleop.node.describe()
    assert (stands["lifecycle"], stands["fault"], stands["values"]) == ("active", "", {GOAL_HELD: 1.0})
    assert stands["held"].startswith("no v has come for 0.3 s: it goes back to 0; no omega has come")
    assert stands["counts"] == {"lost_v": 1, "lost_omega": 1}
    assert [each.values for each in teleop.received if isinstance(each, Status)][-1] == {GOAL_HELD: 1.0}
    teleop.ask(v=0.2)
    assert teleop.node.describe()["held"].startswith("no omega")


def test_a_place_is_kept_and_its_way_there_is_no_faster_than_its_rate(way_points: Bench) -> None:
    way_points.state(0)
    way_points.ask(x=3.0, y=-1.0)
    goals = way_points.drive(10, 15_000)
    assert max(each["x_dot"] for each in goals) == pytest.approx(0.3, abs=1e-5)
    assert min(each["y_dot"] for each in goals) == pytest.approx(-0.3, abs=1e-5)
    assert (goals[-1]["x"], goals[-1]["y"]) == pytest.approx((3.0, -1.0), abs=1e-9)
    assert "it keeps its last value" in way_points.node.describe()["held"]


@pytest.mark.parametrize(("goal", "said"), [
    (None, "no goal is given; choose v, omega"), ({}, "no goal is given; choose v, omega"), ([1], "no goal is given"),
    ({"v": 0.1, "w": 0.1}, "'w' cannot be given: it is no target of this run; choose v, omega"),
    ({"v": 0.1, "omega": 1.001}, "omega = 1.001 is beyond its range; give a value from -1 to 1"),
    ({"v": "0.1"}, "v = 0.1 is not a finite number"), ({"v": True}, "v = True is not a finite number"),
    ({"v": [0.1]}, "v = [0.1] is not a finite number"), ({"v": float("nan")}, "v = nan is not a finite number"),
    ({"v": float("inf")}, "v = inf is not a finite number"), ({"v": None}, "v = None is not a finite number"),
    ({"v" * 1000: 1.0}, "cannot be given: it is no target"),
])  # fmt: skip
def test_a_request_with_anything_wrong_changes_nothing(teleop: Bench, goal: Any, said: str) -> None:
    teleop.state(0)
    answer = teleop.node.handle_request("goal", {"goal": goal})
    assert said in answer["refused"]
    assert len(answer["refused"]) < 200
    assert [each.newest for each in teleop.node.followed] == [0.0, 0.0]
    assert teleop.node.counts == {"refused_goals": 1}
    assert teleop.drive(10, 1000)[-1]["v"] == 0.0


def test_what_an_address_or_a_function_of_time_brings_is_not_given_by_a_request(tmp_path: Path) -> None:
    topic = f'{{topic = "goal", address = "ipc://{tmp_path}/goal", bandwidth = 5.0}}'
    mixed = Bench("way_points", f"target.x={topic}", "target.y=0.1*t")
    assert f"'x' cannot be given: it comes from ipc://{tmp_path}/goal; give no address" in mixed.ask(x=1.0)["refused"]
    assert "'y' cannot be given: it is a function of time" in mixed.ask(y=1.0)["refused"]
    samples = mixed.node.followed[0].samples
    assert samples is not None
    samples.close()
    closed_loop = resolve(read_launch("trailer_pursuit"))
    known = TargetNode(closed_loop, MemoryBus(Switchboard(), TARGET), subscribers(NODES))
    assert known.handle_request("goal", {"goal": {"x": 1.0}}) == {"refused": NONE_LIVE}


def test_a_goal_that_is_held_for_too_long_ends_its_commands() -> None:
    ending = Bench("teleop", "target.v.fault_after=2.0")
    ending.state(0)
    ending.ask(v=0.3)
    ending.drive(10, 2200)
    assert ending.node.failed is None
    ending.drive(2200, 2400)
    assert ending.node.failed is not None
    assert "it goes back to 0, and after 2 s its commands end; check its publisher" in ending.node.failed.text
    assert ending.node.values() == {}
    assert ending.state(2400) == []


def test_after_a_reset_a_place_stays_where_it_was_and_a_speed_begins_at_its_start(
    teleop: Bench, way_points: Bench
) -> None:
    for bench, goal in ((teleop, {"v": 0.4}), (way_points, {"x": 3.0})):
        bench.state(0)
        bench.ask(**goal)
        last = bench.drive(10, 1000)[-1]
        bench.run = 2
        again = bench.drive(1000, 2000)
        name = next(iter(goal))
        kept = last[name] if name == "x" else 0.0
        assert [again[0][name], again[-1][name]] == pytest.approx([kept, kept], abs=0.01)
        assert again[-1][f"{name}_dot"] == 0.0
        bench.run = 3  # the plant has been started again: at its initial state
        begun = bench.drive(0, 100)
        assert begun[0][name] == begun[-1][name] == (0.3 if name == "x" else 0.0)


def test_a_speed_whose_range_leaves_0_out_cannot_come_to_rest(tmp_path: Path) -> None:
    (tmp_path / "walk.py").write_text(WALK)
    (tmp_path / "walk.toml").write_text(
        f'[run]\nduration = 1.0\n[plant]\nmachine = "diff_drive_trailer"\n[controller]\n'
        f'program = "{tmp_path}/walk.py:program"\n'
        "[target]\nv = {bandwidth = 5.0, range = [0.1, 0.5], start = 0.2}\nomega = 0.0\n"
    )
    with pytest.raises(LaunchError, match=r'on_loss: "rest" of a speed is 0, which is beyond range = \[0.1, 0.5\]'):
        resolve(read_launch(tmp_path / "walk.toml"))
    walking = resolve(read_launch(tmp_path / "walk.toml", ["target.v.range=[-0.5, 0.5]"]))
    assert [each.lost_text for each in walking.live] == ["it goes to 0"]
