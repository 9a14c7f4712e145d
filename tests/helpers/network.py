"""The network between the two computers of a test: it forwards the IP packets of their TUN devices, as badly as told.

    python network.py SEED PID ADDRESS PID ADDRESS

PID: a process in the network namespace of a computer; ADDRESS: that of its device. Each line on stdin is a JSON object
with settings of `Quality`, by which packets are treated from then on, and "side" (0, 1: of packets that this computer
sends; absent: of both). Each is answered with a line of counts. It ends with its stdin.
"""

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace

SET_DEVICE, PACKETS = 0x400454CA, 0x0001 | 0x1000  # TUNSETIFF; IFF_TUN | IFF_NO_PI
DEVICE = "net0"
LARGEST = 65536  # bytes of a packet
MOST = 10_000  # packets under way; those that follow are dropped


@dataclass(frozen=True)
class Quality:
    """What becomes of the packets that one computer sends."""

    delay: float = 0.0  # s, one way
    jitter: float = 0.0  # s, by which a delay is at most longer; packets may overtake each other
    loss: float = 0.0  # share of packets that are dropped
    reorder: float = 0.0  # share of packets that go without delay, and so overtake those before
    cut: bool = False  # everything is dropped, also what is under way


def open_device(pid: int, address: str) -> int:
    """The descriptor of a new TUN device in the network namespace of a process, up, with this address."""
    space = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(space, 0):
        raise OSError(ctypes.get_errno(), f"the network namespace of process {pid} cannot be entered")
    os.close(space)
    found = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(found, SET_DEVICE, struct.pack("16sH22x", DEVICE.encode(), PACKETS))
    for words in (f"address add {address}/24 dev {DEVICE}", f"link set {DEVICE} up"):
        subprocess.run(["ip", *words.split()], check=True)
    return found


class Network:
    """Two devices and the packets between them."""

    def __init__(self, devices: list[int], seed: int) -> None:
        self._devices = devices
        self._random = random.Random(seed)
        self._quality = [Quality(), Quality()]
        self._under_way: list[tuple[float, int, int, bytes]] = []  # when due, number, sender, packet: a heap
        self.counts: Counter[str] = Counter()

    def set(self, change: dict[str, float]) -> None:
        """Change the quality of one side or both."""
        side = change.pop("side", None)
        for each in (0, 1) if side is None else (int(side),):
            self._quality[each] = replace(self._quality[each], **change)  # type: ignore[arg-type]
        left = [each for each in self._under_way if not self._quality[each[2]].cut]
        self.counts["cut"] += len(self._under_way) - len(left)
        heapq.heapify(left)
        self._under_way = left

    def wait(self) -> list[int]:
        """The descriptors that can be read, stdin among them, once there are any or a packet is due."""
        left = max(self._under_way[0][0] - time.monotonic(), 0) if self._under_way else None
        return select.select([sys.stdin.fileno(), *self._devices], [], [], left)[0]

    def take(self, side: int) -> None:
        """Take the packets that a computer has sent; only those of IP version 4 are meant."""
        with suppress(BlockingIOError):
            while True:
                packet = os.read(self._devices[side], LARGEST)
                if packet[0] >> 4 == 4:
                    self._accept(side, packet)

    def _accept(self, side: int, packet: bytes) -> None:
        quality, draw = self._quality[side], self._random.random
        self.counts["sent"] += 1
        if quality.cut or draw() < quality.loss or len(self._under_way) >= MOST:
            self.counts["cut" if quality.cut else "lost"] += 1
            return
        delay = 0.0 if draw() < quality.reorder else quality.delay + quality.jitter * draw()
        heapq.heappush(self._under_way, (time.monotonic() + delay, self.counts["sent"], side, packet))

    def deliver(self) -> None:
        """Hand over the packets that are due."""
        now = time.monotonic()
        while self._under_way and self._under_way[0][0] <= now:
            _, _, side, packet = heapq.heappop(self._under_way)
            with suppress(OSError):  # its device is full or gone
                os.write(self._devices[1 - side], packet)
                self.counts["delivered"] += 1


def main(seed: str, *sides: str) -> None:
    """Forward until stdin ends."""
    with suppress(PermissionError):
        os.nice(-10)  # the delay is to be the one that was set, on a busy computer too
    devices = [open_device(int(pid), address) for pid, address in zip(sides[::2], sides[1::2], strict=True)]
    network = Network(devices, int(seed))
    print("{}", flush=True)
    while True:
        ready = network.wait()
        for side in (0, 1):
            if devices[side] in ready:
                network.take(side)
        network.deliver()
        if sys.stdin.fileno() in ready:
            line = sys.stdin.readline()
            if not line:
                return
            network.set(json.loads(line))
            print(json.dumps(network.counts), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
