"""The open bus: what PlotJuggler makes of it, who may reach it, and that neither run nor viewers suffer by others."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgpack
import pytest
import zmq

from servonode.bus import Bus, Status, run_folder
from servonode.bus.processes import Named
from servonode.bus.topology import PLANT
from servonode.cli.telemetry import AddressTaken, bound, with_telemetry
from servonode.nodes.node_process import ProcessBeside
from tests.helpers.plotjuggler import PlotJuggler
from tests.helpers.ports import free_port
from tests.helpers.runs import END_S, RESTARTED, START_S, Process, Runs, eventually, operator, state_of

FORGIVING = ("run.speed=1", "run.duration=600", "plant.safety.command_timeout_floor=5")  # a busy host is not tested
LISTEN_S = 1.0
PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "watch.md"
FROZEN_S = 1.5
FLOOD = """
import socket, sys, time
host, port = sys.argv[1], int(sys.argv[2])
greeting = b"\\xff" + bytes(8) + b"\\x7f\\x03\\x00" + b"NULL".ljust(20, b"\\0") + bytes(32)
ready = b"\\x04\\x19\\x05READY\\x0bSocket-Type\\x00\\x00\\x00\\x03SUB"
end = time.monotonic() + float(sys.argv[3])
print("begun", flush=True)
while time.monotonic() < end:
    try:
        with socket.create_connection((host, port), 1.0) as flood:
            flood.settimeout(0.2)
            flood.sendall(greeting + ready + b"".join(b"\\x00\\x03\\x01" + b"%02d" % (i % 100) for i in range(9000)))
    except OSError:
        pass
"""


def own(nodes: tuple[str, ...] = (PLANT,)) -> dict[str, dict[str, int]]:
    """What a registry says of nodes that all are this process."""
    return {"pids": dict.fromkeys(nodes, os.getpid()), "starts": dict.fromkeys(nodes, Named.of(os.getpid()).start)}


@pytest.fixture
def address() -> str:
    """An address of this computer at which nobody listens."""
    return f"tcp://127.0.0.1:{free_port()}"


def telemetry_of(run: Process) -> int:
    """The process that publishes a run's telemetry."""
    assert eventually(lambda: run.left_over(b"telemetry"))
    (pid,) = run.left_over(b"telemetry")
    return pid


# a real run


def test_plotjuggler_reads_a_run_topic_by_topic(runs: Runs, address: str) -> None:
    run = runs.start("trailer_pursuit", *FORGIVING, words=("--telemetry", address))
    run.wait_open()
    assert run.registry()["telemetry"] == address
    with PlotJuggler(address) as viewer, PlotJuggler(address, "controller, target/target") as chosen:
        assert viewer.receives("plant/status", START_S)
        assert chosen.receives("controller/status", START_S)
        viewer.receive_for(LISTEN_S)
        chosen.receive_for(0.2)
        assert first_line(code_on_the_page(address)).startswith("plant/state ")
        refused = operator("run", "trailer_pursuit", "--name", "second", "--telemetry", address)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        port = int(address.rpartition(":")[2])
        assert f"run {run.name!r} publishes there; stop that, or give another: --telemetry" in refused.stderr
        assert f"tcp://127.0.0.1:{port + 1}\n" in refused.stderr
    assert viewer.refused == chosen.refused == []
    assert {len(frames) for frames in viewer.frames} == {2}
    topics = Counter(frames[0].decode() for frames in viewer.frames)
    assert topics.keys() == {
        "plant/state", "plant/applied", "plant/status", "controller/command", "controller/report",
        "controller/status", "target/target", "target/status",
    }  # fmt: skip
    named = set(re.findall(r"`((?:plant|controller|target)/\w+/[\w/]+)`", PAGE.read_text()))
    assert {"plant/state/state/V", "controller/command/input/U1", "controller/report/residual/heading"} <= named
    assert named <= viewer.series.keys()
    for name in ("plant/state/state/V", "controller/command/input/U1"):
        times = [t for t, _ in viewer.series[name]]
        assert times == sorted(times)
        assert 0.2 * LISTEN_S < times[-1] - times[0] < LISTEN_S + 1.0  # plant time, which is the wall's here
    own = [t for t, _ in viewer.series["plant/state/t"]]
    assert own == [value for _, value in viewer.series["plant/state/t"]]
    steps = [int(k) for _, k in viewer.series["plant/state/k"]]
    assert {later - before for before, later in pairwise(steps)} == {10}  # nothing is missing
    assert {frames[0].decode() for frames in chosen.frames} == {
        "controller/command", "controller/report", "controller/status", "target/target",
    }  # fmt: skip
    run.stop()
    with PlotJuggler(address), bound(address):  # free again at once, also while a viewer looks for it
        pass


def code_on_the_page(address: str) -> str:
    """The page's program for any viewer, at this address."""
    (code,) = re.findall(r"\*\*listen\.py\*\*\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert "tcp://127.0.0.1:9872" in code
    return str(code).replace("tcp://127.0.0.1:9872", address)


def first_line(code: str) -> str:
    """The first line that a program prints; then it is killed."""
    with subprocess.Popen([sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
        return line


def test_telemetry_reads_a_restarted_node_again(runs: Runs, address: str) -> None:
    run = runs.start("trailer_pursuit", *FORGIVING, *RESTARTED, words=("--telemetry", address))
    run.wait_open()
    pid = telemetry_of(run)
    host, port = address.removeprefix("tcp://").split(":")
    flood = [sys.executable, "-c", FLOOD, host, port, str(FROZEN_S)]
    frozen = [sys.executable, "-m", "tests.helpers.plotjuggler", address]
    with (
        PlotJuggler(address, "controller/status") as viewer,
        subprocess.Popen(frozen, stdout=subprocess.PIPE) as stopped,
        subprocess.Popen(flood, stdout=subprocess.PIPE) as flooding,
    ):
        try:
            assert stopped.stdout is not None
            assert stopped.stdout.readline()
            stopped.send_signal(signal.SIGSTOP)
            viewer.receive_for(0.5)
            run.kill("controller")
            viewer.receive_for(FROZEN_S)
            assert eventually(lambda: viewer.receive_for(0.1) or sources(viewer) == 2)
            assert run.ask("status")["values"]["rate"] == pytest.approx(1.0, abs=0.05)
            assert memory_of(pid) < 200_000
        finally:
            stopped.kill()  # else they are waited for
            flooding.kill()
    run.popen.send_signal(signal.SIGINT)
    assert run.popen.wait(END_S) in (1, 130)
    assert run.left_over() == []


@pytest.mark.slow
def test_payloads_are_those_of_the_node(runs: Runs, address: str) -> None:
    run = runs.start("trailer_pursuit", "plant.publish_every=1", f"run.telemetry={address}", *FORGIVING)
    run.wait_open()
    with PlotJuggler(address, "plant/state") as viewer, Bus(run.path, "beside") as bus:
        opened = bus._open(zmq.SUB)
        opened.setsockopt(zmq.SUBSCRIBE, b"state")
        opened.connect(f"ipc://{run.path}/plant.pub")
        viewer.receive_for(1.0)
        direct = set()
        while opened.poll(0):
            direct.add(opened.recv_multipart()[1])
    gathered = [payload for _, payload in viewer.frames]
    assert len(direct & set(gathered)) > 0.5 * len(gathered) > 50
    assert msgpack.unpackb(gathered[0]).keys() >= {"t", "seq", "state", "input"}
    run.stop()


def sources(viewer: PlotJuggler) -> int:
    """How many processes of the controller the viewer has read."""
    return len({src for _, src in viewer.series["controller/status/src"]})


def memory_of(pid: int) -> int:
    """The memory that a process holds [kB]."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def test_the_run_goes_on_where_the_telemetry_is_killed(runs: Runs, address: str) -> None:
    run = runs.start("trailer_pursuit", *FORGIVING, words=("--telemetry", address))
    run.wait_open()
    os.kill(telemetry_of(run), signal.SIGKILL)
    assert eventually(lambda: f"the telemetry at {address} has ended early; the run continues without" in run.stderr)
    assert run.ask("status")["lifecycle"] == "active"
    bound(address).close()  # nobody else holds the address
    run.stop()


@pytest.mark.slow
def test_telemetry_outlives_a_killed_launcher(runs: Runs, address: str) -> None:
    run = runs.start("trailer_pursuit", *FORGIVING, words=("--telemetry", address))
    run.wait_open()
    pid = telemetry_of(run)
    with PlotJuggler(address, "plant/status") as viewer:
        viewer.receive_for(0.5)
        run.popen.kill()
        run.popen.wait()
        viewer.receive_for(1.0)
    assert msgpack.unpackb(viewer.frames[-1][1])["lifecycle"] in ("fault", "finished")
    assert eventually(lambda: state_of(pid) in ("", "Z"), END_S)


# beside a run of the test's own


def status(seq: int) -> Status:
    header = {"t": 0.1, "k": 100, "run": 1, "mono": 1, "node": PLANT, "src": 1}
    return Status(seq=seq, lifecycle="active", counts={}, values={}, **header)  # type: ignore[arg-type]


@pytest.mark.usefixtures("runs")
def test_telemetry_reads_only_what_is_wanted_after_the_start(address: str) -> None:
    with (
        with_telemetry(address, "left", lambda _: None),
        run_folder("left") as folder,
        Bus(folder.path, PLANT) as bus,
    ):
        publisher = bus.publisher(0)
        folder.register([PLANT], own())
        with PlotJuggler(address, "plant/sta") as viewer:
            viewer.receive_for(0.5)
            assert publisher.subscriptions_seen() == 0  # the nodes count their subscribers first
            folder.register([PLANT], own() | {"open": True})
            assert eventually(lambda: publisher.subscriptions_seen() == 2, START_S)
            assert set(publisher.subscriptions) == {"state", "status"}  # and never applied, which costs the loop
            publisher.publish("status", status(7))
            viewer.receive_for(0.5)
            assert [seq for _, seq in viewer.series["plant/status/seq"]] == [7.0]
        assert eventually(lambda: publisher.subscriptions_seen() == 0)  # nobody listens any more


@pytest.mark.usefixtures("runs")
def test_it_ends_without_a_run_and_when_another_takes_the_name(address: str) -> None:
    with run_folder("left") as folder, Bus(folder.path, PLANT) as bus:
        folder.register([PLANT], own() | {"open": True})
        publisher = bus.publisher(0)
        registry = json.loads((folder.path / "registry.json").read_text())
        (folder.path / "registry.json").write_text(json.dumps(registry | {"pid": 1}))
        with with_telemetry(address, "left", lambda _: None), PlotJuggler(address) as viewer:
            viewer.receive_for(0.5)
            assert publisher.subscriptions_seen() == 0
        bound(address).close()


def test_helper_output_is_printed_behind_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    beside = ProcessBeside("beside", [sys.executable, "-c", "import sys; sys.exit('no room')"], ends=True)
    beside.start()
    assert eventually(lambda: not beside.look())
    beside.leave()
    assert capsys.readouterr().err == "[beside] no room\n"
    assert not beside.look()


# addresses


@pytest.mark.usefixtures("runs")
def test_taken_address_is_refused_before_the_run(address: str) -> None:
    with bound(address), pytest.raises(AddressTaken, match="a viewer that binds, or another program, is there; stop"):
        bound(address)
