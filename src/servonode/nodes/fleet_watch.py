"""The plant's side of a fleet: it keeps in step with the other robots, and stops when one of them does."""

import time
from typing import Protocol

from servonode.arrays import Array
from servonode.bus import BusFace
from servonode.bus.fleet_memory import LOOK_S, SEEN, Member
from servonode.bus.topology import PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.fault_ladder import ESTOP
from servonode.nodes.guard import Guard
from servonode.nodes.node import Clock, Fault
from servonode.nodes.plant_status import PlantStatus
from servonode.nodes.plant_time import StepGrid
from servonode.nodes.state_check import MachineLink
from servonode.plants.plant import Plant

SILENCE_NS = 250_000_000  # shortest time without a sign of life, after which another robot counts as stopped
MARGIN_NS = 1_000_000_000  # by which a robot waits longer for another one than for its own controller


class WatchingNode(Protocol):
    """The parts of the plant node that a fleet needs; a protocol, because its file imports this one."""

    bus: BusFace
    clock: Clock
    closed_loop: ClosedLoop
    grid: StepGrid
    guard: Guard
    interactive: bool
    link: MachineLink
    plant: Plant
    status: PlantStatus
    stop: bool

    def fault(self, name: str, text: str, t: float | None = None) -> None: ...
    def must_end(self) -> bool: ...
    def poll_requests(self) -> None: ...
    def serve_link(self) -> None: ...
    def take_commands(self) -> bool: ...


class FleetWatch:
    """What a plant does for its fleet, and because of it. member: its place; None: it is alone, and nothing happens."""

    def __init__(self, node: WatchingNode, member: Member | None) -> None:
        self._node, self._member = node, member
        launch = node.closed_loop.launch
        period_ns = (launch.period_ns or 0) / launch.run.speed
        self._silence_ns = max(SILENCE_NS, round(3 * period_ns))
        self._looked = self._judged_from = 0  # times [monotonic ns]

    def tell(self, fault: Fault) -> None:
        """Tell the others of a fault of this robot."""
        if self._member is not None:
            self._member.end(f"{fault.name}: {fault.text}", emergency=fault.name == ESTOP)

    def resume(self) -> None:
        """Tell the others that the faults of this robot were reset."""
        if self._member is not None and not self._node.guard.failed:
            self._member.resume()

    def finish(self) -> None:
        """Tell the others that this robot has come to its end, or that it ends early."""
        if self._member is not None:
            node = self._node
            self._member.end("" if node.plant.k == node.grid.steps else "it was ended early")

    def obstacle(self) -> str | None:
        """Why this robot must not be armed: another one has stopped; None: none has."""
        found = self._member.stopped() if self._member is not None else None
        return None if found is None else f"{found[0]}; reset that one first"

    def show_life(self) -> None:
        """Tell the others that this plant is alive, also while its time stands still."""
        if self._member is not None:
            self._member.look(self._node.clock())

    def keep_step(self, instant: int, state: Array | None) -> bool:
        """Tell the others of a control instant, and in lockstep wait until they have reached it.

        state: as it is published there, None where that message is lost. Returns False if a robot stops before it.
        """
        node, member = self._node, self._member
        if member is None:
            return True
        member.reach(instant, state)
        run = node.closed_loop.launch.run
        if run.mode != "lockstep":
            return True
        wait_ns = round(run.lockstep_timeout * 1e9) + MARGIN_NS  # else who waits for its controller would be blamed
        self.show_life()
        limit = node.clock() + wait_ns
        while member.awaited(instant) and not node.stop and not node.guard.failed:
            now = node.clock()
            if now > limit and (silent := member.silent(now, wait_ns, SEEN)):
                node.fault("lockstep_timeout", f"robot {silent} shows no sign of life for {wait_ns / 1e9:g} s")
            node.poll_requests()
            node.status.if_due()
            time.sleep(LOOK_S)
        self._stop_with(member.stopped(before=instant))
        return not node.guard.failed and not node.stop

    def judge(self, now: int) -> None:
        """In real time, stop an armed plant when another robot has stopped, or shows no sign of life."""
        if self._member is None:
            return
        self._member.look(now)
        if now - self._looked > self._silence_ns // 3:  # this process was stalled, and so the others may have been
            self._judged_from = now + self._silence_ns
        self._looked = now
        if not self._node.guard.lifecycle.accepts_commands:
            return
        self._stop_with(self._member.stopped())
        if now > self._judged_from and (silent := self._member.silent(now, self._silence_ns)):
            self._stop_with((f"robot {silent} shows no sign of life for {self._silence_ns / 1e6:.0f} ms", False))

    def start_ns(self) -> int:
        """Wait until all robots can begin; the monotonic time of their common t = 0, or now if the run ends before."""
        node, member = self._node, self._member
        now = node.clock()
        while member is not None and not node.stop and not node.must_end():
            self.judge(node.clock())
            if start := member.begin(now):
                return start
            node.serve_link()
            if (found := node.link.fault()) is not None:
                node.fault(*found)
            node.take_commands()
            node.status.if_due()
            node.bus.wait(node.clock() + 1_000_000)
        return node.clock()

    def _stop_with(self, found: tuple[str, bool] | None) -> None:
        """Latch the fault that another robot has stopped; its emergency stop is one of this robot too."""
        if found is not None:
            node = self._node
            node.guard.latch(Fault(ESTOP if found[1] else "robot", found[0], node.plant.t, PLANT))
            if node.interactive:
                node.status.publish()
