"""Whether and when a node is started again."""

import signal

import pytest

from servonode.closed_loop.launch_keys import Restart, Supervision
from servonode.nodes.node_processes import Restarts

S = 1_000_000_000
BEGIN = 5_000 * S


def restarts(policy: Restart = "always", attempts: int = 5, window: float = 60.0, backoff: float = 0.5) -> Restarts:
    return Restarts(policy, attempts, window, backoff)


@pytest.mark.parametrize(
    ("policy", "code", "why"),
    [
        *(("never", code, "it is not restarted (supervision: never)") for code in (0, 1, -signal.SIGKILL)),
        *(("always", code, "") for code in (0, 1, -signal.SIGKILL)),
        *(("on-failure", code, "") for code in (1, -signal.SIGKILL)),
        ("on-failure", 0, "it completed (supervision: on-failure)"),
    ],
)
def test_a_node_that_ended_is_started_again_or_the_reason_is_said(policy: Restart, code: int, why: str) -> None:
    found = restarts(policy)
    assert found.ended(code, BEGIN) == (None if why else BEGIN)
    assert found.why == why


def test_the_first_comes_at_once_the_second_after_the_backoff_and_each_more_after_twice_that() -> None:
    policy, now, waits = restarts(attempts=5, backoff=0.5), BEGIN, []
    for _ in range(5):
        start = policy.ended(1, now)
        assert start is not None
        waits.append((start - now) / S)
        now = start + S // 10
    assert waits == [0.0, 0.5, 1.0, 2.0, 4.0]
    assert policy.count == 5


def test_too_many_within_the_window_end_it_with_the_reason() -> None:
    policy = restarts(attempts=3, backoff=0.0)
    assert [policy.ended(1, BEGIN + i * S) for i in range(3)] == [BEGIN, BEGIN + S, BEGIN + 2 * S]
    assert policy.ended(1, BEGIN + 3 * S) is None
    assert policy.why == "3 restarts within 60 s"


def test_what_lies_before_the_window_is_forgotten() -> None:
    policy = restarts(attempts=2, window=10.0, backoff=1.0)
    assert policy.ended(1, BEGIN) == BEGIN
    assert policy.ended(1, BEGIN + S) == BEGIN + 2 * S  # the second: after the backoff
    assert policy.ended(1, BEGIN + 9 * S) is None
    at = BEGIN + 10 * S
    assert policy.ended(1, at) == at + S  # the first has left the window, the second counts still
    assert policy.why == ""
    assert policy.ended(1, BEGIN + 100 * S) == BEGIN + 100 * S  # all have: at once again


def test_a_wait_is_no_longer_than_the_window() -> None:
    policy = restarts(attempts=10_000, window=2.0, backoff=0.1)
    starts = [policy.ended(1, BEGIN + i) for i in range(2_000)]
    assert max(start - BEGIN for start in starts if start is not None) <= 2 * S + 2_000


def test_the_policy_of_each_node_is_read_from_the_launch_file() -> None:
    supervision = Supervision(controller="always", target="on-failure", attempts=2, window=7.0, backoff=0.25)
    found = {node: Restarts.of(supervision, node) for node in ("plant", "controller", "target", "launcher")}
    assert [each.policy for each in found.values()] == ["never", "always", "on-failure", "never"]
    assert (found["target"].attempts, found["target"].window_s, found["target"].backoff_s) == (2, 7.0, 0.25)
