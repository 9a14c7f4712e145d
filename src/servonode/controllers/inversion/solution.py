"""The bounded solution with its feedback, computed once for the same numbers: it stands in the cache of kernels."""

from collections.abc import Callable

import msgspec
import numpy as np

from servonode.arrays import Array
from servonode.controllers.inversion.bounded import Bounded
from servonode.controllers.inversion.feedforward import Pieces, pieces_source
from servonode.definitions import cache


class Solution(msgspec.Struct, frozen=True):
    """Numbers of a bounded solution and its feedback; arrays as bytes, their shapes follow from n and n_tau.

    `gains` are K (m, n_tau, n_held) at the control instants; `radius` the largest eigenvalue of the sampled loop at
    the end.
    """

    n: int
    n_tau: int
    held: list[int]
    t: bytes
    x: bytes
    u: bytes
    breaks: bytes
    x_pieces: bytes
    u_pieces: bytes
    rest: bytes
    gains: bytes
    eigenvalues: list[tuple[float, float]]
    residual: float
    before: float
    after: float
    radius: float

    @classmethod
    def of(cls, found: Bounded, gains: Array, radius: float) -> "Solution":
        """That of a bounded solution with its gains."""
        arrays = (found.t, found.x, found.u, found.breaks, found.x_pieces, found.u_pieces, found.rest, gains)
        t, x, u, breaks, x_pieces, u_pieces, rest, K = (each.tobytes() for each in arrays)
        return cls(
            n=found.x.shape[1], n_tau=found.u.shape[1], held=found.held,
            t=t, x=x, u=u, breaks=breaks, x_pieces=x_pieces, u_pieces=u_pieces, rest=rest, gains=K,
            eigenvalues=[(float(mu.real), float(mu.imag)) for mu in found.eigenvalues],
            residual=found.residual, before=found.before, after=found.after, radius=radius,
        )  # fmt: skip

    @property
    def bounded(self) -> Bounded:
        """The solution as arrays."""
        x, u = np.frombuffer(self.x).reshape(-1, self.n), np.frombuffer(self.u).reshape(-1, self.n_tau)
        t, breaks, rest = (np.frombuffer(each) for each in (self.t, self.breaks, self.rest))
        N = len(breaks) - 1
        x_pieces = np.frombuffer(self.x_pieces).reshape(N, -1, len(self.held))
        u_pieces = np.frombuffer(self.u_pieces).reshape(N, -1, self.n_tau)
        eigenvalues = np.array([complex(*each) for each in self.eigenvalues])
        return Bounded(
            t, x, u, breaks, x_pieces, u_pieces, self.residual, self.before, self.after, eigenvalues, rest, self.held
        )

    @property
    def K(self) -> Array:
        """The gains (m, n_tau, n_held)."""
        return np.frombuffer(self.gains).reshape(-1, self.n_tau, len(self.held))


def stored_solution(key: str, solve: Callable[[], Solution], what: str) -> Solution:
    """The solution of a key, from the cache or by `solve`."""
    source = pieces_source()
    _, content = cache.load(key, lambda: (source, msgspec.json.encode(solve())), what)
    return msgspec.json.decode(content, type=Solution)


def state_pieces(found: Bounded) -> Pieces:
    """x* of the states that are held."""
    return Pieces(found.breaks, found.x_pieces)


def input_pieces(found: Bounded) -> Pieces:
    """u*, which may jump from piece to piece."""
    return Pieces(found.breaks, found.u_pieces)


def gain_pieces(K: Array, period: float) -> Pieces:
    """-K, straight from one control instant to the next."""
    flat = -K.reshape(len(K), -1)
    lines = np.stack([np.diff(flat, axis=0) / period, flat[:-1]], axis=1)
    return Pieces(np.arange(len(K), dtype=np.float64) * np.float64(period), lines)
