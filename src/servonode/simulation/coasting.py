"""A machine without a controller as one compiled function: zero input, each step judged where it states faults."""

from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.bus.topology import PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.definitions import cache
from servonode.kernels.library import library_text
from servonode.mechanics.machine import fault_time
from servonode.nodes.node import Fault
from servonode.simulation.loop_source import row_sizes

_loops: dict[tuple[object, ...], Any] = {}  # loaded ones, by what their texts depend on


def coast(closed_loop: ClosedLoop, every: int, rows: Array) -> tuple[int, Fault | None]:
    """Fill the record of a run, a row of each `every` steps; -1, or the step at which it stopped, and the fault there.

    None: it came to the end, or the nodes must find the fault.
    """
    launch, machine = closed_loop.launch, closed_loop.machine
    x, u, last = closed_loop.start.copy(), np.zeros(machine.n_inputs), np.zeros(len(closed_loop.start))
    kernel, run = _loop(closed_loop), {"steps": launch.steps, "step_ns": launch.step_ns, "every": every}
    arguments = kernel.arguments("coast", **run, x=x, u=u, last=last, c=machine.c, rows=rows)
    stopped = kernel.AGAIN
    while stopped == kernel.AGAIN:
        stopped = kernel.coast(*arguments.values())
    if stopped < 0 or not _watched(closed_loop) or not np.isfinite(x).all():
        return stopped, None
    t, violated = fault_time(machine, launch.plant.integrator, launch.step_ns, stopped - 1, last, u)
    return stopped, Fault(violated.name, violated.text, t, PLANT) if violated else None


def _watched(closed_loop: ClosedLoop) -> bool:
    return closed_loop.launch.plant.safety.faults and bool(closed_loop.machine.description.faults)


def _loop(closed_loop: ClosedLoop) -> Any:
    """The kernel of `kernels/lib/coast.py` for a machine; raises CacheError."""
    machine, integrator, watched = closed_loop.machine, closed_loop.launch.plant.integrator, _watched(closed_loop)
    key = machine.kernel.__name__, integrator, watched
    if key not in _loops:
        sizes = {"n_x": machine.n_state + 1, "n_tau": machine.n_inputs, "n_constants": len(machine.c), "n_progress": 2}
        given = {"advance": (machine.steps(integrator).__name__, "advance")}
        given |= {"faults": (machine.kernel.__name__, "faults")} if watched else {}
        source = library_text("coast", {}, sizes | row_sizes(closed_loop) | {"watched": watched}, given, {"rows"})
        _loops[key] = cache.load(cache.key_of("coast", source), lambda: (source, b"{}"))[0]
    return _loops[key]
