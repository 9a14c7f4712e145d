"""A machine that is a process of its own: the robot with trailer by hand, the other side of docs/reference/protocol.md.

    python examples/external_plant.py [STATE_ADDRESS APPLIED_ADDRESS] [--any-speed] [--keys OWN.key_secret HOST.key]

In another terminal: servonode run trailer_pursuit_external. It serves one run after the other, until Ctrl-C.
"""

import math
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgpack
import zmq
from zmq.auth import load_certificate
from zmq.auth.thread import ThreadAuthenticator

NAME, STATES = "diff_drive_trailer", ("X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2")
LIMITS = {"U1": 2.0, "U2": 2.0}  # N m; this machine's own: a host's act only below them
MAX_TIMEOUT = 0.5  # s (wall clock) without a fresh input, whatever a host asks for
ZERO = [0.0] * len(LIMITS)
REMEMBERED = 1024  # messages whose times are known: at one a millisecond more than MAX_TIMEOUT


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


def private_addresses():
    """Where servonode looks without addresses in the launch file: sockets in a folder that nobody else may enter."""
    runtime, base = Path(os.environ.get("XDG_RUNTIME_DIR", "")), os.environ.get("SERVONODE_RUNTIME_DIR", "")
    ours = runtime.is_absolute() and runtime.is_dir() and runtime.stat().st_uid == os.getuid()
    base = base or (runtime / "servonode" if ours else Path(tempfile.gettempdir(), f"servonode-{os.getuid()}"))
    for folder in Path(base), Path(base, "devices"):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            sys.exit(f"{folder} belongs to or is open to others; remove it")
    return f"ipc://{folder}/{NAME}.state", f"ipc://{folder}/{NAME}.applied"


class Host:
    """Which key may connect: the host's."""

    def __init__(self, key):
        self.key = key

    def callback(self, _domain, key):
        return key == self.key


def secure(out, into, own, host):
    """With our key pair and the host's public key, from their files: nobody else can read states or command."""
    (public, secret), (expected, _) = load_certificate(own), load_certificate(host)
    if secret is None:
        sys.exit(f"{own} holds no secret key; take the .key_secret beside it")
    authenticator = ThreadAuthenticator(out.context)
    authenticator.start()
    authenticator.configure_curve_callback("host", Host(expected))
    out.curve_server, out.curve_secretkey, out.zap_domain = True, secret, b"host"
    out.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without an authenticator nobody connects
    into.curve_serverkey, into.curve_publickey, into.curve_secretkey = expected, public, secret


class Robot:
    def __init__(self, state_address, applied_address, any_speed=False, keys=()):
        self.out, self.into = (zmq.Context.instance().socket(kind) for kind in (zmq.PUB, zmq.SUB))
        if keys:
            secure(self.out, self.into, *keys)
        self.out.bind(state_address)  # publishers bind, subscribers connect
        self.into.connect(applied_address)
        self.into.subscribe("")  # setup and applied
        self.any_speed = any_speed  # hardware knows only its own
        self.x, self.u, self.setup, self.running = [0.0] * 8, ZERO, {"run": 0, "src": 0}, False
        self.src, self.seq = time.monotonic_ns() % 2**53 + 1, 0  # this start of ours; number of our newest message
        self.sent_at = [-math.inf] * REMEMBERED  # by number modulo REMEMBERED

    def send(self, topic, setup, k, values):
        self.seq += 1
        self.sent_at[self.seq % REMEMBERED] = time.monotonic()
        head = {"t": k * setup["step"], "k": k, "run": setup["run"], "src": self.src, "seq": self.seq}
        self.out.send_multipart([topic, msgpack.packb({**head, "mono": time.monotonic_ns(), "node": NAME, **values})])

    def publish(self):
        state, acting = dict(zip(STATES, self.x, strict=True)), dict(zip(LIMITS, self.u, strict=True))
        values = {"state": state, "input": acting, "control": False, "applied_seq": self.taken}
        self.send(b"state", self.setup, self.k, values)

    def begin(self, setup):
        late = setup["seq"] < self.setup["seq"] if setup["src"] == self.setup["src"] else self.running
        if late and time.monotonic() < self.fresh + self.timeout:
            return  # it was long under way; or another host keeps the run that it began, to its end or its silence
        if setup["run"] != self.setup["run"]:  # else it is asked for once more
            self.running, self.u = False, ZERO
            if fault := self.misfit(setup):
                self.send(b"status", setup, 0, {"lifecycle": "fault", "fault": fault, "counts": {}, "values": {}})
                return
            if setup["k"] == 0:  # a simulation starts there; hardware is where it is
                self.x = [float(setup["start"][name]) for name in STATES]
            rates(self.x, ZERO, setup["parameters"])  # raises where one is missing or makes no sense
            self.timeout = min(setup["timeout"], MAX_TIMEOUT)
            self.limits = [min(own, setup["limits"].get(name, own)) for name, own in LIMITS.items()]
            self.setup, self.k, self.taken, self.running = setup, setup["k"], -1, True  # nothing taken yet
            self.began = self.fresh = time.monotonic()
        self.publish()

    def misfit(self, setup):
        """Why this machine takes no part in the run of that setup; empty: it does."""
        if (setup["machine"], setup["inputs"]) != (NAME, list(LIMITS)):
            return f"this is {NAME} with the inputs {', '.join(LIMITS)}"
        if setup.get("command", "effort") != "effort":
            return 'this machine takes efforts; set plant.command = "effort"'
        if not (1e-5 <= setup["step"] <= 1 and 0 < setup["timeout"] < math.inf and 0 < setup["speed"] <= 1e6):
            return "step must be 1e-5 to 1 s, timeout and speed finite and positive, speed at most 1e6"
        if not all(each >= 0 for each in (*setup["limits"].values(), setup["k"])) or int(setup["k"]) != setup["k"]:
            return "limits must not be negative, and k must be a whole number of 0 or more"
        if setup["mode"] == "realtime" and setup["speed"] != 1 and not self.any_speed:
            return "this machine runs at speed 1; start it with --any-speed for other speeds"
        return ""

    def apply(self, applied):
        if not self.running or (applied["run"], applied["src"]) != (self.setup["run"], self.setup["src"]):
            return
        u, seq, until = [float(applied["input"][name]) for name in LIMITS], applied["seq"], applied["until"]
        if applied["final"]:
            self.running, self.u = False, ZERO
        elif all(map(math.isfinite, u)):  # before the clamp, which would turn NaN into the full torque
            u = [max(-most, min(most, each)) for each, most in zip(u, self.limits, strict=True)]
            if self.setup["mode"] == "realtime" and seq > self.taken and self.is_recent(applied["state_seq"]):
                self.u, self.taken, self.fresh = u, seq, time.monotonic()
            elif self.setup["mode"] == "lockstep":
                self.fresh = time.monotonic()
                if applied["k"] == self.k < until <= self.k + 1_000_000:
                    self.u, self.taken = u, seq
                    self.integrate(until)
                if until == self.k:  # also if it was there already: then the last answer was lost
                    self.publish()

    def is_recent(self, seq):
        """Whether we sent this state within the timeout: what answers an older one has waited in a broken network."""
        return 0 <= self.seq - seq < REMEMBERED and time.monotonic() - self.sent_at[seq % REMEMBERED] < self.timeout

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
                now, safe_at = time.monotonic(), self.fresh + self.timeout  # then no fresh input has come
                for at in (min(now, safe_at), now):
                    self.integrate(self.setup["k"] + int((at - self.began) * self.setup["speed"] / self.setup["step"]))
                    self.u = self.u if at < safe_at else ZERO
                self.publish()
            if self.into.poll(1 if realtime else None):
                # what is no message of ours is as if it had not come
                with suppress(ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
                    topic, message = self.into.recv_multipart()
                    (self.begin if topic == b"setup" else self.apply)(msgpack.unpackb(message))


if __name__ == "__main__":
    addresses = [word for word in sys.argv[1:] if "://" in word] or private_addresses()
    keys = sys.argv[sys.argv.index("--keys") + 1 :][:2] if "--keys" in sys.argv else ()
    if "--keys" in sys.argv and len(keys) != 2:
        sys.exit("--keys needs two files: OWN.key_secret HOST.key")
    with suppress(KeyboardInterrupt):
        Robot(*addresses, any_speed="--any-speed" in sys.argv, keys=keys).serve()
    with suppress(OSError):  # folders that are not empty stay
        (ours := Path(addresses[0].removeprefix("ipc://"))).unlink()
        shared = ours.parents[: 1 if os.environ.get("SERVONODE_RUNTIME_DIR") else 2]
        for folder in shared if ours.parent.name == "devices" else ():
            folder.rmdir()
