"""A listener to a run: what it receives, when it connects, how it notices the end; and that all find the same runs."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import pytest

from servonode.bus import Bus, BusError, Status, run_folder, run_path
from servonode.bus.processes import Named
from servonode.bus.topology import PLANT, publishers
from servonode.operator.find_runs import find_run, find_runs
from servonode.operator.listener import Listener, named
from servonode.views.live_run import run_shown
from tests.helpers.events import eventually
from tests.helpers.runs import private_runtime

EVERYTHING = partial(publishers, ("state", "status"))
LAUNCHER = """
import os, signal
from servonode.bus import run_folder
plant = {"pids": {"plant": %d}, "starts": {"plant": %d}}
run_folder("left").register(["plant"], plant | {"open": True})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def runtime() -> Iterator[None]:
    with private_runtime():
        yield


def status(seq: int) -> Status:
    header = {"t": 0.1, "k": 100, "run": 1, "mono": 1, "node": PLANT, "src": 1}
    return Status(seq=seq, lifecycle="active", counts={}, values={}, **header)  # type: ignore[arg-type]


def test_listener_receives_a_run_from_its_start_to_its_end() -> None:
    with Listener("left", EVERYTHING) as listener:
        assert not listener.wait_open(until=lambda: True)  # not there yet, and need not be waited for
        with pytest.raises(BusError, match="no run named 'left' is in progress"):
            listener.wait_open()
        with run_folder("left") as folder, Bus(folder.path, PLANT) as plant:
            publisher = plant.publisher(2)
            folder.register([PLANT])
            assert not listener.look(time.monotonic() + 1.0)
            assert publisher.subscriptions_seen() == 0
            folder.register([PLANT], {"open": True})
            assert listener.look(time.monotonic() + 2.0)
            assert eventually(publisher.ready)
            publisher.publish("status", status(7))
            received = listener.messages()
            topic, message = next(received)
            assert (topic, message.seq, listener.alive) == ("status", 7, True)
            publisher.publish("status", status(8))
        assert [message.seq for _, message in received] == [8]  # and then it ends
        assert not listener.alive


def test_next_run_of_the_name_ends_the_messages_of_the_last() -> None:
    with Listener("left", EVERYTHING) as listener:
        for _ in range(2):
            with run_folder("left") as folder:
                folder.register([PLANT], {"open": True})
                if not listener.alive:
                    assert listener.look(time.monotonic() + 1.0)
                    before, received = listener.registry["started_ns"], listener.messages()
                else:
                    assert list(received) == []
                    assert listener.registry["started_ns"] > before


def test_unknown_topic_is_refused_before_any_connection() -> None:
    with run_folder("left") as folder, Listener("left", partial(named, "command")) as listener:
        folder.register([PLANT], {"open": True})
        with pytest.raises(
            BusError, match="topic 'command' is not published in this run; choose applied, parameters, state, status"
        ):
            listener.wait_open()
        assert listener.receive() == []


@pytest.mark.skipif(sys.platform != "linux", reason="processes are told by /proc")
def test_run_without_launcher_is_found_while_its_plant_lives() -> None:
    code = LAUNCHER % (os.getpid(), Named.of(os.getpid()).start)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode < 0
    assert list(find_runs()) == ["left"]
    assert find_run().plant() == Named.of(os.getpid())
    assert run_shown(None) == run_shown("launch/left.toml") == "left"
    with Listener("left", EVERYTHING) as listener:
        assert listener.wait_open()
        shutil.rmtree(run_path("left"))
        assert list(listener.messages()) == []
    assert find_runs() == {}
