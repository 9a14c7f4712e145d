"""A closed loop with other numbers by dotted key: the bits of the launch file with them, refusals, the goal's speed."""

from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.parts import Kept
from servonode.closed_loop.variation import Variation
from servonode.controllers.engine.curves import spline
from servonode.controllers.engine.signals import load_signals
from servonode.simulation.simulate import simulate_nodes
from servonode.simulation.simulate_continuous import simulate_continuous

SHORT = {"run__duration": 0.3, "run__mode": "lockstep"}
VARIED = {  # launch file: keys with another value for each
    "trailer_pursuit": {
        "plant.initial.phi": 0.3, "plant.parameters.m1": 4.5, "controller.parameters.m1": 3.5,
        "controller.gains.lambda": 3.0, "controller.gains.lambda_speed": 1.5, "controller.settings.rho0": 2.2,
        "controller.period": 0.02, "controller.delay": 1, "plant.step": 0.002, "run.duration": 0.2,
        "plant.safety.limit.U1": 0.05, "plant.actuator.limit": 0.2, "target.x": 4, "run.seed": 7,
        "plant.sensor.noise.phi": 1e-3, "plant.sensor.noise": 1e-3, "plant.actuator.delay": 0.002,
        "plant.actuator.lag.U2": 0.05, "plant.sensor.delay": 0.003, "plant.safety.rate_limit": 2,
    },
    "sphero_circle": {
        "controller.settings.point.1": 1.4, "controller.settings.radius": 1.2, "plant.initial.X": 0.1,
        "controller.gains.lambda": 2.5, "plant.parameters.l": 0.05,
    },
    "hoop_rolls": {"plant.parameters.kappa": 0.5, "plant.initial.s": 0.3},
}  # fmt: skip
CASES = [(name, key) for name, keys in VARIED.items() for key in keys]


def stated(name: str, key: str, value: float) -> dict[str, Any]:
    """The override of a launch file with another number, as one sets it when it is loaded."""
    *path, last = key.split(".")
    if last.isdigit():  # an entry of a list
        listed = list(getattr(getattr(servonode.load(name).closed_loop.launch, path[0]), path[1])[path[2]])
        listed[int(last)] = value
        return {"__".join(path): listed}
    return {key.replace(".", "__"): value}


def same(a: servonode.Run, b: servonode.Run) -> None:
    assert list(a.columns) == list(b.columns)
    for name, values in a.columns.items():
        assert np.array_equal(values, b.columns[name], equal_nan=True), name


@pytest.fixture(scope="module")
def loops() -> dict[str, servonode.Loop]:
    return {name: servonode.load(name, **SHORT) for name in VARIED}


@pytest.mark.parametrize(("name", "key"), CASES)
def test_a_varied_number_gives_the_bits_of_the_launch_file_with_it(
    loops: dict[str, servonode.Loop], name: str, key: str
) -> None:
    value = VARIED[name][key]
    same(loops[name].simulate(values={key: value}), servonode.simulate(name, **(SHORT | stated(name, key, value))))


def test_variations_one_after_another_leave_no_trace(loops: dict[str, servonode.Loop]) -> None:
    for name, keys in VARIED.items():
        loop, variation = loops[name], Variation(loops[name].closed_loop, tuple(keys))
        usual = dict(zip(keys, (0.3 if "duration" in key else 0.0 for key in keys), strict=True))
        assert len(variation.units) == len(usual)
        before, first = loop.simulate(), loop.simulate(values=keys)
        loop.simulate(values=dict(list(keys.items())[::2]))
        same(loop.simulate(values=keys), first)
        same(loop.simulate(), before)


def test_parts_are_made_again_where_their_arguments_differ() -> None:
    calls, kept, text = [], Kept(), ["a"]

    def made(a: object, b: float) -> tuple[object, float]:
        calls.append((a, b))
        return a, b

    first = kept.of(made, text, 1.0)
    assert kept.of(made, text, float("1.0")) is first  # an equal number
    assert kept.of(made, ["a"], 1.0) is not first  # a list that is another object may change
    assert kept.of(made, text, 2.0) == (text, 2.0)
    assert len(calls) == 3


def test_units_of_keys_are_those_of_the_quantities(loops: dict[str, servonode.Loop]) -> None:
    units = {
        "plant.initial.phi": "rad", "plant.parameters.m1": "kg", "controller.gains.lambda": "1/s",
        "plant.safety.limit.U1": "N m", "plant.safety.rate_limit.U1": "N m/s", "plant.actuator.delay": "s",
        "plant.sensor.noise.V": "m/s", "controller.settings.rho0": "m", "run.seed": "1", "goal.speed": "1",
        "controller.delay": "periods", "plant.step": "s",
    }  # fmt: skip
    assert dict(zip(units, Variation(loops["trailer_pursuit"].closed_loop, list(units)).units, strict=True)) == units


def simulated(closed_loop: ClosedLoop) -> list[Any]:
    return [simulate_nodes(closed_loop, 10), simulate_continuous(closed_loop, 10, 1e-12, 1e-12)]


@pytest.mark.parametrize("speed", [0.0, 0.5, 2.0])
def test_the_goal_at_a_speed_is_the_goal_with_its_time_stretched(speed: float) -> None:
    """x(speed t) is stated anew as a text: the derivatives that the law takes are those of the composed function."""
    target = {"x": "6*sin(0.5*t) + 2", "y": "5 + cos(0.3*t)"}
    loop = servonode.load("trailer_pursuit", **SHORT, target=target)
    stretched = servonode.load(
        "trailer_pursuit", **SHORT, target={"x": f"6*sin({0.5 * speed}*t) + 2", "y": f"5 + cos({0.3 * speed}*t)"}
    )
    varied = Variation(loop.closed_loop, ["goal.speed"]).at([speed])
    for ours, theirs in zip(simulated(varied), simulated(stretched.closed_loop), strict=True):
        for name, values in theirs.state.items():
            assert np.allclose(ours.state[name], values, rtol=1e-9, atol=1e-12), name
    same(loop.simulate(values={"goal.speed": speed}), simulate_nodes(varied, 10))


def test_settings_that_are_functions_of_time_have_the_speed_too() -> None:
    loop = servonode.load("sphero_circle", **SHORT)
    control = Variation(loop.closed_loop, ["goal.speed"]).at([3.0]).control
    assert control is not None
    out = np.zeros(len(control.signals.entries))  # type: ignore[union-attr]
    control.signals.evaluate(0.7, out)
    rate = 0.7 * 3.0 * (1 - np.tanh(0.7 * (2.1 - 4)) ** 2) * 0.4
    assert out[1] == pytest.approx(rate, rel=1e-12)


def test_derivatives_of_a_curve_at_a_speed_grow_with_its_powers() -> None:
    curve = spline([0.0, 1.0, 2.0], [0.0, 1.0, 0.5], 5, True)
    signals = load_signals({"x": curve, "n": 3.0, "y": "sin(t)"}, 3)
    fast, t = signals.at_speed(2.0), np.linspace(0.0, 0.9, 7)
    powers = np.tile(2.0 ** np.arange(4), 3)
    assert np.array_equal(fast.table(t), signals.table(2.0 * t) * powers)
    out = np.zeros(12)
    for row, at in zip(fast.table(t), t, strict=True):
        fast.evaluate(at, out)
        assert np.array_equal(out, row)
    assert np.array_equal(fast.of_order(1).table(t)[:, :2], fast.table(t)[:, :2])
    assert fast.at_speed(1.0).table(t).tolist() == signals.table(t).tolist()


def test_a_number_among_expressions_is_given_to_their_kernel() -> None:
    first, second = (load_signals({"x": number, "y": "t**2"}, 2) for number in (3.0, -1.5))
    assert first.kernel is second.kernel
    assert second.table(np.array([2.0])).tolist() == [[-1.5, 0.0, 0.0, 4.0, 4.0, 2.0]]
