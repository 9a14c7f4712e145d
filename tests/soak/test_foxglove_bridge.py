"""`servonode bridge foxglove` beside a run, and clients of its protocol."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from servonode.wings.neighbours.foxglove_bridge import SAID_S
from tests.helpers.extras import MUJOCO, NO_MUJOCO, neighbour
from tests.helpers.foxglove_client import FoxgloveClient, foxglove_client
from tests.helpers.ports import free_port
from tests.helpers.runs import END_S, START_S, Process, Runs, eventually, operator, private_runs

EXAMPLES = Path(__file__).parents[2] / "examples"
FORGIVING = ("plant.safety.command_timeout=2", "run.duration=600")
TOPICS = {"/tf", "/scene", "/log", "/values"}
GAIN = "controller.gains.lambda_speed"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    neighbour("foxglove")
    with private_runs(tmp_path_factory.mktemp("runs")) as runs:
        yield runs


def active(runs: Runs, launch: str) -> Process:
    run = runs.start(str(EXAMPLES / launch), *FORGIVING)
    run.wait_open()
    assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S), run.stderr
    return run


@pytest.fixture
def driven(runs: Runs) -> Process:
    return active(runs, "goals/teleop.toml")


class Bridge:
    """The process of a bridge at a free port, and what it says."""

    def __init__(self, folder: Path, run: str) -> None:
        self._said, self.port = folder / "said", free_port()
        words = ("bridge", "foxglove", run, "--port", str(self.port))
        with self._said.open("w") as said:
            command = [sys.executable, "-m", "servonode.cli.main", *words]
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=said)

    @property
    def said(self) -> str:
        return self._said.read_text()

    @property
    def token(self) -> str:
        found = re.search(r"token for /stop and to change numbers: ([\w-]+)\n", self.said)
        return found[1] if found else ""

    def __enter__(self) -> Self:
        assert eventually(lambda: self.token or self.popen.poll() is not None, START_S), self.said
        assert self.token, self.said
        return self

    def __exit__(self, *_: object) -> None:
        self.popen.kill()
        self.popen.wait()

    def ends_with(self, code: int) -> None:
        assert self.popen.wait(END_S) == code, self.said


@contextmanager
def bridged(folder: Path, run: Process) -> Iterator[tuple[Bridge, FoxgloveClient]]:
    """A bridge on this run, and a client that knows its topics."""
    with Bridge(folder, run.name) as bridge, foxglove_client(bridge.port) as client:
        client.find(TOPICS)
        yield bridge, client


def taken(client: FoxgloveClient, topic: str, count: int = 1) -> list[tuple[int, Any]]:
    """Stamps and contents of the next messages of a topic, decoded and judged by its schema."""
    decode, number = client.decoder(topic), client.channels[topic]["id"]
    found = [client.until("message", lambda each: each[0] == number) for _ in range(count)]
    return [(stamp, decode(data)) for _, stamp, data in found]


def test_a_run_is_seen_changed_and_stopped_from_foxglove(driven: Process, tmp_path: Path) -> None:
    with bridged(tmp_path, driven) as (bridge, client):
        address = f"ws%3A%2F%2F127.0.0.1%3A{bridge.port}"
        assert f"{driven.name} is on ws://127.0.0.1:{bridge.port}: https://app.foxglove.dev?" in bridge.said
        assert address in bridge.said
        assert client.server["name"] == driven.name
        _is_seen(client)
        _is_changed(bridge, client)
        _is_stopped(driven, bridge, client)
        bridge.popen.send_signal(signal.SIGINT)
        bridge.ends_with(130)
        assert driven.popen.poll() is None
        assert "Traceback" not in bridge.said
        assert "Callback failed" not in bridge.said


def _is_seen(client: FoxgloveClient) -> None:
    client.subscribe(*TOPICS - {"/log"})
    found = taken(client, "/values", 30)
    stamps, times = [stamp for stamp, _ in found], [values["t"] for _, values in found]
    assert stamps == sorted(set(stamps))
    assert times == sorted(set(times))
    assert abs(stamps[-1] - time.time_ns()) < START_S * 1e9
    values = found[-1][1]
    assert set(values["input"]) == {"U1", "U2"}
    assert set(values["goal"]) == {"v", "omega"}
    assert values["lifecycle"] == "active"
    ((_, tf),) = taken(client, "/tf")
    assert {each.parent_frame_id for each in tf.transforms} == {"world"}
    ((_, scene),) = taken(client, "/scene")
    assert {"machine"} <= {each.id for each in scene.entities}


def _is_changed(bridge: Bridge, client: FoxgloveClient) -> None:
    """Nothing without the token; then what the checks take; each refusal is told, and the value comes back."""
    assert client.parameters(GAIN, "token") == {GAIN: 4.0, "token": ""}
    client.ask("subscribeParameterUpdates", parameterNames=[GAIN])
    values = {GAIN.replace(".", "__"): 3.0}
    assert client.set(**values) == {GAIN: 4.0}
    client.until_told("nothing was changed: first set the parameter token to what the bridge has printed")
    time.sleep(SAID_S)  # it says so no sooner again
    client.set(token="guessed")
    client.until_told("the token is not the one that the bridge has printed")
    assert client.set(token=bridge.token) == {"token": ""}
    client.set(**values)
    client.until_told(f"{GAIN} = 3: from step ")
    assert client.until("parameterValues")["parameters"][0]["value"] == 3.0
    assert client.parameters(GAIN) == {GAIN: 3.0}
    for value, text in (
        (-1.0, "is not at least 0"),
        ("fast", "refused: controller.gains.lambda_speed = 'fast' is not a number"),
        (True, "= True is not a number"),
    ):
        client.set(**{GAIN.replace(".", "__"): value})
        assert text in client.until_told("refused: ")
        assert client.until("parameterValues")["parameters"][0]["value"] == 3.0
    client.set(controller__period=1.0)
    assert "[controller] period: stays as it is" in client.until_told("refused: ")
    time.sleep(SAID_S)
    with foxglove_client(bridge.port) as stranger:
        stranger.set(**values)
        stranger.until_told("nothing was changed")


def _is_stopped(run: Process, bridge: Bridge, client: FoxgloveClient) -> None:
    for payload in (b"", b"{", b"[1]", b"{}", b'{"token": 1}', json.dumps({"token": bridge.token[:-1]}).encode()):
        answer = client.call("/stop", payload)
        assert not answer["success"]
        assert "with the token that the bridge has printed" in answer["message"]
    assert run.ask("status")["lifecycle"] == "active"
    answer = client.call("/stop", json.dumps({"token": bridge.token}).encode())
    assert answer == {"success": True, "message": f"{run.name}: fault"}
    assert run.ask("status")["lifecycle"] == "fault"
    client.subscribe("/log")
    assert taken(client, "/values", 5)[-1][1]["fault"] == "estop"


def test_the_emergency_stop_arrives_in_the_log(driven: Process, tmp_path: Path) -> None:
    with bridged(tmp_path, driven) as (bridge, client):
        client.subscribe("/log")
        client.call("/stop", json.dumps({"token": bridge.token}).encode())
        line = taken(client, "/log")[0][1]
        while "estop" not in line.message:
            line = taken(client, "/log")[0][1]
        assert line.name == "teleop"


def test_clients_that_flood_or_never_read_delay_no_stop_and_no_run(driven: Process, tmp_path: Path) -> None:
    with bridged(tmp_path, driven) as (bridge, client), foxglove_client(bridge.port) as mad:
        with socket.create_connection(("127.0.0.1", bridge.port)) as garbage:
            garbage.sendall(os.urandom(4096))
        mad.find(TOPICS)
        mad.subscribe(*TOPICS)
        missed = driven.ask("status")["counts"].get("missed_commands", 0)
        for _ in range(20):
            mad.socket.send(json.dumps({"op": "setParameters", "parameters": [{"name": GAIN, "value": 1}]}))
            mad.socket.send(json.dumps({"op": "getParameters", "parameterNames": []}))
            mad.socket.send("{")
        client.subscribe("/values")
        assert taken(client, "/values", 60)[-1][1]["lifecycle"] == "active"
        assert bridge.said.count("nothing was changed") < 10
        assert client.call("/stop", json.dumps({"token": bridge.token}).encode())["success"]
        assert driven.ask("status")["counts"].get("missed_commands", 0) - missed < 200
        assert "Traceback" not in bridge.said


def test_a_bridge_ends_with_its_run_and_killed_leaves_it_as_it_is(driven: Process, tmp_path: Path) -> None:
    with bridged(tmp_path, driven) as (bridge, _):
        bridge.popen.kill()
        bridge.popen.wait()
        t = driven.ask("status")["t"]
        assert eventually(lambda: driven.ask("status")["t"] > t + 1.0)
        assert driven.ask("status")["lifecycle"] == "active"
    with bridged(tmp_path, driven) as (bridge, _):
        driven.popen.send_signal(signal.SIGINT)
        bridge.ends_with(0)


def test_a_late_client_gets_the_shapes_of_a_robot(runs: Runs, tmp_path: Path) -> None:
    if not MUJOCO:
        pytest.skip(NO_MUJOCO)
    run = active(runs, "tray/tray.toml")
    with bridged(tmp_path, run) as (bridge, first):
        for client in (first, None):
            with foxglove_client(bridge.port) as late:
                shown = client or late
                shown.find({*TOPICS, "/solids"})
                shown.subscribe("/solids")
                ((_, scene),) = taken(shown, "/solids")
                assert scene.entities[0].triangles


def test_bad_use_is_one_line_with_the_remedy(driven: Process) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for words, said in (
            (("nowhere",), "no run named 'nowhere' is in progress"),
            (("--port", "0"), "0 is not in the range 1<=x<=65535"),
            ((driven.name, "--port", str(port)), f"name a free port with --port, as --port {port + 1}"),
        ):
            done = operator("bridge", "foxglove", *words)
            assert done.returncode == 2, done.stderr
            assert said in done.stderr
            assert len(done.stderr.splitlines()) == 1
