"""The verdict on a robot's equations: MuJoCo's accelerations of its file, as MuJoCo compiles the file by itself.

Both get the same random states and inputs. Contacts, limits and clamps are off; dry friction has the smooth step of the
machine; loops are held by hard equations on MuJoCo's own mass matrix, forces and Jacobians. MuJoCo's model is not that
of `read`: what `ignore` names, casters' joints, meshes that are not there, and what is only seen are all that is
removed from it.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.linalg import null_space

from servonode.arrays import Array
from servonode.mechanics.equilibrium import closed
from servonode.mechanics.machine import Machine
from servonode.plants.servos import input_of
from servonode.wings.robots.fields import unread
from servonode.wings.robots.file_text import RobotError
from servonode.wings.robots.joint_states import JointStates, joints_of, named, to_spin, to_spin_rate
from servonode.wings.robots.mesh_files import find_meshes
from servonode.wings.robots.model import SMOOTH
from servonode.wings.robots.mujoco_robot import driven
from servonode.wings.robots.numbers import FREE, NO_GRAVITY, SLIDE
from servonode.wings.robots.read import check_mass_matrix, fix_casters, fix_rollers, import_mujoco, in_one_line, opened
from servonode.wings.robots.robot import Robot, identifier
from servonode.wings.robots.unsupported import leave_out, remove

STATES, POSES = 20, 2
MOST = 1e-9  # of what an acceleration usually is, by which the machine may miss MuJoCo's
LITTLE = 1e-12  # of the largest acceleration at a state, by which any may
LEAST = 1e-3  # rad/s^2, m/s^2; what an acceleration usually is, where it is less
ROUNDING, SPREAD = 1e-15, 100.0  # of positions; as many times as MuJoCo's accelerations change with it is no miss
APART = 1e-8  # m, rad, m/s, rad/s; by which a closed loop may be open
RANK = 1e-9  # of rows, by their singular values
SMALL = 1e-6  # of forces that miss, where the largest is 1
NEAR = (0.6, 0.2, 0.05)  # rad, m; how far states are from the start, less where loops do not close
PUSH = 10.0  # rad/s^2, m/s^2; the largest acceleration by an input
STEP = 0.01  # s, of the differences along a motion whose fastest velocity is 1
EIGHTH = (4 / 5, -1 / 5, 4 / 105, -1 / 280)  # of central differences
ENDLESS = 1e8  # N, N m; more than any range, and less than MuJoCo takes for an error
Stated = tuple[str, float | None, float | None]  # what it is, the number of the machine and of the file; None: no limit
SEEN = ("keys", "sensors", "skins", "materials", "textures")  # moves nothing, and may need files or what is removed


def alone(mujoco: ModuleType, robot: Robot, settings: Mapping[str, Any]) -> Any:
    """MuJoCo's model of a robot's file, compiled by itself; a URDF gets a motor at each joint.

    settings: arguments of `read`.

    Raises:
        RobotError, ValueError: MuJoCo does not compile it.
    """
    mujoco.set_mju_user_warning(lambda _: None)
    text, spec = opened(mujoco, robot.file, settings.get("base", "fixed"))
    if ignore := settings.get("ignore", ()):
        leave_out(mujoco, spec, robot.file.name, ignore)
        if "fluid" in ignore:
            spec.option.density = spec.option.viscosity = 0.0
        for each in spec.bodies if "gravcomp" in ignore else ():
            each.gravcomp = 0.0
    fix_casters(mujoco, spec, settings.get("casters", ()), robot.file.name)
    fix_rollers(mujoco, spec, settings.get("rolling", ()))
    rules, compiler = mujoco.mjtInertiaFromGeom, spec.compiler
    if text.format == "urdf" and compiler.inertiafromgeom == rules.mjINERTIAFROMGEOM_AUTO:  # only <inertial> counts
        compiler.inertiafromgeom = rules.mjINERTIAFROMGEOM_FALSE
    find_meshes(spec, robot.file)
    remove(spec, SEEN)
    for motor in robot.actuators if text.format == "urdf" else ():
        spec.add_actuator(name=motor.name, target=motor.target, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    with warnings.catch_warnings(action="ignore"):  # of what `read` has said
        return spec.compile()


def looked_over(robot: Robot, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Lines for what of a robot's file is not read and moves nothing. settings: arguments of `read`.

    Raises:
        RobotError: something that moves it is not read.
    """
    mujoco = import_mujoco()
    try:
        model = alone(mujoco, robot, settings)
        lines = unread(mujoco, model, settings.get("ignore", ()))
    except RobotError as error:
        raise RobotError(f"{robot.file.name}: {error}") from None
    except ValueError as error:
        return (f"not compared with MuJoCo, which does not compile the file by itself: {in_one_line(str(error))}",)
    if reason := _immovable(robot):
        lines.append(f"not compared with MuJoCo, for without what holds it: {reason}")
    return tuple(lines)


def judged(robot: Robot, machine: Callable[[], Machine], settings: Mapping[str, Any]) -> str:
    """Why a machine is not that of the robot's file, in one line; empty: it is, or `looked_over` says that they cannot
    be compared.
    """
    mujoco = import_mujoco()
    try:
        model = alone(mujoco, robot, settings)
    except ValueError:
        return ""
    return "" if _immovable(robot) else _Judge(mujoco, robot, machine(), model).verdict()


def _immovable(robot: Robot) -> str:
    """Why a robot has no equations without what holds it beside loops; empty: it has."""
    try:
        if not robot.loops:
            check_mass_matrix(robot)
    except RobotError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class _Compared:
    """Accelerations of both at a state under inputs, in the machine's velocities; T, J: see `_Judge`."""

    x: Array
    u: Array
    own: Array
    expected: Array
    T: Array
    J: Array

    @property
    def missed(self) -> Array:
        return np.abs(self.own - self.expected)


class _Judge:
    """A machine and MuJoCo's model of its file, at the same states.

    The machine's velocities move by T a + rest where MuJoCo's move by a; its loops keep J v zero.
    """

    def __init__(self, mujoco: ModuleType, robot: Robot, machine: Machine, model: Any) -> None:
        self.mujoco, self.robot, self.machine = mujoco, robot, machine
        described = machine.description
        self.names, self.model, self.clamped = described.state_names, *_without_limits(mujoco, model)
        self.servos = {model.actuator(each.name).id: each.servo for each in robot.actuators if each.servo}
        self.clamped.actuator_ctrllimited[list(self.servos)] = 0  # whose input is their force
        self.data, self.other = mujoco.MjData(self.model), mujoco.MjData(self.model)
        self.joints, self.states = joints_of(self.data, self.model), JointStates(robot, machine)
        self.named = named(robot, described.coordinates)
        self.velocities = [self.names.index(each) for each in described.velocities]
        turning = [each.coordinates for each in self.named if len(each.coordinates) > len(each.motions)]
        self.quaternions = [[self.names.index(name) for name in each[-4:]] for each in turning]
        self.rng = np.random.default_rng(0)
        self.drives = {name: int(model.actuator_ctrladr[i]) for i, name in driven(model, described.input_names).items()}
        kinds = ((model.jnt_type[i], k - model.jnt_dofadr[i]) for k, i in enumerate(model.dof_jntid))
        slides = [kind == SLIDE or (kind == FREE and at < 3) for kind, at in kinds]
        self.smooth = np.where(slides, SMOOTH["slide"], SMOOTH["hinge"])

    def verdict(self) -> str:
        if text := self._named_alike():
            return text
        states, found = list(self._states_of()), list[_Compared]()
        if not states:
            return "no state near its start can be reached, so nothing says whether its equations are right"
        pushes = self._pushes(states)
        for x in states:
            u = pushes * self.rng.uniform(-1, 1, self.machine.n_inputs)
            a, J = self._accelerations(x, u)
            if text := self._held(J):
                return text
            T, rest = self._motions()
            own = self.machine.derivatives(0.0, x, u)[self.velocities]
            found.append(_Compared(x, u, own, T @ a + rest, T, J))
        sizes = np.abs([each.expected for each in found])
        usual = np.maximum(LEAST, np.median(sizes, axis=0))
        allowed = np.maximum(MOST * usual, LITTLE * sizes.max(axis=1, initial=0.0)[:, None])
        wrong = [each for each, most in zip(found, allowed, strict=True) if self._misses(each, most)]
        if not wrong:
            return self._stated_alike(states[0])
        worst = max(wrong, key=lambda each: np.nan_to_num(each.missed, nan=np.inf).max())
        text = f"its accelerations miss MuJoCo's of the file by {(worst.missed / usual).max():.2g} of their usual size"
        return f"{text}, {self._where(worst)}"

    def _misses(self, at: _Compared, allowed: Array) -> bool:
        """Whether the machine misses MuJoCo by more than is allowed, and than rounding explains."""
        if not np.isfinite(at.missed).all():
            return True
        return bool((at.missed > allowed).any() and not at.missed.max() <= SPREAD * self._spread(at))

    def _named_alike(self) -> str:
        """What one of the two does not have."""
        model = self.model
        theirs = {model.joint(i).name for i in range(model.njnt)}
        strange = sorted(theirs ^ {each.joint for each in self.named})
        if strange:
            return f'only one of it and MuJoCo has the joint "{strange[0]}"'
        strange = sorted({*self.machine.description.input_names} - {*self.drives})
        return f'its input "{strange[0]}" is no actuator of the file' if strange else ""

    def _stated_alike(self, x: Array) -> str:
        """Which number the machine states otherwise than the file; x: a state."""
        for what, own, theirs in self._numbers(x):
            if (own is None) != (theirs is None) or abs((own or 0.0) - (theirs or 0.0)) > MOST * abs(theirs or 0.0):
                return f"its {what} is {own}, and that of the file {theirs}".replace("None", "unlimited")
        return ""

    def _numbers(self, x: Array) -> Iterator[Stated]:
        own, model = self.machine.parameters, self.model
        gravity = 0.0 if model.opt.disableflags & NO_GRAVITY else float(np.linalg.norm(model.opt.gravity))
        yield "gravity", own.get("gravity", own.get("g", 0.0)), gravity
        masses = (own.get(f"{identifier(each.name)}_mass", 0.0) for each in self.robot.bodies)
        moved = model.body_dofnum[model.body_weldid] > 0  # by joints, not by hand as mocap bodies are
        yield "total mass", sum(masses), float(model.body_mass[moved].sum())
        yield from self._ranges(x)
        if self.robot.motorless:
            yield from self._limits()

    def _ranges(self, x: Array) -> Iterator[Stated]:
        """The ranges of inputs, by how hard MuJoCo's motors push at most."""
        gains = {int(self.model.actuator_ctrladr[i]): abs(servo.gain) for i, servo in self.servos.items()}
        for i, each in enumerate(self.machine.description.inputs):
            forces, gain = [], gains.get(self.drives[each.name], 1.0)
            endless = ENDLESS * min(gain, 1.0)  # for MuJoCo takes no endless command
            for model, u in ((self.model, 1.0), (self.clamped, -endless), (self.clamped, endless)):
                self._place(x, u * np.eye(self.machine.n_inputs)[i])
                self.mujoco.mj_forward(model, self.data)
                forces.append(self.data.qfrc_actuator.copy())
            moved = np.abs(forces[0]) > SMALL * np.abs(forces[0]).max()
            low, high = (float(np.abs(force[moved] / forces[0][moved]).min()) for force in forces[1:])
            most = min(low or high, high)
            yield f'range of input "{each.name}"', each.limit, most if most < endless / 2 else None
            yield f'lower end of input "{each.name}"', each.at_least, None if low else 0.0

    def _limits(self) -> Iterator[Stated]:
        """What a URDF states of its joints."""
        described, own = self.machine.description, self.machine.parameters
        known = {each.name: each for each in (*described.state, *described.inputs)}
        for joint in ElementTree.parse(self.robot.file).iterfind("joint"):
            name, limit, kind = identifier(joint.get("name", "")), joint.find("limit"), joint.get("type")
            if name not in known or limit is None or kind not in ("revolute", "prismatic", "continuous"):
                continue
            low, high, effort, speed = (float(limit.get(each, 0)) for each in ("lower", "upper", "effort", "velocity"))
            ends = (low, high) if low < high and kind != "continuous" else (None, None)
            for side, end in zip(("lower", "upper"), ends, strict=True):
                yield f'{side} limit of joint "{name}"', own.get(f"{name}_{side}"), end
            yield f'speed of joint "{name}"', known[name].rate_limit, speed or None
            if motor := known.get(input_of(name, described.input_names)):
                yield f'effort of joint "{name}"', motor.limit, effort or None

    def _states_of(self) -> Iterator[Array]:
        """Random states, with loops closed as the file closes them."""
        machine, rng, held = self.machine, self.rng, bool(self.machine.description.constraints)
        starts, still = machine.state({}), np.zeros(machine.n_inputs)
        begins = closed(machine, 0.0, starts) if held else starts
        for _ in range(STATES):
            for reach in NEAR:
                x = (starts if begins is None else begins) + reach * rng.uniform(-1, 1, len(starts))
                x[self.velocities] = rng.normal(size=len(self.velocities))
                x[-1] = 0.0
                for each in self.quaternions:
                    turned = rng.normal(size=4)
                    x[each] = turned / np.linalg.norm(turned)
                at = closed(machine, 0.0, x) if held else x
                if at is None or not np.isfinite(machine.derivatives(0.0, at, still)).all():  # as beyond a crank's rod
                    continue
                if not held or reach == NEAR[-1] or self._is_closed(at):
                    yield at
                    break

    def _is_closed(self, x: Array) -> bool:
        self._place(x, np.zeros(self.machine.n_inputs))
        self.mujoco.mj_forward(self.model, self.data)
        return bool(np.abs(self.data.efc_pos).max(initial=0.0) < APART)

    def _place(self, x: Array, u: Array) -> None:
        """Set positions, rates, commands and dry friction of MuJoCo's data."""
        model, data, state = self.model, self.data, dict(zip(self.names, x.tolist(), strict=False))
        self.states.place(self.joints, state, self.machine.parameters)
        data.ctrl[:] = 0.0
        for name, value in zip(self.machine.description.input_names, u.tolist(), strict=True):
            data.ctrl[self.drives[name]] = value
        if self.servos:
            self.mujoco.mj_forward(model, data)
        for i, servo in self.servos.items():
            length = servo.gear * sum(share * state[each] for each, share in servo.lengths)
            at = model.actuator_ctrladr[i]
            data.ctrl[at] = servo.command(data.ctrl[at], length, data.actuator_velocity[i])
        data.qfrc_applied[:] = -model.dof_frictionloss * np.tanh(data.qvel / self.smooth)
        rubbing = {model.tendon(each.name).id: self.robot.kind(each) for each in self.robot.tendons if each.friction}
        if rubbing:
            self.mujoco.mj_fwdPosition(model, data)
            rows, places = np.zeros((model.ntendon, model.nv)), (model.ten_J_rownnz, model.ten_J_rowadr)
            self.mujoco.mju_sparse2dense(rows, np.ravel(data.ten_J), *places, model.ten_J_colind)
        for i, kind in rubbing.items():
            loss = model.tendon_frictionloss[i] * np.tanh(rows[i] @ data.qvel / SMOOTH[kind])
            data.qfrc_applied[:] -= rows[i] * loss

    def _accelerations(self, x: Array, u: Array) -> tuple[Array, Array]:
        """MuJoCo's accelerations (nv,), and the rows of its loops (n, nv); data is left there."""
        self._place(x, u)
        return self._of_data()

    def _of_data(self) -> tuple[Array, Array]:
        mujoco, model, data = self.mujoco, self.model, self.data
        mujoco.mj_forward(model, data)
        J = self._rows(data)
        if not len(J):
            return data.qacc.copy(), J
        M, gamma, step = np.zeros((model.nv, model.nv)), np.zeros(len(J)), STEP / max(1.0, np.abs(data.qvel).max())
        mujoco.mj_fullM(model, data, M)
        for k, factor in enumerate(EIGHTH, 1):
            for sign in (1, -1):
                self.other.qpos[:] = data.qpos
                mujoco.mj_integratePos(model, self.other.qpos, data.qvel, sign * k * step)
                mujoco.mj_fwdPosition(model, self.other)
                gamma -= sign * factor / step * (self._rows(self.other) @ data.qvel)
        force = data.qfrc_passive + data.qfrc_actuator + data.qfrc_applied - data.qfrc_bias
        N = null_space(J, rcond=RANK)
        a = np.linalg.lstsq(J, gamma, rcond=RANK)[0]
        return a + N @ np.linalg.solve(N.T @ M @ N, N.T @ (force - M @ a)), J

    def _rows(self, data: Any) -> Array:
        return np.array(data.efc_J).reshape(-1, self.model.nv)

    def _held(self, J: Array) -> str:
        """Which loop is open where the machine closes all; J: rows of MuJoCo's loops."""
        if not len(J) and not self.machine.description.constraints:
            return ""
        data = self.data
        apart = np.maximum(np.abs(data.efc_pos), np.abs(J @ data.qvel)) if len(J) else np.zeros(1)
        worst = int(np.argmax(apart))
        if apart[worst] > APART:
            name = self.model.equality(int(data.efc_id[worst])).name
            return f'loop "{name}" is open by {apart[worst]:.2g} in MuJoCo where the machine closes it'
        left = self.model.nv - (np.linalg.matrix_rank(J, rtol=RANK) if len(J) else 0)
        if left != len(self.velocities):
            return f"its loops leave {len(self.velocities)} motions, and MuJoCo's {left}"
        return ""

    def _motions(self) -> tuple[Array, Array]:
        """T (n_v, nv) and rest (n_v,) at data."""
        T, rest, model = dict[str, Array](), dict[str, float](), self.model
        for each in self.named:
            joint, rows = model.joint(each.joint), np.eye(model.nv)
            own = rows[joint.dofadr[0] :][: len(each.motions)]
            left = np.zeros(len(own))
            if each.in_angles:
                angles, omega = self.states.angles[each.joint], self.data.qvel[joint.dofadr[0] :][: len(own)][-3:]
                E = to_spin(angles)
                rates = np.linalg.solve(E, omega)
                own[-3:] = np.linalg.solve(E, own[-3:])
                left[-3:] = -np.linalg.solve(E, to_spin_rate(angles, rates) @ rates)
            T |= zip(each.motions, own, strict=True)
            rest |= zip(each.motions, left.tolist(), strict=True)
        names = self.machine.description.velocities
        return np.array([T[name] for name in names]).reshape(-1, model.nv), np.array([rest[name] for name in names])

    def _pushes(self, states: list[Array]) -> Array:
        """Of each input as much as gives the largest acceleration of PUSH at the first states (n_inputs,)."""
        n, moved = self.machine.n_inputs, np.zeros(self.machine.n_inputs)
        for x in states[:POSES]:
            rest, _ = self._accelerations(x, np.zeros(n))
            more = np.array([np.abs(self._accelerations(x, each)[0] - rest).max(initial=0.0) for each in np.eye(n)])
            moved = np.maximum(moved, np.where(more > LITTLE * np.abs(rest).max(initial=LEAST), more, 0.0))
        return np.array([PUSH / each if each > 0 else 1.0 for each in moved])  # a loop may hold what it drives

    def _spread(self, at: _Compared) -> float:
        """By how much MuJoCo's accelerations change where a state is moved by what rounding may move it."""
        found = []
        for _ in range(4):
            self._place(at.x, at.u)
            self.data.qpos[:] *= 1 + ROUNDING * self.rng.uniform(-1, 1, self.model.nq)
            a, _ = self._of_data()
            T, rest = self._motions()
            found.append(np.abs(T @ a + rest - at.expected).max(initial=0.0))
        return float(max(found))

    def _where(self, at: _Compared) -> str:
        """The joint where the difference begins: the last one, from the ground on, where forces miss."""
        model = self.model
        self._accelerations(at.x, at.u)
        M = np.zeros((model.nv, model.nv))
        self.mujoco.mj_fullM(model, self.data, M)
        N = null_space(at.J, rcond=RANK) if len(at.J) else np.eye(model.nv)
        missed = N @ np.linalg.lstsq(at.T @ N, at.own - at.expected, rcond=None)[0]
        force = np.abs(N @ (N.T @ (M @ missed)))
        beyond = np.flatnonzero(~(force < SMALL * force.max()))
        joint = model.joint(int(model.dof_jntid[beyond[-1]]))
        return f'which begins at joint "{joint.name}" of body "{model.body(int(joint.bodyid[0])).name}"'


def _without_limits(mujoco: ModuleType, model: Any) -> tuple[Any, Any]:
    """Copies of a model without contacts and limits, with and without clamps; dry friction is zero where it is off."""
    off, clamped = mujoco.mjtDisableBit, copy(model)
    if clamped.opt.disableflags & (int(off.mjDSBL_FRICTIONLOSS) | int(off.mjDSBL_CONSTRAINT)):
        clamped.dof_frictionloss[:] = clamped.tendon_frictionloss[:] = 0.0
    for bit in (off.mjDSBL_CONTACT, off.mjDSBL_LIMIT, off.mjDSBL_FRICTIONLOSS):
        clamped.opt.disableflags |= int(bit)
    clamped.opt.jacobian = int(mujoco.mjtJacobian.mjJAC_DENSE)
    free = copy(clamped)
    free.opt.disableflags |= int(off.mjDSBL_CLAMPCTRL)
    for word in ("actuator_forcelimited", "jnt_actfrclimited", "tendon_actfrclimited"):
        getattr(free, word)[:] = 0
    return free, clamped
