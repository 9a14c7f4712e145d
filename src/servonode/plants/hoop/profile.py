"""A profile in a vertical plane, stated as a text: its derivatives, its curvature, its points.

z = p(x), an expression of x, or h(x, z) = 0, an expression of x and z that decreases upwards (h_z < 0) where something
rolls on it. Everything here is a number: nothing symbolic is imported.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.expression import Apply, Expression, ExpressionError, Node, Number, Symbol, parse
from servonode.plants.prepare import Unprepared, boundary

Real = Any  # a float or an array of floats

SCAN = np.sinh(np.linspace(-9.0, 9.0, 20001))  # heights at which a profile point is looked for, dense around 0 [m]
FEW = 24  # heights at one abscissa
ITERATIONS = 60
STEEP = 1e4  # slope beyond which the profile counts as vertical


@dataclass(frozen=True)
class Jet:
    """A value with its first and second derivatives with respect to x and z; floats or arrays."""

    value: Real
    x: Real = 0.0
    z: Real = 0.0
    xx: Real = 0.0
    xz: Real = 0.0
    zz: Real = 0.0

    def __add__(self, other: "Jet") -> "Jet":
        return Jet(*(a + b for a, b in zip(self.entries, other.entries, strict=True)))

    def __neg__(self) -> "Jet":
        return Jet(*(-each for each in self.entries))

    def __sub__(self, other: "Jet") -> "Jet":
        return self + -other

    def __mul__(self, other: "Jet") -> "Jet":
        return self.composed(other, self.value * other.value, (other.value, self.value), (0.0, 1.0, 0.0))

    @property
    def entries(self) -> tuple[Real, ...]:
        return (self.value, self.x, self.z, self.xx, self.xz, self.zz)

    def through(self, f: Real, f1: Real, f2: Real) -> "Jet":
        """f of this jet, from f's value and its first and second derivative there."""
        return Jet(
            f,
            f1 * self.x,
            f1 * self.z,
            f2 * self.x * self.x + f1 * self.xx,
            f2 * self.x * self.z + f1 * self.xz,
            f2 * self.z * self.z + f1 * self.zz,
        )

    def composed(self, other: "Jet", f: Real, first: tuple[Real, Real], second: tuple[Real, Real, Real]) -> "Jet":
        """f(this, other), from f's value, its two first derivatives, and the second ones: own, mixed, of the other."""
        alone, also = self.through(0.0, first[0], second[0]), other.through(0.0, first[1], second[2])
        sum_ = replace(alone + also, value=f)
        mixed = second[1]
        return Jet(
            f,
            sum_.x,
            sum_.z,
            sum_.xx + 2 * mixed * self.x * other.x,
            sum_.xz + mixed * (self.x * other.z + self.z * other.x),
            sum_.zz + 2 * mixed * self.z * other.z,
        )


def _power(u: Jet, exponent: float) -> Jet:
    def term(coefficient: float, power: float) -> Real:
        return coefficient * u.value**power if coefficient else 0.0 * u.value

    n = exponent
    return u.through(u.value**n, term(n, n - 1), term(n * (n - 1), n - 2))


def _tan(u: Jet) -> Jet:
    t = np.tan(u.value)
    return u.through(t, 1 + t * t, 2 * t * (1 + t * t))


def _tanh(u: Jet) -> Jet:
    t = np.tanh(u.value)
    return u.through(t, 1 - t * t, -2 * t * (1 - t * t))


def _exp(u: Jet) -> Jet:
    e = np.exp(u.value)
    return u.through(e, e, e)


def _atan2(u: Jet, w: Jet) -> Jet:
    a, b = u.value, w.value
    square = a * a + b * b
    bent = 2 * a * b / square**2
    mixed = (a * a - b * b) / square**2
    return u.composed(w, np.arctan2(a, b), (b / square, -a / square), (-bent, mixed, bent))


_FUNCTIONS: dict[str, Callable[..., Jet]] = {
    "+": Jet.__add__,
    "-": Jet.__sub__,
    "*": Jet.__mul__,
    "/": lambda u, w: u * _power(w, -1),
    "neg": Jet.__neg__,
    "sin": lambda u: u.through(np.sin(u.value), np.cos(u.value), -np.sin(u.value)),
    "cos": lambda u: u.through(np.cos(u.value), -np.sin(u.value), -np.cos(u.value)),
    "tan": _tan,
    "tanh": _tanh,
    "exp": _exp,
    "sqrt": lambda u: _power(u, 0.5),
    "atan2": _atan2,
}


def _jet(node: Node, names: dict[str, Jet]) -> Jet:
    if isinstance(node, Symbol):
        return names[node.name]
    if isinstance(node, Number):
        return Jet(float(node.value))
    if node.value is not None:
        return Jet(node.value)
    if node.function == "**":
        exponent = node.arguments[1].value
        assert exponent is not None  # the parser lets only numbers through
        return _power(_jet(node.arguments[0], names), exponent)
    return _FUNCTIONS[node.function](*(_jet(each, names) for each in node.arguments))


@dataclass(frozen=True)
class Ground:
    """Profile points: abscissa, height [m], slope p', second derivative p'' [1/m]; floats or arrays."""

    q: Real
    p: Real
    slope: Real
    bend: Real

    def __getitem__(self, which: Any) -> "Ground":
        return Ground(self.q[which], self.p[which], self.slope[which], self.bend[which])

    @property
    def stands(self) -> Any:
        """Where the profile is there and not vertical."""
        with np.errstate(invalid="ignore"):
            return np.isfinite(self.p) & np.isfinite(self.bend) & (np.abs(self.slope) < STEEP)

    @property
    def W(self) -> Real:
        """The length of the profile per length of x."""
        return np.sqrt(1 + self.slope * self.slope)

    @property
    def curvature(self) -> Real:
        """[1/m], positive in a valley."""
        return self.bend / self.W**3

    @property
    def alpha(self) -> Real:
        """The direction from the centre of what rolls to this point [rad]."""
        return np.arctan2(-1.0, self.slope)

    def centre(self, r: float) -> tuple[Real, Real]:
        """The centre (x, z) of a hoop of radius r that touches here [m]."""
        return self.q - r * self.slope / self.W, self.p + r / self.W


def row(*points: Ground) -> Ground:
    """Points and rows of points as one row."""
    return Ground(*(np.hstack([getattr(each, name) for each in points]) for name in ("q", "p", "slope", "bend")))


@dataclass(frozen=True)
class Profile:
    """A profile as it was given; `implicit` if it is h(x, z) = 0."""

    expression: Expression
    implicit: bool

    @property
    def turned(self) -> str:
        """The text with its sign turned."""
        return f"-({self.expression.text.strip()})"

    def jet(self, x: Real, z: Real) -> Jet:
        """h and its derivatives [m, or whatever h is in]; nan or inf where it has none."""
        # numpy's numbers, since plain ones raise where they should give nan
        names = {"x": Jet(np.float64(x), x=1.0), "z": Jet(np.float64(z), z=1.0)}
        with np.errstate(all="ignore"):
            h = _jet(self.expression.tree, names)
            return h if self.implicit else h - names["z"]

    def at(self, q: Real, z: Real) -> Ground:
        """The profile at points (q, z) on it; z is of no consequence unless the profile is implicit."""
        h = self.jet(q, z)
        if not self.implicit:
            return Ground(q, h.value + z, h.x + 0.0 * q, h.xx + 0.0 * q)
        with np.errstate(all="ignore"):
            slope = -h.x / h.z
            return Ground(q, z, slope, -(h.xx + 2 * h.xz * slope + h.zz * slope**2) / h.z)

    def height(self, q: float, near: float) -> float:
        """The height of the profile at q by Newton's method from the height `near`; nan where none is found."""
        if not self.implicit:
            return float(self.jet(q, 0.0).value)
        z = float(near)
        for _ in range(ITERATIONS):
            h = self.jet(q, z)
            if not np.isfinite(h.value) or h.z == 0:
                return float("nan")
            change = float(h.value / h.z)
            z -= change
            if abs(change) <= 4e-16 * max(abs(z), 1e-3):
                return z
        return z if abs(change) <= 1e-12 * max(abs(z), 1e-3) else float("nan")

    def along(self, q: Array, near: float) -> Array:
        """The heights of the profile at each q, one after the other from the height `near`; nan from where it ends."""
        if not self.implicit:
            whole: Array = self.jet(q, 0.0).value + 0.0 * q
            return whole
        found = np.full(len(q), np.nan)
        for i, each in enumerate(q):
            near = found[i] = self.height(float(each), near)
            if not np.isfinite(near):
                break
        return found

    def heights(self, q: float, near: float = 0.0) -> list[float]:
        """The heights of the profile at q that a scan finds, a few of the nearest to a height, the nearest first."""
        if not self.implicit:
            z = self.height(q, 0.0)
            return [z] if np.isfinite(z) else []
        h = self.jet(q, SCAN).value + 0.0 * SCAN
        with np.errstate(all="ignore"):
            changes = np.flatnonzero((np.sign(h[1:]) != np.sign(h[:-1])) & np.isfinite(h[1:] + h[:-1]))
        found: list[float] = []
        for i in sorted(changes, key=lambda i: abs(SCAN[i] - near))[:FEW]:
            z = self._between(q, SCAN[i], SCAN[i + 1])
            if np.isfinite(z) and not any(abs(z - each) < 1e-9 * (1 + abs(z)) for each in found):
                found.append(z)
        return sorted(found, key=lambda z: abs(z - near))

    def _between(self, q: float, low: float, high: float) -> float:
        """The root between two heights where the sign changes; nan at a pole."""
        rises = self.jet(q, low).value < 0
        return self.height(q, boundary(lambda z: bool((self.jet(q, z).value < 0) == rises), low, high)[0])

    def vertical(self, q: float, z: float) -> tuple[float, float] | None:
        """The place (x, z) near a point where h = h_z = 0, by Newton's method."""
        at = np.array([q, z])
        for _ in range(ITERATIONS):
            h = self.jet(*at)
            if not np.isfinite(h.entries).all():
                return None
            jacobian = np.array([[h.x, h.z], [h.xz, h.zz]], float)
            if abs(np.linalg.det(jacobian)) < 1e-300:
                return None
            change = np.linalg.solve(jacobian, [float(h.value), float(h.z)])
            at = at - change
            if np.abs(change).max() <= 1e-12 * (1 + np.abs(at).max()):
                return float(at[0]), float(at[1])
        return None


def read(text: str) -> Profile:
    """The profile of the settings.

    Raises:
        Unprepared: it is not an expression of x and z, or has no third derivatives.
    """
    try:
        expression = parse(text, ("x", "z"))
        expression.require_derivatives(3, "", needed_by="the hoop")
    except ExpressionError as error:
        raise Unprepared("plant.settings", "profile", str(error)) from error
    if _has(expression.tree, "wrap"):
        text = "wrap jumps and the hoop needs 3 derivatives; use a smooth expression"
        raise Unprepared("plant.settings", "profile", text)
    return Profile(expression, "z" in expression.names)


def _has(node: Node, function: str) -> bool:
    if not isinstance(node, Apply):
        return False
    return node.function == function or any(_has(each, function) for each in node.arguments)
