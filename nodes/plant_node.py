"""The plant node: publishes states, takes commands through the guard, keeps plant time.

Liveness is a fresh command that answers a state. In lockstep the plant waits for each answer; in real time it
keeps an absolute grid, and commands that stay away lead to the safe action.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.bus import BusFace, Command, Lifecycle, State, subscriptions_expected
from servonode.bus.interfaces import Wanted
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.description import packed
from servonode.mechanics.fault_time import located
from servonode.nodes.driver import driven_plant
from servonode.nodes.energy_account import EnergyAccount
from servonode.nodes.fault_ladder import FINAL, STAYS
from servonode.nodes.goal_time import GoalTime
from servonode.nodes.guard import Guard
from servonode.nodes.node import Clock, Fault, Outbox, start_id
from servonode.nodes.pace import Pace
from servonode.nodes.plant_status import PlantStatus
from servonode.nodes.row_log import Recorder
from servonode.nodes.store import Store
from servonode.nodes.topology import NODES, PLANT
from servonode.plants.plant import Plant

Array = npt.NDArray[np.float64]
RESEND_NS = 100_000_000  # an unanswered state, or an idle plant's newest one, is published again after this long
LOOK_NS = 1_000_000  # a plant that never sleeps looks at its door this often
MORE_COLUMNS = ("goal_k", "age")  # of the record: step of the goal, and how old the state is [s of plant time]
CHUNK = 100_000  # steps after which a plant that integrates for long looks after its door and its status


class PlantNode:
    """One run of the plant; `lockstep.py` or `realtime.py` drive it from instant to instant.

    It is large because it is where states, commands, plant time and the operator meet; what can be told without the
    others is in its parts: `guard`, `pace`, `status`, `energy`.
    interactive: commands from the operator may come and be waited for; False within one process.
    """

    def __init__(
        self,
        closed_loop: ClosedLoop,
        bus: BusFace,
        listeners: Sequence[Wanted],
        every: int,
        clock: Clock = time.monotonic_ns,
        interactive: bool = False,
        store: Store | None = None,
    ) -> None:
        launch = closed_loop.launch
        self.closed_loop = closed_loop
        self.clock = clock
        self.bus = bus
        self.plant: Plant = driven_plant(closed_loop, clock) if interactive else closed_loop.plant()
        self.info = self.plant.open()
        self._layout = closed_loop.machine.description.layout
        self.outbox = Outbox(PLANT, bus.publisher(subscriptions_expected(PLANT, listeners)), clock)
        self.guard = Guard(closed_loop, self.plant, self.outbox, clock)
        self.counts: Counter[str] = self.guard.counts
        if interactive:  # else it is a simulation, whatever the driver
            self.guard.unlimited = closed_loop.unlimited
        self.commands = bus.subscriber(NODES[PLANT].hears) if closed_loop.control else None
        self.steps, self.steps_per_period = launch.steps, launch.steps_per_period
        self.publish_every, self.every = launch.plant.publish_every, every
        columns = [*self.info.state_names, "work", *self.info.input_names, *MORE_COLUMNS]
        self.record = Recorder(columns, self.steps // every + 2, store)
        self._more = np.zeros(len(MORE_COLUMNS))
        self.stop = False  # asked from outside
        self.stops = 0  # how often; a second time skips the safe action
        self.asks = True  # control states want an answer
        self.pace = Pace()
        self.waits = interactive and closed_loop.on_fault == "wait"  # a fault is followed by a reset, not by the end
        self.interactive = interactive
        self._advancing = self._lost = False  # in the middle of a step; the machine stays away
        self._connecting = 0  # clock until which the machine may answer the handshake; 0: it has
        self.status = PlantStatus(self)
        self._looked = 0
        self._last_state: State | None = None
        self._last_step = -1  # of the machine, in the newest control state
        self._wall_ns = 1e9 / launch.run.speed  # ns (wall clock) in a second of plant time
        self._goal = GoalTime()
        self._last_control = 0  # clock of the control state before
        self.energy = EnergyAccount(self.plant)
        self._brake_steps = closed_loop.brake_steps
        self._watched = launch.plant.safety.faults
        self._locates = self._watched and self.steps_per_period is None and bool(closed_loop.machine.description.faults)

    @property
    def k(self) -> int:
        """The plant step; within an exchange `plant.k` is asked itself."""
        return self.plant.k

    @property
    def instant(self) -> int:
        """The control instant at or before the present step."""
        return self.plant.k // (self.steps_per_period or 1)

    @property
    def goal_k(self) -> int:
        """The step of the goal at present. It stands while no command acts, else it would run away from the machine."""
        k, goal = self.plant.k, self._goal
        if self.steps_per_period is None:
            return k
        return goal.kept if k == goal.since else goal.step(k, self.guard.follows)

    @property
    def failed(self) -> bool:
        return bool(self.guard.ladder.latched)

    @property
    def faults(self) -> list[Fault]:
        """All faults of the run."""
        return self.guard.ladder.faults

    @property
    def applied(self) -> Array:
        """The inputs that act from now on."""
        return self.guard.applied

    def must_end(self) -> bool:
        """Whether a latched fault ends the run, rather than wait for a reset."""
        if not self.failed:
            return False
        names = {fault.name for fault in self.guard.ladder.latched}
        return (
            bool(names & FINAL) or not self.plant.finite or not (self.waits or (self.interactive and "estop" in names))
        )

    def _final(self) -> str | None:
        """The sentence that a latched fault ends the run, or None."""
        if not self.must_end():
            return None
        return f"fault {self.guard.ladder.latched[0].name} ends the run; start it anew"

    def is_control(self, k: int) -> bool:
        """Whether step k is a control instant."""
        return self.steps_per_period is not None and k % self.steps_per_period == 0

    def next_event(self) -> int:
        """The next step at which a state is published: for telemetry, for control, or the last one."""
        k = self.plant.k
        following = k - k % self.publish_every + self.publish_every
        if self.steps_per_period:
            following = min(following, k - k % self.steps_per_period + self.steps_per_period)
        return min(following, self.steps)

    # states

    def publish_state(self) -> None:
        """Publish the measured state of this step; at a control instant an answer is expected."""
        reading, control = self.plant.read(), self.asks and self.is_control(self.plant.k)
        if control and self.plant.drops():
            self.counts["dropped_states"] += 1
            return
        if self.plant.distrust is not None and not self.failed:
            self.fault(*self.plant.distrust, PLANT)
        if control and not self.plant.simulated:
            self.counts["slow_states"] += reading.step == self._last_step
            self._last_step = reading.step
        values = packed(self._layout, reading.state.tolist())
        message = self.outbox.send(
            State, reading.k, reading.t, state=values, input=self.guard.held, control=control,
            final=reading.k == self.steps, goal_k=self.goal_k, age=reading.age,
        )  # fmt: skip
        if control:
            self._last_state = message  # type: ignore[assignment]
            self.guard.asked(message.seq, self.instant, message.mono, round(reading.age * self._wall_ns))
            if self._last_control:
                self.status.period.add((message.mono - self._last_control) / 1e9)
            self._last_control = message.mono

    def publish_again(self) -> None:
        """Send the unanswered state once more, as the same message (lockstep: heals a lost frame)."""
        state = self._last_state
        if state is not None:
            self.outbox.send(
                State, state.k, state.t, seq=state.seq, state=state.state, input=state.input, control=True,
                final=state.final, goal_k=state.goal_k, age=state.age,
            )  # fmt: skip
            self.counts["resent_states"] += 1
            self.status.publish()  # a plant that stands still gets its goals again

    def awaits_answer(self) -> bool:
        """Whether the newest control state has no answer yet."""
        return self.guard.awaits_answer()

    def take_commands(self) -> bool:
        """Drain the commands; whether one came that will act (the newest wins). A law's fault is latched."""
        if self.commands is None:
            return False
        fresh = False
        for _, command in self.commands.receive():
            assert isinstance(command, Command)
            fresh = self.guard.consider(command, self.plant.k, max(self.plant.k, self.pace.present_step())) or fresh
        return fresh

    def act(self) -> None:
        """Let the inputs that are due at the present step reach the plant."""
        self.guard.act(self.plant.k)

    # time

    def advance_to(self, k: int) -> None:
        """Let plant time pass up to step k under the inputs that are due, recording every `every`-th step."""
        before: Array | None = None  # the state before the step that ended with a fault
        guard, self._advancing = self.guard, True
        while (at := self.plant.k) < k and before is None:
            self.act()
            if guard.braking:
                guard.brake()
            self._record()
            until = min(k, at - at % self.every + self.every, at + CHUNK)
            if guard.due is not None:
                until = min(until, guard.due)
            if self._locates and not self.failed:
                before = self.plant.advance_watched(until - at)
            else:
                self.plant.advance(min(self._brake_steps, until - at) if guard.braking else until - at)
            if not self.plant.arrived() and not self._machine_came():
                break
            if until - at == CHUNK:
                self.poll_requests()
                self.status.if_due()
                if self.stop:
                    break
        self._advancing = False
        control = self.is_control(self.plant.k)
        if control:
            self._goal.keep(self.plant.k, self.guard.follows)
        self._watch(before, control)

    def _machine_came(self) -> bool:
        """Wait for a machine in lockstep; False when it stays away, which is a fault, or the run is to stop."""
        limit = self.clock() + round(self.closed_loop.launch.run.lockstep_timeout * 1e9)
        while not self.plant.arrived():
            now = self.clock()
            if self.stop or self._lost:
                return False
            trouble = self.plant.link_fault()
            if trouble is not None:
                self._lost = True
                self.fault(*trouble, PLANT)
                return False
            if now >= limit:
                self._lost = True
                timeout = self.closed_loop.launch.run.lockstep_timeout
                text = f"no state from the machine after step {self.plant.k} within {timeout:g} s; is it alive?"
                self.fault("lockstep_timeout", text, PLANT)
                return False
            self.bus.wait(min(limit, self.plant.due() or limit), self.plant.fds)
        return True

    def _watch(self, before: Array | None, control: bool) -> None:
        """Judge the state where it has come to: finite, and at control instants within the machine's own bounds.

        Without a controller each step is judged, and the time of a fault is located in the step from state `before`.
        """
        if self.plant.distrust is not None:
            self.fault(*self.plant.distrust, PLANT)
        if not self.plant.finite:
            self.fault("diverged", "the state is no longer finite: the machine's motion escaped", PLANT)
        if self.failed:
            return
        if self._watched and (control or self.steps_per_period is None):
            t = self.plant.t
            text = self.closed_loop.machine.fault(t, self.plant.x)
            if before is not None:
                integrator, u = self.closed_loop.launch.plant.integrator, self.plant.output
                t, text = located(
                    self.closed_loop.machine, integrator, self.plant.step_ns, self.plant.k - 1, before, u
                )  # fmt: skip
            if text:
                self.fault(self.closed_loop.machine.fault_name(text), text, PLANT, t)

    def _record(self) -> None:
        k = self.plant.k
        if k % self.every == 0 or k == self.steps:
            self._add_row(k)

    def _add_row(self, k: int) -> None:
        self._more[:] = self.goal_k, self.plant.age
        self.record.add(k, self.plant.x, self.plant.output, self._more)

    def come_to_rest(self, wait: Callable[[int], None] | None = None, most: int | None = None) -> None:
        """The safe action, which acts already, for its time (`most` steps) or to the end of the run.

        `wait` keeps pace, step by step.
        """
        steps = self.closed_loop.safe_steps
        last = min(self.steps, self.plant.k + (steps if most is None else min(steps, most)))
        self.status.publish()
        self.asks = False
        self.energy.begin()
        while self.plant.k < last and self.plant.finite and not self._lost and not self.energy.strays():
            k = min(self.next_event(), last)
            if wait is not None:
                wait(k)
            if self.stop:
                break
            self.advance_to(k)
            self.publish_state()
            self.status.if_due()
            self.poll_requests()
        self.asks = True

    def poll_requests(self) -> None:
        """Hear the operator also where there is never time to sleep, at most every LOOK_NS."""
        now = self.clock()
        if self.interactive and now - self._looked > LOOK_NS:
            self._looked = now
            self.bus.wait(0)

    def fault(self, name: str, text: str, node: str, t: float | None = None) -> None:
        """Latch a fault, of time t [s] (absent: now): the safe action from now on."""
        known = len(self.faults)
        self.guard.latch(Fault(name, text, self.plant.t if t is None else t, node))
        if len(self.faults) > known and self.interactive:
            self.status.publish()

    # the operator

    def asked(self, word: str) -> dict[str, Any]:
        """Carry out what the operator asks: arm, disarm, estop, reset, reset_estop; or give the status."""
        refused: str | None = None
        if word == "status":
            return self.status.standing()
        if word == "estop":
            if not self._advancing:
                self.pace.catch_up()
            self.fault("estop", "emergency stop, asked for by the operator", PLANT)
        elif word == "disarm":
            refused = self.guard.disarm()
        elif word in ("reset", "reset_estop"):
            refused = self._final() or self.guard.reset(estop=word == "reset_estop")
            if refused is None:
                self.connect()
        else:
            refused = self.arm()
        if refused is not None:
            return {"refused": refused}
        self.status.publish()
        note = {"note": STAYS} if word == "reset" and self.failed else {}
        return {"done": True, "lifecycle": self.guard.lifecycle, **note}

    def arm(self) -> str | None:
        """Arm; why not, or None. During the run the controller must be answering, and a new run id begins."""
        begun, timeout = self._last_control > 0, self.closed_loop.command_timeout
        lockstep = self.closed_loop.launch.run.mode == "lockstep"  # time stands still, nobody is asked meanwhile
        recent = round(timeout * 1e9) if begun and timeout and not lockstep else None
        if not self.plant.connected():
            return f"the machine has not answered yet: {self.plant.no_answer_reason()}"
        trouble = self.link_fault()
        if trouble is not None:
            return f"the machine is not well: {trouble[1]}"
        refused = self.pace.obstacle() or self.guard.arm(self.clock(), recent)
        if refused is None and begun:
            self.guard.begin(self.instant)
        return refused

    def connect(self) -> None:
        """Begin the machine's handshake, which it may take the time of a first answer for."""
        self._lost = False
        self.plant.connect(start_id(), self.plant.k)
        self._connecting = self.clock() + round(self.closed_loop.launch.run.lockstep_timeout * 1e9)

    def link_fault(self, now: int | None = None) -> tuple[str, str] | None:
        """Name and text of a fault of the machine or its link, or None; a machine that has yet to answer has time."""
        trouble = self.plant.link_fault(now)
        if not self._connecting or trouble is not None:
            return trouble
        if self.plant.connected():
            self._connecting = 0
            self.guard.sees()
        elif self.clock() > self._connecting:
            self._connecting = 0
            return "stale_state", f"the machine does not answer the handshake: {self.plant.no_answer_reason()}"
        return None

    # the end, and what is said on the way

    def finish(self) -> None:
        """The last row of the record, the plant given back, and the last status."""
        self.act()
        if self.record.last != self.plant.k:
            self._add_row(self.plant.k)
        self.plant.close()
        self.status.publish(Lifecycle.FAULT if self.failed else Lifecycle.FINISHED)

    def summary(self) -> dict[str, Any]:
        """What the launcher needs of the plant when the run is over."""
        return self.status.summary() | {"k": self.plant.k, "energy_error": self.energy.missing()}
