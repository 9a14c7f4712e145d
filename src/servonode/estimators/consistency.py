"""Whether an estimate is as good as it says: squared errors in units of the covariance that it claims.

NEES is e^T P^-1 e with the error e of the whole estimate, NIS nu^T S^-1 nu with the innovations nu of readings. Where
all is as stated both are chi-square, with as many degrees of freedom as there are dimensions or readings, so the sum
over independent ones lies within known bands.
"""

import numpy as np

from servonode.arrays import Array

LEAST = 1e-9  # of the correlations' eigenvalues: in directions below it nothing is uncertain


def consistency(mean: Array, P: Array, truth: Array) -> tuple[float, int]:
    """NEES of a mean (n,) with covariance P (n, n), and its degrees of freedom: the directions that are uncertain."""
    deviation = np.sqrt(np.maximum(np.diag(P), 0.0))
    uncertain = deviation > 0
    scale = deviation[uncertain]
    if not len(scale):
        return 0.0, 0
    values, directions = np.linalg.eigh(P[np.ix_(uncertain, uncertain)] / np.outer(scale, scale))
    along = directions.T @ ((mean - truth)[uncertain] / scale)
    kept = values > LEAST
    return float(np.sum(along[kept] ** 2 / values[kept])), int(kept.sum())
