"""`servonode run --readonly` with firmware: what passes on the wire, both ways, and the firmware's own states."""

import os
import pty
import select
import socket
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from servonode.bus.topology import CONTROLLER, PLANT
from servonode.plants.drivers import packets
from servonode.plants.drivers.packets import SETUP, STATE, Head, PacketError
from servonode.plants.drivers.serial import unstuffed
from tests.helpers import machine_packets
from tests.helpers.firmware import Firmware, free_udp_port
from tests.helpers.runs import SOON_S, START_S, Runs, eventually
from tests.soak.suite import COMMON, WAITS

PATIENT = "plant.device.timeout=2"  # the tap is a thread of this busy process
MOVING = ("plant.initial.V=0.5", "plant.initial.Omega=0.2")
INPUTS, STATES = 2, 8


@dataclass
class Tap:
    """What passes between a run and its firmware; the settings under which the run finds this tap."""

    settings: tuple[str, ...]
    sent: list[tuple[Head, bytes]] = field(default_factory=list)  # to the firmware
    came: list[tuple[Head, bytes]] = field(default_factory=list)


def forward(ends: threading.Event, ways: dict[int, Callable[[], None]]) -> threading.Thread:
    """Call for each descriptor what takes from it, until the end."""

    def serve() -> None:
        while not ends.is_set():
            for fd in select.select(list(ways), [], [], 0.02)[0]:
                ways[fd]()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


@contextmanager
def udp_tap(_: Path) -> Iterator[Tap]:
    port = free_udp_port()
    with (
        Firmware("robot", "--udp", str(port)),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as board,
    ):
        host.bind(("127.0.0.1", 0))
        board.connect(("127.0.0.1", port))
        tap = Tap((f'plant.device.address="127.0.0.1:{host.getsockname()[1]}"',))
        peers: list[tuple[str, int]] = []

        def to_board() -> None:
            data, peer = host.recvfrom(2000)
            peers.append(peer)
            tap.sent.append(packets.decode(data))
            board.send(data)

        def to_host() -> None:
            data = board.recv(2000)
            tap.came.append(packets.decode(data))
            host.sendto(data, peers[-1])

        ends = threading.Event()
        thread = forward(ends, {host.fileno(): to_board, board.fileno(): to_host})
        try:
            yield tap
        finally:
            ends.set()
            thread.join(SOON_S)


@contextmanager
def serial_tap(folder: Path) -> Iterator[Tap]:
    place = folder / "board"
    with Firmware("robot", "--pty", str(place)):
        board = os.open(place, os.O_RDWR | os.O_NOCTTY)
        host, ours = pty.openpty()
        tty.setraw(ours)
        os.set_blocking(host, False)
        tap = Tap((f'plant.device.port="{os.ttyname(ours)}"',))

        def passed(source: int, target: int, log: list[tuple[Head, bytes]]) -> Callable[[], None]:
            kept = bytearray()

            def take() -> None:
                data = os.read(source, 4096)
                with suppress(BlockingIOError):  # nobody reads it any more
                    os.write(target, data)
                *frames, kept[:] = (kept + data).split(b"\0")
                for frame in filter(None, frames):
                    # the board drops what a stalled reader leaves no room for; the host never does
                    with suppress(PacketError) if source == board else nullcontext():
                        log.append(packets.decode(unstuffed(bytes(frame))))

            return take

        ends = threading.Event()
        thread = forward(ends, {host: passed(host, board, tap.sent), board: passed(board, host, tap.came)})
        try:
            yield tap
        finally:
            ends.set()
            thread.join(SOON_S)
            for each in (board, host, ours):
                os.close(each)


TAPS = {"udp": udp_tap, "serial": serial_tap}


def assert_only_observed(tap: Tap) -> None:
    """Setups with limits of zero alone went out; no state has taken an input, and zero acts in all of them."""
    assert {head.type for head, _ in tap.sent} == {SETUP}
    assert {limit for _, payload in tap.sent for limit in machine_packets.read_setup(payload).limits} == {0.0}
    assert {head.type for head, _ in tap.came} == {STATE}
    assert {(head.reply, head.flags) for head, _ in tap.came} == {(packets.NONE, 0)}
    assert {value for _, data in tap.came for value in packets.read_state(data, STATES, INPUTS).inputs} == {0.0}


@pytest.mark.parametrize(
    ("driver", "ended_by"),
    [
        ("serial", "time"),
        ("udp", PLANT),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("udp", "time"), ("serial", PLANT))),
        *(pytest.param(driver, CONTROLLER, marks=pytest.mark.slow) for driver in ("udp", "serial")),
    ],
)
def test_firmware_is_sent_no_input_and_none_acts(driver: str, ended_by: str, runs: Runs, tmp_path: Path) -> None:
    with TAPS[driver](tmp_path) as tap:
        given = (*COMMON, "plant.safety.limit=1.0", *tap.settings, *MOVING, "run.duration=2", WAITS, PATIENT)
        run = runs.start(f"trailer_pursuit_{driver}", *given, words=("--readonly",))
        try:
            run.wait_open()
            assert eventually(lambda: any(run.ask("status").get("would_send", {}).values()), START_S), run.stderr
            assert "--readonly" in run.ask("arm")["refused"]
            if ended_by == "time":
                assert eventually(lambda: len(tap.came) > 1000)
                run.ends_with(0)
            else:
                run.kill(ended_by)
                run.ends_with(1)
        finally:
            run.end()
        after = len(tap.came)
        time.sleep(0.3)  # the firmware's own timeout of 0.1 s, and what acts after it
        assert len(tap.came) > after, "the firmware's states of then are judged too"
    assert_only_observed(tap)
