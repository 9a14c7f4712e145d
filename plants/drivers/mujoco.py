"""The mujoco driver: a simulation in the plant's own process, moved by MuJoCo from bodies, joints and contacts."""

from collections.abc import Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.mechanics.machine import Machine
from servonode.plants import PLANTS, packaged_machine
from servonode.plants.drivers.driver import Driver, DriverError, MotionContext, Stated
from servonode.plants.physical_model import Floor, Joint, PhysicalModel
from servonode.plants.simulated import Motion

Array = npt.NDArray[np.float64]
REST = 2.0  # s for which the machine comes to rest on the floor before the run begins
HARDEST = 2.0  # steps of the physics, the least time constant of a contact that it can resolve
IMPEDANCE = 0.9999  # of a contact, from its first touch on
MJCF = """<mujoco>
  <compiler angle="radian" autolimits="false"/>
  <option timestep="{step!r}" gravity="0 0 {gravity!r}" integrator="implicitfast" cone="elliptic" impratio="{grip!r}"
    solver="Newton" tolerance="1e-12" iterations="50"><flag autoreset="disable"/></option>{body}
</mujoco>
"""


def _check(stated: Stated) -> None:  # noqa: ARG001
    if find_spec("mujoco") is None:
        text = 'needs mujoco, which is not installed here: pip install "servonode[mujoco]"'
        raise DriverError("plant", "driver", f'"mujoco" {text}')


class PhysicalMotion:
    """A machine's physical model in MuJoCo, from the kernel state `start` on; the same bits from the same start.

    Its work [J] is that of the inputs at their joints, less what dampers take. What contacts take is in no account:
    it is what the balance of energy then lacks.
    """

    def __init__(
        self, mujoco: ModuleType, physics: PhysicalModel, machine: Machine, start: Array, step_ns: int, model: Any,
        substeps: int,
    ) -> None:  # fmt: skip
        self._mujoco, self._physics, self._machine = mujoco, physics, machine
        self._step_ns, self._substeps, self._step = step_ns, substeps, step_ns / 1e9
        self._parameters = dict(machine.parameters)
        self._model, self._data = model, mujoco.MjData(model)
        self._names = machine.description.state_names
        self._joints = [model.joint(i).name for i in range(model.njnt)]
        inputs = machine.description.input_names
        self._motors = np.array([model.actuator(name).id for name in inputs], dtype=np.int64)
        self._settle(dict(zip(self._names, start.tolist(), strict=False)))

    def _settle(self, state: Mapping[str, float]) -> None:
        """Put the machine there, let it come to rest on the floor, and give it its rates."""
        data, placed = self._data, self._physics.joints(state, self._parameters)
        places = {self._joints.index(name): each for name, each in placed.items()}
        for i, (position, _) in places.items():
            data.qpos[i] = position
        self._mujoco.mj_step(self._model, data, nstep=max(round(REST / self._model.opt.timestep), 1))
        data.qvel[:] = 0.0
        for i, (position, rate) in places.items():
            data.qpos[i], data.qvel[i] = position, rate
        data.time = 0.0
        self._mujoco.mj_forward(self._model, data)

    def advance(self, k: int, steps: int, x: Array, u: Array) -> bool:  # noqa: ARG002
        model, data, step = self._model, self._data, self._mujoco.mj_step
        data.ctrl[self._motors] = u
        for _ in range(steps):
            before, lost = data.actuator_length[self._motors], self._damping()
            step(model, data, nstep=self._substeps)
            self._mujoco.mj_fwdPosition(model, data)
            travel = data.actuator_length[self._motors] - before
            x[-1] += float(u @ travel) - self._step * (lost + self._damping()) / 2
        self._read(x)
        return bool(np.isfinite(x).all())

    def watch(self, k: int, steps: int, x: Array, last: Array, u: Array) -> int:
        for made in range(1, steps + 1):
            last[:] = x
            self.advance(k, 1, x, u)
            if self._machine.fault((k + made) * self._step_ns / 1e9, x):
                return made
        return 0

    def extra(self) -> Mapping[str, float]:
        return self._physics.extra(self._named(), self._parameters)

    def _damping(self) -> float:
        """The power [W] that the joints' dampers take."""
        rates = self._data.qvel
        return float(self._model.dof_damping @ (rates * rates))

    def _named(self) -> dict[str, Joint]:
        joints = zip(self._data.qpos.tolist(), self._data.qvel.tolist(), strict=True)
        return dict(zip(self._joints, joints, strict=True))

    def _read(self, x: Array) -> None:
        state = self._physics.state(self._named(), self._parameters)
        x[:-1] = [state[name] for name in self._names]


def _motion(context: MotionContext) -> Motion:
    """MuJoCo with the machine's physical model, settled on the floor.

    Raises:
        DriverError: the machine has no physical model, or one that MuJoCo cannot take with these numbers.
    """
    physics = context.source.physics()
    if physics is None:
        have = ", ".join(name for name in PLANTS if packaged_machine(name).physics() is not None)
        text = f'"mujoco" needs a physical model, and {context.machine.description.name} has none: state it as '
        raise DriverError("plant", "driver", f"{text}PHYSICS beside its function, or take one that has it ({have})")
    varying = next(iter(context.source.changes.varying), None)
    if varying is not None:
        text = "is a function of t, and bodies keep theirs; give a number, or driver = \"simulated\""
        raise DriverError("plant.parameters", varying, text)
    import mujoco

    stated, step = context.stated.mujoco, context.step_ns / 1e9 / context.stated.mujoco["substeps"]
    if stated["contact_time"] < HARDEST * step:
        text = f"{stated['contact_time']:g} is shorter than two steps of the physics of {step:g} s; give more, "
        raise DriverError("plant.mujoco", "contact_time", f"{text}or more plant.mujoco.substeps")
    text = _mjcf(physics, context.machine, stated, step)
    try:
        model = mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        raise DriverError("plant", "parameters", f"MuJoCo cannot build this machine: {error}") from None
    return PhysicalMotion(
        mujoco, physics, context.machine, context.start, context.step_ns, model, stated["substeps"]
    )  # fmt: skip


def _mjcf(physics: PhysicalModel, machine: Machine, stated: Mapping[str, Any], step: float) -> str:
    gravity = machine.parameters.get("g", stated["gravity"])
    soft = f'solref="{stated["contact_time"]!r} 1" solimp="{IMPEDANCE!r} {IMPEDANCE!r} 0.001"'
    body = physics.mjcf(machine.parameters, Floor(stated["friction"], gravity, soft))
    return MJCF.format(step=step, gravity=-gravity, grip=stated["grip"], body=body)


DRIVER = Driver(
    name="mujoco",
    summary="a simulation by the physics engine MuJoCo",
    reads=("actuator", "sensor", "mujoco"),
    open=lambda context: context.simulation(),
    simulated=True,
    check=_check,
    motion=_motion,
)
