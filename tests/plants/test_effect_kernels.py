"""The compiled effects and limits against those of Python, function by function, at values that no run has."""

import math
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.plants.effect_kernels import effects_of
from servonode.plants.effects import Actuator, ActuatorEffects, rounded
from servonode.plants.limit_kernels import limits_of
from servonode.plants.limits import Limits, limited
from servonode.plants.plausible import Plausible, StateLimits

N = 3
ODD = [0.0, -0.0, 5e-324, -1e-300, 0.5, -1.5, 2.5, 2.0**53, -1e200, 1e308]


def same(a: Any, b: Any) -> bool:
    return np.asarray(a, dtype=float).tobytes() == np.asarray(b, dtype=float).tobytes()


def sizes(rng: np.random.Generator, n: int, *more: float) -> tuple[float, ...]:
    """Magnitudes of all sizes, some of them those in `more`."""
    return tuple(np.where(rng.random(n) < 0.3, rng.choice(np.array(more), n), 10.0 ** rng.uniform(-6, 3, n)).tolist())


def test_drives_have_the_bits_of_python(rng: np.random.Generator) -> None:
    kernel = effects_of(1, N)
    for _ in range(60):
        effects = ActuatorEffects(
            limit=sizes(rng, N, np.inf, 0.0), rate_limit=sizes(rng, N, np.inf, 0.0), lag=sizes(rng, N, 0.0, 1e-320),
            delay=tuple(rng.choice([0.0, 0.001, 0.0074], N).tolist()), quantum=sizes(rng, N, 0.0, 5e-324),
            dead_zone=sizes(rng, N, 0.0, np.inf),
        )  # fmt: skip
        python, drive = Actuator(effects, 0.001), effects.numbers(0.001)
        depths = np.array(effects.late_by(0.001), dtype=np.int64)
        pipe, demand, slewed, u = np.zeros((max(1, *depths), N)), np.zeros(N), np.zeros(N), np.zeros(N)
        for k in range(40):
            if k % 3 == 0:
                demand[:] = np.where(rng.random(N) < 0.4, rng.choice(ODD, N), rng.normal(size=N))
                python.write(demand)
                if not effects.dynamic:
                    kernel.act(drive, demand, u)
            if effects.dynamic:
                kernel.drives(k, drive, depths, pipe, demand, slewed, u)
            python.advance()
            assert same(u, python.output), (effects, k)


def test_measurements_round_as_numpy_does(rng: np.random.Generator) -> None:
    kernel = effects_of(N, 1)
    for _ in range(300):
        quantum, values = np.array(sizes(rng, N, 0.0, 5e-324)), rng.choice(ODD, N)
        bias, noise, measured = rng.normal(size=N), rng.normal(size=N), np.zeros(N + 1)
        halves = rng.integers(-5, 5, N) * 0.5 * quantum
        for true in (values, halves - bias):
            kernel.measure(np.append(true, 7.0), np.array([bias, quantum]), noise, measured)
            assert same(measured, np.append(rounded(true + bias + noise, quantum), 7.0))


def test_readings_are_judged_as_in_python(rng: np.random.Generator) -> None:
    kernel, refused = effects_of(N, 1), 0
    for _ in range(100):
        limits = StateLimits(tuple("abc"), sizes(rng, N, np.inf), tuple(100 * each for each in sizes(rng, N, np.inf)))
        judge, before, since = Plausible(limits, 0.01), np.zeros(N), np.full(1, -1.0)
        for t in np.cumsum(rng.choice([0.001, 0.01, 0.3], 10)):
            reading = rng.normal(size=N) * 10.0 ** rng.uniform(-4, 3)
            good = kernel.plausible(
                float(t), np.append(reading, 0.0), np.array([limits.value, limits.rate]), 0.01, before, since
            )
            assert good == (judge.complaint(float(t), reading.tolist()) is None)
            refused += not good
    assert 100 < refused < 900


@pytest.mark.parametrize("power", [math.inf, 0.0, 1e-6, 0.02, 3.0])
def test_limits_have_the_bits_and_reasons_of_python(power: float, rng: np.random.Generator) -> None:
    machine = servonode.load("trailer_pursuit").closed_loop.machine
    kernel, names = limits_of(machine.kernel.__name__, 2), machine.description.input_names
    scaled = 0
    for _ in range(400):
        x = rng.normal(size=machine.n_state + 1)
        x[rng.integers(0, 8)] *= rng.choice([1.0, 1e200, math.inf], p=[0.8, 0.1, 0.1])
        bounds = Limits(sizes(rng, 2, np.inf, 0.0), sizes(rng, 2, np.inf, 0.0), power)
        asked, before = rng.normal(size=2), rng.normal(size=2)
        values, counts = asked.copy(), np.zeros(6, dtype=np.int64)
        kernel.limit(
            values, before, 0.01, np.array([bounds.value, bounds.rate]), power, 0.3, x, machine.c, np.zeros(2), counts
        )
        rates = machine.input_rates(0.3, x)
        expected, reasons = limited(asked.tolist(), before.tolist(), 0.01, bounds, names, rates.copy)
        assert same(values, expected)
        every = [*(f"{word}:{name}" for word in ("limit", "rate") for name in names), "power"]
        assert [name for name, n in zip(every, counts, strict=False) if n] == sorted(reasons, key=every.index)
        assert counts[-1] == bool(reasons)
        scaled += "power" in reasons
    assert (scaled > 50) == (power < math.inf)
