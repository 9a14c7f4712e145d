"""A node as a process: what happens between the fork and the exit."""

import ctypes
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from servonode.bus import Bus
from servonode.bus.faces import Wanted
from servonode.nodes.assembly import Assembly
from servonode.nodes.controller_node import ControllerNode
from servonode.nodes.node import CONTROLLER, PLANT, TARGET, WANTED
from servonode.nodes.plant_node import PlantNode, lockstep
from servonode.nodes.realtime import RealTime
from servonode.nodes.recorder import Recorder
from servonode.nodes.target_node import TargetNode

IDLE_NS = 200_000_000  # how often a node that waits looks up even if nothing comes
LOOK_NS = 5_000_000  # requests are answered at most this often, for a look costs as much as a receive
MONITORED = {PLANT: ["status"], CONTROLLER: ["status"], TARGET: ["status"]}
_PR_SET_PDEATHSIG, _PR_SET_TIMERSLACK = 1, 29


class _Worker(Protocol):
    stop: bool

    def work(self) -> float: ...


class NodeBus(Bus):
    """A node's bus that also wakes for signals and answers requests (ready, start, stop)."""

    def __init__(self, folder: Path, node: str) -> None:
        super().__init__(folder, node)
        self.started = self.stopped = False
        self.on_stop: Callable[[], None] = lambda: None
        self.is_ready: Callable[[], bool] = lambda: False
        self._look_due = 0
        self._door = self.requests()
        self._wake, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.halt())

    def halt(self) -> None:
        """Ask the node to end in good order."""
        self.stopped = True
        self.on_stop()

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:
        came = self._waiter.wait(deadline_ns, (*fds, self._wake))
        now = time.monotonic_ns()
        if came and now > self._look_due:
            self._look_due = now + LOOK_NS
            self._drain_signals()
            self.answer_requests()
        return came

    def answer_requests(self) -> None:
        while (request := self._door.poll_request()) is not None:
            identity, content = request
            self._door.reply(identity, self._answer(content))

    def _answer(self, content: dict[str, Any]) -> dict[str, Any]:
        match content.get("ask"):
            case "ready":
                return {"ready": self.is_ready()}
            case "start":
                self.started = True
                return {"started": True}
            case "stop":
                self.halt()
                return {"stopped": True}
            case other:
                return {"error": f"unknown request {other!r}; ask ready, start or stop"}

    def _drain_signals(self) -> None:
        try:
            while os.read(self._wake, 512):
                pass
        except BlockingIOError:
            pass


def die_with_parent(parent: int, number: int) -> None:
    """Have this process receive signal `number` when its parent dies (Linux; elsewhere the caller's task)."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        libc.prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)  # wake within a microsecond of the deadline, not 50
        if os.getppid() != parent:
            os._exit(1)


def share_core(name: str) -> None:
    """In lockstep: plant and controller on one core, the target on the others; nothing where that cannot be.

    Plant and controller take turns, so a second core gives them nothing, while waking a process that sleeps on
    another core costs more than the exchange itself (measured: twice the rate on one core). Only cores that this
    process was given are used: `taskset` still has the last word. Which one they share goes by the launcher's
    process id, so that runs side by side spread out.
    """
    if not hasattr(os, "sched_setaffinity"):  # Linux only
        return
    given = os.sched_getaffinity(0)
    shared = {sorted(given)[os.getppid() % len(given)]}
    if name in (PLANT, CONTROLLER):
        os.sched_setaffinity(0, shared)
    elif given > shared:
        os.sched_setaffinity(0, given - shared)


Life = Callable[[], dict[str, Any]]


def run_node(name: str, assembly: Assembly, folder: Path, every: int) -> int:
    """The life of one node process; returns its exit code."""
    if assembly.launch.run.mode == "lockstep":
        share_core(name)  # before the bus: its I/O thread inherits the core
    bus = NodeBus(folder, name)
    with bus:
        node, record, live = _build(name, assembly, bus, every)
        bus.is_ready = node.outbox.ready
        bus.on_stop = lambda: setattr(node, "stop", True)
        # No collection here: it would write to every object and so copy the launcher's whole memory (0.2 s and more).
        gc.freeze()  # what exists now lives to the end: never scan it again
        gc.disable()  # messages hold no cycles; a collection would come in the middle of a tick
        while not (bus.started or bus.stopped):
            bus.wait(time.monotonic_ns() + IDLE_NS)
        extra = live() if not bus.stopped else {}
        if record is not None:
            record.save(folder / f"{name}.npy")
        summary = folder / f"{name}.json.tmp"
        summary.write_text(json.dumps(node.summary() | extra))
        summary.rename(folder / f"{name}.json")
        return 1 if node.faults else 0


def _build(name: str, assembly: Assembly, bus: NodeBus, every: int) -> tuple[Any, Recorder | None, Life]:
    """The node of this name, what it records, and how it lives."""
    if name == PLANT:
        listeners: list[Wanted] = [MONITORED]
        if assembly.control:
            listeners += [WANTED[CONTROLLER], WANTED[TARGET]]
        plant = PlantNode(assembly, bus, listeners, every)
        return plant, plant.record, lambda: _drive(plant, assembly)
    if name == CONTROLLER:
        controller = ControllerNode(assembly, bus, [MONITORED, WANTED[PLANT]])
        return controller, controller.record, lambda: _work(controller, bus)
    target = TargetNode(assembly, bus, [MONITORED, WANTED[CONTROLLER]])
    return target, None, lambda: _work(target, bus)


def _drive(node: PlantNode, assembly: Assembly) -> dict[str, Any]:
    """The plant's life, from the first state to the last, and how it kept time."""
    run = assembly.launch.run
    begin = time.monotonic_ns()
    if run.mode == "lockstep":
        lockstep(node, run.lockstep_timeout)
        wall = (time.monotonic_ns() - begin) / 1e9
        return {"rate": node.plant.t / wall if wall else 0.0, "misses": 0, "wall_s": wall}
    on_fault = assembly.launch.plant.safety.on_fault
    pace = RealTime(node, run.speed, assembly.command_timeout, on_fault, run.lockstep_timeout)
    pace.run()
    return {
        "rate": pace.rate(),
        "misses": pace.misses,
        "stalls": pace.stalls,
        "lateness_s": pace.lateness.percentiles(),
        "wall_s": (pace.end_ns - pace.start_ns) / 1e9,
    }


def _work(node: _Worker, bus: NodeBus) -> dict[str, Any]:
    """Event-driven life until told to stop: also after the last state, whose answer may have been lost."""
    while not node.stop:
        sleep_s = node.work()
        bus.wait(time.monotonic_ns() + min(IDLE_NS, round(min(sleep_s, 1.0) * 1e9)))
    return {}
