"""The process of a node, from the fork to the exit."""

import gc
import os
import signal
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from servonode.bus import (
    Bus,
    DirectSubscriber,
    MessageError,
    Parameters,
    Publisher,
    RunFolder,
    Wanted,
    clear_devices_folder,
)
from servonode.bus.codec import Identity
from servonode.bus.messages import MAX_TEXT
from servonode.bus.requests import STOPS
from servonode.bus.topology import CONTROLLER, LOOP, NODES, PLANT, RELAY, launcher_subscribes, nodes_of, subscribers
from servonode.closed_loop.closed_loop import ClosedLoop, begun
from servonode.nodes.controller_node import ControllerNode
from servonode.nodes.lockstep import lockstep, prepare
from servonode.nodes.node import ChangedParameters, EventNode, Node
from servonode.nodes.node_process import STOP
from servonode.nodes.plant_node import PlantNode
from servonode.nodes.realtime import RealTime
from servonode.nodes.realtime_grants import ask
from servonode.nodes.relay_node import RelayNode, tunnel_of
from servonode.nodes.target_node import target_node_of
from servonode.record.recorder import RecordedPublisher
from servonode.record.shared_memory import NodeMemory, Ring

INHERIT_NS = 2_000_000_000  # longest time that a dead launcher's lock may outlive it
IDLE_NS = 200_000_000  # longest sleep of a node
REQUESTS_AT_ONCE, REQUESTS_KEPT = 4, 64
ANSWERING_NS = 200_000  # time for requests in one go; the others must wait
REFUSED = 2  # exit code of a relay that the other computer has refused
OPERATOR = sorted({word for entry in NODES.values() for word in entry.verbs})


class NodeBus(Bus):
    """A node's bus that also wakes for signals and answers requests: ready, start, stop, and the operator's.

    Its subscribers read in the node's own thread.
    """

    def __init__(self, folder: Path, node: str, messages: Ring | None = None) -> None:
        """messages: the memory that records all that the node publishes."""
        self._signalled = self._emergency = False
        super().__init__(folder, node, partial(RecordedPublisher, ring=messages) if messages else Publisher)
        self.served: Node | None = None  # the node that is told of stops and requests, once it is built
        self.started = self.stopped = False
        self.stopped_by = ""  # who asked first for the stop
        self._requests: deque[tuple[Identity, dict[str, Any]]] = deque()  # requests that wait for an answer
        self._request_socket = self.requests()
        self._wake, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: self.halt(signal.Signals(number).name))
        signal.signal(STOP, self._alarm)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (STOP,))  # a signal that came since the fork is delivered now

    def subscriber(self, wanted: Wanted) -> DirectSubscriber:
        return self.direct_subscriber(wanted)

    def halt(self, by: str) -> None:
        """Ask the node to end in good order. by: who asks.

        A launcher's SIGINT after another request does not count: who stops a service signals all of its processes, the
        launcher too.
        """
        if by == "SIGINT" and self.stopped_by not in ("", by):
            return
        self.stopped_by = self.stopped_by or by
        self.stopped = self._signalled = True
        if self.served is not None:
            self.served.halt()

    def _alarm(self, *_: object) -> None:
        self._signalled = self._emergency = True

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:
        came = self._waiter.wait(0 if self._requests else deadline_ns, (*fds, self._wake))
        if self._signalled or self._requests or self._request_socket.waiting():
            self._serve()
        return came

    def wait_for_request(self, deadline_ns: int) -> None:
        """Sleep until a request or a signal comes; messages do not end the sleep."""
        self._waiter.wait_for_request(deadline_ns, (self._wake,))
        self._serve()

    def _serve(self) -> None:
        """Act on signals and requests, if there are any."""
        if self._signalled:
            self._signalled = False
            with suppress(BlockingIOError):
                while os.read(self._wake, 512):
                    pass
            if self._emergency and self.served is not None:
                self._emergency = False
                self.served.handle_request("estop")
        if self._request_socket.waiting() or self._requests:
            self.answer_requests()

    def answer_requests(self) -> None:
        """Answer a few of the waiting requests, stops first; the others later, so that no client delays the node."""
        limit = time.monotonic_ns() + ANSWERING_NS
        while len(self._requests) < REQUESTS_KEPT and (request := self._request_socket.poll_request()) is not None:
            urgent = request[1].get("ask") in STOPS
            (self._requests.appendleft if urgent else self._requests.append)(request)
            if time.monotonic_ns() > limit:
                break
        for number in range(min(REQUESTS_AT_ONCE, len(self._requests))):
            if number and time.monotonic_ns() > limit:
                break
            identity, content = self._requests.popleft()
            if self._request_socket.has_expired(identity):  # it was read in time, and has waited here since
                continue
            try:
                self._request_socket.reply(identity, self._answer(content))
            except (MessageError, TypeError) as error:  # a reply that cannot be sent must not end the node
                self._request_socket.reply(identity, {"error": f"the reply cannot be sent ({error})"[:MAX_TEXT]})

    def _answer(self, content: dict[str, Any]) -> dict[str, Any]:
        match content.get("ask"):
            case "ready":
                return {"ready": self.served is not None and self.served.ready()}
            case "start":
                self.started = True
                return {"started": True}
            case "stop":
                self.halt("a request")
                return {"stopped": True}
            case str(word) if word in OPERATOR and self.served is not None:
                return self.served.handle_request(word, content)
            case other:
                known = ", ".join([*OPERATOR, "ready", "start"])
                return {"error": f"unknown request {str(other)[:40]!r}; ask {known} or stop"}


def share_core(name: str) -> None:
    """In lockstep, put plant and controller on one core, and the target on the others, where the system allows it.

    Plant and controller take turns, so a second core gives them nothing, while waking a process that sleeps on
    another core costs more than the exchange itself (measured: twice the rate on one core). Only cores that this
    process was given are used: `taskset` still limits them. The launcher's process id chooses the shared core, so that
    simultaneous runs use different ones.
    """
    if not hasattr(os, "sched_setaffinity"):  # Linux only
        return
    given = os.sched_getaffinity(0)
    shared = {sorted(given)[os.getppid() % len(given)]}
    if name in LOOP:
        os.sched_setaffinity(0, shared)
    elif given > shared:
        os.sched_setaffinity(0, given - shared)


def run_node(
    name: str,
    closed_loop: ClosedLoop,
    folder: RunFolder,
    every: int,
    arm: bool,
    memories: Mapping[str, NodeMemory],
    changed: Parameters | None = None,
) -> int:
    """Run a node in this process from the fork to its end; returns the exit code. arm: do not wait for the operator.

    changed: the numbers that were changed in this node before it was restarted.
    Its record and its summary go to its own one of `memories`.
    """
    memory = memories[name]
    if name == PLANT:
        folder.sign(name)
    if closed_loop.launch.run.mode == "lockstep":
        share_core(name)  # before the bus: its I/O thread inherits the core
    grants = ask(closed_loop.launch.run, name)
    if name == CONTROLLER:
        closed_loop = begun(closed_loop)  # before the bus: nobody is to wait for its sockets while a library is loaded
    launcher = os.getppid()
    bus = NodeBus(folder.path, name, memory.messages)
    with bus:
        listeners = listeners_of(closed_loop)
        node: PlantNode | EventNode
        if name == PLANT:
            node = PlantNode(closed_loop, bus, listeners, every, interactive=True, ring=memory.rows)
        elif name == CONTROLLER:
            node = ControllerNode(closed_loop, bus, listeners, ring=memory.rows)
        elif name == RELAY:
            node = RelayNode(closed_loop, bus, listeners, tunnel_of(closed_loop), memories, folder.started_ns)
        else:
            node = target_node_of(closed_loop)(closed_loop, bus, listeners)
        node.parameters = None if name == RELAY else ChangedParameters(closed_loop, name)
        if changed is not None:
            node.keep(changed)
        bus.served = node
        if isinstance(node, PlantNode):
            node.injected.leave_summary = lambda: memory.write_summary({"injected": node.injected.noted})
        # no collection before it, which would write to every object and copy the launcher's memory (0.2 s or more)
        gc.freeze()  # objects that exist now are never scanned again: they live to the end
        if not (name == CONTROLLER and closed_loop.has_own_controller):  # which may leave cycles
            gc.disable()  # messages hold no cycles; a collection would come in the middle of a tick
        while not (bus.started or bus.stopped or os.getppid() != launcher or name == RELAY):
            bus.wait_for_request(time.monotonic_ns() + IDLE_NS)
            if isinstance(node, PlantNode):
                node.serve_link()
        extra: dict[str, Any] = {}
        try:
            if (bus.started or name == RELAY) and not bus.stopped:
                extra = _drive(node, closed_loop, arm) if isinstance(node, PlantNode) else _work(node, bus)
        finally:
            if isinstance(node, PlantNode):
                node.plant.close()  # in any case, so that an external plant gets zero inputs and the end of the run
        extra |= {"grants": grants.as_dict() | {"line": grants.line()}, "stopped_by": bus.stopped_by}
        memory.write_summary(node.summary() | extra)
    if name == PLANT:
        _inherit(folder, launcher)
    return REFUSED if isinstance(node, RelayNode) and node.is_refused else 1 if node.faults else 0


def _inherit(folder: RunFolder, launcher: int) -> None:
    """Remove the run's folder if the launcher has died.

    A dying launcher holds its lock until the last of its threads is gone.
    """
    if not _alive(launcher):
        clear_devices_folder()
    limit = time.monotonic_ns() + INHERIT_NS
    while not _alive(launcher) and time.monotonic_ns() < limit:
        if folder.inherit():
            return
        time.sleep(0.01)


def _alive(launcher: int) -> bool:
    """Whether the parent is still the launcher, and is not ending."""
    if os.getppid() != launcher:
        return False
    try:
        return Path(f"/proc/{launcher}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return True


def _drive(node: PlantNode, closed_loop: ClosedLoop, arm: bool) -> dict[str, Any]:
    """Run the plant, from the handshake to the last state; returns its rate, misses and times."""
    run = closed_loop.launch.run
    if not prepare(node, arm, closed_loop.launch.plant.device.wait):
        node.finish()
        return {"rate": 0.0, "misses": 0, "wall_s": 0.0}
    begin = time.monotonic_ns()
    if run.mode == "lockstep":
        lockstep(node, run.lockstep_timeout)
        wall = (time.monotonic_ns() - begin) / 1e9
        going = wall - node.pause.paused_ns / 1e9
        return {"rate": node.plant.t / going if going > 0 else 0.0, "misses": 0, "wall_s": wall}
    pace = RealTime(node, run.speed, closed_loop.safety.command_timeout, run.lockstep_timeout)
    pace.run()
    return pace.summary()


def listeners_of(closed_loop: ClosedLoop) -> list[Wanted]:
    """The subscriptions that publishers on this computer wait for."""
    live, nodes = bool(closed_loop.live), nodes_of(closed_loop.control is not None)
    computer = closed_loop.computer
    if computer is None:
        return subscribers(nodes, launcher=True, live=live)
    own = [*subscribers(computer.nodes, live=live), launcher_subscribes((*nodes, RELAY))]
    return [*own, *({node: NODES[node].publishes} for node in computer.nodes)]  # the relay's


def _work(node: EventNode, bus: NodeBus) -> dict[str, Any]:
    """Run an event-driven node until it is told to stop; it goes on after the last state, whose answer may be lost."""
    while not node.stop:
        sleep_s = node.work()
        bus.wait(time.monotonic_ns() + min(IDLE_NS, round(min(sleep_s, 1.0) * 1e9)), node.fds)
    node.finish()
    return {}
