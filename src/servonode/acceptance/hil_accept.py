"""`servonode hil accept`: checks before arming that firmware meets docs/reference/firmware.md.

It runs the parts of `servonode protocol check` over packets; further parts send packets that firmware must refuse. All
inputs are zero, or too small to move anything, and so are the limits of all runs, within which the safe action acts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic_ns
from typing import Any

from msgspec import structs

from servonode.acceptance.hil_accept_law import judge_law
from servonode.acceptance.hil_accept_packets import PACKETS
from servonode.acceptance.hil_accept_safe import MOST, SentSafeAction, listed, visible_safe_map
from servonode.acceptance.protocol_check import AGAIN, TIMES, TINY, Check, Found, Plan, parts_of
from servonode.acceptance.protocol_host import Host
from servonode.acceptance.protocol_judges import LATE_S, acts_itself
from servonode.acceptance.protocol_wires import LinkWire, NobodyThere, Wire
from servonode.acceptance.trials import APPLIED, SETUPS, UNUSABLE
from servonode.bus import State
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.applied_inputs import AppliedSafeAction
from servonode.plants.drivers.driver import Clock, DriverError
from servonode.plants.drivers.packet_link import PacketLink
from servonode.plants.drivers.transport import Transport

WireOf = Callable[[PacketLink], Wire]


class NoFirmware(DriverError):
    """The driver of the launch file does not speak packets; the text has the remedy."""


@dataclass
class AcceptReport(Found):
    """The findings on firmware at this place, and what was proven."""

    machine: str
    place: str

    def text(self) -> str:
        """For people: a line for each finding, each proof and each note."""
        rows = [("machine", f"{self.machine}, {self.place}"), *self.rows()]
        verdicts = {"no": "no: do not arm it", "undecided": f"undecided: do not arm it; {AGAIN}"}
        rows.append(("verdict", verdicts.get(self.verdict, self.verdict)))
        return "\n".join(f"{key:<16} {text}" for key, text in rows)


def accept(closed_loop: ClosedLoop, plan: Plan | None = None) -> AcceptReport:
    """Check the firmware of a launch file; returns the report.

    Raises:
        NoFirmware: its driver does not speak packets; BusError: port or address cannot be used, or nobody answers;
        DriverError: the port is missing.
    """
    launch = closed_loop.launch
    driver, said = closed_loop.driver, closed_loop.connection.stated
    if driver.transport is None:
        able = " or ".join(f'"{each.name}"' for each in DRIVERS.values() if each.transport)
        text = f'"{driver.name}" does not reach firmware; take {able} (--set plant.driver=...)'
        raise NoFirmware("plant", "driver", f"{launch.file} [plant] driver: {text}")
    driver.ready(said)
    return accept_over(driver.transport(said), closed_loop, plan or Plan())


def accept_over(
    transport: Transport, closed_loop: ClosedLoop, plan: Plan, wire_of: WireOf = LinkWire, clock: Clock = monotonic_ns
) -> AcceptReport:
    """The same over this transport; raises BusError. wire_of, clock [ns]: how, and by what clock, a link is awaited."""
    law = closed_loop.device_law
    estimate = closed_loop.device_estimate
    sensors = estimate.sensors if estimate else ()
    every = closed_loop.check_traffic()
    link = PacketLink(transport, closed_loop.machine, closed_loop.start, law=law, sensors=sensors, state_every=every)
    report = AcceptReport(closed_loop.machine.description.name, transport.place)
    with Host(closed_loop, wire_of(link), clock) as host:
        limits = {name: min(MOST, host.context.limits.get(name, MOST)) for name in host.names}
        host.context = replace(host.context, limits=limits)
        link.safe = visible_safe_map(link.safe, host.context.start[: closed_loop.machine.n_state])
        goal = closed_loop.goal(0.0)[: law.n_goal].tolist() if law else None
        FirmwareCheck(host, report, plan, link, transport, goal).go()
    return report


class FirmwareCheck(Check):
    """The parts of the acceptance, one after the other: those of `Check`, and those that need packets.

    It has a method for each part, as `Check` has.
    """

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
        self.unknown = report.undecided
        self.goal = goal  # of the law in the firmware, where it is to act
        self.link, self.transport = link, transport
        self.safe_action = SentSafeAction(host, link.safe)

    def begin(self) -> bool:
        """Whether a good state answers the handshake; the error adds the hint of the link."""
        try:
            return super().begin()
        except NobodyThere as error:
            raise NobodyThere(f"{error}: {self.link.hint}" if self.link.hint else str(error)) from None

    @property
    def parts(self) -> Sequence[Callable[[], None]]:
        """The parts, in order."""
        return (
            self.observe, self.fall_silent, self.brake_on, self.brake_when_told, self.keep_limits,
            *parts_of(self.refuse_input, APPLIED), *parts_of(self.refuse_packet, PACKETS),
            *parts_of(self.ignore, SETUPS), self.take_one, self.try_law, self.cap_timeout, self.begin_again, self.end,
            self.change_host, self.try_lockstep, *parts_of(self.refuse_setup, UNUSABLE),
        )  # fmt: skip

    def refuse_packet(self, subject: str, wrong: tuple[Callable[[bytes], bytes], str]) -> None:
        """A good packet of inputs with a defect must have no effect."""
        change, remedy = wrong
        good = self.link.packet_of
        self.refuse(subject, lambda value: self.transport.send(change(good(self.host.applied(value)))), remedy)

    # the parts

    def judge_rest(self, states: Sequence[State], after_s: float) -> None:
        """Judge what acts after the timeout: the safe action, no sooner than half of the time that was asked for."""
        timeout = self.host.context.timeout
        if after_s < timeout / 2:
            text = f"inputs end {after_s:.3g} s after the last one, where {timeout:g} s were asked for"
            self.find("timeout", f"{text}; count the time from the newest input")
        wrong, unseen = self.safe_action.wrong(states), self.safe_action.unseen(states)
        if wrong:
            self.find("safe action", wrong)
        elif unseen:
            self.note("safe action", unseen)
        if not wrong and not self.missed:
            what = "the last input does not act any more" if unseen else "the safe action acts"
            text = f"{after_s:.3f} s after the last input, of {timeout:g} s asked for, {what}"
            self.prove("timeout", f"{text}: {listed(states[-1].input.values())}")

    def brake_on(self) -> None:
        """Begin a run while the safe action acts: no host may release it, or widen its limits, before its first input.

        It goes beyond the limits of the run before. Nor is a run without any input one without a timeout.
        """
        limits = dict.fromkeys(self.host.names, TINY)
        if self.begins(limits=limits):
            self.safe_action.limits = limits
            self._brake_on(self.host.context.timeout + LATE_S + self.plan.settle)
            self.safe_action.limits = self.host.context.limits

    def _brake_on(self, longest_s: float) -> None:
        host = self.host
        if not self.acts(TINY):
            return self.unseen("safe action")
        if not host.listen(longest_s, lambda: acts_itself(host.samples[-1].state)):
            return None  # `fall_silent` judges the timeout and the flag
        if wrong := self.safe_action.wrong([host.samples[-1].state]):
            return self.find("safe action", wrong)
        if not self.begins():
            return None
        first = host.samples[0].state
        if not (acts_itself(first) and self.safe_action.may_be(first)):
            text = f"{listed(first.input.values())} acts in a run that begins after a timeout, before its first input; "
            text += "let the safe action act on until then, within the limits of before, and say so in the flags"
            return self.find("safe action", text)
        if self.safe_action.acts(first):  # else nothing was seen of a brake that firmware with readings may have
            self.prove("safe action", "acts on in a new run, until its first input")
        if self.acts(TINY) and self.begins():
            host.listen(longest_s, lambda: acts_itself(host.samples[-1].state))
            if not acts_itself(host.samples[-1].state):
                self.miss("safe action", "a run that gets no input has no timeout; count it from the setup then")
        return None

    def brake_when_told(self) -> None:
        """An `applied` with the flag that asks for the safe action, whatever its inputs are."""
        host = self.host
        if not (self.begins() and self.acts(TINY)):
            return self.unseen("brake")

        def brakes() -> bool:
            return acts_itself(host.samples[-1].state) and self.safe_action.may_be(host.samples[-1].state)

        def ask() -> None:
            host.send(AppliedSafeAction(**structs.asdict(host.applied(TINY))))

        if not host.listen(self.plan.settle, brakes, ask, host.period):
            text = "bit 2 of the flags of `applied` asks for the safe action, which does not act; "
            return self.miss("brake", f"{text}let it act, and say so in the flags, until an `applied` without it")
        if not self.acts(TINY):
            return self.miss("brake", "an input after a brake does not act; let it end the safe action")
        return self.prove("brake", "the safe action acts when the host asks for it, until its next input")

    def count_refused(self, subject: str, before: State, after: State) -> None:
        """What had no effect must be counted: else it may not have arrived."""
        more = _refused(after) - _refused(before)
        if more == 0:
            text = f"{TIMES} sent, none acted, but none is counted as refused: did they arrive?"
            return self.miss(subject, text, self.report.undecided)
        return self.prove(subject, f"{TIMES} sent, none acted, {more:g} counted as refused")

    def end(self) -> None:
        """As for every machine; a link that has died must not pass for silence after `final`."""
        host, before = self.host, len(self.report.findings)
        if not self.acts(TINY):
            return self.unseen("final")
        counted = _refused(host.samples[-1].state)
        super().end()
        sent = sum(seq > self.final + 1 for seq, _ in host.sent)  # `final` is sent twice
        if self.missed or len(self.report.findings) > before:
            return None
        if not self.new_run():
            text = "after `final` no new run begins, so what acts then is not known; begin one with the next setup"
            return self.miss("final", text)
        first = host.samples[0].state
        if not (acts_itself(first) and self.safe_action.may_be(first)):
            text = (
                f"{listed(first.input.values())} acts after `final`; let the safe action act, and say so in the flags"
            )
            return self.find("final", text)
        more = _refused(first) - counted
        if more < 0:
            text = "the count of refused packets went down; let it continue from run to run"
            return self.miss("final", text, self.report.undecided)
        if more < sent / 2:
            text = f"of {sent} inputs after `final` {more:g} are counted as refused: did the others arrive?"
            return self.miss("final", text, self.report.undecided)
        return None

    def refuse_setup(self, what: str, changes: dict[str, Any]) -> None:
        """As for every machine, whose name is part of the schema in packets."""
        self.link.schema ^= "machine" in changes
        super().refuse_setup(what, changes)
        self.link.schema ^= "machine" in changes

    def try_law(self) -> None:
        """Test the firmware's own law, where the launch file uses it."""
        if self.goal is None:
            return None
        if not self.new_run():
            return self.miss("law", "a run in which it should act does not begin; accept each new run of the host")
        wrong = judge_law(self.host, self.link, self.goal, self.plan.settle)
        if wrong:
            return self.miss("law", wrong)
        return self.prove("law", "acts while packets have a goal, within the limits, and not without one")


def _refused(state: State) -> float:
    """How many packets the firmware has refused so far, as its states say."""
    assert isinstance(state.extra, dict)  # packets always have the count
    return state.extra["machine_refused"]
