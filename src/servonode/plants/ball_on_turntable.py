"""Ball on a turntable: a homogeneous ball rolls without slipping on a plate that turns about its normal.

Axes x, y in the plate's plane, z along its normal, all at rest; the origin is on the plate's axis. The ball's centre is
at (x, y); its contact is a point, so it may spin freely about the normal. Omega is the plate's rate, counterclockwise
from above, constant or a given function of time. omega is the ball's angular velocity in these axes, q its attitude
quaternion, scalar first, from the ball's axes to these. A tilted plate pulls with the gravity (g_x, g_y) along itself.

The friction force F of the plate is determined by f' = K f for the slip f, so that a slip dies out instead of growing.
The ball is assumed to hold on whatever force that takes: watch `friction`.

Paper: I. E. Kaspirovich, R. G. Mukharlyamov, Numerical solution of a dynamics problem with bypassing of singularities,
with the corrections listed in docs/systems/ball_on_turntable.md. Its model in three angles, with both of its ways to
step over their singularity, is the scheme "angles".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sympy
from sympy import Abs, Matrix, atan, cos, eye, sign, sin, sqrt

from servonode.mechanics import (
    Model,
    arrow,
    before,
    body,
    circle,
    condition,
    coordinate,
    derivative,
    dot,
    jump,
    line,
    output,
    parameter,
    pose,
    reaction,
    stabilised,
    time,
    trail,
    vector,
    velocity,
    view,
)
from servonode.mechanics.drawing import CORNERS, FLAT
from servonode.plants.ball.start import K_NAMES, PREPARE, attitude, columns

__all__ = ["PREPARE", "model"]

Expr = Any
Column = Any  # sympy.Matrix
PLATE = 4  # radius of the drawn plate in ball radii


def model(
    scheme: Literal["quaternion", "angles"] = "quaternion",
    bypass: Literal["none", "skip", "split"] = "none",
) -> Model:
    """The machine of this file's title: x, y, x_dot, y_dot, omega, q.

    `scheme`: "angles" is the paper's model, singular: x, y, alpha, beta, gamma and their rates. `bypass`: how that
    steps over its singularity.
    """
    return _quaternions() if scheme == "quaternion" else _angles(bypass)


@dataclass(frozen=True)
class Plate:
    """Ball, plate and the force between them, the same in both schemes."""

    x: Expr
    y: Expr
    m: Expr
    a: Expr
    J: Expr
    Omega: Expr
    pull: Column  # gravity along the plate
    K: Column
    mu_f: Expr
    g_n: Expr
    F: Column

    @property
    def parameters(self) -> tuple[Expr, ...]:
        return (self.m, self.a, self.J, self.Omega, *self.pull, *self.K, self.mu_f, self.g_n)

    @property
    def v(self) -> Column:
        return Matrix([self.x.rate, self.y.rate])

    @property
    def potential(self) -> Expr:
        return -self.m * self.pull.dot(Matrix([self.x, self.y]))

    def contact(self, omega: Column) -> Column:
        """Velocity (2,) of the ball's material point in the contact."""
        return self.v + self.a * Matrix([-omega[1], omega[0]])

    def slip(self, omega: Column) -> Column:
        """That velocity relative to the plate."""
        return self.contact(omega) + self.Omega * Matrix([self.y, -self.x])

    def reactions(self, omega: Column) -> dict[Expr, Expr]:
        """The friction force does its work on the ball's point in the contact: the plate drives and brakes."""
        return dict(zip(self.F, self.contact(omega), strict=True))

    def held(self, omega: Column, rows: Sequence[Expr]) -> tuple[Any, ...]:
        """Both components of the slip, each with its row."""
        slip = self.slip(omega)
        return tuple(
            stabilised(f"slip_{axis}", f"velocity of the contact against the plate, along {axis}", f, row, "m/s")
            for axis, f, row in zip("xy", slip, rows, strict=True)
        )  # fmt: skip

    def outputs(self, omega: Column, q: Sequence[Expr]) -> tuple[Any, ...]:
        """What both schemes show."""
        x, y, v, m, a, J, Omega = self.x, self.y, self.v, self.m, self.a, self.J, self.Omega
        turning = J * Omega / (J + m * a**2)
        # of a plate at rest the path has no centre: the place itself, not a division by zero
        radius = turning / (turning**2 + sympy.Float("1e-300"))
        moving = m * v.dot(v) / 2 + J * omega.dot(omega) / 2 - Omega * (m * (x * v[1] - y * v[0]) + J * omega[2])
        return (
            output("speed", "speed of the centre", sqrt(v.dot(v)), "m/s"),
            output("friction", "size of the friction force", sqrt(self.F.dot(self.F)), "N"),
            output("c_x", "centre of the circle that a level plate makes of the path, along x", x - v[1] * radius, "m"),
            output("c_y", "the same along y", y + v[0] * radius, "m"),
            output("E_moving", "energy less the plate's work, constant on a level plate of constant rate", moving, "J"),
            output("L_x", "angular momentum about the contact, along x", J * omega[0] - m * a * v[1], "kg m^2/s"),
            output("L_y", "angular momentum about the contact, along y", J * omega[1] + m * a * v[0], "kg m^2/s"),
            output("D", "distance of the attitude from where the angles are singular", sqrt(q[0] ** 2 + q[1] ** 2)),
            output("turn", "angle of the plate, of a constant or evenly changing rate", self.turn, "rad"),
        )  # fmt: skip

    @property
    def turn(self) -> Expr:
        return self.Omega * time - self.Omega.rate * time**2 / 2

    def drawing(self, q: Sequence[Expr]) -> list[Any]:
        """The ball on its plate from above, on it painted two great circles and a pole; the ball by itself."""
        axes, a, radius = _axes(q), self.a, PLATE * self.a
        centre, plate = Matrix([self.x, self.y]), Matrix([cos(self.turn), sin(self.turn)])

        def ball(at: Column) -> list[Any]:
            middle = Matrix([*at, 0])  # what is painted is hidden where it is lower
            painted = [circle(middle, a, across=axes[0], up=axes[i], corners=2 * CORNERS) for i in (1, 2)]
            return [circle(at, a), *painted, dot(middle + a * axes[2])]

        return [
            view(*ball(centre), circle((0, 0), radius, thin=True),
                 line(0.85 * radius * plate, radius * plate, thin=True),
                 line((-0.05 * radius, 0), (0.05 * radius, 0), thin=True),
                 line((0, -0.05 * radius), (0, 0.05 * radius), thin=True),
                 trail(centre, "centre of the ball"), arrow(centre, self.F, name="friction of the plate"),
                 pose("ball", (*centre, a), axes),
                 pose("plate", (0, 0, 0), [(plate[0], plate[1], 0), (-plate[1], plate[0], 0), (0, 0, 1)]),
                 title="from above"),
            view(*ball(Matrix([0, 0])), title="the ball from above", strip=True, axes=FLAT,
                 caption=("x {:.2f}, y {:.2f}", self.x, self.y)),
        ]  # fmt: skip

    @property
    def warnings(self) -> tuple[Any, ...]:
        needed = sqrt(self.F.dot(self.F))
        shell = sympy.Rational(2, 3) * self.m * self.a**2 * (1 + sympy.Rational(1, 10**9))  # rounding must not warn
        return (
            condition(needed < self.mu_f * self.m * self.g_n, "the ball would slip (friction force > mu_f m g_n)"),
            condition(shell >= self.J, "not a real ball: its mass would lie outside its surface (J > 2/3 m a^2)"),
        )


def _axes(q: Sequence[Expr]) -> list[Column]:
    """The ball's axes by its quaternion."""
    w, v = q[0], Matrix(q[1:])
    turned = (w**2 - v.dot(v)) * eye(3) + 2 * v * v.T + 2 * w * v.hat()
    return [turned[:, k] for k in range(3)]


def _plate() -> Plate:
    K = [
        parameter(name, f"row {1 + i // 2}, column {1 + i % 2} of the matrix K in f' = K f of the slip f", "1/s",
                  default=-5.0 if i in (0, 3) else 0.0)
        for i, name in enumerate(K_NAMES)
    ]  # fmt: skip
    return Plate(
        coordinate("x", "position of the centre along x, from the plate's axis", "m"),
        coordinate("y", "position of the centre along y, from the plate's axis", "m"),
        parameter("m", "mass", "kg", default=1.0, above=0),
        parameter("a", "radius", "m", default=1.0, above=0),
        parameter("J", "central inertia; of a solid ball 2/5*m*a^2, of a thin shell 2/3*m*a^2", "kg m^2",
                  default=0.4, above=0),
        parameter("Omega", "rate of the plate, counterclockwise from above", "rad/s", default=1.0),
        Matrix([parameter(f"g_{axis}", f"gravity along a tilted plate, along {axis}", "m/s^2", default=0.0)
                for axis in "xy"]),
        Matrix(2, 2, K),
        parameter("mu_f", "friction coefficient of the plate, for a warning only", default=0.5, above=0),
        parameter("g_n", "gravity along the plate's normal, for that warning only", "m/s^2", default=9.81, above=0),
        Matrix([reaction(f"F_{axis}", f"friction force of the plate on the ball along {axis}", "N") for axis in "xy"]),
    )  # fmt: skip


def _quaternions() -> Model:
    """Position, angular velocity and quaternion: singular nowhere."""
    plate = _plate()
    q = vector(coordinate, "q", "attitude quaternion, scalar first", start=(1, 0, 0, 0))
    omega = vector(velocity, "omega", "angular velocity", "rad/s")
    of_vector = Matrix(q[1:])
    turning = Matrix([-omega.dot(of_vector), *(q[0] * omega + omega.cross(of_vector))]) / 2
    f = plate.slip(omega)
    return Model(
        name="ball_on_turntable",
        description="ball rolling on a turning plate",
        parameters=plate.parameters,
        coordinates=(plate.x, plate.y, *q),
        kinematics=dict(zip(q, turning, strict=True)),
        velocities=tuple(omega),
        order=(plate.x, plate.y, *plate.v, *omega, *q),
        bodies=(body("ball", mass=plate.m, velocity=plate.v, inertia=plate.J, angular_velocity=omega),),
        potential=plate.potential,
        reactions=plate.reactions(omega),
        stabilised=plate.held(omega, [derivative(each) - row for each, row in zip(f, plate.K * f, strict=True)]),
        identities={"norm of q": q.dot(q) - 1},
        outputs=plate.outputs(omega, q),
        warnings=plate.warnings,
        panels=(("x", "y"), ("F_x", "F_y"), ("omega_0", "omega_1")),
        drawing=plate.drawing(q),
    )


def _angles(bypass: str) -> Model:
    """The paper's model, its friction force by the explicit formula, so that nothing but its angles is singular."""
    plate = _plate()
    angles: list[Any] = [
        coordinate(name, f"angle {name} of the attitude", "rad") for name in ("alpha", "beta", "gamma")
    ]
    alpha, beta, gamma = angles
    q = attitude(sympy, *angles)
    parts = [Matrix(each) * angle.rate for each, angle in zip(columns(sympy, *angles), angles, strict=True)]
    omega: Column = parts[0] + parts[1] + parts[2]
    spin = alpha.rate**2 + cos(alpha) ** 2 * (beta.rate**2 + cos(beta) ** 2 * gamma.rate**2)
    jumps, window, warnings = _bypass(bypass, beta)
    return Model(
        name="ball_on_turntable",
        description="ball rolling on a turning plate",
        kinetic=plate.m * plate.v.dot(plate.v) / 2 + 2 * plate.J * spin,
        parameters=(*plate.parameters, *window),
        coordinates=(plate.x, plate.y, *angles),
        potential=plate.potential,
        reactions=plate.reactions(omega),
        stabilised=plate.held(omega, plate.F - _explicit(plate, omega)),
        jumps=jumps,
        outputs=(
            *plate.outputs(omega, q),
            *(output(f"omega_{i}", f"angular velocity, entry {i}", each, "rad/s") for i, each in enumerate(omega)),
            *(output(f"q_{i}", f"attitude quaternion, scalar first, entry {i}", each) for i, each in enumerate(q)),
        ),
        warnings=(*plate.warnings, *warnings),
        panels=(("x", "y"), ("alpha", "beta", "gamma"), ("F_x", "F_y"), ("omega_0", "omega_1")),
        drawing=plate.drawing(q),
    )


def _explicit(plate: Plate, omega: Column) -> Column:
    """The friction force solved by hand: M_r of the angles, which is singular, has gone."""
    reduced = plate.m * plate.J / (plate.J + plate.m * plate.a**2)
    across, place = Matrix([plate.v[1], -plate.v[0]]), Matrix([plate.y, -plate.x])
    return reduced * (plate.K * plate.slip(omega) - plate.pull - plate.Omega * across - plate.Omega.rate * place)


def _bypass(bypass: str, beta: Expr) -> tuple[tuple[Any, ...], tuple[Expr, ...], tuple[Any, ...]]:
    """Jumps, parameters and warnings of a bypass of cos(beta) = 0."""
    if bypass == "none":
        return (), (), ()
    epsilon = parameter("epsilon", "half width of the window about cos(beta) = 0", "rad", default=0.05, above=0)
    delta = parameter("delta", "size of the jump of beta there", "rad", default=0.87, above=0)
    way = sign(beta - before(beta))
    middle = beta + atan(cos(beta) / sin(beta))  # of the window
    landing = (before(beta) if bypass == "skip" else middle) + way * delta
    inside = Abs(cos(beta)) < sin(epsilon)
    text = "the paper requires delta > 2 epsilon: after a smaller jump, beta may still be in the window"
    return (
        (jump(inside, {beta: landing}, f"{bypass} of the singular angle beta"),),
        (epsilon, delta),
        (condition(delta > 2 * epsilon, text),),
    )
