"""The plant node: publishes states, takes commands through the safety filter, keeps plant time.

Liveness is a fresh command that answers a state. In lockstep the plant waits for each answer; in real time it
keeps an absolute grid, and commands that stay away lead to the safe action.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.bus import Applied, BusFace, Command, State, Status, subscriptions_expected
from servonode.bus.faces import Wanted
from servonode.mechanics.description import packed
from servonode.nodes.assembly import Assembly
from servonode.nodes.faults import located
from servonode.nodes.node import PLANT, STATUS_PERIOD_NS, WANTED, Clock, Durations, Fault, Outbox
from servonode.nodes.recorder import Recorder
from servonode.nodes.safety import Expected, limited, refusal

Array = npt.NDArray[np.float64]
STATUS_INSTANTS = 64  # control instants after which a status is due at the latest; the target node goes by it
RESEND_NS = 100_000_000  # in lockstep an unanswered state is published again after this long
OUTSTANDING = 64  # control states that may wait for an answer at once


class PlantNode:
    """One run of the plant; `lockstep` or `realtime` (in `realtime.py`) drive it from instant to instant."""

    def __init__(
        self,
        assembly: Assembly,
        bus: BusFace,
        listeners: Sequence[Wanted],
        every: int,
        clock: Clock = time.monotonic_ns,
    ) -> None:
        launch = assembly.launch
        self.assembly = assembly
        self.clock = clock
        self.bus = bus
        self.plant = assembly.plant()
        self.info = self.plant.open()
        self._layout = assembly.machine.description.layout
        self.outbox = Outbox(PLANT, bus.publisher(subscriptions_expected(PLANT, listeners)), clock)
        self.commands = bus.subscriber(WANTED[PLANT]) if assembly.control else None
        self.steps, self.steps_per_period = launch.steps, launch.steps_per_period
        self.publish_every, self.every = launch.plant.publish_every, every
        self.delay = launch.controller.delay if launch.controller else 0
        columns = [*self.info.state_names, "work", *self.info.input_names]
        self.record = Recorder(columns, self.steps // every + 2)
        self.applied = np.zeros(len(self.info.input_names))  # acts from now on
        self._limits = tuple(assembly.limits.tolist())
        self.faults: list[Fault] = []
        self.counts: Counter[str] = Counter()
        self.round_trip = Durations()
        self.stop = False  # asked from outside
        self._later: dict[int, list[float]] = {}  # control instant -> inputs that act from it on, oldest first
        self._outstanding: dict[int, int] = {}  # seq -> control instant, oldest first
        self._published: dict[int, int] = {}  # seq -> clock when it was published
        self._expected = Expected(self.outbox.run, -1, -1, self._outstanding, self.info.input_names)
        self._held = dict.fromkeys(self.info.input_names, 0.0)  # `applied` by name
        self._last_state: State | None = None
        self._status_due = self._status_k = 0
        self._start_energy = self.plant.energy()
        self._braking = False  # the machine's own safe action acts, computed anew for each step
        self._watched = launch.plant.safety.faults
        self._locates = self._watched and self.steps_per_period is None and bool(assembly.machine.description.faults)
        self.brakes = assembly.machine.description.brakes

    @property
    def k(self) -> int:
        return self.plant.k

    @property
    def failed(self) -> bool:
        return bool(self.faults)

    def is_control(self, k: int) -> bool:
        """Whether step k is a control instant."""
        return self.steps_per_period is not None and k % self.steps_per_period == 0

    def next_event(self) -> int:
        """The next step at which a state is published: for telemetry, for control, or the last one."""
        k = self.k
        following = k - k % self.publish_every + self.publish_every
        if self.steps_per_period:
            following = min(following, k - k % self.steps_per_period + self.steps_per_period)
        return min(following, self.steps)

    def publish_state(self) -> None:
        """Publish the measured state of this step; at a control instant an answer is expected."""
        reading, control = self.plant.read(), self.is_control(self.k) and not self.failed
        if control and self.plant.sensor.drops():
            self.counts["dropped_states"] += 1
            return
        values = packed(self._layout, reading.state.tolist())
        message = self.outbox.send(
            State, reading.k, reading.t, state=values, input=self._held, control=control,
            final=reading.k == self.steps,
        )  # fmt: skip
        if control:
            self._last_state = message  # type: ignore[assignment]
            self._expected.newest = message.seq
            self._outstanding[message.seq] = reading.k // (self.steps_per_period or 1)
            self._published[message.seq] = message.mono
            if len(self._outstanding) > OUTSTANDING:
                self._forget(next(iter(self._outstanding)))
                self.counts["missed_commands"] += 1

    def _forget(self, seq: int) -> None:
        del self._outstanding[seq], self._published[seq]

    def publish_again(self) -> None:
        """Send the unanswered state once more, as the same message (lockstep: heals a lost frame)."""
        state = self._last_state
        if state is not None:
            self.outbox.send(
                State, state.k, state.t, seq=state.seq, state=state.state, input=state.input, control=True,
                final=state.final,
            )  # fmt: skip
            self.counts["resent_states"] += 1
            self.publish_status("active")  # a plant that stands still gets its goals again

    def awaits_answer(self) -> bool:
        """Whether the newest control state has no answer yet."""
        return self._expected.newest > self._expected.answered

    def take_commands(self) -> bool:
        """Drain the commands; whether a good one came (the newest wins). A law's fault is latched."""
        if self.commands is None:
            return False
        fresh = False
        for _, command in self.commands.receive():
            assert isinstance(command, Command)
            fresh = self._consider(command) or fresh
        return fresh

    def _consider(self, command: Command) -> bool:
        if self.failed:  # a fault is latched: nothing that waits behind it may act
            return False
        reason = refusal(command, self._expected)
        if reason is not None:
            self.counts[f"refused_{reason}"] += 1
            return False
        instant = self._outstanding[command.re]
        self.round_trip.add((self.clock() - self._published[command.re]) / 1e9)
        while (seq := next(iter(self._outstanding))) < command.re:
            self.counts["missed_commands"] += 1
            self._forget(seq)
        self._forget(command.re)
        self._expected.answered = command.re
        if command.fault:
            self.fault("law", command.fault, "controller")
            return False
        asked = [command.input[name] for name in self.info.input_names]
        values, reasons = limited(asked, self._limits, self.info.input_names)
        if reasons:
            self.counts["saturated"] += 1
        self._later[instant + self.delay] = values
        self._publish_applied(command, values, reasons)
        return True

    def _publish_applied(self, command: Command, values: list[float], reasons: list[str]) -> None:
        if not self.outbox.heard("applied"):
            return
        names = self.info.input_names
        self.outbox.send(
            Applied, self.k, self.plant.t, input=dict(zip(names, values, strict=True)), desired=command.input,
            re=command.seq, reasons=reasons, repeats=0,
        )  # fmt: skip

    def act(self) -> None:
        """Let the inputs that are due at the present control instant reach the plant."""
        if self.steps_per_period is None:
            return
        instant = self.k // self.steps_per_period
        while self._later and (due := next(iter(self._later))) <= instant:
            self._hold(self._later.pop(due))
            self.plant.write(self.applied)

    def _hold(self, values: list[float]) -> None:
        self._braking = False
        self.applied = np.array(values)
        self._held = dict(zip(self.info.input_names, values, strict=True))

    def advance_to(self, k: int) -> None:
        """Integrate up to step k under the inputs that are due, recording every `every`-th step."""
        before: Array | None = None  # the state before the step that ended with a fault
        while (at := self.k) < k and before is None:
            self.act()
            if self._braking:
                self._brake()
            self._record()
            until = min(k, at - at % self.every + self.every)
            if self.steps_per_period and self._later:
                until = min(until, at - at % self.steps_per_period + self.steps_per_period)
            if self._locates and not self.failed:
                before = self.plant.advance_watched(until - at)
            else:
                self.plant.advance(1 if self._braking else until - at)
        self._watch(before)

    def _watch(self, before: Array | None) -> None:
        """Judge the state where it has come to: finite, and at control instants within the machine's own bounds.

        Without a controller each step is judged, and the time of a fault is located in the step from state `before`.
        """
        if not self.plant.finite and all(each.name != "diverged" for each in self.faults):
            self.fault("diverged", "the state is no longer finite: the machine's motion escaped", PLANT)
        if self.failed:
            return
        if self._watched and (self.steps_per_period is None or self.is_control(self.k)):
            text, t = self.assembly.machine.fault(self.plant.t, self.plant.x), self.plant.t
            if before is not None:
                integrator, u = self.assembly.launch.plant.integrator, self.plant.actuator.output
                t, text = located(
                    self.assembly.machine, integrator, self.plant.step_ns, self.k - 1, before, u
                )  # fmt: skip
            if text:
                self.fault("machine", text, PLANT, t)

    def _record(self) -> None:
        k = self.k
        if k % self.every == 0 or k == self.steps:
            self.record.add(k, self.plant.x, self.plant.actuator.output)

    def _brake(self) -> None:
        """Write the safe action's inputs at the present state, within the limits; zero where they are not finite."""
        asked = self.assembly.machine.safe_input(self.plant.t, self.plant.x)
        if not np.isfinite(asked).all():
            asked = np.zeros(len(asked))
        values, _ = limited(asked.tolist(), self._limits, self.info.input_names)
        self._hold(values)
        self.plant.write(self.applied)
        self._braking = True

    def come_to_rest(self, wait: Callable[[int], None] | None = None) -> None:
        """After a fault, the safe action for its time or to the end of the run; `wait` keeps pace, step by step."""
        last = min(self.steps, self.k + self.assembly.safe_steps)
        if self.failed and self.k < last:
            self.publish_status("fault")
        while self.failed and self.k < last and self.plant.finite:
            k = min(self.next_event(), last)
            if wait is not None:
                wait(k)
            if self.stop:
                break
            self.advance_to(k)
            self.publish_state()

    def fault(self, name: str, text: str, node: str, t: float | None = None) -> None:
        """Latch a fault, of time t [s] (absent: now): the safe action from now on."""
        self.faults.append(Fault(name, text, self.plant.t if t is None else t, node))
        self.safe()

    def safe(self) -> None:
        """Zero input, or the machine's own safe action, and nothing that was still to come."""
        self._later.clear()
        self._hold([0.0] * len(self.applied))
        self.plant.safe()
        if self.brakes and self.plant.finite:
            self._brake()

    def finish(self) -> None:
        """The last row of the record, the plant given back, and the last status."""
        self.act()
        if not self.record.count or self.record.rows[-1, 0] != self.k:
            self.record.add(self.k, self.plant.x, self.plant.actuator.output)
        self.plant.close()
        self.publish_status("fault" if self.failed else "finished")

    def publish_status(self, lifecycle: str, **values: float) -> None:
        """Publish lifecycle, faults, counters and what the status line shows."""
        shown = {"round_trip": self.round_trip.recent(), **values}
        fault = self.faults[0].name if self.faults else ""
        self.outbox.send(
            Status,
            self.k,
            self.plant.t,
            lifecycle=lifecycle,
            fault=fault,
            counts=dict(self.counts),
            values=shown,
        )
        self._status_due = self.clock() + STATUS_PERIOD_NS
        self._status_k = self.k

    def status_if_due(self, **values: float) -> None:
        """Publish a status a few times a second, and at least every STATUS_INSTANTS control instants."""
        passed = (self.k - self._status_k) // (self.steps_per_period or 1)
        if self.clock() >= self._status_due or passed >= STATUS_INSTANTS:
            self.publish_status("active", **values)

    def summary(self) -> dict[str, Any]:
        """What the launcher needs of the plant when the run is over."""
        refused = self.commands.counts if self.commands else {}
        return {
            "k": self.k,
            "faults": [fault.as_dict() for fault in self.faults],
            "counts": dict(self.counts) | {f"refused_{name}": n for name, n in refused.items()},
            "round_trip_s": self.round_trip.percentiles(),
            "energy_error": self.plant.energy() - self._start_energy - float(self.plant.x[-1]),
        }


def lockstep(node: PlantNode, timeout_s: float) -> None:
    """Drive the plant from answer to answer; an answer that stays away for `timeout_s` [wall s] is a fault.

    Works on both buses: `bus.wait` sleeps on sockets, and steps the other nodes on the bus in memory.
    """
    node.publish_status("active")
    while not node.stop:
        node.publish_state()
        if node.awaits_answer() and not await_answer(node, timeout_s):
            break
        node.status_if_due()
        if node.k == node.steps:
            break
        node.advance_to(node.next_event())
        if node.failed:
            break
    node.come_to_rest()
    node.finish()


def await_answer(node: PlantNode, timeout_s: float) -> bool:
    """Whether the newest control state was answered by a good command."""
    asked = node.clock()
    limit = asked + round(timeout_s * 1e9)
    again = asked + RESEND_NS
    while not node.stop:
        if node.bus.wait(min(again, limit)):
            if node.take_commands() and not node.awaits_answer():
                return True
            if node.failed:
                return False
            continue
        now = node.clock()
        if now >= limit:
            node.fault(
                "lockstep_timeout",
                f"no answer to the state of step {node.k} within {timeout_s:g} s; is the controller alive?",
                PLANT,
            )
            return False
        if now >= again:
            node.publish_again()
            again = now + RESEND_NS
    return False
