"""The plant node: publishes states, puts commands through the guard, advances plant time.

In lockstep the plant waits for the answer to each state; in real time it keeps an absolute grid, and commands that
do not arrive lead to the safe action.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from servonode.arrays import Array
from servonode.bus import AnyBus, Command, Lifecycle, Wanted
from servonode.bus.descriptors import arming_obstacle
from servonode.bus.durations import Clock
from servonode.bus.fleet_memory import LOOK_S, SEEN
from servonode.bus.topology import NODES, PARAMETERS, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.description import MachineDescription
from servonode.nodes.fault_ladder import ESTOP, ESTOP_STAYS_LATCHED, Fault, Ladder
from servonode.nodes.guard import Guard
from servonode.nodes.injected import InjectedFaults
from servonode.nodes.input_limiter import REFUSED, Observed
from servonode.nodes.node import NO_ARGUMENTS, Node
from servonode.nodes.plant_machine import EnergyAccount, MachineLink, StateCheck, driven_plant
from servonode.nodes.plant_status import PlantStatus, StatePublisher
from servonode.nodes.plant_time import VERBS, GoalTime, Pace, Pause, StepGrid
from servonode.plants.plant import Plant
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.recorder import Recorder
from servonode.record.shared_memory import Ring

REQUESTS_NS = 1_000_000  # how often a plant that never sleeps polls requests
MARGIN_NS = 1_000_000_000  # by which a robot waits longer for another one than for its own controller
CHUNK = 100_000  # steps after which a plant that integrates for long polls requests and publishes its status


class PlantRecorder(Recorder):
    """Records every `every`-th step of a plant, and the last one.

    A row has the state, the work, the inputs, the step of the goal and the age of the state.
    """

    def __init__(
        self, plant: Plant, machine: MachineDescription, goal: GoalTime, steps: int, every: int, ring: Ring | None
    ) -> None:
        row = PlantRecordLayout.of(machine)
        columns = row.columns(machine)
        super().__init__(columns[1:], steps // every + 2, ring)
        self.every = every
        self._steps = steps
        self._plant, self._goal = plant, goal
        self._stamps = np.zeros(len(columns[row.stamps]))

    def take(self, at_the_end: bool = False) -> None:
        """Record the present step if it is one of these, or with `at_the_end`."""
        plant = self._plant
        k = plant.k
        if k % self.every == 0 or k == self._steps or at_the_end:
            self._stamps[:] = self._goal.k, plant.age
            self.add(k, plant.x, plant.output, self._stamps)


class PlantNode(Node):
    """One run of the plant; `lockstep.py` or `realtime.py` drive it from instant to instant.

    It is large because it combines the parts of a plant; its own methods are those that need several parts.
    interactive: whether it answers an operator and may wait for one; False within one process.
    """

    def __init__(
        self,
        closed_loop: ClosedLoop,
        bus: AnyBus,
        listeners: Sequence[Wanted],
        every: int,
        clock: Clock = time.monotonic_ns,
        interactive: bool = False,
        ring: Ring | None = None,
    ) -> None:
        super().__init__(
            PLANT, bus, listeners, clock, subscribes=NODES[PLANT].subscribes if closed_loop.control else {}
        )
        launch = closed_loop.launch
        self.closed_loop = closed_loop
        injector = closed_loop.injector()
        plant = driven_plant(closed_loop, clock, injector) if interactive else closed_loop.plant(injector)
        folder = getattr(bus, "folder", None)
        self.injected = InjectedFaults(injector, self.counts, folder, self._speed, closed_loop.injection)
        self.plant: Plant = cast(Plant, Observed(plant)) if closed_loop.readonly else plant
        self.plant.open()
        self.member = closed_loop.member  # the place in a fleet; None: the robot is alone
        self.grid = StepGrid(launch.steps, launch.steps_per_period, launch.plant.publish_every)
        ladder = Ladder(
            self.faults,
            waits=interactive and closed_loop.safety.on_fault == "wait",
            estop_waits=interactive,
            told=self._tell_fleet,
        )
        self.guard = Guard(closed_loop, self.plant, self.outbox, ladder, self.counts, clock)
        if interactive:  # else it is a simulation, whatever the driver
            self.guard.unlimited = closed_loop.safety.unlimited
        self.link = MachineLink(self.plant, self.guard, clock, launch.run.lockstep_timeout)
        self.goal = GoalTime(self.plant, self.guard)
        self.states = StatePublisher(closed_loop, self.plant, self.outbox, self.guard, self.goal)
        self.record = PlantRecorder(self.plant, closed_loop.machine.description, self.goal, launch.steps, every, ring)
        self.pace = Pace()
        self.pause = Pause(closed_loop, self.plant, self.guard, self.grid, clock)
        self.status = PlantStatus(self, self.show_life)
        self.energy = EnergyAccount(self.plant, closed_loop.machine)
        self.interactive = interactive
        self.reset_ns: int | None = None  # time at which an emergency stop was last cleared; None: none was
        self.stops = 0  # how often it was asked to stop; a second time skips the safe action
        self._check = StateCheck(closed_loop, self.plant)
        self._brake_steps = closed_loop.safety.brake_steps  # steps for which a safe action may be held
        self._advancing = False  # whether `advance_to` is at work
        self._lockstep = launch.run.mode == "lockstep"
        self._polled = 0  # time of the newest poll of requests

    def must_end(self) -> bool:
        """Whether a latched fault ends the run, rather than wait for a reset."""
        return self.guard.failed and (not self.plant.finite or self.guard.ladder.ends_run())

    @property
    def machine_obstacle(self) -> str | None:
        """Why the machine behind the link must not be armed, a sentence with the remedy; None: it may be."""
        return self.closed_loop.servo_obstacle or (self.plant.remote.obstacle if self.plant.remote else "") or None

    def _speed(self) -> float:
        """Plant seconds per second of wall-clock time, as asked; 1 where a lockstep goes as fast as it can."""
        return self.pause.speed or 1.0

    # states and commands

    def publish_state(self, asks: bool = True) -> None:
        """Publish the measured state of this step; with `asks`, an answer is expected at a control instant."""
        plant, control = self.plant, asks and self.grid.is_control(self.plant.k)
        reading = plant.read()
        dropped = control and plant.drops()
        if control and not self._keep_step(self.grid.instant(plant.k), None if dropped else reading.state):
            return
        if dropped:
            self.counts["dropped_states"] += 1
            return
        if plant.distrust is not None and not self.guard.failed:
            self.fault(*plant.distrust)
        self.states.publish(reading, self.grid.instant(plant.k) if control else None)

    def take_commands(self) -> bool:
        """Pass received commands to the guard; the newest wins. Returns whether one of them will act."""
        fresh = False
        for _, command in self.inbox.receive():
            assert isinstance(command, Command)
            fresh = self.guard.consider(command, self.plant.k, max(self.plant.k, self.pace.present_step())) or fresh
        return fresh

    def act(self) -> None:
        """Write the inputs that are due at the present step."""
        self.guard.output.act(self.plant.k)

    # time

    def advance_to(self, k: int) -> None:
        """Advance the plant to step k under the scheduled inputs, recording every `every`-th step."""
        before: Array | None = None  # the state before a step that ended with a fault
        plant, output, every, self._advancing = self.plant, self.guard.output, self.record.every, True
        while (at := plant.k) < k and before is None:
            self.injected.begin(at)
            output.act(at)
            if output.braking:
                output.brake()
            self.record.take()
            until = min(k, at - at % every + every, at + CHUNK)
            for due in (output.due, self.injected.due):
                until = until if due is None else min(until, due)
            if self._check.locates and not self.guard.failed:
                before = plant.advance(until - at, watched=True)
            else:
                plant.advance(min(self._brake_steps, until - at) if output.braking else until - at)
            if not self._machine_arrives():
                break
            if until - at == CHUNK:
                self.poll_requests()
                self.status.if_due()
                if self.stop:
                    break
        self._advancing = False
        control = self.grid.is_control(plant.k)
        if control:
            self.goal.begin_period()
        sampled = control or not self.guard.controlled  # between two samples the machine may violate its conditions
        for found in self._check.find(self.guard.failed or not sampled, before):
            self.fault(*found)

    def keep_pause(self) -> int:
        """Keep plant time where it is while the run is paused; returns for how long [ns]. A fault ends the pause."""
        pause = self.pause
        if not pause.reached(begun := self.clock()):
            return 0
        pause.stands, pause.stood = True, pause.at or self.plant.k
        self.status.publish()
        while pause.reached(now := self.clock()) and not (self.stop or self.guard.failed):
            self.bus.wait(pause.look_ns(now))
            if self.take_commands():  # that answer states of before, within the time that they had
                self.act()
            self.status.if_due()
        if self.guard.failed:
            pause.at = None
        passed = self.clock() - begun
        pause.end(passed)
        self.states.postpone(passed)
        self.guard.output.postpone(passed)
        self.status.publish()
        return passed

    def _machine_arrives(self) -> bool:
        """Wait for a machine in lockstep; False if it does not reach its step, a fault is found, or the run is to stop.

        A machine that always answers at once is judged at each step too: in lockstep nobody else asks for its faults.
        """
        remote = self.plant.remote
        if remote is None:
            return True
        if not self._lockstep:
            return remote.arrived()
        deadline: int | None = None
        while True:
            arrived = remote.arrived()
            if self.stop and not arrived:
                return False
            if deadline is None and not arrived:
                deadline = self.link.deadline()
            found = self.link.step_fault(None if arrived else deadline)
            if found is not None:
                self.fault(*found)
                return False
            if arrived:
                return True
            assert deadline is not None
            self.wait_for_machine(deadline)

    def wait_for_machine(self, deadline_ns: int) -> None:
        """Sleep until something comes, something is due at the machine's link, or the monotonic deadline [ns]."""
        remote = self.plant.remote
        assert remote is not None
        due = remote.due()
        self.bus.wait(deadline_ns if due is None else min(due, deadline_ns), remote.fds)

    def serve_link(self) -> None:
        """Take what the machine sends while nothing is asked of it, and answer who may connect."""
        if self.plant.remote is not None:
            self.plant.remote.arrived()

    def poll_requests(self) -> None:
        """Answer requests where the node never sleeps, at most every REQUESTS_NS."""
        now = self.clock()
        if self.interactive and now - self._polled > REQUESTS_NS:
            self._polled = now
            self.bus.wait(0)

    # faults, and the operator

    def fault(self, name: str, text: str, t: float | None = None) -> None:
        """Latch a fault at time t [s] (absent: now); the safe action acts from now on."""
        known = len(self.faults)
        self.guard.latch(Fault(name, text, self.plant.t if t is None else t, PLANT))
        if len(self.faults) > known and self.interactive:
            self.status.publish()

    def halt(self) -> None:
        super().halt()
        self.stops += 1

    def describe(self) -> dict[str, Any]:
        return self.status.describe()

    def handle_request(self, verb: str, arguments: Mapping[str, Any] = NO_ARGUMENTS) -> dict[str, Any]:
        """Carry out an operator's request, such as arm or reset_origin, or return the status."""
        if verb in ("status", *PARAMETERS) or verb not in NODES[PLANT].verbs:
            return super().handle_request(verb, arguments)
        if verb == "fault":
            return self.injected.request(arguments.get("fault"), self.plant.k)
        refused = self.pause.carry_out(verb, arguments) if verb in VERBS else self._carry_out(verb)
        if refused is not None:
            return {"refused": refused} | ({"later": self._may_be_armed_later()} if verb == "arm" else {})
        self.status.publish()
        note: dict[str, Any] = {"note": ESTOP_STAYS_LATCHED} if verb == "reset" and self.guard.failed else {}
        note |= {"until": self.pause.until} if verb in VERBS else {}
        return {"done": True, "lifecycle": self.guard.lifecycle, **note}

    def _carry_out(self, verb: str) -> str | None:
        """Carry out a request; returns a sentence why not, or None."""
        if verb == "arm":
            other = self.member.stopped() if self.member is not None else None
            return f"{other[0]}; reset that one first" if other else self.arm()
        if verb == "disarm":
            return self.guard.disarm()
        if verb == "estop":
            if not self._advancing:
                self.pace.catch_up()
            self.injected.lift()
            self.fault("estop", "emergency stop by the operator")
            return None
        if self.must_end():
            return f"fault {self.guard.ladder.latched[0].name} ends the run; restart it"
        origin = self.plant.remote if verb == "reset_origin" and not self.closed_loop.readonly else None
        if origin is not None:
            origin.accept_origin()
            if not self.guard.failed:
                return None
        refused = self.guard.reset(estop=verb == "reset_estop")
        if refused is None:
            self.reset_ns = self.clock() if verb == "reset_estop" else self.reset_ns
            if self.member is not None and not self.guard.failed:
                self.member.resume()
            self.link.connect()
            if origin is not None:  # the machine that answers now
                origin.accept_origin()
        return refused

    def arm(self) -> str | None:
        """Arm; returns a sentence why not, or None. During a run the controller must answer; a new run id begins."""
        if self.closed_loop.readonly:
            return REFUSED
        if problem := self.closed_loop.insecure_obstacle:
            return problem
        begun, timeout = self.states.asked_ns > 0, self.closed_loop.safety.command_timeout
        # time stands still, and the controller is asked for nothing
        recent = round(timeout * 1e9) if begun and timeout and not self._lockstep else None
        remote = self.plant.remote
        connected = remote is None or remote.connected()
        found = self.link.fault() if connected else None  # notes also that the machine's state is known again
        if self.guard.failed:
            return self.guard.ladder.obstacle()
        if remote is not None and (problem := arming_obstacle()):
            return problem
        if remote is not None and not connected:
            return f"the machine has not answered yet: {remote.no_answer_reason()}"
        if found is not None:
            return f"the machine is not well: {found[1]}"
        refused = self.machine_obstacle or self.pace.obstacle() or self.guard.arm(recent)
        if refused is None and begun:
            self.guard.begin(self.grid.instant(self.plant.k))
        return refused

    def use(self, numbers: list[float]) -> tuple[int, float]:
        self.guard.lower(numbers)
        every = self.closed_loop.launch.steps_per_period or 1
        k = self.grid.instant(self.plant.k) * every
        asked = self.states.has_asked(k) or self.plant.k > k  # not while paused: it is still to be asked
        if asked and self.guard.lifecycle.accepts_commands and not self.guard.answers.are_due():
            k += every
        return k, k * self.plant.step_ns / 1e9

    def _may_be_armed_later(self) -> bool:
        """Whether what stands in the way of arming may pass without an operator: the machine has yet to answer."""
        guard = self.guard
        needs = guard.failed or guard.lifecycle.accepts_commands or guard.unlimited or self.machine_obstacle
        return not (needs or self.closed_loop.readonly)

    # the other robots of the launch

    def show_life(self) -> None:
        """Tell the others that this plant is alive, also while its time stands still."""
        if self.member is not None:
            self.member.look(self.clock())

    def _tell_fleet(self, fault: Fault) -> None:
        if self.member is not None:
            self.member.end(f"{fault.name}: {fault.text}", emergency=fault.name == ESTOP)

    def _keep_step(self, instant: int, state: Array | None) -> bool:
        """Tell the others of a control instant, and in lockstep wait until they have reached it.

        state: as it is published there, None where that message is lost. Returns False if a robot stops before it.
        """
        member = self.member
        if member is None:
            return True
        member.reach(instant, state)
        if not self._lockstep:
            return True
        # else who waits for its controller would be blamed
        wait_ns = round(self.closed_loop.launch.run.lockstep_timeout * 1e9) + MARGIN_NS
        self.show_life()
        limit = self.clock() + wait_ns
        while member.awaited(instant) and not self.stop and not self.guard.failed:
            now = self.clock()
            if now > limit and (silent := member.silent(now, wait_ns, SEEN)):
                self.fault("lockstep_timeout", f"robot {silent} shows no sign of life for {wait_ns / 1e9:g} s")
            self.poll_requests()
            self.status.if_due()
            time.sleep(LOOK_S)
        self.stop_with(member.stopped(before=instant))
        return not self.guard.failed and not self.stop

    def stop_with(self, found: tuple[str, bool] | None) -> None:
        """Latch the fault that another robot has stopped; its emergency stop is one of this robot too."""
        if found is not None:
            self.guard.latch(Fault(ESTOP if found[1] else "robot", found[0], self.plant.t, PLANT))
            if self.interactive:
                self.status.publish()

    # the end

    def finish(self) -> None:
        """Record the last row, close the plant, and publish the last status."""
        self.act()
        if self.member is not None:
            self.member.end("" if self.plant.k == self.grid.steps else "it was ended early")
        if self.record.last != self.plant.k:
            self.record.take(at_the_end=True)
        self.plant.close()
        self.status.publish(Lifecycle.FAULT if self.guard.failed else Lifecycle.FINISHED)

    def all_counts(self) -> dict[str, int]:
        """The counters of the node and of the machine's link."""
        return super().all_counts() | dict(self.plant.counts)

    def summary(self) -> dict[str, Any]:
        more = {"k": self.plant.k, "energy_error": self.energy.missing(), "injected": self.injected.noted}
        return super().summary() | self.status.summary() | self.pause.summary() | more
