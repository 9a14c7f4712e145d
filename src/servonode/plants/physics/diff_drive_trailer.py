"""The robot and its trailer on wheels: contacts, friction and a hitch in place of the rolling constraints.

Masses, centres of mass and inertias about the vertical are the sheet's, exactly. What a model in the plane does not
say is chosen here: all centres of mass at the height of the axles; the platform's and the trailer's inertia about
their other axes equal to that about the vertical; a frictionless castor that carries half of the platform. The hitch
is a ball joint, so that the trailer's wheels carry the trailer, and all loads follow from statics. Contact with the
floor is at one point of each wheel. The trailer's own wheels have mass and inertia inside m2 and I2 but for their
spin, which is as good as none: the sheet neglects it.
"""

from math import cos, sin

from servonode.plants.physical_model import Floor, Joints, PhysicalModel, Values

TRAILER_WHEEL = 0.01  # of the trailer's mass, the most that one of its wheels has
TRAILER_WHEELS = 0.1  # of the trailer's inertia, the most that both have
SPIN = 1e-4  # inertia of a trailer wheel about its axle, of its mass times radius squared
CLEARANCE = 0.01  # of the castor on the lighter side, of d1


def mjcf(parameters: Values, floor: Floor) -> str:
    """The worldbody, the actuators and what does not touch, for these parameters."""
    p = parameters
    r, l, b, d1 = p["r"], p["l"], p["b"], p["d1"]  # noqa: E741
    own = p["I1"] - p["m1"] * d1**2  # about the platform's centre of mass
    spin = min(p["Iky"], p["Ikz"])  # the rest is the rotor's, which no body has
    wheel_mass = min(TRAILER_WHEEL * p["m2"], TRAILER_WHEELS * p["I2"] / 2 / (l**2 + r**2))
    wheel_inertia = wheel_mass * r**2
    bed = p["I2"] - 2 * (wheel_mass * l**2 + wheel_inertia)
    reach = max(2 * abs(d1), 2 * l)  # from the axle to either castor
    front, rear = max(0.0, -d1) * CLEARANCE, max(0.0, d1) * CLEARANCE

    def driven(name: str, side: float) -> str:
        return f"""
      <body name="{name}" pos="0 {side!r} 0">
        <joint name="{name}" axis="0 1 0" damping="{p["c_w"]!r}" armature="{p["Iky"] - spin!r}"/>
        <inertial pos="0 0 0" mass="{p["m_k"]!r}" diaginertia="{p["Ikz"]!r} {spin!r} {p["Ikz"]!r}"/>
        <geom name="{name}" type="sphere" size="{r!r}" {floor.rolls}/>
      </body>"""

    def passive(name: str, side: float) -> str:
        return f"""
        <body name="{name}" pos="{-b!r} {side!r} 0">
          <joint name="{name}" axis="0 1 0"/>
          <inertial pos="0 0 0" mass="{wheel_mass!r}"
            diaginertia="{wheel_inertia!r} {SPIN * wheel_inertia!r} {wheel_inertia!r}"/>
          <geom name="{name}" type="sphere" size="{r!r}" {floor.rolls}/>
        </body>"""

    return f"""
  <worldbody>
    {floor.geom}
    <body name="robot" pos="0 0 {r!r}">
      <joint name="X" type="slide" axis="1 0 0"/>
      <joint name="Y" type="slide" axis="0 1 0"/>
      <joint name="height" type="slide" axis="0 0 1"/>
      <joint name="psi" axis="0 0 1"/>
      <joint name="pitch" axis="0 1 0"/>
      <joint name="roll" axis="1 0 0"/>
      <inertial pos="{d1!r} 0 0" mass="{p["m1"]!r}" diaginertia="{own!r} {own!r} {own!r}"/>
      <geom name="front" type="sphere" size="{r / 4!r}" pos="{reach!r} 0 {front - 0.75 * r!r}" {floor.glides}/>
      <geom name="rear" type="sphere" size="{r / 4!r}" pos="{-reach!r} 0 {rear - 0.75 * r!r}" {floor.glides}/>
{driven("theta1", l)}{driven("theta2", -l)}
      <body name="trailer">
        <joint name="phi" axis="0 0 1"/>
        <joint name="hitch_pitch" axis="0 1 0"/>
        <joint name="hitch_roll" axis="1 0 0"/>
        <inertial pos="{-b!r} 0 0" mass="{p["m2"] - 2 * wheel_mass!r}" diaginertia="{bed!r} {bed!r} {bed!r}"/>
{passive("left", l)}{passive("right", -l)}
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="U1" joint="theta1"/>
    <motor name="U2" joint="theta2"/>
  </actuator>"""


def place(joints: Joints, state: Values, parameters: Values) -> None:
    """The joints where they are, and as fast as where no wheel slips."""
    x, p = state, parameters
    V, Omega, phi, r, l = x["V"], x["Omega"], x["phi"], p["r"], p["l"]  # noqa: E741
    trailer_rate = -V / p["b"] * sin(phi)
    found = {
        "X": (x["X"], V * cos(x["psi"])),
        "Y": (x["Y"], V * sin(x["psi"])),
        "psi": (x["psi"], Omega),
        "phi": (phi, trailer_rate - Omega),
        "theta1": (x["theta1"], (V - l * Omega) / r),
        "theta2": (x["theta2"], (V + l * Omega) / r),
        "left": (0.0, (V * cos(phi) - l * trailer_rate) / r),
        "right": (0.0, (V * cos(phi) + l * trailer_rate) / r),
    }
    for name, (position, rate) in found.items():
        joints[name][0][0], joints[name][1][0] = position, rate


def state(joints: Joints, parameters: Values) -> Values:  # noqa: ARG001
    """The machine's state: V is the speed of O1 along the heading; what it has across it is slip."""
    psi, vx, vy = float(joints["psi"][0][0]), joints["X"][1][0], joints["Y"][1][0]
    positions = {name: joints[name][0][0] for name in ("X", "Y", "psi", "phi", "theta1", "theta2")}
    return {**positions, "V": vx * cos(psi) + vy * sin(psi), "Omega": joints["psi"][1][0]}


def slip(joints: Joints, parameters: Values) -> Values:
    """How fast the contacts slip [m/s]: sideways at the two axles, forward at the driven wheels."""
    r, l, b = parameters["r"], parameters["l"], parameters["b"]  # noqa: E741
    q = {name: float(position[0]) for name, (position, _) in joints.items()}
    v = {name: float(rate[0]) for name, (_, rate) in joints.items()}
    psi, trailer = q["psi"], q["psi"] + q["phi"]
    V = v["X"] * cos(psi) + v["Y"] * sin(psi)
    return {
        "slip_axle": v["Y"] * cos(psi) - v["X"] * sin(psi),
        "slip_trailer": v["Y"] * cos(trailer) - v["X"] * sin(trailer) - b * (v["psi"] + v["phi"]),
        "slip_left": V - l * v["psi"] - r * v["theta1"],
        "slip_right": V + l * v["psi"] - r * v["theta2"],
    }


PHYSICS = PhysicalModel(mjcf=mjcf, place=place, state=state, extra=slip)
