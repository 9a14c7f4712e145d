"""A bridge from one run to a graph of ROS 2: publishes what the run does, takes goals and the emergency stop.

It is a process of its own beside the run: the run's nodes do not know it, and what it does not read in time is dropped
by their sockets. A goal goes to the target node as one of `servonode goal` does, of each topic at most GOALS a second,
the newest; the stop does what `servonode estop RUN` does.
"""

import logging
import math
import time

from servonode.errors import ServonodeError
from servonode.operator.find_runs import find_run, find_runs
from servonode.operator.listener import step_back
from servonode.operator.operator_requests import reset_since, set_goal
from servonode.views.live_run import LiveRun
from servonode.wings.neighbours.bridged import ENDED, beside, live_moments, stop_run
from servonode.wings.neighbours.moments import Layout, Moment
from servonode.wings.neighbours.ros2_goals import TOPICS, GoalRule
from servonode.wings.neighbours.ros2_graph import Ros2Node
from servonode.wings.neighbours.ros2_messages import messages

RATE, GOALS = 50.0, 20.0  # Hz
SAID_S = 1.0  # s between two lines on refused goals of a topic
LOOK_S = 0.2  # s between two looks of the threads whether the bridge ends
STOP, KIND = "/servonode/stop", "std_srvs/srv/Trigger"
REPLY = {"success": bool, "message": str}

log = logging.getLogger(__name__)


def serve(run: str, domain: int, network: bool) -> None:
    """Bridge the run of this name, or in this folder, until it has ended.

    domain: as ROS_DOMAIN_ID. network: whether other computers may take part, and so move the machine.

    Raises:
        BusError: there is no such run; NoGraph: the domain cannot be joined.
    """
    step_back()
    with LiveRun(run, who="ros2") as source:
        source.wait_open()
        Ros2Bridge(source, Ros2Node(domain, network)).run()


class Ros2Bridge:
    """The run that `source` is connected to, and a participant of the graph."""

    def __init__(self, source: LiveRun, node: Ros2Node) -> None:
        assert source.closed_loop is not None
        self._source, self._node = source, node
        self._folder = str(find_run(source.run).path)
        self._layout, self._rule = Layout.of(source.closed_loop), GoalRule.of(source.closed_loop)
        self._now: dict[str, float] = {}  # the last value of every target
        self._taken = {topic: node.subscription(topic, name) for topic, (name, _) in TOPICS.items()}
        self._said = dict.fromkeys(TOPICS, 0.0)
        self._stop = node.service(STOP, KIND, REPLY, self._stopped)

    def run(self) -> None:
        """Publish, take goals and answer requests until the run has ended."""
        given = "; ".join(f"{topic} gives {names}" for topic, names in self._rule.words().items())
        log.info("%s is on ROS 2; goals: %s; emergency stop: %s", self._source.name, given or "none", STOP)
        with beside(lambda: self._stop.receive(LOOK_S), lambda: self._stop.serve(LOOK_S), self._take_goals) as check:
            before: Moment | None = None
            for moment in live_moments(self._source, RATE, self._layout):
                check()
                if moment is not None:
                    self._now |= {name: goal for name, goal in moment.goals.items() if math.isfinite(goal)}
                    for topic, name, values in messages(self._layout, moment, before):
                        self._node.publish(topic, name, values)
                    before = moment

    def _take_goals(self) -> None:
        for topic, (_, rule) in TOPICS.items():
            try:
                message = self._taken[topic].newest()
                if message is not None:
                    set_goal(self._folder, rule(self._rule, message, self._now))
            except (ServonodeError, OSError, UnicodeError) as error:
                self._refuse(topic, error)
        time.sleep(1 / GOALS)

    def _refuse(self, topic: str, error: Exception) -> None:
        """Say why, but not at the rate at which goals come."""
        if (now := time.monotonic()) >= self._said[topic]:
            self._said[topic] = now + SAID_S
            log.warning("no goal from %s: %s", topic, error if find_runs(self._folder) else ENDED)

    def _stopped(self, came: float) -> tuple[bool, str]:
        """Stop the run, unless it has been reset since the request came, of which no doubt must be left."""
        if came < math.inf and reset_since(self._folder, came):
            return False, f"{self._source.name}: not stopped again, since reset --estop came after this request"
        return stop_run(self._folder, STOP)
