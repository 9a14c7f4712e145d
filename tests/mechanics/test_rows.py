"""Many states at once give the very numbers of one state after the other."""

import numpy as np
import pytest

from tests.helpers.packaged import load_machine


@pytest.mark.parametrize("name", ["diff_drive_trailer", "hoop_on_profile"])
def test_rows_are_what_single_states_give(name: str) -> None:
    machine = load_machine(name, {}, {"profile": "x**2"} if name == "hoop_on_profile" else {})
    rng, n = np.random.default_rng(1), 5
    t = rng.uniform(0.0, 3.0, n)
    x = machine.state({}) + rng.uniform(-0.1, 0.1, (n, machine.n_state + 1))
    u = rng.normal(size=(n, machine.n_inputs))
    energies, residuals = machine.energy_of_rows(t, x), machine.residuals_of_rows(t, x)
    monitored = machine.monitored_rows(t, x, u)
    for i in range(n):
        assert energies[i] == machine.energy(t[i], x[i])
        np.testing.assert_array_equal(residuals[i], machine.constraint_residual(t[i], x[i]))
        np.testing.assert_array_equal(monitored[i], machine.monitor(t[i], x[i], u[i]))
