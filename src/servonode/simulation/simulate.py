"""The sampled loop within one process, as nodes or fused."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.bus import MemoryBus, Switchboard
from servonode.bus.topology import CONTROLLER, PLANT, TARGET, nodes_of, subscribers
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_file import LaunchError
from servonode.nodes.controller_node import ControllerNode
from servonode.nodes.lockstep import lockstep, prepare
from servonode.nodes.plant_node import PlantNode
from servonode.nodes.target_node import LiveTargetNode, TargetNode, target_node_of
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.events import with_found
from servonode.record.recorder import Recorder
from servonode.record.run import Run
from servonode.record.run_rows import largest_residuals, run_of_rows
from servonode.simulation.fused_loop import fused_loop, rows_of

MOST_STEPS = 500_000_000  # plant steps of a simulation, which take some ten minutes


def check_length(closed_loop: ClosedLoop) -> None:
    """Refuse a simulation that would not come to its end today.

    Raises:
        LaunchError: it has more than MOST_STEPS steps.
    """
    launch = closed_loop.launch
    if launch.steps > MOST_STEPS:
        step = launch.step_ns / 1e9
        text = f"{launch.duration_ns / 1e9:g} s are {launch.steps:.3g} plant steps of {step:g} s, a simulation takes "
        text += f"at most {MOST_STEPS:.0e}; give at most {MOST_STEPS * step:g}, or a longer plant.step"
        raise LaunchError(launch.file, "run", "duration", text)


def check_processes(closed_loop: ClosedLoop) -> None:
    """Refuse faults of nodes, which are processes of a run.

    Raises:
        LaunchError: there is one.
    """
    launch = closed_loop.launch
    for i, each in enumerate(launch.fault):
        if each.on == "node":
            text = f"a simulation has no processes, so that none can {each.kind}; give servonode run, or leave it out"
            raise LaunchError(launch.file, f"fault.{i}", "on", text)


class _SteppedBus(MemoryBus):
    """The plant's bus in memory: waiting for an answer lets the other nodes work."""

    peers: Iterable[ControllerNode | TargetNode | LiveTargetNode] = ()
    give_up: Callable[[], None] = lambda: None

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:
        for peer in self.peers:
            peer.work()
            if isinstance(peer, TargetNode | LiveTargetNode) and peer.faults:
                self.give_up()
        return super().wait(deadline_ns, fds)


def simulate_nodes(closed_loop: ClosedLoop, every: int) -> Run:
    """The sampled loop with the very nodes of a run, stepped in one process on the bus in memory."""
    check_length(closed_loop)
    check_processes(closed_loop)
    begin = time.monotonic_ns()
    closed_loop = _begun_at_once(closed_loop)
    switchboard = Switchboard()
    bus = _SteppedBus(switchboard, PLANT)
    listeners = subscribers(nodes_of(closed_loop.control is not None), live=bool(closed_loop.live))
    plant = PlantNode(closed_loop, bus, listeners, every)
    answers, more = np.zeros((0, 1)), dict[str, Any]()
    if closed_loop.control:
        target = target_node_of(closed_loop)(closed_loop, MemoryBus(switchboard, TARGET), listeners)
        controller = ControllerNode(closed_loop, MemoryBus(switchboard, CONTROLLER), listeners, simulated=True)
        bus.peers = (target, controller)
    bus.give_up = lambda: setattr(plant, "stop", True)
    if prepare(plant, arm=True, timeout_s=0.0):
        lockstep(plant, closed_loop.launch.run.lockstep_timeout)
    summary = plant.summary()
    if closed_loop.control:
        answers = controller.record.rows
        more = {"residual_max": largest_residuals(closed_loop, answers), "stats": {"counts": summary["counts"]}}
        if closed_loop.has_own_controller:  # as fast as whoever wrote it has made it
            more["stats"]["nodes"] = {CONTROLLER: controller.summary()["times"]}
        summary["faults"] = [*target.summary()["faults"], *summary["faults"]]
    wall_s = (time.monotonic_ns() - begin) / 1e9
    if plant.injected.noted:
        more.setdefault("stats", {})["injected"] = with_found(plant.injected.noted, summary["faults"])
    return run_of_rows(
        closed_loop, "sampled", plant.record.rows, answers, wall_s, faults=summary["faults"], **more
    )  # fmt: skip


def _begun_at_once(closed_loop: ClosedLoop) -> ClosedLoop:
    """The closed loop of a simulation, which begins at its own initial state: without a soft start at first."""
    safety = closed_loop.safety
    if not safety.soft_start.at_first:
        return closed_loop
    return closed_loop.with_parts(safety=replace(safety, soft_start=replace(safety.soft_start, at_first=False)))


def simulate_fused(closed_loop: ClosedLoop, every: int) -> Run:
    """The sampled loop as one compiled function: the same bits as the nodes.

    A run that meets a fault is given to the nodes, which know what follows from it.
    """
    check_length(closed_loop)
    if not can_fuse(closed_loop):
        return simulate_nodes(closed_loop, every)
    begin = time.monotonic_ns()
    launch, machine = closed_loop.launch, closed_loop.machine
    row = PlantRecordLayout.of(machine.description)
    record = Recorder(row.columns(machine.description)[row.computed][1:], launch.steps // every + 2)
    answers = _answers(closed_loop)
    ended = fused_loop(closed_loop, every, record.data, answers.data)
    record.count, answers.count = rows_of(launch.steps, every), ended.answers
    if not ended.completed:
        return simulate_nodes(closed_loop, every)
    wall_s = (time.monotonic_ns() - begin) / 1e9
    more: dict[str, Any] = {"residual_max": largest_residuals(closed_loop, answers.rows)}
    more |= {"stats": {"counts": ended.counts}} if ended.counts else {}
    rows = _stamped(record.rows, ended.goal_from) if ended.goal_from else record.rows
    return run_of_rows(closed_loop, "sampled", rows, answers.rows, wall_s, **more)


def can_fuse(closed_loop: ClosedLoop) -> bool:
    """Whether a compiled loop has all of it: machine and law are their equations, and the state is measured."""
    judged = closed_loop.control is None and closed_loop.safety.plausible(own=False) is not None
    return has_compiled_plant(closed_loop) and not closed_loop.has_own_controller and not judged


def has_compiled_plant(closed_loop: ClosedLoop) -> bool:
    """Whether compiled code has all of its plant: the machine is its equations, the state measured, no fault stated."""
    own = closed_loop.driver.motion is None and closed_loop.drives is None and not closed_loop.launch.fault
    return own and closed_loop.estimation is None


def _stamped(rows: Array, goal_from: int) -> Array:
    """The rows with the step of a goal whose time began at a later step than the run, and the age of the state."""
    return np.column_stack([rows, np.maximum(rows[:, 0] - goal_from, 0.0), np.zeros(len(rows))])


def _answers(closed_loop: ClosedLoop) -> Recorder:
    law, launch = closed_loop.control.law if closed_loop.control else None, closed_loop.launch
    columns = law.record_layout.columns(law.description) if law else ["k"]
    rows = launch.steps // launch.steps_per_period + 2 if launch.steps_per_period else 0
    remedy = "shorten run.duration, or lengthen controller.period"
    return Recorder(columns[1:], rows, remedy=remedy)
