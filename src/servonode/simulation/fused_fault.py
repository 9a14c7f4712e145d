"""The fault before which a compiled loop has stopped, as the nodes would name it."""

import numpy as np

from servonode.arrays import Array
from servonode.bus.topology import CONTROLLER, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.controllers.engine.layout import CROSSED, GOOD
from servonode.nodes.node import Fault


def fault_at(closed_loop: ClosedLoop, k: int, x: Array, goal_k: int, measured: Array, y: Array) -> Fault | None:
    """The fault at step k of a loop that stopped there, of its machine or law; None: the nodes must find it.

    x, measured: the machine's state there, and what the law saw of it. y: the goal of step goal_k, with the program's
    own states.
    """
    launch, machine, control = closed_loop.launch, closed_loop.machine, closed_loop.control
    if control is None or control.stated.predictor or not np.isfinite(x).all() or k % (launch.steps_per_period or 1):
        return None
    t, law = k * launch.step_ns / 1e9, control.law
    violated = machine.fault(t, x) if launch.plant.safety.faults else None
    if violated is not None:
        return Fault(violated.name, violated.text, t, PLANT)
    answer = law.evaluate(goal_k * launch.step_ns / 1e9, measured, y)
    if answer.status == GOOD:  # so its determinant has changed sign
        answer.status = CROSSED
    return Fault("law", law.explain(answer), t, CONTROLLER)
