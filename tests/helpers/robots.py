"""Robots' files of tests, and what MuJoCo says of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource, find_machine

INERTIAL = (
    '<inertial><origin xyz="0.1 0 0.02" rpy="0.3 0 0"/><mass value="2"/>'
    '<inertia ixx="0.03" iyy="0.04" izz="0.05" ixy="0.001" ixz="0" iyz="0.002"/></inertial>'
)
ODD = """<mujoco model="odd"><compiler angle="degree"/><option gravity="0.3 0 -9.7"/><worldbody>
<body name="trunk" pos="0 0 1"><freejoint name="root"/><geom size=".2 .1 .3" type="box"/>
 <body name="arm" pos=".1 .2 .3" euler="10 20 30">
  <joint name="h1" axis="0 1 1" pos=".1 0 .05" armature=".02" ref="20" range="-10 30" damping=".4"/>
  <joint name="h2" axis="1 0 1" pos="0 .1 0"/>
  <geom type="capsule" size=".05" fromto="0 0 0 .3 .1 0"/>
  <body name="fixed" pos=".3 .1 0" euler="0 50 0"><geom size=".04" mass=".3"/><site name="tool" pos="0 0 .1"/>
   <body name="head" pos="0 0 .2">
    <joint name="s" type="slide" axis="1 2 0" ref=".1" damping="2"/>
    <joint name="h3" axis="0 0 1" pos=".1 .1 0" stiffness="3" springref="5"/><geom size=".05"/>
    <body name="eye" pos=".2 0 0"><joint name="b" type="ball" pos="0 .05 0" damping=".01"/>
     <geom type="box" size=".03 .04 .05" pos=".1 0 0"/></body>
   </body></body></body></body></worldbody>
<actuator><motor name="m1" joint="h1" gear="3" armature=".01" damping=".02" ctrlrange="-1 2"/>
 <motor joint="s"/></actuator>
</mujoco>"""


def link(name: str, inertial: str = INERTIAL) -> str:
    """A link of a URDF."""
    return f'<link name="{name}">{inertial}</link>'


def joint(name: str, parent: str, child: str, kind: str = "revolute", more: str = "", axis: str = "0 0 1") -> str:
    """A joint of a URDF."""
    limit = '<limit lower="-1" upper="2" effort="5" velocity="3"/>'
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0.2 0.1 0" rpy="0 0.4 0"/><axis xyz="{axis}"/>{limit}{more}</joint>'
    )


def urdf(*parts: str) -> str:
    return f'<robot name="arm">{"".join(parts)}</robot>'


ARM = urdf(link("base"), link("upper"), link("fore"), joint("pan", "base", "upper"),
           joint("left-lift", "upper", "fore", axis="0 1 0"), '<link name="tool"/>',
           joint("flange", "fore", "tool", "fixed"))  # fmt: skip


def machine_of(file: Path, **settings: Any) -> Machine:
    """The compiled machine of a robot's file."""
    return MachineSource(find_machine(file.name, file.parent), settings).load({})


def mujoco_model(file: Path, compiled: Any = None) -> tuple[Any, Any]:
    """MuJoCo's model of a file, or one that is compiled, without contacts, limits and friction, and its data."""
    mujoco = pytest.importorskip("mujoco")
    model = compiled or mujoco.MjModel.from_xml_path(str(file))
    off = mujoco.mjtDisableBit
    for bit in (off.mjDSBL_CONTACT, off.mjDSBL_LIMIT, off.mjDSBL_FRICTIONLOSS, off.mjDSBL_CLAMPCTRL):
        model.opt.disableflags |= bit.value
    model.dof_frictionloss[:] = 0
    return model, mujoco.MjData(model)


def random_state(model: Any, rng: np.random.Generator) -> tuple[Array, Array]:
    """Random positions (nq,) and velocities (nv,) of a model of MuJoCo, quaternions of length one."""
    q = rng.uniform(-1, 1, model.nq)
    for kind, at in zip(model.jnt_type, model.jnt_qposadr, strict=True):
        if kind < 2:
            at += 3 * (kind == 0)
            q[at : at + 4] /= np.linalg.norm(q[at : at + 4])
    return q, rng.uniform(-1, 1, model.nv)


def accelerations(model: Any, data: Any, q: Array, v: Array, u: Array) -> Array:
    """MuJoCo's accelerations (nv,) at a state under commands of its motors, else of generalized forces."""
    import mujoco

    data.qpos[:], data.qvel[:] = q, v
    if model.nu:
        data.ctrl[:] = u
    else:
        data.qfrc_applied[:] = u
    mujoco.mj_forward(model, data)
    found: Array = data.qacc.copy()
    return found


# a robot whose bodies have shapes: a mesh, one that is absent, and others
SHAPES = """<mujoco><compiler angle="degree"/>
  <asset><mesh name="wedge" vertex="0 0 0 1 0 0 0 1 0 0 0 0.5" scale="0.1 0.2 0.3"/>
    <mesh name="absent" file="absent.stl"/> <material name="red" rgba="1 0 0 1"/></asset>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <geom type="box" size="0.1 0.2 0.3" pos="2 0 0"/>
    <body name="upper" pos="0 0 1">
      <joint name="a" axis="0 1 0"/>
      <inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
      <frame pos="0.1 0 0" euler="0 90 0"><geom type="mesh" mesh="wedge" euler="0 0 30" material="red"/></frame>
      <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0.3 0.2"/>
      <body name="fore" pos="0.3 0 0">
        <joint name="b" axis="0 1 0" pos="0.1 0 0"/>
        <inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
        <geom type="cylinder" size="0.05 0.1" euler="10 20 30" contype="0" conaffinity="0"/>
        <geom type="sphere" size="0.5"/>
        <geom type="mesh" mesh="absent"/>
      </body>
    </body>
  </worldbody>
  <sensor><jointpos joint="a"/></sensor>
</mujoco>"""
