"""Confidence intervals of a probability of which so many successes in so many runs are seen."""

from math import sqrt

LEVEL = 0.95


def wilson(successes: int, runs: int, level: float = LEVEL) -> tuple[float, float]:
    """The score interval of a probability (E. B. Wilson, J. Amer. Statist. Assoc. 22, 1927), its level on average.

    It is (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n) with p = successes / runs and n = runs. Without
    runs nothing is known: 0 to 1.
    """
    from scipy.special import ndtri

    if runs == 0:
        return 0.0, 1.0
    z, share = float(ndtri(0.5 + level / 2)), successes / runs
    middle = share + z**2 / (2 * runs)
    half = z * sqrt(share * (1 - share) / runs + z**2 / (4 * runs**2))
    low, high = ((middle + sign * half) / (1 + z**2 / runs) for sign in (-1, 1))
    return (0.0 if successes == 0 else low), (1.0 if successes == runs else high)


def clopper_pearson(successes: int, runs: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a probability, its level at least (C. J. Clopper, E. S. Pearson, Biometrika 26, 1934).

    Its ends are quantiles of beta distributions. Without runs nothing is known: 0 to 1.
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(successes, runs - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, runs - successes, 1 - tail)) if successes < runs else 1.0
    return low, high
