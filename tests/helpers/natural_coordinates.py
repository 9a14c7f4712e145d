"""Machines in natural coordinates: trailers in absolute angles, a bicycle in the fixed frame."""

from itertools import accumulate, pairwise
from typing import Any

from sympy import Matrix, cos, eye, pi, sin, sqrt

from servonode.mechanics import Model, constraint, coordinate, input_, parameter, velocity

Expr = Any
UP, LEFT = Matrix([0, 0, 1]), Matrix([0, 1, 0])
WHEELBASE, TRAIL, TILT, R_REAR, R_FRONT = 1.02, 0.08, pi / 10, 0.3, 0.35  # of the benchmark
HEAD = Matrix([WHEELBASE + TRAIL, 0, 0])  # the steering axis meets the ground


def trailers(n: int, hitch_angles: bool = False) -> Model:
    """A unicycle with n on-axle trailers; x, y are the axle of the last one, angles absolute or of the hitches."""
    x, y = (coordinate(name, "last axle", "m") for name in "xy")
    v, w = velocity("v", "speed of the robot", "m/s"), velocity("w", "yaw rate of the robot", "rad/s")
    stated = [coordinate(f"{'h' if hitch_angles and k else 't'}{k}", "angle", "rad") for k in range(n + 1)]
    m = [parameter(f"m{k}", "mass", "kg", default=3.0 / (k + 1)) for k in range(n + 1)]
    inertia = [parameter(f"I{k}", "inertia", "kg m^2", default=0.1 + 0.02 * k) for k in range(n + 1)]
    d = [parameter(f"d{k}", "length", "m", default=0.7 - 0.1 * k) for k in range(1, n + 1)]
    angle = list(accumulate(stated, lambda ahead, hitch: ahead - hitch)) if hitch_angles else stated
    turning = [sum(each.diff(q) * q.rate for q in stated) for each in angle]
    points = [(x.rate, y.rate)]
    for length, each, rate in zip(reversed(d), reversed(angle), reversed(turning), strict=False):
        points.insert(0, (points[0][0] - length * rate * sin(each), points[0][1] + length * rate * cos(each)))
    speeds, rates = [v], [w]
    for k, length in enumerate(d):
        rates.append(speeds[k] * sin(angle[k] - angle[k + 1]) / length)
        speeds.append(speeds[k] * cos(angle[k] - angle[k + 1]))
    moving = [rates[0], *(a - b for a, b in pairwise(rates))] if hitch_angles else rates
    F, T = input_("F", "drive", "N"), input_("T", "yaw torque", "N m")
    (x0, y0), rows = points[0], zip(points, angle, strict=True)
    moved = zip(m, inertia, points, turning, strict=True)
    energies = [mass * (p**2 + q**2) + about * rate**2 for mass, about, (p, q), rate in moved]
    return Model(
        name=f"{n}_trailers",
        description="unicycle with on-axle trailers",
        coordinates=(x, y, *reversed(stated)),
        velocities=(v, w),
        parameters=(*m, *inertia, *d),
        kinetic=sum(energies) / 2,
        constraints=tuple(
            constraint(f"S{k}", "side force", q * cos(each) - p * sin(each)) for k, ((p, q), each) in enumerate(rows)
        ),
        kinematics={
            x: speeds[-1] * cos(angle[-1]), y: speeds[-1] * sin(angle[-1]), **dict(zip(stated, moving, strict=True)),
        },
        inputs={F: x0 * cos(angle[0]) + y0 * sin(angle[0]), T: turning[0]},
    )  # fmt: skip


def turned(axis: int, angle: Expr) -> Expr:
    """The rotation about x, y or z."""
    j, k = (axis + 1) % 3, (axis + 2) % 3
    rotation = eye(3)
    rotation[j, j] = rotation[k, k] = cos(angle)
    rotation[k, j], rotation[j, k] = sin(angle), -sin(angle)
    return rotation


def bicycle() -> Model:
    """The nonlinear Whipple bicycle (J. P. Meijaard et al., 2007): z up, x ahead, y to the left, rear contact in x, y.

    The front wheel's contact is holonomic, the wheels roll.
    """
    x, y = (coordinate(name, "rear contact", "m") for name in "xy")
    names = {"psi": "yaw", "phi": "lean to the right", "th": "pitch", "de": "steer to the left"}
    names |= {"tr": "rear wheel", "tf": "front wheel"}
    psi, phi, th, de, tr, tf = (coordinate(name, text, "rad") for name, text in names.items())
    g = parameter("g", "gravity", "m/s^2", default=9.81)
    q = (x, y, psi, phi, th, de, tr, tf)
    plane = turned(2, psi) * turned(0, phi)  # of the rear wheel
    tilted = turned(1, -TILT)
    steering = tilted * turned(2, de) * tilted.T
    frame = plane * turned(1, th)
    fork = frame * steering
    rear = Matrix([x, y, 0]) + plane * R_REAR * UP

    def on_frame(*at_rest: float) -> Expr:
        return rear + frame * (Matrix(at_rest) - R_REAR * UP)

    def on_fork(*at_rest: float) -> Expr:
        return rear + frame * (HEAD - R_REAR * UP) + fork * (Matrix(at_rest) - HEAD)

    def rate(vector: Expr) -> Expr:
        return Matrix([sum(each.diff(c) * c.rate for c in q) for each in vector])

    w_plane = Matrix([phi.rate, 0, 0]) + plane.T * UP * psi.rate
    w_frame = turned(1, th).T * w_plane + LEFT * th.rate
    w_fork = steering.T * w_frame + tilted * UP * de.rate
    w_rear, w_front = w_plane + LEFT * tr.rate, w_fork + LEFT * tf.rate
    front = on_fork(WHEELBASE, 0, R_FRONT)
    bodies = [  # mass, place, inertia, angular velocity
        (2, rear, Matrix.diag(0.0603, 0.12, 0.0603), w_rear),
        (85, on_frame(0.3, 0, 0.9), Matrix([[9.2, 0, -2.4], [0, 11, 0], [-2.4, 0, 2.8]]), w_frame),
        (4, on_fork(0.9, 0, 0.7), Matrix([[0.05892, 0, 0.00756], [0, 0.06, 0], [0.00756, 0, 0.00708]]), w_fork),
        (3, front, Matrix.diag(0.1405, 0.28, 0.1405), w_front),
    ]
    axle = fork * LEFT
    down = (axle * axle[2] - UP) / sqrt(1 - axle[2] ** 2)  # from the front wheel's centre to its lowest point
    slip_rear = rate(rear) + (plane * w_rear).cross(-plane * R_REAR * UP)
    slip_front = rate(front) + (fork * w_front).cross(R_FRONT * down)
    along, aside = Matrix([cos(psi), sin(psi), 0]), Matrix([-sin(psi), cos(psi), 0])
    return Model(
        name="bicycle",
        description="nonlinear Whipple bicycle",
        coordinates=q,
        independent=(phi, de, tr),
        parameters=(g,),
        kinetic=sum((m * rate(p).dot(rate(p)) + w.dot(inertia * w)) / 2 for m, p, inertia, w in bodies),
        potential=sum(m * g * p[2] for m, p, *_ in bodies),
        inputs={input_("steer", "torque", "N m"): de.rate, input_("drive", "torque", "N m"): tr.rate},
        constraints=(
            constraint("Fz", "front contact", front[2] - R_FRONT * sqrt(1 - axle[2] ** 2)),
            constraint("Ra", "rear, along", slip_rear.dot(along)),
            constraint("Rs", "rear, sideways", slip_rear.dot(aside)),
            constraint("Fx", "front", slip_front[0]),
            constraint("Fy", "front", slip_front[1]),
        ),
    )
