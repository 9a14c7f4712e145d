"""`servonode hil accept`: whether firmware keeps its part of docs/reference/firmware.md, proven before arming.

The parts of `servonode protocol check` are played over packets; further ones send what firmware must refuse, as the
bytes themselves. All inputs are zero, or too small to move anything.
"""

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from servonode.bus import State
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.driver_checks import stated
from servonode.nodes.hil_accept_law import MOST, judge_law
from servonode.nodes.hil_accept_packets import WRONG
from servonode.nodes.protocol_check import TINY, Check, Found, Plan
from servonode.nodes.protocol_host import Host, new_id
from servonode.nodes.protocol_judges import Finding
from servonode.nodes.protocol_wires import LinkWire, NobodyThere
from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.driver import DriverError
from servonode.plants.drivers.installed import find_driver
from servonode.plants.drivers.packet_link import PacketLink, Transport

MARGIN_S = 0.05  # beyond the timeout, for this computer and the wire
LONGEST_S = 2.0  # that firmware may wait for an input, whatever a host asks for
ABSURD_S = 1e6  # the timeout that is asked for to see that
NEAR = 0.02  # share of the safe action by which what acts may differ, and of a limit by which it may be passed
TIMES = 5  # each wrong packet is sent


class NoFirmware(DriverError):
    """The driver of the launch file does not speak packets; the text has the remedy."""


@dataclass
class AcceptReport(Found):
    """What firmware at this place was found to do, and what was proven."""

    machine: str
    place: str
    proven: list[Finding] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": "no" if self.findings else "yes"}

    def text(self) -> str:
        """For people: a line for each finding, each proof and each note."""
        rows = [("machine", f"{self.machine}, {self.place}")]
        rows += [("yes", f"{each.subject}: {each.text}") for each in self.proven]
        rows += [("NO", f"{each.subject}: {each.text}") for each in self.findings]
        rows += [("not judged", f"{each.subject}: {each.text}") for each in self.notes]
        rows.append(("verdict", "no: do not arm it" if self.findings else "yes"))
        return "\n".join(f"{key:<16} {text}" for key, text in rows)


def accept(closed_loop: ClosedLoop, plan: Plan | None = None) -> AcceptReport:
    """Talk to the firmware of a launch file, and say what was found.

    Raises:
        NoFirmware: its driver does not speak packets; BusError: port or address cannot be used, or nobody answers;
        DriverError: the port is missing.
    """
    launch = closed_loop.launch
    driver, said = find_driver(launch.plant.driver), stated(launch)
    if driver.transport is None:
        able = " or ".join(f'"{each.name}"' for each in DRIVERS.values() if each.transport)
        text = f'"{driver.name}" does not reach firmware; take {able} (--set plant.driver=...)'
        raise NoFirmware("plant", "driver", f"{launch.file} [plant] driver: {text}")
    driver.ready(said)
    return accept_over(driver.transport(said), closed_loop, plan or Plan())


def accept_over(transport: Transport, closed_loop: ClosedLoop, plan: Plan) -> AcceptReport:
    """The same over this transport; raises BusError."""
    law = closed_loop.device_law
    estimate = closed_loop.device_estimate
    sensors = estimate.sensors if estimate else ()
    link = PacketLink(transport, closed_loop.machine, closed_loop.start, law=law, sensors=sensors)
    report = AcceptReport(closed_loop.machine.description.name, transport.place)
    with Host(closed_loop, LinkWire(link)) as host:
        goal = closed_loop.goal(0.0)[: law.n_goal].tolist() if law else None
        FirmwareCheck(host, report, plan, link, transport, goal).go()
    return report


class FirmwareCheck(Check):
    """The parts of the acceptance, one after the other; those of `Check` with what only packets show."""

    def __init__(
        self,
        host: Host,
        report: AcceptReport,
        plan: Plan,
        link: PacketLink,
        transport: Transport,
        goal: list[float] | None = None,
    ) -> None:
        super().__init__(host, report, plan, report.place)
        self.goal = goal  # of the law in the firmware, where it is to act
        self.accepted, self.link, self.transport = report, link, transport

    def begin(self) -> bool:
        """Whether a good state answers the handshake; the link knows more of why not."""
        try:
            return super().begin()
        except NobodyThere as error:
            raise NobodyThere(f"{error}: {self.link.hint}" if self.link.hint else str(error)) from None

    def go(self) -> None:
        """All parts."""
        if self.begin():
            for part in (
                self.observe, self.fall_silent, self.keep_limits, self.refuse_packets, self.try_second_host,
                self.try_law, self.cap_timeout, self.begin_again, self.end, self.try_unusable_setup,
            ):  # fmt: skip
                before = len(self.report.findings)
                part()
                if part.__name__ in PROOFS and before == len(self.report.findings):
                    self.prove(*PROOFS[part.__name__])
        for (subject, text), times in self.host.refused.items():
            self.find(subject, f"{text} ({times} times)")

    def prove(self, subject: str, text: str) -> None:
        """Something that was seen to be right."""
        self.accepted.proven.append(Finding(subject, text))

    def acts(self, value: float, within_s: float | None = None) -> bool:
        """Whether this value is reported as acting soon, sent each period."""
        begun = time.monotonic_ns()
        return self.host.drive(value, within_s or self.plan.settle, lambda: self.reports(value, begun))

    def new_run(self, **changes: Any) -> bool:
        """Whether a run on other terms begins."""
        host = self.host
        host.begin(new_id(), host.samples[-1].state.k if host.samples else 0)
        run = host.run
        return host.listen(self.plan.wait, lambda: bool(host.samples), lambda: host.setup(run, host.src, **changes))

    # the parts

    def fall_silent(self) -> None:
        """Inputs stop coming: within the timeout the safe action must act, as the states themselves say."""
        host, timeout = self.host, self.host.terms.timeout
        if not self.acts(TINY):
            text = (
                f"inputs of {TINY:g} are not reported as acting (rounded, or measured?); check by eye "
                f"that it falls silent"
            )
            return self.note("timeout", text)
        last, silent = host.sent[-1]
        host.listen(timeout + MARGIN_S + self.plan.settle)
        after = [each for each in host.samples if each.state.applied_seq >= last]
        ended = next((each for each in after if self._departs(each.state.input)), None)
        delay = (ended.at - silent) / 1e9 if ended else np.inf
        if delay > timeout + MARGIN_S:
            how = "never" if ended is None else f"after {delay:.3g} s"
            text = f"inputs that stop coming end {how}, where {timeout:g} s were asked for"
            return self.find("timeout", f"{text}; let the firmware count the time from the newest input")
        if delay < timeout / 2:
            text = f"inputs end {delay:.3g} s after the last one, where {timeout:g} s were asked for"
            self.find("timeout", f"{text}; count the time from the newest input")
        wrong = next((each for each in after if each.at >= (ended or each).at and not self._is_safe(each.state)), None)
        if wrong is not None:
            acting, expected = (_listed(each) for each in (wrong.state.input.values(), self._safe_action(wrong.state)))
            text = f"{acting} acts after the timeout, where the safe action is {expected}"
            self.find("safe action", f"{text}; apply S x + s0 of the setup; or are its own limits too small for it?")
        else:
            acting = _listed(after[-1].state.input.values())
            text = f"{delay:.3f} s after the last input, of {timeout:g} s asked for, the safe action acts: {acting}"
            self.prove("timeout", text)
        if not self.acts(TINY, self.plan.settle + timeout):
            self.find("timeout", "a fresh input after a silence does not act; let the run continue after a timeout")
        return None

    def _departs(self, inputs: dict[str, float]) -> bool:
        return any(abs(value - TINY) > 0.1 * TINY for value in inputs.values())

    def _safe_action(self, state: Any) -> Any:
        """The safe action at a state as the setup stated it, within the limits."""
        from servonode.mechanics.description import unpacked

        x = np.array([*unpacked(self.host.machine.description.layout, state.state), 1.0])
        most = np.array([self.host.terms.limits.get(name, np.inf) for name in self.host.names])
        return np.clip(self.link.safe @ x, -most, most)

    def _is_safe(self, state: Any) -> bool:
        """Whether what acts is the safe action; of a board that sends readings alone it may be a brake of its own."""
        if self.host.sensors:
            return all(abs(u) <= self.host.terms.limits.get(name, np.inf) for name, u in state.input.items())
        expected = self._safe_action(state)
        found = np.array([state.input[name] for name in self.host.names])
        return bool(np.all(np.abs(found - expected) <= NEAR * np.abs(expected) + 0.1 * TINY))

    def keep_limits(self) -> None:
        """A limit of the host below what it then asks for."""
        host, most = self.host, TINY / 2
        if not self.new_run(limits=dict.fromkeys(host.names, most)):
            return self.find("again", "a new run of the same host does not begin; accept each new run of the host")
        begun = time.monotonic_ns()
        if not host.drive(TINY, self.plan.settle, lambda: self.reports(most, begun)):
            text = (
                f"limits of {most:g} are not kept where {TINY:g} is asked for; clamp each input to the smaller of the "
            )
            self.find("limits", f"{text}host's limit and the machine's own, before it acts")
        return None

    def refuse_packets(self) -> None:
        """Packets that must have no effect, between good ones of zero input."""
        host, value = self.host, 2 * TINY
        limit = self.new_run(limits=dict.fromkeys(host.names, 4 * TINY))  # should one act, it moves nothing
        if not limit or not self.acts(value):
            return self.note(
                "packets",
                f"inputs of {value:g} are not reported as acting, so the effect of wrong packets cannot be checked",
            )
        for subject, (make, remedy) in WRONG.items():
            self.acts(0.0)
            counted = host.samples[-1].state.extra
            begun = time.monotonic_ns()
            for _ in range(TIMES):
                self.transport.send(make(host, self.link, value))
                host.listen(min(2 * host.period, host.terms.timeout / 3))  # nothing good comes that would hide it
                host.apply(0.0)
            self.acts(0.0)
            later = [each for each in host.samples if each.at > begun]
            acted = [each.state for each in later if any(abs(u) > 0.1 * TINY for u in each.state.input.values())]
            if acted and all(_acts_itself(each) for each in acted):  # good packets came too late, or it obeys no more
                self.find(
                    subject,
                    "not known: the machine's own safe action acted meanwhile; run this again while this computer has "
                    f"nothing else to do; if that stays, {remedy}",
                )
            elif acted:
                self.find(subject, f"acts; {remedy}")
            elif not later:
                self.find(subject, f"ends the states of the run; {remedy}")
            elif isinstance(counted, dict) and "machine_refused" in counted:
                more = int(later[-1].state.extra["machine_refused"] - counted["machine_refused"])  # type: ignore[index]
                self.prove(subject, f"{TIMES} sent, none acted, {more} counted as refused")
        return None

    def try_law(self) -> None:
        """The firmware's own law, where the launch file has it act."""
        if self.goal is None:
            return None
        if not self.new_run(limits=dict.fromkeys(self.host.names, MOST)):
            return self.find("law", "a run in which it should act does not begin; accept each new run of the host")
        wrong = judge_law(self.host, self.link, self.goal, self.plan.settle)
        if wrong:
            return self.find("law", wrong)
        return self.prove("law", "acts while packets have a goal, within the limits, and not without one")

    def cap_timeout(self) -> None:
        """A host that asks for an absurd timeout and falls silent."""
        host = self.host
        if not self.new_run(timeout=ABSURD_S) or not self.acts(TINY):
            return self.prove("own timeout", f"a timeout of {ABSURD_S:g} s is refused")
        silent = host.sent[-1][1]
        if not host.listen(LONGEST_S, lambda: bool(host.samples) and self._departs(host.samples[-1].state.input)):
            text = f"a host that asks for a timeout of {ABSURD_S:g} s gets more than {LONGEST_S:g} s; "
            return self.find("own timeout", f"{text}give the machine its own longest_timeout_ns")
        delay = (host.samples[-1].at - silent) / 1e9
        return self.prove("own timeout", f"{delay:.3f} s, where the host asked for {ABSURD_S:g} s")


def _acts_itself(state: State) -> bool:
    """Whether the machine says that its own safe action acts in this state."""
    return isinstance(state.extra, dict) and bool(state.extra.get("machine_safe"))


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{each:.3g}" for each in values)


PROOFS = {
    "observe": ("states", "stamps, rate, echo and inputs are right"),
    "keep_limits": ("limits", "the host's are kept"),
    "try_second_host": ("stranger", "another host is refused while this one drives"),
    "begin_again": ("again", "a new run begins with zero input, at its own step"),
    "end": ("final", "nothing acts after it"),
    "try_unusable_setup": ("setup", "one with a negative timeout is refused"),
}
