"""A car with a steered front axle on a horizontal plane, seen from above.

(x, y) is the middle of the rear axle, psi the heading, delta the angle of the front wheels relative to the car;
angles are counterclockwise positive. The two wheels of an axle count as one in its middle. The tyres do not slip.
"""

from sympy import Abs, cos, sin, tan

from servonode.mechanics import (
    Model,
    condition,
    constraint,
    coordinate,
    input_,
    line,
    output,
    parameter,
    polygon,
    trail,
    velocity,
    view,
)


def model() -> Model:
    """A car with a steered front axle."""
    x = coordinate("x", "position of the rear axle's middle along x", "m")
    y = coordinate("y", "position of the rear axle's middle along y", "m")
    psi = coordinate("psi", "heading of the car", "rad")
    delta = coordinate("delta", "steering angle, 0 straight ahead", "rad")
    v = velocity("v", "forward speed of the rear axle's middle", "m/s")

    m = parameter("m", "mass of the car", "kg", default=20.0, above=0)
    Ic = parameter("Ic", "yaw inertia about the centre of mass", "kg m^2", default=2.0, above=0)
    Jw = parameter("Jw", "inertia of the front wheels about the vertical", "kg m^2", default=0.1, above=0)
    L = parameter("L", "wheelbase, from the rear axle to the front axle", "m", default=0.8, above=0)
    a = parameter("a", "centre of mass ahead of the rear axle", "m", default=0.3)
    d = parameter("d", "nose ahead of the front axle, turning with its wheels", "m", default=0.4, above=0)
    r = parameter("r", "radius of the rear wheels", "m", default=0.1, above=0)
    k = parameter("k", "rolling friction", "N s/m", default=4.0, at_least=0)
    c = parameter("c", "friction of the steering", "N m s/rad", default=0.5, at_least=0)
    c_b = parameter("c_b", "brake at the rear wheels, after a fault", "N m s/rad", default=0.5, at_least=0)
    c_s = parameter("c_s", "brake of the steering, after a fault", "N m s/rad", default=1.0, at_least=0)
    grip = parameter("grip", "side force per kg of load at which a tyre slips", "N/kg", default=7.8, above=0)

    drive = input_("drive", "torque of the rear wheels", "N m")
    steer = input_("steer", "torque of the steering motor", "N m")

    beta = psi + delta  # the direction of the front wheels
    forward = x.rate * cos(psi) + y.rate * sin(psi)
    sideways = -x.rate * sin(psi) + y.rate * cos(psi)
    front_sideways = -x.rate * sin(beta) + y.rate * cos(beta) + L * psi.rate * cos(delta)
    cx = x.rate - a * psi.rate * sin(psi)  # velocity of the centre of mass
    cy = y.rate + a * psi.rate * cos(psi)

    kinetic = (m * (cx**2 + cy**2) + Ic * psi.rate**2 + Jw * (psi.rate + delta.rate) ** 2) / 2
    dissipation = (k * forward**2 + c * delta.rate**2) / 2
    S_r = constraint("S_r", "side force on the rear tyres, to the left", sideways)
    S_f = constraint("S_f", "side force on the front tyres, to their left", front_sideways)
    kinematics = {x: v * cos(psi), y: v * sin(psi), psi: v / L * tan(delta)}
    inputs = {drive: forward / r, steer: delta.rate}
    brakes = {drive: -c_b * forward / r, steer: -c_s * delta.rate}
    rear_holds = condition(Abs(S_r.multiplier) < grip * m * (L - a) / L, "the rear tyres would slip sideways")
    front_holds = condition(Abs(S_f.multiplier) < grip * m * a / L, "the front tyres would slip sideways")

    nose = (x + L * cos(psi) + d * cos(beta), y + L * sin(psi) + d * sin(beta))
    wheel = line((-0.12 * L, 0), (0.12 * L, 0))
    body = polygon((-0.2 * L, -0.32 * L), (1.2 * L, -0.32 * L), (1.2 * L, 0.32 * L), (-0.2 * L, 0.32 * L))
    rear = [wheel.at((0, side * 0.25 * L)) for side in (1, -1)]
    front = [wheel.at((L, side * 0.25 * L), delta) for side in (1, -1)]
    bar = line((0, 0), (d, 0)).at((L, 0), delta)
    car = [each.at((x, y), psi) for each in (body, *rear, *front, bar)]

    return Model(
        name="car",
        description="car with a steered front axle",
        parameters=(m, Ic, Jw, L, a, d, r, k, c, c_b, c_s, grip),
        coordinates=(x, y, psi, delta),
        velocities=(v,),
        kinematics=kinematics,
        kinetic=kinetic,
        dissipation=dissipation,
        constraints=(S_r, S_f),
        inputs=inputs,
        safe=brakes,
        outputs=(
            output("nose_x", "position of the nose along x", nose[0], "m"),
            output("nose_y", "position of the nose along y", nose[1], "m"),
        ),
        warnings=(rear_holds, front_holds),
        panels=(("v",), ("delta",), ("S_r", "S_f")),
        drawing=[view(*car, trail(nose, "nose"), trail((x, y), "rear axle"), goal=("X", "Y"))],
    )
