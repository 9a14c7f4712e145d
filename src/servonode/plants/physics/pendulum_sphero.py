"""The spherical shell on a floor with friction, and the pendulum on a ball joint at its centre.

Masses, inertias and the pendulum's place are the machine's, exactly. The shell touches the floor at one point, which
resists sliding and not spinning. The torque is given in the fixed axes: each input drives a motor on the pendulum and
the opposite one on the shell, both along an axis of a site that stands still.
"""

import numpy as np

from servonode.arrays import Array
from servonode.plants.physical_model import Floor, Joints, PhysicalModel, Values
from servonode.plants.view import turned_by

AXES = "xyz"


def mjcf(parameters: Values, floor: Floor) -> str:
    """The worldbody and the actuators for these parameters."""
    p = parameters
    motors = ""
    for i, axis in enumerate(AXES):
        gear = ["0"] * 6
        gear[3 + i] = "1"
        along, against = " ".join(gear), " ".join("-1" if each == "1" else each for each in gear)
        motors += f"""
    <motor name="Q_{axis}/pendulum" site="pendulum" refsite="fixed" gear="{along}"/>
    <motor name="Q_{axis}/shell" site="shell" refsite="fixed" gear="{against}"/>"""
    return f"""
  <worldbody>
    {floor.geom}
    <site name="fixed"/>
    <body name="shell" pos="0 0 {p["R"]!r}">
      <joint name="X" type="slide" axis="1 0 0"/>
      <joint name="Y" type="slide" axis="0 1 0"/>
      <joint name="height" type="slide" axis="0 0 1"/>
      <joint name="shell" type="ball" damping="{p["c_r"]!r}"/>
      <inertial pos="0 0 0" mass="{p["M"]!r}" diaginertia="{p["I"]!r} {p["I"]!r} {p["I"]!r}"/>
      <geom name="shell" type="sphere" size="{p["R"]!r}" {floor.rolls}/>
      <site name="shell"/>
      <body name="pendulum">
        <joint name="pendulum" type="ball" damping="{p["c_j"]!r}"/>
        <inertial pos="0 0 {-p["l"]!r}" mass="{p["m"]!r}" diaginertia="{p["i"]!r} {p["i"]!r} {p["C3"]!r}"/>
        <site name="pendulum"/>
      </body>
    </body>
  </worldbody>
  <actuator>{motors}
  </actuator>"""


def place(joints: Joints, state: Values, parameters: Values) -> None:
    """The joints where they are, and as fast as where the shell rolls; the pendulum's angle about n is 0."""
    n, omega, Omega = (_vector(state, name) for name in ("n", "omega", "Omega"))
    shell = np.array([state[f"q_{i}"] for i in range(4)])
    pendulum = _turn_down_to(n / np.linalg.norm(n))
    for name, position, rate in (("X", state["X"], omega[1]), ("Y", state["Y"], -omega[0])):
        joints[name][0][0], joints[name][1][0] = position, parameters["R"] * rate
    q, v = joints["shell"]
    q[:] = shell / np.linalg.norm(shell)
    v[:] = turned_by(q.tolist()).T @ omega
    q_relative, v_relative = joints["pendulum"]
    q_relative[:] = _product(q * [1, -1, -1, -1], pendulum)
    v_relative[:] = turned_by(pendulum.tolist()).T @ (Omega - omega)


def state(joints: Joints, parameters: Values) -> Values:  # noqa: ARG001
    """The machine's state, in the fixed axes."""
    q, v = joints["shell"]
    shell = turned_by(q.tolist())
    pendulum = shell @ turned_by(joints["pendulum"][0].tolist())
    omega = shell @ v
    found = {"X": joints["X"][0][0], "Y": joints["Y"][0][0]}
    vectors = {"n": -pendulum[:, 2], "omega": omega, "Omega": omega + pendulum @ joints["pendulum"][1], "q": q}
    return found | {f"{name}_{i}": each for name, vector in vectors.items() for i, each in enumerate(vector.tolist())}


def slip(joints: Joints, parameters: Values) -> Values:
    """How fast the contact point slips [m/s], along x and y."""
    q, v = joints["shell"]
    omega = turned_by(q.tolist()) @ v
    R = parameters["R"]
    return {
        "slip_x": float(joints["X"][1][0] - R * omega[1]),
        "slip_y": float(joints["Y"][1][0] + R * omega[0]),
    }


def _vector(state: Values, name: str) -> Array:
    return np.array([state[f"{name}_{i}"] for i in range(3)])


def _product(p: Array, q: Array) -> Array:
    return np.concatenate([[p[0] * q[0] - p[1:] @ q[1:]], p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:])])


def _turn_down_to(n: Array) -> Array:
    """The unit quaternion of the shortest turn from straight down to n."""
    cross, scalar = np.array([n[1], -n[0], 0.0]), 1.0 - n[2]  # (0, 0, -1) x n, 1 + (0, 0, -1) . n
    found = np.array([0.0, 1.0, 0.0, 0.0]) if scalar < 1e-15 else np.concatenate([[scalar], cross])
    unit: Array = found / np.linalg.norm(found)
    return unit


PHYSICS = PhysicalModel(mjcf=mjcf, place=place, state=state, extra=slip)
