"""The wing's sections of launch files."""

from pathlib import Path

import pytest

from servonode.closed_loop.launch_file import read_launch
from servonode.wings.robots.sections import Contact
from tests.helpers.packages import install_groups


def test_a_package_takes_no_name_of_a_wing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install_groups(tmp_path, "third", {"servonode.sections": {"plant.mujoco": "no_such_module:Wall"}})
    launch = read_launch("trailer_pursuit", ["plant.mujoco.friction=0.5"])
    assert launch.more["plant.mujoco"] == Contact(friction=0.5)
    assert launch.section("plant.mujoco", Contact) == Contact(friction=0.5)
