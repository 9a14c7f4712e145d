import json
import os
import signal
import subprocess
import sys

import pytest

from servonode.bus import BusError, run_folder, run_path
from servonode.bus.run_folder import RunNameTaken
from servonode.operator.find_runs import find_run
from tests.helpers.runs import private_runtime


@pytest.fixture
def runtime():
    with private_runtime() as folder:
        yield folder


def test_a_killed_run_blocks_nothing_and_its_files_are_cleared(runtime):
    code = (
        "import time; from servonode.bus import Bus, run_folder\n"
        "run = run_folder('trailer'); bus = Bus(run.path, 'plant'); bus.publisher(); bus.requests()\n"
        "print('up', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"up\n"
        with pytest.raises(RunNameTaken) as caught:
            run_folder("trailer")
        assert caught.value.pid == child.pid
        child.send_signal(signal.SIGKILL)
    assert {"plant.pub", "plant.req"} <= {p.name for p in run_path("trailer").iterdir()}
    with pytest.raises(BusError, match="no run named"):
        find_run("trailer")
    with run_folder("trailer") as run:
        assert sorted(p.name for p in run.path.iterdir()) == ["lock", "registry.json"]
        assert json.loads((run.path / "registry.json").read_text())["pid"] == os.getpid()


def forked(child) -> int:
    """Exit status of a forked child that runs `child`."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            child()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_drops_its_copy_without_unlocking_and_does_not_hold_the_name(runtime):
    with run_folder("trailer") as run:
        for act in (run.forget, run.release):
            assert forked(act) == 0
            assert (run.path / "registry.json").exists()
            with pytest.raises(RunNameTaken):
                run_folder("trailer")
    run = run_folder("trailer")
    ready, hold = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        run.forget()
        os.write(ready[1], b"x")
        os.read(hold[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    run.release()
    run_folder("trailer").release()
    os.write(hold[1], b"x")
    assert os.waitpid(pid, 0)[1] == 0
    for fd in (*ready, *hold):
        os.close(fd)
