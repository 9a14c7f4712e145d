"""The extended Kalman filter: against filterpy where all is linear, its slopes, and readings that come late."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.estimators.estimator import Estimator
from servonode.estimators.kalman import ExtendedKalmanFilter
from servonode.estimators.settings import EstimatorSettings, Gate
from servonode.mechanics import Model, coordinate, input_, parameter, sensor
from servonode.mechanics.observer import Observer, load_observer
from servonode.plants import MachineSource, find_machine
from tests.helpers.extras import oracle

Array = Any
STEP_NS, STEP = 1_000_000, 1e-3


def wrapped(angle: float) -> float:
    """The angle from -pi to below pi."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def cart() -> Model:
    """A mass that a force pushes: linear, and its slopes' square is zero."""
    x = coordinate("x", "position", "m")
    m = parameter("m", "mass", "kg", default=2.0, above=0)
    F = input_("F", "force", "N")
    return Model(
        name="cart",
        description="a mass that is pushed",
        parameters=(m,),
        coordinates=(x,),
        kinetic=m * x.rate**2 / 2,
        inputs={F: x.rate},
        sensors=(
            sensor("ruler", "position", x, "m", noise=0.02),
            sensor("tachometer", "speed", x.rate, "m/s", noise=0.1),
            sensor("accelerometer", "acceleration", x.acceleration, "m/s^2", noise=0.3),
        ),
    )


def wheel() -> Model:
    """A wheel with two compasses."""
    a, U = coordinate("a", "angle", "rad"), input_("U", "torque", "N*m")
    J = parameter("J", "moment of inertia", "kg*m^2", default=1.0, above=0)
    compass = sensor("compass", "angle", a, "rad", noise=0.02, wraps=True)
    late = sensor("late", "angle", a, "rad", noise=0.05, delay=0.05, wraps=True)
    moves = {"parameters": (J,), "coordinates": (a,), "inputs": {U: a.rate}, "sensors": (compass, late)}
    return Model("wheel", "a wheel that turns", J * a.rate**2 / 2, **moves)


def observer_of(reference: str) -> Observer:
    source = MachineSource(find_machine(reference, Path()))
    return load_observer(source.load({}), source.key, source.build, "rk4")


@pytest.fixture(scope="module")
def cart_observer() -> Observer:
    from servonode.definitions.cache import key_of
    from servonode.mechanics.machine import load_machine

    key = key_of("test", Path(__file__).read_text())
    return load_observer(load_machine(key, cart, {}), key, cart, "rk4")


@pytest.fixture(scope="module", params=["diff_drive_trailer", "pendulum_sphero"])
def observer(request: pytest.FixtureRequest) -> Observer:
    return observer_of(request.param)


def settings(observer: Observer, **values: Any) -> EstimatorSettings:
    n = observer.n
    stated = {
        "mean": np.zeros(n + 1), "deviation": np.full(n, 0.3), "state_noise": np.zeros(n),
        "input_noise": np.zeros(observer.machine.n_inputs), "sensors": observer.sensors,
        "used": tuple(range(observer.n_z)), "step_ns": STEP_NS, "horizon": 200,
    }  # fmt: skip
    return EstimatorSettings(**(stated | values))


def estimator(observer: Observer, **values: Any) -> Estimator:
    stated = settings(observer, **values)
    return Estimator(stated, ExtendedKalmanFilter(observer, stated))


def admissible(observer: Observer, rng: np.random.Generator) -> tuple[Array, Array]:
    machine = observer.machine
    x = machine.projected(0.0, np.append(rng.normal(size=machine.n_state), 0.0))
    return x, rng.normal(size=machine.n_inputs)


def differences(function: Any, at: Array, n: int, width: float = 1e-6) -> Array:
    """The slopes of a function by the first n entries of what it is given."""
    columns = [(function(at + width * e) - function(at - width * e)) / (2 * width) for e in np.eye(len(at))[:n]]
    return np.array(columns).T


def test_the_slopes_are_those_of_the_motion(observer: Observer, rng: np.random.Generator) -> None:
    machine, n = observer.machine, observer.n
    x, u = admissible(observer, rng)
    A, B = observer.slopes(0.0, x, u)
    assert_allclose(A, differences(lambda at: machine.derivatives(0.0, at, u)[:n], x, n), rtol=0, atol=1e-7)
    by_input = differences(lambda at: machine.derivatives(0.0, x, at)[:n], u, len(u))
    assert_allclose(B, by_input, rtol=0, atol=1e-7)


def test_the_slopes_of_the_readings_include_the_accelerations(observer: Observer, rng: np.random.Generator) -> None:
    x, u = admissible(observer, rng)
    z, H = np.zeros(observer.n_z), np.zeros((observer.n_z, observer.n))
    observer.measured(0.0, x, u, z, H)

    def measured(at: Array) -> Array:
        out = np.zeros(observer.n_z)
        observer.measure(0.0, at, u, out)
        return out

    assert_allclose(z, measured(x), rtol=0, atol=1e-13)
    assert_allclose(H, differences(measured, x, observer.n), rtol=0, atol=1e-7)


def test_the_transition_is_the_slope_of_the_integrated_motion(rng: np.random.Generator) -> None:
    observer = observer_of("diff_drive_trailer")
    machine, n = observer.machine, observer.n
    x, u = admissible(observer, rng)

    def moved(at: Array) -> Array:
        at = at.copy()
        machine.advancer("rk4")(0, 20, STEP_NS, at, u, machine.c)
        return at[:n]

    phi = np.eye(n)
    observer.transition(0, 20, STEP_NS, x.copy(), u, phi)
    assert_allclose(phi, differences(moved, x, n), rtol=0, atol=1e-6)


def test_a_linear_filter_is_filterpys(cart_observer: Observer, rng: np.random.Generator) -> None:
    """Readings at several rates under a force that changes; mean, covariance and NIS to 1e-10."""
    density, m, steps = 0.4, 2.0, 10
    ours = estimator(cart_observer, mean=np.array([0.5, -1.0, 0.0]), state_noise=np.array([0.0, density]))
    theirs = oracle("filterpy.kalman").KalmanFilter(dim_x=2, dim_z=3, dim_u=1)
    theirs.x, theirs.P = np.array([[0.5], [-1.0]]), np.eye(2) * 0.09
    T = steps * STEP
    theirs.F, theirs.B = np.array([[1.0, T], [0.0, 1.0]]), np.array([[T**2 / 2], [T]]) / m
    step = np.array([[1.0, STEP], [0.0, 1.0]])
    rate = np.diag([0.0, density**2])
    once = STEP / 2 * (step @ rate @ step.T + rate)  # of one plant step; of ten the sum
    theirs.Q = sum(np.linalg.matrix_power(step, i) @ once @ np.linalg.matrix_power(step, i).T for i in range(steps))
    exact = density**2 * np.array([[T**3 / 3, T**2 / 2], [T**2 / 2, T]])
    assert_allclose(theirs.Q, exact, rtol=0.006)  # what a step of a tenth of the period leaves: 1 / (2 * 10^2)
    H, R = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), np.diag([0.02, 0.1, 0.3]) ** 2
    for k in range(0, 3000, steps):
        force, z = float(np.sin(k / 300)), rng.normal(size=3)
        which = [i for i, every in enumerate((10, 40, 20)) if k % every == 0]
        names = ("ruler", "tachometer", "accelerometer")
        assert ours.advance(k, np.array([force]), {names[i]: [k, z[i]] for i in which})
        if k:
            theirs.predict(u=np.array([[force]]))
        seen = z - np.array([0.0, 0.0, force / m])  # the accelerometer reads the known force
        rows = np.ix_(which, which)
        theirs.update(seen[which].reshape(-1, 1), R=R[rows], H=H[which])
        assert_allclose(ours.x[:2], theirs.x.ravel(), rtol=0, atol=1e-10)
        assert_allclose(ours.P, theirs.P, rtol=0, atol=1e-10)
        y = theirs.y.ravel()
        assert ours.take_stats().nis == pytest.approx(float(y @ np.linalg.solve(theirs.S, y)), abs=1e-10)


def readings_of(observer: Observer, rng: np.random.Generator, instants: int) -> list[dict[str, list[float]]]:
    names = [each.name for each in observer.sensors]
    return [
        {name: [10.0 * j, float(rng.normal(0, 0.1))] for i, name in enumerate(names) if (j + i) % (i + 1) == 0}
        for j in range(instants)
    ]


@pytest.mark.parametrize("gate", [None, 3.0])
def test_late_readings_give_the_bits_of_a_filter_that_had_them_in_time(
    rng: np.random.Generator, gate: float | None
) -> None:
    observer = observer_of("diff_drive_trailer")
    noise = {"state_noise": np.full(observer.n, 0.02), "input_noise": np.full(2, 0.1)}
    if gate:
        noise |= {"gate": Gate((gate,) * observer.n_z, (10**6,) * observer.n_z)}
    in_time, late = estimator(observer, **noise), estimator(observer, **noise)
    held: list[tuple[int, str, list[float]]] = []
    for j, came in enumerate(readings_of(observer, rng, 60)):
        u = np.array([np.sin(j / 5), np.cos(j / 7)])
        if j >= 45:
            came = {}  # so that everything has come at the end
        in_time.advance(10 * j, u, came)
        held += [(j + int(rng.integers(0, 10)), name, pair) for name, pair in came.items()]
        due: dict[str, list[float]] = {}
        for when, name, pair in held:
            if when == j:
                due[name] = [*pair, *due.get(name, [])]
        late.advance(10 * j, u, due)
    assert late.x.tobytes() == in_time.x.tobytes()
    assert late.P.tobytes() == in_time.P.tobytes()
    assert set(late.counts) <= {f"rejected_{each.name}" for each in observer.sensors}
    assert bool(in_time.counts) == bool(gate)


def test_a_reading_between_two_instants_splits_the_way_and_an_old_one_is_counted(cart_observer: Observer) -> None:
    ours = estimator(cart_observer, horizon=50)
    u = np.array([1.0])
    for k in range(0, 210, 10):
        ours.advance(k, u, {})
    before = ours.P.copy()
    ours.advance(210, u, {"ruler": [187, 0.4, 100, 3.0], "tachometer": [300, 1.0]})
    assert ours.counts == {"late_readings": 1, "early_readings": 1}
    assert ours.P[0, 0] < before[0, 0]
    assert list(ours.surprises) == ["ruler"]
    known = len(ours._past) + len(ours._free)
    for k in range(220, 2000, 10):
        ours.advance(k, u, {"ruler": [k - 23, 0.0]})
    assert len(ours._past) + len(ours._free) <= known + 10  # the past is bounded, and used again


@pytest.mark.parametrize("k", [50, 100], ids=["late", "of the newest instant before"])
@pytest.mark.filterwarnings("ignore:overflow")
def test_an_estimate_that_diverges_stays_as_it_was_and_goes_on_from_there(k: int) -> None:
    """After a reading of 1e200 rad the motion overflows a step later, and the filter comes to no instant behind it."""
    observer = observer_of("diff_drive_trailer")
    stated = settings(observer, state_noise=np.full(observer.n, 0.02))
    ours, u = Estimator(stated, ExtendedKalmanFilter(observer, stated)), np.array([0.02, 0.01])
    for j in range(11):
        assert ours.advance(10 * j, u, {"gyroscope": [10.0 * j, 0.01 * j]})
    x, P = ours.x.copy(), ours.P.copy()
    ours.take_stats()
    assert not ours.advance(110, u, {"encoder_left": [float(k), 1e200], "gyroscope": [110.0, 0.1]})
    assert ours.k == 110
    assert ours.x.tobytes() == x.tobytes()
    assert ours.P.tobytes() == P.tobytes()
    stats = ours.take_stats()
    assert stats.innovations == {"encoder_left": pytest.approx(1e200)}
    assert stats.taken == 1
    assert np.isfinite(stats.nis)
    assert ours.advance(120, u, {"encoder_left": [105.0, 0.0], "gyroscope": [120.0, 0.1]})
    assert ours.counts == {"late_readings": 1}
    assert ours.deviations == pytest.approx(np.sqrt(np.diag(P)), rel=0.1)


@pytest.mark.parametrize("gate", [None, 4.0])
def test_an_angle_that_is_read_from_minus_pi_to_pi_is_followed_over_the_seam(gate: float | None) -> None:
    """A wheel turns four times at 3 rad/s; a second compass reads it 50 ms late."""
    from servonode.definitions.cache import key_of
    from servonode.mechanics.machine import load_machine

    key = key_of("test of a wheel", Path(__file__).read_text())
    observer = load_observer(load_machine(key, wheel, {}), key, wheel, "rk4")
    more = {"gate": Gate((gate,) * 2, (200,) * 2)} if gate else {}
    stated = settings(observer, mean=np.array([0.3, 2.5, 0.0]), state_noise=np.array([0.0, 0.2]), **more)
    ours, rng, quality = Estimator(stated, ExtendedKalmanFilter(observer, stated)), np.random.default_rng(1), []
    for k in range(0, 8400, 10):
        readings = {"compass": [k, wrapped(3e-3 * k + rng.normal(0, 0.02))]}
        if k >= 50:
            readings["late"] = [k - 50, wrapped(3e-3 * (k - 50) + rng.normal(0, 0.05))]
        assert ours.advance(k, np.zeros(1), readings)
        stats = ours.take_stats()
        quality.append((stats.nis, stats.taken))
        assert k < 100 or abs(ours.x[0] - 3e-3 * k) < 5 * ours.deviations[0]
    assert ours.x[1] == pytest.approx(3.0, abs=0.2)
    assert not ours.persistent_rejection
    nis, taken = np.sum(quality[100:], axis=0)
    assert nis / taken == pytest.approx(1.0, abs=0.1)
