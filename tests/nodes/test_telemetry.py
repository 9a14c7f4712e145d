"""The open bus: what PlotJuggler makes of it, who may reach it, and that neither run nor viewers suffer by others."""

import os
import sys
from pathlib import Path

import pytest

from servonode.bus.loopback import check_telemetry
from servonode.bus.processes import Named
from servonode.bus.topology import PLANT
from servonode.cli.telemetry import bound
from servonode.nodes.helper_process import ProcessBeside
from tests.helpers.ports import free_port
from tests.helpers.runs import operator


@pytest.fixture
def address() -> str:
    """An address of this computer at which nobody listens."""
    return f"tcp://127.0.0.1:{free_port()}"


# beside a run of the test's own


def own(nodes: tuple[str, ...] = (PLANT,)) -> dict[str, dict[str, int]]:
    """What a registry says of nodes that all are this process."""
    return {"pids": dict.fromkeys(nodes, os.getpid()), "starts": dict.fromkeys(nodes, Named.of(os.getpid()).start)}


def test_helper_ends_though_others_hold_its_lifeline() -> None:
    beside = ProcessBeside("beside", [sys.executable, "-c", "input(); exit(7)"], ends=True)
    beside.start()
    started = beside._process
    assert started is not None
    assert started.stdin is not None
    copy = os.dup(started.stdin.fileno())
    beside.leave()
    os.close(copy)
    assert started.returncode == 7


# addresses


@pytest.mark.parametrize(
    ("address", "text"),
    [
        *((good, "None") for good in ("tcp://127.0.0.1:9872", "tcp://localhost:1", "tcp://[::1]:65535")),
        ("tcp://0.0.0.0:9872", "may be reached from other computers, and this link has no keys yet; take tcp://127"),
        ("tcp://*:9872", "ssh -L 9872:127.0.0.1:9872"),
        ("tcp://192.168.1.5:9872", "may be reached from other computers"),
        *((f"tcp://127.0.0.1{port}", "has no usable port") for port in ("", ":0", ":99999")),
        ("ipc:///tmp/x", "is not an address; take tcp://127.0.0.1:PORT"),
        ("trailer_pursuit", "is not an address"),
    ],
)
def test_an_address_of_this_computer_alone_is_taken_and_others_are_refused_with_remedy(address: str, text: str) -> None:
    assert text in str(check_telemetry(address))


def test_a_run_is_refused_at_an_address_that_others_reach() -> None:
    result = operator("run", "trailer_pursuit", "--telemetry", "tcp://0.0.0.0:9872")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("servonode: trailer_pursuit [run] telemetry: 'tcp://0.0.0.0:9872' may be reached")
    for words in (("--telemetry", "trailer_pursuit"), ("--telemetry", "trailer_pursuit", "trailer_pursuit")):
        result = operator("run", *words)
        assert result.returncode == 2
        assert "'trailer_pursuit' is not an address such as tcp://127.0.0.1:9872; write --telemetry" in result.stderr


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this computer has no IPv6")
def test_the_address_of_version_6_is_bound() -> None:
    bound("tcp://[::1]:38721").close()
