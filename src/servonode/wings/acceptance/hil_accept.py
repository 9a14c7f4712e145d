"""`servonode hil accept`: checks before arming that firmware meets docs/reference/firmware.md.

It runs the parts of `servonode protocol check` over packets; further parts send packets that firmware must refuse. All
inputs are zero, or too small to move anything, and so are the limits of all runs, within which the safe action acts.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic_ns
from typing import Any

import numpy as np
from msgspec import structs

from servonode.arrays import Array
from servonode.bus import Link, State
from servonode.bus.durations import Clock
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.description import unpacked
from servonode.plants.drivers.applied_inputs import AppliedNearGoal, AppliedSafeAction
from servonode.plants.drivers.driver import DriverError
from servonode.plants.drivers.installed import our_drivers
from servonode.plants.drivers.link_watch import CLIPPED, LAW
from servonode.plants.drivers.packet_link import PacketLink
from servonode.plants.drivers.transport import Transport
from servonode.wings.acceptance.protocol_check import TIMES, TINY, Check, Plan, Report, parts_of
from servonode.wings.acceptance.protocol_host import Host, await_link
from servonode.wings.acceptance.protocol_judges import LATE_S, acts_itself
from servonode.wings.acceptance.trials import APPLIED, PACKETS, SETUPS, UNUSABLE

MOST = 4 * TINY  # the limit of each input in all runs of the acceptance
CONSTANT = 1.5 * TINY  # of the first input: what acts at rest is neither zero nor the input that was sent
APART = 0.25 * TINY  # from one input's constant to the next one's: inputs that are mixed up show
FEEDBACK = 0.75 * TINY  # the largest part that follows the state; with it and 8 inputs all stays within MOST
NEAR = 0.02  # share of the safe action by which what acts may differ, and of a limit by which it may be passed
ROUNDING = 1e-3  # relative excess by rounding
TYPICAL = 0.1  # SI; least magnitude of a state for which that part is scaled, so that noise makes no difference


class NoFirmware(DriverError):
    """The driver of the launch file does not speak packets; the text has the remedy."""


def accept(closed_loop: ClosedLoop, plan: Plan | None = None) -> Report:
    """Check the firmware of a launch file; returns the report.

    Raises:
        NoFirmware: its driver does not speak packets; BusError: port or address cannot be used, or nobody answers;
        DriverError: the port is missing, or the machine has servos.
    """
    launch = closed_loop.launch
    driver, said = closed_loop.driver, closed_loop.connection.stated
    if driver.transport is None:
        able = " or ".join(f'"{each.name}"' for each in our_drivers().values() if each.transport)
        text = f'"{driver.name}" does not reach firmware; take {able} (--set plant.driver=...)'
        raise NoFirmware("plant", "driver", f"{launch.file} [plant] driver: {text}")
    if problem := closed_loop.servo_obstacle:  # forces, even small ones, may be places to a servo
        raise DriverError("plant", "driver", f"{launch.file} [plant] driver: {problem}")
    driver.ready(said)
    return accept_over(driver.transport(said), closed_loop, plan or Plan())


def accept_over(
    transport: Transport, closed_loop: ClosedLoop, plan: Plan, wait: Callable[[Link, int], None] = await_link,
    clock: Clock = monotonic_ns,
) -> Report:  # fmt: skip
    """The same over this transport; raises BusError. wait, clock [ns]: how, and by what clock, the link is awaited."""
    law = closed_loop.device_law
    report = Report(closed_loop.machine.description.name, {"place": transport.place}, "do not arm it")
    goal = closed_loop.goal(0.0)[: law.n_goal].tolist() if law else None
    every = closed_loop.check_traffic()
    with Host(closed_loop, partial(PacketLink, transport), clock, wait, state_every=every) as host:
        FirmwareCheck(host, report, plan, transport, goal).go()
    return report


class FirmwareCheck(Check):
    """The parts of the acceptance, one after the other: those of `Check`, and those that need packets.

    It has a method for each part, as `Check` has.
    """

    def __init__(self, host: Host, report: Report, plan: Plan, transport: Transport, goal: list[float] | None) -> None:
        """goal: of the law in the firmware; None: it is not to act."""
        super().__init__(host, report, plan, transport.place)
        self.unknown, self.goal, self.transport = report.undecided, goal, transport
        assert isinstance(host.link, PacketLink)
        self.link, context = host.link, host.context
        limits = {name: min(MOST, context.limits.get(name, MOST)) for name in host.names}
        host.context = replace(context, limits=limits)
        self.link.safe = visible_safe_map(self.link.safe, context.start[: host.machine.n_state])
        self.safe_action = SentSafeAction(host, self.link.safe)

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
        self.begin_run(limits=limits)
        self.safe_action.limits = limits
        try:
            self._brake_on(self.host.context.timeout + LATE_S + self.plan.settle)
        finally:
            self.safe_action.limits = self.host.context.limits

    def _brake_on(self, longest_s: float) -> None:
        host = self.host
        self.require_acting(self.acts(TINY), "safe action")
        if not host.listen(longest_s, lambda: acts_itself(host.samples[-1].state)):
            return  # `fall_silent` judges the timeout and the flag
        if wrong := self.safe_action.wrong([host.samples[-1].state]):
            self.fail("safe action", wrong)
        self.begin_run()
        first = host.samples[0].state
        if not (acts_itself(first) and self.safe_action.may_be(first)):
            text = f"{listed(first.input.values())} acts in a run that begins after a timeout, before its first input; "
            text += "let the safe action act on until then, within the limits of before, and say so in the flags"
            self.fail("safe action", text)
        if self.safe_action.acts(first):  # else nothing was seen of a brake that firmware with readings may have
            self.prove("safe action", "acts on in a new run, until its first input")
        if self.acts(TINY):
            self.begin_run()
            host.listen(longest_s, lambda: acts_itself(host.samples[-1].state))
            if not acts_itself(host.samples[-1].state):
                self.miss("safe action", "a run that gets no input has no timeout; count it from the setup then")

    def brake_when_told(self) -> None:
        """An `applied` with the flag that asks for the safe action, whatever its inputs are."""
        host = self.host
        self.begin_run()
        self.require_acting(self.acts(TINY), "brake")

        def brakes() -> bool:
            return acts_itself(host.samples[-1].state) and self.safe_action.may_be(host.samples[-1].state)

        def ask() -> None:
            host.send(AppliedSafeAction(**structs.asdict(host.applied(TINY))))

        text = "bit 2 of the flags of `applied` asks for the safe action, which does not act; let it act, and say so "
        asked = host.listen(self.plan.settle, brakes, ask, host.period)
        self.require(asked, "brake", f"{text}in the flags, until an `applied` without it")
        self.require(self.acts(TINY), "brake", "an input after a brake does not act; let it end the safe action")
        self.prove("brake", "the safe action acts when the host asks for it, until its next input")

    def count_refused(self, subject: str, before: State, after: State) -> None:
        """What had no effect must be counted: else it may not have arrived."""
        more = _refused(after) - _refused(before)
        text = f"{TIMES} sent, none acted, but none is counted as refused: did they arrive?"
        self.require(more != 0, subject, text, self.report.undecided)
        self.prove(subject, f"{TIMES} sent, none acted, {more:g} counted as refused")

    def end(self) -> None:
        """As for every machine; a link that has died must not pass for silence after `final`."""
        host, before = self.host, len(self.report.findings)
        self.require_acting(self.acts(TINY), "final")
        counted = _refused(host.samples[-1].state)
        super().end()
        sent = sum(seq > self.final + 1 for seq, _ in host.sent)  # `final` is sent twice
        if self.missed or len(self.report.findings) > before:
            return
        text = "after `final` no new run begins, so what acts then is not known; begin one with the next setup"
        self.require(self.new_run(), "final", text)
        first = host.samples[0].state
        if not (acts_itself(first) and self.safe_action.may_be(first)):
            what = f"{listed(first.input.values())} acts after `final`"
            self.fail("final", f"{what}; let the safe action act, and say so in the flags")
        more = _refused(first) - counted
        text = "the count of refused packets went down; let it continue from run to run"
        self.require(more >= 0, "final", text, self.report.undecided)
        text = f"of {sent} inputs after `final` {more:g} are counted as refused: did the others arrive?"
        self.require(more >= sent / 2, "final", text, self.report.undecided)

    def refuse_setup(self, what: str, changes: dict[str, Any]) -> None:
        """As for every machine, whose name is part of the schema in packets."""
        self.link.schema ^= "machine" in changes
        super().refuse_setup(what, changes)
        self.link.schema ^= "machine" in changes

    def try_law(self) -> None:
        """Test the firmware's own law, where the launch file uses it: only with a goal, and within the limits."""
        host, goal, seconds = self.host, self.goal, self.plan.settle
        if goal is None:
            return

        def follow() -> None:
            at = host.samples[-1].state.k
            message = AppliedNearGoal(**structs.asdict(host.applied(0.0)), goal=[float(at), 0.0, *goal])
            host.sent.append((message.seq, message.mono))
            self.link.send("applied", message)

        def decided() -> bool:
            extra = host.samples[-1].state.extra
            return isinstance(extra, dict) and bool(extra.get(LAW) or extra.get(CLIPPED))

        text = "a run in which it should act does not begin; accept each new run of the host"
        self.require(self.new_run(), "law", text)
        host.drive(TINY, seconds, decided)
        text = "acts though no packet had a goal; let it act only while bit 1 of the newest applied is set"
        self.require(not decided(), "law", text)
        text = "does not act though packets have a goal; call it at each control instant, and say so in the states"
        self.require(host.listen(seconds, decided, follow, host.period), "law", text)
        begun = host.clock()
        host.listen(seconds, each=follow, every=host.period)
        acting = [u for each in host.samples if each.at >= begun for u in each.state.input.values()]
        kept = bool(acting) and max(map(abs, acting)) <= MOST * (1 + ROUNDING)
        self.require(kept, "law", f"acts beyond a limit of {MOST:g}; clamp what it asks for as all inputs")
        host.drive(0.0, seconds)
        ends = not decided() and all(abs(u) <= 0.1 * TINY for u in host.samples[-1].state.input.values())
        text = "acts on when packets have no goal any more; let the host's inputs act then as they are"
        self.require(ends, "law", text)
        self.prove("law", "acts while packets have a goal, within the limits, and not without one")


def _refused(state: State) -> float:
    """How many packets the firmware has refused so far, as its states say."""
    assert isinstance(state.extra, dict)  # packets always have the count
    return state.extra["machine_refused"]


def visible_safe_map(safe: Array, x: Array) -> Array:
    """The safe action S x + s0 of the machine (n_inputs, n_state + 1), scaled down, with a constant for each input.

    The machine's own vanishes at rest, as does that of firmware without a brake. x: the state about which it is scaled.
    """
    reach = np.abs(safe) @ np.append(np.maximum(np.abs(x), TYPICAL), 1.0)
    largest = float(reach.max(initial=0.0))
    found: Array = safe * (FEEDBACK / largest) if largest > 0 else np.zeros_like(safe)
    found[:, -1] -= CONSTANT + APART * np.arange(len(safe))
    return found


class SentSafeAction:
    """The safe action that a machine was sent, beside what its states report after a timeout.

    A machine that sends only readings does not know its state: it was sent a constant, or has a brake of its own.
    """

    def __init__(self, host: Host, safe: Array) -> None:
        self._host, self._safe = host, safe
        self.limits = host.context.limits  # of the run that drove the machine last

    def at(self, state: State) -> Array:
        """The inputs of the safe action at a state, within the limits of the host."""
        host, machine = self._host, self._host.machine
        x = np.zeros(machine.n_state) if host.sensors else unpacked(machine.description.layout, state.state)
        most = np.array([self.limits[name] for name in host.names])
        inputs: Array = np.clip(self._safe @ np.append(x, 1.0), -most, most)
        return inputs

    def acts(self, state: State) -> bool:
        """Whether what acts is this safe action."""
        expected, found = self.at(state), np.array([state.input[name] for name in self._host.names])
        return bool(np.all(np.abs(found - expected) <= NEAR * np.abs(expected) + 0.1 * TINY))

    def may_be(self, state: State) -> bool:
        """Whether what acts is this safe action or, with readings alone, may be a brake of the machine's own."""
        if not self._host.sensors:
            return self.acts(state)
        return all(
            abs(u) <= self.limits[name] * (1 + NEAR) and abs(u - TINY) > 0.1 * TINY for name, u in state.input.items()
        )

    def wrong(self, states: Sequence[State]) -> str:
        """What is wrong with the states after a timeout, with the remedy; empty: nothing."""
        found = next((each for each in states if not self.may_be(each)), None)
        if found is not None:
            text = f"{listed(found.input.values())} acts after the timeout, where "
            if self._host.sensors:
                text += f"each input must end, or brake, within its limit, and no longer be {TINY:g}"
            else:
                text += f"the safe action is {listed(self.at(found))}"
            return f"{text}; apply S x + s0 of the setup, within its limits"
        if not all(map(acts_itself, states)):
            return "acts after the timeout, but the states do not say so; set bit 0 of their flags as long as it acts"
        return ""

    def unseen(self, states: Sequence[State]) -> str:
        """Why states that are not wrong show no safe action; empty: they show it."""
        if all(map(self.acts, states)):
            return ""
        text = (
            f"{listed(states[-1].input.values())} acts after the timeout, not the constant that was sent: this shows "
        )
        return f"{text}no brake; where the board has one of its own, turn the wheels by hand and look that it brakes"


def listed(values: Iterable[float]) -> str:
    """Numbers for people."""
    return ", ".join(f"{each + 0.0:.3g}" for each in values)  # -0.0 too is 0
