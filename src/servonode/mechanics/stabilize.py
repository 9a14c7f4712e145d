"""Stabilisation of servo residuals: gains in all their forms, and the proof that they are stable.

The law asks, with rows and columns in the order of the program's residuals (docs/explanation/mathematics.md, eq. 7),

    f_i^(r_i) = - ... - sum_j K1[i, j] f_j' - sum_j K0[i, j] f_j ,      r_i = 1, 2, ...

r_i the relative degree. f_j' counts for finite residuals (r = 2) only: a differential one (r = 1) enters by its value,
through K0, and the law takes its rate as 0. Constraint perturbation equations (Gorshkov 2008, corrected) use z, the m
finite residuals, and y = (z'; zeta), zeta the differential ones, each group in the program's order: y[k] belongs to the
residual `y_order(relative_degrees)[k]`. In these letters, with E = (I_m 0),

    z' = E y,   y' = -C1 y - C0 z,   C1 = (K1 of the finite columns, K0 of the differential ones),   C0 = K0 of the
    finite columns, rows in the order of y.

Integral action adds s' = f and -KI s to the demand. Against a steady disturbance d of f^(r) (friction that the model
lacks) it brings the residual to 0 where K0 alone leaves d / lambda or d / lambda^2. It costs: a residual that starts
away from 0 overshoots, and its last part decays with the slow integral rate only; rates near lambda take margin
against delay; s winds up while an input is at its limit, so it must rest then. A tenth of lambda costs little.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.definitions import cache as kernel_cache
from servonode.errors import ServonodeError
from servonode.kernels.library import library_text

Matrix = npt.ArrayLike
_ROUNDING = 1e-11  # of the fastest eigenvalue: a real part nearer to 0 cannot be told from 0


class GainsError(ServonodeError, ValueError):
    """Gains that cannot be because of one residual, which `{}` stands for in the text."""

    def __init__(self, text: str, residual: int) -> None:
        super().__init__(text, residual)
        self.text, self.residual = text, residual

    def of(self, name: str | int) -> str:
        """The text with this name of the residual."""
        return self.text.format(f"residual {name}")

    def __str__(self) -> str:
        return self.of(self.residual)


class UnstableGains(ServonodeError, ValueError):
    """Gains whose residuals do not all decay; `eigenvalue` [1/s] is the one that decays least."""

    def __init__(self, message: str, eigenvalue: complex) -> None:
        super().__init__(message)
        self.eigenvalue = eigenvalue


def y_order(relative_degrees: Sequence[int]) -> list[int]:
    """The residual of each entry of y: those of the highest relative degree first, those of relative degree 1 last."""
    return sorted(range(len(relative_degrees)), key=lambda i: -relative_degrees[i])


@cache
def gains_kernel() -> Any:
    """The kernel `kernels/lib/gains.py`. CacheError: the kernel cache cannot be read or written."""
    source = library_text("gains", {}, {})
    return kernel_cache.load(kernel_cache.key_of("gains", source), lambda: (source, b"{}"))[0]


@dataclass(frozen=True, eq=False)
class Gains:
    """Feedback f^(r) = ... - K2 f'' - K1 f' - K0 f - KI s, s' = f, of n_s residuals in the program's order.

    K0, K1, KI (n_s, n_s); row i of K0, K1 has the unit of f_i^(r_i) over that of f_j, f_j'. Columns of K1 that
    belong to relative degree 1 are 0. `higher` are K2, K3, ..., of relative degrees above 2. The arrays are copies and
    cannot be written.

    Raises:
        ValueError: a relative degree is below 1, a shape does not fit, a gain is not finite or multiplies the
            derivative of a residual of relative degree 1.
    """

    K0: Array  # of f
    K1: Array  # of f'
    relative_degrees: tuple[int, ...]
    KI: Array  # of the integral of f
    higher: tuple[Array, ...] = ()  # of f'' and so on

    def __post_init__(self) -> None:
        for i in (i for i, r in enumerate(self.relative_degrees) if r < 1):
            raise GainsError(f"{{}} has relative degree {self.relative_degrees[i]}; it must be 1 or more", i)
        for name in ("K0", "K1", "KI"):
            array = _matrix(name, getattr(self, name), len(self.relative_degrees))
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        for i, j in np.argwhere(self.K1 * (np.array(self.relative_degrees) == 1)):
            text = f"K1[{i}, {j}] = {self.K1[i, j]:g} multiplies the rate of {{}}, which has relative degree 1"
            raise GainsError(f"{text} and acts by its value; put the gain into K0[{i}, {j}]", int(j))

    @classmethod
    def from_rates(cls, rates: Sequence[float], relative_degrees: Sequence[int]) -> Self:
        """Gains of a finite rate lambda [1/s] for each: (d/dt + lambda)^r f = 0; rate 0 is the plain law f^(r) = 0."""
        rates, coefficient = _one_each("rates", rates, relative_degrees).tolist(), gains_kernel().coefficient
        K0, K1, *higher = (  # of the derivatives in (d/dt + lambda)^r f = 0
            np.diag([coefficient(*each, order) for each in zip(rates, relative_degrees, strict=True)])
            for order in range(max(2, *relative_degrees, 0))
        )
        return cls(K0, K1, tuple(relative_degrees), np.zeros_like(K0), tuple(higher))

    @classmethod
    def from_matrices(cls, K0: Matrix, K1: Matrix, relative_degrees: Sequence[int]) -> Self:
        """Gains of coupled residuals, K0 and K1 (n_s, n_s) in the program's order; signs and errors as `Gains`.

        Raises ValueError also where a relative degree is above 2.
        """
        n = len(relative_degrees)
        for i in (i for i, r in enumerate(relative_degrees) if r > 2):
            text = f"{{}} has relative degree {relative_degrees[i]}, and matrices are for 1 and 2"
            raise GainsError(f'{text}; give convergence rates, lambda = "auto" or numbers of 1/s', i)
        return cls(np.array(K0, float), np.array(K1, float), tuple(relative_degrees), np.zeros((n, n)))

    @classmethod
    def from_perturbation(cls, a: Matrix, c: Matrix, k: Matrix, relative_degrees: Sequence[int]) -> Self:
        """Gains that give the residuals inertia, dissipation and stiffness: a y' + c y + (k z; 0) = 0.

        a, c (n_s, n_s) in the program's order; k (m, m) for those of relative degree 2, in the same order. With all
        three symmetric and positive definite the residuals decay, whatever the values. Raises ValueError where a shape
        does not fit, a number is not finite, or the inertia is singular.
        """
        n, two = len(relative_degrees), [i for i, r in enumerate(relative_degrees) if r == 2]
        inertia, stiffness = _matrix("inertia a", a, n), np.zeros((n, n))
        stiffness[np.ix_(two, two)] = _matrix("stiffness k", k, len(two))
        if np.linalg.matrix_rank(inertia) < n:
            raise ValueError(f"inertia a is singular (rank {np.linalg.matrix_rank(inertia)} of {n}); give it full rank")
        C = np.linalg.solve(inertia, _matrix("dissipation c", c, n))
        finite = np.array(relative_degrees) == 2
        K0 = np.where(finite, np.linalg.solve(inertia, stiffness), C)
        return cls.from_matrices(K0, np.where(finite, C, 0.0), relative_degrees)

    @property
    def K(self) -> tuple[Array, ...]:
        """K0, K1, K2, ..., of f, f', f'', ..."""
        return (self.K0, self.K1, *self.higher)

    @property
    def rates(self) -> Array:
        """The convergence rate [1/s] of each residual; of coupled ones what a diagonal entry alone would be."""
        return np.array([self.K[r - 1][i, i] / r for i, r in enumerate(self.relative_degrees)])

    def above(self, order: int) -> list[int]:
        """Residuals of a relative degree above `order`: the derivatives of that order are states."""
        return [i for i, r in enumerate(self.relative_degrees) if r > order]

    @property
    def integrated(self) -> list[int]:
        """Residuals whose integral is fed back."""
        return np.flatnonzero(self.KI.any(axis=0)).tolist()

    @property
    def plain(self) -> list[int]:
        """Residuals without feedback beside the strongest, f^(r) = 0: their errors stay (r = 1) or grow (r = 2)."""
        r = np.array(self.relative_degrees, dtype=float)
        f, df, integral = (np.abs(each).max(axis=1, initial=0.0) for each in (self.K0, self.K1, self.KI))
        rates = np.max([f ** (1 / r), (df / 2) ** (1 / np.maximum(r - 1, 1)), integral ** (1 / (r + 1))], axis=0)
        return np.flatnonzero(rates <= _ROUNDING * rates.max(initial=0.0)).tolist()

    def without_plain(self) -> Self:
        """The gains of the residuals that have feedback."""
        keep = [i for i in range(len(self.relative_degrees)) if i not in self.plain]
        K0, K1, KI, *higher = (each[np.ix_(keep, keep)] for each in (self.K0, self.K1, self.KI, *self.higher))
        kept = tuple(self.relative_degrees[i] for i in keep)
        return replace(self, K0=K0, K1=K1, KI=KI, relative_degrees=kept, higher=tuple(higher))


def with_integral(gains: Gains, rates: Sequence[float]) -> Gains:
    """The gains with integral action, KI = K0 diag(rates); a rate [1/s] of 0 leaves that integral out.

    A single residual then obeys f' = -lambda (f + rate s), stable for every rate > 0, or
    f'' = -2 lambda f' - lambda^2 (f + rate s), stable for 0 < rate < 2 lambda. See the module for worth and cost.
    Raises ValueError unless there is one finite rate for each residual, and a gain in K0 for each that is not 0.
    """
    each = _one_each("integral rates", rates, gains.relative_degrees)
    for j, rate in enumerate(each):
        if rate and not gains.K0[:, j].any():
            raise GainsError(f"{{}} has integral rate {rate:g} but no gain in K0; give it a rate lambda first", j)
    return replace(gains, KI=gains.K0 * each)


def system_matrix(gains: Gains) -> Array:
    """The matrix of xi' = K xi, xi = (z; y; s): size sum of r, and one more for each integrated residual."""
    at = _places(gains)
    K = np.zeros((len(at) + len(gains.integrated),) * 2)
    for (i, order), row in at.items():
        if order < gains.relative_degrees[i] - 1:
            K[row, at[i, order + 1]] = 1.0
            continue
        for (k, other), column in at.items():
            K[row, column] = -gains.K[other][i, k]
        K[row, len(at) :] = -gains.KI[i, gains.integrated]
    for row, i in enumerate(gains.integrated, len(at)):
        K[row, at[i, 0]] = 1.0
    return K


def _places(gains: Gains) -> dict[tuple[int, int], int]:
    """Residual and order of each derivative in xi -> its place: f, f', ... but the last ones, then these in y."""
    most = max(gains.relative_degrees, default=0)
    lower = [(i, order) for order in range(most) for i in gains.above(order + 1)]
    top = [(i, gains.relative_degrees[i] - 1) for i in y_order(gains.relative_degrees)]
    return {each: place for place, each in enumerate([*lower, *top])}


def eigenvalues(gains: Gains) -> npt.NDArray[np.complex128]:
    """Eigenvalues [1/s] of the residual system, the slowest to decay first."""
    mu = np.linalg.eigvals(system_matrix(gains)).astype(complex)
    return mu[np.argsort(-mu.real)]


def is_stable(gains: Gains) -> bool:
    """Whether all residuals decay: every eigenvalue in the left half plane, by more than rounding."""
    mu = eigenvalues(gains)
    return bool(np.all(mu.real < -_ROUNDING * np.abs(mu).max(initial=0.0)))


@dataclass(frozen=True, eq=False)
class Certificate:
    """Proof of stability of the residuals with feedback: V = xi^T H xi / 2 falls, as K^T H + H K = -I and H > 0."""

    eigenvalues: npt.NDArray[np.complex128]  # [1/s] of all residuals
    H: Array  # of the residuals with feedback
    minors: Array  # leading minors of H, all positive (Sylvester)
    decay_rate: float  # [1/s] proved by H: |xi| falls at least as exp(-decay_rate t), up to a factor; 0: not proved
    plain: tuple[int, ...]  # residuals without feedback


def check(gains: Gains, *, allow_plain: bool = False, names: Sequence[str] = ()) -> Certificate:
    """The certificate of gains that are stable; `names` of the residuals are for messages.

    Plain residuals, allowed on request, are left out of the proof and named in it. H solves K^T H + H K = -I; it
    proves the rate 1 / (2 max eig H), which is less than the eigenvalues' and depends on the units of xi.

    Raises:
        UnstableGains: a residual does not decay, or is plain and that is not allowed.
    """
    names = names or [f"residual {i}" for i in range(len(gains.relative_degrees))]
    plain, fed = gains.plain, gains.without_plain()
    if plain and not allow_plain:
        text = f"{names[plain[0]]} has rate 0 (eigenvalue 0 1/s): its errors stay for ever; give it a rate above 0"
        raise UnstableGains(f"{text}, or allow the plain law, which is for demonstrations", 0j)
    if not is_stable(fed):
        raise _unstable(fed, [each for i, each in enumerate(names) if i not in plain])
    H = lyapunov(system_matrix(fed))
    minors = np.array([np.linalg.det(H[:k, :k]) for k in range(1, len(H) + 1)])
    rate = 0.0 if plain or not minors.size or minors.min() <= 0.0 else 0.5 / np.linalg.eigvalsh(H)[-1]
    return Certificate(eigenvalues(gains), H, minors, float(rate), tuple(plain))


def lyapunov(K: Array) -> Array:
    """The symmetric H (n, n) of K^T H + H K = -I, one linear system as n is small; it spares the runtime scipy."""
    n, eye = len(K), np.eye(len(K))
    H = np.linalg.solve(np.kron(K.T, eye) + np.kron(eye, K.T), -eye.ravel()).reshape(n, n)
    return np.asarray(0.5 * (H + H.T))


def _unstable(gains: Gains, names: Sequence[str]) -> UnstableGains:
    """The refusal, with the eigenvalue and the residual that shows it most."""
    mu, vectors = np.linalg.eig(system_matrix(gains))
    worst, order, at = int(np.argmax(mu.real)), y_order(gains.relative_degrees), _places(gains)
    share = np.abs(vectors[[at[i, 0] for i in order], worst])  # of f itself
    value = complex(mu[worst]) + 0.0  # not -0
    text = f"{value.real:+.4g}" + (f" ± {abs(value.imag):.4g}j" if value.imag else "")
    return UnstableGains(
        f"the gains do not stabilise {names[order[int(np.argmax(share))]]}: eigenvalue {text} 1/s of the residual "
        f"system must have a negative real part; {_remedy(gains)}",
        value,
    )


def _remedy(gains: Gains) -> str:
    if is_stable(replace(gains, K0=-gains.K0, K1=-gains.K1, KI=-gains.KI)):
        return "turn all signs, as the law is f^(r) = -K1 f' - K0 f"
    if gains.KI.any() and is_stable(replace(gains, KI=0.0 * gains.KI)):
        return "take lower integral rates, above 0; without them the gains are stable"
    if all(r == 2 for r in gains.relative_degrees) and is_stable(replace(gains, K0=gains.K1, K1=gains.K0)):
        return "exchange K0 (of f) and K1 (of f')"
    return "take rates above 0, or inertia, dissipation and stiffness that are positive definite"


def _matrix(name: str, values: Any, n: int) -> Array:
    """A finite (n, n) copy."""
    array = np.array(values, dtype=float)
    if array.shape != (n, n) and array.size + n:
        raise ValueError(f"{name} has shape {array.shape}; it needs {(n, n)}, a row and a column for each residual")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains {array[~np.isfinite(array)][0]}; all gains must be finite")
    return array.reshape(n, n)


def _one_each(name: str, values: Sequence[float], relative_degrees: Sequence[int]) -> Array:
    array = np.array(values, dtype=float)
    if array.shape != (len(relative_degrees),) or not np.isfinite(array).all():
        text = f"{name} {array.tolist()} for {len(relative_degrees)} residuals; give one finite rate [1/s] for each"
        raise ValueError(text)
    return array
