"""A base as servonode_base.py wants it, simulated, on a serial port that it makes: python fake_base.py /tmp/base"""

import math
import os
import select
import sys
import time
import tty
from contextlib import suppress
from pathlib import Path

STEP, TIMEOUT, MOST = 0.01, 0.5, (0.5, 2.5)  # s, s without a line, m/s and rad/s


class FakeBase:
    """A unicycle whose drives reach a speed that is sent within some 0.1 s."""

    def __init__(self) -> None:
        self.x = [0.0, 0.0, 0.0, 0.0, 0.0]
        self.n, self.wanted, self.waited, self.rest = -1, (0.0, 0.0), 0.0, b""

    def take(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            try:
                n, *speeds = map(float, line.split())
                if not all(map(math.isfinite, (n, *speeds))):  # before the clamp, of which it would make full speed
                    continue
                v, omega = (max(-most, min(most, each)) for each, most in zip(speeds, MOST, strict=True))
            except ValueError:  # no message of ours, which changes nothing
                continue
            self.n, self.wanted, self.waited = int(n), (v, omega), 0.0

    def move(self) -> bytes:
        self.waited += STEP
        if self.waited > TIMEOUT:  # safe by itself
            self.wanted = (0.0, 0.0)
        X, Y, psi, V, Omega = self.x
        share = 1 - math.exp(-STEP / 0.05)
        V, Omega = (now + share * (most - now) for now, most in zip((V, Omega), self.wanted, strict=True))
        self.x = [X + STEP * V * math.cos(psi), Y + STEP * V * math.sin(psi), psi + STEP * Omega, V, Omega]
        return f"{self.n} {' '.join(f'{each:.6f}' for each in self.x)}\n".encode()


def main(link: str) -> None:
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    if (file := Path(link)).is_symlink():  # of a fake base that was killed
        file.unlink()
    file.symlink_to(os.ttyname(theirs))
    base, due = FakeBase(), time.monotonic()
    sys.stderr.write(f"a base at {link}; Ctrl-C ends it\n")
    while True:
        due += STEP
        if select.select([ours], [], [], max(0.0, due - time.monotonic()))[0]:
            base.take(os.read(ours, 65536))
            time.sleep(max(0.0, due - time.monotonic()))
        line = base.move()
        if select.select([], [ours], [], 0.0)[1]:
            os.write(ours, line)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1] if len(sys.argv) > 1 else "/tmp/base")
