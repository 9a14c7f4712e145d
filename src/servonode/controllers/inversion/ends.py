"""The closed loop linearised where the goal stands still: eigenvalues, and what a bounded solution fulfils at its ends.

At an equilibrium of a hyperbolic system, solutions that stay bounded for all earlier times lie on the unstable
manifold, those that stay bounded for all later times on the stable one (Devasia, Chen & Paden 1996). To first order
these are the invariant subspaces of dF/dx, here from an ordered Schur form, which repeated eigenvalues do not trouble.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.controllers.inversion.rates import ClosedRates
from servonode.errors import StatementError
from servonode.mechanics.equilibrium import passive, zero_near

HYPERBOLIC = 1e-6  # least |real part| of an eigenvalue, relative to the largest eigenvalue (to 1 1/s at least)


class NoInversion(StatementError):
    """There is no stable inversion of this program here; the text says why and what to do."""


@dataclass(frozen=True)
class End:
    """One end of the bounded solution.

    `x` (n,) is the equilibrium under the goal as it stands there; `eigenvalues` those of the n_a entries that are not
    passive; the rows of `leaving` (n_s, n_a) vanish on the unstable subspace, those of `coming` (n_u, n_a) on the
    stable one.
    """

    x: Array
    eigenvalues: npt.NDArray[np.complex128]
    leaving: Array
    coming: Array


def passive_entries(loop: ClosedRates, t: float, x: Array) -> list[int]:
    """The entries on which no rate depends but those of others like them: places, angles of wheels."""
    rates = loop.frozen(t)
    return passive(lambda at: (rates(at), loop.jacobian(t, at)), x, range(len(x)))


def equilibrium(loop: ClosedRates, t: float, x: Array, active: list[int]) -> Array | None:
    """The state near x at which the active entries stand still under the goal as it stands at t, or None."""
    rates = loop.frozen(t)
    return zero_near(lambda at: (rates(at)[active], lambda: loop.jacobian(t, at)[np.ix_(active, active)]), x, active)


def end_at(loop: ClosedRates, t: float, x: Array, active: list[int]) -> End:
    """The end of the bounded solution at time t, its equilibrium near x.

    Raises:
        NoInversion: there is no equilibrium, or it is not hyperbolic.
    """
    from scipy.linalg import schur

    found = equilibrium(loop, t, x, active)
    if found is None:
        text = (
            f"no state was found in which {_named(loop, active)} stand still under the goal as it is at t = {t:.4g} s"
        )
        raise NoInversion(f"{text}; begin nearer to one ([plant.initial]), or let the goal rest there")
    A = loop.jacobian(t, found)[np.ix_(active, active)]
    eigenvalues = np.linalg.eigvals(A).astype(complex)
    _check_hyperbolic(eigenvalues)
    _, away, n_u = schur(A, sort="rhp")
    _, towards, n_s = schur(A, sort="lhp")
    return End(found, eigenvalues, away[:, n_u:].T, towards[:, n_s:].T)


def _named(loop: ClosedRates, active: list[int]) -> str:
    return ", ".join(loop.names[i] for i in active)


def _check_hyperbolic(eigenvalues: npt.NDArray[np.complex128]) -> None:
    """Refuse eigenvalues on the imaginary axis: there the bounded solution is not unique."""
    least = HYPERBOLIC * max(1.0, float(np.max(np.abs(eigenvalues), initial=0.0)))
    on_axis = [mu for mu in eigenvalues if abs(mu.real) < least]
    if on_axis:
        text = f"the zero dynamics is not hyperbolic: eigenvalue {complex_text(on_axis[0])} 1/s on the imaginary axis"
        text += ", so no single solution is the bounded one; add friction to what swings freely, or another residual"
        raise NoInversion(text)


def complex_text(mu: complex) -> str:
    """An eigenvalue in four digits, without parts that are rounding: `-1.5`, `-0.2 + 3.1i`."""
    rounding = 1e-8 * abs(mu)
    real, imag = (part if abs(part) > rounding else 0.0 for part in (mu.real, mu.imag))
    return f"{real:.4g}" + (f" {'+' if imag > 0 else '-'} {abs(imag):.4g}i" if imag else "")
