"""Small robots in MJCF; their accelerations with hard constraints, by MuJoCo and by the machine made of the file."""

from pathlib import Path
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.wings.robots.joint_states import JointStates, joints_of

STEP = 1e-5
INERTIA = '<inertial pos="0.1 0 0.02" mass="1" diaginertia="0.01 0.02 0.02"/>'
CHILD = (
    '<mujoco model="child"><compiler angle="radian" eulerseq="ZYX" balanceinertia="true"/><worldbody><body name="link">'
    '<joint name="j" axis="0 1 0" range="-2 2"/><inertial pos="0.3 0 0" mass="2" diaginertia="0.01 0.02 0.06" '
    'euler="0.6 0.3 0.2"/></body></worldbody></mujoco>'
)


def mjcf(bodies: str, more: str = "", before: str = "") -> str:
    return f"<mujoco>{before}<worldbody>{bodies}</worldbody>{more}</mujoco>"


def body(name: str, joints: str, within: str = "", at: str = "0 0 1", inertia: str = INERTIA) -> str:
    return f'<body name="{name}" pos="{at}">{joints}{inertia}{within}</body>'


def hinge(name: str, more: str = "", axis: str = "0 1 0") -> str:
    return f'<joint name="{name}" axis="{axis}" {more}/>'


def motors(*texts: str) -> str:
    return f"<actuator>{''.join(f'<motor {text}/>' for text in texts)}</actuator>"


def written(folder: Path, text: str) -> Path:
    (folder / "child.xml").write_text(CHILD)
    file = folder / ("robot.urdf" if text.startswith("<robot") else "robot.xml")
    file.write_text(text)
    return file


def hard_accelerations(model: Any, data: Any, u: Array) -> Array:
    """MuJoCo's accelerations (nv,) at the state of data, its equalities as constraints that do not give way."""
    import mujoco

    def rows(q: Array) -> Array:
        other = mujoco.MjData(model)
        other.qpos[:] = q
        mujoco.mj_forward(model, other)
        return np.array(other.efc_J).reshape(-1, model.nv)

    data.ctrl[:] = u
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    moved = []
    for sign in (1, -1):
        q = data.qpos.copy()
        mujoco.mj_integratePos(model, q, data.qvel, sign * STEP)
        moved.append(rows(q))
    J = rows(data.qpos)
    K = np.block([[M, J.T], [J, np.zeros((len(J), len(J)))]])
    force = data.qfrc_passive + data.qfrc_actuator - data.qfrc_bias
    found = np.linalg.lstsq(K, np.concatenate([force, -(moved[0] - moved[1]) @ data.qvel / 2 / STEP]), rcond=1e-10)
    return np.array(found[0][: model.nv])


def own_accelerations(machine: Machine, states: JointStates, model: Any, data: Any, x: Array, u: Array) -> Array:
    """The machine's accelerations in MuJoCo's velocities, by differences along its motion; data is left at x."""
    names, rates = machine.description.state_names, machine.derivatives(0.0, x, u)
    speeds = []
    for shift in (STEP, -STEP, 0.0):
        moved = dict(zip(names, (x + shift * rates).tolist(), strict=False))
        states.place(joints_of(data, model), moved, machine.parameters)
        speeds.append(data.qvel.copy())
    return np.array(speeds[0] - speeds[1]) / 2 / STEP
