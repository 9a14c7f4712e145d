"""The mujoco driver: a simulation in the plant's own process, moved by MuJoCo from bodies, joints and contacts."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.errors import installing
from servonode.plants import PLANTS, packaged_machine
from servonode.plants.drivers.driver import Driver, DriverContext, DriverError, Stated
from servonode.plants.physical_model import Floor, PhysicalModel
from servonode.plants.simulated import Motion
from servonode.plants.speeds import speeds_after
from servonode.wings.robots.definition import robot_of
from servonode.wings.robots.joint_states import JointStates, joints_of
from servonode.wings.robots.sections import contact_of

HARDEST = 2.0  # least time constant of a contact that can be resolved, in steps of the physics engine
AHEAD_S = 1e-6  # over which the inertia at an input is found
IMPEDANCE = 0.99  # of a contact, from its first touch on; with more, slipping wheels hop higher
MJCF = """<mujoco>
  <compiler angle="radian" autolimits="false"/>
  <option timestep="{step!r}" gravity="0 0 {gravity!r}" integrator="implicitfast" cone="elliptic"
    solver="Newton" tolerance="1e-12" iterations="50"><flag autoreset="disable"/></option>{body}
</mujoco>
"""


def _check(stated: Stated) -> None:  # noqa: ARG001
    if find_spec("mujoco") is None:
        text = f"needs the package mujoco: {installing('mujoco')}"
        raise DriverError("plant", "driver", f'"mujoco" {text}')


class PhysicalMotion(Motion):
    """A machine's physical model in MuJoCo, from the kernel state `start` on; the same bits from the same start.

    Its work [J] is that of the inputs at their joints, less what dampers take. The work of contacts is not counted: the
    energy balance lacks it. With drives that take speeds, u are speeds, and `effort` is what the drives do now.
    drives: the input of each actuator of the model, by their numbers; others do nothing. notes: what of the machine's
    file is left out.

    Servos stay servos: whenever inputs are written or change they are told what makes these their forces, and `given`
    are their forces now. From zero inputs on they rest where they stood then.
    """

    def __init__(
        self,
        mujoco: ModuleType,
        model: Any,
        physics: PhysicalModel | JointStates,
        context: DriverContext,
        drives: Mapping[int, str],
        notes: Sequence[str] = (),
    ) -> None:
        machine, start, step_ns = context.machine, context.start, context.step_ns
        super().__init__(machine, step_ns)
        self._mujoco, self._physics = mujoco, physics
        self._model, self._data, self._substep = model, mujoco.MjData(model), model.opt.timestep
        self._substeps = round(step_ns / 1e9 / self._substep)
        self._rubbed = np.flatnonzero(model.dof_frictionloss), np.flatnonzero(model.tendon_frictionloss)
        self._parameters = dict(machine.parameters)
        description = machine.description
        self._names = description.state_names
        self._joints, self.notes = joints_of(self._data, model), notes
        self._actuators = np.array(list(drives), dtype=np.int64)
        self._ctrl = model.actuator_ctrladr[self._actuators]
        self._drives = np.array([description.input_names.index(each) for each in drives.values()], dtype=np.int64)
        self._takes_speeds = context.drives is not None
        if self._takes_speeds:
            self.effort = np.zeros(machine.n_inputs)
            self._hold_speeds(context, list(drives.values()))
        others = ~np.isin(range(model.nactuator), self._actuators)
        model.actuator_gaintype[others], model.actuator_biastype[others] = 0, 0  # fixed, none
        model.actuator_gainprm[others, 0] = 0.0
        affine = model.actuator_biastype[self._actuators] == mujoco.mjtBias.mjBIAS_AFFINE
        self._told = self._actuators[affine & (not self._takes_speeds)]
        self._asked: Array | None = None  # inputs for which servos were told; None: they are to be told anew
        self._rest: Array | None = None  # lengths of the servos where they came to rest; None: they do not
        if len(self._told):
            self.given = np.zeros(machine.n_inputs)
        model.actuator_biastype[self._told] = mujoco.mjtBias.mjBIAS_NONE  # while it comes to rest
        self._settle(dict(zip(self._names, start.tolist(), strict=False)))
        model.actuator_biastype[self._told] = mujoco.mjtBias.mjBIAS_AFFINE
        self._damping = np.zeros(model.nactuator)
        self._damping[self._told] = model.actuator_biasprm[self._told, 2]
        self.renew(np.zeros(machine.n_inputs))

    def _hold_speeds(self, context: DriverContext, names: list[str]) -> None:
        """Make the motors MuJoCo's velocity servos: the effort is `kv (speed - rate)`, within its limit.

        kv gives the machine at its start the bandwidth of the launch file.

        Raises:
            DriverError: an input drives several joints, whose speeds it does not set, or a bandwidth is missing.
        """
        if len(set(names)) < len(names):
            text = '"velocity" needs one joint for each input, and here one input drives several'
            raise DriverError("plant", "command", f'{text}: use command = "effort"')
        assert context.drives is not None
        if not np.isfinite(context.drives.bandwidth).all():
            text = "missing: MuJoCo's velocity servos have a finite one; give it, such as 50"
            raise DriverError("plant.actuator", "bandwidth", text)
        inertia = 1 / np.diag(speeds_after(context.machine, 0.0, context.start, AHEAD_S)[1]) * AHEAD_S
        model, at, kv = self._model, self._actuators, (np.array(context.drives.bandwidth) * inertia)[self._drives]
        most = np.array(context.efforts)[self._drives]
        model.actuator_gainprm[at, 0], model.actuator_biasprm[at, 2] = kv, -kv
        model.actuator_biastype[at] = self._mujoco.mjtBias.mjBIAS_AFFINE
        model.actuator_biasprm[at, :2], model.actuator_ctrllimited[at] = 0.0, 0
        model.actuator_forcelimited[at] = np.isfinite(most)
        model.actuator_forcerange[at] = np.where(np.isfinite(most), most, 0.0)[:, None] * [-1, 1]

    def _settle(self, state: Mapping[str, float]) -> None:
        """Place the machine at a state, let it come to rest on the floor, and set its rates."""
        data, physics, arguments = self._data, self._physics, (self._joints, state, self._parameters)
        physics.place(*arguments)
        data.qvel[:] = 0.0
        steps = round(physics.rest / self._substep)
        if isinstance(physics, JointStates):
            for name, value in physics.begins.items():
                self._joints[name][0][0] = value
            for _ in range(steps):
                physics.hold(*arguments)
                self._mujoco.mj_step(self._model, data)
        else:
            self._mujoco.mj_step(self._model, data, nstep=steps)
        data.qvel[:] = 0.0
        physics.place(*arguments)
        data.time = 0.0
        self._mujoco.mj_step1(self._model, data)

    def advance(self, k: int, steps: int, x: Array, u: Array) -> bool:  # noqa: ARG002
        model, data, first, second = self._model, self._data, self._mujoco.mj_step1, self._mujoco.mj_step2
        if not len(self._told):
            data.ctrl[self._ctrl] = u[self._drives]
        elif self._asked is None or (u != self._asked).any():
            self._tell(u)
        with np.errstate(over="ignore", invalid="ignore"):  # where the motion diverges
            for _ in range(steps * self._substeps):
                before = data.actuator_velocity.copy()
                second(model, data)
                friction = data.efc_force[data.ne : data.ne + data.nf].copy()  # of rates, then of tendons
                first(model, data)  # what follows from the new positions and rates
                rates = np.append(data.qvel[self._rubbed[0]], data.ten_velocity[self._rubbed[1]])
                power = friction @ rates[: data.nf]  # none where a flag switches friction off
                force = data.actuator_force + self._damping * (data.actuator_velocity - before)  # implicit in the rates
                power += force @ data.actuator_velocity + data.qfrc_damper @ data.qvel
                x[-1] += self._substep * power  # exact, because positions advance with the new rates
        if self._takes_speeds:
            self.effort[self._drives] = data.actuator_force[self._actuators]
        elif len(self._told):
            self.given[self._drives] = data.actuator_force[self._actuators]
        if data.warning.number.any():  # MuJoCo has left out a number or a contact: the motion is wrong
            x[:-1] = np.nan
            return False
        found = self._physics.state(self._joints, self._parameters)
        x[:-1] = [found[name] for name in self._names]
        return bool(np.isfinite(x).all())

    def renew(self, inputs: Array) -> None:
        self._asked = None
        if inputs.any():
            self._rest = None
        elif self._rest is None:
            self._rest = self._data.actuator_length[self._told]

    def _tell(self, u: Array) -> None:
        """Set the commands with which the forces are these: at the present places and rates, or where servos rest."""
        model, data, at = self._model, self._data, self._told
        self._asked, data.ctrl[self._ctrl] = u.copy(), u[self._drives]
        constant, stiffness, damping = model.actuator_biasprm[at, :3].T
        rests = self._rest is not None
        length, rate = (self._rest, 0.0) if rests else (data.actuator_length[at], data.actuator_velocity[at])
        bias = constant + stiffness * length + damping * rate
        to = model.actuator_ctrladr[at]
        data.ctrl[to] = found = (data.ctrl[to] - bias) / model.actuator_gainprm[at, 0]
        low, high = model.actuator_ctrlrange[at].T
        for i in np.flatnonzero((model.actuator_ctrllimited[at] > 0) & ((found < low) | (found > high))):
            self.counts[f"command:{model.actuator(at[i]).name}"] += 1  # MuJoCo clips it

    def extra(self) -> Mapping[str, float]:
        model, commands = self._model, self._data.ctrl
        told = {f"command_{model.actuator(i).name}": float(commands[model.actuator_ctrladr[i]]) for i in self._told}
        return {**told, **self._physics.extra(self._joints, self._parameters)}


def _motion(context: DriverContext) -> Motion:
    """MuJoCo with the machine's physical model, settled on the floor.

    Raises:
        DriverError: the machine has no physical model, or one that MuJoCo cannot take with these numbers.
    """
    source = context.source
    assert source is not None  # a simulation has one
    robot, physics = robot_of(source), source.physics()
    if physics is None and robot is None:
        have = ", ".join(name for name in PLANTS if packaged_machine(name).physics() is not None)
        text = f'"mujoco" needs a physical model, and {context.machine.description.name} has none: state it as '
        raise DriverError("plant", "driver", f"{text}PHYSICS beside its function, or take one that has it ({have})")
    varying = next(iter(source.changes.varying), None)
    if varying is not None:
        text = 'is a function of t, and bodies keep theirs; give a number, or driver = "simulated"'
        raise DriverError("plant.parameters", varying, text)
    import mujoco

    # else MuJoCo writes a file where the process runs; `advance` makes the warnings that it counts a fault of the run
    mujoco.set_mju_user_warning(lambda _: None)
    if robot is not None:
        from servonode.wings.robots.mujoco_robot import driven, robot_model

        model, joints, notes = robot_model(mujoco, robot, context)
        drives = driven(model, context.machine.description.input_names)
        return PhysicalMotion(mujoco, model, joints, context, drives, notes)
    assert physics is not None
    text = _mjcf(physics, context)
    try:
        model = mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        raise DriverError("plant", "parameters", f"MuJoCo cannot build this machine: {error}") from None
    drives = {i: model.actuator(i).name.partition("/")[0] for i in range(model.nactuator)}
    return PhysicalMotion(mujoco, model, physics, context, drives)


def _mjcf(physics: PhysicalModel, context: DriverContext) -> str:
    """The MJCF text of the whole simulation."""
    stated, parameters = contact_of(context.stated), context.machine.parameters
    step = context.step_ns / 1e9 / stated.substeps
    contact_time = HARDEST * step if stated.contact_time is None else stated.contact_time
    if contact_time < HARDEST * step * (1 - 1e-9):
        text = f"{contact_time:g} is shorter than two steps of the physics of {step:g} s; give at least "
        raise DriverError("plant.mujoco", "contact_time", f"{text}{HARDEST * step:g}, or more plant.mujoco.substeps")
    gravity = parameters.get("g", stated.gravity)
    hardness = f'solref="{contact_time!r} 1" solimp="{IMPEDANCE!r} {IMPEDANCE!r} 0.001"'
    body = physics.mjcf(parameters, Floor(stated.friction, gravity, hardness))
    return MJCF.format(step=step, gravity=-gravity, body=body)


DRIVER = Driver(
    name="mujoco",
    summary="a simulation by the physics engine MuJoCo",
    reads=("actuator", "sensor", "mujoco"),
    open=lambda context: context.simulation(),
    simulated=True,
    readonly=True,
    speeds=True,
    servos=True,
    check=_check,
    motion=_motion,
)
