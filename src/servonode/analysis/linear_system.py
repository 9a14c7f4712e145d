"""A linear system with named states, inputs and outputs: its poles, what its inputs reach, its frequency response."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.errors import StatementError, did_you_mean
from servonode.tables import Row, Tabular, named, several

Complex = npt.NDArray[np.complex128]
SIDE = 1e-3  # of the differences of fourth order, relative to the states (to 1 for states below 1, to 10 above 10)
# of a slope: differences of other sizes tell the same up to the former, not above the latter
AGREE, DIFFER = 1e-9, 1e-6
ROUNDING = 1e-15  # of the largest value, over the size of the difference: what two of them differ by at least
FINER = 8.0 ** np.arange(1, 4)
DECAYS = 1e-9  # what the largest eigenvalue of a period is below 1 at least of a loop that decays
DAMPED = 1e-8  # of the fastest pole [1/s], at least 1: what a real part is below 0 at least
DEAD = 1e-6  # of a pole of a sampled system
SHOWN = 1e-6  # a part of a pole below this is printed as 0
GOLDEN = (5**0.5 - 1) / 2
UNREACHED = 1e-9  # of the norm of (A, B): a direction below this is no new one


@dataclass(frozen=True)
class Reach:
    """How many directions of the state the inputs reach, `rank` of `n`, with the singular values that decide.

    `singular_values` are those of the new directions of B, A B, A^2 B, ..., each orthogonal to those before and
    relative to the norm of (A, B), the largest first; `left_out`: the largest that did not count. A rank is clear where
    a gap is between the last of the former and the latter. They depend on the units of the states.
    """

    rank: int
    n: int
    singular_values: Array
    left_out: float

    def __bool__(self) -> bool:
        """Whether the inputs reach every direction."""
        return self.rank == self.n


@dataclass(frozen=True, repr=False, eq=False)
class LinearSystem(Tabular):
    """x' = A x + B u, y = C x + D u, or with a `period` [s] x_(k+1) = A x_k + B u_k: deviations from one state.

    A (n, n), B (n, n_u), C (n_y, n), D (n_y, n_u) in the order of `states`, `inputs` and `outputs`; `units` by name.
    """

    name: str
    A: Array
    B: Array
    C: Array
    D: Array
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    units: Mapping[str, str]
    period: float | None = None

    def table(self) -> tuple[str, list[Row]]:
        """Its names with their units, and its poles."""
        kind = "continuous" if self.period is None else f"sampled every {self.period:g} s"
        names = (("states", self.states), ("inputs", self.inputs), ("outputs", self.outputs))
        rows = [(word, several((named(each, self.units.get(each, "1")) for each in of), 10)) for word, of in names]
        return f"Linear system {self.name}, {kind}", [*rows, ("poles", several(map(pole_text, self.poles), 8))]

    @property
    def poles(self) -> Complex:
        """The eigenvalues of A: in 1/s, the fastest growing first; of a sampled system the largest first."""
        found = np.linalg.eigvals(self.A).astype(complex)
        sizes = found.real if self.period is None else np.abs(found)
        return found[np.argsort(-sizes, kind="stable")]

    @property
    def rates(self) -> Complex:
        """The poles in 1/s; of a sampled system log(z) / period, without those below DEAD, which are gone at once."""
        if self.period is None:
            return self.poles
        poles = self.poles
        return np.asarray(np.log(poles[np.abs(poles) > DEAD]) / self.period, dtype=complex)

    @property
    def radius(self) -> float:
        """The size of the largest pole; 0 without states."""
        return float(np.abs(self.poles).max(initial=0.0))

    def reach(self) -> Reach:
        """How many directions of the state the inputs reach: the rank of (B, A B, A^2 B, ...).

        An orthonormal basis of them grows by A times its last directions, which no power of A spoils
        (D. Boley, G. Golub, Systems & Control Letters 4, 1984).
        """
        basis, values, left_out = reached(self.A, self.B)
        return Reach(basis.shape[1], len(self.A), np.sort(values)[::-1], left_out)

    def response(self, omega: npt.ArrayLike) -> Complex:
        """C (s 1 - A)^-1 B + D (n_omega, n_y, n_u) at s = j omega [rad/s]; sampled: z = e^(j omega period)."""
        s = 1j * np.atleast_1d(np.asarray(omega, dtype=float))
        points = s if self.period is None else np.exp(s * self.period)
        eye = np.eye(len(self.A))
        return np.array([self.C @ np.linalg.solve(at * eye - self.A, self.B.astype(complex)) + self.D for at in points])

    def part(self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> "LinearSystem":
        """The same states with some of the inputs and outputs, in that order; None: all.

        Raises:
            StatementError: there is no such input or output.
        """
        u = self._places("input", self.inputs, inputs)
        y = self._places("output", self.outputs, outputs)
        names, of = tuple(self.inputs[i] for i in u), tuple(self.outputs[i] for i in y)
        return replace(self, B=self.B[:, u], C=self.C[y], D=self.D[np.ix_(y, u)], inputs=names, outputs=of)

    @staticmethod
    def _places(word: str, known: tuple[str, ...], wanted: Sequence[str] | None) -> list[int]:
        for name in wanted or ():
            if name not in known:
                near = did_you_mean(str(name), known)
                raise StatementError(f"{name!r} is not an {word}; {near}choose of {', '.join(known) or 'none'}")
        return [known.index(name) for name in (known if wanted is None else wanted)]

    def to_control(self) -> Any:
        """The same as a `control.StateSpace` of python-control, with these names.

        Raises:
            StatementError: python-control is not installed.
        """
        try:
            import control
        except ImportError:
            text = "python-control is not installed; install it with  pip install control"
            raise StatementError(text) from None
        names = {"states": list(self.states), "inputs": list(self.inputs), "outputs": list(self.outputs)}
        dt = 0 if self.period is None else self.period
        return control.ss(self.A, self.B, self.C, self.D, dt, **names, name=self.name.replace(" ", "_"))


def reached(A: Array, B: Array, least: float = UNREACHED) -> tuple[Array, Array, float]:
    """An orthonormal basis (n, rank) of what B, A B, A^2 B, ... span, with the singular values of `Reach` above
    `least`, and the largest of those that did not count.
    """
    size = float(np.linalg.norm(np.hstack([A, B]), 2)) if B.size else 0.0
    basis, kept, left_out, new = np.zeros((len(A), 0)), list[float](), 0.0, B
    while new.size and size:
        for _ in range(2):  # twice is enough for orthogonality
            new = new - basis @ (basis.T @ new)
        U, values, _ = np.linalg.svd(new / size, full_matrices=False)
        counts = values > least
        kept += values[counts].tolist()
        left_out = max([left_out, *values[~counts].tolist()])
        basis = np.hstack([basis, U[:, counts]])
        new = A @ U[:, counts]
    return basis, np.array(kept), left_out


def pole_text(pole: complex) -> str:
    """A pole in four digits, as `-1.2+3.4j`; parts that differences cannot tell from 0, as of double poles, are 0."""
    real = pole.real if abs(pole.real) > SHOWN else 0.0
    imag = pole.imag if abs(pole.imag) > SHOWN * max(10.0, abs(pole)) else 0.0
    return f"{real:.4g}{imag:+.4g}j" if imag else f"{real:.4g}"


def least_between(of: Callable[[float], float], low: float, high: float, width: float) -> float:
    """Where a function is least between two places, to within this width: golden sections."""
    inside = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    values = [of(each) for each in inside]
    while high - low > width:
        if values[0] < values[1]:
            high, inside[1], values[1] = inside[1], inside[0], values[0]
            inside[0] = high - GOLDEN * (high - low)
            values[0] = of(inside[0])
        else:
            low, inside[0], values[0] = inside[0], inside[1], values[1]
            inside[1] = low + GOLDEN * (high - low)
            values[1] = of(inside[1])
    return (low + high) / 2


def slope(of: Callable[[Array], Array], x: Array, sides: Array | None = None) -> Array:
    """d of / dx (m, n) at x (n,): differences of fourth order, of these sizes, or those of `checked_slope`."""
    if sides is None:
        return checked_slope(of, x)[0]
    columns = [_column(of, x, i, side) for i, side in enumerate(sides)]
    return np.array(columns).T if columns else np.zeros((len(of(x)), 0))


def checked_slope(of: Callable[[Array], Array], x: Array) -> tuple[Array, list[int]]:
    """The slope of `slope`, and which columns of it are in doubt, because differences of other sizes give others.

    The size is SIDE relative to |x| between 1 and 10. Where an eighth of that tells something else, eighths go on, and
    the finer one of the two neighbours that agree best is taken: a pole, something steep or a limit may be near.
    """
    level, columns, doubtful = max(1.0, float(np.abs(of(x)).max(initial=0.0))), list[Array](), list[int]()
    for i, side in enumerate(SIDE * np.clip(np.abs(x), 1.0, 10.0)):
        found, apart = [_column(of, x, i, side)], list[float]()
        for finer in side / FINER:
            found.append(_column(of, x, i, finer))
            apart.append(_apart(*found[-2:]))
            if apart[-1] <= AGREE * _size(found[-1]) + ROUNDING * level / finer:
                break
        best = int(np.argmin(apart))
        columns.append(found[best + 1 if best else 0])
        if apart[best] > DIFFER * _size(columns[-1]) + ROUNDING * level / finer:
            doubtful.append(i)
    return (np.array(columns).T if columns else np.zeros((len(of(x)), 0))), doubtful


def _column(of: Callable[[Array], Array], x: Array, i: int, side: float) -> Array:
    step = np.zeros(len(x))
    step[i] = side
    near = [of(x + k * step) for k in (-2, -1, 1, 2)]
    column: Array = (near[0] - 8 * near[1] + 8 * near[2] - near[3]) / (12 * side)
    return column


def _size(column: Array) -> float:
    return float(np.abs(column).max(initial=0.0))


def _apart(one: Array, other: Array) -> float:
    """The largest difference; infinite where one is not finite."""
    return float(np.nan_to_num(np.abs(one - other), nan=np.inf).max(initial=0.0))
