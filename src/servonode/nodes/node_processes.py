"""The processes of a run's nodes: starts, watches, restarts and stops them, and prints their output."""

import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from servonode.bus.processes import Named
from servonode.bus.topology import NODES, RELAY
from servonode.closed_loop.launch_keys import Restart, Supervision
from servonode.nodes.node_process import Child, forked
from servonode.nodes.recording import Recording

STOP_LADDER = ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))  # signals, and seconds for each
LONGEST_DOUBLING = 60  # most doublings of the wait, which is bounded by the window


class Restarts:
    """Decides on the restarts of one node. count: their number; why: the reason if it is not restarted."""

    def __init__(self, policy: Restart, attempts: int, window_s: float, backoff_s: float) -> None:
        self.policy = policy
        self.attempts = attempts
        self.window_s = window_s
        self.backoff_s = backoff_s
        self.count = 0
        self.why = ""
        self._starts: deque[int] = deque()  # monotonic ns of the restarts within the window, oldest first

    @classmethod
    def of(cls, supervision: Supervision, node: str) -> "Restarts":
        """The policy in [supervision] for the node; without one a relay is restarted after a failure, others never."""
        policy: Restart = getattr(supervision, node, "on-failure" if node == RELAY else "never")
        return cls(policy, supervision.attempts, supervision.window, supervision.backoff)

    def ended(self, code: int, now_ns: int) -> int | None:
        """The monotonic time [ns] at which to start the node again; None: not at all, for the reason in `why`.

        code: the exit code, or minus the signal that killed it. The first restart comes at once, a second within the
        window after the backoff, each further one after twice the wait before it, up to the window.
        """
        self.why = self._forbidden(code) or self._too_many(now_ns)
        if self.why:
            return None
        before = len(self._starts)
        wait_s = self.backoff_s * 2.0 ** min(before - 1, LONGEST_DOUBLING) if before else 0.0
        start = now_ns + round(min(wait_s, self.window_s) * 1e9)
        self._starts.append(start)
        self.count += 1
        return start

    def _forbidden(self, code: int) -> str:
        if self.policy == "never":
            return "it is not restarted (supervision: never)"
        if self.policy == "on-failure" and code == 0:
            return "it completed (supervision: on-failure)"
        return ""

    def _too_many(self, now_ns: int) -> str:
        while self._starts and now_ns - self._starts[0] >= self.window_s * 1e9:
            self._starts.popleft()
        if len(self._starts) < self.attempts:
            return ""
        times = f"{self.attempts} restart{'s' * (self.attempts > 1)}"
        return f"{times} within {self.window_s:g} s"


class NodeProcesses:
    """Starts, watches and stops the nodes' processes.

    nodes: all nodes, in the order in which they start. children: the newest process of each, alive or not. recording:
    its writer's output is printed too. fault: called with name, text and node if a death is a fault.
    """

    def __init__(
        self,
        run: str,
        nodes: Sequence[str],
        supervision: Supervision,
        recording: Recording,
        fault: Callable[[str, str, str], None],
    ) -> None:
        self.nodes = tuple(nodes)
        self.children: dict[str, Child] = {}
        self._run, self._recording, self._fault = run, recording, fault
        self._restarts = {node: Restarts.of(supervision, node) for node in nodes}
        self._due: dict[str, int] = {}  # dead nodes that are to be restarted -> when [monotonic ns]

    def start(self, node: str, live: Callable[[], int]) -> None:
        """Start a node, which runs `live`; the pipes of the other nodes are closed in it."""

        def alone() -> int:
            for other in (*self.children.values(), *self._recording.children):
                if other.output >= 0:  # open: not that of a dead process, nor its own former one
                    os.close(other.output)
            return live()

        self.children[node] = forked(node, self._run, alone, NODES[node].orphaned)

    def described(self, represented: Mapping[str, str] = MappingProxyType({})) -> dict[str, dict[str, Any]]:
        """The processes' ids and start times by node, for the registry.

        represented: nodes without a process here, by them the node whose process stands for them.
        """
        pids = {name: child.pid for name, child in self.children.items()}
        pids |= {node: pids[other] for node, other in represented.items() if other in pids}
        return {"pids": pids, "starts": {name: Named.of(pid).start for name, pid in pids.items()}}

    def living(self) -> list[Child]:
        """The processes that are not known to have ended."""
        return [child for child in self.children.values() if child.code is None]

    def emergency(self, node: str) -> bool:
        """Send a node's process the signal of the emergency stop; returns whether there is such a process."""
        child = self.children.get(node)
        if child is None or child.code is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGUSR1)
        return True

    # deaths

    def reap(self) -> bool:
        """Note which processes have ended; returns whether one ended unexpectedly and is not restarted."""
        early = False
        for child in self._ended():
            if child.code not in NODES[child.name].end_codes:
                early = not self._starts_again(child) or early
        return early

    def _ended(self) -> list[Child]:
        """The processes that have ended since the last call."""
        return [child for child in self.living() if child.has_ended()]

    def _starts_again(self, child: Child) -> bool:
        """Schedule a restart if the policy allows one, else report a fault; returns whether it is restarted."""
        policy, code = self._restarts[child.name], child.code
        assert code is not None
        at = policy.ended(code, time.monotonic_ns())
        if at is None:
            why = f"; {policy.why}" if policy.policy != "never" else ""
            self._fault("node_died", child.describe() + why, child.name)
            return False
        self.forward_output()
        child.close()
        self._due[child.name] = at
        say(f"{child.describe()}; it is restarted")
        return True

    def dead(self) -> list[str]:
        """The nodes that have died and are to be restarted."""
        return list(self._due)

    def due(self) -> list[str]:
        """The dead nodes whose restart is due."""
        now = time.monotonic_ns()
        return [node for node, at in self._due.items() if at <= now]

    def take_due(self) -> list[str]:
        """As `due`; the caller restarts them, so that they are not due again."""
        due = self.due()
        for node in due:
            del self._due[node]
        return due

    def restarts(self) -> dict[str, int]:
        """The number of restarts of each node that was restarted."""
        return {node: each.count for node, each in self._restarts.items() if each.count}

    # output and end

    def forward_output(self) -> None:
        """Print the output of the nodes."""
        for child in (*self.children.values(), *self._recording.children):
            child.forward()

    def stop_all(self, hurried: Callable[[], bool]) -> None:
        """Send SIGINT, then SIGTERM, then SIGKILL, each with its timeout.

        hurried: skips the first wait, and with it the safe action. The second is never skipped: in it an external plant
        gets zero inputs and the end of the run.
        """
        for number, timeout_s in STOP_LADDER:
            for child in self.living():
                if number is signal.SIGKILL:
                    say(f"{child.name} did not end within {STOP_LADDER[1][1]:g} s of SIGTERM: it is killed")
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, number)
                    os.kill(child.pid, signal.SIGCONT)  # a stopped process cannot end
            limit = time.monotonic_ns() + round(timeout_s * 1e9)
            while self.living() and time.monotonic_ns() < limit and not (number is signal.SIGINT and hurried()):
                self.forward_output()
                for child in self._ended():
                    if child.code is not None and child.code < 0:
                        self._fault("node_died", child.describe(), child.name)
                time.sleep(0.002)
            if not self.living():
                break
        self.forward_output()
        for child in self.children.values():
            child.close()


def say(text: str) -> None:
    """Print a line as the launcher."""
    print(f"[launcher] {text}", file=sys.stderr, flush=True)  # noqa: T201
