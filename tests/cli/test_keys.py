"""`servonode keys`: two computers make keys, trust and revoke each other."""

import json
import socket
from pathlib import Path

import click
import pytest

from servonode.bus.keys import KeyStore
from servonode.cli.keys import keys
from tests.helpers.key_folders import Computers
from tests.helpers.refusals import command, refused_command

SAY = "say what the key may do: --role observe or --role operate or --role plant or --role controller"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SERVONODE_KEYS", str(tmp_path / "keys"))
    return tmp_path / "keys"


def completed(verb: str, name: str) -> list[str]:
    """What the shell offers for an argument or option of a verb of `servonode keys`."""
    found_verb = keys.commands[verb]
    with click.Context(found_verb) as context:
        (found,) = [each for each in found_verb.params if each.name == name]
        return [str(each.value) for each in found.shell_complete(context, "")]


def test_the_way_of_a_key(folder: Path, tmp_path: Path) -> None:
    assert command("keys", "list").stdout == f"no keys in {folder}; make a pair with servonode keys new NAME\n"
    assert not folder.exists()
    assert command("keys", "new", "desk").stdout == f"{folder / 'desk.key'}\n"
    robot = KeyStore(tmp_path / "other").new("robot")
    assert refused_command("keys", "trust", str(robot)) == SAY
    assert command("keys", "trust", str(robot), "--role", "plant").stdout == "robot is trusted: plant\n"
    assert command("keys", "list").stdout == "own      desk\ntrusted  robot  plant\n"
    public = KeyStore(tmp_path / "other").pair().public.decode()
    listed = json.loads(command("keys", "list", "--json").stdout)
    key = {"name": "robot", "key": public, "roles": ["plant"]}
    assert listed == {"folder": str(folder), "own": ["desk"], "trusted": [key], "damaged": {}}
    assert command("keys", "show", "robot").stdout == f"robot  {public}  plant\n"
    assert json.loads(command("keys", "show", "--json").stdout)["own"] is True
    assert completed("revoke", "name") == completed("show", "name") == ["robot"]
    assert completed("trust", "roles") == ["observe", "operate", "plant", "controller"]
    assert command("keys", "revoke", "robot").stdout == (
        "robot is no longer trusted; runs in progress refuse it from now on\n"
    )
    assert refused_command("keys", "revoke", "robot") == "no key is trusted as 'robot'; trusted: none"


def test_a_link_that_cannot_be_secure_is_refused_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVONODE_KEYS", str(tmp_path / "desk"))
    computers = Computers(tmp_path)

    def refused(*settings: str, words: tuple[str, ...] = (), launch: str = "trailer_pursuit_external") -> str:
        result = command("run", launch, "--no-report", *words, *(word for each in settings for word in ("--set", each)))
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = [each for each in result.stderr.splitlines() if "deriving" not in each]
        return line

    at = "[plant.device] key: "
    assert f"{at}missing: whoever reaches {computers.state} could be the machine" in refused(*computers.addresses)
    assert f"{at}'robot' is given, and --insecure too" in refused(*computers.settings, words=("--insecure",))
    assert f"{at}not needed, because no address of the machine is tcp" in refused(words=("--insecure",))
    far = ("plant.device.state=tcp://192.0.2.1:9873", "plant.device.applied=tcp://0.0.0.0:9874")
    text = refused(*far, words=("--insecure", "--arm"))
    assert f"{at}the run has no keys (--insecure), and others than this computer are part of it, so it is never" in text
    assert "there is no key pair 'lab'" in refused(*computers.settings, words=("--key", "lab"))
    computers.desk.trust(computers.robot_key, ["controller"])
    text = "key 'robot' is not trusted as plant; servonode keys trust robot.key --role controller --role plant"
    assert text in refused(*computers.settings)
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as ipc:
        path = str(tmp_path / "taken")
        ipc.bind(path)
        ipc.listen()
        for address, words in ((f"tcp://127.0.0.1:{tcp.getsockname()[1]}", ("--insecure",)), (f"ipc://{path}", ())):
            text = f"[plant.device] applied: {address} is in use by another process, such as another run; stop"
            assert text in refused(f"plant.device.applied={address}", words=words)
    settings = ('plant.driver="external"', "run.speed=1")
    assert "missing for U1, U2" in refused(
        *settings, words=("--arm",), launch="trailer_pursuit"
    )  # promise 18: no limit
