"""Values of expressions at states: those that sympy gives, nan where there is no real one."""

import numpy as np
import numpy.typing as npt
import pytest
import sympy
from numpy.testing import assert_allclose, assert_array_equal
from sympy import Abs, Heaviside, Max, Min, acos, asin, atan2, cos, exp, log, sign, sin, sqrt, tan, tanh

from servonode.mechanics.evaluate import at_states

x, y, u = sympy.symbols("x y u", real=True)
STATES: dict[sympy.Symbol, npt.NDArray[np.float64]] = {x: np.array([0.3, -0.4]), y: np.array([0.7, 2.0])}


@pytest.mark.parametrize(
    "expression",
    [
        sympy.Integer(2),
        sympy.pi / 3,
        x,
        x**3 / (x + y),
        sqrt(x**2 + y**2) * sin(x - y) * cos(2 * x) ** -2,
        atan2(x, y) + tanh(x) - tan(y) + exp(-x * y),
        Abs(x) + sign(x) + asin(x) + acos(x) + log(y),
        Max(x, y, 0) - Min(x, y, 1),
        Heaviside(x),
    ],
)
def test_the_values_are_those_of_sympy(expression: sympy.Expr) -> None:
    expected = [float(expression.subs({symbol: each[i] for symbol, each in STATES.items()}).evalf()) for i in range(2)]
    assert_allclose(at_states([expression], STATES)[:, 0], expected, rtol=1e-14)


def test_what_has_no_real_value_is_nan_where_it_has_none() -> None:
    assert_array_equal(np.isfinite(at_states([sqrt(x), log(x), acos(y)], STATES)), [[True, True, True], [False] * 3])
