"""A robot's file as what the mujoco driver moves: its model, and which of its actuators an input drives."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from servonode.plants.drivers.driver import DriverContext, DriverError
from servonode.plants.servos import input_of
from servonode.wings.robots.joint_states import JointStates, joints_of
from servonode.wings.robots.physics import TILT, Settings, simulated
from servonode.wings.robots.robot import Robot, identifier
from servonode.wings.robots.sections import contact_of

CLEAR = 1e-3  # m; of a robot over the floor before it comes to rest
DEEPEST = 1e-6  # m; to which parts of a robot may overlap at the start and still touch


def robot_model(mujoco: ModuleType, robot: Robot, context: DriverContext) -> tuple[Any, JointStates, list[str]]:
    """The MuJoCo model of a robot with the machine's parameters, its joints, a line for what of the file is left out.

    Raises:
        DriverError: MuJoCo cannot build it.
    """
    stated, source, machine = contact_of(context.stated), context.source, context.machine
    assert source is not None
    base = source.settings.get("base", "planar" if source.settings.get("wheels") else "fixed")
    step, inputs = context.step_ns / 1e9 / stated.substeps, machine.description.input_names
    settings = Settings(base, step, stated.friction, stated.floor, stated.contact_time, inputs)
    joints = JointStates(robot, machine, tuple(name for name, *_ in TILT) if base == "planar" else ())
    try:
        spec, notes = simulated(mujoco, robot, machine.parameters, settings)
        model = spec.compile()
        if robot.file.suffix.lower() == ".urdf":  # which cannot say what may touch
            for one, other in sorted(set(_overlapping(mujoco, model, joints, context))):
                spec.add_exclude(bodyname1=one, bodyname2=other)
                notes.append(f"contact of {one} and {other}: left out, for they overlap at the start")
            model = spec.compile()
    except ValueError as error:
        text = " ".join(str(error).split())
        raise DriverError("plant", "machine", f"MuJoCo cannot simulate {robot.file.name}: {text}") from None
    if base == "planar":
        joints.begins["height"] = _height(mujoco, model)
    return model, joints, notes


def driven(model: Any, inputs: tuple[str, ...]) -> dict[int, str]:
    """The input of each actuator of a robot that the machine drives, by the actuator's number."""
    found = {i: input_of(identifier(model.actuator(i).name), inputs) for i in range(model.nactuator)}
    return {i: name for i, name in found.items() if name}


def _overlapping(
    mujoco: ModuleType, model: Any, joints: JointStates, context: DriverContext
) -> Iterator[tuple[str, str]]:
    """The pairs of a robot's bodies that overlap at the start."""
    data = mujoco.MjData(model)
    start = dict(zip(context.machine.description.state_names, context.start.tolist(), strict=False))
    joints.place(joints_of(data, model), start, context.machine.parameters)
    mujoco.mj_forward(model, data)
    for contact in data.contact:
        bodies = [model.geom_bodyid[each] for each in contact.geom]
        names = sorted(model.body(each).name for each in bodies)
        floors = [model.geom(each).name == "floor" for each in contact.geom]
        if contact.dist < -DEEPEST and not any(floors):
            yield names[0], names[1]


def _height(mujoco: ModuleType, model: Any) -> float:
    """How high a robot's base stands so that nothing of it is below the floor."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    lowest = []
    for i in range(model.ngeom):
        if model.geom_bodyid[i] and (model.geom_contype[i] or model.geom_conaffinity[i]):
            up, box = data.geom_xmat[i].reshape(3, 3)[2], model.geom_aabb[i]
            lowest.append(float(data.geom_xpos[i][2] + up @ box[:3] - np.abs(up) @ box[3:]))
    return CLEAR - min(lowest, default=0.0)
