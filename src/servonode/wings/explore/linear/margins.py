"""Margins of the sampled loop: gain, phase, delay, modulus and disk margins, one signal at a time and all together.

One at a time the other signals stay closed, so that L is a number. Where it meets the real axis and the unit circle is
found without a grid: on |z| = 1 a real L is L(z) = L(1/z), and |L| = 1 is L(z) L(1/z) = 1, both generalised eigenvalue
problems in z. The gain margin is the interval of factors around 1 at whose ends an eigenvalue of the loop is on the
circle; the phase margin the least angle that does the same. The delay margin [s] is that angle over its frequency, of
delays before the sample; the modulus margin min |1 + L| = 1 / max |S|. The disk margin alpha = 1 / max |S - 1/2| allows
every gain and phase of (2 + alpha d)/(2 - alpha d), |d| < 1, at once (P. Seiler, A. Packard, P. Gahinet, IEEE Control
Systems 40(5), 2020); of all signals together it is 1 / max mu(S - 1/2), with the upper bound of mu by scaling: a margin
that is certain at the frequencies looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from servonode.analysis.linear_system import DECAYS, Complex, least_between
from servonode.analysis.sampled_step import Open
from servonode.arrays import Array
from servonode.tables import Result, Row
from servonode.wings.explore.linear.frequency_response import CutLoop

NEAR_CIRCLE, MOVED = 1e-3, 0.02  # distance from the unit circle of roots that are looked at, and by which they may move
ON_CIRCLE = 1e-9  # of the phase, or of log |L|, that a crossing may miss
NOTHING = 1e-6  # a factor below this is zero, and above its inverse infinite
LONGEST = 30  # periods of a delay that are tried
REFINED = 1e-8  # of the distance of two frequencies, to which a peak is found
NEARLY, PEAKS = 0.98, 3  # of the largest value on the grid, and how many peaks: what is refined


@dataclass(frozen=True)
class SignalMargins:
    """The margins of one signal while the others stay closed; infinity where none bounds.

    `gain`: the least and the largest factor around 1; `phase` [rad] at `phase_frequency` [rad/s]; `delay` [s] at
    `delay_frequency`; `modulus` = min |1 + L|; `disk`: alpha, with gain and phase that it allows at once.
    """

    name: str
    gain: tuple[float, float]
    phase: float
    phase_frequency: float
    delay: float
    delay_frequency: float
    modulus: float
    modulus_frequency: float
    disk: float
    disk_frequency: float

    @property
    def disk_gain(self) -> tuple[float, float]:
        """The factors that the disk allows."""
        return disk_gain(self.disk)

    @property
    def disk_phase(self) -> float:
        """The angle [rad] that the disk allows."""
        return disk_phase(self.disk)


def disk_gain(alpha: float) -> tuple[float, float]:
    """The interval of gains that a disk margin allows."""
    return max((2 - alpha) / (2 + alpha), 0.0), (2 + alpha) / (2 - alpha) if alpha < 2 else np.inf


def disk_phase(alpha: float) -> float:
    """The angle [rad] that a disk margin allows."""
    return float(2 * np.arctan(alpha / 2)) if alpha < 2 else np.pi


@dataclass(frozen=True, repr=False)
class Margins(Result):
    """The margins of a sampled loop about an equilibrium, cut at `cut`; of a loop that does not decay all are 0.

    `radius`: its largest eigenvalue, of what the cut moves and shows; `hidden`: of the whole loop. `disk`: that of all
    signals varying together, a lower bound. `delay`: the longest [s] that all drives together may act later, in whole
    plant steps, each of which was tried; None: beyond LONGEST periods.
    """

    cut: str
    period: float  # s
    radius: float
    hidden: float
    signals: tuple[SignalMargins, ...]
    disk: float
    delay: float | None  # s
    remarks: tuple[str, ...] = ()

    @property
    def stable(self) -> bool:
        """Whether all perturbations decay, by more than rounding, also of what the law neither moves nor sees."""
        return max(self.radius, self.hidden) <= 1 - DECAYS

    def __getitem__(self, name: str) -> SignalMargins:
        """The margins of a signal."""
        return {each.name: each for each in self.signals}[name]

    def table(self) -> tuple[str, list[Row]]:
        """A line for each signal, and what all bear together."""
        decays = "" if self.radius <= 1 - DECAYS else ": it does not decay, and there is no margin"
        rows = [("largest eigenvalue", f"{self.radius:.6g} over a period of {self.period:g} s{decays}")]
        rows += [(each.name, _signal_text(each)) for each in self.signals]
        low, high = disk_gain(self.disk)
        phase = np.degrees(disk_phase(self.disk))
        text = f"disk {self.disk:.3g}: gains from {low:.3g} to {high:.3g}, phases to {phase:.3g} deg"
        late = f"{self.delay:.4g} s" if self.delay is not None else f"{LONGEST} periods and more"
        rows += [("all together", f"{text}; drives later by {late}")]
        return f"Margins of the sampled loop at its {self.cut}", [*rows, *(("remark", text) for text in self.remarks)]


def _signal_text(each: SignalMargins) -> str:
    gain = f"gain from {each.gain[0]:.3g} to {each.gain[1]:.3g}"
    phase = f"phase {np.degrees(each.phase):.3g} deg at {each.phase_frequency:.3g} rad/s"
    if np.isinf(each.phase):
        phase = "any phase"
    delay = f"delay {each.delay:.3g} s" if np.isfinite(each.delay) else "any delay"
    return f"{gain}, {phase}, {delay}, modulus {each.modulus:.3g}, disk {each.disk:.3g}"


def margins_of(loop: CutLoop, remarks: tuple[str, ...] = ()) -> Margins:
    """The margins of a loop about an equilibrium."""
    radius = float(np.abs(np.linalg.eigvals(loop.open.closed)).max(initial=0.0))
    omega = loop.frequencies()
    n = len(loop.names)
    if loop.hidden > 1 - DECAYS >= radius:
        text = "left out: what the law neither moves nor sees, of which perturbations do not decay"
        remarks = (*remarks, f"{text} ({loop.hidden:.6g} a period)")
    if radius > 1 - DECAYS:
        zero = (0.0,) * 8
        none = tuple(SignalMargins(name, (1.0, 1.0), *zero) for name in loop.names)
        return Margins(loop.cut, loop.period, radius, loop.hidden, none, 0.0, 0.0, remarks)
    signals = tuple(_of_signal(loop, i, omega) for i in range(n))

    def size(w: float) -> float:
        return largest_mu(loop.open.sensitivity(np.exp(1j * w * loop.period)) - np.eye(n) / 2)

    disk = 1 / _peak(size, omega)[0]
    return Margins(loop.cut, loop.period, radius, loop.hidden, signals, disk, _longest_delay(loop), remarks)


def _longest_delay(loop: CutLoop) -> float | None:
    """The delay before the first, in plant steps, with which the loop no longer decays; none is passed over."""
    for steps in range(1, round(LONGEST * loop.period / loop.step) + 1):
        if np.abs(np.linalg.eigvals(loop.later(steps))).max(initial=0.0) > 1 - DECAYS:
            return (steps - 1) * loop.step
    return None


def _of_signal(loop: CutLoop, i: int, omega: Array) -> SignalMargins:
    single, T = others_closed(loop.open, i), loop.period

    def L(w: float) -> complex:
        return _L(single, w * T)

    factors = [-1 / L(w) for w in crossings(single, real=True) / T if 0 < abs(L(w)) < np.inf]
    gains = [each.real for each in factors if NOTHING < each.real < 1 / NOTHING]
    gain = (
        max((each for each in gains if each < 1), default=0.0),
        min((each for each in gains if each > 1), default=np.inf),
    )
    phases = [(abs(np.angle(-L(w))), w) for w in crossings(single, real=False) / T]
    lags = [(float(np.angle(-L(w)) % (2 * np.pi)) / w, w) for _, w in phases if w > 0]
    phase, at = min(phases, default=(np.inf, np.nan))
    delay, delay_at = min(lags, default=(np.inf, np.nan))
    peak, peak_at = _peak(lambda w: abs(single.sensitivity(np.exp(1j * w * T))[0, 0]), omega)
    skew, skew_at = _peak(lambda w: abs(single.sensitivity(np.exp(1j * w * T))[0, 0] - 0.5), omega)
    return SignalMargins(loop.names[i], gain, float(phase), at, delay, delay_at, 1 / peak, peak_at, 1 / skew, skew_at)


def others_closed(system: Open, i: int) -> Open:
    """The loop cut at signal i alone."""
    others = [k for k in range(len(system.D)) if k != i]
    B, C, D = system.B[:, others], system.C[others], system.D[np.ix_(others, others)]
    inner = np.linalg.inv(np.eye(len(others)) - D)
    through, back = inner @ C, inner @ system.D[others, i : i + 1]
    A = system.A + B @ through
    out = system.C[i : i + 1] + system.D[i : i + 1, others] @ through
    direct = system.D[i : i + 1, i : i + 1] + system.D[i : i + 1, others] @ back
    return Open(A, system.B[:, i : i + 1] + B @ back, out, direct)


def crossings(system: Open, real: bool) -> Array:
    """The angles omega T in [0, pi] at which L of one signal is real, or of magnitude 1."""
    starts = _roots(system, real)
    exact = [each for each in (_polished(system, real, at) for at in starts) if each is not None]
    if real:
        exact += [each for each in (0.0, np.pi) if np.isfinite(_L(system, each))]
    return np.unique(np.round(exact, 12))


def _L(system: Open, angle: float) -> complex:
    """The loop transfer of one signal at z = e^(j angle); infinite at a pole."""
    try:
        return complex(-system.transfer(np.exp(1j * angle))[0, 0])
    except np.linalg.LinAlgError:
        return complex(np.inf)


def _polished(system: Open, real: bool, start: float) -> float | None:
    """The crossing next to an angle, by the secant method; None where there is no such crossing."""

    def missed(angle: float) -> float:
        L = _L(system, angle)
        if not 0 < abs(L) < np.inf:
            return np.inf
        return float(np.angle(L**2) / 2) if real else float(np.log(abs(L)))

    before, at = start, start + 1e-6
    last, value = missed(before), missed(at)
    for _ in range(50):
        if abs(value) < ON_CIRCLE or not np.isfinite(value) or value == last:
            break
        before, at = at, at - value * (at - before) / (value - last)
        if not abs(at - start) < MOVED:
            return None
        last, value = value, missed(at)
    return at if abs(value) < ON_CIRCLE and 0 < at < np.pi else None


def _roots(system: Open, real: bool) -> Array:
    """The angles of the roots z near the unit circle of L(z) = L(1/z), or of L(z) L(1/z) = 1.

    With (z 1 - A) a = B v, (1 - z A) b = z B v' and L(1/z) of b: pencils P - z Q of the unknowns (a, b, v, ...).
    """
    from scipy.linalg import eigvals

    A, B, C, D = system.A, system.B, system.C, system.D
    n, eye, none = len(A), np.eye(len(A)), np.zeros_like(A)
    col, row = np.zeros((n, 1)), np.zeros((1, n))
    if real:  # unknowns a, b, v: L(z) v = L(1/z) v
        P = np.block([[-A, none, -B], [none, eye, col], [C, -C, np.zeros((1, 1))]])
        Q = np.block([[-eye, none, col], [none, A, B], [row, row, np.zeros((1, 1))]])
    else:  # unknowns a, b, v: L(1/z) of L(z) v is v
        P = np.block([[-A, none, -B], [none, eye, col], [D @ C, C, D @ D - 1]])
        Q = np.block([[-eye, none, col], [B @ C, A, B @ D], [row, row, np.zeros((1, 1))]])
    with np.errstate(all="ignore"):
        roots = eigvals(P, Q)
    roots = roots[np.isfinite(roots)]
    return np.unique(np.abs(np.angle(roots[np.abs(np.abs(roots) - 1) < NEAR_CIRCLE])))


def _peak(of: Callable[[float], float], omega: Array) -> tuple[float, float]:
    """The largest value of a function over the frequencies, refined around the largest of the grid; and where."""
    values = np.array([of(w) for w in omega])
    inner = (values[1:-1] >= values[:-2]) & (values[1:-1] >= values[2:])
    tops = [0, len(omega) - 1, *(np.flatnonzero(inner) + 1).tolist()]
    best = max(tops, key=lambda i: values[i])
    found = [(float(values[i]), float(omega[i])) for i in tops]
    high = [i for i in tops if values[i] > NEARLY * values[best] and 0 < i < len(omega) - 1]
    for i in sorted(high, key=lambda i: -values[i])[:PEAKS]:
        at = least_between(lambda w: -of(w), omega[i - 1], omega[i + 1], REFINED * (omega[i + 1] - omega[i - 1]))
        found.append((float(of(at)), at))
    return max(found)


def largest_mu(M: Complex) -> float:
    """The upper bound min over D of the norm of D M D^-1, D diagonal: of mu for each entry of a signal by itself.

    It is mu itself for up to three signals (J. Doyle, IEE Proceedings D 129, 1982). The norm is convex in the
    logarithms of D (R. Sezginer, M. Overton, IEEE Transactions on Automatic Control 35, 1990).
    """
    n = len(M)
    if n == 1:
        return float(abs(M[0, 0]))
    if n == 2:  # D leaves the product of both singular values; the least sum of their squares has a closed form
        squares = abs(M[0, 0]) ** 2 + abs(M[1, 1]) ** 2 + 2 * abs(M[0, 1] * M[1, 0])
        product = abs(M[0, 0] * M[1, 1] - M[0, 1] * M[1, 0])
        return float(np.sqrt((squares + np.sqrt(max(squares**2 - 4 * product**2, 0.0))) / 2))
    from scipy.optimize import minimize

    def norm(logs: Array) -> float:
        d = np.exp(np.append(0.0, logs))
        return float(np.linalg.svd(M * d[:, None] / d, compute_uv=False)[0])

    start = _balanced(M)
    found = minimize(norm, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-7, "maxfev": 200 * n})
    return min(norm(start), float(found.fun), float(np.linalg.norm(M, 2)))


def _balanced(M: Complex) -> Array:
    """Logarithms of the scaling that makes the norms of rows and columns alike (E. E. Osborne, 1960)."""
    sizes, logs = np.abs(M) ** 2, np.zeros(len(M))
    for _ in range(20):
        d = np.exp(2 * logs)
        scaled = sizes * d[:, None] / d
        np.fill_diagonal(scaled, 0.0)
        rows, columns = scaled.sum(1), scaled.sum(0)
        logs += np.log(np.maximum(columns, 1e-300) / np.maximum(rows, 1e-300)) / 8
    scaling: Array = logs[1:] - logs[0]
    return scaling
