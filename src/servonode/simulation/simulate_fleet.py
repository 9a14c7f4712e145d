"""Several robots in one process: one after the other, each after those that it follows, with the bits of lockstep."""

from collections.abc import Mapping

from msgspec import structs

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.fleet import memory_of, sharing_memory
from servonode.record.run import Run
from servonode.simulation.simulate import check_length, simulate_nodes


def simulate_fleet(loops: Mapping[str, ClosedLoop], every: Mapping[str, int]) -> dict[str, Run]:
    """The runs of a fleet, by robot. loops: leaders before their followers. every: plant steps per row, by robot.

    Where a robot stops, all are simulated again, for now it is known at which control instant the others stop.
    """
    for each in loops.values():
        check_length(each)
    most = max(each.launch.steps // (each.launch.steps_per_period or 1) for each in loops.values())
    members = {robot: _in_lockstep(each) for robot, each in sharing_memory(loops, kept=most + 2).items()}
    memory = memory_of(members)
    memory.end_all()  # nobody waits for robots that are still to be simulated
    runs = {}
    for robot, each in members.items():
        memory.begin_again(robot)
        runs[robot] = simulate_nodes(each, every[robot])
    if any(run.faults for run in runs.values()):
        known = memory.content()
        for robot, each in members.items():
            memory.restore(known)
            memory.begin_again(robot)
            runs[robot] = simulate_nodes(each, every[robot])
    return runs


def _in_lockstep(closed_loop: ClosedLoop) -> ClosedLoop:
    """The closed loop of a robot that waits for the others, whatever the clock of the run."""
    launch = closed_loop.launch
    return closed_loop.with_parts(launch=structs.replace(launch, run=structs.replace(launch.run, mode="lockstep")))
