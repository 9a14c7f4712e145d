"""The open bus: at which addresses it may be, and how the process that serves it ends."""

import os
import sys
from pathlib import Path

import pytest

from servonode.bus.link import check_telemetry
from servonode.cli.telemetry import bound
from servonode.nodes.node_process import ProcessBeside
from tests.helpers.events import LONG_S


def test_helper_ends_though_others_hold_its_lifeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servonode.nodes.node_process.END_S", LONG_S)
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


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this computer has no IPv6")
def test_the_address_of_version_6_is_bound() -> None:
    bound("tcp://[::1]:38721").close()
