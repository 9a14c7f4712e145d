"""Two-link snowboarder: a blade with a knife edge on an inclined plane, and a body that leans on it.

Axes x0, y0, z: down the fall line, to its left in the plane, along the outward normal. The blade is a rod in the plane;
its centre (x0, y0) has the forward speed v along the heading phi0 (counterclockwise from x0) and never slips sideways.
The body is a thin rod on a ball joint at the blade's centre, pitch theta positive towards the nose, lean sigma positive
to the left, both relative to the blade; upright at 0, 0. In the blade's axes t (forward), b (left), n (normal) it
points along e = (E_t, E_b, E_n) = (cos sigma sin theta, sin sigma, cos sigma cos theta). It has no inertia about its
own axis and does not spin about it. The blade stays on the plane whatever the normal force: watch N, c_t, c_b and E_n.

Paper: I. E. Kaspirovich, R. G. Mukharlyamov, Stabilization and control of the simplest model of a snowboarder,
with the corrections listed in docs/systems/snowboarder.md.
"""

from typing import Any, Literal

from sympy import Abs, Matrix, Rational, atan2, cos, diff, pi, sign, sin, sqrt, tan

from servonode.mechanics import (
    Model,
    arrow,
    condition,
    constraint,
    coordinate,
    dot,
    input_,
    line,
    magnification,
    output,
    parameter,
    polygon,
    pose,
    trail,
    velocity,
    view,
)
from servonode.plants.views.snowboarder import VIEW

__all__ = ["VIEW", "model"]


def model(
    gravity: Literal["full", "paper"] = "full",
    input_set: Literal["relative", "total", "absolute"] = "relative",
) -> Model:
    """The machine of this file's title: x0, y0, phi0, theta, sigma, v, omega, theta_dot, sigma_dot.

    `gravity`: "paper" lets all of the weight pull at the blade, as the paper does. `input_set`: the yaw moment of the
    snow ("relative"), the whole yaw moment on the blade ("total"), or the paper's forces of absolute angles.
    """
    x0 = coordinate("x0", "position of the blade's centre down the fall line", "m")
    y0 = coordinate("y0", "position of the blade's centre to the left of the fall line", "m")
    phi0 = coordinate("phi0", "heading of the blade from the fall line, unwrapped", "rad")
    theta = coordinate("theta", "pitch of the body towards the nose, relative to the blade", "rad")
    sigma = coordinate("sigma", "lean of the body to the left, relative to the blade", "rad")
    v = velocity("v", "forward speed of the blade", "m/s")
    omega = velocity("omega", "yaw rate of the blade", "rad/s")

    m0 = parameter("m0", "mass of the blade: board and bindings", "kg", default=6.0, above=0)
    l0 = parameter("l0", "length of the blade", "m", default=1.6, above=0)
    J0 = parameter("J0", "yaw inertia of the blade; of a uniform rod m0*l0^2/12", "kg m^2", default=1.28, above=0)
    m1 = parameter("m1", "mass of the body", "kg", default=70.0, above=0)
    l1 = parameter("l1", "length of the body", "m", default=1.8, above=0)
    n1 = parameter("n1", "height of the body's centre of mass as part of its length", default=0.5, above=0)
    J1 = parameter(
        "J1", "transverse central inertia of the body; of a uniform rod m1*l1^2/12", "kg m^2", default=18.9, at_least=0
    )
    g = parameter("g", "gravity", "m/s^2", default=9.81, above=0)
    alpha = parameter("alpha", "inclination of the slope", "rad", default=0.15, at_least=0)
    c1 = parameter("c1", "drag along the blade per speed", "kg/s", default=0.0, at_least=0)
    c2 = parameter("c2", "drag along the blade per speed squared", "kg/m", default=0.0, at_least=0)
    k_t = parameter("k_t", "brake along the blade, the safe action after a fault", "kg/s", default=20.0, at_least=0)
    k_n = parameter("k_n", "brake of the blade's yaw, the safe action after a fault", "N m s", default=5.0, at_least=0)
    k_j = parameter("k_j", "brake in the joint, the safe action after a fault", "N m s", default=100.0, at_least=0)
    half_width = parameter("half_width", "half width of the board, for a warning only", "m", default=0.13, above=0)
    half_edge = parameter("half_edge", "half effective edge, for a warning only", "m", default=0.6, above=0)

    # triples in the blade's axes t, b, n
    E = Matrix([cos(sigma) * sin(theta), sin(sigma), cos(sigma) * cos(theta)])
    E_theta, E_sigma = diff(E, theta), diff(E, sigma)
    E_omega = Matrix([-E[1], E[0], 0])
    e_rate = E_theta * theta.rate + E_sigma * sigma.rate + E_omega * phi0.rate
    forward = x0.rate * cos(phi0) + y0.rate * sin(phi0)
    sideways = y0.rate * cos(phi0) - x0.rate * sin(phi0)
    speed = sqrt(x0.rate**2 + y0.rate**2)  # |v| on the edge, and so the drag has no sideways part
    body_rate = Matrix([forward, sideways, 0]) + l1 * n1 * e_rate
    weight = Matrix([g * sin(alpha) * cos(phi0), -g * sin(alpha) * sin(phi0), -g * cos(alpha)])

    kinetic = (
        m0 * (x0.rate**2 + y0.rate**2)
        + J0 * phi0.rate**2
        + m1 * body_rate.dot(body_rate)
        + J1 * e_rate.dot(e_rate)  # no inertia about e itself
    ) / 2
    potential = -(m0 + m1) * g * sin(alpha) * x0
    if gravity == "full":
        potential -= m1 * l1 * n1 * weight.dot(E)

    # sign of E_t, +1 at 0: with it the paper's angles have |phi1 - phi0| <= pi/2 for every pose
    side = sign(sign(sin(theta)) + Rational(1, 2))
    horizontal = sqrt(E[0] ** 2 + E[1] ** 2)
    phi1_rate = (E[0] * e_rate[1] - E[1] * e_rate[0]) / horizontal**2
    psi1_rate = side * e_rate[2] / horizontal

    F_t = input_("F_t", "thrust along the blade", "N")
    Q_x0 = input_("Q_x0", "force down the fall line", "N")
    N_s = input_("N_s", "yaw moment of the snow on the blade", "N m")
    M_phi0 = input_("M_phi0", "whole yaw moment on the blade, the body's reaction in it", "N m")
    M_theta = input_("M_theta", "joint moment that pitches the body towards the nose", "N m")
    M_sigma = input_("M_sigma", "joint moment that leans the body to the left", "N m")
    M_phi1 = input_("M_phi1", "moment on the body's absolute azimuth phi1", "N m")
    M_psi1 = input_("M_psi1", "moment on the body's elevation psi1", "N m")

    # the joint's moment as a triple across the body [N m]: its power on the body is joint.e_rate
    if input_set == "absolute":
        joint = M_phi1 * E_omega / horizontal**2 + M_psi1 * side * (Matrix([0, 0, 1]) - E[2] * E) / horizontal
    else:
        joint = M_theta * E_theta / cos(sigma) ** 2 + M_sigma * E_sigma
    reaction = joint.dot(E_omega)  # the part of N_s that turns the body and not the blade
    inputs, shown = {
        "relative": (
            {F_t: forward, N_s: phi0.rate, M_theta: theta.rate, M_sigma: sigma.rate},
            {M_phi0: N_s - reaction},
        ),
        "total": (
            {
                F_t: forward,
                M_phi0: phi0.rate,
                M_theta: theta.rate - tan(sigma) * cos(theta) * phi0.rate,
                M_sigma: sigma.rate + sin(theta) * phi0.rate,
            },
            {N_s: M_phi0 + reaction},
        ),
        "absolute": (
            {Q_x0: x0.rate, M_phi0: phi0.rate, M_phi1: phi1_rate, M_psi1: psi1_rate},
            {F_t: Q_x0 * cos(phi0), N_s: M_phi0 + reaction, M_theta: joint.dot(E_theta), M_sigma: joint.dot(E_sigma)},
        ),
    }[input_set]
    # each brake against the rate on which its input works; the joint's are one k_j across the body, in every direction
    forth, yaw, pitch, azimuth = k_t, k_n, k_j * cos(sigma) ** 2, k_j * horizontal**2
    brakes = {F_t: forth, Q_x0: forth, N_s: yaw, M_phi0: yaw, M_theta: pitch, M_sigma: k_j}
    brakes |= {M_phi1: azimuth, M_psi1: k_j}

    E_n_acceleration = (
        E_theta[2] * theta.acceleration
        + E_sigma[2] * sigma.acceleration
        - E[2] * (theta.rate**2 + sigma.rate**2)
        + 2 * sin(theta) * sin(sigma) * theta.rate * sigma.rate
    )
    normal_force = (m0 + m1) * g * cos(alpha) + m1 * l1 * n1 * E_n_acceleration
    ahead = (E[0] * joint[2] - E[2] * joint[0]) / normal_force
    left = (E[1] * joint[2] - E[2] * joint[1]) / normal_force
    along = shown.get(F_t, F_t) - c1 * v - c2 * Abs(v) * v  # thrust less drag
    edge = constraint("R", "lateral snow force on the blade, to its left", sideways)
    warnings = [
        condition(normal_force > 0, "lifted: the snow would have to pull the board down (N <= 0)"),
        condition(Abs(left) <= half_width, "tipping: the pressure leaves the board sideways (|c_b| > half_width)"),
        condition(Abs(ahead) <= half_edge, "tipping: the pressure leaves the edge's length (|c_t| > half_edge)"),
    ]
    if input_set == "absolute":
        upright = "upright: the moments M_phi1, M_psi1 of absolute angles are nearly singular (cos psi1 < 0.05)"
        warnings.append(condition(horizontal >= Rational(1, 20), upright))
    return Model(
        name="snowboarder",
        description="two-link snowboarder on an inclined plane",
        parameters=(m0, l0, J0, m1, l1, n1, J1, g, alpha, c1, c2, k_t, k_n, k_j, half_width, half_edge),
        coordinates=(x0, y0, phi0, theta, sigma),
        kinematics={x0: v * cos(phi0), y0: v * sin(phi0), phi0: omega},
        velocities=(v, omega),
        order=(x0, y0, phi0, theta, sigma, v, omega, theta.rate, sigma.rate),
        kinetic=kinetic,
        potential=potential,
        dissipation=c1 * speed**2 / 2 + c2 * speed**3 / 3,
        constraints=(edge,),
        inputs=inputs,
        outputs=(
            output("N", "normal force of the snow on the blade", normal_force, "N"),
            output("c_t", "centre of pressure ahead of the blade's centre", ahead, "m"),
            output("c_b", "centre of pressure to the left of the blade's centre", left, "m"),
            output("E_n", "part of the body's direction along the slope's normal", E[2]),
            output("phi1", "absolute azimuth of the body", phi0 + atan2(side * E[1], side * E[0]), "rad"),
            output("psi1", "elevation of the body over the slope", atan2(E[2], side * horizontal), "rad"),
            *(output(u.name, u.quantity.description, on, u.quantity.unit) for u, on in shown.items()),
        ),
        requirements=(
            condition(alpha < pi / 2, "this is a wall, not a slope; lower alpha"),
            condition(n1 <= 1, "the body's centre of mass would lie beyond its end; lower n1"),
            condition(m0 * l0**2 / 4 >= J0, "mass would lie outside the blade's length; lower J0"),
            condition(m1 * l1**2 * n1 * (1 - n1) >= J1, "mass would lie outside the body's length; lower J1"),
        ),
        faults=(condition(E[2] >= Rational(1, 10), "fallen: the body lies on the snow (E_n < 0.1)", "fallen"),),
        safe={u: -brakes[u] * on for u, on in inputs.items()},
        warnings=warnings,
        panels=(("v",), ("phi0", "theta", "sigma"), ("N", "R"), ("c_t", "c_b")),
        drawing=[
            _from_above(Matrix([x0, y0]), phi0, E, theta, (along, edge.multiplier), (l0, l1, half_width)),
            _upright(
                "from behind, the slope level",
                "lean",
                sigma,
                -E[1],
                E[2],
                half_width,
                -left,
                (-edge.multiplier, normal_force),
                (l1, n1),
            ),
            _upright(
                "from its right, the slope level",
                "pitch",
                theta,
                E[0],
                E[2],
                l0 / 2,
                ahead,
                (along, normal_force),
                (l1, n1),
            ),
        ],
    )


def _from_above(place: Any, phi0: Any, E: Any, theta: Any, force: tuple[Any, Any], sizes: tuple[Any, Any, Any]) -> Any:
    """The board, its nose pointed, and the body projected onto the slope."""
    l0, l1, width = sizes
    blade = Matrix([[cos(phi0), -sin(phi0), 0], [sin(phi0), cos(phi0), 0], [0, 0, 1]])
    half, nose = l0 / 2, l0 / 2 - width
    board = polygon((-half, -width), (nose, -width), (half, 0), (nose, width), (-half, width))
    upright = Matrix([cos(theta), 0, -sin(theta)])  # the body's x axis
    at = Matrix([*place, 0])
    return view(
        board.at(place, phi0), line((0, 0), l1 * E[:2, :]).at(place, phi0),
        trail(place, "blade"),
        arrow((0, 0), (0, force[1]), name="lateral force R of the snow").at(place, phi0),
        arrow((0, 0), (force[0], 0), name="thrust less drag").at(place, phi0),
        pose("board", at, [blade[:, k] for k in range(3)]),
        pose("body", at, [blade * each for each in (upright, E.cross(upright), E)]),
        title="from above", axes=("x₀ [m], down the slope", "y₀ [m]"),
    )  # fmt: skip


def _upright(
    title: str, word: str, angle: Any, right: Any, height: Any, board: Any, foot: Any, force: Any, body: Any
) -> Any:  # fmt: skip
    """Board, body and its centre of mass, a dot, projected along the slope; what lies to the right is drawn as far as
    it is, or that many times as far as can be seen, force and pressure as well.
    """
    l1, n1 = body
    tip = l1 * Matrix([magnification * right, height])
    return view(
        line((-board, 0), (board, 0)), line((0, 0), tip), dot(n1 * tip),
        line((-1, 0), (1, 0), thin=True), line((0, 0), (0, l1), thin=True),
        arrow((magnification * foot, 0), (magnification * force[0], force[1]),
              name="force on the board at the snow's centre of pressure"),
        title=title, strip=True, caption=(f"{word} {{:+.1f}}°", angle * 180 / pi), lean=angle, magnified="sideways",
    )  # fmt: skip
