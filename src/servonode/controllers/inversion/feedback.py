"""Feedback that holds the whole state to the bounded solution: the linear-quadratic regulator of the sampled machine.

About x*(t) the state after one period depends on that before as x_{k+1} = A_k x_k + B_k u_k, with A_k and B_k from the
machine's own steps under a held input. K_k minimises the sum of x^T Q x + u^T R u to the end of the run, and from there
on for ever (Anderson & Moore, Optimal Control, 1990): a Riccati equation, backward from its stationary solution.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.controllers.inversion.ends import NoInversion, complex_text
from servonode.mechanics.machine import Machine

AN_ERROR = 0.1  # share of a state's motion
SMALL = 1e-6  # a motion below this has no size of its own: 1 stands for it (m, rad, m/s, rad/s, N, N m)


def sampled(
    machine: Machine, integrator: str, step_ns: int, per_period: int, instant: int, x: Array, u: Array
) -> tuple[Array, Array]:
    """A (n, n) and B (n, n_tau) of one control period from an instant on, at state x (n,) and input u (n_tau,)."""
    n, advance = len(x), machine.advancer(integrator)
    both = np.append(x, u)
    step = 1e-5 * np.maximum(1.0, np.abs(both))
    columns = []
    for j in range(len(both)):
        ends = []
        for sign in (1.0, -1.0):
            moved = both.copy()
            moved[j] += sign * step[j]
            state = np.append(moved[:n], 0.0)
            advance(instant * per_period, per_period, step_ns, state, moved[n:], machine.c)
            ends.append(state[:n])
        columns.append((ends[0] - ends[1]) / (2 * step[j]))
    both_columns = np.array(columns).T
    return both_columns[:, :n], both_columns[:, n:]


def weights(sizes: Array, n: int, given: Mapping[int, float]) -> tuple[Array, Array]:
    """Q and R (diagonal) for `sizes` of how far n states, then the inputs, move; `given` weights stand for themselves.

    Else by Bryson's rule: an error of AN_ERROR of a state's own motion is worth the largest input.
    """
    sizes = np.where(sizes > SMALL, sizes, 1.0)
    scaled = 1.0 / np.append(AN_ERROR * sizes[:n], sizes[n:]) ** 2
    for i, value in given.items():
        scaled[i] = value
    return np.diag(scaled[:n]), np.diag(scaled[n:])


def gains(steps: list[tuple[Array, Array]], Q: Array, R: Array) -> Array:
    """K (m, n_tau, n) of u = -K x for each step (A, B).

    Raises:
        NoInversion: the inputs cannot stabilise the state.
    """
    P, found = _stationary(*steps[-1], Q, R), []
    for A, B in reversed(steps):
        K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = A.T @ P @ (A - B @ K) + Q
        P = (P + P.T) / 2
        found.append(K)
    return np.array(found[::-1])


def _stationary(A: Array, B: Array, Q: Array, R: Array) -> Array:
    from scipy.linalg import solve_discrete_are

    try:
        P: Array = solve_discrete_are(A, B, Q, R)
    except np.linalg.LinAlgError as error:
        raise NoInversion(
            "no feedback stabilises the whole state: the inputs do not reach all of it where the goal ends; hold what "
            "is left over by friction, or leave it out of the machine"
        ) from error
    return P


def closed_eigenvalues(A: Array, B: Array, K: Array, delay: int) -> npt.NDArray[np.complex128]:
    """Eigenvalues of x_{k+1} = A x_k - B K x_{k-delay}: stable where all lie inside the unit circle."""
    n = len(A)
    M = np.eye((delay + 1) * n, k=-n)
    M[:n, :n] = A
    M[:n, delay * n :] -= B @ K
    found: npt.NDArray[np.complex128] = np.linalg.eigvals(M).astype(complex)
    return found


def check_stable(A: Array, B: Array, K: Array, delay: int) -> float:
    """The largest magnitude of an eigenvalue of the sampled closed loop.

    Raises:
        NoInversion: it is not below 1.
    """
    worst = max(closed_eigenvalues(A, B, K, delay).tolist(), key=abs)
    if abs(worst) >= 1.0:
        text = f"the feedback about the bounded solution is unstable with a delay of {delay} periods (eigenvalue "
        text += f"{complex_text(worst)} of the sampled loop); shorten period or delay, set predictor = true, or weigh "
        raise NoInversion(f"{text}the inputs more (weights)")
    return float(abs(worst))
