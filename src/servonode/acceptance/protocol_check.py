"""`servonode protocol check`: test an external plant against docs/reference/protocol.md by exchanging messages with it.

The inputs that are sent are zero, or too small to move anything. Messages are kept with their times and judged
afterwards, by functions without sockets.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from servonode.acceptance.protocol_host import Host, new_id
from servonode.acceptance.protocol_judges import (
    LATE_S,
    Finding,
    acts_itself,
    judge_echo,
    judge_inputs,
    judge_motion,
    judge_pace,
    judge_rate,
    judge_sensors,
    judge_stamps,
)
from servonode.acceptance.protocol_wires import LinkWire, NobodyThere, Wire, ZmqWire
from servonode.bus import check_address
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.connection import connection_of
from servonode.closed_loop.launch_file import launch_of_table, read_launch
from servonode.errors import ServonodeError

LATER_K = 100_000  # the step at which the second run begins
NEAR = 0.02  # share of a limit by which it may be passed, as by rounding
TINY = 1e-6  # of each input's unit: seen in what the machine reports, too little to move it
NOT_REPORTED = (
    f"inputs of {TINY:g} are not reported as acting (rounded, or measured?); check by eye that it falls silent"
)
TRIES = 3  # of a part during which this computer was late, each twice as patient as the one before


class NoMachine(ServonodeError, ValueError):
    """The machine or its address is not given; the text has the remedy."""


@dataclass(frozen=True)
class Plan:
    """The duration of each part of the check [s, wall clock]."""

    wait: float = 5.0  # for the first answer
    observe: float = 1.0  # of motion under zero input
    settle: float = 0.3  # for effects that must follow at once


@dataclass(kw_only=True)
class Found:
    """What was found, what could not be judged, and what this computer was too late to judge.

    proven: what was seen to be right.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    undecided: list[Finding] = field(default_factory=list)
    proven: list[Finding] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """yes; no; or undecided, where nothing was found, but not everything could be tested."""
        return "no" if self.findings else "undecided" if self.undecided else "yes"

    def rows(self) -> list[tuple[str, str]]:
        """For people: a line for each finding, each proof, each note."""
        kinds = {"yes": self.proven, "NO": self.findings, "undecided": self.undecided, "not judged": self.notes}
        return [(word, f"{each.subject}: {each.text}") for word, found in kinds.items() for each in found]


AGAIN = "run this again while this computer has nothing else to do"


@dataclass
class ProtocolReport(Found):
    """The findings on a machine at these two addresses."""

    machine: str
    state: str
    applied: str

    def as_dict(self) -> dict[str, Any]:
        found = asdict(self) | {"verdict": self.verdict}
        del found["proven"]  # the check of a protocol proves nothing
        return found

    def text(self) -> str:
        """For people: a line for each finding and each note."""
        rows = [("machine", f"{self.machine}, {self.state}, {self.applied}"), *self.rows()]
        rows.append(("verdict", f"undecided: {AGAIN}" if self.verdict == "undecided" else self.verdict))
        return "\n".join(f"{key:<16} {text}" for key, text in rows)


def meant(file: str | None, machine: str | None, addresses: Sequence[str], overrides: Sequence[str]) -> ClosedLoop:
    """The closed loop of the launch file, or of a machine alone, whose name a socket's address may contain.

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
    """The addresses of states and of applied inputs; from one given address the other follows, as in protocol.md.

    Raises:
        NoMachine: an address cannot be used.
    """
    key = closed_loop.launch.plant.device.key
    if not given:
        launch = closed_loop.launch
        outside = structs.replace(launch, plant=structs.replace(launch.plant, driver="external"))
        addresses = list(connection_of(outside).addresses(closed_loop.machine.description.name))
    else:
        addresses = list(given) if len(given) > 1 else _pair_of(given[0])
    for address in addresses:
        if problem := check_address(address, far=bool(key)):
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
    """Exchange messages with the machine at these addresses (of states, of applied inputs); returns the report.

    Raises:
        NobodyThere: nothing was received, or the address of `applied` is in use.
    """
    state, applied = addresses
    report = ProtocolReport(closed_loop.machine.description.name, state, applied)
    with Host(closed_loop, _wire(closed_loop, state, applied)) as host:
        Check(host, report, plan or Plan(), f"{state} and {applied}").go()
    return report


def _wire(closed_loop: ClosedLoop, state: str, applied: str) -> Wire:
    """The connection to the machine, with keys where the launch file names the machine's."""
    key = closed_loop.launch.plant.device.key
    if not key:
        return ZmqWire(state, applied)
    from servonode.bus.curve import Authenticator
    from servonode.bus.keys import KeyStore
    from servonode.bus.secure_link import SecureLink

    keys = Authenticator(KeyStore(), closed_loop.own_key)
    return LinkWire(SecureLink(state, applied, keys, key), "see the tables of the protocol's page")


class Check:
    """The parts of the check, one after the other. where: the place of the machine, for people.

    It has a method for each part, so that what is like a machine in another process can be checked by the same parts.

    What a machine's own stamps prove is found at once (`find`). What did not come in time (`miss`) may be the fault of
    this computer: where it was late meanwhile, the part is tried again, and in the end it is undecided.
    """

    def __init__(self, host: Host, report: Found, plan: Plan, where: str) -> None:
        self.host, self.report, self.plan, self.where = host, report, plan, where
        self.step = host.context.step_ns / 1e9
        self.final = -1  # number of the first message that ended a run
        self.missed: list[tuple[list[Finding], Finding]] = []  # in this part: what it is if this computer was in time

    @property
    def parts(self) -> Sequence[Callable[[], None]]:
        """The parts, in order."""
        return (
            self.observe, self.fall_silent, self.keep_limits, self.try_second_host, self.begin_again, self.end,
            self.turn_on, self.try_lockstep, self.try_unusable_setup, self.try_unknown_command,
        )  # fmt: skip

    def go(self) -> None:
        """All parts."""
        if self.begin():
            for part in self.parts:
                self.do(part)
        for (subject, text), times in self.host.refused.items():
            self.find(subject, f"{text} ({times} times)")

    def do(self, part: Callable[[], None]) -> None:
        """A part, again while this computer is late."""
        plan, report = self.plan, self.report
        kinds = (report.findings, report.notes, report.proven)
        late, certain = 0.0, False
        for number in range(1, TRIES + 1):
            begun, sizes, self.missed = self.host.clock(), [len(each) for each in kinds], []
            part()
            late, gap = self.host.late_s(begun), self.host.gap_s(begun)
            certain = len(report.findings) > sizes[0]
            if not self.missed or certain or number == TRIES or max(late, gap) < LATE_S:
                break
            for each, size in zip(kinds, sizes, strict=True):
                del each[size:]
            self.plan = replace(plan, settle=2 * self.plan.settle, observe=2 * self.plan.observe)
            self.new_run()
        self.plan = plan
        for kind, missed in self.missed:
            if late < LATE_S:
                kind.append(missed)
            elif not certain:
                text = f"{missed.text} (this computer was late by {late * 1e3:.0f} ms meanwhile: {AGAIN})"
                report.undecided.append(Finding(missed.subject, text))

    def new_run(self, **changes: Any) -> bool:
        """Whether a run on other terms begins."""
        host = self.host
        host.begin(new_id(), host.samples[-1].state.k if host.samples else 0)
        run = host.run
        return host.listen(self.plan.wait, lambda: bool(host.samples), lambda: host.setup(run, host.src, **changes))

    def find(self, subject: str, text: str) -> None:
        self.report.findings.append(Finding(subject, text))

    def note(self, subject: str, text: str) -> None:
        self.report.notes.append(Finding(subject, text))

    def miss(self, subject: str, text: str, kind: list[Finding] | None = None) -> None:
        """What was not seen in time: a finding, or one of this kind, unless this computer was late."""
        self.missed.append((self.report.findings if kind is None else kind, Finding(subject, text)))

    def reports(self, value: float, after: int = -1, seq: int = -1, k: float = 0) -> bool:
        """Whether a state reports this as its inputs.

        after: one that came after this time [monotonic ns]; seq: that has taken this `applied`, or a later one; k: of
        this step or a later one.
        """
        found = (
            each.state.input.values() for each in reversed(self.host.samples)
            if each.at > after and each.state.applied_seq >= seq and each.state.k >= k
        )  # fmt: skip
        return any(values and all(abs(u - value) < 0.1 * TINY for u in values) for values in found)

    def acts(self, value: float, within_s: float | None = None) -> bool:
        """Whether this value is reported as acting soon, sent each period."""
        seq = self.host.next_seq
        return self.host.drive(value, within_s or self.plan.settle, lambda: self.reports(value, seq=seq))

    def taken_k(self, seq: int) -> int | None:
        """The step of the first state that has taken this `applied`, or a later one; None: none has come."""
        return next((each.state.k for each in self.host.samples if each.state.applied_seq >= seq), None)

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
            self.find("run", "states come, but not of the requested run; echo the run of the last setup")
        return answered and run not in host.faults

    def observe(self) -> None:
        """Judge the motion under zero input: stamps, rate, echo, and the states against the model."""
        host = self.host
        del host.samples[:-1], host.sent[:]
        host.drive(0.0, self.plan.observe)
        due = [each for each in host.sent if each[1] < host.clock() - round(LATE_S * 2e9)]
        findings, notes = (
            judge_sensors(host.samples, host.silence) if host.sensors
            else judge_motion(host.machine, host.samples, self.step)
        )  # fmt: skip
        self.report.findings += [
            *judge_stamps(host.samples, self.step, host.k),
            *judge_inputs(host.samples, host.names),
            *findings,
        ]
        by_our_clock = (
            *judge_pace(host.samples, self.step),
            *judge_rate(host.samples, host.period, self.plan.observe),
            *judge_echo(due, host.samples, host.period),
        )
        for each in by_our_clock:
            self.miss(each.subject, each.text)
        self.report.notes += notes
        if len({each.state.src for each in host.samples}) > 1:
            self.find("src", "src changes from state to state; take a new number only at the program's start")

    def fall_silent(self) -> None:
        """Stop sending inputs: after the timeout they must not act any more."""
        host, settle, timeout = self.host, self.plan.settle, self.host.context.timeout
        if not self.acts(TINY, settle + timeout):
            return self.miss("timeout", NOT_REPORTED, self.report.notes)
        last, silent = host.sent[-1]
        host.listen(timeout + settle)
        taken, longest = self.taken_k(last), (timeout + settle / 2) / self.step
        text = f"its inputs still act {settle / 2:g} s after the timeout of {timeout:g} s; set them to zero when no "
        if taken is not None and self.reports(TINY, seq=last, k=taken + longest):
            self.find("timeout", f"{text}fresh `applied` comes")
        elif self.reports(TINY, after=silent + round((timeout + settle / 2) * 1e9)):
            self.miss("timeout", f"{text}fresh `applied` comes")
        if not self.acts(TINY, settle + timeout):
            self.miss("timeout", "a fresh `applied` after a silence does not act; let the run continue after a timeout")
        return None

    def keep_limits(self) -> None:
        """Ask for inputs beyond a limit of the host, which must be clamped."""
        host, most = self.host, TINY / 2
        if not self.new_run(limits=dict.fromkeys(host.names, most)):
            return self.miss("again", "a new run of the same host does not begin; accept each new run of the host")
        seq = host.next_seq
        kept = self.clamps(TINY, most) and self.clamps(-TINY, -most)
        text = (
            f"limits of {most:g} are not kept where {TINY:g} and -{TINY:g} are asked for; clamp each input from both "
        )
        text += "sides to the smaller of the host's limit and the machine's own, before it acts"
        taken = [
            u for each in host.samples if each.state.applied_seq >= seq and not acts_itself(each.state)
            for u in each.state.input.values()
        ]  # fmt: skip
        if any(abs(u) > most * (1 + NEAR) for u in taken):
            self.find("limits", text)
        elif not kept:
            self.miss("limits", text)
        return None

    def clamps(self, asked: float, acting: float) -> bool:
        """Whether this is soon reported as acting where that is asked for."""
        seq = self.host.next_seq
        return self.host.drive(asked, self.plan.settle, lambda: self.reports(acting, seq=seq))

    def try_lockstep(self) -> None:
        """Judge a run in lockstep: steps only when asked, to where asked, the end, and a second run after it."""
        host, settle = self.host, self.plan.settle
        if not self.new_run(mode="lockstep"):
            if host.run in host.faults:
                self.note("lockstep", f"the machine refuses it ({host.faults[host.run]})")
            else:
                self.miss(
                    "lockstep", "a setup with mode lockstep is not answered; take part, or refuse it by a `status`"
                )
            return None
        steps = max(round(host.period / self.step), 1)
        for _ in range(3):
            if not self.goes_to(host.samples[-1].state.k + steps, self.plan.wait):
                text = "`applied` with `until` is not answered by the state of that step; go there, then send the state"
                return self.miss("lockstep", text)
        here = host.samples[-1].state.k
        host.listen(settle, lambda: any(each.state.k > here for each in host.samples))
        if host.samples[-1].state.k > here:
            self.find("lockstep", "steps pass in lockstep although no `applied` asks for them; wait for the next one")
        for _ in range(2):
            host.apply(0.0, final=True)
        if self.goes_to(here + steps, settle):
            text = "goes on after `final` in lockstep; `final` counts whatever its `until` is"
            self.find("lockstep", text)
        if not self.new_run(mode="lockstep"):
            text = "a second run in lockstep is not answered; after `final` wait for the next setup"
            self.miss("lockstep", text)
        for _ in range(2):
            host.apply(0.0, final=True)
        return None

    def goes_to(self, until: int, within_s: float) -> bool:
        """Whether the machine goes to a step in lockstep, asked again as servonode asks."""
        host = self.host
        host.k = host.samples[-1].state.k
        order = host.applied(0.0, until=until)

        def arrived() -> bool:
            return host.samples[-1].state.k == until

        came = host.listen(within_s, arrived, lambda: host.send(order))
        host.k = host.samples[-1].state.k
        return came

    def turn_on(self) -> None:
        """Start a simulation a whole turn further: an angle that is wrapped begins elsewhere."""
        host, description = self.host, self.host.machine.description
        quantities = dict(zip(description.state_names, description.state, strict=True))
        angles = [name for name in description.coordinates if quantities[name].unit == "rad"]
        start = {name: value for name, value in host.context.start_values.items() if isinstance(value, float)}
        angles = [name for name in angles if name in start]
        if not angles or host.sensors:
            return None
        beyond = {name: start[name] + 2 * math.pi for name in angles}
        host.begin(new_id())
        run = host.run
        if not host.listen(
            self.plan.wait, lambda: bool(host.samples),
            lambda: host.setup(run, host.src, start={**host.context.start_values, **beyond}),
        ):  # fmt: skip
            return self.miss("again", "a new run of the same src does not begin; accept each new run of the host")
        first = host.samples[0].state.state
        off = {name: beyond[name] - float(first[name]) for name in angles}  # type: ignore[arg-type]
        wrapped = [name for name in angles if abs(off[name]) > 1.0 and abs(math.remainder(off[name], math.tau)) < 0.5]
        others = [name for name in angles if abs(off[name]) > 1.0 and name not in wrapped]
        if wrapped and not others:
            text = f"{', '.join(wrapped)} begins a turn before its start; count turns on and send the angle unwrapped"
            self.find("wrapped", text)
        elif wrapped or others:
            text = (
                f"whether {', '.join(angles)} count turns on: the machine does not take the start of a run; turn them "
            )
            self.note("wrapped", f"{text}by hand while it is checked")
        return None

    def try_second_host(self) -> None:
        """Send a setup of another host, which must have no effect while this one drives."""
        host, stranger, src = self.host, new_id(), new_id()
        host.drive(0.0, 2 * host.period)
        host.others.discard(stranger)
        asked = host.clock()
        host.setup(stranger, src)
        host.drive(0.0, self.plan.settle)
        if stranger in host.others:  # it may where our inputs came too late for its timeout
            text = "a setup of another src takes over the machine during a run; let the first host keep it"
            self.miss("stranger", f"{text} until `final` or the timeout")
        elif not any(each.at > asked + round(self.plan.settle * 5e8) for each in host.samples):
            self.miss("stranger", "a setup of another src ends the states of the run; ignore it during a run")

    def begin_again(self) -> None:
        """Begin a new run of the same host, as after each arming, at another step."""
        host = self.host
        host.begin(new_id(), LATER_K)
        run = host.run
        if not host.listen(self.plan.wait, lambda: bool(host.samples), lambda: host.setup(run, host.src)):
            return self.miss("again", "a new run of the same src does not begin; accept each new run of the host")
        first = host.samples[0].state
        if first.applied_seq != -1:
            self.find("again", f"a new run begins with applied_seq = {first.applied_seq}; begin with -1")
        if any(first.input.values()) and not acts_itself(first):
            text = "a new run begins with an input that is not zero; apply zero until `applied` comes"
            self.find("again", text)
        if first.k < LATER_K:
            text = f"a run that begins at k = {LATER_K} is answered with k = {first.k}; number the steps from there"
            self.find("again", text)
        return None

    def end(self) -> None:
        """Send `final`, after which no input of this run may act."""
        host, settle = self.host, self.plan.settle
        if not self.acts(TINY):
            return self.miss("final", NOT_REPORTED, self.report.notes)
        self.final = host.next_seq
        for _ in range(2):
            host.apply(0.0, final=True)
        ended = host.clock() + round(settle * 5e8)
        host.drive(TINY, settle)
        host.listen(settle, lambda: self.reports(TINY, ended), lambda: host.setup(host.run, host.src))
        text = "inputs act after `final`; set them to zero, and wait for the next setup"
        if self.reports(TINY, seq=self.final):
            self.find("final", text)
        elif self.reports(TINY, ended):
            self.miss("final", text)
        return None

    def try_unusable_setup(self) -> None:
        """Send a setup with an invalid timeout, which must be refused."""
        host, settle = self.host, self.plan.settle
        host.begin(new_id())
        host.setup(host.run, host.src, timeout=-1.0)
        if host.listen(settle, lambda: bool(host.samples)):
            self.find("setup", "takes part in a run with timeout = -1 s; answer unusable numbers with a `status`")

    def try_unknown_command(self) -> None:
        """Send a setup for drives that take what no drive takes, which must be refused."""
        host = self.host
        host.begin(new_id())
        host.setup(host.run, host.src, command="nothing")
        if host.listen(self.plan.settle, lambda: bool(host.samples)):
            text = 'takes part in a run with command = "nothing", and would take speeds for forces; answer each '
            self.find("command", f"{text}`command` but its own with a `status`")
