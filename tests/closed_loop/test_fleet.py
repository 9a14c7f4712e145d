"""Launch files of several robots: what is included and what differs, who follows whom, and what is refused."""

from pathlib import Path

import pytest

from servonode.closed_loop.fleet import Fleet, read_fleet, resolve_fleet
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.launch_file import packaged, read_launch

RUN = "[run]\nduration = 1.0\n"
LEADER = '[robots.leader]\ninclude = "trailer_pursuit"\n'
FOLLOWER = '[robots.follower]\ninclude = "trailer_pursuit"\ntarget = {x = "leader.X", y = "leader.Y"}\n'
APART = "plant.initial.X = -2.0\n"


def fleet_of(folder: Path, text: str, *overrides: str) -> Fleet:
    file = folder / "convoy.toml"
    file.write_text(text)
    fleet = read_fleet(file, overrides)
    assert fleet is not None
    return fleet


def refusal(folder: Path, text: str, *overrides: str) -> str:
    """Why a launch file is refused, without the folder."""
    with pytest.raises(LaunchError) as refused:
        resolve_fleet(fleet_of(folder, text, *overrides))
    return str(refused.value).removeprefix(f"{folder}/")


def test_a_robot_is_the_included_file_with_what_differs(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, RUN + LEADER + FOLLOWER + APART + "controller.gains.speed = 3.0\n")
    leader, follower = fleet.robots["leader"], fleet.robots["follower"]
    included = read_launch("trailer_pursuit")
    assert leader.controller == included.controller
    assert follower.controller is not None
    assert follower.controller.gains == {"speed": 3.0}
    assert leader.target == included.target
    assert follower.plant.initial == {"X": -2.0}
    assert [each.duration_ns for each in fleet.robots.values()] == [10**9, 10**9]
    assert [each.run.seed for each in fleet.robots.values()] == [1, 2]  # the noise of each is its own
    assert [each.name for each in fleet.robots.values()] == ["convoy.leader", "convoy.follower"]


def test_set_reaches_a_robot_and_the_whole_run(tmp_path: Path) -> None:
    words = "robots.follower.plant.initial.Y=0.5", "run.duration=0.5"
    follower = fleet_of(tmp_path, RUN + LEADER + FOLLOWER + APART, *words).robots["follower"]
    assert follower.plant.initial == {"X": -2.0, "Y": 0.5}
    assert follower.duration_ns == 5 * 10**8


def test_a_file_is_included_from_beside_the_launch_file(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('[run]\nduration = 3.0\n[plant]\nmachine = "diff_drive_trailer"\n'
                                       '[controller]\nprogram = "open_loop"\n')  # fmt: skip
    fleet = fleet_of(tmp_path, '[robots.a]\ninclude = "one.toml"\n')
    assert fleet.robots["a"].path == tmp_path / "one.toml"
    assert fleet.robots["a"].duration_ns == 3 * 10**9


def test_a_leader_comes_before_its_followers_and_its_initial_state_is_their_first_goal(tmp_path: Path) -> None:
    loops = resolve_fleet(fleet_of(tmp_path, RUN + FOLLOWER + LEADER + "plant.initial.X = 2.5\n"))
    assert list(loops) == ["leader", "follower"]
    assert [each.start for each in loops["follower"].live] == [2.5, 0.0]
    assert loops["follower"].goal(0.0)[0] == 2.5


def test_a_file_of_one_robot_has_no_robots_table(tmp_path: Path) -> None:
    assert read_fleet("trailer_pursuit") is None
    with pytest.raises(LaunchError, match=r"\[robots\]: servonode run, simulate, check and show take several robots"):
        read_launch(next(iter(packaged(robots=True))))


REFUSED = {
    "no robots": ("robots = 3\n", "[robots]: no robots; write [robots.NAME] tables"),
    "a section beside": (RUN + LEADER + "[plant]\n", "[plant]: stands beside [robots]; write [robots.NAME.plant]"),
    "no include": (RUN + "[robots.a]\n", "[robots.a] include: missing; name the launch file of this robot"),
    "a file that is not there": (RUN + '[robots.a]\ninclude = "trailer_pursit"\n', "no such file"),
    "itself": (RUN + '[robots.a]\ninclude = "convoy.toml"\n', "convoy.toml has [robots] itself"),
    "run of one": (RUN + LEADER + "run.duration = 2.0\n", "[robots.leader.run]: belongs to the whole run; write"),
    "a node's name": (RUN + LEADER.replace("leader", "plant"), "not usable as the name of a robot; take a letter"),
    "a name with a dot": (RUN + LEADER.replace("leader", '"a.b"'), "not usable as the name of a robot"),
    "not a table": ("[robots]\na = 3\n", "[robots] a: not a table; write [robots.a]"),
    "an unknown robot": (
        RUN + LEADER + FOLLOWER.replace("leader.Y", "leadr.Y"),
        "[robots.follower.target] y: 'leadr.Y': there is no robot 'leadr'; did you mean leader? Choose follower",
    ),
    "an unknown state": (
        RUN + LEADER + FOLLOWER.replace("leader.Y", "leader.y"),
        "[target] y: 'leader.y': machine of leader has no state 'y'; choose Omega, V, X, Y, phi",
    ),
    "an unknown key": (RUN + LEADER + "controller.gain = 2.0\n", "[robots.leader] [controller] gain: unknown key"),
    "a circle": (
        RUN + LEADER + 'target.x = "follower.X"\n' + FOLLOWER + APART,
        "the goals go in a circle: leader follows follower follows leader; no robot can know its goal before",
    ),
    "itself as a goal": (RUN + LEADER + 'target.x = "leader.X"\n', "leader follows leader"),
    "two periods": (
        RUN + LEADER + FOLLOWER + APART + "controller.period = 0.02\n",
        "[controller] period: 0.02 s, and 0.01 s for leader: the robots of a launch have one clock; give all the same",
    ),
    "two computers": (
        RUN + LEADER + 'hosts.plant = "tcp://robot:7400"\n',
        "[robots.leader.hosts]: the robots of one launch run on one computer; leave [hosts] out",
    ),
    "a plant that begins anew": (RUN + LEADER + 'supervision.plant = "on-failure"\n', 'give plant = "never"'),
    "one address for all": (RUN.rstrip() + '\ntelemetry = "tcp://127.0.0.1:9872"\n' + LEADER, "leave telemetry out"),
    "no controller": (RUN + '[robots.a]\ninclude = "trailer_coast"\n', "each robot of a launch has a controller"),
    "a state and a topic": (
        RUN + LEADER + FOLLOWER.replace('"leader.X"', '{state = "leader.X", topic = "pose"}'),
        "[target.x] topic: does not go with a state of another robot",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_fleet_cannot_be_is_refused_with_the_remedy(tmp_path: Path, case: str) -> None:
    text, words = REFUSED[case]
    found = refusal(tmp_path, text)
    assert words in found
    assert found.startswith("convoy.toml") or "no such file" in found


def test_a_robot_that_follows_is_refused_alone(tmp_path: Path) -> None:
    loops = resolve_fleet(fleet_of(tmp_path, RUN + LEADER + FOLLOWER + APART))
    with pytest.raises(LaunchError, match=r"\[target.x\] state: 'leader.X' needs another robot; run the launch file"):
        loops["follower"].check_known_goals()
