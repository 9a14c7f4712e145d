"""What goals of ROS 2 mean to a run: which of its targets a pose, a point or a twist gives.

Only targets count that `servonode goal` may give, those with a bandwidth. Messages have no frame or the frame `world`.

* `/clicked_point`, `/goal_pose`: the place goes to the targets of the goal that the machine's view draws, else to `x`,
  `y`, `z` or `x`, `y`; what is beside the view's plane is not used
* `/goal_pose`: the angle about the vertical goes to a target `heading`, `yaw` or `psi`, if there is one, on the turn
  that is nearest to its last value
* `/cmd_vel`: `linear.x` goes to `v`, `angular.z` to `omega`; what the run has no target for must be 0
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.plants.view import View

WORLD = ("", "world", "/world")
HEADINGS = ("heading", "yaw", "psi")
SPEEDS = {("linear", "x"): "v", ("angular", "z"): "omega"}
AXES = ("x", "y", "z")
UNIT = 0.01  # by which the length of a quaternion may differ from 1


class GoalRefused(ServonodeError):
    """A message that this run cannot follow; the text says why."""


@dataclass(frozen=True)
class GoalRule:
    """The targets of one run that messages give; each method returns values by target, for `set_goal`.

    place: two or three of them, each with its axis of the ground; empty: none. heading: empty: none.
    """

    place: Mapping[str, str]
    heading: str
    speeds: frozenset[str]

    @classmethod
    def of(cls, closed_loop: ClosedLoop) -> "GoalRule":
        """That of a run of this launch file."""
        given = {each.name for each in closed_loop.live if not each.source}
        drawn = [dict(zip(view.goal, _axes(view), strict=True)) for view in closed_loop.views if view.goal]
        usual = dict(zip(AXES, AXES, strict=True))
        places = (*drawn, usual, {name: usual[name] for name in AXES[:2]})
        place = next((each for each in places if each.keys() <= given), {})
        heading = next((each for each in HEADINGS if each in given), "")
        return cls(place, heading, frozenset(given & set(SPEEDS.values())))

    def words(self) -> dict[str, str]:
        """For each topic the targets that it gives; topics without any are left out."""
        place, speeds = ", ".join(self.place), ", ".join(each for each in SPEEDS.values() if each in self.speeds)
        pose = ", ".join(filter(None, (place, self.heading)))
        return {name: text for name, text in zip(TOPICS, (pose, place, speeds), strict=True) if text}

    def of_pose(self, message: Any, now: Mapping[str, float]) -> dict[str, float]:
        """Of a geometry_msgs/PoseStamped; now: the last values of targets."""
        if not self.place and not self.heading:
            raise _no_target("a place or an angle", "x, y")
        _check_frame(message)
        goal = self._at(message.pose.position) if self.place else {}
        if self.heading:
            angle, last = _yaw(message.pose.orientation), now.get(self.heading, math.nan)
            turns = round((last - angle) / math.tau) if math.isfinite(last) else 0
            goal[self.heading] = angle + turns * math.tau
        return goal

    def of_point(self, message: Any, _: Mapping[str, float]) -> dict[str, float]:
        """Of a geometry_msgs/PointStamped."""
        if not self.place:
            raise _no_target("a place", "x, y")
        _check_frame(message)
        return self._at(message.point)

    def of_twist(self, message: Any, _: Mapping[str, float]) -> dict[str, float]:
        """Of a geometry_msgs/Twist."""
        if not self.speeds:
            raise _no_target("a speed", "v, omega")
        goal = {}
        for part in ("linear", "angular"):
            for axis in AXES:
                name, value = SPEEDS.get((part, axis), ""), getattr(getattr(message, part), axis)
                if name in self.speeds:
                    goal[name] = value
                elif value != 0.0:
                    raise GoalRefused(f"{part}.{axis} = {value:g}, for which this run has no target; give 0")
        return goal

    def _at(self, point: Any) -> dict[str, float]:
        return {name: getattr(point, axis) for name, axis in self.place.items()}


TOPICS = {  # type and rule of each topic on which goals come
    "/goal_pose": ("geometry_msgs/msg/PoseStamped", GoalRule.of_pose),
    "/clicked_point": ("geometry_msgs/msg/PointStamped", GoalRule.of_point),
    "/cmd_vel": ("geometry_msgs/msg/Twist", GoalRule.of_twist),
}


def _axes(view: View) -> tuple[str, ...]:
    """The axes of the ground along which the values of a view's goal are."""
    return AXES if view.projection is not None else tuple(AXES[int(np.argmax(row))] for row in view.plane[:2])


def _no_target(what: str, names: str) -> GoalRefused:
    return GoalRefused(f"this run takes {what} from nobody; give targets {names} of its launch file a bandwidth")


def _check_frame(message: Any) -> None:
    if message.header.frame_id not in WORLD:
        raise GoalRefused(f"frame {message.header.frame_id!r:.40} is not known; give the goal in the frame 'world'")


def _yaw(q: Any) -> float:
    """The angle about the vertical [rad] of a unit quaternion, from -pi to pi."""
    length = math.hypot(q.x, q.y, q.z, q.w)
    if not abs(length - 1.0) <= UNIT:
        raise GoalRefused(f"orientation has length {length:g}; give a unit quaternion")
    return math.atan2(2 * (q.w * q.z + q.x * q.y), q.w**2 + q.x**2 - q.y**2 - q.z**2)
