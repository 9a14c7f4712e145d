"""`servonode protocol check` against the example, and against a robot with each flaw that it is to name."""

import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from click.testing import CliRunner

from servonode.bus import Link, Message, encode
from servonode.bus.codec import message_intake
from servonode.bus.link import MACHINE_TOPICS
from servonode.cli.main import main
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.wings.acceptance.protocol_check import Check, Plan, Report, both_addresses, check_protocol
from servonode.wings.acceptance.protocol_host import Host, NobodyThere
from servonode.wings.acceptance.trials import UNSEEN
from tests.helpers.timed_board import MS, Time
from tests.helpers.wired import Events
from tests.wires import External, ExternalWire, MemoryLink

LAUNCH = "trailer_pursuit_external"
PLAN = Plan(wait=2.0, observe=0.4, settle=0.3)
INPUTS, STEP = ("U1", "U2"), 1e-3
BRAKES = "brakes until an input comes, and says so"  # no flaw


class Robot(Link):
    """A robot that rolls on as it will, by the page but for its flaw, in a time that the test moves.

    It is also the link to it, which carries each message at once.
    """

    def __init__(self, time: Time, flaw: str = "") -> None:
        self.intake = message_intake({"machine": MACHINE_TOPICS})
        self.counts, self.problems = self.intake.counts, self.intake.problems
        self.time, self.flaw = time, flaw
        self.x = {"X": 0.0, "Y": 0.0, "psi": 0.3, "phi": 0.2, "V": 0.4, "Omega": 0.3, "theta1": 2.9, "theta2": 2.9}
        self.setup: dict[str, Any] = {"run": 0, "src": 0}
        self.running, self.u, self.taken, self.seq = False, 0.0, -1, 0
        self.fresh = self.published = self.moved = 0.0
        self.late: list[tuple[float, dict[str, Any]]] = []  # what it takes later than it comes
        self.sent: dict[int, float] = {}  # when it sent each state
        self.before = (0.0, -1)  # the input, and its seq, before the newest
        self.said: list[list[bytes]] = []

    @property
    def now(self) -> float:
        return self.time.now / 1e9

    # the link

    def send(self, topic: str, message: Message) -> None:
        content = msgpack.unpackb(encode(message))
        if topic == "setup":
            self.begin(content)
        else:
            self.late.append((self.now + (0.08 if self.flaw == "echo" else 0.0), content))
            self.pass_time()

    def wait(self, _: Link, wait_ms: int) -> None:
        """Wait for the next message, in steps of a millisecond."""
        end = self.time.now + wait_ms * MS
        while not self.said and self.time.now < end:
            self.time.pass_to(min(end, self.time.now + MS))
            self.pass_time()

    def receive(self, bound: int = 1) -> list[tuple[str, Message]]:  # noqa: ARG002
        """The next message."""
        frames = self.said.pop(0) if self.said else []
        if len(frames) > 2:
            self.counts["frames"] += 1
            self.problems["frames"] = f"a message has {len(frames)} frames"
        found = self.intake.take(*frames) if len(frames) == 2 else None
        return [found] if found else []

    # the robot

    def pass_time(self) -> None:
        while self.late and self.late[0][0] <= self.now:
            self.apply(self.late.pop(0)[1])
        if self.running and (self.setup["mode"] == "realtime" or self.flaw == "rolls"):
            self.roll()
        elif self.running and self.flaw == "idle" and self.now > self.fresh + self.timeout:
            self.u = 0.0

    def begin(self, setup: dict[str, Any]) -> None:
        now, known = self.now, setup["run"] == self.setup["run"]
        owned = self.running and (now < self.fresh + self.timeout or self.flaw == "next host")
        good = {
            "machine": "diff_drive_trailer",
            "inputs": list(INPUTS),
            "command": "effort",
            "step": 1e-3,
            "speed": 1.0,
        }
        unusable = [name for name, value in good.items() if setup[name] != value]
        unusable += ["timeout"] * (not 0 < setup["timeout"] < math.inf) + ["limits"] * (setup["limits"]["U1"] < 0)
        if self.flaw == "status" or (unusable and f"any {unusable[0]}" != self.flaw):
            if self.flaw == "mute":
                return None
            self.running = False
            return self.say(b"status", setup, {"lifecycle": "fault", "fault": "too hot", "counts": {}, "values": {}})
        if owned and setup["src"] != self.setup["src"] and self.flaw != "stranger":
            return None
        late = setup["src"] == self.setup["src"] and setup["seq"] < self.setup["seq"]
        if (self.flaw == "again" and self.setup["run"] and not known) or (late and self.flaw != "late setup"):
            return None
        if self.flaw == "silent" and self.seq > 100:
            return None
        if not known:
            self.setup, self.running, self.began, self.k = setup, True, now, setup["k"]
            self.timeout = setup["timeout"] + (0.04 if self.flaw == "timeout + 40 ms" else 0.0)
            self.timeout = self.timeout if self.flaw == "own timeout" else min(self.timeout, 0.5)
            if setup["k"] == 0:
                self.x |= {name: value for name, value in setup["start"].items() if name not in ("V", "Omega")}
            self.fresh = self.moved = now
            self.u, self.taken = -0.02 if self.flaw in ("unsaid", BRAKES) else 0.0, -1
        return self.publish()

    def apply(self, applied: dict[str, Any]) -> None:
        strange = [name for name in ("run", "src") if applied[name] != self.setup[name]]
        if (strange and f"any {strange[0]}" != self.flaw) or not (self.running or self.flaw == "final"):
            return
        k, until, lockstep = applied["k"], applied["until"], self.setup["mode"] == "lockstep"
        if lockstep and self.flaw == "deaf" and until <= self.k:
            return
        if applied["final"] and self.flaw != "final":
            self.running, self.u = False, 0.0
            return
        if lockstep:
            self.fresh = self.now
            orders = {"another step": k == self.k, "back": until >= self.k, "leap": until <= self.k + 1_000_000}
            forward = all(good or flaw == self.flaw for flaw, good in orders.items()) and until != self.k
            if forward:
                self.u, self.taken, self.k = applied["input"]["U1"], applied["seq"], until
            if forward or (until == self.k and self.flaw != "once"):
                self.publish()
            return
        recent = self.now < self.sent.get(applied["state_seq"], -math.inf) + self.timeout or self.flaw == "old state"
        newer = applied["seq"] > self.taken or self.flaw == "older seq"
        newer |= applied["seq"] == self.taken and self.flaw == "same seq"
        if recent and newer and (math.isfinite(applied["input"]["U1"]) or self.flaw == "nan"):
            most = math.inf if self.flaw == "nolimit" else self.setup["limits"]["U1"]
            asked = max(-most, min(most, applied["input"]["U1"]))
            self.before, (self.u, self.taken) = (asked, self.taken), (
                self.before[0] if self.flaw == "one late" else asked, applied["seq"]
            )  # fmt: skip
            self.fresh = self.now

    def roll(self) -> None:
        now = self.now
        if now >= self.fresh + self.timeout and self.flaw != "timeout":
            self.u = 0.0
        h, self.moved, x, p = now - self.moved, now, self.x, self.setup["parameters"]
        x["X"] += h * x["V"] * math.cos(x["psi"])
        x["Y"] += h * x["V"] * math.sin(x["psi"])
        x["phi"] += h * (-x["V"] / p["b"] * math.sin(x["phi"]) - x["Omega"])
        x["psi"] += h * x["Omega"]
        x["theta1"] += h * (x["V"] - p["l"] * x["Omega"]) / p["r"]
        x["theta2"] += h * (x["V"] + p["l"] * x["Omega"]) / p["r"]
        if now - self.published > (0.05 if self.flaw == "rate" else 0.003):
            self.publish()

    def publish(self) -> None:
        self.published = self.now
        state: dict[str, Any] = dict(self.x)
        match self.flaw:
            case "sign":
                state["V"] = -state["V"]
            case "scale":
                state["psi"] = math.degrees(state["psi"])
            case "rest":
                state["Omega"] = 0.0
            case "wrapped":
                state["theta1"] = math.remainder(state["theta1"], 2 * math.pi)
            case "missing":
                del state["psi"]
            case "unknown":
                state["battery"] = 24.0
            case "size":
                state["X"] = [state["X"]]
            case "type":
                state["X"] = "far"
            case "infinite":
                state["X"] = math.inf
            case _:
                pass
        acting = {"motor": self.u} if self.flaw == "input" else dict.fromkeys(INPUTS, self.u)
        echo = {"no echo": -1, "late echo": self.before[1]}.get(self.flaw, self.taken)
        content = {"state": state, "input": acting, "control": False, "applied_seq": echo}
        if self.flaw == BRAKES and self.taken < 0:
            content["extra"] = {"machine_safe": 1.0}
        if self.flaw != "silent" or self.seq < 100:
            self.say(b"state", self.setup, content)
            self.sent[self.seq] = self.now

    def say(self, topic: bytes, setup: dict[str, Any], values: dict[str, Any]) -> None:
        self.seq += 1
        passed = self.now - self.began if self.setup["run"] else 0.0
        k = setup["k"] + int(passed / STEP * (2 if self.flaw == "pace" else 1))
        if self.flaw == "backwards" and self.seq % 20 == 0:
            k = max(k - 20, 0)
        k = setup["k"] if self.flaw == "stuck" else k
        if setup["mode"] == "lockstep" and self.flaw != "rolls":
            k = self.k
        head = {"t": passed if self.flaw == "t" else k * STEP, "k": k, "run": setup["run"], "src": 7}
        head |= {"seq": 5 if self.flaw == "seq" else self.seq, "mono": self.time.now, "node": "robot"}
        if self.flaw == "t":
            head["t"] += 3.0
        if self.flaw == "run":
            head["run"] = 4
        if self.flaw == "key":
            del head["k"]
        frames = [topic, msgpack.packb(head | values)]
        self.said.append([*frames, b""] if self.flaw == "frames" else frames)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A runtime folder of these tests' own, short: a socket's path has 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="sn", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(made))
        yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def closed_loop() -> ClosedLoop:
    return resolve(read_launch(LAUNCH), strict=False)


# flaw of the robot -> the finding's subject, what its line says
FLAWS = {
    "sign": ("sign", "X (-1.0"),
    "scale": ("scale", "psi (57"),
    "rest": ("rest", "psi moves while the velocities sent say that it rests"),
    "wrapped": ("wrapped", "theta1 begins a turn before its start; count turns on"),
    "nolimit": ("limits", "are not kept where"),
    "deaf": ("lockstep", "goes on after `final` in lockstep"),
    "rolls": ("lockstep", "is not answered by the state of that step"),
    "missing": ("state", "psi missing from the state; send every one of X, Y"),
    "unknown": ("state", "battery unknown in the state; send X, Y"),
    "size": ("state", "is not a number"),
    "type": ("type", "Expected `float | array`, got `str` - at `$.state[...]`"),
    "infinite": ("type", "message refused (non_finite)"),
    "key": ("type", "missing required field `k`"),
    "frames": ("frames", "a message has 3 frames"),
    "input": ("input", "reports motor as its inputs; report U1, U2"),
    "seq": ("seq", "seq does not grow"),
    "stuck": ("k", "k stays at 0 while states come"),
    "backwards": ("k", "k runs backwards"),
    "pace": ("k", "s of steps pass in a second"),
    "t": ("t", "send t = k * step"),
    "rate": ("rate", "publish one at least once a period"),
    "echo": ("echo", "take the newest one at once"),
    "no echo": ("echo", "applied_seq stays -1"),
    "run": ("run", "echo the run of the last setup"),
    "status": ("status", "the machine refuses the run: too hot"),
    "timeout": ("timeout", "inputs that stop coming end never, where 0.1 s were asked for"),
    "timeout + 40 ms": ("timeout", "s of its own steps, where 0.1 s were asked for"),
    "own timeout": ("own timeout", "gets more than 2 s; give the machine its own"),
    "any run": ("foreign run", "acts; take inputs of the run of the last setup alone"),
    "any src": ("foreign host", "acts; take inputs of the host alone that began the run"),
    "older seq": ("older seq", "acts; take an `applied` only if its seq is greater"),
    "same seq": ("same seq", "acts; take an `applied` only if its seq is greater"),
    "old state": (
        "old state",
        "acts; take an `applied` only if the state `state_seq` was sent less than `timeout` ago",
    ),
    "nan": ("nan", "acts; test inputs with isfinite before they are clamped"),
    "one late": ("echo", "no `applied` alone is reported as acting under its own seq"),
    "late echo": ("echo", "no `applied` alone is reported as acting under its own seq"),
    "late setup": ("late setup", "its seq is below that of the newest run; ignore it as late"),
    "next host": ("next host", "accept its setup then"),
    "silent": ("silent", "no setup is answered within 2 s any more"),
    "another step": ("lockstep", "goes on by an `applied` of another step"),
    "back": ("lockstep", "goes on by an `applied` that goes back"),
    "leap": ("lockstep", "goes on by an `applied` of more than 1 000 000 steps"),
    "once": ("lockstep", "up to the step it is at is not answered; send that state again"),
    "idle": ("lockstep", "let no timeout of inputs run in lockstep"),
    "mute": ("setup", "is not answered; answer what the machine cannot use with a `status`"),
    "stranger": ("stranger", "takes over the machine during a run"),
    "again": ("again", "a new run of the same src does not begin"),
    "unsaid": ("again", "a new run begins with an input that is not zero; apply zero until `applied` comes"),
    "final": ("final", "inputs act after `final`"),
    **{
        f"any {name}": ("setup", f"takes part in a run with {what}; answer")
        for name, what in {
            "timeout": "timeout = -1 s",
            "step": "step = 0",
            "speed": "speed = 2",
            "limits": "limits of -1",
            "machine": "another machine",
            "inputs": "other inputs",
            "command": 'command = "nothing"',
        }.items()
    },
}


def checked(closed_loop: ClosedLoop, flaw: str = "") -> Report:
    time = Time()
    report = Report("diff_drive_trailer", {"state": "paper.state", "applied": "paper.applied"})
    robot = Robot(time, flaw)
    with Host(closed_loop, lambda _: robot, time.clock, robot.wait) as host:
        Check(host, report, PLAN, "paper").go()
    assert time.now < 61e9  # it begins at 1 s: within a minute
    assert UNSEEN in report.text()
    return report


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_of_a_robot_is_named_with_its_remedy_in_one_line(closed_loop: ClosedLoop, flaw: str) -> None:
    subject, says = FLAWS[flaw]
    report = checked(closed_loop, flaw)
    found = [each.text for each in report.findings if each.subject == subject]
    assert any(says in text for text in found), report.text()
    assert not any("\n" in each.text for each in report.findings)
    assert report.as_dict()["verdict"] == "no"


def test_nothing_is_found_with_a_robot_that_keeps_to_the_page(closed_loop: ClosedLoop) -> None:
    report = checked(closed_loop)
    assert (report.findings, report.notes) == ([], []), report.text()


def test_a_run_may_begin_under_a_brake_of_the_machines_own_that_is_reported(closed_loop: ClosedLoop) -> None:
    report = checked(closed_loop, BRAKES)
    assert "again" not in {each.subject for each in report.findings}, report.text()


def test_nobody_there_is_said_with_both_addresses(folder: Path, closed_loop: ClosedLoop) -> None:
    addresses = (f"ipc://{folder}/nobody.state", f"ipc://{folder}/nobody.applied")
    with pytest.raises(NobodyThere, match=r"no machine answers at .*nobody\.state and .*nobody\.applied within 0\.1 s"):
        check_protocol(closed_loop, addresses, Plan(wait=0.1))
    assert not (folder / "nobody.applied").exists()


class InMemory(MemoryLink):
    """The robot of examples/ and the wire to it, which a host awaits in their time."""

    def __init__(self) -> None:
        self._queue = Events()
        super().__init__(ExternalWire(self._queue, External()))

    def clock(self) -> int:
        return self._queue.now

    def wait(self, _: Link, wait_ms: int) -> None:
        end = self._queue.now + wait_ms * MS
        while not self._wire.came and self._queue.now < end:
            self._queue.go(MS)


def test_the_example_keeps_to_the_page(closed_loop: ClosedLoop) -> None:
    wire, report = InMemory(), Report("diff_drive_trailer", {"state": "paper.state", "applied": "paper.applied"})
    with Host(closed_loop, lambda _: wire, wire.clock, wire.wait) as host:
        Check(host, report, PLAN, "paper").go()
    assert (report.findings, report.undecided, report.as_dict()["verdict"]) == ([], [], "yes"), report.text()
    assert {each.subject for each in report.notes} <= {"motion"}  # Y does not move along x


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "which machine? Give --launch FILE"),
        (["--machine", "diff_drive_trailer", "--launch", LAUNCH], "give --launch or --machine"),
        (["tcp://192.168.1.7:9873", "--launch", LAUNCH], "may be reached from other computers"),
        (["tcp://127.0.0.1:1", "tcp://127.0.0.1:2", "tcp://127.0.0.1:3"], "give one address"),
        (["--launch", LAUNCH, "--wait", "0.1"], "no machine answers at"),
        (["ipc:///tmp/nonsense.state"], "nonsense"),
    ],
)
def test_what_cannot_be_checked_is_one_line_and_exit_code_2(folder: Path, words: list[str], says: str) -> None:
    result = CliRunner().invoke(main, ["protocol", "check", *words])
    assert result.exit_code == 2
    assert says in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("given", "both"),
    [
        ("ipc:///tmp/robot", ["ipc:///tmp/robot.state", "ipc:///tmp/robot.applied"]),
        ("ipc:///tmp/robot.state", ["ipc:///tmp/robot.state", "ipc:///tmp/robot.applied"]),
        ("tcp://127.0.0.1:9873", ["tcp://127.0.0.1:9873", "tcp://127.0.0.1:9874"]),
    ],
)
def test_one_address_stands_for_both(closed_loop: ClosedLoop, given: str, both: list[str]) -> None:
    assert both_addresses(closed_loop, [given]) == both
