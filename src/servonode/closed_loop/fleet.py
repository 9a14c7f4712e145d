"""A launch file of several robots: each includes another launch file and states what differs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from servonode.bus.fleet_memory import KEPT, FleetMemory
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_error import LaunchError, choices, unknown
from servonode.closed_loop.launch_file import launch_of_table, launch_path, stated_table, with_joined_names
from servonode.closed_loop.launch_keys import Goal, LaunchFile
from servonode.mechanics.description import Layout

ROBOTS, INCLUDE = "robots", "include"
MOST_ROBOTS = 32
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,29}")
_STATE = re.compile(r"\s*([A-Za-z]\w*\.[A-Za-z]\w*(?:\.\d+)?)\s*")  # ROBOT.STATE, or an entry of a vector
_NODES = ("plant", "controller", "target", "launcher", "relay")


@dataclass(frozen=True)
class Fleet:
    """The robots of a launch, each with its own launch file; a robot that is followed comes before its followers."""

    file: str
    name: str
    robots: dict[str, LaunchFile]


def read_fleet(file: str | Path, overrides: Sequence[str] = ()) -> Fleet | None:
    """The robots of a launch file with [robots], after `overrides`; None where it has no such section.

    Raises:
        LaunchError: the file, or one that it includes, does not fit.
    """
    path, table = stated_table(file, overrides)
    if ROBOTS not in table:
        return None
    return _Reader(str(file), path, table).fleet()


def resolve_fleet(fleet: Fleet, strict: bool = True, code: bool = True) -> dict[str, ClosedLoop]:
    """The closed loop of each robot; goals that are another robot's state begin at its initial state.

    Raises:
        as `resolve`.
    """
    found: dict[str, ClosedLoop] = {}
    for robot, launch in fleet.robots.items():
        goals = dict(launch.target)
        for name, goal in _followed(launch).items():
            goals[name] = msgspec.structs.replace(goal, start=_initial(found, launch.file, name, goal))
        found[robot] = resolve(msgspec.structs.replace(launch, target=goals), strict=strict, code=code)
    _check_periods(fleet, found)
    return found


def sharing_memory(loops: Mapping[str, ClosedLoop], kept: int = KEPT) -> dict[str, ClosedLoop]:
    """The closed loops of a fleet with the memory that they share. kept: states of each robot."""
    entries = {robot: _entries(each.machine.description.layout) for robot, each in loops.items()}
    memory = FleetMemory(entries, kept, all(each.driver.simulated for each in loops.values()))
    return {robot: each.with_parts(member=memory.member(robot)) for robot, each in loops.items()}


def memory_of(loops: Mapping[str, ClosedLoop]) -> FleetMemory:
    """The memory that the robots share, of joined ones."""
    member = next(iter(loops.values())).member
    assert member is not None
    return member.memory


def _initial(loops: Mapping[str, ClosedLoop], file: str, name: str, goal: Goal) -> float:
    """The initial value of the state that a goal names.

    Raises:
        LaunchError: it has no such state.
    """
    robot, _, state = (goal.state or "").partition(".")
    entries = _entries(loops[robot].machine.description.layout)
    if state not in entries:
        text = unknown(f"{goal.state!r}: machine of {robot} has no state {state!r}", state, entries)
        raise LaunchError(file, "target", name, text)
    return float(loops[robot].start[entries[state]])


def _entries(layout: Layout) -> dict[str, int]:
    """The position of each entry of a state, by name: `X`, or `position.0` of a vector."""
    found: dict[str, int] = {}
    for name, size in layout:
        names = [f"{name}.{i}" for i in range(size)] if size else [name]
        found |= {each: len(found) + i for i, each in enumerate(names)}
    return found


def _followed(launch: LaunchFile) -> dict[str, Goal]:
    """The goals that are a state of another robot, by target."""
    return {name: goal for name, goal in launch.target.items() if isinstance(goal, Goal) and goal.state is not None}


def _check_periods(fleet: Fleet, loops: Mapping[str, ClosedLoop]) -> None:
    """Refuse robots that cannot keep in step."""
    first, *others = fleet.robots
    for robot in others:
        one, other = loops[first].launch, loops[robot].launch
        if one.period_ns != other.period_ns:
            text = f"{other.times.period:g} s, and {one.times.period:g} s for {first}: the robots of a launch have one "
            raise LaunchError(other.file, "controller", "period", f"{text}clock; give all the same period")


class _Reader:
    """Reads the tables of a fleet."""

    def __init__(self, file: str, path: Path, table: dict[str, Any]) -> None:
        self.file, self.path, self.table = file, path, table

    def fleet(self) -> Fleet:
        """The robots, in an order in which each comes after those that it follows."""
        robots = self._robots()
        launches = {name: self._launch(name, i) for i, name in enumerate(robots)}
        return Fleet(self.file, self.path.stem, {name: launches[name] for name in self._ordered(launches)})

    def _robots(self) -> list[str]:
        robots = self.table[ROBOTS]
        if not isinstance(robots, dict) or not robots:
            raise self._error(ROBOTS, None, 'no robots; write [robots.NAME] tables, each with include = "LAUNCH_FILE"')
        for name in self.table:
            if name not in (ROBOTS, "run"):
                text = f"stands beside [robots]; write [robots.NAME.{name}], or {name} in the file that a robot "
                raise self._error(name, None, f"{text}includes")
        if len(robots) > MOST_ROBOTS:
            raise self._error(ROBOTS, None, f"{len(robots)} robots; at most {MOST_ROBOTS} are possible")
        for name, stated in robots.items():
            if not _NAME.fullmatch(name) or name in _NODES:
                text = "not usable as the name of a robot; take a letter, then up to 29 letters, digits and _, and not "
                raise self._error(ROBOTS, name, f"{text}the name of a node ({choices(_NODES)})")
            if not isinstance(stated, dict):
                raise self._error(ROBOTS, name, f"not a table; write [robots.{name}] with include and what differs")
        return list(robots)

    def _launch(self, robot: str, number: int) -> LaunchFile:
        """The launch file of a robot: the included one, the [run] of the fleet, and what differs."""
        section, stated = f"{ROBOTS}.{robot}", self.table[ROBOTS][robot]
        included = stated.get(INCLUDE)
        if not isinstance(included, str) or not included:
            text = 'missing; name the launch file of this robot, as include = "trailer_pursuit"'
            raise self._error(section, INCLUDE, text)
        if "run" in stated:
            raise self._error(f"{section}.run", None, "belongs to the whole run; write its keys below [run]")
        beside = launch_path(included)
        path, table = stated_table(beside if beside != Path(included) else self.path.parent / included)
        if ROBOTS in table:
            raise self._error(section, INCLUDE, f"{included} has [robots] itself; include the launch file of one robot")
        own = with_joined_names(self.file, {k: v for k, v in stated.items() if k != INCLUDE}, f"{section}.")
        for part in ({"run": self.table.get("run", {})}, own):
            table = _merged(table, part)
        if isinstance(table["run"], dict) and isinstance(table["run"].get("seed", 1), int):
            table["run"]["seed"] = table["run"].get("seed", 1) + number  # else all robots had the same noise
        table["target"] = self._goals(table.get("target", {}), robot)
        name = f"{self.path.stem}.{robot}"
        launch = launch_of_table(table, name=name, path=path, file=f"{self.file} [{section}]")
        self._check(launch, robot)
        return msgspec.structs.replace(launch, name=name)

    def _goals(self, target: Any, robot: str) -> Any:
        """The goals, those that name a state of another robot as tables."""
        if not isinstance(target, dict):
            return target
        found = {}
        for name, goal in target.items():
            stated = {"state": goal} if isinstance(goal, str) and _STATE.fullmatch(goal) else goal
            if isinstance(stated, dict) and isinstance(state := stated.get("state"), str):
                leader = state.strip().partition(".")[0]
                robots = self.table[ROBOTS]
                if leader not in robots or not _STATE.fullmatch(state):
                    text = unknown(f"{state!r}: there is no robot {leader!r}", leader, robots)
                    raise self._error(f"{ROBOTS}.{robot}.target", name, text)
                stated = stated | {"state": state.strip()}
            found[name] = stated
        return found

    def _check(self, launch: LaunchFile, robot: str) -> None:
        """Refuse what a robot of a fleet cannot have."""
        wrong = {
            "hosts": (launch.hosts is not None, "the robots of one launch run on one computer; leave [hosts] out"),
            "controller": (launch.controller is None, "missing; each robot of a launch has a controller"),
            "supervision": (
                launch.supervision.plant != "never",
                'a plant that begins anew is not in step with the other robots; give plant = "never"',
            ),
            "run": (
                launch.run.telemetry is not None,
                "telemetry has one address, and each robot would need its own; leave telemetry out",
            ),
        }
        wrong |= {name: (bool(stated.alone), stated.alone) for name, stated in launch.more.items()}
        for section, (found, text) in wrong.items():
            if found:
                raise self._error(f"{ROBOTS}.{robot}.{section}", None, text)

    def _ordered(self, launches: Mapping[str, LaunchFile]) -> list[str]:
        """The robots, each after those that it follows. LaunchError where one follows itself, if over others."""
        leaders = {
            name: {(goal.state or "").partition(".")[0] for goal in _followed(launch).values()}
            for name, launch in launches.items()
        }
        order: list[str] = []
        while len(order) < len(launches):
            free = [name for name in launches if name not in order and leaders[name] <= set(order)]
            if not free:
                cycle = _cycle({name: found - set(order) for name, found in leaders.items() if name not in order})
                text = f"the goals go in a circle: {' follows '.join(cycle)}; no robot can know its goal before the "
                raise self._error(f"{ROBOTS}.{cycle[0]}.target", None, f"{text}others know theirs: let one follow none")
            order += free
        return order

    def _error(self, section: str, key: str | None, text: str) -> LaunchError:
        return LaunchError(self.file, section, key, text)


def _cycle(leaders: Mapping[str, set[str]]) -> list[str]:
    """Robots that follow one another in a circle, the first one again at the end."""
    path = [next(iter(leaders))]
    while True:
        following = min(leaders[path[-1]])
        if following in path:
            return [*path[path.index(following) :], following]
        path.append(following)


def _merged(table: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A table with the entries of another one, tables within it likewise."""
    found = dict(table)
    for name, value in other.items():
        inner = found.get(name)
        if isinstance(inner, dict) and isinstance(value, dict):
            value = _merged(inner, value)
        found[name] = value
    return found
