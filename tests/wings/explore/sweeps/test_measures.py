"""What is kept of each run, against what is known of simple columns."""

import numpy as np
import pytest

import servonode
from servonode.closed_loop.variation import Variation
from servonode.errors import StatementError
from servonode.wings.explore.sweeps.measures import Measures, column_units, places_of

T = np.linspace(0.0, 10.0, 10001)


@pytest.fixture(scope="module")
def measures():
    loop = servonode.load("trailer_pursuit", run__duration=10.0)
    return Measures(Variation(loop.closed_loop, ["plant.initial.phi"]), {"hitch": "max(abs(phi))"})


def of(measures, **columns):
    """The measures of a run whose other columns are zero."""
    return measures.of_columns(T, {name: np.zeros(len(T)) for name in measures.columns}.__or__(columns).__getitem__)


def test_a_residual_settles_when_its_exponential_is_two_percent(measures):
    found = of(measures, residual_speed=0.3 * np.exp(-T))
    assert found["settle_time"] == pytest.approx(np.log(50), abs=2e-3)
    assert found["residual_speed_largest"] == 0.3
    assert found["residual_speed_final"] == pytest.approx(0.3 * np.exp(-10.0))


def test_a_residual_that_stays_has_not_settled_whatever_the_others_do(measures):
    for name in ("residual_speed", "residual_heading"):
        assert np.isnan(of(measures, **{name: 0.1 + 0 * T})["settle_time"])


def test_rows_whose_state_was_lost_count_for_nothing(measures):
    known = 0.3 * np.exp(-T)
    lost = np.where(np.arange(len(T)) % 3 == 2, np.nan, known)
    lost[-1] = np.nan
    found, whole = of(measures, residual_speed=lost, phi=lost), of(measures, residual_speed=known, phi=known)
    assert found["residual_speed_largest"] == found["hitch"] == 0.3
    assert found["residual_speed_final"] == known[-2]
    assert found["settle_time"] == pytest.approx(whole["settle_time"], abs=2e-3)


def test_the_effort_of_a_held_input_is_the_integral_of_its_square(measures):
    found = of(measures, U1=np.sin(T), phi=-T)
    assert found["effort_U1"] == pytest.approx(5.0 - np.sin(20.0) / 4, abs=1e-3)
    assert found["effort_U2"] == 0.0
    assert found["hitch"] == 10.0


def test_a_run_that_a_fault_ended_has_its_name_and_time_alone(measures):
    found = measures.of_fault("not_finite", 2.5)
    assert (found["fault"], found["fault_time"], found["duration"]) == ("not_finite", 2.5, 2.5)
    assert all(np.isnan(found[name]) for name in measures.names if name not in ("fault", "fault_time", "duration"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("duration", "there is such a measure already"),
        *[(name, "there is such a measure already") for name in ("reason", "run", "progress")],
        *[(name, "is a column of the run") for name in ("phi", "U1", "t", "residual_speed")],
        ("b 1", "not a name of letters, digits and _"),
    ],
)
def test_a_stated_measure_takes_no_name_that_results_have(measures, name, why):
    loop = servonode.load("trailer_pursuit")
    with pytest.raises(StatementError, match=f"measure {name}: {why}; give it another name"):
        Measures(Variation(loop.closed_loop, ["plant.initial.phi"]), {name: "max(V)"})


def test_what_is_kept_has_columns_with_units_that_measures_may_name():
    loop = servonode.load("trailer_pursuit", values={"controller.keep.slow": "0.05 - V"}).closed_loop
    names = {"margin_slow": "m/s", "active_slow": "1", "keeping": "1"}
    assert names.items() <= column_units(loop).items()
    assert [answered for name, (answered, _) in places_of(loop).items() if name in names] == [True] * 3
