"""What one solve of Pink costs on the arms of keeping.py, which runs this in a Python that has pin-pink.

    python pink_arm.py six.urdf seven.urdf    JSON: rows of keeping.py, for each arm and each solver that is installed

Pink takes speeds from kinematics alone, without the dynamics of the arm: one task of the tool, a posture with a small
weight, and as many barriers of relative degree 1; with limits of joints and of speeds the seven joints have 40 rows.
"build" is Pink's own part, the rows and costs at a state, "solve" is the solver's, called as Pink calls it.
"""

import json
import sys
from time import perf_counter
from typing import Any

import numpy as np
import pinocchio as pin
import qpsolvers
from pink import Configuration, build_ik
from pink.barriers import BodySphericalBarrier, PositionBarrier
from pink.tasks import FrameTask, PostureTask

STATES, REPEATS, PERIOD = 100, 5, 0.01  # states that are timed, how often; s: between two of all
SOLVERS = ("daqp", "quadprog", "proxqp", "osqp")
BALLS = {"ball": (0.6, 0.2, 0.33), "left": (0.6, 0.6, 0.2), "right": (0.6, -0.5, 0.2)}
START = {"shoulder": 0.67, "elbow": 1.3, "bend": 0.648}


def model_of(file: str) -> Any:
    model = pin.buildModelFromUrdf(file)
    for name, place in BALLS.items():
        model.addFrame(pin.Frame(name, 0, 0, pin.SE3(np.eye(3), np.array(place)), pin.FrameType.OP_FRAME))
    return model


def barriers_of(joints: int) -> list[Any]:
    """Four rows, or twelve."""
    if joints == 6:
        sides = PositionBarrier("tool", [0, 2], np.array([0.2, 0.15]), gain=10.0)
        far = PositionBarrier("tool", [0], None, np.array([0.85]), gain=10.0)
        return [sides, far, BodySphericalBarrier(("tool", "ball"), 0.1, 10.0)]
    box = PositionBarrier("tool", None, np.array([0.2, -0.9, 0.05]), np.array([0.85, 0.9, 1.2]), gain=10.0)
    fist = PositionBarrier("hand", [2], np.array([0.05]), gain=10.0)
    pairs = [("tool", "ball"), *((link, side) for link in ("tool", "hand") for side in ("left", "right"))]
    return [box, fist, *(BodySphericalBarrier(pair, 0.1, 10.0) for pair in pairs)]


def best(run: Any, repeats: int) -> tuple[Any, float]:
    """What it gives, and its least time [us]."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        found = run()
        times.append(perf_counter() - start)
    return found, min(times) * 1e6


def measured(file: str, solver: str) -> dict[str, Any]:
    model = model_of(file)
    data, q = model.createData(), pin.neutral(model)
    for name, value in START.items():
        q[model.joints[model.getJointId(name)].idx_q] = value
    task, posture = FrameTask("tool", position_cost=1.0, orientation_cost=0.1), PostureTask(cost=1e-3)
    configuration, barriers, times, rows = Configuration(model, data, q), barriers_of(model.nq), [], 0
    posture.set_target(q)
    target = configuration.get_transform_frame_to_world("tool").copy()
    for i, t in enumerate(np.arange(0.0, 8.0, PERIOD)):
        target.translation = np.array([0.65 - 0.2 * np.sin(t / 2) ** 2, 0.3 * np.sin(2 * t), 0.344])
        task.set_target(target)
        repeats = 1 if i % (800 // STATES) else REPEATS
        problem, build = best(lambda: build_ik(configuration, [task, posture], PERIOD, barriers=barriers), repeats)
        found, solve = best(lambda p=problem: qpsolvers.solve_problem(p, solver=solver), repeats)
        if repeats > 1:
            times.append((build, solve))
        rows = len(problem.h)
        if found.x is not None:
            configuration.integrate_inplace(found.x / PERIOD, PERIOD)
    p50, p99 = np.percentile(np.array(times), (50, 99), axis=0)
    return {"joints": model.nq, "rows": rows, "solver": solver, "states": len(times),
            "build50": p50[0], "build99": p99[0], "solve50": p50[1], "solve99": p99[1]}  # fmt: skip


def main() -> None:
    installed = [each for each in SOLVERS if each in qpsolvers.available_solvers]
    print(json.dumps([measured(file, solver) for file in sys.argv[1:] for solver in installed]))


if __name__ == "__main__":
    main()
