"""From a launch file to everything a run needs: machine, law, targets, initial state, limits, all checked.

Every name and number of the launch file is checked here against the machine and the program; what does not fit
is one LaunchError, before anything moves.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from servonode.arrays import Array
from servonode.bus.fleet_memory import Member
from servonode.bus.topology import PLANT
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.device_terms import estimate_terms, law_terms
from servonode.closed_loop.hosts import Computer, computer
from servonode.closed_loop.known_code import SHIPPED, refuse_code
from servonode.closed_loop.launch_error import LaunchError, ProgramUnfit, naming_file
from servonode.closed_loop.launch_file import with_values
from servonode.closed_loop.launch_keys import FrameGoal, LaunchFile
from servonode.closed_loop.parts import cached_property
from servonode.closed_loop.resolution import Resolution
from servonode.closed_loop.static_checks import Examination, trial, with_residuals
from servonode.definitions.references import Definition, FunctionDefinition, kind_of
from servonode.mechanics.derivation import derived_once
from servonode.mechanics.machine import Machine
from servonode.plants.drawn import drawn_views
from servonode.plants.drivers.driver import DriverContext, LawTerms, finite_limits
from servonode.plants.drivers.estimated import EstimateTerms
from servonode.plants.skeleton import places, skeleton_views, tips
from servonode.plants.view import View
from servonode.tables import Row, Tabular, named, several, valued

if TYPE_CHECKING:
    from servonode.plants.drivers.transport import Traffic

FRAME = re.compile(r"\b([A-Za-z_]\w*)\.[A-Za-z_]")  # of an expression, as in tool.x
STEP, POINTS = 0.01, 10_000  # s, and at most so many; the path of a longer run is that of its beginning
FINE, STEPS = 1 / 250, 1.5  # of the extent of a path, of the way from one point to the next: what counts as one place
NEAR = 4.0  # places, over which a path is drawn on


class ClosedLoop(Resolution, Tabular):
    """A launch file resolved, and what was chosen of its run since: ready to simulate or to run."""

    examination: Examination  # what was found of the loop before it moves
    readonly: bool = False  # the run observes and computes, and never commands the machine
    own_key: str = ""  # the name of our key pair; empty: the only one that there is
    insecure: bool = False  # whether a machine may be met at tcp addresses without keys
    computer: Computer | None = None  # the part of a run on two computers that is here; None: all of it
    member: Member | None = None  # its place among the robots of one launch; None: it is alone

    def __reduce__(self) -> Any:
        """Pickle what was stated, of which it is resolved again, and what was chosen since."""
        functions = [each for *_, each in self.own_definitions if isinstance(each, FunctionDefinition)]
        chosen = ("safety", "readonly", "own_key", "insecure", "computer")
        return _resolved_again, (self.stated, functions, {name: getattr(self, name) for name in chosen})

    def table(self) -> tuple[str, list[Row]]:
        """The machine with its initial state, the program with its residuals, times."""
        launch, control, described = self.launch, self.control, self.machine.description
        found = zip(described.state, self.start.tolist(), strict=False)  # the last entry is the work
        start = (valued(each.name, value, each.unit) for each, value in found)
        rows = [("machine", f"{described.name}: {described.description}"), ("initial state", several(start, 8))]
        rows += [("inputs", several(named(each.name, each.unit) for each in described.inputs))]
        if control:
            program = control.law.description
            degrees = zip(program.residuals, program.relative_degrees, strict=True)
            rows += [("program", program.name)]
            shown = (f"{named(each.name, each.unit)} of relative degree {degree}" for each, degree in degrees)
            rows += [("residuals", several(shown))]
        else:
            rows += [("program", "none: the inputs are zero" if described.inputs else "none")]
        period = f", control every {launch.period_ns / 1e9:g} s" if launch.period_ns and control else ""
        integrator = launch.plant.integrator
        rows += [
            ("time", f"{launch.duration_ns / 1e9:g} s in steps of {launch.step_ns / 1e9:g} s ({integrator}){period}")
        ]
        return f"Closed loop {launch.name}", rows

    @property
    def own_definitions(self) -> Iterator[tuple[str, str, Definition]]:
        """Section, key and definition of a machine or program that is code of the user's or a robot's file."""
        law = self.derived_law
        program = getattr(law.source, "definition", None) if law else None
        stated = (("plant", "machine", self.source.definition), ("controller", "program", program))
        for section, key, definition in stated:
            if (
                definition is not None
                and definition.reference not in SHIPPED
                and kind_of(definition.reference) != "name"
            ):
                yield section, key, definition

    @property
    def views(self) -> tuple[View, ...]:
        """How the machine is drawn: as its Model and its file say, else as the skeleton of its tree."""
        return drawn_views(self.machine, self.source.views(), self.source.definition.file.name) or self._skeleton

    @cached_property
    def _skeleton(self) -> tuple[View, ...]:
        goals = self.launch.controller.goal.values() if self.launch.controller else ()
        targets = next(filter(None, (_targets(goal, self.targets.names) for goal in goals)), None)
        wanted = cache(lambda: wanted_positions(self.launch, self.control, self.machine, self.start))
        return skeleton_views(self.machine, self.traced, targets, wanted)

    @cached_property
    def traced(self) -> tuple[str, ...]:
        """The frames and links of a tree whose paths are drawn: those of goals, else its ends."""
        skeleton, controller = self.machine.description.skeleton, self.launch.controller
        if skeleton is None or self.machine.description.drawing or self.source.definition.states("VIEW"):
            return ()
        stated = " ".join(map(str, controller.residuals.values())) if controller else ""
        named = (*(controller.goal if controller else ()), *FRAME.findall(stated))
        return tuple(dict.fromkeys(name for name in named if name in skeleton.names)) or tips(self.machine)

    @property
    def device_law(self) -> LawTerms | None:
        """On what terms the law acts that is in the machine's firmware; None: it does not, or the run only observes."""
        return None if self.readonly else law_terms(self.launch.plant, self.control, self.safety.limits.value)

    @property
    def device_estimate(self) -> EstimateTerms | None:
        """On what terms the plant node estimates the state of a machine that sends readings alone, else None."""
        return estimate_terms(self.launch.plant, self.estimation)

    def driver_context(self, **more: Any) -> DriverContext:
        """The terms on which a driver meets the machine. more: those of the process that does, such as its clock."""
        launch, watch = self.launch, self.safety.command_timeout or self.launch.plant.safety.command_timeout_floor
        terms: dict[str, Any] = {"simulation": self.plant, "state_timeout": launch.plant.device.timeout or watch}
        return DriverContext(
            self.machine, self.connection.stated, self.start, launch.step_ns, timeout=watch,
            limits=finite_limits(self.machine, self.sent_limits, self.readonly), law=self.device_law,
            drives=self.drives, estimate=self.device_estimate, own_key=self.own_key,
            servos=self.servos if self.driver.servos else {}, **terms | more,
        )  # fmt: skip

    def check_robots(self) -> None:
        """Raise LaunchError where a goal is the state of another robot, and the run has none."""
        for each in self.live if self.member is None else ():
            if each.state:
                text = f"{each.state!r} needs another robot; run the launch file that has both below [robots]"
                raise LaunchError(self.launch.file, f"target.{each.name}", "state", text)

    def check_known_goals(self, alone: bool = True) -> None:
        """Raise LaunchError where a goal comes from outside, which a simulation has not.

        alone: whether it has no other robots either.
        """
        if alone:
            self.check_robots()
        for each in self.live:
            if each.state:
                continue
            text = "comes from outside while a real-time run is in progress; for a simulation give it another way, as "
            key, text = "topic" if each.address else "bandwidth", f'{text}--set target.{each.name}="t"'
            raise LaunchError(self.launch.file, f"target.{each.name}", key, text)

    def check_keys(self, armed: bool) -> None:
        """Refuse to start where keys are missing, or servos that are armed cannot be told what to do.

        armed: whether the run is armed without its operator.

        Raises:
            LaunchError, KeyFileError: that is so, or the run has keys and is to be insecure.
        """
        if self.computer is None or PLANT in self.computer.nodes:
            self.connection.check_keys(
                self.machine.description.name, self.own_key, self.insecure, needless=self.computer is None
            )
        if self.computer is not None and not self.insecure:
            self.computer.check_keys(self.launch.file, self.own_key)
        if armed and (problem := self.servo_obstacle):
            raise LaunchError(self.launch.file, "plant", "driver", problem)
        if armed and (problem := self.insecure_obstacle):
            raise LaunchError(self.launch.file, "plant.device", "key", problem)

    @property
    def insecure_obstacle(self) -> str:
        """Why the machine must not be armed, with the remedy: others could command it over a network without keys."""
        computer = self.computer
        is_local = self.connection.is_local(self.machine.description.name) and (computer is None or computer.is_local)
        if not self.insecure or is_local:
            return ""
        return (
            "the run has no keys (--insecure), and others than this computer are part of it, so it is never armed; "
            "give both sides keys (servonode keys)"
        )

    @property
    def traffic(self) -> "Traffic | None":
        """The traffic of a run with a machine that speaks packets; None: it does not, or time stands still for it."""
        law, estimator = self.device_law, self.launch.estimator
        used = estimator.sensors if estimator else None
        n_sensors = len(self.machine.description.sensors if used is None else used)
        return self.connection.traffic(self.machine, law.n_goal if law else 0, n_sensors)

    def check_traffic(self) -> int:
        """Plant steps between two states of the machine, 0 where it chooses.

        Raises:
            LaunchError: its line or bus is too slow.
        """
        found = self.traffic
        if found is not None and found.line is not None and (problem := found.problem()):
            raise LaunchError(self.launch.file, "plant.device", found.line.key, problem)
        return found.state_every if found else 0

    def changed(self, values: Mapping[str, Any]) -> "ClosedLoop":
        """The closed loop with other values by dotted key, see `with_values`; parts that they do not touch are kept.

        Nothing is derived, and the ranks of the servo-constraints are not surveyed again: where the inputs cannot
        realise the goal, the law says so during the run. The machine's safe action is not tried again either, which
        judges what follows a fault of a real machine. A function of time as a target is compiled when it is new.

        Raises:
            LaunchError: a value does not fit, as in the launch file, or is part of what is derived.
        """
        launch = with_values(self.stated, {key: _whole_if_it_is(value) for key, value in values.items()})
        with naming_file(launch.file):
            for key in values:
                self.check_derived(launch, key)
            new = self.varied(launch)
            new.check_parts()
            answer = new.checked_start()
            if new.control is not None and answer is not None and answer.status:
                text = f"at the initial state {new.control.law.explain(answer)}"
                raise ProgramUnfit("plant.initial", None, text)
        new.examination = self.examination
        return new


def _whole_if_it_is(value: Any) -> Any:
    """A whole number as one, which counts and seeds are."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53 else value


def resolve(launch: LaunchFile, strict: bool = True, code: bool | Mapping[str, str] = True) -> ClosedLoop:
    """Resolve a launch file: load or build the kernels, check every name and number, examine the closed loop.

    With `strict` a refusal of the examination is raised; without, it is only kept in `examination`. Without
    `code` a launch file that names Python code of its own is refused, before anything of it runs; with digests as
    `code`, by path from the launch file, unless its files below the working directory have them.

    Raises:
        LaunchError: something in the launch file does not fit; ProgramRefused: the check failed.
        CacheError: the kernel cache cannot be read or written.
    """
    loop = ClosedLoop(launch)
    with naming_file(launch.file), derived_once():
        if code is not True:
            refuse_code(launch, None if code is False else code)
        loop.check_stated()
        law = loop.derived_law
        try:
            loop.check_parts()
            loop.check_machine()
            loop.injector()
            if strict:
                loop.safety.check_limits()
            own = trial(loop.control, loop.start)
            if law is not None and own is not None:  # what residuals there are is known only now
                known = with_residuals(law, own.residuals)
                loop = loop.varied(launch).with_parts(launch=loop.launch, derived_law=known)
                loop.check_parts()
            loop.examination = loop.examined(own)
            if strict and loop.examination.refusals:
                first = loop.examination.refusals[0]
                raise ProgramUnfit("controller", None, f"{first.subject}: {first.text}")
        except ProgramUnfit as refusal:
            refusal.law = law.law if law else None
            raise
    return loop


def _resolved_again(stated: LaunchFile, functions: Sequence[Definition], chosen: Mapping[str, Any]) -> ClosedLoop:  # noqa: ARG001
    """A closed loop of a pickle. functions: those that the launch file refers to; unpickling has made them known."""
    return resolve(stated, strict=False).with_parts(**chosen)


def observing(closed_loop: ClosedLoop) -> ClosedLoop:
    """The closed loop as a run that never commands the machine.

    Raises:
        LaunchError: its driver cannot do without, or the machine would not move on.
    """
    launch, driver = closed_loop.launch, closed_loop.driver
    if not driver.readonly:
        text = f"{driver.name!r} does not support observing a machine without commanding it; run it without "
        raise LaunchError(launch.file, "plant", "driver", f"{text}--readonly, or give the driver readonly=True")
    if launch.run.mode == "lockstep" and not driver.simulated:
        text = "in lockstep a machine moves only after it receives an input, which --readonly never sends; use realtime"
        raise LaunchError(launch.file, "run", "mode", text)
    return closed_loop.with_parts(readonly=True)


def begun(closed_loop: ClosedLoop) -> ClosedLoop:
    """The closed loop with the law of one run, which a controller in Python has for itself."""
    control = closed_loop.control
    return closed_loop.with_parts(control=replace(control, law=control.law.begin())) if control else closed_loop


def with_keys(closed_loop: ClosedLoop, own_key: str, insecure: bool) -> ClosedLoop:
    """The closed loop as a run with this key pair of ours, or with none: then every status says so."""
    safety = closed_loop.safety
    if insecure:
        where = "machine" if closed_loop.computer is None else "other computer"
        safety = replace(safety, unsafe=(*safety.unsafe, f"the link to the {where} has no keys (--insecure)"))
    return closed_loop.with_parts(own_key=own_key, insecure=insecure, safety=safety)


def on_computer(closed_loop: ClosedLoop, on: str | None) -> ClosedLoop:
    """The closed loop with the part of its run that is on this computer, which `on` names if it listens.

    Raises:
        LaunchError: [hosts] has no such computer.
    """
    return closed_loop.with_parts(computer=computer(closed_loop.launch, on))


def wanted_positions(launch: LaunchFile, control: Control | None, machine: Machine, start: Array) -> dict[str, Array]:
    """Legend name -> path (n, 3) [m] of the wanted positions of each frame that has a goal in the ground's axes.

    A free coordinate is not a number. {} if goals come from outside; targets alone are drawn as such. start: the state.
    """
    goals = launch.controller.goal if launch.controller else {}
    if control is None or control.live or not goals:
        return {}
    t = np.arange(0.0, launch.run.duration, STEP)[:POINTS]
    residuals = _residuals(control, start, t)
    found = {}
    for frame, goal in goals.items():
        rows = [residuals.get(f"{frame}_{axis}") for axis in "xyz"]
        stated = goal.relative_to is None and any(row is not None for row in rows)
        if stated and not _targets(goal, control.targets.names):
            (here,) = places(machine, [frame], 0.0, start)
            free = np.full(len(t), np.nan)
            path = [free if row is None else at - row for at, row in zip(here, rows, strict=True)]
            found[f"{frame} wanted"] = each_place_once(np.column_stack(path))
    return found


def _targets(goal: FrameGoal, targets: Collection[str]) -> tuple[str, ...]:
    """The three targets that are a goal's position by themselves, such as those from outside; empty without them."""
    names = tuple(map(str, goal.position or ()))
    return names if goal.relative_to is None and set(names) <= set(targets) else ()


def _residuals(control: Control, x: Array, t: Array) -> dict[str, Array]:
    """The residuals by name at these times, of a machine that rests where it starts."""
    names = [each.name for each in control.law.description.residuals]
    values = np.array([control.law.terms(at, x, control.goal(at))["f"].copy() for at in t.tolist()])
    return dict(zip(names, values.reshape(len(t), len(names)).T, strict=True))


def each_place_once(path: Array) -> Array:
    """A path (n, 3) without what it passes again, where it has a gap: dashes would fill each other's gaps."""
    known = np.nan_to_num(path)
    ways = np.linalg.norm(np.diff(known, axis=0), axis=1)
    size = max(FINE * float(np.ptp(known, axis=0).max(initial=0.0)), STEPS * float(np.median(ways)) if len(ways) else 0)
    if size == 0.0:
        return path[:1]
    _, first = np.unique(np.floor(known / size), axis=0, return_index=True)
    kept = np.sort(first)
    jumps = (np.diff(kept) > 1) & (np.linalg.norm(np.diff(known[kept], axis=0), axis=1) > NEAR * size)
    return np.insert(path[kept], np.flatnonzero(jumps) + 1, np.nan, axis=0)
