"""The common start of all nodes: no node begins before all nodes are ready."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from servonode.bus import Requester
from servonode.bus.topology import NODES, RELAY
from servonode.nodes.node_processes import NodeProcesses

READY_TIMEOUT_S = 20.0
READY_PAUSE_S = 0.002  # between two requests, so that running nodes are not delayed
ENDING_NS = 1_000_000_000  # time in which a process ends after it has closed its sockets


class StartGate:
    """Tells nodes to start. interrupted: tells whether the user has interrupted; fault: called with name and text.

    others_ready: tells whether the nodes of all other robots of the launch are ready, and is called when ours are.
    """

    def __init__(
        self,
        folder: Path,
        processes: NodeProcesses,
        interrupted: Callable[[], bool],
        fault: Callable[[str, str], None],
        others_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._folder, self._processes = folder, processes
        self._interrupted, self._fault, self._others_ready = interrupted, fault, others_ready

    def open(self, waiting: set[str]) -> bool:
        """Start the nodes in `waiting` once all are ready, and empty it; False if that fails.

        If it returns True with some left in it, another node must be restarted before they can be ready.
        """
        processes = self._processes
        with ExitStack() as stack:
            clients = {name: stack.enter_context(Requester(self._folder, name)) for name in waiting}
            limit = time.monotonic_ns() + round(READY_TIMEOUT_S * 1e9)
            while True:
                if processes.reap() or self._interrupted():
                    return False
                waiting.difference_update(processes.dead())
                if RELAY in waiting and processes.children[RELAY].code is not None:  # it has completed
                    self._fault("not_ready", "the other computer has ended its part of the run before all was ready")
                    return False
                unready = [name for name in waiting if not _is_ready(clients[name])]
                if processes.due() or (not unready and self._others_ready()):
                    break
                if time.monotonic_ns() > limit and not processes.dead():  # else they wait for a node that is restarted
                    self._fault(
                        "not_ready", f"{', '.join(unready) or 'another robot'} not ready within {READY_TIMEOUT_S:g} s"
                    )
                    return False
                processes.forward_output()
                time.sleep(READY_PAUSE_S)
            return bool(unready) or self._start(clients, waiting)

    def _start(self, clients: dict[str, Requester], waiting: set[str]) -> bool:
        """Tell the nodes to start, the plant last; False if one does not answer and is not restarted."""
        for name in NODES:
            if name not in waiting:
                continue
            try:
                clients[name].ask({"ask": "start"}, READY_TIMEOUT_S / 4)
            except TimeoutError:
                if not self._has_died(name):
                    self._fault("not_ready", f"{name} was ready but did not start")
                    return False
            waiting.discard(name)
        return True

    def _has_died(self, name: str) -> bool:
        """Whether a node that does not answer has died and must be restarted; waits a moment for its death."""
        limit = time.monotonic_ns() + ENDING_NS
        while not self._processes.reap() and time.monotonic_ns() < limit:
            if name in self._processes.dead():
                return True
            time.sleep(READY_PAUSE_S)
        return False


def _is_ready(client: Requester) -> bool:
    try:
        return bool(client.ask({"ask": "ready"}, 0.2).get("ready"))
    except TimeoutError:
        return False


def has_met(folder: Path) -> bool:
    """Whether the relay of the run has met the other computer."""
    try:
        with Requester(folder, RELAY) as client:
            return bool(client.ask({"ask": "status"}, 0.2).get("met"))
    except TimeoutError:
        return False
