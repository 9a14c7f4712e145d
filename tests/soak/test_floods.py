"""Floods of an address with keys, as fast as they are taken, by strangers and by who has the machine's own key."""

import resource
import socket
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import zmq

from servonode.bus.keys import KeyStore
from servonode.bus.topology import PLANT
from tests.helpers.hostile import TO_MACHINE, Place, attacker, recorded
from tests.helpers.key_folders import Computers, descriptors_of
from tests.helpers.runs import START_S, Process, Runs, eventually

LAUNCH = "trailer_pursuit_external"
PYTHON = [sys.executable, str(Path(__file__).parents[2] / "examples" / "external_plant.py")]
FORGIVING = ("plant.safety.command_timeout=5", "plant.device.timeout=5", "run.duration=600")
FLOOD_S = 2.0
MOST_MEMORY = 150_000_000  # bytes that a plant takes more after all floods: libzmq keeps each subscription for a while


def test_floods_before_and_after_authentication_leave_a_run_active_and_are_counted(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVONODE_KEYS", str(tmp_path / "desk"))
    computers = Computers(tmp_path)
    others = {name: KeyStore(tmp_path / name) for name in ("watcher", "former")}
    for (name, store), role in zip(others.items(), ("controller", "plant"), strict=True):
        computers.desk.trust(store.new(name), [role])
    stores = {"known": computers.robot, "other role": others["watcher"], "revoked": others["former"]}
    pairs = {word: (pair.public, pair.secret) for word, store in stores.items() for pair in [store.pair()]}
    place = Place(int(computers.applied.rpartition(":")[2]), computers.desk.pair("desk").public, pairs)
    with computers.machine(PYTHON, computers.robot_key, computers.desk_key):
        run = runs.start(LAUNCH, *computers.settings, *FORGIVING, words=["--arm"])
        run.wait_open()
        assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
        place = replace(place, replayed=recorded(place, zmq.XSUB, b"\x01"))
        with attacker("revoked key", place):  # which is trusted still, for the machine of another run
            assert eventually(lambda: run.ask("status")["counts"].get("refused_role_of_key_former"), START_S)
        computers.desk.revoke("former")
        pids, files, memory = run.pids(), descriptors_of(run), memory_of(run)
        for name in TO_MACHINE:
            with attacker(name, place) as (_, sent):
                assert name == "none, but computing" or eventually(lambda sent=sent: sent.value, START_S)
                time.sleep(FLOOD_S)
                stands = run.ask("status")
                assert stands["lifecycle"] == "active", (name, stands["faults"])
        assert (run.ask("status")["lifecycle"], run.pids()) == ("active", pids)
        counts = run.ask("status")["counts"]
        expected = ("unknown_key", "revoked_key_former", "role_of_key_watcher")
        assert min(counts.get(f"refused_{name}", 0) for name in expected) > 50, counts
        assert counts["refused_connections"] >= 1
        assert eventually(lambda: descriptors_of(run) <= files + 2, START_S)
        assert memory_of(run) < memory + MOST_MEMORY
        assert run.order("estop") == "fault"
        run.stop()


def memory_of(run: Process) -> int:
    """Resident memory of the plant [bytes]."""
    pages = int(Path(f"/proc/{run.pids()[PLANT]}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_many_connections_neither_end_the_link_nor_keep_its_operator_out(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVONODE_KEYS", str(tmp_path / "desk"))
    computers = Computers(tmp_path)
    place = ("127.0.0.1", int(computers.applied.rpartition(":")[2]))
    with computers.machine(PYTHON, computers.robot_key, computers.desk_key), ExitStack() as stack:
        settings = (*computers.settings, *FORGIVING)
        run = runs.start(LAUNCH, *settings, words=["--arm"], limits={resource.RLIMIT_NOFILE: 2048})
        run.wait_open()
        assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
        for number in range(900):  # of which none makes a handshake
            opened = stack.enter_context(socket.socket())
            opened.setblocking(False)
            opened.connect_ex(place)
            if number % 20 == 0:
                time.sleep(0.005)
        stands = run.ask("status")
        assert stands["lifecycle"] == "active"
        assert stands["counts"]["refused_connections"] >= 1
        run.stop()
