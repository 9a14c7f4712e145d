"""Goals over a topic: read from a real socket, filtered, published for each state; what cannot be is refused."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zmq

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from tests.closed_loop.test_goals import MACHINE
from tests.helpers.runs import START_S, private_runs, private_runtime
from tests.nodes.test_live_target import LAUNCH


@pytest.fixture
def place() -> Iterator[str]:
    """The path of a socket, which must be short."""
    with private_runtime() as folder:
        yield str(folder / "pose")


@pytest.fixture
def file(tmp_path: Path, place: str) -> str:
    (tmp_path / "machine.py").write_text(MACHINE)
    (tmp_path / "live.toml").write_text(LAUNCH.format(place=place))
    return str(tmp_path / "live.toml")


@pytest.fixture
def closed_loop(file: str) -> ClosedLoop:
    return resolve(read_launch(file))


@pytest.fixture
def poses(place: str) -> Iterator[zmq.Socket[bytes]]:
    socket = zmq.Context.instance().socket(zmq.PUB)
    socket.bind(f"ipc://{place}")
    yield socket
    socket.close(0)


@pytest.mark.slow
def test_a_run_in_real_time_follows_a_published_goal_and_is_safe_when_none_comes_any_more(
    file: str, poses: Any, tmp_path: Path
) -> None:
    with private_runs(tmp_path) as runs:
        run = runs.start(file, "controller.residuals.jerk=x - goal + 0.001*other", "controller.gains.lambda=20.0",
                         "run.duration=60", "run.speed=1", "plant.safety.command_timeout=0.5")  # fmt: skip
        run.wait_open()
        limit = time.monotonic() + START_S
        while (run.ask("status")["t"] or 0.0) < 2.0 and time.monotonic() < limit:
            poses.send_multipart([b"pose", msgspec.msgpack.encode({"pose": [0.0, 0.8]})])
            time.sleep(0.01)
        run.ends_with(1)
        assert [fault["name"] for fault in run.printed["faults"]] == ["target", "stale_command"]
        t, x = run.columns["t"], run.columns["x"]
    assert np.abs(x[(t > 1.8) & (t < 2.0)] - 0.8).max() < 1e-2
    assert x[0] == 0.0
