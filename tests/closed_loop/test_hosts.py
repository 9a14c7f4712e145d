"""[hosts]: which nodes of a run are on which of two computers, and what of it is refused."""

from pathlib import Path

import pytest

import servonode
from servonode.closed_loop.closed_loop import on_computer, resolve
from servonode.closed_loop.hosts import Computer, bind_address, computer, host_names
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.launch_file import launch_of_table, read_launch, table_of
from servonode.closed_loop.launch_text import launch_text
from tests.helpers.machines import assert_same_bits
from tests.helpers.refusals import command, has_passages, refusal, refused_command

LAUNCH = "trailer_pursuit_lockstep"
ROBOT = "tcp://robot.local:7400"
PLANT = f"hosts.plant={ROBOT}"
PASSIVE = "[run]\nduration = 0.01\n[plant]\nmachine = 'hoop_on_profile'\n"


def test_the_plant_is_on_the_robot_and_the_rest_on_the_desk() -> None:
    launch = read_launch(LAUNCH, [PLANT])
    robot = Computer(("plant",), ("target", "controller"), ROBOT, listens=True, key="")
    assert computer(launch, "robot") == computer(launch, "robot.local") == computer(launch, "ROBOT.local") == robot
    assert computer(launch, None) == Computer(("target", "controller"), ("plant",), ROBOT, listens=False, key="robot")


def test_without_the_section_a_run_has_one_computer() -> None:
    launch = read_launch(LAUNCH)
    assert computer(launch, None) is None
    assert refusal(LaunchError, computer, launch, "robot") == (
        f"{LAUNCH} [hosts]: missing, so there is no computer 'robot'; "
        'add it with plant = "tcp://HOST:7400", or leave out --on'
    )
    assert "hosts" not in table_of(launch)


def test_nodes_start_in_their_order_wherever_they_run() -> None:
    launch = read_launch(LAUNCH, [PLANT, f"hosts.controller={ROBOT}"])
    robot, desk = computer(launch, "robot"), computer(launch, None)
    assert robot is not None
    assert desk is not None
    assert (robot.nodes, robot.others) == (desk.others, desk.nodes) == (("controller", "plant"), ("target",))


def test_a_computer_may_have_no_node() -> None:
    """It may watch, stop and arm the run."""
    desk = computer(read_launch(LAUNCH, [f"hosts.{node}={ROBOT}" for node in ("plant", "controller", "target")]), None)
    assert desk is not None
    assert (desk.nodes, desk.others) == ((), ("target", "controller", "plant"))


def test_a_run_without_a_controller_has_a_plant_alone(tmp_path: Path) -> None:
    (tmp_path / "hoop.toml").write_text(f'{PASSIVE}[hosts]\nplant = "{ROBOT}"\n')
    launch = read_launch(tmp_path / "hoop.toml")
    robot, desk = computer(launch, "robot"), computer(launch, None)
    assert robot is not None
    assert desk is not None
    assert (robot.nodes, robot.others, desk.nodes, desk.others) == (("plant",), (), (), ("plant",))
    with_controller = read_launch(tmp_path / "hoop.toml", [f"hosts.controller={ROBOT}"])
    for resolved in (lambda: resolve(with_controller), lambda: computer(with_controller, "robot")):
        assert refusal(LaunchError, resolved) == (
            f"{tmp_path / 'hoop.toml'} [hosts] controller: there is no [controller], so there is no such node; "
            "leave it out"
        )


@pytest.mark.parametrize(
    ("address", "given", "key"),
    [
        ("tcp://robot.local:7400", None, "robot"),
        ("tcp://robot:7400", None, "robot"),
        ("tcp://robot.local:7400", "arm_7", "arm_7"),
        ("tcp://192.168.1.7:7400", "arm_7", "arm_7"),
        ("tcp://192.168.1.7:7400", None, ""),
        ("tcp://[fd00::7]:7400", None, ""),
    ],
)
def test_the_key_has_the_name_of_the_computer_unless_another_is_given(
    address: str, given: str | None, key: str
) -> None:
    named = [] if given is None else [f"hosts.key={given}"]
    launch = read_launch(LAUNCH, [f"hosts.plant={address}", *named])
    desk, robot = computer(launch, None), computer(launch, host_names(address)[0])
    assert desk is not None
    assert robot is not None
    assert (desk.key, robot.key) == (key, "")


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("tcp://robot.local:7400", ["robot.local", "robot"]),
        ("tcp://Robot:7400", ["robot"]),
        ("tcp://robot.lab.example.:7400", ["robot.lab.example", "robot"]),
        ("tcp://192.168.1.7:7400", ["192.168.1.7"]),
        ("tcp://[fd00::7]:7400", ["fd00::7"]),
    ],
)
def test_on_takes_the_host_or_the_first_label_of_its_name(address: str, names: list[str]) -> None:
    assert host_names(address) == names
    launch = read_launch(LAUNCH, [f"hosts.plant={address}"])
    found = [computer(launch, name) for name in names]
    assert all(each is not None and each.listens for each in found)
    other = refusal(LaunchError, computer, launch, "rbot")
    assert other.startswith(f"{LAUNCH} [hosts]: 'rbot' of --on is unknown; ")
    assert all(name in other for name in names)
    assert other.endswith(", or on the other computer leave out --on")


@pytest.mark.parametrize(
    ("address", "bound"),
    [
        ("tcp://192.168.1.7:7400", "tcp://192.168.1.7:7400"),
        ("tcp://127.0.0.1:7400", "tcp://127.0.0.1:7400"),
        ("tcp://[fd00::7]:7400", "tcp://[fd00::7]:7400"),
        ("tcp://localhost:7400", "tcp://localhost:7400"),
        ("tcp://robot.local:7400", "tcp://0.0.0.0:7400"),
        ("tcp://robot:7401", "tcp://0.0.0.0:7401"),
    ],
)
def test_a_name_is_reached_over_all_networks(address: str, bound: str) -> None:
    assert bind_address(address) == bound


NO_ADDRESS = "is not the tcp address of a computer; take tcp://HOST:PORT, where HOST is its name or number"
REFUSED = {  # what stands in [hosts]: the place of the mistake and what is said, with ... for what is left out
    "plant = 'ipc:///tmp/robot'": f"[hosts] plant: 'ipc:///tmp/robot' {NO_ADDRESS}",
    "plant = 'robot'": f"[hosts] plant: 'robot' {NO_ADDRESS}",
    "plant = 'tcp://robot'": f"[hosts] plant: 'tcp://robot' {NO_ADDRESS}",
    "plant = 'tcp://*:7400'": f"[hosts] plant: 'tcp://*:7400' {NO_ADDRESS}",
    "plant = 'tcp://.:7400'": f"[hosts] plant: 'tcp://.:7400' {NO_ADDRESS}",
    "plant = 'tcp://a..b:7400'": f"[hosts] plant: 'tcp://a..b:7400' {NO_ADDRESS}",
    "plant = 'tcp://fd00::7:7400'": f"[hosts] plant: 'tcp://fd00::7:7400' {NO_ADDRESS}",
    "plant = 'tcp://robot:7400\\n'": f"[hosts] plant: 'tcp://robot:7400\\n' {NO_ADDRESS}",
    "plant = 'tcp://[fd]:7400'": "[hosts] plant: 'tcp://[fd]:7400' has brackets around what is no number of IPv6; take",
    "plant = 'tcp://robot:0'": "[hosts] plant: 'tcp://robot:0' has no usable port; ... as in tcp://robot:7400",
    "plant = 'tcp://robot:65536'": "[hosts] plant: 'tcp://robot:65536' has no usable port; take one from 1024 to 65535",
    "plant = 'tcp://0.0.0.0:7400'": "[hosts] plant: 'tcp://0.0.0.0:7400' stands for all networks ... take the name",
    "plant = 'tcp://[::]:7400'": "[hosts] plant: 'tcp://[::]:7400' stands for all networks of a computer",
    f"target = '{ROBOT}'\nplant = 'tcp://robot.local:7401'": (
        f"[hosts] target: '{ROBOT}' is not 'tcp://robot.local:7401', the address of plant, and a run is on two "
        "computers at most; give the same address, or leave it out for the other computer"
    ),
    "": '[hosts]: names no computer; give an address to target, controller or plant, as in plant = "tcp://HOST:7400"',
    "key = 'robot'": "[hosts]: names no computer",
    f"plan = '{ROBOT}'": "[hosts] plan: unknown key; did you mean plant?",
    "plant = ''": '[hosts] plant: "" is not a nonempty text',
    "plant = 7400": "[hosts] plant: 7400 is not a nonempty text",
    f"plant = '{ROBOT}'\nkey = ''": '[hosts] key: "" is not a nonempty text',
}


@pytest.mark.parametrize("stated", REFUSED, ids=str)
def test_hosts_that_cannot_be_are_refused_with_their_key(tmp_path: Path, stated: str) -> None:
    file = tmp_path / "robot.toml"
    escaped = stated.replace("'", '"')
    file.write_text(f"{launch_text(read_launch(LAUNCH))}\n[hosts]\n{escaped}\n")
    said = refusal(LaunchError, lambda: resolve(read_launch(file)))
    assert has_passages(said.removeprefix(f"{file} "), REFUSED[stated]), said
    assert "\n" not in said


def test_the_command_line_refuses_them_in_one_line() -> None:
    line = refused_command("check", LAUNCH, "--set", "hosts.plant=robot")
    assert line.startswith(f"{LAUNCH} [hosts] plant: 'robot' {NO_ADDRESS}")


def test_a_closed_loop_has_its_computer() -> None:
    closed_loop = resolve(read_launch(LAUNCH, [PLANT]))
    assert closed_loop.computer is None
    robot, desk = on_computer(closed_loop, "robot"), on_computer(closed_loop, None)
    assert robot.computer == computer(closed_loop.launch, "robot")
    assert desk.computer == computer(closed_loop.launch, None)
    assert robot.machine is desk.machine is closed_loop.machine
    with pytest.raises(LaunchError, match="'rbot' of --on is unknown; did you mean robot"):
        on_computer(closed_loop, "rbot")


def test_simulate_and_check_are_the_same_with_hosts() -> None:
    short = {"run__duration": 0.5}
    assert_same_bits(servonode.simulate(LAUNCH, **short), servonode.simulate(LAUNCH, **short, hosts__plant=ROBOT))
    with_hosts = command("check", LAUNCH, "--set", PLANT)
    assert with_hosts.exit_code == 0
    assert with_hosts.output == command("check", LAUNCH).output


def test_a_resolved_table_keeps_the_hosts() -> None:
    launch = read_launch(LAUNCH, [PLANT, "hosts.key=arm"])
    table = table_of(launch)
    assert table["hosts"] == {"plant": ROBOT, "key": "arm"}
    assert launch_of_table(table).hosts == launch.hosts
