"""Gains of residuals: what brings each back at a rate."""

from servonode.kernels.lib.names import *


def coefficient(rate: float, degree: int, order: int) -> float:
    """That of the derivative f^(order) in (d/dt + rate)^degree f, below the highest; 0 from there on."""
    if order >= degree:
        return 0.0
    ways = 1.0  # in which so many of the factors can be chosen
    for i in range(order):
        ways = ways * (degree - i) / (i + 1)
    power = 1.0
    for _ in range(degree - order):
        power *= rate
    return ways * power


def stabilise(n: int, rates: f64[any_size], degrees: i64[any_size], integral: f64[any_size], K: f64[any_size]) -> None:
    """Fill K (3, n, n): of the residuals, of their rates, of their integrals."""
    for i in range(n):
        K[i * (n + 1)] = coefficient(rates[i], degrees[i], 0)
        K[n * n + i * (n + 1)] = coefficient(rates[i], degrees[i], 1)
        K[2 * n * n + i * (n + 1)] = K[i * (n + 1)] * integral[i]
