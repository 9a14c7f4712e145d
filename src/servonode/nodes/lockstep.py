"""The plant's loop in lockstep, from answer to answer, and its preparation for a run in lockstep or in real time."""

from collections.abc import Callable

from servonode.bus import Lifecycle
from servonode.bus.topology import PLANT
from servonode.nodes.fault_ladder import Fault
from servonode.nodes.plant_node import PlantNode

RESEND_NS = 100_000_000  # an unanswered state is published again after this long
BRAKE_NS = 10_000_000  # how often an unarmed plant computes its safe action again


def lockstep(node: PlantNode, timeout_s: float) -> None:
    """Drive the plant from answer to answer; an answer that does not arrive for `timeout_s` [s, wall clock] is a fault.

    Works on both buses: `bus.wait` sleeps on sockets; on the bus in memory it steps the other nodes.
    """
    node.status.publish()
    while not node.stop:
        node.keep_pause()
        keep_speed(node)
        node.publish_state()
        answered = not node.guard.answers.are_due() or await_answer(node, timeout_s)
        node.status.if_due()
        if answered and node.plant.k == node.grid.steps:
            break
        if answered and not node.stop:
            node.advance_to(node.grid.next_event(node.plant.k))
            if node.grid.is_control(node.plant.k):
                node.guard.count_repeats(node.grid.instant(node.plant.k))  # where the sensor has lost the state
        if node.guard.failed:
            come_to_rest(node)
            if node.must_end() or node.plant.k == node.grid.steps or not rearmed(node):
                break
    node.finish()


def await_answer(node: PlantNode, timeout_s: float) -> bool:
    """Whether the newest control state was answered by a good command.

    On one core the answer is there as soon as this process continues, so it is read before any sleep.
    """
    asked = node.clock()
    limit = asked + round(timeout_s * 1e9)
    again = asked + RESEND_NS
    node.poll_requests()  # because nothing below sleeps where the answer is always there
    answered = not node.stop and node.take_commands()
    came = not node.guard.answers.are_due()
    while not node.stop:
        if came:
            if (answered or node.guard.preview is not None) and not node.guard.answers.are_due():
                return True
            if node.guard.failed or not node.guard.time_passes:
                _ = node.guard.failed or rearmed(node)  # then the state is published again, with a new run id
                return False
        now = node.clock()
        if now >= limit:
            node.fault(
                "lockstep_timeout",
                f"no answer to the state of step {node.plant.k} within {timeout_s:g} s; check that "
                f"the controller is running",
            )
            return False
        if now >= again:
            node.states.publish_again()
            node.status.publish()  # at which the target publishes its goals again
            again = now + RESEND_NS
        came = node.bus.wait(min(again, limit))
        node.serve_link()
        answered = came and node.take_commands()
    return False


def keep_speed(node: PlantNode) -> None:
    """Wait until the present step is due at the operator's speed; at once where none was asked for."""
    while not (node.stop or node.guard.failed) and (now := node.clock()) < (due := node.pause.due(now)):
        node.bus.wait(min(due, now + RESEND_NS))
        node.take_commands()
        node.status.if_due()


def rearmed(node: PlantNode) -> bool:
    """Wait until the plant is armed (again), or, in a run that only observes, reset; False if it is to stop."""
    while not node.stop and not node.guard.time_passes:
        node.bus.wait(node.clock() + RESEND_NS)
        node.serve_link()
        node.take_commands()  # none acts now, but unread ones would keep the bus from sleeping
        node.status.if_due()
    return not node.stop


def prepare(node: PlantNode, arm: bool, timeout_s: float) -> bool:
    """Prepare a run: wait for the machine's handshake, then for the operator's arming, or with `arm` arm at once.

    A run that only observes is never armed, and continues after the handshake.

    Returns False if the machine does not answer within `timeout_s` [s, wall clock], a fault, or the run is to stop.
    """
    node.poll_requests()  # an emergency stop that came while the node was built is latched from the first state on
    remote = node.plant.remote
    node.plant.begin(node.outbox.run, node.plant.k)
    limit = node.clock() + round(timeout_s * 1e9)
    while remote is not None and not remote.connected():
        found = remote.fault()
        if node.clock() > limit and found is None:
            found = ("device", f"no machine answered within {timeout_s:g} s: {remote.no_answer_reason()}")
        if found is not None:
            node.guard.latch(Fault(*found, 0.0, PLANT))
        if node.stop or node.must_end():
            return False
        node.wait_for_machine(node.clock() + RESEND_NS)
        node.status.if_due()
    node.guard.trust_state()
    if not node.guard.failed:  # an emergency stop may have come first, and waits for its reset
        node.guard.lifecycle = Lifecycle.INACTIVE
        if arm:
            node.arm()
    while not node.stop and not node.must_end() and not node.guard.time_passes:
        node.serve_link()
        found = node.link.fault()
        if found is not None:
            node.fault(*found)
        if node.guard.output.braking:
            node.guard.output.brake()
        node.take_commands()
        node.status.if_due()
        node.bus.wait(node.clock() + (BRAKE_NS if node.guard.output.braking else RESEND_NS))
    return not node.stop and not node.must_end()


def come_to_rest(node: PlantNode, wait: Callable[[int], None] | None = None, most: int | None = None) -> None:
    """Advance the plant under the safe action for its time, at most `most` steps, or to the end of the run.

    wait: sleeps until the time of a step, in real time. No answer is expected meanwhile.
    """
    steps = node.closed_loop.safety.safe_steps
    last = min(node.grid.steps, node.plant.k + (steps if most is None else min(steps, most)))
    node.pause.at = None
    node.status.publish()
    node.energy.begin()
    while node.plant.k < last and node.plant.finite and not node.link.lost and not node.energy.strays():
        k = min(node.grid.next_event(node.plant.k), last)
        if wait is not None:
            wait(k)
        if node.stop:
            break
        node.advance_to(k)
        node.publish_state(asks=False)
        node.status.if_due()
        node.poll_requests()
