"""The mass matrix of a robot in numbers, to refuse a singular one before anything is derived."""

import numpy as np
from scipy.spatial.transform import Rotation

from servonode.arrays import Array
from servonode.robots.file_text import RobotError
from servonode.robots.robot import Joint, Robot

POSES = 3  # random ones
SINGULAR = 1e-9  # smallest eigenvalue, each velocity scaled to a unit inertia of its own


def check_mass_matrix(robot: Robot) -> None:
    """Refuse a robot some of whose joints move no inertia.

    Raises:
        RobotError: the mass matrix is singular; the text names the joints.
    """
    rng = np.random.default_rng(0)
    names = [each.name for each in robot.joints for _ in range({"ball": 3, "free": 6}.get(each.kind, 1))]
    found = [mass_matrix(robot, rng) for _ in range(POSES)]
    massless = [name for name, *own in zip(names, *map(np.diag, found), strict=True) if not max(own) > 0]
    if massless:
        text = f'joint "{massless[0]}" moves no inertia; give its body an <inertial>, or the joint an armature'
        raise RobotError(f"{robot.file.name}: {text}")
    for M in found:
        scale = np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
        values, vectors = np.linalg.eigh(M / np.outer(scale, scale))
        if values[0] < SINGULAR:
            moved = dict.fromkeys(name for name, part in zip(names, vectors[:, 0], strict=True) if abs(part) > 0.1)
            text = f"the mass matrix is singular: the joints {', '.join(moved)} can move together without any inertia"
            raise RobotError(f"{robot.file.name}: {text}; give the bodies between them an <inertial>")


def mass_matrix(robot: Robot, rng: np.random.Generator) -> Array:
    """The mass matrix (n, n) at a random pose, in the velocities of the joints.

    It is the sum of J^T N J over the bodies, J their motions by the joints' velocities.
    """
    n = sum({"ball": 3, "free": 6}.get(each.kind, 1) for each in robot.joints)
    poses = {"": (np.zeros(3), np.eye(3), np.zeros((6, n)))}  # position, rotation, J (turn, shift of the origin)
    M, at = np.zeros((n, n)), 0
    for body in robot.bodies:
        origin, R, J = poses[body.parent]
        position = origin + R @ body.position
        R, J = R @ body.rotation, J.copy()
        J[3:] += np.cross(J[:3].T, position - origin).T
        for joint in body.joints:
            at, position, R = _move(joint, at, position, R, J, M, rng)
        poses[body.name] = position, R, J
        arm = R @ body.centre
        shift = J[3:] + np.cross(J[:3].T, arm).T
        M += body.mass * shift.T @ shift + J[:3].T @ (R @ body.inertia @ R.T) @ J[:3]
    return M


def _move(
    joint: Joint, at: int, position: Array, R: Array, J: Array, M: Array, rng: np.random.Generator
) -> tuple[int, Array, Array]:
    """Move a joint at random and write its columns of J; the next column, position and rotation."""
    if joint.kind in ("hinge", "slide"):
        axis, value = R @ joint.axis, rng.uniform(-1, 1)
        turns = joint.kind == "hinge"
        step = np.zeros(3) if turns else value * axis
        J[3:] += np.cross(J[:3].T, step).T
        J[0 if turns else 3 : 3 if turns else 6, at] = axis
        M[at, at] += joint.armature
        turned = R @ Rotation.from_rotvec(value * joint.axis).as_matrix() if turns else R
        return at + 1, position + step, turned
    size = 3
    if joint.kind == "free":
        J[3:, at : at + 3] = np.eye(3)
        at, size = at + 3, 6
    turned = R @ Rotation.from_quat(rng.normal(size=4)).as_matrix()
    J[:3, at : at + 3] = turned
    M[range(at - size + 3, at + 3), range(at - size + 3, at + 3)] += joint.armature
    return at + 3, position, turned
