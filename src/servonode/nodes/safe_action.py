"""The phase in which a plant comes to rest under its safe action."""

from collections.abc import Callable

from servonode.nodes.plant_node import PlantNode


def come_to_rest(node: PlantNode, wait: Callable[[int], None] | None = None, most: int | None = None) -> None:
    """Advance the plant under the safe action for its time, at most `most` steps, or to the end of the run.

    wait: sleeps until the time of a step, in real time. No answer is expected meanwhile.
    """
    steps = node.closed_loop.safety.safe_steps
    last = min(node.grid.steps, node.plant.k + (steps if most is None else min(steps, most)))
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
