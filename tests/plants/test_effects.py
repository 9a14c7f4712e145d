"""Imperfections of drives and sensors against closed forms and numpy, and rows of a record."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.plants.effect_kernels import effect_kernel
from servonode.plants.effects import Actuator, ActuatorEffects, Sensor, SensorEffects
from servonode.plants.plausible import Plausible, StateLimits
from servonode.plants.record_layout import PlantRecordLayout
from tests.helpers.packaged import load_machine

STEP = 0.001
NONE = {"limit": np.inf, "rate_limit": np.inf, "lag": 0.0, "delay": 0.0, "quantum": 0.0, "dead_zone": 0.0}
PERFECT: dict[str, Any] = {"noise": (0.0,), "bias": (0.0,), "quantum": (0.0,), "delay": 0.0, "drop": 0.0}


def drive(**effects: float) -> Actuator:
    """One drive with these effects."""
    return Actuator(ActuatorEffects(**{name: (value,) for name, value in {**NONE, **effects}.items()}), STEP)


def answer(actuator: Actuator, demands: Any) -> Any:
    """What the drive does in each step, a demand a step."""
    outputs = []
    for demand in demands:
        actuator.write(np.array([demand]))
        actuator.advance()
        outputs.append(actuator.output[0])
    return np.array(outputs)


@pytest.fixture
def demands(rng: np.random.Generator) -> Any:
    return rng.normal(size=200)


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ({}, lambda u: u),
        ({"limit": 0.7}, lambda u: np.clip(u, -0.7, 0.7)),
        ({"dead_zone": 0.5}, lambda u: np.where(np.abs(u) < 0.5, 0.0, u)),
        ({"limit": 0.7, "quantum": 0.5}, lambda u: np.clip(np.round(u / 0.5) * 0.5, -0.7, 0.7)),
    ],
)
def test_a_drive_without_memory_is_a_function_of_its_demand(
    effects: dict[str, float], expected: Any, demands: Any
) -> None:
    demands = np.append(demands, (0.5, -0.5, 0.7))  # the edges, too
    np.testing.assert_array_equal(answer(drive(**effects), demands), expected(demands))


def test_a_demand_acts_at_once_on_a_drive_without_memory() -> None:
    for effects in ({}, {"limit": 2.0}, {"quantum": 0.5}, {"dead_zone": 0.1}):
        actuator = drive(**effects)
        actuator.write(np.array([1.5]))
        assert actuator.output[0] == 1.5
    assert ActuatorEffects(**{name: (value,) for name, value in NONE.items()}).ideal


def test_rounding_is_to_the_nearest_multiple(demands: Any) -> None:
    outputs = answer(drive(quantum=0.25), demands)
    np.testing.assert_array_equal(outputs * 4, np.round(outputs * 4))
    assert np.max(np.abs(outputs - demands)) <= 0.125


def test_a_delay_shifts_by_whole_steps(demands: Any) -> None:
    outputs = answer(drive(delay=0.013), demands)
    np.testing.assert_array_equal(outputs[:13], 0.0)
    assert_allclose(outputs[13:], demands[:-13], rtol=0, atol=2e-15)  # stepped to by its change


def test_a_lag_answers_a_jump_as_one_less_an_exponential() -> None:
    t = STEP * np.arange(1, 301)
    assert_allclose(answer(drive(lag=0.05), np.full(300, 2.0)), 2.0 * -np.expm1(-t / 0.05), rtol=1e-12)


def test_a_lag_is_exact_for_any_held_input(demands: Any) -> None:
    keep = np.exp(-STEP / 0.02)
    expected, value = [], 0.0
    for demand in demands:
        value = keep * value + (1 - keep) * demand
        expected.append(value)
    assert_allclose(answer(drive(lag=0.02), demands), expected, rtol=0, atol=1e-14)


def test_a_rate_limit_makes_a_jump_a_ramp_both_ways() -> None:
    jump = np.concatenate([np.full(150, 1.0), np.full(250, -1.0)])
    outputs = answer(drive(rate_limit=10.0), jump)
    up = np.minimum(0.01 * np.arange(1, 151), 1.0)
    down = np.maximum(1.0 - 0.01 * np.arange(1, 251), -1.0)
    assert_allclose(outputs, np.concatenate([up, down]), rtol=0, atol=1e-13)


def test_a_rate_limit_never_lets_the_drive_change_faster(demands: Any) -> None:
    outputs = np.concatenate([[0.0], answer(drive(rate_limit=50.0, delay=0.002, limit=0.9), demands)])
    assert np.max(np.abs(np.diff(outputs))) <= 0.05 * (1 + 1e-12)


def test_a_ramp_passes_the_lag_behind_the_rate_limit_at_its_full_slope() -> None:
    # delay, ..., rate limit, lag: the lag follows the ramp rate * t, late by its time constant
    outputs = answer(drive(rate_limit=1.0, lag=0.02), np.full(300, 10.0))
    t = STEP * np.arange(1, 301)
    assert_allclose(outputs[-1], t[-1] - 0.02, rtol=0, atol=STEP)


def test_each_drive_has_its_own_effects() -> None:
    both = {name: (value, value) for name, value in NONE.items()}
    actuator = Actuator(ActuatorEffects(**{**both, "delay": (0.0, 0.002), "limit": (0.5, np.inf)}), STEP)
    rows = []
    for demand in (1.0, 2.0, 3.0, 4.0):
        actuator.write(np.array([demand, demand]))
        actuator.advance()
        rows.append(actuator.output.copy())
    np.testing.assert_array_equal(rows, [[0.5, 0.0], [0.5, 0.0], [0.5, 1.0], [0.5, 2.0]])


def test_zero_reaches_every_drive_in_the_end(demands: Any) -> None:
    actuator = drive(rate_limit=50.0, delay=0.01, lag=0.005, quantum=0.001, limit=0.8)
    answer(actuator, demands)
    assert abs(answer(actuator, np.zeros(400))[-1]) < 1e-12


# sensors


def sensor(seed: int = 1, n: int = 1, **effects: Any) -> Sensor:
    values = {**PERFECT, "noise": (0.0,) * n, "bias": (0.0,) * n, "quantum": (0.0,) * n, **effects}
    return Sensor(SensorEffects(**values), np.random.default_rng(seed))


def test_a_perfect_sensor_shows_the_state_and_none_changes_it() -> None:
    state = np.array([1.0, 2.0])
    np.testing.assert_array_equal(sensor(n=2).measure(state), state)
    sensor(n=2, noise=(1.0, 1.0), bias=(1.0, 1.0)).measure(state)
    np.testing.assert_array_equal(state, [1.0, 2.0])


def test_noise_has_the_stated_deviation_in_each_state_and_no_mean() -> None:
    noisy = sensor(n=3, noise=(0.1, 0.0, 2.0))
    errors = np.array([noisy.measure(np.array([1.0, 2.0, 3.0])) for _ in range(20_000)]) - [1.0, 2.0, 3.0]
    # 20 000 samples: 5 standard deviations of mean and deviation
    assert_allclose(errors.mean(axis=0), 0.0, atol=5 * 2.0 / np.sqrt(20_000))
    assert_allclose(errors.std(axis=0), [0.1, 0.0, 2.0], rtol=5 / np.sqrt(40_000))


def test_noise_derives_from_the_seed() -> None:
    one, again, other = (sensor(seed, noise=(1.0,)).measure(np.zeros(1))[0] for seed in (1, 1, 2))
    assert one == again != other


def test_bias_is_added_and_rounding_comes_last() -> None:
    assert_allclose(sensor(bias=(0.26,)).measure(np.array([1.0])), 1.26, rtol=1e-15)
    assert_allclose(sensor(bias=(0.26,), quantum=(0.5,)).measure(np.array([1.0])), 1.5, rtol=1e-15)


def test_messages_are_lost_with_the_stated_probability() -> None:
    lossy = sensor(drop=0.2)
    share = np.mean([lossy.drops() for _ in range(20_000)])
    assert share == pytest.approx(0.2, abs=5 * np.sqrt(0.16 / 20_000))
    assert not any(sensor().drops() for _ in range(100))


# the compiled sensors, at values that no run has

N = 3
ODD = [0.0, -0.0, 5e-324, -1e-300, 0.5, -1.5, 2.5, 2.0**53, -1e200, 1e308]


def same(a: Any, b: Any) -> bool:
    return np.asarray(a, dtype=float).tobytes() == np.asarray(b, dtype=float).tobytes()


def sizes(rng: np.random.Generator, n: int, *more: float) -> tuple[float, ...]:
    """Magnitudes of all sizes, some of them those in `more`."""
    return tuple(np.where(rng.random(n) < 0.3, rng.choice(np.array(more), n), 10.0 ** rng.uniform(-6, 3, n)).tolist())


def rounded(values: Any, quantum: Any) -> Any:
    """By numpy; what is beyond 2^53 steps has no smaller digits."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.round(values / np.where(quantum > 0, quantum, 1.0))
        return np.where((quantum > 0) & (np.abs(steps) < 2.0**53), steps * quantum, values)


def test_measurements_round_as_numpy_does(rng: np.random.Generator) -> None:
    kernel = effect_kernel("readings", N)
    for _ in range(300):
        quantum, values = np.array(sizes(rng, N, 0.0, 5e-324)), rng.choice(ODD, N)
        bias, noise, measured = rng.normal(size=N), rng.normal(size=N), np.zeros(N + 1)
        halves = rng.integers(-5, 5, N) * 0.5 * quantum
        for true in (values, halves - bias):
            kernel.measure(np.append(true, 7.0), np.array([bias, quantum]), noise, measured)
            assert same(measured, np.append(rounded(true + bias + noise, quantum), 7.0))


# where things stand in a row of the plant's record


def test_the_parts_of_a_row_lie_one_behind_the_other() -> None:
    machine = load_machine("diff_drive_trailer", {}, {}).description
    row = PlantRecordLayout.of(machine)
    assert (row.step, row.state, row.work, row.inputs) == (slice(0, 1), slice(1, 9), slice(9, 10), slice(10, 12))
    assert (row.goal_step, row.age, row.size) == (slice(12, 13), slice(13, 14), 14)
    assert (row.x, row.computed, row.stamps) == (slice(1, 10), slice(0, 12), slice(12, 14))
    columns = row.columns(machine)
    assert columns[row.x] == [*machine.state_names, "work"]
    assert columns[row.inputs] == ["U1", "U2"]
    assert [columns[0], *columns[row.stamps]] == ["k", "goal_k", "age"]


@pytest.mark.parametrize(
    ("readings", "complaints"),
    [
        ([(0.0, 2.0), (1.0, 2.1), (2.0, -2.1)], [False, True, True]),  # the limit of value
        ([(5.0, 1.9), (5.1, 1.7)], [False, True]),  # the first may be anywhere, the next may not jump
        ([(0.0, 0.0), (0.1, 1.0), (0.2, 0.15)], [False, True, False]),  # one that is refused is not the newest
        ([(0.0, 0.0), (0.0, 0.005), (0.0, 0.02)], [False, False, True]),  # two at once differ as over the least time
    ],
)
def test_a_reading_is_plausible_within_its_limits(readings: list[tuple[float, float]], complaints: list[bool]) -> None:
    plausible = Plausible(StateLimits(("theta",), (2.0,), (1.0,)), 0.01)
    assert [plausible.complaint(t, (value,)) is not None for t, value in readings] == complaints
