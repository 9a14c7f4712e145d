"""Where an external plant is met: the private folder, and who else can reach an address."""

import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from servonode.bus import BusError, check_address, device_addresses, devices_folder, exposure

NAME = "diff_drive_trailer"


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sn-") as made:
        monkeypatch.setenv("XDG_RUNTIME_DIR", made)
        monkeypatch.delenv("SERVONODE_RUNTIME_DIR", raising=False)
        yield Path(made)


def left(runtime: Path) -> list[str]:
    return sorted(str(path.relative_to(runtime)) for path in runtime.rglob("*"))


def test_the_addresses_follow_from_the_name_of_the_machine(runtime: Path) -> None:
    folder = runtime / "servonode" / "devices"
    assert device_addresses(NAME) == (f"ipc://{folder}/{NAME}.state", f"ipc://{folder}/{NAME}.applied")
    assert left(runtime) == []  # nothing is made yet


@pytest.mark.parametrize("name", ["", "my robot", "../run", "a/b", ".hidden", "räder", "a\n"])
def test_a_name_that_makes_no_file_is_refused(runtime: Path, name: str) -> None:
    with pytest.raises(BusError, match=r"cannot be part of a socket's name; take letters, digits"):
        device_addresses(name)


def test_the_folder_is_private_and_goes_when_it_is_empty(runtime: Path) -> None:
    with devices_folder(device_addresses(NAME)):
        folder = runtime / "servonode" / "devices"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert left(runtime) == []


def test_a_folder_with_the_socket_of_another_machine_stays(runtime: Path) -> None:
    with devices_folder(device_addresses(NAME)), socket.socket(socket.AF_UNIX) as robot:
        robot.bind(device_addresses("robot")[0].removeprefix("ipc://"))
    assert left(runtime) == ["servonode", "servonode/devices", "servonode/devices/robot.state"]


def test_what_a_killed_plant_left_is_removed_and_what_somebody_serves_is_not(runtime: Path) -> None:
    addresses = device_addresses(NAME)
    path = Path(addresses[1].removeprefix("ipc://"))
    with devices_folder(addresses, bound=addresses[1]), socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    assert left(runtime) == []
    with socket.socket(socket.AF_UNIX) as serving:
        with devices_folder(addresses, bound=addresses[1]):
            serving.bind(str(path))
            serving.listen()
        assert path.exists()


def test_a_folder_that_the_user_has_chosen_is_used_and_stays(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = runtime / "mine"
    chosen.mkdir(mode=0o700)
    monkeypatch.setenv("SERVONODE_RUNTIME_DIR", str(chosen))
    assert device_addresses(NAME)[0] == f"ipc://{chosen}/devices/{NAME}.state"
    with devices_folder(device_addresses(NAME)):
        assert left(runtime) == ["mine", "mine/devices"]
    assert left(runtime) == ["mine"]


def test_addresses_elsewhere_need_no_folder(runtime: Path) -> None:
    with devices_folder(("tcp://127.0.0.1:9873", "ipc:///tmp/robot.applied")):
        assert left(runtime) == []


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701])
def test_a_folder_that_is_open_to_others_is_refused(runtime: Path, mode: int) -> None:
    folder = runtime / "servonode" / "devices"
    folder.parent.mkdir(mode=0o700)
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(BusError, match=rf"devices has mode {mode:04o}, open to others; remove it"):
        devices_folder(device_addresses(NAME)).__enter__()


def test_a_path_that_is_too_long_is_told_by_the_check_of_the_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    assert "a Unix socket takes 107" in (check_address(device_addresses(NAME)[0]) or "")


def test_tcp_and_ipc_in_an_open_folder_are_exposed_and_the_private_folder_is_not(runtime: Path) -> None:
    with devices_folder(device_addresses(NAME)):
        assert [exposure(address) for address in device_addresses(NAME)] == [None, None]
    assert "whoever reaches tcp://127.0.0.1:9873 can be the machine, or command it: there are no keys" in (
        exposure("tcp://127.0.0.1:9873") or ""
    )
    open_folder = runtime / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    assert "others can put a socket of theirs at ipc://" in (exposure(f"ipc://{open_folder}/robot.state") or "")
