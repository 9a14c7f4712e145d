"""Common parts of the pendulum sphero's programs: settings, limits, checks (docs/systems/pendulum_sphero.md, Programs).

A program states what its centre is to do; the engine finds the torque. What the residuals leave free is the pendulum,
an undamped swing where A > m l R and a runaway otherwise; hence the internal damping kappa and most refusals.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sympy import Rational, cos, pi, sin, sqrt

from servonode.controllers.engine.program import Limit, Program, Residual, late, limit, residual, target
from servonode.mechanics import Model, condition, parameter
from servonode.mechanics.symbols import Condition, Parameter

Expr = Any
Plane = Sequence[Expr]  # two components along x and y
Rule = Literal["min_norm", "spin"]
RATE = 2.0  # default rate of most residuals, 1/s
MARGIN = Rational(21, 20)  # by which A must exceed m l R: nearer to it the swing is too fast for any sampling


class Sphero:
    """The robot in the words of its page, one attribute each: r and v of the centre, n_h, derived constants."""

    def __init__(self, machine: Model) -> None:
        self.machine = machine
        self.R, self.g, self.C3 = machine["R"], machine["g"], machine["C3"]
        self.ml = machine["m"] * machine["l"]
        self.A = machine["i"] + self.ml * machine["l"]
        self.mu = machine["M"] + machine["m"] + machine["I"] / self.R**2
        self.D0 = self.A - self.ml * self.R
        self.G = self.mu * self.R - self.ml
        self.torques = tuple(machine[f"Q_{axis}"] for axis in "xyz")
        self.n, self.spin = machine["n"], machine["omega"][2]
        self.r = (machine["X"], machine["Y"])
        self.v = (machine["X"].rate, machine["Y"].rate)
        self.n_h = tuple(self.n[:2])
        self.n_h_rate = tuple(each.rate for each in self.n_h)

    @property
    def a_max(self) -> Expr:
        """The largest steady acceleration that a constant torque can hold [m/s^2]."""
        return self.g * self.ml / sqrt(self.mu**2 * self.R**2 - self.ml**2)

    @property
    def omega_f_squared(self) -> Expr:
        """The free swing's frequency, squared [1/s^2]."""
        return self.ml * self.g / (self.A - self.ml**2 / self.mu)

    def barrier(self, theta: Expr, a: Expr) -> Expr:
        """Pi(theta): positive where a pendulum cannot get from rest while the centre accelerates with a."""
        A, R, ml, mu = self.A, self.R, self.ml, self.mu
        weight = A * (1 - cos(theta)) - ml * R * sin(theta) ** 2 / 2
        push = A * mu * R * theta - ml * (A + mu * R**2) * sin(theta)
        push += ml**2 * R * (theta + sin(theta) * cos(theta)) / 2
        return ml * self.g * weight - a * push


class Drive:
    """Common part of the programs that prescribe the centre's acceleration: kappa, limits, refusals, warnings."""

    def __init__(self, robot: Sphero) -> None:
        self.robot = robot
        text = "internal damping of the pendulum; residuals then hold up to kappa |n_h'| / rate"
        self.kappa = parameter("kappa", text, "m/s", default=0.05, at_least=0)
        self.a_lim = acceleration_limit()
        self.Q_max, self.torque = torque_limit(robot)

    def row(self, name: str, expression: Expr, along: Plane, description: str, unit: str) -> Residual:
        """A residual whose highest derivative is the centre's acceleration along the vector `along`."""
        damping = self.kappa * dot(along, self.robot.n_h_rate)
        return residual(name, expression, description, unit, rate=RATE, damping=damping)

    def velocity_rows(self, W: Plane) -> list[Residual]:
        """v = W: the residuals v_x and v_y."""
        v = self.robot.v
        return [
            self.row("v_x", v[0] - W[0], (1, 0), "velocity along x less its reference", "m/s"),
            self.row("v_y", v[1] - W[1], (0, 1), "velocity along y less its reference", "m/s"),
        ]

    def program(
        self,
        name: str,
        description: str,
        rows: Sequence[Residual],
        rule: Rule,
        *,
        parameters: Sequence[Parameter] = (),
        start: Mapping[Parameter, Expr] | None = None,
        requirements: Sequence[Condition] = (),
        finite: Sequence[Residual] = (),
        **more: Any,
    ) -> Program:
        """The program of two rows, completed by `rule`; `finite` are those rows that are finite constraints."""
        spin = residual("spin", self.robot.spin, "the shell's spin about the vertical", "rad/s", rate=RATE)
        return Program(
            name=name,
            description=description,
            residuals=(*rows, spin) if rule == "spin" else rows,
            parameters=(*parameters, self.kappa, self.a_lim, self.Q_max),
            start={**(start or {}), self.a_lim: self.robot.a_max / 2},
            limits=(self.limit_of(rows), self.torque),
            least_norm=rule == "min_norm",
            requirements=(self.no_runaway, *(self.damps(each.gain) for each in finite), *requirements),
            warnings=self.warnings,
            **more,
        )

    def limit_of(self, rows: Sequence[Residual], size: Expr = 1) -> Limit:
        """|a| <= a_lim for rows that are `size` for a unit acceleration."""
        return limit("acceleration", rows, self.a_lim * size, "acceleration of the centre, scaled down to a_lim")

    @property
    def no_runaway(self) -> Condition:
        """The exact servo is for pendulums that swing about their program."""
        robot = self.robot
        swings: Condition = condition(
            MARGIN * robot.ml * robot.R <= robot.A,
            "this pendulum runs away while the centre is held to a program; give it a larger i or a smaller l, or take "
            'program = "cascade", which works with any pendulum',
        )
        return swings

    def damps(self, rate: Expr) -> Condition:
        """lambda^2 + G kappa lambda / (2 D0) < omega_0^2 for twice the rate, where there is a kappa."""
        robot, kappa = self.robot, self.kappa
        demand = robot.D0 * (2 * rate) ** 2 + robot.G * kappa * rate
        damped: Condition = condition(
            kappa * demand <= kappa * robot.ml * robot.g,
            f"{rate} is too high for the internal damping, which would excite the pendulum: at twice this rate "
            "lambda^2 + G kappa lambda / (2 D0) must stay below m g l / D0; take a smaller rate or a smaller kappa",
        )
        return damped

    @property
    def warnings(self) -> tuple[Condition, Condition]:
        """Warnings of a zero-order hold that excites the pendulum, and of demands that swing it up."""
        robot = self.robot
        return (
            condition(
                self.kappa > robot.ml / robot.mu * robot.omega_f_squared * late,
                "held torques excite the pendulum faster than kappa damps it: kappa must exceed "
                "m l / mu omega_f^2 (period / 2 + delay); take a larger kappa, a shorter period or less delay",
            ),
            condition(
                robot.barrier(5 * pi / 12, self.a_lim) >= 0,
                "a sudden demand of a_lim from rest tips the pendulum past 75 degrees; take a smaller a_lim",
            ),
        )


def acceleration_limit() -> Parameter:
    text = "bound on the centre's acceleration (default: half the largest steady one)"
    a_lim: Parameter = parameter("a_lim", text, "m/s^2", above=0)
    return a_lim


def torque_limit(robot: Sphero) -> tuple[Parameter, Limit]:
    Q_max = parameter("Q_max", "bound on the torque", "N m", default=1.2, above=0)
    return Q_max, limit("torque", robot.torques, Q_max, "torque, scaled down to Q_max")


def dot(a: Plane, b: Plane) -> Expr:
    return a[0] * b[0] + a[1] * b[1]


def turned(a: Plane) -> Plane:
    """By +90 degrees."""
    return -a[1], a[0]


def point(description: str, default: tuple[float, float]) -> list[Parameter]:
    """The setting `point`, a list of two."""
    return [
        parameter(f"point_{k}", f"{description}, along {axis}", "m", default=default[k]) for k, axis in enumerate("xy")
    ]


class Approach:
    """v = W = alpha (1 - rho0/rho) (P - r) towards the target P, as `pursuit` holds it and `cascade` follows it."""

    def __init__(self, robot: Sphero) -> None:
        self.robot = robot
        self.targets = tuple(target(axis, f"position of the target along {axis}", "m") for axis in "xy")
        self.alpha = parameter("alpha", "approach speed per metre of distance", "1/s", default=1.0, above=0)
        self.rho0 = parameter("rho0", "distance to keep (default: the initial distance)", "m", above=0)
        text = "least distance, the radii of shell and target (default: the shell's)"
        self.h = parameter("h", text, "m", at_least=0)
        text = "the target's largest speed, to refuse gains that may run into it; 0: not stated"
        self.v_max = parameter("v_max", text, "m/s", default=0.0, at_least=0)
        self.d = [P - r for P, r in zip(self.targets, robot.r, strict=True)]
        self.rho = sqrt(self.d[0] ** 2 + self.d[1] ** 2)
        self.W = [self.alpha * (1 - self.rho0 / self.rho) * each for each in self.d]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return (self.alpha, self.rho0, self.h, self.v_max)

    @property
    def start(self) -> dict[Parameter, Expr]:
        return {self.rho0: self.rho, self.h: self.robot.R}

    @property
    def W_rate(self) -> list[Expr]:
        """The rate of W [m/s^2]."""
        d_rate = [P.rate - v for P, v in zip(self.targets, self.robot.v, strict=True)]
        rho_rate = (self.d[0] * d_rate[0] + self.d[1] * d_rate[1]) / self.rho
        share = 1 - self.rho0 / self.rho
        return [
            self.alpha * (share * rate + self.rho0 / self.rho**2 * rho_rate * d)
            for d, rate in zip(self.d, d_rate, strict=True)
        ]

    @property
    def guard(self) -> Condition:
        text = "the target is nearer than h: the robot is about to touch it; start farther away or give a larger rho0"
        nearer: Condition = condition(self.rho > self.h, text)
        return nearer

    @property
    def requirements(self) -> list[Condition]:
        """Gains at which the robot may meet its target."""
        keep = "the distance to keep must exceed the radii of shell and target; give a larger rho0"
        meet = (
            "a target as fast as v_max could be run into: alpha must exceed v_max / (rho0 - h); give a larger alpha "
            "or rho0, or leave v_max out"
        )
        room = self.rho0 - self.h
        return [condition(self.rho0 > self.h, keep), condition(self.alpha * room > self.v_max, meet)]


def tilt_rows(robot: Sphero, wanted: Sequence[Expr], rate: float) -> list[Residual]:
    """n_h as wanted: the residuals tilt_x and tilt_y."""
    return [
        residual(f"tilt_{axis}", n - n_d, f"part of n along {axis} less its reference", rate=rate)
        for axis, n, n_d in zip("xy", robot.n_h, wanted, strict=True)
    ]


def hanging(robot: Sphero) -> Condition:
    """The horizontal part says where the pendulum is only while it hangs."""
    text = "the pendulum is no longer below the centre, where its horizontal part tells its tilt; ask for smaller tilts"
    below: Condition = condition(-robot.n[2] > 0, text)
    return below
