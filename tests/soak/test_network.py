"""The two computers of the tests: what stands between them is what was asked for."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.helpers.computers import HOUR_S, Computer, Pair, two_computers
from tests.helpers.runs import state_of

WHO = """
import json, os, socket, time
print(json.dumps([time.monotonic(), time.time(), socket.gethostname(), os.getppid()]))
"""
ECHO = """
import socket, time
with socket.create_server(("0.0.0.0", 7401)) as server:
    print("ready", flush=True)
    while True:
        connection = server.accept()[0]
        while data := connection.recv(100):
            connection.sendall(data)
"""
ROUND_TRIPS = """
import json, socket, sys, time
connection, found = socket.create_connection((sys.argv[1], 7401)), []
for _ in range(20):
    begin = time.monotonic()
    connection.sendall(b"x")
    connection.recv(1)
    found.append(time.monotonic() - begin)
print(json.dumps(found))
"""
TAKE = """
import json, socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
    taken.bind(("0.0.0.0", 7402))
    print("ready", flush=True)
    found = []
    taken.settimeout(20)
    while True:
        found.append(int(taken.recv(100)))
        taken.settimeout(1)
        if found[-1] == -1:
            break
    print(json.dumps(found[:-1]))
"""
SEND = """
import json, socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    for number in range(int(sys.argv[2])):
        out.sendto(str(number).encode(), (sys.argv[1], 7402))
        time.sleep(0.0005)
print("null")
"""
LAST = 'import socket, sys; socket.socket(type=socket.SOCK_DGRAM).sendto(b"-1", (sys.argv[1], 7402)); print("null")'


@pytest.fixture(scope="module")
def computers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_computers(tmp_path_factory.mktemp("computers")) as pair:
        yield pair


@contextmanager
def started(computer: Computer, code: str) -> Iterator["subprocess.Popen[str]"]:
    with computer.started(sys.executable, "-c", code, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def datagrams(computers: Pair, count: int, **quality: float) -> list[int]:
    """The numbers that come at the robot, of so many that the desk sends."""
    with started(computers.robot, TAKE) as taker:
        computers.network.set(**quality)
        computers.desk.python(SEND, computers.robot.address, str(count))
        computers.network.set(loss=0, reorder=0, cut=False)
        computers.desk.python(LAST, computers.robot.address)
        found: list[int] = json.loads(taker.communicate(timeout=30)[0])
    return found


def test_a_computer_has_a_clock_a_name_a_network_and_processes_of_its_own(computers: Pair) -> None:
    computers.robot.wall_clock.set(-HOUR_S)
    (robot_s, robot_wall_s, robot, above), (desk_s, desk_wall_s, desk, _) = (
        each.python(WHO) for each in (computers.robot, computers.desk)
    )
    assert abs(robot_s - time.monotonic()) < 60
    assert abs(desk_s - time.monotonic() - HOUR_S) < 60
    assert abs(desk_wall_s - robot_wall_s - HOUR_S) < 60
    assert (robot, desk, above) == ("robot", "desk", 0)
    found = computers.desk.python(
        "import json, socket; print(json.dumps([socket.gethostbyname(each) for each in ('robot.local', 'desk')]))"
    )
    assert found == [computers.robot.address, computers.desk.address]
    assert len(computers.desk.processes()) == 1


def test_the_delay_is_as_set(computers: Pair) -> None:
    with started(computers.robot, ECHO):
        for delay in (0.0, 0.03):
            computers.network.set(delay=delay)
            times = sorted(computers.desk.python(ROUND_TRIPS, computers.robot.address))
            assert 2 * delay <= times[0]
            assert times[10] < 2 * delay + 0.02
    computers.network.set(delay=0)


def test_packets_are_lost_overtake_each_other_and_are_cut_off_as_set(computers: Pair) -> None:
    assert datagrams(computers, 200) == list(range(200))
    before = computers.network.set()
    some = datagrams(computers, 1000, loss=0.2)
    assert 700 < len(some) < 900
    assert some == sorted(some)
    assert computers.network.set()["lost"] - before.get("lost", 0) == 1000 - len(some)
    mixed = datagrams(computers, 300, delay=0.02, reorder=0.1)
    assert sorted(mixed) == list(range(300))
    assert mixed != sorted(mixed)
    assert datagrams(computers, 50, delay=0, cut=True) == []
    assert datagrams(computers, 50) == list(range(50))


def test_one_side_can_be_cut_off_and_a_computer_that_is_killed_is_silent(computers: Pair) -> None:
    with started(computers.robot, TAKE) as taker:
        computers.network.set("robot", cut=True)
        computers.desk.python(LAST, computers.robot.address)  # which reaches it
        assert json.loads(taker.communicate(timeout=30)[0]) == []
    computers.network.set(cut=False)
    with started(computers.robot, ECHO) as echo:
        assert computers.desk.python(ROUND_TRIPS, computers.robot.address)
        (pid,) = [pid for inner, pid in computers.robot.processes().items() if inner != 1]
        computers.kill(computers.robot)
        assert state_of(pid) in ("", "Z")
        assert echo.wait(10)
    done = computers.desk.run(sys.executable, "-c", ROUND_TRIPS.replace("7401)", "7401), 1"), computers.robot.address)
    assert "timed out" in done.stderr
