"""The regressor is the equations of motion: it agrees with them, with their slopes, and with motions of the machine."""

import numpy as np
import pytest

from servonode.mechanics import Model
from servonode.mechanics.derive import derive
from servonode.wings.explore.identification.combinations import Regressor, base, enters, regressor_of
from tests.helpers.packaged import model_factory
from tests.helpers.small_machines import bead, cart_pole, machine

RNG = np.random.default_rng(5)
TRAILER = ("m1", "m_k", "I1", "I2", "Iky", "b", "d1", "r", "c_w")


def regressor(model: Model, names: tuple[str, ...]) -> tuple[Regressor, np.ndarray]:
    values = {each.name: float(each.quantity.default or 0.0) for each in model.parameters}
    found = regressor_of(derive(model), names, values)
    assert found is not None
    return found, np.array([values[name] for name in names]) * RNG.uniform(0.8, 1.2, len(names))


def points(found: Regressor, n_inputs: int, rows: int = 7) -> tuple[np.ndarray, ...]:
    """Random times, states, rates and inputs."""
    n = (len(found.arguments) - 1 - n_inputs) // 2
    shapes = ((rows,), (rows, n), (rows, n), (rows, n_inputs))
    return tuple(RNG.uniform(-1, 1, shape) for shape in shapes)


def residual(found: Regressor, at: tuple[np.ndarray, ...], values: np.ndarray) -> np.ndarray:
    t, x, rates, u = at
    rows = []
    for i in range(len(t)):
        numbers = dict(zip(found.arguments, [t[i], *x[i], *rates[i], *u[i]], strict=True))
        numbers |= dict(zip(found.parameters, values, strict=True))
        rows.append([float(each.xreplace(numbers)) for each in found.residual])
    return np.array(rows).ravel()


MODELS = {
    "trailer": (model_factory("diff_drive_trailer"), TRAILER, 2),
    "cart_pole": (cart_pole, ("M", "m", "L", "g"), 1),
    "bead": (bead, ("m", "R", "I", "k"), 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_columns_times_functions_are_the_equations_and_slopes_their_derivatives(name: str) -> None:
    build, names, n_inputs = MODELS[name]
    found, values = regressor(build(), names)
    at = points(found, n_inputs)
    assert not any(found.rest)
    numbers = dict(zip(found.parameters, values, strict=True))
    functions = np.array([float(each.xreplace(numbers)) for each in found.functions])
    assert found.regressor(*at) @ functions == pytest.approx(residual(found, at, values), rel=1e-10, abs=1e-10)
    slopes = found.slopes(*at, values.tolist())
    for i in range(len(names)):
        h = 1e-6 * np.eye(len(names))[i]
        difference = (residual(found, at, values + h) - residual(found, at, values - h)) / 2e-6
        assert slopes[:, i] == pytest.approx(difference, rel=1e-6, abs=1e-6)


def test_the_equations_are_zero_along_the_rates_of_the_compiled_machine() -> None:
    found, values = regressor(cart_pole(), ("M", "m", "L"))
    compiled = machine(cart_pole, dict(zip(("M", "m", "L"), values.tolist(), strict=True)))
    t, x, _, u = points(found, 1)
    rates = np.array([compiled.derivatives(0.0, np.append(a, 0.0), b)[:-1] for a, b in zip(x, u, strict=True)])
    assert residual(found, (t, x, rates, u), values) == pytest.approx(0.0, abs=1e-10)


def test_a_parameter_of_the_safe_action_enters_no_motion() -> None:
    found, _ = regressor(model_factory("diff_drive_trailer")(), ("m1", "c_b", "a_slip"))
    assert enters(found) == [True, False, False]


def test_base_parameters_add_up_to_all_columns_again() -> None:
    a, b = RNG.standard_normal((2, 50))
    columns = np.column_stack([a, 2 * a, b, a - b])
    factors = base(columns)
    assert factors.shape == (2, 4)
    independent, *_ = np.linalg.lstsq(factors.T, columns.T, rcond=None)
    assert independent.T @ factors == pytest.approx(columns, abs=1e-12)
    assert base(np.zeros((5, 3))).shape == (0, 3)
