"""`servonode protocol check`: test an external plant against docs/reference/protocol.md by exchanging messages with it.

The inputs that are sent are zero, or too small to move anything. Messages are kept with their times and judged
afterwards, by functions without sockets.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from msgspec import structs

from servonode.bus import State, check_address, clear_devices_folder
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.connection import connection_of
from servonode.closed_loop.launch_file import launch_of_table, read_launch
from servonode.errors import ServonodeError
from servonode.plants.drivers.external import external_link
from servonode.wings.acceptance.protocol_host import Host, NobodyThere, new_id
from servonode.wings.acceptance.protocol_judges import (
    LATE_S,
    Finding,
    Sample,
    acts_itself,
    judge_echo,
    judge_inputs,
    judge_motion,
    judge_pace,
    judge_rate,
    judge_sensors,
    judge_stamps,
)
from servonode.wings.acceptance.trials import APPLIED, IGNORED, SETUPS, UNSEEN, UNUSABLE, UNUSABLE_MESSAGES, Trial

AGAIN_S = 5.0  # for a further run; a machine that answers none is silent
LATER_K = 100_000  # the step at which the second run begins
NEAR = 0.02  # share of a limit by which it may be passed, as by rounding
TINY = 1e-6  # of each input's unit: seen in what the machine reports, too little to move it
NOT_REPORTED = (
    f"inputs of {TINY:g} are not reported as acting (rounded, or measured?); try it by hand, under small limits"
)
LONGER = 0.1  # share of a timeout by which an input may act longer,
STEPS = 3  # and steps
LONGEST_S = 2.0  # that a machine may wait for an input, whatever a host asks for
ABSURD_S = 1e6  # the timeout that is asked for to see that
TIMES = 5  # a wrong message is sent, or a good one alone
MOST_S = 45.0  # after which no further part is begun
TRIES = 3  # of a part during which this computer was late, each twice as patient as the one before


class NoMachine(ServonodeError, ValueError):
    """The machine or its address is not given; the text has the remedy."""


@dataclass(frozen=True)
class Plan:
    """The duration of each part of the check [s, wall clock]."""

    wait: float = 5.0  # for the first answer
    observe: float = 1.0  # of motion under zero input
    settle: float = 0.3  # for effects that must follow at once


AGAIN = "run this again while this computer has nothing else to do"


@dataclass
class Report:
    """What was found on a machine, what could not be judged, and what this computer was too late to judge.

    place: where it is, by the name of each part. proven: what was seen to be right. remedy: what to do until it is.
    """

    machine: str
    place: dict[str, str]
    remedy: str = ""
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    undecided: list[Finding] = field(default_factory=list)
    proven: list[Finding] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """yes; no; or undecided, where nothing was found, but not everything could be tested."""
        return "no" if self.findings else "undecided" if self.undecided else "yes"

    def as_dict(self) -> dict[str, Any]:
        found = {name: value for name, value in asdict(self).items() if name not in ("place", "remedy")}
        return found | self.place | {"verdict": self.verdict, "unseen": UNSEEN}

    def text(self) -> str:
        """For people: a line for each finding, each proof, each note."""
        kinds = {"yes": self.proven, "NO": self.findings, "undecided": self.undecided, "not judged": self.notes}
        rows: dict[tuple[str, str], dict[str, None]] = {}  # subjects of which the same is said
        for word, found in kinds.items():
            for each in found:
                rows.setdefault((word, each.text), {})[each.subject] = None
        said = [(word, f"{', '.join(subjects)}: {text}") for (word, text), subjects in rows.items()]
        remedies = [each for each in (self.remedy, AGAIN * (self.verdict == "undecided")) if each]
        verdict = f"{self.verdict}: {'; '.join(remedies)}" if remedies and self.verdict != "yes" else self.verdict
        told = [("machine", ", ".join([self.machine, *self.place.values()])), *said, ("not seen", UNSEEN)]
        return "\n".join(f"{key:<16} {text}" for key, text in (*told, ("verdict", verdict)))


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


def check_protocol(closed_loop: ClosedLoop, addresses: Sequence[str], plan: Plan | None = None) -> Report:
    """Exchange messages with the machine at these addresses (of states, of applied inputs); returns the report.

    Raises:
        NobodyThere: nothing was received; BusError: the address of `applied` is in use.
    """
    state, applied = addresses
    report = Report(closed_loop.machine.description.name, {"state": state, "applied": applied})
    try:
        remedy = "see the tables of the protocol's page"
        with Host(closed_loop, external_link, remedy=remedy, addresses=(state, applied)) as host:
            Check(host, report, plan or Plan(), f"{state} and {applied}").go()
    finally:
        clear_devices_folder()
    return report


class PartEnds(Exception):
    """A part of the check cannot be finished; why is in the report."""


class Check:
    """The parts of the check, one after the other. where: the place of the machine, for people.

    It has a method for each part, so that what is like a machine in another process can be checked by the same parts.

    What a machine's own stamps prove is found at once (`find`). What did not come in time (`miss`) may be the fault of
    this computer: where it was late meanwhile, the part is tried again, and in the end it is undecided.
    """

    def __init__(self, host: Host, report: Report, plan: Plan, where: str) -> None:
        self.host, self.report, self.plan, self.where = host, report, plan, where
        self.step = host.context.step_ns / 1e9
        self.final = -1  # number of the first message that ended a run
        self.silent = False  # whether it answers no setup any more
        self.unknown = report.notes  # what inputs that are not reported leave open
        self.missed: list[tuple[list[Finding], Finding]] = []  # in this part: what it is if this computer was in time

    @property
    def parts(self) -> Sequence[Callable[[], None]]:
        """The parts, in order."""
        return (
            self.observe, self.fall_silent, self.keep_limits, *parts_of(self.refuse_input, APPLIED),
            *parts_of(self.ignore, SETUPS), self.take_one,
            self.begin_again, self.end, self.turn_on, self.cap_timeout, self.change_host, self.try_lockstep,
            *parts_of(self.refuse_setup, UNUSABLE | UNUSABLE_MESSAGES),
        )  # fmt: skip

    def go(self) -> None:
        """All parts, as long as the machine answers."""
        end = self.host.clock() + MOST_S * 1e9
        parts = list(self.parts) if self.begin() else []
        while parts and not self.silent and self.host.clock() < end:
            self.do(parts.pop(0))
        if self.silent:
            self.find("silent", f"no setup is answered within {self.again_s:g} s any more; let it run on")
        elif parts:
            text = f"{len(parts)} parts of the check are left after {MOST_S:g} s; {AGAIN}"
            self.report.undecided.append(Finding("time", text))
        for (subject, text), times in self.host.refused.items():
            self.find(subject, f"{text} ({times} times)")
        wrong = {each.subject for each in self.report.findings}
        self.report.proven[:] = [each for each in self.report.proven if each.subject not in wrong]

    def do(self, part: Callable[[], None]) -> None:
        """A part, again while this computer is late."""
        plan, report = self.plan, self.report
        kinds = (report.findings, report.notes, report.proven)
        late, certain = 0.0, False
        for number in range(1, TRIES + 1):
            begun, sizes, self.missed = self.host.clock(), [len(each) for each in kinds], []
            with suppress(PartEnds):
                part()
            late, gap = self.host.late_s(begun), self.host.gap_s(begun)
            certain = len(report.findings) > sizes[0]
            if not self.missed or certain or number == TRIES or max(late, gap) < LATE_S:
                break
            if not self.new_run() and (self.silent or not self.new_run()):
                break
            for each, size in zip(kinds, sizes, strict=True):
                del each[size:]
            self.plan = replace(plan, settle=2 * self.plan.settle, observe=2 * self.plan.observe)
        self.plan = plan
        proof = PROOFS.get(getattr(part, "__name__", ""))
        if proof and not self.missed and not certain:
            self.prove(*proof)
        for kind, missed in self.missed:
            if late < LATE_S:
                kind.append(missed)
            elif not certain:
                text = f"{missed.text} (this computer was late by {late * 1e3:.0f} ms meanwhile: {AGAIN})"
                report.undecided.append(Finding(missed.subject, text))

    @property
    def again_s(self) -> float:
        """How long a further run is waited for [s]."""
        return min(self.plan.wait, AGAIN_S)

    def new_run(self, k: int = -1, within_s: float = 0.0, **changes: Any) -> bool:
        """Whether a run on other terms begins within this time, at this step or where the machine is."""
        host = self.host
        host.begin(new_id(), k if k >= 0 else host.samples[-1].state.k if host.samples else 0)
        began = host.answered(within_s or self.again_s, **changes)
        self.silent = not began and host.run not in host.faults
        return began

    def begin_run(self, **changes: Any) -> None:
        """Begin a run as `new_run` does; where none begins, that is missed, and the part ends."""
        text = "a new run of the same src does not begin; accept each new run of the host"
        self.require(self.new_run(**changes), "again", text)

    def find(self, subject: str, text: str) -> None:
        self.report.findings.append(Finding(subject, text))

    def fail(self, subject: str, text: str) -> NoReturn:
        """What ends this part."""
        self.find(subject, text)
        raise PartEnds

    def note(self, subject: str, text: str) -> None:
        self.report.notes.append(Finding(subject, text))

    def miss(self, subject: str, text: str, kind: list[Finding] | None = None) -> None:
        """What was not seen in time: a finding, or one of this kind, unless this computer was late."""
        self.missed.append((self.report.findings if kind is None else kind, Finding(subject, text)))

    def require(self, holds: bool, subject: str, text: str, kind: list[Finding] | None = None) -> None:
        """End this part where something was not seen in time, which is missed."""
        if not holds:
            self.miss(subject, text, kind)
            raise PartEnds

    def require_acting(self, acts: bool, subject: str) -> None:
        """End this part where inputs are not reported as acting, so that nothing is known."""
        self.require(acts, subject, NOT_REPORTED, self.unknown)

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

    def acts(self, value: float, within_s: float = 0.0, acting: float | None = None) -> bool:
        """Whether this value, or what it becomes, is reported as acting soon, sent each period."""
        seen = partial(self.reports, value if acting is None else acting, seq=self.host.next_seq)
        return self.host.drive(value, within_s or self.plan.settle, seen)

    def departs(self, state: State) -> bool:
        """Whether an input of a state is not TINY."""
        return any(abs(value - TINY) > 0.1 * TINY for value in state.input.values())

    def acting_s(self) -> tuple[float, float, Sequence[Sample]]:
        """How long TINY acted since the newest `applied` was taken, the last of its kind, by the machine's steps [s].

        At least so long, and at most: states show what acts at their own steps, and nothing between them. Then the
        samples from the first one on in which it does not act any more.
        """
        samples = self.host.samples
        seq = max(each.state.applied_seq for each in samples)
        at = next(i for i, each in enumerate(samples) if each.state.applied_seq >= seq)
        first, before = samples[at].state.k, samples[max(at - 1, 0)].state.k
        ended = next((i for i in range(at, len(samples)) if self.departs(samples[i].state)), len(samples))
        last = samples[max(ended - 1, at)].state.k
        after = samples[ended:]
        return (last - first) * self.step, (after[0].state.k - before) * self.step if after else np.inf, after

    def begin(self) -> bool:
        """Whether a good state answers the handshake."""
        host = self.host
        answered = host.answered(self.plan.wait)
        fault = host.faults.get(host.run)
        if fault is not None:
            self.find("status", f"the machine refuses the run: {fault}; fix that, or check another machine")
        elif not answered and not (host.refused or host.others or host.faults):
            why = f"no machine answers at {self.where} within {self.plan.wait:g} s; start it there"
            raise NobodyThere(f"{why}: {host.link.hint}" if host.link.hint else why)
        elif not answered and host.others:
            self.find("run", "states come, but not of the requested run; echo the run of the last setup")
        return answered and fault is None

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
        """Stop sending inputs: after the timeout, by the machine's own steps, they must not act any more."""
        host, timeout = self.host, self.host.context.timeout
        self.require_acting(self.acts(TINY, self.plan.settle + timeout), "timeout")
        silent, allowed = host.sent[-1][1], timeout * (1 + LONGER) + STEPS * self.step
        host.listen(timeout + LATE_S + self.plan.settle)
        least, most, after = self.acting_s()
        asked = f"where {timeout:g} s were asked for; set them to zero, or brake, so long after the newest `applied`"
        if least > allowed:
            how = f"after {most:.3g} s of its own steps" if after else "never"
            self.fail("timeout", f"inputs that stop coming end {how}, {asked}")
        text = f"inputs that stop coming are not seen to end within {timeout + LATE_S + self.plan.settle:.3g} s"
        self.require(bool(after), "timeout", f"{text}, {asked}")
        delay = (after[0].at - silent) / 1e9
        if max(most, delay) > timeout + LATE_S:
            self.miss("timeout", f"inputs that stop coming end after {max(most, delay):.3g} s, {asked}")
        self.judge_rest([each.state for each in after], most)
        text = "a fresh `applied` after a silence does not act; let the run continue after a timeout"
        self.require(self.acts(TINY, self.plan.settle + timeout), "timeout", text)

    def judge_rest(self, states: Sequence[State], after_s: float) -> None:
        """Judge what acts after the timeout, which came after at most so long [s]."""
        if wrong := [each for each in states if any(each.input.values()) and not acts_itself(each)]:
            text = f"{', '.join(f'{u:.3g}' for u in wrong[0].input.values())} acts {after_s:.3g} s after the last input"
            self.find("timeout", f"{text}; set all to zero, or say `machine_safe` in `extra`")

    def keep_limits(self) -> None:
        """Ask for inputs beyond a limit of the host, which must be clamped."""
        host, most = self.host, TINY / 2
        self.begin_run(limits=dict.fromkeys(host.names, most))
        seq = host.next_seq
        kept = self.acts(TINY, acting=most) and self.acts(-TINY, acting=-most)
        text = (
            f"limits of {most:g} are not kept where {TINY:g} and -{TINY:g} are asked for; clamp each input from both "
        )
        text += "sides to the smaller of the host's limit and the machine's own, before it acts"
        taken = [
            u for each in host.samples if each.state.applied_seq >= seq and not acts_itself(each.state)
            for u in each.state.input.values()
        ]  # fmt: skip
        if any(abs(u) > most * (1 + NEAR) for u in taken):
            self.fail("limits", text)
        self.require(kept, "limits", text)

    def refuse_input(self, subject: str, trial: Trial) -> None:
        """A wrong `applied` must have no effect."""

        def send(value: float) -> None:
            self.host.slip(self.host.applied(value, **trial.changes(self.host)))

        self.refuse(subject, send, trial.remedy, trial.aged)

    def refuse(self, subject: str, send: Callable[[float], None], remedy: str, aged: bool = False) -> None:
        """Send, with a value, what must have no effect, between good `applied` of zero input.

        aged: when the run is older than the timeout.
        """
        host, value = self.host, 2 * TINY
        self.require_acting(self.new_run() and self.acts(value) and self.acts(0.0), subject)
        if aged:
            host.drive(0.0, 2 * host.context.timeout)
            host.apply(0.0)
        begun, counted = len(host.samples), host.samples[-1].state
        for _ in range(TIMES):
            send(value)
            host.listen(min(2 * host.period, host.context.timeout / 3))  # nothing good comes that would hide it
            host.apply(0.0)
        goes_on = self.acts(0.0)
        later = [each.state for each in host.samples[begun:]]
        acted = [each for each in later if any(abs(u) > 0.1 * TINY for u in each.input.values())]
        if acted and all(acts_itself(each) for each in acted):  # good ones came too late, or it obeys no more
            text = "not known: the machine's own safe action acted meanwhile; try again, and if that stays,"
            self.miss(subject, f"{text} {remedy}")
        elif acted:
            self.find(subject, f"acts; {remedy}")
        elif not goes_on:
            self.miss(subject, f"ends the states of the run; {remedy}")
        else:
            self.count_refused(subject, counted, later[-1])

    def count_refused(self, subject: str, before: State, after: State) -> None:
        """Judge the count of refused messages, where a machine has one."""

    def take_one(self) -> None:
        """An `applied` alone must be reported with its own inputs, before the next one comes."""
        host, values = self.host, [TINY * (2 - number % 2) for number in range(TIMES)]
        self.require_acting(self.new_run() and self.acts(TINY), "echo")
        for value in values:
            seq = host.next_seq
            host.apply(value)
            if host.listen(min(self.plan.settle, host.context.timeout / 2), partial(self.reports, value, seq=seq)):
                return
        text = "no `applied` alone is reported as acting under its own seq; let it act when it comes, and echo the seq "
        self.miss("echo", f"{text}of what acts")

    def cap_timeout(self) -> None:
        """A host that asks for an absurd timeout and falls silent."""
        host, subject = self.host, "own timeout"
        if not self.new_run(timeout=ABSURD_S):
            text = f"not known whether a timeout of {ABSURD_S:g} s is refused"
            self.require(not self.silent, subject, text, self.unknown)
            return self.prove(subject, f"one of {ABSURD_S:g} s is refused")
        self.require_acting(self.acts(TINY), subject)
        host.listen(LONGEST_S, lambda: bool(host.samples) and self.departs(host.samples[-1].state))
        least, most, after = self.acting_s()
        text = (
            f"a host that asks for a timeout of {ABSURD_S:g} s gets more than {LONGEST_S:g} s; give the machine its own"
        )
        if least > LONGEST_S - LATE_S:
            self.fail(subject, text)
        self.require(bool(after), subject, text)
        return self.prove(subject, f"{most:.3f} s, where the host asked for {ABSURD_S:g} s")

    def prove(self, subject: str, text: str) -> None:
        """Something that was seen to be right."""
        self.report.proven.append(Finding(subject, text))

    def change_host(self, **changes: Any) -> None:
        """A host that falls silent: after the timeout another one is taken."""
        host = self.host
        host.listen(host.context.timeout + 2 * LATE_S)
        host.src = new_id()
        if not self.new_run(**changes):
            self.miss("next host", "after the timeout of a host another one is not taken; accept its setup then")

    def try_lockstep(self) -> None:
        """Judge a run in lockstep: steps only when asked, to where asked, the end, and a second run after it."""
        host, settle = self.host, self.plan.settle
        if not self.new_run(mode="lockstep"):
            text = "a setup with mode lockstep is not answered; take part, or refuse it by a `status`"
            self.require(host.run in host.faults, "lockstep", text)
            return self.prove("lockstep", f"is refused, as hardware may ({host.faults[host.run]})")
        steps = max(round(host.period / self.step), 1)
        text = "`applied` with `until` is not answered by the state of that step; go there, then send the state"
        for value in (0.0, 0.0, TINY):
            self.require(self.goes_to(host.samples[-1].state.k + steps, self.plan.wait, value), "lockstep", text)
        here, acting = host.samples[-1].state.k, host.samples[-1].state.input
        text = "steps pass in lockstep although no `applied` asks for them; wait for the next one"
        self.stays(here, max(settle, host.context.timeout + LATE_S), text)
        for what, orders in IGNORED.items():
            host.k = here
            host.send(host.applied(0.0, **orders(here)))
            self.stays(here, settle / 2, f"goes on by an `applied` {what}; ignore it in lockstep")
        if not self.goes_to(here, settle, TINY):
            self.miss("lockstep", "an `applied` up to the step it is at is not answered; send that state again")
        elif host.samples[-1].state.input != acting:
            self.find("lockstep", "an input ends by itself; let no timeout of inputs run in lockstep")
        host.end()
        if self.goes_to(here + steps, settle):
            self.find("lockstep", "goes on after `final` in lockstep; `final` counts whatever its `until` is")
        if not self.new_run(mode="lockstep"):
            self.miss("lockstep", "a second run in lockstep is not answered; after `final` wait for the next setup")
        self.change_host(mode="lockstep")
        return host.end()

    def stays(self, k: int, seconds: float, text: str) -> None:
        """Listen for this long; where a state is of another step, that is found, and ends this part."""
        if self.host.listen(seconds, lambda: self.host.samples[-1].state.k != k):
            self.fail("lockstep", text)

    def goes_to(self, until: int, within_s: float, value: float = 0.0) -> bool:
        """Whether the machine goes to a step in lockstep, asked again as servonode asks."""
        host = self.host
        host.k, before = host.samples[-1].state.k, len(host.samples)
        order = host.applied(value, until=until)

        def arrived() -> bool:
            return len(host.samples) > before and host.samples[-1].state.k == until

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
            return
        beyond = {name: start[name] + 2 * math.pi for name in angles}
        self.begin_run(k=0, start={**host.context.start_values, **beyond})
        first = host.samples[0].state.state
        off = {name: beyond[name] - float(first[name]) for name in angles}  # type: ignore[arg-type]
        wrapped = [name for name in angles if abs(off[name]) > 1.0 and abs(math.remainder(off[name], math.tau)) < 0.5]
        others = [name for name in angles if abs(off[name]) > 1.0 and name not in wrapped]
        if wrapped and not others:
            text = f"{', '.join(wrapped)} begins a turn before its start; count turns on and send the angle unwrapped"
            self.find("wrapped", text)
        elif wrapped or others:
            text = f"whether {', '.join(angles)} count turns on: the machine does not take the start of a run; "
            self.note("wrapped", f"{text}turn them by hand while it is checked")

    def ignore(self, subject: str, trial: Trial) -> None:
        """Send a setup that must have no effect while a run goes on."""
        host, asked = self.host, new_id()
        self.begin_run()
        host.drive(0.0, 2 * host.period)
        begun, found = host.clock(), len(self.report.findings)
        host.setup(**{"run": asked} | trial.changes(host))
        host.drive(0.0, self.plan.settle)
        if asked in host.others:  # it may where our inputs came too late for its timeout
            self.miss(subject, trial.remedy)
        elif not any(each.at > begun + round(self.plan.settle * 5e8) for each in host.samples):
            self.miss(subject, "a setup that is to be ignored ends the states of the run; ignore it during a run")
        if not self.missed and found == len(self.report.findings):
            self.prove(subject, "its setup is refused during a run")

    def begin_again(self) -> None:
        """Begin a new run of the same host, as after each arming, at another step."""
        host = self.host
        self.require_acting(self.acts(TINY), "again")
        self.begin_run(k=LATER_K)
        first = host.samples[0].state
        if first.applied_seq != -1:
            self.find("again", f"a new run begins with applied_seq = {first.applied_seq}; begin with -1")
        if any(first.input.values()) and not acts_itself(first):
            text = "a new run begins with an input that is not zero; apply zero until `applied` comes"
            self.find("again", text)
        if first.k < LATER_K:
            text = f"a run that begins at k = {LATER_K} is answered with k = {first.k}; number the steps from there"
            self.find("again", text)

    def end(self) -> None:
        """Send `final`, after which no input of this run may act."""
        host, settle = self.host, self.plan.settle
        self.require_acting(self.acts(TINY), "final")
        self.final = host.next_seq
        host.end()
        ended = host.clock() + round(settle * 5e8)
        host.drive(TINY, settle)
        host.listen(settle, lambda: self.reports(TINY, ended), host.setup)
        text = "inputs act after `final`; set them to zero, and wait for the next setup"
        if self.reports(TINY, seq=self.final):
            self.find("final", text)
        elif self.reports(TINY, ended):
            self.miss("final", text)

    def refuse_setup(self, what: str, changes: dict[str, Any]) -> None:
        """Send a setup that must be answered by a `status`."""
        host, remedy = self.host, "answer what the machine cannot use with a `status`"
        if "limits" in changes:
            changes = {"limits": dict.fromkeys(host.names, changes["limits"])}
        if host.any_speed and changes.get("speed", -1.0) > 0:
            return
        if self.new_run(within_s=self.plan.settle, **changes):
            self.find("setup", f"takes part in a run with {what}; {remedy}")
        elif self.silent:
            self.miss("setup", f"one with {what} is not answered; {remedy}")
            self.new_run()  # else it says nothing at all
        else:
            self.prove(what, "a setup with it is refused")


def parts_of(part: Callable[..., None], table: Mapping[str, Any]) -> list[Callable[[], None]]:
    """A part for each row of a table."""
    return [partial(part, *row) for row in table.items()]


PROOFS = {
    "observe": ("states", "stamps, rate, echo and inputs are right"),
    "keep_limits": ("limits", "the host's are kept"),
    "take_one": ("echo", "an input acts when it comes, and its seq is echoed then"),
    "begin_again": ("again", "a run that begins while an input acts begins with zero, at its own step"),
    "end": ("final", "nothing acts after it"),
    "change_host": ("next host", "after the timeout another one is taken"),
}
