"""`servonode protocol check`: where an external plant departs from docs/protocol.md, found by talking to it.

The inputs that are sent are zero, or too small to move anything. What comes is kept with its time and judged
afterwards, by functions that know nothing of sockets.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from servonode.bus import Applied, Message, Setup, State, Status, check_address
from servonode.bus.messages import EXACT
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.driver_checks import driver_addresses
from servonode.closed_loop.launch_file import launch_of_table, read_launch
from servonode.errors import ServonodeError
from servonode.mechanics.description import unpacked
from servonode.mechanics.machine import Machine
from servonode.nodes.protocol_wires import Misfit, NobodyThere, Wire, ZmqWire
from servonode.plants.drivers.terms import Terms, terms_of

Array = npt.NDArray[np.float64]

NODE = "plant"  # what a host is called in its messages
RESEND_S = 0.1  # an unanswered setup is sent again
LATER_K = 100_000  # the step at which the second run begins
TINY = 1e-6  # of each input's unit: seen in what the machine reports, too little to move it
NUDGE = 0.1  # SI; the velocity at which a simulation starts, so that its signs can be seen
SPACING_S = 0.02  # between the states that are compared: much more than a step, much less than a turn
LEAST_PATH = 1e-3  # SI; less motion than this says nothing
PERIOD_S = 0.01  # where there is no controller
FEW = 0.8  # share of the states that are due
FACTORS = (0.8, 1.25)  # of a rate, within which it counts as right
PACE = 0.25  # by how much the machine's clock may seem to be wrong
LATE_S = 0.05  # an echo may take two periods, and this at least: computers are busy


class NoMachine(ServonodeError, ValueError):
    """It cannot be told which machine is meant, or where it is; the text has the remedy."""


@dataclass(frozen=True)
class Finding:
    """One departure from the page, with its remedy in the text."""

    subject: str
    text: str


@dataclass(frozen=True)
class Plan:
    """How long each part of the check takes [s, wall clock]."""

    wait: float = 5.0  # for the first answer
    observe: float = 1.0  # of free motion
    settle: float = 0.3  # for what must follow at once


@dataclass(kw_only=True)
class Found:
    """What was found, and what could not be judged."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)


@dataclass
class ProtocolReport(Found):
    """That of a machine at these two addresses."""

    machine: str
    state: str
    applied: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": "no" if self.findings else "yes"}

    def text(self) -> str:
        """For people: a line for each finding and each note."""
        rows = [("machine", f"{self.machine}, {self.state}, {self.applied}")]
        rows += [("NO", f"{each.subject}: {each.text}") for each in self.findings]
        rows += [("not judged", f"{each.subject}: {each.text}") for each in self.notes]
        rows.append(("verdict", "no" if self.findings else "yes"))
        return "\n".join(f"{key:<16} {text}" for key, text in rows)


@dataclass(frozen=True)
class Sample:
    """A good state, and when it came [monotonic ns]."""

    at: int
    state: State


# judging what was received


def judge_motion(machine: Machine, samples: Sequence[Sample], step: float) -> tuple[list[Finding], list[Finding]]:
    """Signs, scales and wrapped angles of the coordinates; findings, and what could not be judged.

    Each coordinate's motion is compared with the rate that the model gives it from the states that were sent.
    """
    description = machine.description
    samples = _apart(samples, round(SPACING_S / step))
    if len(samples) < 3:
        return [], [Finding("motion", "too few states came to compare them with the model")]
    x = np.array([unpacked(description.layout, each.state.state) for each in samples])
    t = np.array([each.state.k * step for each in samples])
    predicted = _increments(machine, samples, x, t)
    moved, names = np.diff(x, axis=0), description.state_names
    findings: list[Finding] = []
    kinds: dict[str, list[str]] = {"sign": [], "scale": [], "rest": []}
    still = []
    for i, name in enumerate(names):
        if name not in description.coordinates:
            continue
        if description.state[i].unit == "rad" and _unwrap(moved[:, i], predicted[:, i]):
            text = f"{name} jumps by a turn; count turns on and send the angle unwrapped"
            findings.append(Finding("wrapped", text))
        path, expected = float(np.abs(moved[:, i]).sum()), float(np.abs(predicted[:, i]).sum())
        if max(path, expected) < LEAST_PATH:
            still.append(name)
        elif expected < LEAST_PATH / 10:
            kinds["rest"].append(name)
        else:
            factor = float(moved[:, i] @ predicted[:, i] / (predicted[:, i] @ predicted[:, i]))
            if factor < -FACTORS[0] / 2:
                kinds["sign"].append(f"{name} ({factor:.2f})")
            elif not FACTORS[0] < factor < FACTORS[1]:
                kinds["scale"].append(f"{name} ({factor:.3g})")
    says = {
        "sign": "moves against the rate that the model gives it from the states sent (factor); reverse it, or the "
        "velocity it follows from",
        "scale": "moves at another rate than the model gives it from the states sent (factor: 1 is right, 57.3 is "
        "degrees); send SI units and radians, and check the parameters",
        "rest": "moves while the velocities sent say that it rests; send the velocities of the same instant",
    }
    findings += [Finding(kind, f"{', '.join(found)} {says[kind]}") for kind, found in kinds.items() if found]
    text = f"{', '.join(still)} stood still; move the machine by hand while it is checked"
    return findings, [Finding("motion", text)] if still else []


def _apart(samples: Sequence[Sample], steps: int) -> list[Sample]:
    """Those of the samples that lie at least so many steps apart; what runs backwards is judged elsewhere."""
    kept: list[Sample] = []
    for each in samples:
        if not kept or each.state.k - kept[-1].state.k >= max(steps, 1):
            kept.append(each)
    return kept


def _increments(machine: Machine, samples: Sequence[Sample], x: Array, t: Array) -> Array:
    """By how much the model lets each state change from sample to sample (n - 1, n_state)."""
    names = machine.description.input_names
    rates = np.array([
        machine.derivatives(
            at, np.append(row, 0.0), np.array([each.state.input.get(name, 0.0) for name in names])
        )[:-1]
        for at, row, each in zip(t, x, samples, strict=True)
    ])  # fmt: skip
    between: Array = (rates[:-1] + rates[1:]) / 2 * np.diff(t)[:, None]
    return between


def _unwrap(moved: Array, predicted: Array) -> bool:
    """Take whole turns out of an angle's changes; whether there were any."""
    turns = np.where(np.abs(moved) > np.pi, np.round((moved - predicted) / (2 * np.pi)), 0.0)
    moved -= 2 * np.pi * turns
    return bool(turns.any())


def judge_stamps(samples: Sequence[Sample], step: float, k: int) -> list[Finding]:
    """Whether k, t and seq count what they should; the run began at step k."""
    states, found = [each.state for each in samples], []
    pairs = list(pairwise(states))
    if any(b.seq <= a.seq for a, b in pairs):
        found.append(Finding("seq", "seq does not grow from state to state; count each message that is sent"))
    if any(b.k < a.k for a, b in pairs):
        found.append(Finding("k", "k runs backwards; number the machine's own steps, and never count back in a run"))
    if any(b.t < a.t for a, b in pairs):
        found.append(Finding("t", "t runs backwards; send t = k * step of the machine's own step"))
    elif wrong := [each for each in states if abs(each.t - each.k * step) > 1.5 * step]:
        text = f"t = {wrong[0].t:.9g} s where k * step = {wrong[0].k * step:.9g} s; send t = k * step"
        found.append(Finding("t", text))
    if states and states[0].k < k:
        found.append(Finding("k", f"the first state has k = {states[0].k}; number the steps from the setup's k = {k}"))
    wall = (samples[-1].at - samples[0].at) / 1e9 if samples else 0.0
    if wall > LATE_S and states[0].k == states[-1].k:
        found.append(Finding("k", f"k stays at {states[0].k} while states come; count a step each {step:g} s"))
    elif wall > LATE_S and not any(b.k < a.k for a, b in pairs) and abs(pace := _pace(samples, step) - 1) > PACE:
        found.append(Finding("k", f"{1 + pace:.2f} s of steps pass in a second; count a step each {step:g} s"))
    return found


def _pace(samples: Sequence[Sample], step: float) -> float:
    """Seconds of steps in a second of wall time, of the states with the least delay in the first and the last third.

    A busy computer makes messages late, never early.
    """
    at = np.array([each.at for each in samples]) / 1e9
    late = at - np.array([each.state.k for each in samples]) * step
    third = (at[-1] - at[0]) / 3
    begin, end = int(np.searchsorted(at, at[0] + third)), int(np.searchsorted(at, at[-1] - third))
    first, last = int(np.argmin(late[:begin])), end + int(np.argmin(late[end:]))
    return float(1 - (late[last] - late[first]) / (at[last] - at[first]))


def judge_rate(samples: Sequence[Sample], period: float, seconds: float) -> list[Finding]:
    """Whether at least one state came in each period."""
    due, came = seconds / period, len({each.state.k for each in samples})
    if came >= FEW * due:
        return []
    text = f"{came} new states in {seconds:.2g} s where {due:.0f} are due; publish one at least once a period"
    return [Finding("rate", f"{text} of {period:g} s")]


def judge_echo(sent: Sequence[tuple[int, int]], samples: Sequence[Sample], period: float) -> list[Finding]:
    """Whether `applied_seq` keeps up; sent: seq of each `applied`, and when it was sent [monotonic ns]."""
    delays, at = [], 0
    for seq, when in sent:
        while at < len(samples) and samples[at].state.applied_seq < seq:
            at += 1
        delays.append((samples[at].at - when) / 1e9 if at < len(samples) else np.inf)
    allowed = max(2 * period, LATE_S)
    late = float(np.median(delays)) if delays else 0.0
    if late <= allowed:
        return []
    if samples and samples[-1].state.applied_seq < 0:
        return [Finding("echo", "applied_seq stays -1; echo the seq of the newest `applied` the machine has taken")]
    how = "is never echoed" if late == np.inf else f"is echoed after {late * 1e3:.0f} ms"
    text = f"an `applied` {how} ({allowed * 1e3:.0f} ms are allowed); take the newest one at once, and drop older ones"
    return [Finding("echo", text)]


def judge_inputs(samples: Sequence[Sample], names: Sequence[str]) -> list[Finding]:
    """Whether the input that acts is reported by name, and is zero when zero was sent."""
    wanted = set(names)
    if wrong := [each.state for each in samples if each.state.input.keys() != wanted]:
        text = f"reports {', '.join(wrong[0].input) or 'nothing'} as its inputs; report {', '.join(names)}"
        return [Finding("input", text)]
    return []


# talking to it


class Host:
    """A host's end of the link: sends as one, and keeps what comes. A context manager.

    It has many attributes because all parts of the check ask it for the run, for what was sent and for what has come.
    """

    def __init__(self, closed_loop: ClosedLoop, wire: Wire) -> None:
        launch = closed_loop.launch
        watch = closed_loop.safety.command_timeout or launch.plant.safety.command_timeout_floor
        self.machine = closed_loop.machine
        self.names = closed_loop.machine.description.input_names
        self.period = (launch.period_ns or round(PERIOD_S * 1e9)) / 1e9
        self.terms = terms_of(
            closed_loop.machine, nudged(closed_loop), np.array(closed_loop.safety.limits.value), lockstep=False,
            step_ns=launch.step_ns, period=self.period, speed=1.0, timeout=watch, state_timeout=watch,
        )  # fmt: skip
        self.run, self.k = new_id(), 0
        self.src = new_id()
        self.samples: list[Sample] = []  # of this run
        self.sent: list[tuple[int, int]] = []  # seq of each applied of this run, and when it was sent
        self.others: set[int] = set()  # runs of states that are not of this run
        self.refused: dict[tuple[str, str], int] = {}  # what was no message or no state: subject and text, how often
        self.faults: dict[int, str] = {}  # what the machine said of a run
        self._seq = 0
        self._wire = wire

    def __enter__(self) -> "Host":
        self._wire.open()
        return self

    def __exit__(self, *raised: object) -> None:
        for _ in range(2):  # nobody answers the last message
            self.apply(0.0, final=True)
        self._wire.close()

    def begin(self, run: int, k: int = 0) -> None:
        """From now on this is the run."""
        self.run, self.k = run, k
        self.samples, self.sent = [], []

    def setup(self, run: int, src: int, **changes: Any) -> None:
        """Ask for a run."""
        terms: Terms = self.terms
        values: dict[str, Any] = {
            "machine": terms.machine, "mode": "realtime", "step": terms.step_ns / 1e9, "period": terms.period,
            "speed": terms.speed, "timeout": terms.timeout, "inputs": list(self.names), "limits": dict(terms.limits),
            "parameters": dict(terms.parameters), "start": dict(terms.start), "k": self.k,
        } | changes  # fmt: skip
        self._wire.send("setup", Setup(**self._header(run, src), **values))

    def apply(self, value: float, final: bool = False) -> None:
        """Send this value as every input."""
        message = self.applied(value, final=final)
        self.sent.append((message.seq, message.mono))
        self._wire.send("applied", message)

    def applied(self, value: float, final: bool = False, run: int = 0, src: int = 0) -> Applied:
        """The next `applied` with this value as every input, of this run and host if no other is given."""
        inputs = dict.fromkeys(self.names, value)
        return Applied(
            **self._header(run or self.run, src or self.src), k=self.k, input=inputs, desired=inputs, re=-1,
            reasons=[], repeats=0, state_seq=self.samples[-1].state.seq if self.samples else -1, final=final,
        )  # fmt: skip

    def _header(self, run: int, src: int) -> dict[str, Any]:
        self._seq += 1
        t = self.k * self.terms.step_ns / 1e9
        return {"t": t, "seq": self._seq, "run": run, "mono": time.monotonic_ns(), "node": NODE, "src": src}

    def listen(
        self,
        seconds: float,
        until: Callable[[], bool] = lambda: False,
        each: Callable[[], None] | None = None,
        every: float = RESEND_S,
    ) -> bool:
        """Take what comes for so long [s, wall clock], doing `each` every so often; whether `until` came to hold."""
        now = time.monotonic()
        end, due = now + seconds, now
        while now < end and not until():
            if each is not None and now >= due:
                each()
                due = max(due + every, now)
            wait = min(end, due if each is not None else end) - time.monotonic()
            for each_one in self._wire.receive(max(int(wait * 1e3), 1)):
                self._take(each_one, time.monotonic_ns())
            now = time.monotonic()
        return until()

    def drive(self, value: float, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Listen with a fresh input each period."""
        return self.listen(seconds, until, lambda: self.apply(value), self.period)

    def _take(self, message: Message | Misfit, now: int) -> None:
        if isinstance(message, Misfit):
            self._refuse(message.subject, message.text)
        elif isinstance(message, Status) and message.lifecycle == "fault":
            self.faults[message.run] = message.fault
        elif isinstance(message, State) and message.run != self.run:
            self.others.add(message.run)
        elif isinstance(message, State) and not (problem := misshapen(self.machine, message)):
            self.samples.append(Sample(now, message))
        elif isinstance(message, State):
            self._refuse("state", problem)

    def _refuse(self, subject: str, text: str) -> None:
        self.refused[subject, text] = self.refused.get((subject, text), 0) + 1


def new_id() -> int:
    return secrets.randbelow(EXACT - 1) + 1


def nudged(closed_loop: ClosedLoop) -> Array:
    """The initial condition, moving: only a simulation takes it. Where velocities depend on each other, as it is."""
    description, x = closed_loop.machine.description, closed_loop.start.copy()
    if description.held or description.stabilised:
        return x
    for i, name in enumerate(description.state_names):
        if name in description.velocities and abs(x[i]) < NUDGE:
            x[i] = NUDGE
    return x


def misshapen(machine: Machine, state: State) -> str:
    """What is wrong with the names and sizes of a state; empty: nothing."""
    wanted = [name for name, _ in machine.description.layout]
    if missing := [name for name in wanted if name not in state.state]:
        return f"{', '.join(missing)} missing from the state; send every one of {', '.join(wanted)}"
    if unknown := [name for name in state.state if name not in wanted]:
        return f"{', '.join(unknown)} unknown in the state; send {', '.join(wanted)} and no other"
    try:
        unpacked(machine.description.layout, state.state)
    except ValueError as error:
        return f"{error}; send it so"
    return ""


def meant(file: str | None, machine: str | None, addresses: Sequence[str], overrides: Sequence[str]) -> ClosedLoop:
    """The closed loop of the launch file, or of a machine alone, which the name of a socket may tell.

    Raises:
        NoMachine: neither is given, or both; and what `resolve` raises.
    """
    if file is not None and machine is not None:
        raise NoMachine("a launch file names its machine; give --launch or --machine")
    if file is not None:
        return resolve(read_launch(file, overrides), strict=False)
    if machine is None and addresses and addresses[0].startswith("ipc://"):
        machine = Path(addresses[0]).name.removesuffix(".state").removesuffix(".applied")
    if machine is None:
        raise NoMachine("which machine? Give --launch FILE, --machine NAME, or the address ipc:///FOLDER/NAME.state")
    table = {"run": {"duration": 1.0}, "plant": {"machine": machine, "driver": "external"}}
    return resolve(launch_of_table(table, overrides, name=machine), strict=False)


def both_addresses(closed_loop: ClosedLoop, given: Sequence[str]) -> list[str]:
    """The addresses of states and of what is applied; one that is given stands for both, as the page says.

    Raises:
        NoMachine: an address cannot be used.
    """
    if not given:
        outside = replace(closed_loop.launch, plant=replace(closed_loop.launch.plant, driver="external"))
        return list(driver_addresses(outside, closed_loop.machine.description.name))
    addresses = list(given) if len(given) > 1 else _pair_of(given[0])
    for address in addresses:
        if problem := check_address(address):
            raise NoMachine(problem)
    return addresses


def _pair_of(address: str) -> list[str]:
    """NAME.state and NAME.applied of ipc:///FOLDER/NAME, or a tcp port and the next one."""
    if address.startswith("ipc://"):
        stem = address.removesuffix(".state").removesuffix(".applied")
        return [f"{stem}.state", f"{stem}.applied"]
    host, _, port = address.rpartition(":")
    return [address, f"{host}:{int(port) + 1}"] if port.isdecimal() else [address, address]


def check_protocol(closed_loop: ClosedLoop, addresses: Sequence[str], plan: Plan | None = None) -> ProtocolReport:
    """Talk to the machine at these addresses (its states, what is applied), and say what was found.

    Raises:
        NobodyThere: nothing was received, or the address of `applied` is in use.
    """
    state, applied = addresses
    report = ProtocolReport(closed_loop.machine.description.name, state, applied)
    with Host(closed_loop, ZmqWire(state, applied)) as host:
        Check(host, report, plan or Plan(), f"{state} and {applied}").go()
    return report


class Check:
    """The parts of the check, one after the other. where: the place of the machine, with what was found out about it.

    It has a method for each part, so that what is like a machine in another process can be checked by the same parts.
    """

    def __init__(self, host: Host, report: Found, plan: Plan, where: str) -> None:
        self.host, self.report, self.plan, self.where = host, report, plan, where
        self.step = host.terms.step_ns / 1e9

    def go(self) -> None:
        if self.begin():
            self.observe()
            self.fall_silent()
            self.try_second_host()
            self.begin_again()
            self.end()
            self.try_unusable_setup()
        for (subject, text), times in self.host.refused.items():
            self.find(subject, f"{text} ({times} times)")

    def find(self, subject: str, text: str) -> None:
        self.report.findings.append(Finding(subject, text))

    def note(self, subject: str, text: str) -> None:
        self.report.notes.append(Finding(subject, text))

    def reports(self, value: float, after: int) -> bool:
        """Whether a state that came after this time [monotonic ns] reports this as its inputs."""
        values = (each.state.input.values() for each in reversed(self.host.samples) if each.at > after)
        return any(found and all(abs(u - value) < 0.1 * TINY for u in found) for found in values)

    def begin(self) -> bool:
        """Whether a good state answers the handshake."""
        host, run, src = self.host, self.host.run, self.host.src
        answered = host.listen(
            self.plan.wait, lambda: bool(host.samples) or run in host.faults, lambda: host.setup(run, src)
        )
        if run in host.faults:
            self.find("status", f"the machine refuses the run: {host.faults[run]}; fix that, or check another machine")
        elif not answered and not (host.refused or host.others or host.faults):
            raise NobodyThere(f"no machine answers at {self.where} within {self.plan.wait:g} s; start it there")
        elif not answered and host.others:
            self.find("run", "states come, but of no run that was asked for; echo the run of the last setup")
        return answered and run not in host.faults

    def observe(self) -> None:
        """Free motion under zero input: stamps, rate, echo, and the states against the model."""
        host = self.host
        del host.samples[:-1], host.sent[:]
        host.drive(0.0, self.plan.observe)
        due = [each for each in host.sent if each[1] < time.monotonic_ns() - round(LATE_S * 2e9)]
        findings, notes = judge_motion(host.machine, host.samples, self.step)
        self.report.findings += [
            *judge_stamps(host.samples, self.step, host.k),
            *judge_rate(host.samples, host.period, self.plan.observe),
            *judge_echo(due, host.samples, host.period),
            *judge_inputs(host.samples, host.names),
            *findings,
        ]
        self.report.notes += notes
        if len({each.state.src for each in host.samples}) > 1:
            self.find("src", "src changes from state to state; take a new number only at the program's start")

    def fall_silent(self) -> None:
        """Inputs that stop coming: after the timeout they must not act any more."""
        host, settle, timeout = self.host, self.plan.settle, self.host.terms.timeout
        begun = time.monotonic_ns()
        if not host.drive(TINY, settle + timeout, lambda: self.reports(TINY, begun)):
            text = f"inputs of {TINY:g} are not reported as acting (rounded, or measured?); watch it fall silent by eye"
            return self.note("timeout", text)
        silent = time.monotonic_ns()
        host.listen(timeout + settle)
        if self.reports(TINY, silent + round((timeout + settle / 2) * 1e9)):
            text = f"its inputs still act {settle / 2:g} s after the timeout of {timeout:g} s; set them to zero when no"
            self.find("timeout", f"{text} fresh `applied` comes")
        again = time.monotonic_ns()
        if not host.drive(TINY, settle + timeout, lambda: self.reports(TINY, again)):
            self.find("timeout", "a fresh `applied` after a silence does not act; the run goes on after a timeout")
        return None

    def try_second_host(self) -> None:
        """A setup of another host while this one drives."""
        host, stranger, src = self.host, new_id(), new_id()
        host.drive(0.0, 2 * host.period)
        host.others.discard(stranger)
        asked = time.monotonic_ns()
        host.setup(stranger, src)
        host.drive(0.0, self.plan.settle)
        if stranger in host.others:
            text = "a setup of another src takes the machine over while a run goes on; let the first host keep it"
            self.find("stranger", f"{text} until `final` or the timeout")
        elif not any(each.at > asked + round(self.plan.settle * 5e8) for each in host.samples):
            self.find("stranger", "a setup of another src ends the states of the run; ignore it while a run goes on")

    def begin_again(self) -> None:
        """A new run of the same host, as after each arming; its steps begin elsewhere."""
        host = self.host
        host.begin(new_id(), LATER_K)
        run = host.run
        if not host.listen(self.plan.wait, lambda: bool(host.samples), lambda: host.setup(run, host.src)):
            return self.find("again", "a new run of the same src is not begun; take each new run of the host")
        first = host.samples[0].state
        if first.applied_seq != -1:
            self.find("again", f"a new run begins with applied_seq = {first.applied_seq}; begin with -1")
        if any(first.input.values()):
            self.find("again", "a new run begins with an input that is not zero; apply zero until `applied` comes")
        if first.k < LATER_K:
            text = f"a run that begins at k = {LATER_K} is answered with k = {first.k}; number the steps from there"
            self.find("again", text)
        return None

    def end(self) -> None:
        """`final`: nothing acts any more, whatever comes of this run."""
        host, settle = self.host, self.plan.settle
        begun = time.monotonic_ns()
        if not host.drive(TINY, settle, lambda: self.reports(TINY, begun)):
            return
        for _ in range(2):
            host.apply(0.0, final=True)
        ended = time.monotonic_ns() + round(settle * 5e8)
        host.drive(TINY, settle)
        host.listen(settle, lambda: self.reports(TINY, ended), lambda: host.setup(host.run, host.src))
        if self.reports(TINY, ended):
            self.find("final", "inputs act after `final`; set them to zero, and wait for the next setup")

    def try_unusable_setup(self) -> None:
        """A setup whose timeout makes no sense."""
        host, settle = self.host, self.plan.settle
        host.begin(new_id())
        host.setup(host.run, host.src, timeout=-1.0)
        if host.listen(settle, lambda: bool(host.samples)):
            self.find("setup", "takes part in a run with timeout = -1 s; answer unusable numbers with a `status`")
