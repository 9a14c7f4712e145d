"""Goals through points: splines, and polynomials that rest at each point, as pieces of powers.

A piece from t_i to t_i + h_i is the polynomial sum of c_ij u^j, u = (t - t_i)/h_i in [0, 1]. Before the first and after
the last point a curve keeps its value, and its derivatives are zero.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from servonode.arrays import Array
from servonode.definitions import cache

LEAST_DEGREE, MOST_DEGREE = 3, 17  # a rest of MOST_DERIVATIVES takes the latter


@dataclass(frozen=True)
class Curve:
    """Pieces between `times` (n + 1,) [s] with their coefficients (n, degree + 1), in rising powers of u.

    derivatives: how many are continuous between its ends.
    """

    times: Array
    coefficients: Array
    derivatives: int

    @property
    def degree(self) -> int:
        return len(self.coefficients[0]) - 1

    @property
    def table(self) -> Array:
        """The times, then the coefficients piece by piece, as the kernel reads them."""
        return np.concatenate([self.times, self.coefficients.ravel()])


def rest_degree(order: int) -> int:
    """The degree with which `order` derivatives can be zero at both ends."""
    return max(2 * order + 1, LEAST_DEGREE)


def smooth_degree(order: int) -> int:
    """The least odd degree of a spline whose derivative of this order is continuous."""
    return max(order + 1 + order % 2, LEAST_DEGREE)


def stopping(times: Sequence[float], values: Sequence[float], degree: int) -> Curve:
    """From point to point, at rest in each: (degree - 1)/2 derivatives are zero there.

    The share of the way is the integral of u^m (1 - u)^m from 0 to u by that from 0 to 1, m = (degree - 1)/2: among
    all such curves that with the least integral of the square of derivative m + 1.
    """
    m = (degree - 1) // 2
    share = np.zeros(degree + 1)
    whole = math.factorial(2 * m + 1) // math.factorial(m) ** 2
    for j in range(m + 1):
        share[m + 1 + j] = (-1) ** j * math.comb(m, j) * whole / (m + 1 + j)
    coefficients = np.outer(np.diff(values), share)
    coefficients[:, 0] = values[:-1]
    return Curve(np.array(times), coefficients, m)


def spline(times: Sequence[float], values: Sequence[float], degree: int, rest: bool) -> Curve:
    """The spline of an odd degree through the points.

    With `rest` its first (degree - 1)/2 derivatives are zero at both ends: the curve through the points with the least
    integral of the square of derivative (degree + 1)/2 that begins and ends so; degree 5 has the least jerk, 7 the
    least snap. Else its ends are free (not-a-knot), which takes degree + 1 points.
    """
    if rest and len(times) == 2:
        return replace(stopping(times, values, degree), derivatives=degree - 1)
    arguments = json.dumps([list(times), list(values), degree, rest])
    key = cache.key_of("spline", arguments, cache.code_digest("controllers.engine.curves"))
    text = cache.kept_text(key, lambda: _pieces(times, values, degree, rest))
    times_, coefficients = json.loads(text)
    return Curve(np.array(times_), np.array(coefficients), degree - 1)


def _pieces(times: Sequence[float], values: Sequence[float], degree: int, rest: bool) -> str:
    """The times and coefficients as JSON."""
    from scipy.interpolate import make_interp_spline

    zero = [(n, 0.0) for n in range(1, (degree + 1) // 2)] if rest else None
    start, width = times[0], times[-1] - times[0]
    scale = (len(times) - 1) / width  # points about 1 apart, for derivatives at the ends stand in the same matrix
    shares = (np.array(times) - start) * scale
    found = make_interp_spline(shares, np.array(values), degree, bc_type=(zero, zero))
    knots = np.unique(found.t)
    h = np.diff(knots)
    taylor = [found(knots[:-1], n) * h**n / math.factorial(n) for n in range(degree + 1)]
    ends = [*(start + knots[:-1] / scale).tolist(), float(times[-1])]
    return json.dumps([ends, np.transpose(taylor).tolist()])


KERNEL = """\
def curve(t: f64, pieces: f64[:], first: i64, n: i64, degree: i64, order: i64, out: f64[:], at: i64):
    low = 0
    high = n
    while high - low > 1:
        middle = (low + high)//2
        if t < pieces[first + middle]:
            high = middle
        else:
            low = middle
    start = pieces[first + low]
    h = pieces[first + low + 1] - start
    u = min(max((t - start)/h, 0.0), 1.0)
    moves = pieces[first] <= t and t <= pieces[first + n]
    powers = first + n + 1 + low*(degree + 1)
    scale = 1.0
    for d in range(order + 1):
        value = 0.0
        for j in range(degree, d - 1, -1):
            factor = 1.0
            for i in range(d):
                factor *= j - i
            value = value*u + factor*pieces[powers + j]
        out[at + d] = value*scale if d == 0 or moves else 0.0
        scale = scale/h


"""
