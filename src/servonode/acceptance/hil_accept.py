"""`servonode hil accept`: checks before arming that firmware meets docs/reference/firmware.md.

It runs the parts of `servonode protocol check` over packets; further parts send packets that firmware must refuse. All
inputs are zero, or too small to move anything, and so are the limits of all runs, within which the safe action acts.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from time import monotonic_ns
from typing import Any

import numpy as np

from servonode.acceptance.hil_accept_law import judge_law
from servonode.acceptance.hil_accept_packets import WRONG, Make
from servonode.acceptance.hil_accept_safe import MOST, SentSafeAction, listed, visible_safe_map
from servonode.acceptance.protocol_check import AGAIN, NOT_REPORTED, TINY, Check, Found, Plan
from servonode.acceptance.protocol_host import Host
from servonode.acceptance.protocol_judges import LATE_S, Finding, acts_itself
from servonode.acceptance.protocol_wires import LinkWire, NobodyThere, Wire
from servonode.bus import State
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.driver import Clock, DriverError
from servonode.plants.drivers.packet_link import PacketLink
from servonode.plants.drivers.transport import Transport

MARGIN_S = 0.05  # beyond the timeout, for this computer and the wire
LONGEST_S = 2.0  # that firmware may wait for an input, whatever a host asks for
ABSURD_S = 1e6  # the timeout that is asked for to see that
TIMES = 5  # each wrong packet is sent
WireOf = Callable[[PacketLink], Wire]


class NoFirmware(DriverError):
    """The driver of the launch file does not speak packets; the text has the remedy."""


@dataclass
class AcceptReport(Found):
    """The findings on firmware at this place, and what was proven."""

    machine: str
    place: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict}

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
            self.observe, self.fall_silent, self.brake_on, self.keep_limits,
            *(partial(self.refuse, subject, wrong) for subject, wrong in WRONG.items()), self.try_second_host,
            self.try_law, self.cap_timeout, self.begin_again, self.end, self.try_unusable_setup,
        )  # fmt: skip

    def do(self, part: Callable[[], None]) -> None:
        """As for every machine; what showed nothing wrong has proven something."""
        before = len(self.report.findings)
        super().do(part)
        proof = PROOFS.get(getattr(part, "__name__", ""))
        if proof and before == len(self.report.findings) and not self.missed:
            self.prove(*proof)

    def prove(self, subject: str, text: str) -> None:
        """Something that was seen to be right."""
        self.report.proven.append(Finding(subject, text))

    def acting_s(self, seq: int) -> tuple[float, float]:
        """How long TINY acted since this `applied` was taken, the last of its kind, by the machine's own steps [s].

        At least so long, and at most: states show what acts at their own steps, and nothing between them.
        """
        samples = self.host.samples
        at = next((i for i, each in enumerate(samples) if each.state.applied_seq >= seq), None)
        if at is None:
            return 0.0, np.inf
        first = samples[at].state.k
        before = samples[at - 1].state.k if at else first
        ended = next((i for i in range(at, len(samples)) if self._departs(samples[i].state.input)), None)
        last = samples[-1 if ended is None else max(ended - 1, at)].state.k
        most = np.inf if ended is None else (samples[ended].state.k - before) * self.step
        return (last - first) * self.step, most

    # the parts

    def fall_silent(self) -> None:
        """Inputs stop coming: within the timeout the safe action must act, as the states themselves say."""
        host, timeout, before = self.host, self.host.context.timeout, len(self.report.findings)
        if not self.acts(TINY):
            return self.miss("timeout", NOT_REPORTED, self.report.undecided)
        silent = host.sent[-1][1]
        host.listen(timeout + MARGIN_S + self.plan.settle)
        last = max(each.state.applied_seq for each in host.samples)
        after = [each for each in host.samples if each.state.applied_seq >= last]
        ended = next((i for i, each in enumerate(after) if self._departs(each.state.input)), None)
        least, most = self.acting_s(last)
        asked = f"where {timeout:g} s were asked for; let the firmware count the time from the newest input"
        if least > timeout + MARGIN_S:
            how = f"after {most:.3g} s of its own steps" if ended is not None else "never"
            return self.find("timeout", f"inputs that stop coming end {how}, {asked}")
        if ended is None:
            text = f"inputs that stop coming are not seen to end within {timeout + MARGIN_S + self.plan.settle:.3g} s"
            return self.miss("timeout", f"{text}, {asked}")
        delay = (after[ended].at - silent) / 1e9
        if max(most, delay) > timeout + MARGIN_S:
            self.miss("timeout", f"inputs that stop coming end after {max(most, delay):.3g} s, {asked}")
        if most < timeout / 2:
            text = f"inputs end {most:.3g} s after the last one, where {timeout:g} s were asked for"
            self.find("timeout", f"{text}; count the time from the newest input")
        braking = [each.state for each in after[ended:]]
        wrong, unseen = self.safe_action.wrong(braking), self.safe_action.unseen(braking)
        if wrong:
            self.find("safe action", wrong)
        elif unseen:
            self.note("safe action", unseen)
        if not self.acts(TINY, self.plan.settle + timeout):
            self.miss("timeout", "a fresh input after a silence does not act; let the run continue after a timeout")
        if len(self.report.findings) == before and not self.missed:
            acting = listed(after[-1].state.input.values())
            what = "the last input does not act any more" if unseen else "the safe action acts"
            text = f"{most:.3f} s after the last input, of {timeout:g} s asked for, {what}: {acting}"
            self.prove("timeout", text)
        return None

    def brake_on(self) -> None:
        """Begin a run while the safe action acts: no host may release it before its first input."""
        host = self.host
        if not self.acts(TINY):
            return self.miss("safe action", NOT_REPORTED, self.report.undecided)
        longest_s = host.context.timeout + MARGIN_S + self.plan.settle
        if not host.listen(longest_s, lambda: acts_itself(host.samples[-1].state)):
            return None  # `fall_silent` judges the timeout and the flag
        if not self.new_run():
            return self.miss("again", "a new run does not begin after a timeout; accept each new run of the host")
        first = host.samples[0].state
        if acts_itself(first) and self.safe_action.may_be(first):
            if self.safe_action.acts(first):  # else nothing was seen of a brake that firmware with readings may have
                self.prove("safe action", "acts on in a new run, until its first input")
            return None
        text = f"{listed(first.input.values())} acts in a run that begins after a timeout, before its first input; "
        return self.find("safe action", f"{text}let the safe action act on until then, and say so in the flags")

    def _departs(self, inputs: dict[str, float]) -> bool:
        return any(abs(value - TINY) > 0.1 * TINY for value in inputs.values())

    def refuse(self, subject: str, wrong: tuple[Make, str]) -> None:
        """Wrong packets of one kind, which must have no effect, between good ones of zero input."""
        host, value, (make, remedy) = self.host, 2 * TINY, wrong
        seen = self.new_run() and self.acts(value)
        zero = host.next_seq
        if not seen or not self.acts(0.0):
            text = f"inputs of {value:g} and 0 are not reported as acting, so the effect of wrong packets is not known"
            return self.miss(subject, text, self.report.undecided)
        counted = _refused(host.samples[-1].state)
        for _ in range(TIMES):
            self.transport.send(make(host, self.link, value))
            host.listen(min(2 * host.period, host.context.timeout / 3))  # nothing good comes that would hide it
            host.apply(0.0)
        goes_on = self.acts(0.0)
        later = [each.state for each in host.samples if each.state.applied_seq >= zero]
        acted = [each for each in later if any(abs(u) > 0.1 * TINY for u in each.input.values())]
        if acted and all(acts_itself(each) for each in acted):  # good packets came too late, or it obeys no more
            text = "not known: the machine's own safe action acted meanwhile; try again, and if that stays,"
            self.miss(subject, f"{text} {remedy}")
        elif acted:
            self.find(subject, f"acts; {remedy}")
        elif not goes_on:
            self.miss(subject, f"ends the states of the run; {remedy}")
        else:
            more = _refused(later[-1]) - counted
            if more == 0:
                text = f"{TIMES} sent, none acted, but none is counted as refused: did they arrive?"
                return self.miss(subject, text, self.report.undecided)
            self.prove(subject, f"{TIMES} sent, none acted, {more:g} counted as refused")
        return None

    def begin_again(self) -> None:
        """As for every machine, while an input acts, which must end."""
        if not self.acts(TINY):
            return self.miss("again", NOT_REPORTED, self.report.undecided)
        return super().begin_again()

    def end(self) -> None:
        """As for every machine; a link that has died must not pass for silence after `final`."""
        host, before = self.host, len(self.report.findings)
        if not self.acts(TINY):
            return self.miss("final", NOT_REPORTED, self.report.undecided)
        counted = _refused(host.samples[-1].state)
        super().end()
        sent = sum(seq > self.final + 1 for seq, _ in host.sent)  # `final` is sent twice
        if self.missed or len(self.report.findings) > before:
            return None
        if not self.new_run():
            text = "after `final` no new run begins, so what acts then is not known; begin one with the next setup"
            return self.miss("final", text)
        more = _refused(host.samples[-1].state) - counted
        if more < 0:
            text = "the count of refused packets went down; let it continue from run to run"
            return self.miss("final", text, self.report.undecided)
        if more < sent / 2:
            text = f"of {sent} inputs after `final` {more:g} are counted as refused: did the others arrive?"
            return self.miss("final", text, self.report.undecided)
        return None

    def try_unusable_setup(self) -> None:
        """As for every machine; only an answer shows that it was refused."""
        before = len(self.report.findings)
        super().try_unusable_setup()
        if self.host.run not in self.host.faults and len(self.report.findings) == before:
            self.miss("setup", "one with a negative timeout is not answered; answer it with a `fault` packet")

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

    def cap_timeout(self) -> None:
        """A host that asks for an absurd timeout and falls silent."""
        host, begun = self.host, self.host.clock()
        if not self.new_run(timeout=ABSURD_S):
            text = f"a timeout of {ABSURD_S:g} s is refused"
            if host.run in host.faults or host.late_s(begun) < LATE_S:
                return self.prove("own timeout", text)
            return self.miss("own timeout", f"not known whether {text}", self.report.undecided)
        if not self.acts(TINY):
            text = f"a timeout of {ABSURD_S:g} s is taken, but no input is reported as acting, so its end was not seen"
            return self.miss("own timeout", text, self.report.undecided)
        last = host.sent[-1][0]
        ended = host.listen(LONGEST_S, lambda: bool(host.samples) and self._departs(host.samples[-1].state.input))
        least, most = self.acting_s(last)
        text = f"a host that asks for a timeout of {ABSURD_S:g} s gets more than {LONGEST_S:g} s; "
        text += "give the machine its own longest_timeout_ns"
        if least > LONGEST_S - MARGIN_S:
            return self.find("own timeout", text)
        if not ended:
            return self.miss("own timeout", text)
        return self.prove("own timeout", f"{most:.3f} s, where the host asked for {ABSURD_S:g} s")


def _refused(state: State) -> float:
    """How many packets the firmware has refused so far, as its states say."""
    assert isinstance(state.extra, dict)  # packets always have the count
    return state.extra["machine_refused"]


PROOFS = {
    "observe": ("states", "stamps, rate, echo and inputs are right"),
    "keep_limits": ("limits", "the host's are kept"),
    "try_second_host": ("stranger", "another host is refused while this one drives"),
    "begin_again": ("again", "a run that begins while an input acts begins with zero, at its own step"),
    "end": ("final", "nothing acts after it"),
    "try_unusable_setup": ("setup", "one with a negative timeout is refused"),
}
