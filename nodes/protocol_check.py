"""`servonode protocol check`: test an external plant against docs/reference/protocol.md by exchanging messages with it.

The inputs that are sent are zero, or too small to move anything. What comes is kept with its time and judged
afterwards, by functions that know nothing of sockets.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from servonode.bus import check_address
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.driver_checks import driver_addresses
from servonode.closed_loop.launch_file import launch_of_table, read_launch
from servonode.errors import ServonodeError
from servonode.nodes.protocol_host import Host, new_id
from servonode.nodes.protocol_judges import (
    LATE_S,
    Finding,
    judge_echo,
    judge_inputs,
    judge_motion,
    judge_rate,
    judge_sensors,
    judge_stamps,
)
from servonode.nodes.protocol_wires import NobodyThere, ZmqWire

LATER_K = 100_000  # the step at which the second run begins
TINY = 1e-6  # of each input's unit: seen in what the machine reports, too little to move it


class NoMachine(ServonodeError, ValueError):
    """It cannot be told which machine is meant, or where it is; the text has the remedy."""


@dataclass(frozen=True)
class Plan:
    """How long each part of the check takes [s, wall clock]."""

    wait: float = 5.0  # for the first answer
    observe: float = 1.0  # of motion under zero input
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
            self.find("run", "states come, but not of the requested run; echo the run of the last setup")
        return answered and run not in host.faults

    def observe(self) -> None:
        """The motion under zero input: stamps, rate, echo, and the states against the model."""
        host = self.host
        del host.samples[:-1], host.sent[:]
        host.drive(0.0, self.plan.observe)
        due = [each for each in host.sent if each[1] < time.monotonic_ns() - round(LATE_S * 2e9)]
        findings, notes = (
            judge_sensors(host.samples, host.silence) if host.sensors
            else judge_motion(host.machine, host.samples, self.step)
        )  # fmt: skip
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
            text = (
                f"inputs of {TINY:g} are not reported as acting (rounded, or measured?); check by eye "
                f"that it falls silent"
            )
            return self.note("timeout", text)
        silent = time.monotonic_ns()
        host.listen(timeout + settle)
        if self.reports(TINY, silent + round((timeout + settle / 2) * 1e9)):
            text = f"its inputs still act {settle / 2:g} s after the timeout of {timeout:g} s; set them to zero when no"
            self.find("timeout", f"{text} fresh `applied` comes")
        again = time.monotonic_ns()
        if not host.drive(TINY, settle + timeout, lambda: self.reports(TINY, again)):
            self.find("timeout", "a fresh `applied` after a silence does not act; let the run continue after a timeout")
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
            text = "a setup of another src takes over the machine during a run; let the first host keep it"
            self.find("stranger", f"{text} until `final` or the timeout")
        elif not any(each.at > asked + round(self.plan.settle * 5e8) for each in host.samples):
            self.find("stranger", "a setup of another src ends the states of the run; ignore it during a run")

    def begin_again(self) -> None:
        """A new run of the same host, as after each arming; its steps begin elsewhere."""
        host = self.host
        host.begin(new_id(), LATER_K)
        run = host.run
        if not host.listen(self.plan.wait, lambda: bool(host.samples), lambda: host.setup(run, host.src)):
            return self.find("again", "a new run of the same src does not begin; accept each new run of the host")
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
