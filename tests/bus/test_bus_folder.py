import os
import stat
import sys
from pathlib import Path

import pytest

from servonode.bus import BusError, run_folder, run_path
from servonode.bus.run_folder import RunNameTaken
from servonode.operator.find_runs import find_run
from tests.helpers.events import soon
from tests.helpers.runs import private_runtime


@pytest.fixture
def runtime():
    with private_runtime() as folder:
        yield folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_is_private_short_and_gone_after_release(runtime):
    before = os.umask(0)
    with run_folder("trailer") as run:
        os.umask(before)
        assert run.path.parent == runtime / "servonode"
        assert len(run.path.name) == 8
        assert mode(run.path) == mode(run.path.parent) == 0o700
        (run.path / "plant.pub").touch()
    assert list(runtime.iterdir()) == []
    run.release()


@pytest.mark.parametrize("value", ["", "relative", "/nowhere/at/all", __file__])
def test_without_a_runtime_folder_of_ours_the_temporary_one_is_taken(monkeypatch, runtime, value):
    monkeypatch.setenv("XDG_RUNTIME_DIR", value)
    assert run_path("a").parent == Path(os.environ["TMPDIR"]) / f"servonode-{os.getuid()}"


def test_the_same_name_is_refused_and_another_one_is_not(runtime):
    with run_folder("trailer"):
        with pytest.raises(RunNameTaken, match="--name") as caught:
            run_folder("trailer")
        assert caught.value.pid == os.getpid()
        run_folder("trailer2").release()
    run_folder("trailer").release()


def test_the_registry_names_run_process_and_endpoints(runtime):
    with pytest.raises(BusError, match="no run named"):
        find_run("trailer")
    before = soon(0)
    with run_folder("trailer") as run:
        run.register(["plant", "controller"], {"viewers": "tcp://127.0.0.1:9872"})
        registry = find_run("trailer").registry
        assert (registry["run"], registry["pid"]) == ("trailer", os.getpid())
        assert before <= registry["started_ns"] <= soon(0)
        assert registry["nodes"]["plant"]["pub"] == f"ipc://{run.path}/plant.pub"
        assert registry["nodes"]["controller"]["req"] == f"ipc://{run.path}/controller.req"
        assert registry["viewers"] == "tcp://127.0.0.1:9872"
        assert sorted(p.name for p in run.path.iterdir()) == ["lock", "registry.json"]


@pytest.mark.parametrize("which", ["base", "run"])
def test_a_folder_open_to_others_or_a_link_is_refused(runtime, which):
    path = run_path("trailer") if which == "run" else run_path("trailer").parent
    path.mkdir(mode=0o700, parents=True)
    path.parent.chmod(0o700)
    path.chmod(0o750)
    with pytest.raises(BusError, match="0750, open to others; remove it"):
        run_folder("trailer")
    path.rmdir()
    (runtime / "elsewhere").mkdir(mode=0o700)
    path.symlink_to(runtime / "elsewhere")
    with pytest.raises(BusError, match="is not a folder"):
        run_folder("trailer")


def test_a_folder_of_another_user_is_refused(runtime, monkeypatch):
    run_path("trailer").mkdir(mode=0o700, parents=True)
    path = run_path("trailer")
    monkeypatch.setattr(sys.modules["servonode.bus.run_folder"], "run_path", lambda _name: path)
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    with pytest.raises(BusError, match="belongs to user"):
        run_folder("trailer")
