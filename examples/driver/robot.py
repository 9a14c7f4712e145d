"""The robot with trailer behind UDP, simulated: what firmware does for a driver, its own limits and timeout included.

python examples/driver/robot.py [PORT]
"""

import json
import math
import select
import socket
import sys
import time
from contextlib import suppress

import numpy as np

import servonode

LIMIT, TIMEOUT = 2.0, 0.5  # N m, and s (wall clock) without an input: the robot's own, whatever a host asks for


class Robot:
    def __init__(self, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", port))
        self.machine = servonode.load("trailer_pursuit").machine
        self.advance = self.machine.advancer("rk4")
        self.x, self.torque = self.machine.state({}), np.zeros(2)
        self.boot, self.count, self.run, self.owner = time.monotonic_ns() % 2**53 + 1, 0, 0, 0

    def tell(self):
        self.count += 1
        told = {"run": self.run, "k": self.k, "t": self.k * self.step, "boot": self.boot, "count": self.count}
        told |= {"taken": self.taken, "state": self.x[:8].tolist(), "torque": self.torque.tolist(), "battery": 11.9}
        with suppress(OSError):  # a host that has gone
            self.socket.sendto(json.dumps(told).encode(), self.host)

    def listen(self, told, host):
        ours = (told["run"], told["host"]) == (self.run, self.owner)
        if told.get("begin"):
            taken = self.run and told["host"] != self.owner and time.monotonic() < self.fresh + self.timeout
            if not ours and not taken and told["step"] > 0 and (told["speed"] == 1 or not told["own_clock"]):
                self.run, self.owner, self.k, self.taken = told["run"], told["host"], told["k"], -1
                self.first, self.step, self.own_clock = told["k"], told["step"], told["own_clock"]
                self.limits, self.timeout = np.minimum(told["limits"], LIMIT), min(told["timeout"], TIMEOUT)
                self.torque, self.began, self.host = np.zeros(2), time.monotonic(), host
                self.fresh = self.began
            if told["run"] == self.run:
                self.tell()
        elif ours and told["end"]:
            self.run, self.torque = 0, np.zeros(2)
        elif ours and all(map(math.isfinite, told["torque"])):  # before the clamp
            fits = told["n"] > self.taken and (self.own_clock or told["k"] == self.k < told["until"])
            if fits:
                self.torque, self.taken = np.clip(told["torque"], -self.limits, self.limits), told["n"]
                self.fresh = time.monotonic()
            if not self.own_clock and (fits or told["until"] == self.k):
                self.move(told["until"])
                self.tell()

    def move(self, k):
        self.advance(self.k, k - self.k, round(self.step * 1e9), self.x, self.torque, self.machine.c)
        self.k = k

    def serve(self):
        while True:
            if running := self.run and self.own_clock:
                now = time.monotonic()
                if now >= self.fresh + self.timeout:  # safe by itself
                    self.torque = np.zeros(2)
                self.move(max(self.k, self.first + int((now - self.began) / self.step)))
                self.tell()
            if select.select([self.socket], [], [], 0.001 if running else None)[0]:
                with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # what is no message of ours
                    datagram, host = self.socket.recvfrom(8192)
                    self.listen(json.loads(datagram), host)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        Robot(int(sys.argv[1]) if len(sys.argv) > 1 else 9950).serve()
