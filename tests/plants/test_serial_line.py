"""What waits for a slow serial line: one packet, the newest; setups and the end of a run are neither lost nor late."""

import os
import pty
import time
import tty
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from servonode.plants.drivers import packets
from servonode.plants.drivers.cobs import stuffed, unstuffed
from servonode.plants.drivers.serial_transport import BITS, SerialTransport

BAUD = 57600
WAIT_S = 5.0


def packet(seq: int, kind: int = packets.APPLIED, flags: int = 0) -> bytes:
    return packets.encode(packets.Head(kind, 1, 1, seq, packets.NONE, 0, flags), bytes(16))


FRAME = len(stuffed(packet(0)))
FRAME_NS = FRAME * BITS * 1_000_000_000 // BAUD
SETUP, FINAL = packet(2, packets.SETUP), packet(7, flags=packets.FINAL)


class Board:
    """A board at the other end of a pseudo-terminal; time passes in `wait` alone."""

    def __init__(self) -> None:
        self.now_ns = 10**9
        self.fd, self._host = pty.openpty()
        tty.setraw(self._host)
        self.transport = SerialTransport(os.ttyname(self._host), BAUD)

    def open(self) -> None:
        """Open our end, and take the byte that ends what came before."""
        self.transport.open()
        self.transport.receive(1)
        assert os.read(self.fd, 1) == b"\0"

    def send(self, *sent: bytes) -> None:
        """Send packets at this moment."""
        for each in sent:
            self.transport.send(each)

    def wait(self, frames: float) -> None:
        """Let the line send so many frames of inputs."""
        self.now_ns += round(frames * FRAME_NS)
        self.transport.receive(1)

    def received(self, count: int) -> list[bytes]:
        """So many packets that were written; more are not there."""
        data, end = b"", time.monotonic() + WAIT_S
        while data.count(b"\0") < count and time.monotonic() < end:
            data += os.read(self.fd, 4096)
        return [unstuffed(each) for each in data.split(b"\0") if each]

    def close(self) -> None:
        self.transport.close()
        os.close(self.fd)
        os.close(self._host)


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    board = Board()
    clock = SimpleNamespace(monotonic_ns=lambda: board.now_ns, monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr("servonode.plants.drivers.serial_transport.time", clock)
    board.open()
    yield board
    board.close()


def test_newest_inputs_wait_and_older_ones_are_counted(board: Board) -> None:
    board.send(*map(packet, range(100)))
    assert board.received(1) == [packet(0)]
    board.wait(0.9)  # the line is still busy
    board.send(packet(100))
    board.wait(0.2)
    assert board.received(1) == [packet(100)]
    assert board.transport.counts["unsent"] == 99
    assert board.transport.due() is None


def test_setup_and_end_of_a_run_go_before_inputs_and_are_not_replaced(board: Board) -> None:
    board.send(packet(0), packet(1), SETUP, packet(3), packet(4))
    board.wait(1.1)
    board.wait(1.1)
    assert board.received(3) == [packet(0), SETUP, packet(4)]
    board.wait(1.1)
    board.send(packet(5), packet(6), FINAL, FINAL)  # twice, for one may be lost
    board.wait(1.1)
    board.wait(1.1)
    assert board.received(3) == [packet(5), FINAL, FINAL]


def test_traffic_is_that_of_the_baud_rate_however_much_is_sent(board: Board) -> None:
    for seq in range(1000):  # ten in the time of one
        board.send(packet(seq))
        board.wait(0.1)
    assert len(board.received(101)) == 101  # the first one at once


def test_nothing_is_added_while_the_system_still_holds_a_packet(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [FRAME]  # bytes, as where a line is slower than stated; a pseudo-terminal tells none
    monkeypatch.setattr("serial.Serial.out_waiting", property(lambda _: held[0]))
    for seq in range(5):
        board.send(packet(seq))
        board.wait(2.0)
    held[0] = 0
    board.wait(2.0)
    assert board.received(1) == [packet(4)]
