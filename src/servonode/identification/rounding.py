"""What the rounding of encoders does to estimates: their bias and covariance, from simulated records.

The error of rounding is no noise where a channel moves by few of its steps: it repeats with the motion, so that it
changes the amplitude that is seen (B. Widrow and I. Kollár, Quantization Noise, 2008, ch. 4). So records are simulated
near the fitted one, from parameters and initial states as uncertain as the fit says; they are rounded as the channels
are, and fitted anew by the slopes that are known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from servonode.arrays import Array
from servonode.identification.fit import Fit, Part, Slopes, refitted
from servonode.identification.uncertainty import Covariance, Residuals, covariance_of, scores_density, widened
from servonode.mechanics.description import Quantity

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
