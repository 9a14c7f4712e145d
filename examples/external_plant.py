"""A machine that is a process of its own: the robot with trailer by hand, the other side of docs/protocol.md.

    python examples/external_plant.py [STATE_ADDRESS APPLIED_ADDRESS]

and in another terminal: servonode run trailer_pursuit_external. It serves one run after the other, until Ctrl-C.
"""

import math
import sys
import time

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


def moved(x, x_dot, h):
    return [a + h * b for a, b in zip(x, x_dot, strict=True)]


class Robot:
    def __init__(self, state_address, applied_address):
        self.context = zmq.Context()
        self.out, self.into = self.context.socket(zmq.PUB), self.context.socket(zmq.SUB)
        self.out.bind(state_address)  # publishers bind, subscribers connect
        self.into.connect(applied_address)
        for topic in ("setup", "applied"):
            self.into.subscribe(topic)
        self.setup, self.src, self.seq = {"run": 0}, time.monotonic_ns() % 2**53 + 1, 0
        self.x, self.u, self.k, self.taken, self.running = [0.0] * 8, [0.0, 0.0], 0, -1, False

    def send(self, topic, **values):
        self.seq += 1
        head = {"t": self.k * self.setup["step"], "k": self.k, "run": self.setup["run"], "seq": self.seq}
        head |= {"mono": time.monotonic_ns(), "node": "robot", "src": self.src}
        self.out.send_multipart([topic.encode(), msgpack.packb(head | values)])

    def send_state(self):
        state, acting = dict(zip(STATES, self.x, strict=True)), dict(zip(INPUTS, self.u, strict=True))
        self.send("state", state=state, input=acting, control=False, applied_seq=self.taken)

    def begin(self, setup):
        if setup["run"] != self.setup["run"]:  # else it is asked for once more
            self.setup, self.k, self.u, self.taken = setup, setup["k"], [0.0, 0.0], -1
            self.running = setup["machine"] == NAME and tuple(setup["inputs"]) == INPUTS
            self.began = self.fresh = time.monotonic()
            if self.running and self.k == 0:
                self.x = [float(setup["start"][name]) for name in STATES]
        if self.running:
            return self.send_state()
        return self.send("status", lifecycle="fault", fault=f"this is {NAME} {INPUTS}", counts={}, values={})

    def apply(self, applied):
        u, k = [float(applied["input"][name]) for name in INPUTS], applied["until"]
        if not self.running or applied["run"] != self.setup["run"] or not all(map(math.isfinite, u)):
            return
        if applied["final"]:
            self.running, self.u = False, [0.0, 0.0]
        elif self.setup["mode"] == "lockstep" and (k == self.k or applied["k"] == self.k < k <= self.k + 1_000_000):
            self.u, self.taken = u, applied["seq"]
            self.integrate(k)  # no step if it is there already: only the answer once more
            self.send_state()
        elif self.setup["mode"] == "realtime" and applied["seq"] > self.taken:
            self.u, self.taken, self.fresh = u, applied["seq"], time.monotonic()

    def integrate(self, k):
        """The classical Runge-Kutta method, to step k."""
        h, p = self.setup["step"], self.setup["parameters"]
        for self.k in range(self.k + 1, k + 1):
            k1 = rates(self.x, self.u, p)
            k2 = rates(moved(self.x, k1, h / 2), self.u, p)
            k3 = rates(moved(self.x, k2, h / 2), self.u, p)
            k4 = rates(moved(self.x, k3, h), self.u, p)
            mean = [(a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
            self.x = moved(self.x, mean, h)

    def keep_time(self):
        """Real time: integrate to now on an absolute grid, safe once no fresh input has come for the timeout."""
        step = self.setup["step"] / self.setup["speed"]  # wall s
        safe_at = self.fresh + self.setup["timeout"]
        for until in (min(time.monotonic(), safe_at), time.monotonic()):
            self.integrate(self.setup["k"] + int((until - self.began) / step))
            if until >= safe_at:
                self.u = [0.0, 0.0]
        self.send_state()

    def run(self):
        while True:
            realtime = self.running and self.setup["mode"] == "realtime"
            if realtime:
                self.keep_time()
            for _ in range(1000 if self.into.poll(1 if realtime else None) else 0):
                try:
                    topic, message = self.into.recv_multipart(zmq.NOBLOCK)
                    (self.begin if topic == b"setup" else self.apply)(msgpack.unpackb(message))
                except zmq.Again:
                    break
                except (ValueError, KeyError, TypeError) as error:  # no message of ours: as if it had not come
                    print(f"refused: {error!r}", file=sys.stderr)


if __name__ == "__main__":
    robot = Robot(*(sys.argv[1:3] or ("tcp://127.0.0.1:9873", "tcp://127.0.0.1:9874")))
    try:
        robot.run()
    except KeyboardInterrupt:
        robot.context.destroy(linger=100)
