"""The initial condition of a ball on a turning plate, on the constraint or off it; which matrices K are refused."""

import cmath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.plants.ball.angles import attitude, columns
from servonode.plants.prepare import Preparation, Prepared, Unprepared, Wanted, number, require_fixed

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

    @property
    def s(self) -> float:
        return self.J / (self.J + self.m * self.a**2)


@dataclass(frozen=True)
class Motion:
    """Position and velocity of the centre (2,), angular velocity (3,), attitude (4,)."""

    r: Array
    v: Array
    omega: Array
    q: Array

    def slip(self, ball: Ball) -> Array:
        (x, y), omega = self.r, self.omega
        return self.v + ball.a * np.array([-omega[1], omega[0]]) + ball.Omega * np.array([y, -x])


def prepare(wanted: Wanted) -> Prepared:
    """The initial condition on the constraint, or off it as off_constraint says.

    Raises:
        Unprepared: the bypass, K or the initial condition cannot be.
    """
    angles = wanted.settings["scheme"] == "angles"
    if wanted.settings["bypass"] != "none" and not angles:
        text = 'the scheme "quaternion" has no singularity to step over; leave bypass out, or set scheme = "angles"'
        raise Unprepared("plant.settings", "bypass", text)
    if angles:  # the printed multipliers have the motion solved for
        require_fixed(
            wanted,
            ("m", "a", "J"),
            'the forces of scheme "angles" are printed without disturbances; take it out, or take "quaternion"',
            'the forces of scheme "angles" are printed for a constant one; give a number, or take "quaternion"',
        )
    ball = _ball(wanted.parameters)
    notes = _check_K(ball.K, wanted)
    motion = _motion(wanted, ball, angles)
    motion, said = _settled(motion, ball, _off_constraint(wanted.initial))
    states = _in_angles(motion, wanted.initial) if angles else _in_quaternions(motion)
    return Prepared(initial=states, notes=(*notes, *said))


def _ball(values: Mapping[str, float]) -> Ball:
    m, a, J, Omega = (float(values[name]) for name in ("m", "a", "J", "Omega"))
    return Ball(m, a, J, Omega, np.array([[values["k1"], values["k2"]], [values["k3"], values["k4"]]], dtype=float))


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
    from scipy.optimize import brentq

    way = cmath.exp(1j * cmath.phase(eigenvalue))
    stable = [z for z in np.linspace(0.0, 4.0, 401).tolist() if _growth(z * way, integrator) <= 0]
    return float(brentq(lambda z: _growth(z * way, integrator), stable[-1], stable[-1] + 0.01))


# the initial condition


@dataclass(frozen=True)
class Turning:
    """Attitude (4,) and angular velocity (3,), and whether the latter was given."""

    q: Array
    omega: Array
    stated: bool


def _motion(wanted: Wanted, ball: Ball, angles: bool) -> Motion:
    """What [plant.initial] says, completed on the constraint where velocities or the angular velocity are absent."""
    values = _Values(wanted.initial)
    turning = _turning_of_angles(values) if angles else _turning(values, _unit(values))
    r = np.array([values.number("x"), values.number("y")])
    return _completed(values, ball, r, turning)


def _turning(values: "_Values", q: Array) -> Turning:
    """With omega as it is given."""
    return Turning(q, values.entries("omega", (0.0, 0.0, 0.0)), values.has("omega"))


def _completed(values: "_Values", ball: Ball, r: Array, turning: Turning) -> Motion:
    """Velocities that are not given follow from omega; omega, where it is not given, from both velocities."""
    given = [values.has("x_dot"), values.has("y_dot")]
    v = np.array([values.number("x_dot"), values.number("y_dot")])
    if all(given) and not turning.stated:
        omega = np.array([ball.Omega * r[0] - v[1], v[0] + ball.Omega * r[1], 0.0]) / ball.a
        return Motion(r, v, omega, turning.q)
    omega = turning.omega
    rolling = np.array([ball.a * omega[1] - ball.Omega * r[1], -ball.a * omega[0] + ball.Omega * r[0]])
    return Motion(r, np.where(given, v, rolling), omega, turning.q)


def _off_constraint(initial: Mapping[str, Any]) -> str:
    """What becomes of an initial condition that slips.

    Raises:
        Unprepared: it is not one of the choices.
    """
    stated = initial.get("off_constraint", OFF_CONSTRAINT[0])
    if stated not in OFF_CONSTRAINT:
        raise Unprepared(
            "plant.initial", "off_constraint", f"{stated!r} is not known; choose {', '.join(OFF_CONSTRAINT)}"
        )
    return str(stated)


def _settled(motion: Motion, ball: Ball, off_constraint: str) -> tuple[Motion, tuple[str, ...]]:
    """The initial condition as off_constraint has it, and what there is to say of it.

    Raises:
        Unprepared: it slips and may not.
    """
    f = motion.slip(ball)
    parts = np.concatenate([motion.v, ball.a * motion.omega[:2], ball.Omega * motion.r])
    if float(np.hypot(*f)) <= SLIPS * (1.0 + float(np.abs(parts).sum())):
        return motion, ()
    slips = f"the initial state slips: f1 = {f[0]:.6g}, f2 = {f[1]:.6g} m/s"
    if off_constraint == "refuse":
        text = f"{slips}; leave x_dot and y_dot out and they follow, or set off_constraint here:"
        remedies = '"project" for the impulse that ends the slip, "stabilise" to let K end it, which changes the path'
        raise Unprepared("plant.initial", "x_dot", f"{text} {remedies}")
    if off_constraint == "stabilise":
        if not ball.K.any():
            return motion, (f"{slips}, and stays because K = 0",)
        return motion, (f"{slips}; K f ends it, and the friction of this changes the path permanently",)
    return _after_impulse(motion, ball, f), (f"{slips}; ended by the impulse of friction that removes it",)


def _after_impulse(motion: Motion, ball: Ball, f: Array) -> Motion:
    """The motion after an impulse of friction that leaves no slip."""
    turned = ball.a * ball.m * ball.s / ball.J * np.array([-f[1], f[0], 0.0])
    return Motion(motion.r, motion.v - ball.s * f, motion.omega + turned, motion.q)


def _in_quaternions(motion: Motion) -> dict[str, float]:
    vectors = {"omega": motion.omega, "q": motion.q}
    entries = {f"{name}_{i}": float(each) for name, vector in vectors.items() for i, each in enumerate(vector)}
    return _place(motion) | entries


def _place(motion: Motion) -> dict[str, float]:
    (x, y), (x_dot, y_dot) = motion.r.tolist(), motion.v.tolist()
    return {"x": x, "y": y, "x_dot": x_dot, "y_dot": y_dot}


# in angles


def _turning_of_angles(values: "_Values") -> Turning:
    """The same for the scheme "angles": its attitude by q or by angles, its turning by omega or by their rates."""
    stated = [name for name in ANGLES if values.has(name)]
    if stated and values.has("q"):
        raise Unprepared("plant.initial", stated[0], f"q already gives the attitude; leave {stated[0]} or q out")
    angles = np.array([values.number(name) for name in ANGLES]) if stated else _angles_of(_unit(values))
    rates = [f"{name}_dot" for name in ANGLES if values.has(f"{name}_dot")]
    if rates and values.has("omega"):
        text = f"omega already gives the rotation; leave {rates[0]} or omega out"
        raise Unprepared("plant.initial", rates[0], text)
    _check_regular(angles, stated)
    q = np.array(attitude(np, *angles))
    if not rates:
        return _turning(values, q)
    spins = [values.number(f"{name}_dot") for name in ANGLES]
    return Turning(q, np.array(columns(np, *angles)).T @ spins, True)


def _check_regular(angles: Array, stated: list[str]) -> None:
    if abs(np.cos(angles[0]) * np.cos(angles[1])) < NEAR:
        text = "the three angles are singular here, cos(alpha) cos(beta) = 0: no rates give the angular velocity"
        key = stated[0] if stated else "q"
        raise Unprepared("plant.initial", key, f'{text}; choose another initial state, or set scheme = "quaternion"')


def _angles_of(q: Array) -> Array:
    """alpha, beta, gamma (3,) of an attitude."""
    q0, q1, q2, q3 = q.tolist()
    level = np.hypot(q0, q1)
    return np.array([np.arctan2(q3, np.hypot(level, q2)), np.arctan2(q2, level), np.arctan2(q1, q0)])


def _in_angles(motion: Motion, initial: Mapping[str, Any]) -> dict[str, float]:
    """States of the scheme "angles"; angles that are given stay as they are, not brought to a principal value."""
    values = _Values(initial)
    given = any(values.has(name) for name in ANGLES)
    angles = np.array([values.number(name) for name in ANGLES]) if given else _angles_of(motion.q)
    # the columns are normal to each other
    rates = [float(np.dot(each, motion.omega) / np.dot(each, each)) for each in columns(np, *angles)]
    states = _place(motion)
    states |= dict(zip(ANGLES, angles.tolist(), strict=True))
    return states | {f"{name}_dot": rate for name, rate in zip(ANGLES, rates, strict=True)}


class _Values:
    """[plant.initial]: numbers, and vectors as lists."""

    def __init__(self, initial: Mapping[str, Any]) -> None:
        self._stated = initial

    def has(self, name: str) -> bool:
        return name in self._stated

    def number(self, name: str) -> float:
        """A state, 0 where it is absent; raises Unprepared."""
        return number(self._stated, name)

    def entries(self, name: str, default: tuple[float, ...]) -> Array:
        """A vector, its default where it is absent.

        Raises:
            Unprepared: it is no list of as many numbers.
        """
        value = self._stated.get(name, list(default))
        if not isinstance(value, list | tuple) or len(value) != len(default):
            raise Unprepared("plant.initial", name, f"{value!r} is not a list of {len(default)} numbers; give one")
        return np.array(value, dtype=float)


def _unit(values: _Values) -> Array:
    """The attitude's quaternion, brought to norm 1.

    Raises:
        Unprepared: it is zero.
    """
    q = values.entries("q", (1.0, 0.0, 0.0, 0.0))
    size = float(np.linalg.norm(q))
    if not 1e-6 < size < 1e6:
        raise Unprepared("plant.initial", "q", f"{q.tolist()} is not an attitude; give a quaternion, scalar first")
    return q / size


PREPARE = Preparation(prepare, start=START)
