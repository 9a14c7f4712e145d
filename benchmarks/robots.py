"""How closely the tools of makers' robots follow a goal, beside what their equations cost and how right they are.

    python benchmarks/robots.py              the table
    python benchmarks/robots.py --json       the same numbers for machines

The columns up to the errors are those of `benchmarks/derivation.py`, where humanoids and the quadruped have a free
base. The goal: a tool draws an eight that grows from a point, and keeps its orientation. Joints that the goal leaves
free are held by a posture; where feet stay on the ground, the torques are those of least norm. Humanoids stand fixed.
Each goal is followed three times: by the continuous law, by a law of 500 Hz, and by this law with MuJoCo as the plant,
which moves the same file, contacts included. Residuals are the largest of the whole run, of position and orientation; a
run that ends by a fault is an error. Losses at joints are zero, as they are for the errors: without its hand, Tiago's
last joint has 4e-6 kg m^2 and a friction of 1 N m, which no law at 500 Hz can compensate.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import derivation
import numpy as np
from common import options, peak_mb

sys.path.append(str(Path(__file__).parents[1]))  # for robots, which the tests state
from tests.helpers import makers_robots as makers

DURATION, STEP, PERIOD, LIMIT = 4.0, 0.001, 0.002, 1800.0  # s
SIZE = "0.05*(1 - exp(-t**2))"  # m
POSTURE: dict[str, Any] = {"posture": {"rate": 3.0}}
LEGS = ("FL", "FR", "HL", "HR")


@dataclass(frozen=True)
class Goal:
    """Which frame of a robot moves, from which state; more of [plant.robot] and [controller]. height: of its base."""

    tool: str
    joints: Mapping[str, float]
    robot: Mapping[str, Any] = field(default_factory=dict)
    controller: Mapping[str, Any] = field(default_factory=lambda: POSTURE)
    height: float = 0.0  # m


GOALS = {
    "ur5": Goal(
        "tool0",
        {"shoulder_lift_joint": -1.2, "elbow_joint": 1.5, "wrist_1_joint": -1.8, "wrist_2_joint": -1.5},
        controller={},
    ),
    "panda": Goal(
        "panda_hand_tcp",
        {"panda_joint2": -0.4, "panda_joint4": -2.0, "panda_joint6": 1.8, "panda_joint7": 0.8,
         "panda_finger_joint1": 0.02, "panda_finger_joint2": 0.02},
        controller=POSTURE | {"residuals": {"fingers": "panda_finger_joint1 - 0.02"}},
    ),
    "solo12": Goal(
        "base_link",
        {f"{leg}_{joint}": bend * (1 if leg[0] == "F" else -1)
         for leg in LEGS for joint, bend in (("HFE", 0.8), ("KFE", -1.6))},
        robot={"base": "free", "feet": [f"{leg}_FOOT" for leg in LEGS], "friction": 0.8},
        controller={"weights": {f"{leg}_{joint}_torque": 1.0 for leg in LEGS for joint in ("HAA", "HFE", "KFE")}},
        height=0.239,
    ),
    "tiago": Goal(
        "arm_7_link",
        {"torso_lift_joint": 0.15, "arm_1_joint": 1.0, "arm_2_joint": 0.3, "arm_3_joint": -1.5, "arm_4_joint": 1.5,
         "arm_5_joint": 0.3, "arm_6_joint": 0.5},
        robot={"wheels": {"left": "wheel_left_joint", "right": "wheel_right_joint"}},
    ),
    "talos": Goal(
        "gripper_left_base_link",
        {"arm_left_1_joint": 0.3, "arm_left_2_joint": 0.5, "arm_left_4_joint": -1.2, "arm_right_2_joint": -0.3,
         "leg_left_4_joint": 0.3, "leg_right_4_joint": 0.3},
    ),
    "g1": Goal("left_rubber_hand", {"left_shoulder_roll_joint": 0.3, "left_elbow_joint": 0.6}),
}  # fmt: skip


@dataclass(frozen=True)
class Followed:
    """What a goal's law costs [s of processor time, MB], and the largest residuals [m, rad] of each kind of run."""

    law_s: float  # machine and law, derived and compiled
    continuous: tuple[float, float]
    sampled: tuple[float, float]
    mujoco: tuple[float, float]
    memory_mb: float


def goal_case(name: str) -> Followed:
    """Follow the goal of one robot in this process."""
    import servonode

    begin = process_time()
    loop = servonode.load(launch(name))
    spent = process_time() - begin
    found = [largest(name, loop.simulate("continuous")), largest(name, loop.simulate())]
    found.append(largest(name, servonode.load(launch(name), plant__driver="mujoco").simulate()))
    return Followed(spent, *found, peak_mb())


def launch(name: str) -> dict[str, Any]:
    """The launch file of a robot's goal."""
    goal = GOALS[name]
    (x, y, z), orientation = pose(name)
    eight = [f"{x} + {SIZE}*sin(t)", f"{y} + {SIZE}*(cos(t) - 1)", f"{z} + {SIZE}*sin(2*t)/2"]
    initial = dict(goal.joints) | ({"z": goal.height} if goal.height else {})
    plant = {"machine": str(makers.file_of(name)), "step": STEP, "initial": initial, "parameters": lossless(name)}
    controller = {
        "period": PERIOD,
        "gains": {"lambda": 8.0},
        "goal": {goal.tool: {"position": eight, "orientation": orientation}},
        **goal.controller,
    }
    plant |= {"robot": dict(goal.robot)} if goal.robot else {}
    return {"run": {"duration": DURATION}, "plant": plant, "controller": controller}


def lossless(name: str) -> dict[str, float]:
    """The losses that a robot's file states, all of them zero."""
    from servonode.wings.robots.read import read
    from servonode.wings.robots.robot import identifier

    joints = list(read(makers.file_of(name)).joints)
    names = [f"{identifier(each.name)}_damping" for each in joints if each.damping]
    return dict.fromkeys([*names, *(f"{identifier(each.name)}_friction" for each in joints if each.friction)], 0.0)


def pose(name: str) -> tuple[list[float], list[float]]:
    """Where MuJoCo sees the tool of a robot that stands at its place: position (3,) and quaternion (w, x, y, z)."""
    import mujoco

    model = makers.compiled(name)
    data = mujoco.MjData(model)
    if makers.ROBOTS[name].base == "free":
        data.qpos[:7] = [0, 0, GOALS[name].height, 1, 0, 0, 0]
    for joint, value in GOALS[name].joints.items():
        data.joint(joint).qpos[0] = value
    mujoco.mj_kinematics(model, data)
    tool = data.body(GOALS[name].tool)
    return tool.xpos.tolist(), tool.xquat.tolist()


def largest(name: str, run: Any) -> tuple[float, float]:
    """The largest residual of place [m] and of turn [rad]."""
    if run.fault is not None:
        raise SystemExit(f"{name}: ended at t = {run.fault['t']} s: {run.fault['text']}")
    found = {
        axis: np.abs(run.residual[f"{GOALS[name].tool}_{axis}"]).max() for axis in ("x", "y", "z", "rx", "ry", "rz")
    }
    return float(max(found[axis] for axis in "xyz")), float(max(found[f"r{axis}"] for axis in "xyz"))


def measured(name: str) -> Followed | None:
    """The goal of one robot in a fresh process with an empty cache; None at the limit."""
    found = derivation.measured(name, __file__, LIMIT)
    return found and Followed(**found)


def rows() -> dict[str, tuple[derivation.RobotRow | None, Followed | None]]:
    """Costs and errors of each robot's equations, and of its goal; None at the limits of time."""
    found = {}
    for name in GOALS:
        cost = derivation.measured(name)
        found[name] = cost and derivation.RobotRow(**cost), measured(name)
    return found


def table() -> str:
    """Markdown table of robots and their goals."""
    columns = "law | continuous | sampled | MuJoCo"
    lines = [f"| {derivation.COLUMNS} | {columns} |", "|---" * 13 + "|"]
    for name, (cost, followed) in rows().items():
        cells = derivation.cells(name, cost)
        if followed is None:
            cells += [f"more than {LIMIT:.0f} s in all", "", "", ""]
        else:
            pairs = (followed.continuous, followed.sampled, followed.mujoco)
            cells += [f"{followed.law_s:.1f} s", *(f"{m:.0e} m, {rad:.0e} rad" for m, rad in pairs)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--case", metavar="ROBOT", choices=GOALS, help="follow one goal in this process, as JSON")
    arguments = parser.parse_args()
    if not makers.available():
        print(json.dumps({}) if arguments.json or arguments.case else derivation.MISSING)
    elif arguments.case:
        print(json.dumps(asdict(goal_case(arguments.case))))
    elif arguments.json:
        pairs = {name: [each and asdict(each) for each in both] for name, both in rows().items()}
        print(json.dumps(pairs, indent=1))
    else:
        print(table())


if __name__ == "__main__":
    main()
