"""`servonode keys`: two computers make keys, trust and revoke each other."""

import json
from pathlib import Path

import click
import pytest

from servonode.bus.keys import KeyStore
from servonode.cli.keys import keys
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
