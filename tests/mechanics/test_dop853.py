"""The adaptive integrator: scipy's coefficients, steps, dense output and roots; its orders; where it stops."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import DOP853, solve_ivp
from scipy.integrate._ivp import dop853_coefficients as table

from servonode.arrays import Array
from servonode.definitions import cache
from servonode.mechanics import dop853

RATES = """\
def rates(t: f64, m: i64, y: f64[:], c: f64[:], dy: f64[:]) -> i64:
    if c[1] > 0.0:
        for i in range(m):
            dy[i] = y[i]*y[i]
        return 1 if y[0] > c[1] else 0
    for i in range(m // 2):
        dy[2*i] = y[2*i + 1]
        dy[2*i + 1] = c[0]*(1.0 - y[2*i]*y[2*i])*y[2*i + 1] - y[2*i] + sin(t)
    return 0


def event(which: i64, t: f64, y: f64[:], c: f64[:]) -> f64:
    if which == 0:
        return y[0] - 1.0
    if which == 1:
        return 1.0 if y[0] > 1.0 else -1.0
    return sqrt(-1.0)


"""
SWING, GROW = np.array([1.5, 0.0]), np.array([0.0, 1e300])


def by_hand(t: float, y: Any) -> Any:
    dy = np.empty(len(y))
    dy[::2], dy[1::2] = y[1::2], 1.5 * (1 - y[::2] ** 2) * y[1::2] - y[::2] + np.sin(t)
    return dy


@dataclass
class Integration:
    """The kernel's integration from y on."""

    y0: Any
    c: Array = field(default_factory=SWING.copy)
    rtol: float = 1e-9
    longest: float = np.inf
    end: float = 20.0

    def __post_init__(self) -> None:
        source = '"""A test\'s."""\n\n\n' + RATES + dop853.source({"c": "f64[:]"}, events=True)
        self.kernel: Any = cache.load(cache.key_of("test", source), lambda: (source, b"{}"))[0]
        self.m, self.solver = len(self.y0), np.zeros(4)
        self.arrays = {name: np.zeros(size * self.m) for name, size in dop853.ARRAYS.items()}
        self.arrays["y"][:] = self.y0
        self.call("first_length", "y", "f", "beside", "dy")

    def call(self, name: str, *arrays: str) -> int:
        a = [self.arrays[each] for each in arrays]
        if name == "dense":
            return int(self.kernel.dense(self.solver, self.m, *a, self.c))
        tolerances = (self.end, self.longest, self.rtol, self.rtol)
        return int(getattr(self.kernel, name)(self.solver, self.m, *tolerances, *a, self.c))

    def step(self) -> int:
        return self.call("step", "y", "y_old", "f", "K", "beside", "dy")

    def at(self, t: float) -> Array:
        out = np.zeros(self.m)
        self.call("dense", "y", "y_old", "f", "K", "F", "beside", "dy")
        self.kernel.interpolate(t, self.solver, self.m, self.arrays["y_old"], self.arrays["F"], out)
        return out

    def root(self, which: int, before: float, after: float) -> float:
        self.call("dense", "y", "y_old", "f", "K", "F", "beside", "dy")
        a = [self.arrays[each] for each in ("y_old", "F", "beside")]
        return float(
            self.kernel.root(which, self.solver[2], self.solver[0], before, after, self.solver, self.m, *a, self.c)
        )


def filled(rows: Any, n: int) -> Array:
    return np.array([[row.get(i, 0.0) for i in range(n)] for row in rows])


def test_the_coefficients_are_those_of_scipy() -> None:
    assert (filled(dop853.A, 16) == table.A).all()
    assert (np.array(dop853.C) == table.C).all()
    assert (filled((dop853.E3, dop853.E5), 13) == [table.E3, table.E5]).all()
    assert (filled(dop853.D, 16) == table.D).all()


@pytest.mark.parametrize("longest", [np.inf, 0.1])
@pytest.mark.parametrize("rtol", [1e-3, 1e-6, 1e-11])
def test_steps_and_dense_output_are_those_of_scipy(rtol: float, longest: float) -> None:
    """The number of steps is the same; their lengths are so up to rounding, which the norm of the error amplifies."""
    y0 = np.array([2.0, 0.0, 1.0, 0.3])
    ours = Integration(y0, rtol=rtol, longest=longest)
    theirs = DOP853(by_hand, 0.0, y0, 20.0, rtol=rtol, atol=rtol, max_step=longest)
    assert ours.solver[1] == pytest.approx(theirs.h_abs, rel=1e-13)
    while theirs.status == "running":
        theirs.step()
        assert ours.step() == dop853.GOOD
        assert ours.solver[0] == pytest.approx(theirs.t, rel=1e-6)
        dense = theirs.dense_output()
        for t in (ours.solver[0], theirs.t - 0.3 * theirs.step_size):
            assert_allclose(ours.at(t), dense(t), rtol=1e-7, atol=1e-8)
    assert ours.solver[0] == 20.0


def test_a_step_alone_has_the_bits_of_scipy_but_for_the_order_of_sums() -> None:
    y0 = np.array([2.0, 0.0, 1.0, 0.3])
    ours, theirs = Integration(y0), DOP853(by_hand, 0.0, y0, 20.0, rtol=1e-9, atol=1e-9)
    ours.solver[1] = theirs.h_abs
    ours.step()
    theirs.step()
    assert_allclose(ours.arrays["y"], theirs.y, rtol=1e-15, atol=1e-16)
    for share in (0.0, 0.37, 1.0):
        t = share * theirs.t
        assert_allclose(ours.at(t), theirs.dense_output()(t), rtol=1e-14, atol=1e-15)
    assert ours.solver[1] == pytest.approx(theirs.h_abs, rel=1e-4)


def test_steps_have_order_eight_and_the_dense_output_seven() -> None:
    y0, errors, between = np.array([2.0, 0.0]), [], []
    exact = solve_ivp(by_hand, (0, 1), y0, "DOP853", [0.35, 1.0], rtol=1e-13, atol=1e-15).y
    for n in (2, 4, 8):
        ours = Integration(y0, rtol=1e6, longest=1 / n, end=1.0)
        ours.solver[1] = 1 / n
        while ours.solver[0] < 1.0:
            ours.step()
            if ours.solver[2] <= 0.35 < ours.solver[0]:
                between.append(np.abs(ours.at(0.35) - exact[:, 0]).max())
        errors.append(np.abs(ours.arrays["y"] - exact[:, 1]).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert 7.5 < orders[-1] < 10
    assert np.log2(between[0] / between[-1]) / 2 > 6.5


def test_roots_are_those_of_brent_on_the_dense_output() -> None:
    y0 = np.array([2.0, 0.0])

    def crosses(_t: float, y: Any) -> float:
        return float(y[0]) - 1.0

    def side(_t: float, y: Any) -> float:
        return 1.0 if y[0] > 1.0 else -1.0

    ours = Integration(y0)
    solved = solve_ivp(by_hand, (0, 20), y0, "DOP853", events=(crosses, side), rtol=1e-9, atol=1e-9)
    before, found = 1.0, []
    while ours.solver[0] < 20.0:
        ours.step()
        after = float(ours.arrays["y"][0]) - 1.0
        if before * after < 0:
            found.append((ours.root(0, before, after), ours.root(1, np.sign(before), np.sign(after))))
            assert np.isnan(ours.root(2, -1.0, 1.0))
            assert ours.solver[2] < ours.solver[3] < ours.solver[0]  # where it could not be evaluated
        before = after
    assert len(found) == len(solved.t_events[0]) > 3
    assert_allclose(np.array(found).T, solved.t_events, rtol=1e-8)


def test_an_escape_ends_where_that_of_scipy_ends() -> None:
    ours = Integration(np.array([1.0, 0.5]), GROW)
    while (code := ours.step()) == dop853.GOOD:
        pass
    assert code == dop853.TOO_SMALL
    with np.errstate(all="ignore"):
        theirs = DOP853(lambda _t, y: y**2, 0.0, [1.0, 0.5], 20.0, rtol=1e-9, atol=1e-9)
        while theirs.status == "running":
            theirs.step()
    assert theirs.status == "failed"
    assert ours.solver[0] == pytest.approx(theirs.t, rel=1e-12)
    assert ours.solver[0] == pytest.approx(1.0, rel=1e-8)


def test_rates_that_are_refused_end_a_step_with_the_time_and_the_state() -> None:
    ours = Integration(np.array([1.0, 0.5]), np.array([0.0, 10.0]))
    while (code := ours.step()) == dop853.GOOD:
        pass
    assert code == dop853.REFUSED
    assert ours.arrays["beside"][0] > 10.0
    assert ours.arrays["y"][0] <= 10.0
    assert ours.solver[0] < ours.solver[3] < 1.0


def test_numbers_that_are_not_finite_end_it_where_scipy_goes_on_for_ever() -> None:
    assert Integration(np.array([np.nan, 0.5])).step() == dop853.TOO_SMALL
