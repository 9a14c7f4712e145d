"""The gains of a launch file: rates, automatic rates, coupled matrices, or inertia, dissipation and stiffness."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from servonode.closed_loop.launch_error import KeyRefused, check_names
from servonode.closed_loop.launch_keys import AUTO
from servonode.mechanics import discrete
from servonode.mechanics.description import ProgramDescription, Quantity
from servonode.mechanics.stabilize import Gains, GainsError, with_integral

SECTION = "controller.gains"
MATRICES, PERTURBATION = ("K0", "K1"), ("inertia", "dissipation", "stiffness")


def wants_integral(given: Mapping[str, Any]) -> bool:
    """Whether [controller.gains] asks for integral action."""
    return any(key.startswith("integral") for key in given)


def gain_names(residuals: Sequence[str]) -> list[str]:
    """The names that [controller.gains] may have for these residuals."""
    return [*_keys("lambda", residuals), *_keys("integral", residuals), *MATRICES, *PERTURBATION]


def _keys(word: str, residuals: Sequence[str]) -> list[str]:
    return [word, *(f"{word}_{name}" for name in residuals)]


def resolve_gains(given: Mapping[str, Any], description: ProgramDescription, period: float, delay: float) -> Gains:
    """The gains of a program's residuals; for automatic rates the period [s], and the delay in control periods.

    Raises:
        KeyRefused: an unknown key, a value that is no rate or no matrix, or forms that exclude each other.
    """
    names = [each.name for each in description.residuals]
    if given and not names:
        text = f"program {description.name} has no residuals and no feedback; remove it"
        raise KeyRefused(SECTION, next(iter(given)), text)
    rate_keys = _keys("lambda", names)
    check_names(SECTION, given, gain_names(names))
    forms = [keys for keys in (rate_keys, MATRICES, PERTURBATION) if any(key in given for key in keys)]
    if len(forms) > 1:
        texts = " or ".join(", ".join(key for key in keys if key in given) for keys in forms)
        raise KeyRefused(SECTION, None, f"give either {texts}, not both")
    try:
        gains = _form(given, description, period, delay)
        integral = [_integral_rate(given, name) for name in names]
        return with_integral(gains, integral) if any(integral) else gains
    except ValueError as error:
        if isinstance(error, KeyRefused):
            raise
        text = error.of(names[error.residual]) if isinstance(error, GainsError) else str(error)
        raise KeyRefused(SECTION, None, text) from error


def _form(given: Mapping[str, Any], description: ProgramDescription, period: float, delay: float) -> Gains:
    relative_degrees = description.relative_degrees
    if any(key in given for key in PERTURBATION):
        a, c, k = (_matrix(given, key) for key in PERTURBATION)
        return Gains.from_perturbation(a, c, k, relative_degrees)
    if any(key in given for key in MATRICES):
        n = len(relative_degrees)
        K1 = _matrix(given, "K1") if "K1" in given else np.zeros((n, n))
        return Gains.from_matrices(_matrix(given, "K0"), K1, relative_degrees)
    if description.explicit and not given:  # its residuals are only watched
        return Gains.from_rates([0.0] * len(relative_degrees), relative_degrees)
    rates = [
        _rate(given, quantity, relative_degree, period, delay)
        for quantity, relative_degree in zip(description.residuals, relative_degrees, strict=True)
    ]
    return Gains.from_rates(rates, relative_degrees)


def _rate(given: Mapping[str, Any], quantity: Quantity, relative_degree: int, period: float, delay: float) -> float:
    """The convergence rate of a residual [1/s]: its own, else `lambda`, else the program's default, else "auto"."""
    own, default = f"lambda_{quantity.name}", quantity.default
    key = own if own in given else "lambda"
    value = given.get(key, AUTO if default is None else default)
    if value == AUTO:
        return discrete.auto_rate(relative_degree, period, delay)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        text = f'{value!r} is not a convergence rate; give a number of 1/s, 0 or more (0: not stabilised), or "auto"'
        raise KeyRefused(SECTION, key, text)
    return float(value)


def _integral_rate(given: Mapping[str, Any], name: str) -> float:
    key = f"integral_{name}" if f"integral_{name}" in given else "integral"
    value = given.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise KeyRefused(SECTION, key, f"{value!r} is not a convergence rate; give a number of 1/s")
    return float(value)


def _matrix(given: Mapping[str, Any], key: str) -> Any:
    value = given.get(key)
    if not isinstance(value, list):
        text = "is missing" if value is None else f"{value!r} is not a matrix"
        raise KeyRefused(SECTION, key, f"{text}; give rows of numbers, as [[4, 0], [0, 4]]")
    if len({len(row) for row in value}) != 1:
        text = f"{value!r} has rows of different lengths; give rows of numbers, as [[4, 0], [0, 4]]"
        raise KeyRefused(SECTION, key, text)
    return np.array(value, dtype=float)
