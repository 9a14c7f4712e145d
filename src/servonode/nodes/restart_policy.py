"""The restart policy of one node: whether it is restarted after its end, and when."""

from collections import deque

from servonode.bus.topology import RELAY
from servonode.closed_loop.launch_keys import Restart, Supervision

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
