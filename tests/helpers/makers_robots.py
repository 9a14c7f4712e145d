"""Robots as their makers describe them, from the package example-robot-data, and what Pinocchio and MuJoCo say of them.

All compare in the machine's own motions: the velocity of a free base in the ground's axes, its spin in its own. Losses
at joints are left out, which both leave to others.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from servonode.arrays import Array
from servonode.kernels.build import built
from servonode.kernels.native import Kernel
from servonode.mechanics.emit import HEADER, Block
from servonode.mechanics.equations import Equations
from servonode.mechanics.model import Model

PANDA, FINGERS = "panda_description/urdf/panda.urdf", ("panda_finger_joint1", "panda_finger_joint2")


class Source(NamedTuple):
    """Where a robot's file stands among the package's, how its base moves, and joints that are kept at zero."""

    file: str
    base: str = "fixed"
    kept: tuple[str, ...] = ()


ROBOTS = {
    "ur5": Source("ur_description/urdf/ur5_robot.urdf"),
    "panda_arm": Source(PANDA, kept=FINGERS),
    "panda": Source(PANDA),
    "tiago": Source("tiago_description/robots/tiago_no_hand.urdf"),
    "solo12": Source("solo_description/robots/solo12.urdf", "free"),
    "talos": Source("talos_data/robots/talos_reduced.urdf", "free"),
    "g1": Source("g1_description/urdf/g1_29dof_rev_1_0.urdf", "free"),
}
LINKS = {f"{n} links": Source("") for n in (10, 20, 40, 80)}  # chains, written here; not of the package
SOURCES = ROBOTS | LINKS


class Terms(NamedTuple):
    """M (n, n) and h (n,) at a state in the machine's motions, and the accelerations (n,) under forces."""

    M: Array
    h: Array
    a: Array


class State(NamedTuple):
    """A random state: position (3,) and quaternion (w, x, y, z) of a free base, then joints; velocities; forces."""

    base: Array
    joints: Array
    v: Array
    forces: Array


def available() -> bool:
    """Whether Pinocchio, MuJoCo and the robots are installed."""
    try:
        metadata.distribution("example-robot-data")
    except metadata.PackageNotFoundError:
        return False
    return all(find_spec(each) for each in ("pinocchio", "mujoco"))


def file_of(robot: str) -> Path:
    """The file of a robot."""
    if robot in LINKS:
        file = Path(tempfile.gettempdir()) / f"{robot.replace(' ', '_')}.urdf"
        file.write_text(links(int(robot.split()[0])), "utf-8")
        return file
    folder = metadata.distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")
    return Path(str(folder)) / SOURCES[robot].file


def links(n: int) -> str:
    """The URDF of a chain of links, whose joints turn about x, y and z in turn."""
    inertial = (
        '<inertial><origin xyz="0.01 0.02 0.05" rpy="0.1 0.2 0.3"/><mass value="0.5"/>'
        '<inertia ixx="0.002" ixy="0" ixz="0" iyy="0.0025" iyz="0" izz="0.001"/></inertial>'
    )
    parts = [f'<link name="l{i}">{inertial}</link>' for i in range(n + 1)]
    for i in range(n):
        axis = ("1 0 0", "0 1 0", "0 0 1")[i % 3]
        parts.append(
            f'<joint name="j{i}" type="revolute"><parent link="l{i}"/><child link="l{i + 1}"/><axis xyz="{axis}"/>'
            '<origin xyz="0 0.01 0.1" rpy="0 0.1 0"/><limit lower="-3" upper="3" effort="9" velocity="9"/></joint>'
        )
    return f'<robot name="links">{"".join(parts)}</robot>'


def model_of(robot: str) -> Model:
    """The machine of a robot, without losses at its joints."""
    from servonode.wings.robots.model import model
    from servonode.wings.robots.read import read

    found = read(file_of(robot), base=SOURCES[robot].base, casters=SOURCES[robot].kept)
    bodies = [
        replace(body, joints=tuple(replace(each, damping=0.0, friction=0.0) for each in body.joints))
        for body in found.bodies
    ]
    return model(replace(found, bodies=tuple(bodies), loops=()))


def joints_of(model: Model) -> list[str]:
    """The joints beside the free base, in the machine's order."""
    return [
        each.name for each in model.coordinates if not each.name.startswith("q_") and each.name not in ("x", "y", "z")
    ]


def random_state(model: Model, rng: np.random.Generator) -> State:
    """A random state of a machine, and a force for each of its motions that has an input."""
    n, free = len(joints_of(model)), len(model.coordinates) != len(model.velocities)
    turn = rng.normal(size=4)
    base = np.concatenate([rng.normal(size=3), turn / np.linalg.norm(turn)]) if free else np.zeros(0)
    forces = np.concatenate([np.zeros(6 * free), rng.normal(size=n)])
    return State(base, rng.uniform(-3, 3, n), rng.normal(size=n + 6 * free), forces)


class Own:
    """M and h as the equations have them, compiled by themselves."""

    def __init__(self, equations: Equations) -> None:
        self.model = model = equations.model
        n, block = len(model.velocities), Block(None)
        block.load("p", model.parameters)
        block.load("q", model.coordinates)
        block.load("v", model.velocities)
        texts = block.evaluate([*equations.M_r, *equations.h_r])
        block.store_rows("M", texts[: n * n], n)
        block.store("h", texts[n * n :])
        sizes = (len(model.parameters), len(model.coordinates), n, n, n, n)
        first = "def terms(p: f64[{}], q: f64[{}], v: f64[{}], M: f64[{}, {}], h: f64[{}]):\n".format(*sizes)
        text = HEADER + (model.tree.data.text if model.tree and model.tree.data else "")
        text += "\n\n" + first + "\n".join(block.lines) + "\n"
        self._kernel: Any = Kernel("terms", text, *built(text, lambda _: ""))
        self._p = np.array([each.quantity.default for each in model.parameters], float)

    def terms(self, state: State) -> Terms:
        n = len(state.v)
        M, h = np.zeros((n, n)), np.zeros(n)
        self._kernel.terms(self._p, np.concatenate([state.base, state.joints]), state.v, M, h)
        return Terms(M, h, np.linalg.solve(M, state.forces - h))


class Pinocchio:
    """The same by Pinocchio: composite rigid bodies, Newton-Euler, articulated bodies."""

    def __init__(self, robot: str, names: Sequence[str]) -> None:
        import pinocchio as pin

        root = [pin.JointModelFreeFlyer()] if SOURCES[robot].base == "free" else []
        model = pin.buildModelFromUrdf(str(file_of(robot)), *root)
        kept = [model.getJointId(each) for each in SOURCES[robot].kept]
        self.pin, self.model = pin, pin.buildReducedModel(model, kept, pin.neutral(model)) if kept else model
        self.data = self.model.createData()
        ids = {_identifier(name): i for i, name in enumerate(self.model.names)}
        joints = [self.model.joints[ids[name]] for name in names]
        self._at_q, self._wraps = [each.idx_q for each in joints], [each.nq == 2 for each in joints]
        self._order = [*range(6 * len(root)), *(each.idx_v for each in joints)]

    def arguments(self, state: State) -> tuple[Array, Array, Array]:
        """Configuration, velocity and forces as Pinocchio has them."""
        q, v, forces = np.zeros(self.model.nq), np.zeros(self.model.nv), np.zeros(self.model.nv)
        if len(state.base):
            q[:7] = [*state.base[:3], *state.base[4:], state.base[3]]
        for at, wraps, angle in zip(self._at_q, self._wraps, state.joints, strict=True):
            q[at : at + 1 + wraps] = [np.cos(angle), np.sin(angle)] if wraps else [angle]
        T = self._to_base(state)
        v[self._order], forces[self._order] = T @ state.v, np.linalg.solve(T.T, state.forces)
        return q, v, forces

    def terms(self, state: State) -> Terms:
        q, v, forces = self.arguments(state)
        pin, order, T = self.pin, self._order, self._to_base(state)
        M = np.triu(pin.crba(self.model, self.data, q))
        M = (M + np.triu(M, 1).T)[np.ix_(order, order)]
        h = pin.nonLinearEffects(self.model, self.data, q, v)[order]
        a = pin.aba(self.model, self.data, q, v, forces)[order]
        drift = np.zeros(len(v))  # T' v: of the base's velocity, whose axes turn
        if len(state.base):
            drift[:3] = -np.cross(state.v[3:6], T[:3, :3] @ state.v[:3])
        return Terms(T.T @ M @ T, T.T @ (h + M @ drift), np.linalg.solve(T, a - drift))

    def _to_base(self, state: State) -> Array:
        """T: from the machine's motions to those of Pinocchio, which has a base's velocity in its own axes."""
        T = np.eye(len(state.v))
        if len(state.base):
            T[:3, :3] = self.pin.Quaternion(*state.base[3:]).toRotationMatrix().T
        return T


class Mujoco:
    """The same by MuJoCo."""

    def __init__(self, robot: str, names: Sequence[str]) -> None:
        import mujoco

        self.mujoco, self.model = mujoco, compiled(robot)
        self.data = mujoco.MjData(self.model)
        ids = {_identifier(self.model.joint(i).name): i for i in range(self.model.njnt)}
        joints = [ids[name] for name in names]
        free = SOURCES[robot].base == "free"
        self._at_q = [*range(7 * free), *self.model.jnt_qposadr[joints]]
        self._order = [*range(6 * free), *self.model.jnt_dofadr[joints]]

    def terms(self, state: State) -> Terms:
        data, order = self.data, self._order
        data.qpos[self._at_q], data.qvel[order] = np.concatenate([state.base, state.joints]), state.v
        self.mujoco.mj_forward(self.model, data)
        M = np.zeros((self.model.nv, self.model.nv))
        self.mujoco.mj_fullM(self.model, data, M)
        M, h = M[np.ix_(order, order)], data.qfrc_bias[order].copy()
        return Terms(M, h, np.linalg.solve(M, state.forces - h))


def compiled(robot: str) -> Any:
    """MuJoCo's model of a robot's file, without shapes, all of its links as bodies."""
    import mujoco

    from servonode.wings.robots.unsupported import SHAPES, remove

    spec, source = mujoco.MjSpec.from_file(str(file_of(robot))), SOURCES[robot]
    kept = set(source.kept)
    remove(spec, SHAPES)
    spec.compiler.fusestatic = False
    if source.base == "free":
        spec.worldbody.bodies[0].add_freejoint()
    for each in [each for each in (*spec.equalities, *spec.joints) if {each.name, getattr(each, "name1", "")} & kept]:
        spec.delete(each)
    still = {"world"}
    for body in spec.bodies[1:]:  # what stands needs no inertia, and Tiago's antennas have one that MuJoCo refuses
        if body.parent.name in still and not body.joints:
            still.add(body.name)
            body.mass, body.inertia, body.fullinertia = 1.0, np.ones(3), [np.nan, 0, 0, 0, 0, 0]
    return spec.compile()


def errors(found: Terms, expected: Terms) -> Array:
    """The largest difference of M, h and accelerations (3,), each relative to the largest entry."""
    pairs = zip(found, expected, strict=True)
    return np.array([np.abs(own - other).max() / np.abs(other).max() for own, other in pairs])


def _identifier(name: str) -> str:
    from servonode.wings.robots.model import identifier

    return identifier(name)
