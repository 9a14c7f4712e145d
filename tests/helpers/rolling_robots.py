"""Robots on wheels, in loops and on feet as texts of files."""

import math
from pathlib import Path
from typing import Any

from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource, find_machine

WHEELS = {"left": "theta1", "right": "theta2", "behind_left": "theta3", "behind_right": "theta4"}


def link(name: str, mass: float = 0.0, inertia: Any = (0, 0, 0), centre: str = "0 0 0", shape: str = "") -> str:
    """A link; inertia: its moments about the axes x, y, z."""
    xx, yy, zz = inertia
    stated = (
        f'<inertial><origin xyz="{centre}"/><mass value="{mass}"/>'
        f'<inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    seen = f"<collision><geometry><{shape}/></geometry></collision>" if shape else ""
    return f'<link name="{name}">{stated if mass else ""}{seen}</link>'


def joint(name: str, parent: str, child: str, place: str, axis: str = "0 1 0", kind: str = "continuous") -> str:
    """A joint of a URDF; place: x, y, z in the parent."""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{place}"/><axis xyz="{axis}"/></joint>'
    )


def urdf(*parts: str) -> str:
    return f'<robot name="robot">{"".join(parts)}</robot>'


def wheel(name: str, parent: str, place: str, radius: float = 0.075, mass: float = 1.0, axis: str = "0 1 0") -> str:
    """A joint with the link of its wheel: a ball in its shape, spin inertia 0.00028, else 0.00014."""
    moments = (0.00014, 0.00028, 0.00014) if axis == "0 1 0" else (0.0002,) * 3
    body = link(f"{name}_link", mass, moments, shape=f'sphere radius="{radius}"')
    return body + joint(name, parent, f"{name}_link", place, axis)


def trailer_robot(massless: bool = True) -> str:
    """The robot of plants/diff_drive_trailer.py; its trailer's wheels have a mass or none."""
    mass = 0.0 if massless else 0.2
    return urdf(
        link("platform", 4.0, (0.34, 0.34, 0.34), "0.3 0 0"),
        wheel("theta1", "platform", "0 0.2 0.075"),
        wheel("theta2", "platform", "0 -0.2 0.075"),
        link("trailer", 2.0, (0.3, 0.3, 0.3), "-1 0 0"),
        joint("phi", "platform", "trailer", "0 0 0", "0 0 1"),
        wheel("theta3", "trailer", "-1 0.2 0.075", mass=mass),
        wheel("theta4", "trailer", "-1 -0.2 0.075", mass=mass),
    )


def car(steered: str = "0 0 0.1", axis: str = "0 1 0") -> str:
    """A bicycle with an upright fork, 0.5 m from axle to axle; `steered`: where its wheel is in the fork."""
    return urdf(
        link("frame", 10.0, (0.5, 0.5, 0.5), "0.2 0 0.3"),
        wheel("rear", "frame", "0 0 0.1", 0.1),
        link("fork", 1.0, (0.01, 0.01, 0.01)),
        joint("steer", "frame", "fork", "0.5 0 0", "0 0 1"),
        wheel("front", "fork", steered, 0.1, axis=axis),
    )


FOUR_BAR = """<mujoco model="four_bar"><compiler angle="radian"/>
 <option gravity="0 0 -9.81" timestep="0.0002" integrator="RK4"/>
 <worldbody>
  <body name="crank" euler="0 -1.0 0"><joint name="a" axis="0 -1 0"/>
   <inertial pos="0.15 0 0" mass="1" diaginertia="0.001 0.0075 0.0075"/>
   <body name="coupler" pos="0.3 0 0" euler="0 0.6 0"><joint name="b" axis="0 -1 0"/>
    <inertial pos="0.45 0 0" mass="2" diaginertia="0.001 0.135 0.135"/></body></body>
  <body name="rocker" pos="0.99 0 0" euler="0 -1.55 0"><joint name="c" axis="0 -1 0"/>
   <inertial pos="0.3 0 0" mass="1.5" diaginertia="0.001 0.06 0.06"/></body>
 </worldbody>
 <equality><connect name="pin" body1="coupler" body2="rocker" anchor="0.9 0 0" solref="0.001 1"/></equality>
 <actuator><motor name="T" joint="a"/></actuator>
</mujoco>
"""


def robot_machine(folder: Path, text: str, **settings: Any) -> Machine:
    """The compiled machine of a robot's text; settings: those of [plant.robot]."""
    file = folder / ("robot.xml" if text.startswith("<mujoco") else "robot.urdf")
    file.write_text(text)
    return MachineSource(find_machine(file.name, folder), settings).load({})


def delta() -> str:
    """A delta robot whose plate slides: three arms of 0.3 m with motors, rods of 0.6 m on universal joints."""
    depth = math.sqrt(0.6**2 - 0.45**2)
    arms, pins, motors = "", "", ""
    for i in range(3):
        turn = 2 * math.pi * i / 3
        arms += f"""<body name="arm{i}" pos="{0.2 * math.cos(turn)} {0.2 * math.sin(turn)} 0" euler="0 0 {turn}">
         <joint name="a{i}" axis="0 1 0"/><inertial pos="0.15 0 0" mass="0.3" diaginertia="0.0001 0.002 0.002"/>
         <body name="rod{i}" pos="0.3 0 0" euler="0 {math.atan2(depth, -0.45)} 0"><joint name="u{i}" axis="0 1 0"/>
          <joint name="v{i}" axis="0 0 1"/><inertial pos="0.3 0 0" mass="0.1" diaginertia="1e-5 0.003 0.003"/>
         </body></body>"""
        pins += f'<connect name="pin{i}" body1="rod{i}" body2="plate" anchor="0.6 0 0" solref="0.001 1"/>'
        motors += f'<motor name="T{i}" joint="a{i}"/>'
    slides = "".join(
        f'<joint name="{q}" type="slide" axis="{axis}"/>'
        for q, axis in zip("xyz", ("1 0 0", "0 1 0", "0 0 1"), strict=True)
    )
    plate = (
        f'<body name="plate" pos="0 0 {-depth}">{slides}<inertial pos="0 0 0" mass="0.5" diaginertia="1 1 1"/></body>'
    )
    return f"""<mujoco model="delta"><compiler angle="radian"/><option timestep="0.0002" integrator="RK4"/>
     <worldbody>{arms}{plate}</worldbody><equality>{pins}</equality><actuator>{motors}</actuator></mujoco>"""


GEARS = """<mujoco model="gears"><compiler angle="radian"/><worldbody>
  <body name="one"><joint name="a" axis="0 0 1"/><inertial pos="0 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body>
  <body name="two" pos="1 0 0"><joint name="b" axis="0 0 1"/>
   <inertial pos="0 0 0" mass="1" diaginertia="0.3 0.3 0.3"/></body>
  <body name="cam" pos="2 0 0"><joint name="c" type="slide" axis="0 0 1"/>
   <inertial pos="0 0 0" mass="2" diaginertia="0.3 0.3 0.3"/></body></worldbody>
 <equality><joint name="teeth" joint1="b" joint2="a" polycoef="0 -0.5 0 0 0"/>
  <joint name="profile" joint1="c" joint2="a" polycoef="0 0 0.25 0 0"/></equality>
 <actuator><motor name="T" joint="a"/></actuator></mujoco>
"""
WELDED = """<mujoco model="welded"><compiler angle="radian"/><worldbody>
  <body name="one"><joint name="a" axis="0 1 0"/><inertial pos="0.5 0 0" mass="1" diaginertia="0.01 0.1 0.1"/></body>
  <body name="two" pos="1 0 0"><freejoint/><inertial pos="0 0 0" mass="2" diaginertia="0.2 0.3 0.4"/></body></worldbody>
 <equality><weld name="glue" body1="one" body2="two"/></equality>
 <actuator><motor name="T" joint="a"/></actuator></mujoco>
"""


def hopper() -> str:
    """A trunk on one leg of three joints that ends in a foot."""
    return urdf(
        link("trunk", 3.0, (0.02, 0.03, 0.04), "0.02 0.01 0"),
        *leg("F", "0.1 0.05 0"),
    )


def leg(name: str, place: str) -> tuple[str, ...]:
    """Hip to the side, hip, knee; the foot is fixed to the shank."""
    return (
        link(f"{name}_hip", 0.3, (0.001, 0.001, 0.001)),
        joint(f"{name}_roll", "trunk", f"{name}_hip", place, "1 0 0"),
        link(f"{name}_thigh", 0.4, (0.002, 0.002, 0.001), "0 0 -0.1"),
        joint(f"{name}_pitch", f"{name}_hip", f"{name}_thigh", "0 0.03 0", "0 1 0"),
        link(f"{name}_shank", 0.2, (0.001, 0.001, 0.0005), "0 0 -0.1"),
        joint(f"{name}_knee", f"{name}_thigh", f"{name}_shank", "0 0 -0.2", "0 1 0"),
        link(f"{name}_foot", 0.05, (1e-5, 1e-5, 1e-5)),
        joint(f"{name}_sole", f"{name}_shank", f"{name}_foot", "0 0 -0.2", kind="fixed"),
    )


def quadruped() -> str:
    """A trunk of 5 kg on four legs."""
    places = {"FL": "0.2 0.1 0", "FR": "0.2 -0.1 0", "HL": "-0.2 0.1 0", "HR": "-0.2 -0.1 0"}
    legs = (part for name, place in places.items() for part in leg(name, place))
    return urdf(link("trunk", 5.0, (0.05, 0.1, 0.12), "0.01 0 0"), *legs)
