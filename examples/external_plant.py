"""A machine that is a process of its own: the robot with trailer by hand, the other side of docs/protocol.md.

    python examples/external_plant.py [STATE_ADDRESS APPLIED_ADDRESS]

In another terminal: servonode run trailer_pursuit_external. It serves one run after the other, until Ctrl-C.
"""

import math
import sys
import time
from contextlib import suppress

import msgpack
import zmq

NAME, STATES, INPUTS = "diff_drive_trailer", ("X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2"), ("U1", "U2")


def rates(x, u, p):
    """x' under the torques u [N m] of the left and the right wheel; p: the machine's parameters."""
    psi, phi, V, Omega = x[2:6]
    b, l, r, spin = p["b"], p["l"], p["r"], 2 * p["Iky"] / p["r"] ** 2  # noqa: E741
    left, right, phi_dot = (V - l * Omega) / r, (V + l * Omega) / r, -V / b * math.sin(phi) - Omega
    U1, U2, k = u[0] - p["c_w"] * left, u[1] - p["c_w"] * right, p["m1"] * p["d1"]
    J1 = p["I1"] + 2 * p["m_k"] * l**2 + 2 * p["Ikz"] + spin * l**2
    J2, M0 = p["I2"] - p["m2"] * b**2, p["m1"] + p["m2"] + 2 * p["m_k"] + spin
    force = -J2 * V * phi_dot * math.sin(phi) * math.cos(phi) + k * b**2 * Omega**2 + b**2 / r * (U1 + U2)
    V_dot, Omega_dot = force / (J2 * math.sin(phi) ** 2 + M0 * b**2), (l / r * (U2 - U1) - k * V * Omega) / J1
    return V * math.cos(psi), V * math.sin(psi), Omega, phi_dot, V_dot, Omega_dot, left, right


class Robot:
    def __init__(self, state_address, applied_address):
        self.out, self.into = (zmq.Context.instance().socket(kind) for kind in (zmq.PUB, zmq.SUB))
        self.out.bind(state_address)  # publishers bind, subscribers connect
        self.into.connect(applied_address)
        self.into.subscribe("")  # setup and applied
        self.x, self.setup, self.running = [0.0] * 8, {"run": 0}, False
        self.src, self.seq = time.monotonic_ns() % 2**53 + 1, 0  # this start of ours; number of our newest message

    def publish(self):
        self.seq += 1
        head = {"t": self.k * self.setup["step"], "run": self.setup["run"], "src": self.src, "seq": self.seq}
        head |= {"mono": time.monotonic_ns(), "node": "robot", "k": self.k, "control": False, "applied_seq": self.taken}
        values = {"state": dict(zip(STATES, self.x, strict=True)), "input": dict(zip(INPUTS, self.u, strict=True))}
        if not self.fits:
            values = {"lifecycle": "fault", "fault": f"this is {NAME} {INPUTS}", "counts": {}, "values": {}}
        self.out.send_multipart([b"state" if self.fits else b"status", msgpack.packb(head | values)])

    def begin(self, setup):
        if setup["run"] != self.setup["run"]:  # else it is asked for once more
            self.running = self.fits = (setup["machine"], tuple(setup["inputs"])) == (NAME, INPUTS)
            if self.fits and setup["k"] == 0:
                self.x = [float(setup["start"][name]) for name in STATES]
            self.setup, self.k, self.u, self.taken = setup, setup["k"], [0.0, 0.0], -1  # nothing taken yet
            self.began = self.fresh = time.monotonic()
        self.publish()

    def apply(self, applied):
        u, seq, until = [float(applied["input"][name]) for name in INPUTS], applied["seq"], applied["until"]
        if not self.running or applied["run"] != self.setup["run"] or not all(map(math.isfinite, u)):
            return
        if applied["final"]:
            self.running = False
        elif self.setup["mode"] == "realtime" and seq > self.taken:
            self.u, self.taken, self.fresh = u, seq, time.monotonic()
        elif self.setup["mode"] == "lockstep":
            if applied["k"] == self.k < until <= self.k + 1_000_000:
                self.u, self.taken = u, seq
                self.integrate(until)
            if until == self.k:  # also if it was there already: then the last answer was lost
                self.publish()

    def integrate(self, until):
        h, p = self.setup["step"], self.setup["parameters"]
        while self.k < until:  # the classical Runge-Kutta method
            total = slope = rates(self.x, self.u, p)
            for part, weight in ((h / 2, 2), (h / 2, 2), (h, 1)):
                slope = rates([a + part * b for a, b in zip(self.x, slope, strict=True)], self.u, p)
                total = [a + weight * b for a, b in zip(total, slope, strict=True)]
            self.x, self.k = [a + h / 6 * b for a, b in zip(self.x, total, strict=True)], self.k + 1

    def serve(self):
        while True:
            if realtime := self.running and self.setup["mode"] == "realtime":
                now, safe_at = time.monotonic(), self.fresh + self.setup["timeout"]  # then no fresh input has come
                for at in (min(now, safe_at), now):
                    self.integrate(self.setup["k"] + int((at - self.began) * self.setup["speed"] / self.setup["step"]))
                    self.u = self.u if at < safe_at else [0.0, 0.0]
                self.publish()
            if self.into.poll(1 if realtime else None):
                with suppress(ValueError, KeyError, TypeError):  # what is no message of ours is as if it had not come
                    topic, message = self.into.recv_multipart()
                    (self.begin if topic == b"setup" else self.apply)(msgpack.unpackb(message))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        Robot(*(sys.argv[1:3] or ("tcp://127.0.0.1:9873", "tcp://127.0.0.1:9874"))).serve()
