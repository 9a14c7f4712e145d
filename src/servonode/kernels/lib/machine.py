"""What the kernel of a machine gives."""

from servonode.kernels.lib.names import f64, n_constants, n_tau, n_x

__all__ = ["input_rates", "n_constants", "n_tau", "n_x"]


def input_rates(t: float, x: f64[n_x], c: f64[n_constants], rates: f64[n_tau]) -> None:
    """The velocity on which each input works."""
