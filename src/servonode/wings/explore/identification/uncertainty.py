"""How far estimates can be trusted: covariance, intervals, correlations, and whether the residuals are white.

With white residuals the covariance is the inverse of the Fisher information, H^-1. Where a portmanteau test finds them
correlated, as of an encoder's rounding of a slow motion, no interval is narrower than that of the sandwich H^-1 S H^-1
with the spectral density S of the scores at frequency zero, summed with Bartlett's weights (Newey and West,
Econometrica 55, 1987, 703).

What the rounding of encoders does to estimates: their bias and covariance, from simulated records.

The error of rounding is no noise where a channel moves by few of its steps: it repeats with the motion, so that it
changes the amplitude that is seen (B. Widrow and I. Kollár, Quantization Noise, 2008, ch. 4). So records are simulated
near the fitted one, from parameters and initial states as uncertain as the fit says; they are rounded as the channels
are, and fitted anew by the slopes that are known.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from servonode.arrays import Array
from servonode.mechanics.description import Quantity
from servonode.wings.explore.identification.fit import Fit, Part, Slopes, refitted, told

LEVEL = 0.95
WHITE = 0.01  # significance level of the test of whiteness
LAGS = 20  # of the test
NEGLIGIBLE = 1e-3  # share of a gradient in directions that are not told, which still counts as told


@dataclass(frozen=True)
class Residuals:
    """The residuals of one channel: rms in the channel's unit, the noise that was estimated, tests of them.

    correlation: autocorrelation at lags 1, 2, ...; p_white, p_normal: of Ljung and Box's,
    and of Jarque and Bera's test.
    """

    experiment: str
    channel: str
    unit: str
    rms: float
    noise: float
    quantum: float
    fit: float  # 1 - rms / standard deviation of what was measured
    correlation: Array
    p_white: float
    p_normal: float

    @property
    def white(self) -> bool:
        return self.p_white >= WHITE


@dataclass(frozen=True)
class Covariance:
    """Of the parameters (p, p), infinite where the record does not tell one.

    white (p, p): the inverse of the information. directions (p, p - rank): what the record does not tell, as changes of
    the parameters. dof: measurements less unknowns. robust: whether it is the sandwich.
    """

    matrix: Array
    white: Array
    directions: Array
    dof: int
    robust: bool

    @property
    def quantile(self) -> float:
        """Of Student's t, for an interval of 95 %."""
        return float(stats.t.ppf((1 + LEVEL) / 2, max(self.dof, 1)))

    def deviation(self, gradient: Array, sizes: Array, negligible: float = NEGLIGIBLE) -> float:
        """The standard deviation of a function of the parameters with this gradient; infinite where it is not told.

        negligible: the share of the gradient that may lie in directions which the record does not tell. In these a
        parameter counts as known to 100 %.
        """
        if self.left(gradient, sizes) > negligible:
            return float("inf")
        lost = self.directions.T @ (gradient * sizes)
        return math.sqrt(max(float(gradient @ self.matrix @ gradient), 0.0) + float(lost @ lost))

    def left(self, gradient: Array, sizes: Array) -> float:
        """The share of a function's gradient that lies in directions that the record does not tell."""
        scaled = gradient * sizes
        return float(np.linalg.norm(self.directions.T @ scaled)) / (float(np.linalg.norm(scaled)) or 1.0)


def residuals_of(fit: Fit) -> list[Residuals]:
    """The analysis of the residuals of every channel of every experiment."""
    return [
        found
        for part, slopes, sigma in zip(fit.parts, fit.slopes, fit.noise, strict=True)
        for found in _channels(part, slopes, sigma)
    ]


def _channels(part: Part, slopes: Slopes, sigma: Array) -> list[Residuals]:
    experiment, found = part.experiment, []
    for i, channel in enumerate(experiment.channels):
        own = slopes.residuals[experiment.channel == i]
        rms, spread = float(np.sqrt(np.mean(own**2)) * sigma[i]), float(np.std(channel.values))
        correlation = autocorrelation(own)
        p_normal = float(stats.jarque_bera(own).pvalue) if np.ptp(own) > 0 else 1.0
        found.append(
            Residuals(
                experiment.name,
                channel.name,
                channel.unit,
                rms,
                float(sigma[i]),
                channel.quantum,
                1 - rms / spread if spread > 0 else 1.0,
                correlation,
                ljung_box(correlation, len(own)),
                p_normal,
            )
        )
    return found


def autocorrelation(values: Array, lags: int = LAGS) -> Array:
    """The autocorrelation at lags 1 to `lags`, fewer of a short series."""
    centred = values - np.mean(values)
    power, most = float(centred @ centred), min(lags, max(len(values) // 4, 1))
    if power == 0.0:
        return np.zeros(most)
    return np.array([float(centred[lag:] @ centred[:-lag]) / power for lag in range(1, most + 1)])


def ljung_box(correlation: Array, n: int) -> float:
    """The probability of correlations as large as these in white noise of n values (Ljung and Box, Biometrika 1978)."""
    lags = np.arange(1, len(correlation) + 1)
    statistic = n * (n + 2) * float(np.sum(correlation**2 / np.maximum(n - lags, 1)))
    return float(stats.chi2.sf(statistic, len(correlation)))


def covariance_of(fit: Fit, white: bool) -> Covariance:
    """The covariance of the parameters; white: whether all residuals are."""
    J = np.concatenate([each.J * fit.sizes for each in fit.slopes])
    _, s, Vt = np.linalg.svd(J, full_matrices=False)
    known = told(s)
    basis, null = Vt[known].T, Vt[~known].T
    inverse = matrix = basis @ np.diag(1 / s[known] ** 2) @ basis.T
    if not white:
        matrix = widened(inverse, inverse @ scores_density(fit) @ inverse)
    units = np.outer(fit.sizes, fit.sizes)
    return Covariance(matrix * units, inverse * units, null, fit.n_measurements - fit.n_unknowns, not white)


def widened(white: Array, sandwich: Array) -> Array:
    """The covariance for white residuals with the larger standard deviation of the two for each parameter.

    The sandwich of few instants is too small by chance as often as too large; it only ever widens.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.nan_to_num(np.sqrt(np.diag(sandwich) / np.diag(white)), nan=1.0)
    factor = np.maximum(ratio, 1.0)
    widened: Array = white * np.outer(factor, factor)
    return widened


def scores_density(fit: Fit, left_out: npt.NDArray[np.bool_] | None = None) -> Array:
    """The sum over the channels, whose noise is independent, of the spectral density of their scores J^T e.

    left_out: of the channels of all parts, one after the other, those that are not in it.
    """
    total, out = np.zeros((len(fit.values),) * 2), iter([] if left_out is None else left_out.tolist())
    for part, slopes in zip(fit.parts, fit.slopes, strict=True):
        scores = slopes.J * fit.sizes * slopes.residuals[:, None]
        for i in (i for i in range(len(part.experiment.channels)) if not next(out, False)):
            total += density_at_zero(scores[part.experiment.channel == i])
    return total


def density_at_zero(scores: Array) -> Array:
    """The sum over lags of the covariance of a series (n, p), in its own samples, with Bartlett's weights (p, p)."""
    lags = int(np.ceil(4 * (len(scores) / 100) ** (2 / 9))) + LAGS
    total: Array = scores.T @ scores
    for lag in range(1, min(lags, len(scores) - 1) + 1):
        gamma = scores[lag:].T @ scores[:-lag]
        total += (1 - lag / (lags + 1)) * (gamma + gamma.T)
    return total


DRAWS = 200  # simulated records
ROUNDS = 3  # of correction, each for the motion that the one before has found
SLOW = 1.0  # share of its variance that neighbouring differences show at most of an error that repeats with the motion
FINE = 0.1  # share of a channel's noise in its variance that rounding may be without mattering


def unrounded(fit: Fit, bounds: list[Quantity], residuals: Sequence[Residuals]) -> tuple[Fit, Covariance]:
    """The fit without the bias that rounding gives it, and the covariance with what rounding makes of it."""
    coarse = np.concatenate([_coarse(part, sigma) for part, sigma in zip(fit.parts, fit.noise, strict=True)])
    resolved = [channel.resolved for part in fit.parts for channel in part.experiment.channels]
    known = (coarse > 0) | ~np.array(resolved)  # channels whose residuals cannot be white, and why
    white = all(each.white for each, why in zip(residuals, known, strict=True) if not why)
    covariance = covariance_of(fit, white)
    if not coarse.any():
        return fit, covariance
    found = fit
    for _ in range(ROUNDS):
        errors, means = _errors(found, covariance)
        found = refitted(found, means, bounds)
    spread = np.atleast_2d(np.cov(errors.T))
    density = scores_density(found, coarse > 0) / np.outer(found.sizes, found.sizes)
    sandwich = covariance.white @ density @ covariance.white
    return found, replace(covariance, matrix=spread if white else widened(spread, sandwich))


def _coarse(part: Part, sigma: Array) -> Array:
    """Of each channel its quantum where that is much of its noise, and neighbouring errors are alike; else 0."""
    channels = part.experiment.channels
    quanta, noise = (np.array([getattr(each, word) for each in channels]) for word in ("quantum", "noise"))
    return np.where((quanta**2 / 12 > FINE * sigma**2) & (noise < SLOW * sigma**2), quanta, 0.0)


def _errors(fit: Fit, covariance: Covariance) -> tuple[Array, list[Array]]:
    """The errors of the parameters (DRAWS, p) that fits of simulated records have, and the mean errors of these."""
    rng, p = np.random.default_rng(1), len(fit.values)
    draws = rng.multivariate_normal(np.zeros(p), covariance.white, DRAWS, method="eigh")
    scores, means = np.zeros((DRAWS, p)), []
    for part, slopes, sigma in zip(fit.parts, fit.slopes, fit.noise, strict=True):
        mean = np.zeros(part.experiment.n_measurements)
        for i, error in enumerate(_read(part, slopes, sigma, draws, rng)):
            scores[i] += slopes.J.T @ (error / sigma[part.experiment.channel])
            mean += error / DRAWS
        means.append(np.where(_coarse(part, sigma)[part.experiment.channel] > 0, mean, 0.0))
    return scores @ covariance.white, means


def _read(part: Part, slopes: Slopes, sigma: Array, draws: Array, rng: np.random.Generator) -> Iterator[Array]:
    """The errors (n,) that noise and rounding make of motions at these changes of the parameters."""
    experiment, coarse = part.experiment, _coarse(part, sigma)
    before = np.sqrt(np.maximum(sigma**2 - coarse**2 / 12, 0.0))  # noise before the rounding
    scale, quantum, noise = (each[experiment.channel] for each in (sigma, coarse, before))
    fitted, rounds = experiment.values - slopes.residuals * scale, quantum > 0
    for change in draws:
        moved = slopes.J @ change
        for own, _, basis in slopes.starts:
            moved[own] += basis @ rng.standard_normal(basis.shape[1])
        motion = fitted + scale * moved
        read = motion + noise * rng.standard_normal(len(motion))
        read[rounds] = np.round(read[rounds] / quantum[rounds]) * quantum[rounds]
        yield read - motion
