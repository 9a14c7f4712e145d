"""What a launch file must state for a machine outside: its pace, its addresses, who can reach them."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner

import servonode
from servonode.cli.main import main
from servonode.closed_loop.driver_checks import exposures, external_addresses
from servonode.closed_loop.launch_file import LaunchError, read_launch

EXTERNAL = "trailer_pursuit_external"
NAME = "diff_drive_trailer"


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A short folder; nothing is made in it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp")
    monkeypatch.delenv("SERVONODE_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("servonode.bus.devices.base_folder", lambda: Path("/tmp/sn"))


def test_without_addresses_they_are_the_private_ones_of_the_machines_name() -> None:
    launch = read_launch(EXTERNAL)
    assert external_addresses(launch, NAME) == (
        "ipc:///tmp/sn/devices/diff_drive_trailer.state",
        "ipc:///tmp/sn/devices/diff_drive_trailer.applied",
    )
    assert external_addresses(read_launch("trailer_pursuit"), NAME) == ()


def test_one_may_be_given_and_the_other_not() -> None:
    launch = read_launch(EXTERNAL, ["plant.device.state=tcp://127.0.0.1:9873"])
    assert external_addresses(launch, NAME) == (
        "tcp://127.0.0.1:9873",
        "ipc:///tmp/sn/devices/diff_drive_trailer.applied",
    )


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        (
            "my robot",
            [],
            r"\[plant.device\] state: missing, and the machine's name 'my robot' makes no name of a socket",
        ),
        ("x" * 100, [], r"\[plant.device\] state: missing, and .*a Unix socket takes 107; give one, or set XDG_RUNT"),
        (
            NAME,
            ["plant.device.state=ipc:///tmp/a", "plant.device.applied=ipc:///tmp/a"],
            r"\[plant.device\] applied: 'ipc:///tmp/a' cannot serve states and inputs; give the machine a second",
        ),
    ],
    ids=["name", "length", "same"],
)
def test_addresses_that_cannot_be_are_refused_with_their_key(name: str, options: list[str], says: str) -> None:
    with pytest.raises(LaunchError, match=says) as caught:
        external_addresses(read_launch(EXTERNAL, options), name)
    assert "\n" not in str(caught.value)


def test_who_else_can_reach_an_address_is_said_and_part_of_the_check() -> None:
    given: dict[str, Any] = {"plant__device__state": "tcp://127.0.0.1:9873"}
    report = servonode.load(EXTERNAL, **given).check()
    found = [each for each in report.findings if each.subject == "device"]
    assert [each.level for each in found] == ["warn"]
    assert "any user of this computer can speak to tcp://127.0.0.1:9873; there are no keys yet" in found[0].text
    assert report.verdict == "yes"
    assert exposures(read_launch("trailer_pursuit"), NAME) == []


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_a_machine_outside_is_run_at_another_pace_only_if_the_launch_file_says_that_it_may_be(speed: float) -> None:
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
