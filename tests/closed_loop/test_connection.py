"""What a launch file must state for an external plant: its pace, its addresses, who can reach them."""

import ast
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner

import servonode
from servonode.cli.main import main
from servonode.closed_loop.connection import connection_of
from servonode.closed_loop.launch_file import LaunchError, read_launch
from servonode.plants.drivers import our_names

ROOT = Path(__file__).parents[2]
EXTERNAL = "trailer_pursuit_external"
NAME = "diff_drive_trailer"
SAME = ["plant.device.state=ipc:///tmp/a", "plant.device.applied=ipc:///tmp/a"]


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A short folder; nothing is made in it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp")
    monkeypatch.delenv("SERVONODE_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("servonode.bus.devices.base_folder", lambda: Path("/tmp/sn"))


def test_without_addresses_they_are_the_private_ones_of_the_machines_name() -> None:
    launch = read_launch(EXTERNAL)
    assert connection_of(launch).addresses(NAME) == (
        "ipc:///tmp/sn/devices/diff_drive_trailer.state",
        "ipc:///tmp/sn/devices/diff_drive_trailer.applied",
    )
    assert connection_of(read_launch("trailer_pursuit")).addresses(NAME) == ()
    one = read_launch(EXTERNAL, ["plant.device.state=tcp://127.0.0.1:9873"])
    assert connection_of(one).addresses(NAME) == (
        "tcp://127.0.0.1:9873",
        "ipc:///tmp/sn/devices/diff_drive_trailer.applied",
    )


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("my robot", [], r"state: missing, and the machine's name 'my robot' cannot be part of a socket's name"),
        ("x" * 100, [], r"state: missing, and .*a Unix socket takes 107; give one, or set XDG_RUNT"),
        (NAME, SAME, r"applied: 'ipc:///tmp/a' cannot serve states and inputs; give the machine a second"),
    ],
    ids=["name", "length", "same"],
)
def test_addresses_that_cannot_be_are_refused_with_their_key(name: str, options: list[str], says: str) -> None:
    with pytest.raises(LaunchError, match=rf"\[plant.device\] {says}") as caught:
        connection_of(read_launch(EXTERNAL, options)).addresses(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("launch", "setting", "says"),
    [
        ("trailer_pursuit", "plant.link.loss=0.1", r'link\] loss: .* "loopback", and .* "simulated"; change'),
        (EXTERNAL, "plant.link.loss=0.1", r'link\] loss: is for driver = "loopback", and .* "external"; change'),
        (EXTERNAL, "plant.sensor.drop=0.1", r'sensor\] drop: .* "simulated" or "loopback".*, .* "external"'),
        (EXTERNAL, "plant.actuator.lag=0.1", r'actuator\] lag: .* "simulated" or "loopback".*, .* leave it'),
        (EXTERNAL, "plant.disturbance.X=0.1", r'disturbance\] X: is for driver = "simulated" or "loopback"'),
    ],
)
def test_what_the_driver_would_not_read_is_refused(launch: str, setting: str, says: str) -> None:
    with pytest.raises(LaunchError, match=says) as caught:
        connection_of(read_launch(launch, [setting])).check()
    assert "\n" not in str(caught.value)
    own = "loopback" if "link" in setting else "simulated"
    connection_of(read_launch("trailer_pursuit", [setting, f"plant.driver={own}"])).check()
    connection_of(read_launch(EXTERNAL, ["plant.actuator.limit=0.4"])).check()  # of its drives, which may be stated


@pytest.mark.parametrize(
    ("driver", "unused"),
    [("simulated", ["state", "timeout", "any_speed"]), ("loopback", ["state", "any_speed"]), ("external", [])],
)
def test_where_a_machine_is_met_may_stay_for_a_rehearsal_and_is_said_to_be_unused(
    driver: str, unused: list[str]
) -> None:
    device = {"state": "ipc:///tmp/a/b", "timeout": 0.5, "any_speed": True}
    given: dict[str, Any] = {f"plant__device__{key}": value for key, value in device.items()}
    report = servonode.load(EXTERNAL, plant__driver=driver, **given).check()
    said = [each for each in report.findings if "is not used" in each.text]
    assert [(each.level, each.text.partition(" ")[0]) for each in said] == [
        ("warn", f"plant.device.{key}") for key in unused
    ]
    assert all(each.text.endswith(f'[plant] has driver = "{driver}"') for each in said)


def test_no_source_outside_the_drivers_asks_for_a_drivers_name() -> None:
    for room in ("closed_loop", "nodes", "analysis", "views", "export", "cli"):
        for file in (ROOT / "src/servonode" / room).rglob("*.py"):
            compared = [each for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.Compare)]
            words = {each.value for part in compared for each in ast.walk(part) if isinstance(each, ast.Constant)}
            assert not words & {*our_names()}, file


def test_who_else_can_reach_an_address_is_said_and_part_of_the_check() -> None:
    given: dict[str, Any] = {"plant__device__state": "tcp://127.0.0.1:9873"}
    report = servonode.load(EXTERNAL, **given).check()
    found = [each for each in report.findings if each.subject == "device"]
    assert [each.level for each in found] == ["warn"]
    assert "whoever reaches tcp://127.0.0.1:9873 can be the machine, or command it: there are no keys" in found[0].text
    assert report.verdict == "yes"
    simulated = servonode.load("trailer_pursuit").closed_loop
    assert simulated.connection.remarks(simulated.machine, simulated.start) == []


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_external_plant_runs_at_another_pace_only_if_allowed(speed: float) -> None:
    pace: dict[str, Any] = {"run__speed": speed}
    with pytest.raises(LaunchError, match=rf"\[run\] speed: {speed:g} is not .*plant.device.any_speed = true"):
        servonode.load(EXTERNAL, **pace)
    servonode.load(EXTERNAL, plant__device__any_speed=True, **pace)
    servonode.load(EXTERNAL, run__mode="lockstep", **pace)  # there is no pace
    servonode.load("trailer_pursuit_loopback", **pace)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's."""
    with TemporaryDirectory(prefix="sn-") as folder:
        yield Path(folder)


def test_a_folder_that_is_open_to_others_ends_the_start_with_one_line(
    monkeypatch: pytest.MonkeyPatch, short: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    monkeypatch.setattr("servonode.bus.devices.base_folder", lambda: short / "servonode")
    (short / "servonode").mkdir(mode=0o700)
    (short / "servonode" / "devices").mkdir()
    (short / "servonode" / "devices").chmod(0o777)
    result = CliRunner().invoke(main, ["run", EXTERNAL, "--no-report", "--name", "open"])
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert "devices has mode 0777, open to others; remove it" in result.output
