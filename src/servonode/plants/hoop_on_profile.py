"""Hoop on a profile: a hoop, disc or ball rolls in a vertical plane on a curve, without slip and without leaving it.

Axes x to the right, z up. theta is the hoop's angle, counterclockwise: rolling to the right turns it negatively. alpha
is the direction from the centre to the contact point, -pi < alpha < 0. The profile is h(x, z) = 0 with h decreasing
upwards; h and its derivatives are those at the contact point (x + r cos alpha, z + r sin alpha).

Nothing acts but gravity. The reaction R, its torque Q about the centre and the rate U of alpha are unknowns; contact,
energy, rolling and tangency determine them, each brought back at the rate lambda where the numbers have left it. The
fault: the profile would have to pull.

Paper: I. V. Matrosov, Yu. V. Morozov, A. V. Pesterev, with the corrections listed in docs/systems/hoop_on_profile.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sympy import Abs, Matrix, Symbol, cos, diff, sign, sin, sqrt

from servonode.mechanics import (
    Model,
    arrow,
    circle,
    condition,
    coordinate,
    dot,
    line,
    output,
    parameter,
    pose,
    reaction,
    stabilised,
    trail,
    view,
)
from servonode.plants.hoop.profile import read
from servonode.plants.hoop.start import LOST, PREPARE
from servonode.plants.views.hoop_on_profile import VIEW

Expr = Any
Column = Any  # sympy.Matrix

__all__ = ["PREPARE", "VIEW", "model"]


def model(
    profile: str = "x**4 + 0.13*x**3 - 0.5*x**2 - 0.13*x - 0.5",
    turning: Literal["blended", "energy"] = "blended",
) -> Model:
    """The machine of this file's title, in the state order x, z, theta, x_dot, z_dot, theta_dot, alpha.

    `profile`: z = p(x), an expression of x; or h(x, z) = 0, an expression of x and z. `turning`: "energy" is the
    paper's row, singular where the hoop turns; it is there for comparison.
    """
    hoop = _rolling(profile)
    x, z, theta, alpha = hoop.x, hoop.z, hoop.theta, hoop.alpha
    R_x, R_z = hoop.R
    return Model(
        name="hoop_on_profile",
        description="hoop rolling on a curved profile",
        parameters=(hoop.M, hoop.r, hoop.kappa, hoop.g, hoop.rate, hoop.epsilon, hoop.E_0, hoop.floor),
        coordinates=(x, z, theta, alpha),
        kinematics={alpha: hoop.U},
        order=(x, z, theta, x.rate, z.rate, theta.rate, alpha),
        kinetic=hoop.kinetic,
        potential=hoop.potential,
        reactions={R_x: x.rate, R_z: z.rate, hoop.Q: theta.rate, hoop.U: 0},
        stabilised=hoop.held(turning),
        outputs=hoop.outputs,
        faults=(
            condition(hoop.normal >= 0, LOST, "contact_lost"),
            condition(hoop.d > 0, "the profile is too curved for the hoop here (d <= 0)", "too_curved"),
        ),
        panels=(("x_dot", "z_dot"), ("n", "F_t"), ("friction_needed",)),
        drawing=hoop.drawing,
    )


@dataclass(frozen=True)
class Rolling:
    """The hoop, the profile at its contact point, and the unknowns between the two: all symbols of its equations."""

    x: Any
    z: Any
    theta: Any
    alpha: Any
    M: Expr
    r: Expr
    kappa: Expr
    g: Expr
    rate: Expr
    epsilon: Expr
    E_0: Expr
    floor: Expr
    R: Column  # force of the profile
    Q: Expr
    U: Expr
    curve: "Curve"

    @property
    def v(self) -> Column:
        return Matrix([self.x.rate, self.z.rate])

    @property
    def mu(self) -> Column:
        """From the centre to the contact."""
        return Matrix([cos(self.alpha), sin(self.alpha)])

    @property
    def chi(self) -> Column:
        """Along the profile."""
        return Matrix([-sin(self.alpha), cos(self.alpha)])

    @property
    def kinetic(self) -> Expr:
        return self.M * self.v.dot(self.v) / 2 + self.kappa * self.M * self.r**2 * self.theta.rate**2 / 2

    @property
    def potential(self) -> Expr:
        return self.M * self.g * self.z

    @property
    def normal(self) -> Expr:
        return -self.R.dot(self.mu)

    @property
    def g1(self) -> Expr:
        return self.v.dot(self.curve.gradient)

    @property
    def d(self) -> Expr:
        return self.curve.gradient.dot(self.mu) - self.r * self.chi.dot(self.curve.hessian * self.chi)

    def held(self, turning: str) -> tuple[Any, ...]:
        """The four residuals, each with its row."""
        M, r, g, rate, v, R, Q, U = self.M, self.r, self.g, self.rate, self.v, self.R, self.Q, self.U
        mu, chi, eta, H = self.mu, self.chi, self.curve.gradient, self.curve.hessian
        f1, f3 = self.curve.h, v.dot(chi) + r * self.theta.rate
        f4 = mu.dot(Matrix([-eta[1], eta[0]]))
        f2 = self.kinetic + self.potential - self.E_0
        across = v.dot(H * chi)
        # f1'' + 2 lambda f1' + lambda^2 f1 = 0 but for the second derivative of what vanishes on the profile
        pull = g * eta[1] - v.dot(H * v) - r * across * U - 2 * rate * (self.g1 - r * U * f4) - rate**2 * f1
        slip = R.dot(chi) + Q / (self.kappa * r) - M * (g * cos(self.alpha) - rate * f3 + U * v.dot(mu))
        energy = self._energy_row(f2, turning)
        return (
            stabilised("contact", "h at the contact point", f1, eta.dot(R) - M * pull, "m"),
            stabilised("energy", "energy less E_0", f2, energy, "J"),
            stabilised("slip", "velocity of the hoop at the contact point", f3, slip, "m/s"),
            stabilised("tangency", "gradient of h across the radius", f4, self.d * U - across + rate * f4),
        )

    def _energy_row(self, f2: Expr, turning: str) -> Expr:
        turn, epsilon = self.theta.rate, self.epsilon
        closure = self.Q - self.r * self.R.dot(self.chi)  # zero: the force acts at the contact point
        power = self.v.dot(self.R) + turn * self.Q + self.rate * f2  # f2' + lambda f2
        if turning == "energy":
            moving = sign(turn) ** 2  # 0 at a turning point exactly, where the row has no other limit
            return moving * power + (1 - moving) * closure
        weight = epsilon**2 / (turn**2 + epsilon**2)
        return turn / (turn**2 + epsilon**2) * power + weight * closure

    @property
    def outputs(self) -> tuple[Any, ...]:
        x_a, z_a = self.x + self.r * cos(self.alpha), self.z + self.r * sin(self.alpha)
        tangential = self.R.dot(self.chi)
        along = "tangential force of the profile on the hoop, along (-sin alpha, cos alpha)"
        needed = Abs(tangential) / Abs(self.normal)
        curvature = "curvature of the profile at the contact, positive in a valley"
        return (
            output("x_a", "contact point, to the right", x_a, "m"),
            output("z_a", "contact point, height", z_a, "m"),
            output("n", "normal force of the profile on the hoop", self.normal, "N"),
            output("F_t", along, tangential, "N"),
            output("friction_needed", "friction coefficient that rolling needs, |F_t|/n", needed),
            output("g1", "rate at which the contact would be left: (v, grad h)", self.g1, "m/s"),
            output("d", "denominator of U, above 0 where the profile is not too curved", self.d),
            output("slope", "slope of the profile at the contact", self.curve.slope),
            output("curvature", curvature, self.curve.curvature, "1/m"),
        )

    @property
    def drawing(self) -> list[Any]:
        """The hoop with a spoke and its contact point, from the side as a whole, and close up with the centre held."""

        def shapes(at: Column) -> list[Any]:
            spoke = self.r * Matrix([cos(self.theta), sin(self.theta)])
            return [
                circle(at, self.r), line(at, at + spoke), dot(at + self.r * self.mu),
                arrow(at + self.r * self.mu, self.R, name="force of the profile"),
            ]  # fmt: skip

        centre, speed = Matrix([self.x, self.z]), self.z.rate * cos(self.alpha) - self.x.rate * sin(self.alpha)
        trails = trail(centre, "centre"), trail(centre + self.r * self.mu, "contact")
        return [
            view(*shapes(centre), *trails, pose("hoop", centre, self.theta),
                 title="from the side", axes=("x [m]", "z [m]")),
            view(*shapes(Matrix([0, 0])), title="close up, with the speed of the centre", strip=True,
                 caption=("{:+.2f} m/s", speed)),
        ]  # fmt: skip


def _rolling(profile: str) -> Rolling:
    x = coordinate("x", "position of the centre, to the right", "m", start=0.9904396771522084)
    z = coordinate("z", "height of the centre", "m", start=0.002932614370488108)
    alpha = coordinate("alpha", "direction from the centre to the contact", "rad", start=-0.29763649109280677)
    r = parameter("r", "radius", "m", default=0.01, above=0)
    force = [reaction(f"R_{axis}", f"force of the profile {way}", "N")
             for axis, way in (("x", "to the right"), ("z", "upwards"))]  # fmt: skip
    return Rolling(
        x,
        z,
        coordinate("theta", "angle of the hoop, counterclockwise", "rad"),
        alpha,
        parameter("M", "mass", "kg", default=1.0, above=0),
        r,
        parameter("kappa", "inertia J/(M r^2): hoop 1, disc 1/2, shell 2/3, ball 2/5", default=1.0, above=0),
        parameter("g", "gravity", "m/s^2", default=9.81, above=0),
        parameter("lambda", "convergence rate of all residuals", "1/s", default=10.0, at_least=0),
        parameter("epsilon", "half width of a turning point in theta_dot", "rad/s", default=1.0, above=0),
        parameter("E_0", "energy that is kept", "J", default=0.02876894697448834),
        parameter("floor", "reference size of the residuals, for step = 'auto' only", default=1e-8, above=0),
        Matrix(force),
        reaction("Q", "torque of the profile's force about the centre", "N m"),
        reaction("U", "rate of alpha", "rad/s"),
        Curve(profile, x + r * cos(alpha), z + r * sin(alpha)),
    )


class Curve:
    """h with its gradient and second derivatives at a place, as expressions."""

    def __init__(self, text: str, at_x: Expr, at_z: Expr) -> None:
        profile = read(text)
        names = {name: Symbol(name, real=True) for name in ("x", "z")}
        stated = profile.expression.sympy(names)
        where = (names["x"], names["z"])
        h = stated if profile.implicit else stated - names["z"]
        place: Mapping[Any, Any] = {names["x"]: at_x, names["z"]: at_z}
        first = [diff(h, each) for each in where]
        self.h = h.xreplace(place)
        self.gradient = Matrix(first).xreplace(place)
        self.hessian = Matrix(2, 2, [diff(each, other) for each in first for other in where]).xreplace(place)
        self.slope = -self.gradient[0] / self.gradient[1]

    @property
    def curvature(self) -> Expr:
        """Of the curve h = const [1/m], positive in a valley where h decreases upwards."""
        tangent = Matrix([-self.gradient[1], self.gradient[0]])
        return tangent.dot(self.hessian * tangent) / tangent.dot(tangent) * (1 / sqrt(tangent.dot(tangent)))
