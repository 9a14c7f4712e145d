"""Pendulum sphero: a spherical shell rolls without slipping on a horizontal plane, driven by a pendulum at its centre.

Axes x, y horizontal, z up; all vectors, the torques too, are in these. The shell is spherically symmetric, its centre C
is at (X, Y, R). The pendulum is a body of revolution on a ball joint at C; n is the unit vector from C to the
pendulum's centre of mass, (0, 0, -1) at rest. omega and Omega are the angular velocities of shell and pendulum, q the
shell's attitude quaternion, scalar first, from the shell's axes to the fixed ones. The pendulum's angle about n changes
nothing and is left out. The torque Q acts on the pendulum and -Q on the shell: Q_y < 0 drives towards +x.

Assumed: point contact, so the shell may spin freely about the vertical; an ideal drive; a flat rigid floor. Nothing in
the model ends the rolling: watch N_x, N_y, N_z, the floor's force on the shell.

Sources: the papers of docs/systems/pendulum_sphero.md give the machine; the equations are derived here.
"""

from collections.abc import Sequence
from typing import Any

from sympy import Float, Integer, Matrix, Rational, atan2, cos, eye, pi, sin, sqrt

from servonode.mechanics import (
    Model,
    arrow,
    body,
    circle,
    condition,
    coordinate,
    dot,
    input_,
    line,
    magnification,
    output,
    parameter,
    pose,
    sensor,
    trail,
    vector,
    velocity,
    view,
)
from servonode.mechanics.functions import choose
from servonode.plants.physics.pendulum_sphero import PHYSICS
from servonode.plants.views.pendulum_sphero import VIEW

__all__ = ["PHYSICS", "VIEW", "model"]


def model() -> Model:
    """The machine of this file's title, in the state order X, Y, n, omega, Omega, q."""
    X = coordinate("X", "position of the centre along x", "m")
    Y = coordinate("Y", "position of the centre along y", "m")
    n = vector(coordinate, "n", "direction from the centre to the pendulum's centre of mass", start=(0, 0, -1))
    q = vector(coordinate, "q", "attitude quaternion of the shell, scalar first", start=(1, 0, 0, 0))
    omega = vector(velocity, "omega", "angular velocity of the shell", "rad/s")
    Omega = vector(velocity, "Omega", "angular velocity of the pendulum", "rad/s")

    R = parameter("R", "shell radius", "m", default=0.15, above=0)
    M = parameter("M", "shell mass", "kg", default=1.0, above=0)
    I = parameter("I", "central inertia of the shell; of a thin one 2/3*M*R^2", "kg m^2", default=0.015, above=0)  # noqa: E741
    m = parameter("m", "pendulum mass", "kg", default=2.0, above=0)
    l = parameter("l", "centre to the pendulum's centre of mass", "m", default=0.04, above=0)  # noqa: E741
    i = parameter("i", "central inertia of the pendulum about any axis across n", "kg m^2", default=0.0144, above=0)
    C3 = parameter("C3", "inertia of the pendulum about n", "kg m^2", default=0.0288, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, above=0)
    c_j = parameter("c_j", "viscous friction in the joint", "N m s", default=0.0, at_least=0)
    c_r = parameter("c_r", "rolling and spinning resistance of the shell", "N m s", default=0.0, at_least=0)
    c_b = parameter("c_b", "brake in the joint, the safe action after a fault", "N m s", default=0.05, at_least=0)
    mu_f = parameter("mu_f", "friction coefficient of the floor, for a warning only", default=0.5, above=0)

    Q = [input_(f"Q_{axis}", f"torque about {axis} on the pendulum, opposite on the shell", "N m") for axis in "xyz"]

    v = Matrix([R * omega[1], -R * omega[0], 0])  # no slip
    n_rate = Omega.cross(n)
    q_vector = Matrix(q[1:])
    turning = Matrix([-omega.dot(q_vector), *(q[0] * omega + omega.cross(q_vector))]) / 2
    joint_rate = Omega - omega
    qw, qx, qy, qz = q
    to_shell = Matrix(  # from the fixed axes to the shell's
        [
            [1 - 2 * (qy**2 + qz**2), 2 * (qx * qy + qw * qz), 2 * (qx * qz - qw * qy)],
            [2 * (qx * qy - qw * qz), 1 - 2 * (qx**2 + qz**2), 2 * (qy * qz + qw * qx)],
            [2 * (qx * qz + qw * qy), 2 * (qy * qz - qw * qx), 1 - 2 * (qx**2 + qy**2)],
        ]
    )
    in_shell = (  # what is fixed to the shell measures in its axes
        ("gyroscope", "angular velocity of the shell", omega, "rad/s", 0.01),
        ("tachometer", "angular velocity of the pendulum relative to the shell", joint_rate, "rad/s", 0.02),
        ("pendulum_direction", "direction of the pendulum's centre of mass", n, "1", 0.01),
        ("magnetometer", "direction of the fixed x axis", Matrix([1, 0, 0]), "1", 0.02),
    )

    acceleration = Matrix([X.acceleration, Y.acceleration, 0])
    swing = Matrix([each.acceleration for each in n])
    reaction = (M + m) * acceleration + m * l * swing + Matrix([0, 0, (M + m) * g])
    tilt = atan2(sqrt(n[0] ** 2 + n[1] ** 2), -n[2])  # arccos(-n_z), but exact also where it hangs
    return Model(
        name="pendulum_sphero",
        description="rolling spherical shell with a pendulum drive",
        parameters=(R, M, I, m, l, i, C3, g, c_j, c_r, c_b, mu_f),
        coordinates=(X, Y, *n, *q),
        kinematics={
            X: v[0],
            Y: v[1],
            **dict(zip(n, n_rate, strict=True)),
            **dict(zip(q, turning, strict=True)),
        },
        velocities=(*omega, *Omega),
        order=(X, Y, *n, *omega, *Omega, *q),
        bodies=(
            body("shell", mass=M, velocity=v, inertia=I, angular_velocity=omega),
            body(
                "pendulum",
                mass=m,
                velocity=v + l * n_rate,
                inertia=i * eye(3) + (C3 - i) * n * n.T,
                angular_velocity=Omega,
            ),
        ),
        potential=m * g * l * n[2],
        dissipation=c_j * joint_rate.dot(joint_rate) / 2 + c_r * omega.dot(omega) / 2,
        inputs=dict(zip(Q, joint_rate, strict=True)),
        identities={"norm of n": n.dot(n) - 1, "norm of q": q.dot(q) - 1},
        outputs=(
            output("v_x", "velocity of the centre along x", v[0], "m/s"),
            output("v_y", "velocity of the centre along y", v[1], "m/s"),
            output("theta", "tilt of the pendulum, 0 hanging", tilt, "rad"),
            output("s", "spin of the pendulum, Omega along n", Omega.dot(n), "rad/s"),
            *(
                output(f"N_{axis}", f"floor's force on the shell along {axis}", N, "N")
                for axis, N in zip("xyz", reaction, strict=True)
            ),
        ),
        sensors=(
            *(
                sensor(f"{name}_{axis}", f"{text}, along the shell's {axis} axis", entry, unit, noise=noise)
                for name, text, measured, unit, noise in in_shell
                for axis, entry in zip("xyz", to_shell * measured, strict=True)
            ),
            sensor(
                "camera_x", "position of the centre along x, seen from outside", X, "m", noise=0.01, rate=20, delay=0.05
            ),
            sensor(
                "camera_y", "position of the centre along y, seen from outside", Y, "m", noise=0.01, rate=20, delay=0.05
            ),
        ),
        faults=(
            condition(-n[2] > cos(5 * pi / 12), "tilt above 75 degrees: the pendulum is about to run over", "tilt"),
        ),
        safe=dict(zip(Q, -c_b * joint_rate, strict=True)),
        warnings=(
            condition(reaction[2] > 0, "lifted: the floor would have to pull the shell down (N_z <= 0)"),
            condition(
                sqrt(reaction[0] ** 2 + reaction[1] ** 2) < mu_f * reaction[2],
                "the shell would slip (horizontal contact force > mu_f N_z)",
            ),
            condition(l < R, "no real pendulum: its centre of mass is outside the shell (l >= R)"),
            # a flat ring has C3 = 2 i: rounding must not warn
            condition(
                2 * i * (1 + Rational(1, 10**9)) >= C3,
                "no real pendulum: no body has so much inertia about n (C3 > 2 i)",
            ),
            condition(
                i + m * l**2 <= m * R**2 * (1 + Rational(1, 10**9)),
                "no real pendulum: part of its mass is outside the shell (i + m l^2 > m R^2)",
            ),
        ),
        panels=(("v_x", "v_y"), ("theta",), ("s", "omega_2")),
        drawing=_drawing((X, Y), n, v, reaction, Matrix(Q), to_shell, R, l),
    )


def _drawing(place: Any, n: Any, v: Any, N: Any, Q: Any, to_shell: Any, R: Any, l: Any) -> list[Any]:  # noqa: E741
    """The shell from above, the direction n from above, and the shell upright, across its way and along it."""
    friction, centre = "friction of the floor", (*place, R)
    across = [-n[2], 0, n[0]]  # of the pendulum, its x axis: across its z axis, which is against n, nearest to x
    ahead = Matrix(across) / sqrt(n[0] ** 2 + n[2] ** 2)
    axes = [ahead, (-n).cross(ahead), -n]
    way = _way((v, n, N))
    return [
        view(
            circle(place, R), line(place, Matrix(place) + R * n[:2, :]),
            arrow(place, N[:2, :], name=friction), trail(place, "robot"),
            pose("shell", centre, [to_shell.T[:, k] for k in range(3)]), pose("pendulum", centre, axes),
            title="from above", goal=("x", "y"),
        ),
        view(
            dot(n[:2, :]), line((0, 0), n[:2, :]), trail(n[:2, :], "n"),
            arrow(n[:2, :], Q.cross(n)[:2, :], name="push of the drive, Q x n", unit="N m"),
            title="direction n from above", axes=("n₀, along x", "n₁, along y"),
        ),
        _upright("from its right, the way ahead to the right", way, n, N, R, l, friction),
        _upright("from behind, the way ahead into the picture", (way[1], -way[0]), n, N, R, l, friction),
    ]  # fmt: skip


def _way(tried: Sequence[Any]) -> tuple[Any, Any]:
    """Unit vector along which it rolls; at rest along which it leans, else along which it is pushed, else x."""
    x, y = Integer(1), Integer(0)
    for each in reversed(tried):
        size = sqrt(each[0] ** 2 + each[1] ** 2)
        x, y = (choose(size - Float("1e-6"), e / size, other) for e, other in ((each[0], x), (each[1], y)))
    return x, y


def _upright(title: str, across: Any, n: Any, N: Any, R: Any, l: Any, friction: str) -> Any:  # noqa: E741
    """The shell, the line along n and the pendulum's centre of mass, a dot, in a vertical plane; n leans as far as it
    does, or that many times as far as can be seen.
    """
    size, least = sqrt(n[0] ** 2 + n[1] ** 2), Float("1e-300")
    angle = magnification * atan2(size, -n[2])
    sideways = across[0] * n[0] + across[1] * n[1]
    leaning, centre = Matrix([sin(angle) / (size + least) * sideways, -cos(angle)]), Matrix([0, R])
    lean = atan2(sideways, -n[2])
    return view(
        circle(centre, R), line(centre, centre + R * leaning), dot(centre + l * leaning),
        line((-1.3 * R, 0), (1.3 * R, 0), thin=True), line((0, 0), (0, R), thin=True),
        arrow((0, 0), (across[0] * N[0] + across[1] * N[1], 0), name=friction),
        title=title, strip=True, caption=("lean {:+.1f}°", lean * 180 / pi), lean=lean, magnified="lean",
    )  # fmt: skip
