"""The initial condition of a ball on a turning plate, on the constraint or off it; which matrices K are refused."""

import cmath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.plants.prepare import Preparation, Prepared, Unprepared, Wanted, boundary, number, require_fixed

Value = Any  # a number or an expression
Triple = tuple[Value, Value, Value]
Initial = Mapping[str, Any]  # [plant.initial]
START = ("omega", "q", "off_constraint")  # beside the states, of which the scheme "quaternion" has the first two
ANGLES = ("alpha", "beta", "gamma")
K_NAMES = ("k1", "k2", "k3", "k4")
ORDERS = {"euler": 1, "rk2": 2, "heun": 2, "ralston": 2, "rk4": 4}
OFF_CONSTRAINT = ("refuse", "stabilise", "project")  # what may become of an initial condition that slips
SLIPS = 1e-9  # [m/s] per m/s: a slip above is one
NEAR = 1e-6  # cos(alpha) cos(beta) below which rates of the angles are no initial condition


@dataclass(frozen=True)
class Ball:
    """Parameters as numbers."""

    m: float
    a: float
    J: float
    Omega: float
    K: Array

    def rolling(self, r: Array, omega: Array) -> Array:
        """The velocity (2,) of the centre at a place with which a ball of an angular velocity does not slip."""
        return np.array([self.a * omega[1] - self.Omega * r[1], -self.a * omega[0] + self.Omega * r[0]])


def prepare(wanted: Wanted) -> Prepared:
    """The initial condition on the constraint, or off it as off_constraint says.

    Raises:
        Unprepared: the bypass, K or the initial condition cannot be.
    """
    in_angles = wanted.settings["scheme"] == "angles"
    if wanted.settings["bypass"] != "none" and not in_angles:
        text = 'the scheme "quaternion" has no singularity to step over; leave bypass out, or set scheme = "angles"'
        raise Unprepared("plant.settings", "bypass", text)
    if in_angles:  # the printed multipliers have the motion solved for
        require_fixed(
            wanted,
            ("m", "a", "J"),
            'the forces of scheme "angles" are printed without disturbances; take it out, or take "quaternion"',
            'the forces of scheme "angles" are printed for a constant one; give a number, or take "quaternion"',
        )
    m, a, J, Omega, *K = (float(wanted.parameters[name]) for name in ("m", "a", "J", "Omega", *K_NAMES))
    ball, initial = Ball(m, a, J, Omega, np.array(K).reshape(2, 2)), wanted.initial
    notes = _check_K(ball.K, wanted)
    angles = _angles(initial) if in_angles else None
    q = _unit(initial)
    r, v, omega = _completed(initial, ball, _omega(initial, angles))
    v, omega, remarks = _settled(ball, r, v, omega, initial)
    states = dict(zip(("x", "y", "x_dot", "y_dot"), [*r, *v], strict=True))
    if angles is None:
        states |= {f"omega_{i}": each for i, each in enumerate(omega)} | {f"q_{i}": each for i, each in enumerate(q)}
    else:  # the columns are normal to each other
        rates = [np.dot(each, omega) / np.dot(each, each) for each in columns(np, *angles)]
        states |= dict(zip(ANGLES, angles, strict=True)) | dict(zip(map("{}_dot".format, ANGLES), rates, strict=True))
    return Prepared(initial={name: float(each) for name, each in states.items()}, notes=(*notes, *remarks))


# the paper's three angles, singular at cos(alpha) cos(beta) = 0: symbols or numbers, with sin and cos of `functions`


def attitude(functions: Any, alpha: Value, beta: Value, gamma: Value) -> tuple[Value, Value, Value, Value]:
    """The quaternion from body to space, scalar first."""
    sin, cos = functions.sin, functions.cos
    level = cos(alpha) * cos(beta)
    return level * cos(gamma), level * sin(gamma), cos(alpha) * sin(beta), sin(alpha)


def columns(functions: Any, alpha: Value, beta: Value, gamma: Value) -> tuple[Triple, Triple, Triple]:
    """Angular velocities in space axes at a unit rate of alpha, of beta, of gamma; each normal to the others.

    Their squares are 4, 4 cos(alpha)^2, 4 cos(alpha)^2 cos(beta)^2.
    """
    sin, cos = functions.sin, functions.cos
    sa, ca, sb, cb, sg, cg = sin(alpha), cos(alpha), sin(beta), cos(beta), sin(gamma), cos(gamma)
    of_alpha = (2 * sb, -2 * cb * sg, 2 * cb * cg)
    of_beta = (-2 * sa * ca * cb, 2 * ca * (ca * cg - sa * sb * sg), 2 * ca * (ca * sg + sa * sb * cg))
    of_gamma = (2 * ca**2 * cb**2, 2 * ca * cb * (sa * cg + ca * sb * sg), 2 * ca * cb * (sa * sg - ca * sb * cg))
    return of_alpha, of_beta, of_gamma


# the matrix K


def _check_K(K: Array, wanted: Wanted) -> tuple[str, ...]:
    """Notes on K.

    Raises:
        Unprepared: the slip would grow, by K or by the integrator.
    """
    varying = [name for name in K_NAMES if name in wanted.varying]
    notes = () if not varying else (f"{', '.join(varying)} vary: K was judged at t = 0 only; its eigenvalues must "
                                    "keep negative real parts, and stay small enough for the step",)  # fmt: skip
    if not K.any():
        return notes or ("K = 0: the slip is not stabilised; slip from the initial state or from rounding stays",)
    (k1, k2), (k3, k4) = K.tolist()
    eigenvalues = [complex(each) for each in np.linalg.eigvals(K)]
    shown = ", ".join(map(_complex, sorted(eigenvalues, key=lambda each: (each.real, each.imag))))
    if not (k1 + k4 < 0 and k1 * k4 > k2 * k3):
        text = f"the slip f would grow, f' = K f: the eigenvalues of K are {shown} 1/s; both real parts must be"
        wrong = f"k1 + k4 = {k1 + k4:g}, k1 k4 = {k1 * k4:g}, k2 k3 = {k2 * k3:g}"
        raise Unprepared("plant.parameters", _first_of_K(wanted),
                         f"{text} negative: k1 + k4 < 0 and k1 k4 > k2 k3 ({wrong}); or all four 0")  # fmt: skip
    for each in eigenvalues if wanted.step is not None else ():
        if _growth(each * float(wanted.step or 0.0), wanted.integrator) > 0:
            size = abs(each) * float(wanted.step or 0.0)
            text = f"step times eigenvalue of K is {size:.4g} (eigenvalues {shown} 1/s), and with {wanted.integrator}"
            remedy = f"at most {_largest(each, wanted.integrator):.4g} is stable; take a smaller step or a smaller K"
            raise Unprepared("plant.parameters", _first_of_K(wanted), f"{text} {remedy}")
    return notes


def _first_of_K(wanted: Wanted) -> str:
    return next((name for name in K_NAMES if name in wanted.given), "k1")


def _complex(value: complex) -> str:
    if abs(value.imag) <= 1e-12 * abs(value):
        return f"{value.real:.4g}"
    return f"{value.real:.4g} {'+' if value.imag > 0 else '-'} {abs(value.imag):.4g}i"


def _growth(z: complex, integrator: str) -> float:
    """By how much a step of the method enlarges f for z = step * eigenvalue, relative; not positive: it does not.

    A step takes the exponential's series to the order of the method.
    """
    if integrator == "radau":
        return -1.0  # L-stable, and the real part of z is negative
    order, term, total = ORDERS[integrator], 1.0 + 0j, 1.0 + 0j
    for n in range(1, order + 1):
        term *= z / n
        total += term
    return abs(total) - 1.0 - 1e-12


def _largest(eigenvalue: complex, integrator: str) -> float:
    """The largest |z| in the direction of the eigenvalue at which a step does not enlarge f."""
    way = cmath.exp(1j * cmath.phase(eigenvalue))
    stable = [z for z in np.linspace(0.0, 4.0, 401).tolist() if _growth(z * way, integrator) <= 0]
    return boundary(lambda z: _growth(z * way, integrator) <= 0, stable[-1], stable[-1] + 0.01)[0]


# the initial condition


def _completed(initial: Initial, ball: Ball, omega: Array | None) -> tuple[Array, Array, Array]:
    """r, v, omega: velocities that are not given follow from omega; omega, where not given, from both velocities."""
    r, v = (np.array([number(initial, name) for name in names]) for names in (("x", "y"), ("x_dot", "y_dot")))
    given = ["x_dot" in initial, "y_dot" in initial]
    if omega is None and all(given):
        return r, v, np.array([ball.Omega * r[0] - v[1], v[0] + ball.Omega * r[1], 0.0]) / ball.a
    omega = np.zeros(3) if omega is None else omega
    return r, np.where(given, v, ball.rolling(r, omega)), omega


def _settled(ball: Ball, r: Array, v: Array, omega: Array, initial: Initial) -> tuple[Array, Array, tuple[str, ...]]:
    """v and omega as off_constraint has it, and what there is to say of it.

    Raises:
        Unprepared: the initial condition slips and may not, or off_constraint is not one of the choices.
    """
    off_constraint = initial.get("off_constraint", OFF_CONSTRAINT[0])
    if off_constraint not in OFF_CONSTRAINT:
        text = f"{off_constraint!r} is not known; choose {', '.join(OFF_CONSTRAINT)}"
        raise Unprepared("plant.initial", "off_constraint", text)
    f = v + ball.a * np.array([-omega[1], omega[0]]) + ball.Omega * np.array([r[1], -r[0]])
    parts = np.concatenate([v, ball.a * omega[:2], ball.Omega * r])
    if float(np.hypot(*f)) <= SLIPS * (1.0 + float(np.abs(parts).sum())):
        return v, omega, ()
    slips = f"the initial state slips: f1 = {f[0]:.6g}, f2 = {f[1]:.6g} m/s"
    if off_constraint == "refuse":
        text = f"{slips}; leave x_dot and y_dot out and they follow, or set off_constraint here:"
        remedies = '"project" for the impulse that ends the slip, "stabilise" to let K end it, which changes the path'
        raise Unprepared("plant.initial", "x_dot", f"{text} {remedies}")
    if off_constraint == "stabilise":
        ends = "; K f ends it, and the friction of this changes the path permanently"
        return v, omega, (slips + (ends if ball.K.any() else ", and stays because K = 0"),)
    s = ball.J / (ball.J + ball.m * ball.a**2)
    turned = ball.a * ball.m * s / ball.J * np.array([-f[1], f[0], 0.0])
    return v - s * f, omega + turned, (f"{slips}; ended by the impulse of friction that removes it",)


def _omega(initial: Initial, angles: Array | None) -> Array | None:
    """The angular velocity (3,) as it is given, by omega or by the rates of the angles; None where it is not."""
    rates = [f"{name}_dot" for name in ANGLES]
    if angles is not None and any(name in initial for name in rates):
        return np.array(columns(np, *angles)).T @ [number(initial, name) for name in rates]
    return _vector(initial, "omega", (0.0, 0.0, 0.0)) if "omega" in initial else None


def _angles(initial: Initial) -> Array:
    """alpha, beta, gamma (3,): as they are given, not brought to a principal value, or those of q.

    Raises:
        Unprepared: attitude or angular velocity are given twice, or the angles are singular there.
    """
    stated = [name for name in ANGLES if name in initial]
    if stated and "q" in initial:
        raise Unprepared("plant.initial", stated[0], f"q already gives the attitude; leave {stated[0]} or q out")
    if stated:
        angles = np.array([number(initial, name) for name in ANGLES])
    else:
        q0, q1, q2, q3 = _unit(initial).tolist()
        level = np.hypot(q0, q1)
        angles = np.array([np.arctan2(q3, np.hypot(level, q2)), np.arctan2(q2, level), np.arctan2(q1, q0)])
    rate = next((f"{name}_dot" for name in ANGLES if f"{name}_dot" in initial), None)
    if rate and "omega" in initial:
        raise Unprepared("plant.initial", rate, f"omega already gives the rotation; leave {rate} or omega out")
    if abs(np.cos(angles[0]) * np.cos(angles[1])) < NEAR:
        text = "the three angles are singular here, cos(alpha) cos(beta) = 0: no rates give the angular velocity"
        key = stated[0] if stated else "q"
        raise Unprepared("plant.initial", key, f'{text}; choose another initial state, or set scheme = "quaternion"')
    return angles


def _vector(initial: Initial, name: str, default: tuple[float, ...]) -> Array:
    """A vector of [plant.initial], its default where it is absent.

    Raises:
        Unprepared: it is no list of as many numbers.
    """
    value = initial.get(name, list(default))
    if not isinstance(value, list | tuple) or len(value) != len(default):
        raise Unprepared("plant.initial", name, f"{value!r} is not a list of {len(default)} numbers; give one")
    return np.array(value, dtype=float)


def _unit(initial: Initial) -> Array:
    """The attitude's quaternion, brought to norm 1.

    Raises:
        Unprepared: it is zero.
    """
    q = _vector(initial, "q", (1.0, 0.0, 0.0, 0.0))
    size = float(np.linalg.norm(q))
    if not 1e-6 < size < 1e6:
        raise Unprepared("plant.initial", "q", f"{q.tolist()} is not an attitude; give a quaternion, scalar first")
    return q / size


PREPARE = Preparation(prepare, start=START)
