"""Machines of the literature, and the programs with which `check` is tried on them."""

from typing import Any

import sympy
from sympy import cos, sin

from servonode.controllers import Program, residual, target
from servonode.mechanics import Model, coordinate, input_, output, parameter

GRAVITY = ("g", "gravity", "m/s^2", 9.81)


def parameters(*stated: tuple[str, str, str, float]) -> tuple[Any, ...]:
    return tuple(parameter(name, text, unit, default=value) for name, text, unit, value in stated)


def crane() -> Model:
    """A trolley with a pendulum, which hangs at theta = 0 and stands at pi: crane and cart-pole."""
    x, theta = coordinate("x", "place", "m"), coordinate("theta", "angle", "rad")
    stated = [("M", "trolley", "kg", 2.0), ("m", "load", "kg", 0.5), ("L", "rod", "m", 0.8), GRAVITY]
    M, m, L, g, c = p = parameters(*stated, ("c", "friction", "N m s/rad", 0.05))
    F = input_("F", "force on the trolley", "N")
    speed = x.rate**2 + 2 * L * x.rate * theta.rate * cos(theta) + L**2 * theta.rate**2
    return Model(
        name="crane", description="crane", coordinates=(x, theta), parameters=p, inputs={F: x.rate},
        kinetic=(M * x.rate**2 + m * speed) / 2, potential=-m * g * L * cos(theta), dissipation=c * theta.rate**2 / 2,
    )  # fmt: skip


def segway() -> Model:
    """A body that stands on driven wheels at theta = 0; the motor turns the wheels against the body."""
    x, theta = coordinate("x", "place", "m"), coordinate("theta", "tilt", "rad")
    stated = [
        ("M", "wheels", "kg", 1.0),
        ("m", "body", "kg", 5.0),
        ("l", "height", "m", 0.5),
        ("r", "radius", "m", 0.1),
    ]
    M, m, L, r, g = p = parameters(*stated, GRAVITY)
    u = input_("u", "torque", "N m")
    speed = x.rate**2 + 2 * L * x.rate * theta.rate * cos(theta) + L**2 * theta.rate**2
    return Model(
        name="segway", description="segway", coordinates=(x, theta), parameters=p,
        inputs={u: x.rate / r - theta.rate}, kinetic=(M * x.rate**2 + m * speed) / 2, potential=m * g * L * cos(theta),
    )  # fmt: skip


def furuta() -> Model:
    """A turning arm with a pendulum at its end, which hangs at theta = 0."""
    alpha, theta = coordinate("alpha", "arm", "rad"), coordinate("theta", "pendulum", "rad")
    stated = [("J", "arm", "kg m^2", 0.02), ("m", "mass", "kg", 0.2), ("a", "arm", "m", 0.2), ("l", "rod", "m", 0.3)]
    J, m, a, L, g, c = p = parameters(*stated, GRAVITY, ("c", "friction", "N m s/rad", 0.005))
    u = input_("u", "torque", "N m")
    turning = (J + m * a**2 + m * L**2 * sin(theta) ** 2) * alpha.rate**2
    coupled = 2 * m * a * L * cos(theta) * alpha.rate * theta.rate
    return Model(
        name="furuta", description="furuta", coordinates=(alpha, theta), parameters=p, inputs={u: alpha.rate},
        kinetic=(turning + coupled + m * L**2 * theta.rate**2) / 2, potential=-m * g * L * cos(theta),
        dissipation=c * theta.rate**2 / 2,
    )  # fmt: skip


def two_links(driven: str) -> Model:
    """Two rods with masses at their ends, hanging at 0; q2 is relative. Pendubot: q1 is driven, acrobot: q2."""
    q1, q2 = coordinate("q1", "first", "rad"), coordinate("q2", "second, relative", "rad")
    stated = [("m1", "mass", "kg", 1.0), ("m2", "mass", "kg", 0.7), ("l1", "rod", "m", 0.5), ("l2", "rod", "m", 0.4)]
    m1, m2, l1, l2, g, c = p = parameters(*stated, GRAVITY, ("c", "friction", "N m s/rad", 0.1))
    u, both = input_("u", "torque", "N m"), q1.rate + q2.rate
    speed = l1**2 * q1.rate**2 + l2**2 * both**2 + 2 * l1 * l2 * q1.rate * both * cos(q2)
    return Model(
        name=f"two_links_{driven}", description="two links", coordinates=(q1, q2), parameters=p,
        inputs={u: q1.rate if driven == "q1" else q2.rate},
        kinetic=(m1 * l1**2 * q1.rate**2 + m2 * speed) / 2,
        potential=-m1 * g * l1 * cos(q1) - m2 * g * (l1 * cos(q1) + l2 * cos(q1 + q2)),
        dissipation=c * (q1.rate**2 + q2.rate**2) / 2,
    )  # fmt: skip


def pendubot() -> Model:
    return two_links("q1")


def acrobot() -> Model:
    return two_links("q2")


def ball_and_beam() -> Model:
    r, theta = coordinate("r", "position of the ball", "m"), coordinate("theta", "beam", "rad")
    J, m, g = p = parameters(("J", "beam", "kg m^2", 0.02), ("m", "ball", "kg", 0.1), GRAVITY)
    u = input_("u", "torque", "N m")
    rolling = sympy.Rational(7, 5) * m * r.rate**2
    return Model(
        name="ball_and_beam", description="ball and beam", coordinates=(r, theta), parameters=p, inputs={u: theta.rate},
        kinetic=(rolling + (J + m * r**2) * theta.rate**2) / 2, potential=m * g * r * sin(theta),
    )  # fmt: skip


def tora() -> Model:
    """A cart on a spring with an eccentric rotor (translational oscillator with rotational actuator)."""
    x, theta = coordinate("x", "place", "m"), coordinate("theta", "rotor", "rad")
    stated = [("M", "cart", "kg", 1.0), ("m", "rotor", "kg", 0.2), ("e", "eccentricity", "m", 0.2)]
    M, m, e, J, k = p = parameters(*stated, ("J", "rotor", "kg m^2", 0.01), ("k", "spring", "N/m", 5.0))
    u = input_("u", "torque", "N m")
    coupled = 2 * m * e * cos(theta) * x.rate * theta.rate
    return Model(
        name="tora", description="tora", coordinates=(x, theta), parameters=p, inputs={u: theta.rate},
        kinetic=((M + m) * x.rate**2 + coupled + (J + m * e**2) * theta.rate**2) / 2, potential=k * x**2 / 2,
    )  # fmt: skip


def quadrotor() -> Model:
    x, z, phi = coordinate("x", "place", "m"), coordinate("z", "height", "m"), coordinate("phi", "roll", "rad")
    m, J, g = p = parameters(("m", "mass", "kg", 1.0), ("J", "inertia", "kg m^2", 0.02), GRAVITY)
    T, u = input_("T", "thrust", "N"), input_("u", "torque", "N m")
    return Model(
        name="quadrotor", description="planar quadrotor", coordinates=(x, z, phi), parameters=p,
        inputs={T: -sin(phi) * x.rate + cos(phi) * z.rate, u: phi.rate},
        kinetic=(m * (x.rate**2 + z.rate**2) + J * phi.rate**2) / 2, potential=m * g * z,
    )  # fmt: skip


def pendulum() -> Model:
    """A pendulum with a motor in its joint, which hangs at theta = 0."""
    theta = coordinate("theta", "angle", "rad")
    stated = [("m", "mass", "kg", 0.2), ("l", "rod", "m", 0.5), ("c", "friction", "N m s/rad", 0.02)]
    m, L, c, g = p = parameters(*stated, GRAVITY)
    u = input_("u", "torque", "N m")
    return Model(
        name="pendulum", description="pendulum", coordinates=(theta,), parameters=p, inputs={u: theta.rate},
        kinetic=m * L**2 * theta.rate**2 / 2, potential=-m * g * L * cos(theta), dissipation=c * theta.rate**2 / 2,
    )  # fmt: skip


def pivot() -> Model:
    """A pendulum that hangs at theta = 0 below a pivot, which a force moves up and down."""
    y, theta = coordinate("y", "pivot", "m"), coordinate("theta", "angle", "rad")
    stated = [("M", "pivot", "kg", 1.0), ("m", "mass", "kg", 0.2), ("l", "rod", "m", 0.3), GRAVITY]
    M, m, L, g, c = p = parameters(*stated, ("c", "friction", "N m s/rad", 0.002))
    F = input_("F", "force on the pivot", "N")
    speed = y.rate**2 + 2 * L * y.rate * theta.rate * sin(theta) + L**2 * theta.rate**2
    return Model(
        name="pivot", description="pendulum on a pivot that is moved", coordinates=(y, theta), parameters=p,
        inputs={F: y.rate}, kinetic=(M * y.rate**2 + m * speed) / 2, dissipation=c * theta.rate**2 / 2,
        potential=(M + m) * g * y - m * g * L * cos(theta),
    )  # fmt: skip


def hoist() -> Model:
    """A trolley with a winch; the rope of length l hangs straight down at theta = 0."""
    s, theta = coordinate("s", "trolley", "m"), coordinate("theta", "swing", "rad")
    rope = coordinate("l", "rope", "m", start=2.0)
    stated = [("M", "trolley", "kg", 2.0), ("m", "load", "kg", 3.0), ("J", "winch", "kg m^2", 0.05)]
    M, m, J, r, g = p = parameters(*stated, ("r", "drum", "m", 0.1), GRAVITY)
    F, w = input_("F", "force on the trolley", "N"), input_("w", "torque that lets out rope", "N m")
    x_dot = s.rate + rope.rate * sin(theta) + rope * theta.rate * cos(theta)
    z_dot = -rope.rate * cos(theta) + rope * theta.rate * sin(theta)
    load = (output("x", "load", s + rope * sin(theta), "m"), output("z", "load", -rope * cos(theta), "m"))
    return Model(
        name="hoist", description="crane with a winch", coordinates=(s, rope, theta), parameters=p, outputs=load,
        inputs={F: s.rate, w: rope.rate / r}, potential=-m * g * rope * cos(theta),
        kinetic=(M * s.rate**2 + J * (rope.rate / r) ** 2 + m * (x_dot**2 + z_dot**2)) / 2,
    )  # fmt: skip


def elastic_arm() -> Model:
    """A motor at q turns an arm at p, which hangs at 0, through a spring."""
    q, p = coordinate("q", "motor", "rad"), coordinate("p", "arm", "rad")
    stated = [("J", "motor", "kg m^2", 0.05), ("I", "arm", "kg m^2", 0.3), ("k", "spring", "N m/rad", 50.0)]
    J, I, k, W = constants = parameters(*stated, ("W", "weight", "N m", 5.0))  # noqa: E741
    u = input_("u", "torque", "N m")
    return Model(
        name="elastic_arm", description="elastic arm", coordinates=(q, p), parameters=constants, inputs={u: q.rate},
        kinetic=(J * q.rate**2 + I * p.rate**2) / 2, potential=k * (q - p) ** 2 / 2 - W * cos(p),
    )  # fmt: skip


def pvtol() -> Model:
    """An aircraft with vertical take-off in a plane: the torque also pushes it sideways, by the length e."""
    x, z, phi = coordinate("x", "place", "m"), coordinate("z", "height", "m"), coordinate("phi", "roll", "rad")
    stated = [("m", "mass", "kg", 1.0), ("J", "inertia", "kg m^2", 1.0), GRAVITY]
    m, J, g, e = p = parameters(*stated, ("e", "push per turn", "m", 0.2))
    T, u = input_("T", "thrust", "N"), input_("u", "torque", "N m")
    sideways = cos(phi) * x.rate + sin(phi) * z.rate
    centre = (output("hx", "centre of oscillation", x - e * sin(phi), "m"),
              output("hz", "centre of oscillation", z + e * cos(phi), "m"))  # fmt: skip
    return Model(
        name="pvtol", description="pvtol", coordinates=(x, z, phi), parameters=p, outputs=centre,
        inputs={T: -sin(phi) * x.rate + cos(phi) * z.rate, u: phi.rate + e * m * sideways / J},
        kinetic=(m * (x.rate**2 + z.rate**2) + J * phi.rate**2) / 2, potential=m * g * z,
    )  # fmt: skip


# programs


def follow(machine: Model, output: str = "x", other: str = "", third: str = "") -> Program:
    """The coordinates `output`, `other`, `third` are to follow the targets y1, y2, y3."""
    chosen = [machine[name] for name in (output, other, third) if name]
    targets = [target(f"y{i + 1}", f"goal of {q.name}", q.quantity.unit) for i, q in enumerate(chosen)]
    rows = [
        residual(f"of_{q.name}", q - y, q.name, q.quantity.unit, rate=3.0) for q, y in zip(chosen, targets, strict=True)
    ]
    return Program(name="follow", description="follow targets", residuals=rows, targets=targets)


def follow_outputs(machine: Model, output: str = "x", other: str = "z") -> Program:
    """Two lengths that are functions of the coordinates are to follow the targets y1 and y2."""
    targets = [target(f"y{i}", f"goal of {name}", "m") for i, name in enumerate((output, other), 1)]
    rows = [
        residual(f"of_{name}", machine[name] - y, name, "m", rate=3.0)
        for name, y in zip((output, other), targets, strict=True)
    ]
    return Program(name="follow_outputs", description="follow targets", residuals=rows, targets=targets)


def feed_forward(machine: Model) -> Program:
    """The torque with which a pendulum would follow a target, if it were on it."""
    theta, m, L, c, g = (machine[name] for name in ("theta", "m", "l", "c", "g"))
    y = target("y1", "goal of theta", "rad")
    (u,) = machine.inputs
    torque = m * L**2 * y.derivative(2) + c * y.rate + m * g * L * sin(y)
    row = residual("angle", theta - y, "angle", "rad")
    return Program(name="feed_forward", description="feedforward", residuals=(row,), targets=(y,), inputs={u: torque})


def feed_back(machine: Model, output: str = "x") -> Program:
    """The input is given: linear feedback of all states about a place, plus a push; `output` is to be at 1."""
    gains = [parameter(f"k{i}", f"of {q.name}", default=0.0) for i, q in enumerate(machine.state)]
    about, push = (
        parameter("about", "angle about which it acts", "rad", default=0.0),
        parameter("push", "", default=0.0),
    )
    away = [machine.state[0] - 1, machine.state[1] - about, *(q.rate for q in machine.coordinates)]
    (u,) = machine.inputs
    row = residual("place", machine[output] - 1, "place", "m")
    fed = push - sum(k * each for k, each in zip(gains, away, strict=True))
    return Program(
        name="feed_back",
        description="state feedback",
        residuals=(row,),
        parameters=(*gains, about, push),
        inputs={u: fed},
    )


def shake(machine: Model) -> Program:
    """Nothing is fed back."""
    from servonode.mechanics.symbols import time

    (u,) = machine.inputs
    return Program(name="shake", description="shake", residuals=(), inputs={u: 0.2 * sin(time)})


def roll(machine: Model) -> Program:
    """The beam turns as the ball's place wants; sign = -1 turns it the wrong way."""
    r, theta, m, g = (machine[name] for name in ("r", "theta", "m", "g"))
    sign = parameter("sign", "of the feedback", default=1.0)
    wanted = sign * (2 * (r - sympy.Rational(1, 5)) + 2 * r.rate) / 7
    (u,) = machine.inputs
    row = residual("place", r - 0.2, "position of the ball", "m")
    torque = m * g * r * cos(theta) + 4.0 * (wanted - theta) - 0.6 * theta.rate
    return Program(name="roll", description="cascade", residuals=(row,), parameters=(sign,), inputs={u: torque})


def hover(machine: Model) -> Program:
    """Height and roll by thrust and torque, the roll as the place wants; sign = -1 rolls the wrong way."""
    x, z, phi, m, J, g = (machine[name] for name in ("x", "z", "phi", "m", "J", "g"))
    sign = parameter("sign", "of the feedback", default=1.0)
    T, u = machine.inputs
    wanted = sign * ((x - 1) + 2 * x.rate) / 9.81
    thrust = m * (g - 4.0 * (z - 1) - 4.0 * z.rate)
    torque = J * (100.0 * (wanted - phi) - 20.0 * phi.rate)
    rows = (residual("place", x - 1, "place", "m"), residual("height", z - 1, "height", "m"))
    return Program(name="hover", description="hover", residuals=rows, parameters=(sign,), inputs={T: thrust, u: torque})
