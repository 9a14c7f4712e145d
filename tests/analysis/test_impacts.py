"""Random machines with impacts in all modes, against motions whose impacts scipy locates."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from sympy import cos, sin

import servonode
from servonode.arrays import Array
from servonode.mechanics import Model, coordinate, input_, jump, parameter, time

G, PERIOD, APART = 9.81, 0.01, 0.03  # m/s^2; s; s between impacts of one kind, five steps of the longest step at least
NEARBY = 5e-3  # a start so far beside has the same impacts: what the sampled motion is compared with is no knife's edge
STEPS = (2.5e-3, 1.25e-3, 6.25e-4)
Impact = tuple[Callable[..., float], Callable[..., float], Callable[..., Any]]  # margin, its rate, what is set


def machine(name: str, places: tuple[Any, ...], kinetic: Any, potential: Any, hits: Any, loss: Any, **p: Any) -> Model:
    """A machine that counts its impacts in n, and has a drive on a slide y, so that there is a loop."""
    n, s, F = coordinate("n", "impacts"), coordinate("s", "of the slide", "m"), input_("F", "force", "N")
    jumps = tuple(jump(where, {**to, n: n + 1}, f"{name} {i}") for i, (where, to) in enumerate(hits))
    return Model(name, name, kinetic + (n.rate**2 + s.rate**2) / 2, coordinates=(*places, n, s), potential=potential,
                 dissipation=loss, inputs={F: s.rate}, jumps=jumps, parameters=tuple(p.values()))  # fmt: skip


def numbers(**values: float) -> dict[str, Any]:
    return {name: parameter(name, name, default=value) for name, value in values.items()}


def balls() -> Model:
    """Two balls above each other, over a floor."""
    p = numbers(m=1.0, e=0.8, k=0.7, c=0.1)
    a, b = coordinate("a", "lower ball", "m", start=1.0), coordinate("b", "upper ball", "m", start=2.0)
    m, e, k, c = p.values()
    mean, gap = (a.rate + m * b.rate) / (1 + m), k * (a.rate - b.rate)
    hits = ((a < 0, {a.rate: -e * a.rate}), (b < a, {a.rate: mean - m * gap / (1 + m), b.rate: mean + gap / (1 + m)}))
    return machine("balls", (a, b), (a.rate**2 + m * b.rate**2) / 2, G * (a + m * b), hits,
                   c * (a.rate**2 + b.rate**2) / 2, **p)  # fmt: skip


def balls_by_hand(m: float, e: float, k: float, c: float) -> tuple[Any, list[Impact]]:
    def collide(y: Array) -> None:
        mean, gap = (y[2] + m * y[3]) / (1 + m), k * (y[2] - y[3])
        y[2:4] = mean - m * gap / (1 + m), mean + gap / (1 + m)

    def floor(y: Array) -> None:
        y[2] *= -e

    return lambda _, y: [y[2], y[3], -G - c * y[2], -G - c * y[3] / m], [
        (lambda y: -y[0], lambda y: -y[2], floor), (lambda y: y[0] - y[1], lambda y: y[2] - y[3], collide)]  # fmt: skip


def box() -> Model:
    """A ball between four walls, of which some keep it."""
    p = numbers(e0=1.0, e1=0.5, e2=0.0, e3=0.7, c=0.1)
    a, b = coordinate("a", "across", "m", start=0.5), coordinate("b", "along", "m", start=0.5)
    walls = zip((a < 0, a > 1, b < 0, b > 1), (a, a, b, b), list(p.values())[:4], strict=True)
    hits = tuple((where, {x.rate: -e * x.rate}) for where, x, e in walls)
    speeds = a.rate**2 + b.rate**2
    return machine("box", (a, b), speeds / 2, 0, hits, p["c"] * speeds / 2, **p)


def box_by_hand(c: float, **e: float) -> tuple[Any, list[Impact]]:
    def wall(i: int, sign: float, e: float) -> Impact:
        def bounce(y: Array) -> None:
            y[2 + i] *= -e

        return lambda y: sign * y[i] - max(sign, 0), lambda y: sign * y[2 + i], bounce

    walls = [wall(i // 2, 2.0 * (i % 2) - 1, e[f"e{i}"]) for i in range(4)]
    return lambda _, y: [y[2], y[3], -c * y[2], -c * y[3]], walls


def wheel() -> Model:
    """A wheel without a rim that walks down a slope."""
    p = numbers(half=0.35, slope=0.1, length=1.0)
    half, slope, length = p.values()
    a = coordinate("a", "spoke from the vertical", "rad", start=0.0)
    hits = ((a > slope + half, {a: a - 2 * half, a.rate: cos(2 * half) * a.rate}),
            (a < slope - half, {a: a + 2 * half, a.rate: cos(2 * half) * a.rate}))  # fmt: skip
    return machine("wheel", (a,), length**2 * a.rate**2 / 2, G * length * cos(a), hits, 0, **p)


def wheel_by_hand(half: float, slope: float, length: float) -> tuple[Any, list[Impact]]:
    def step(way: float) -> Impact:
        def taken(y: Array) -> None:
            y[:2] = y[0] - way * 2 * half, y[1] * np.cos(2 * half)

        return lambda y: way * (y[0] - slope) - half, lambda y: way * y[1], taken

    return lambda _, y: [y[1], G / length * np.sin(y[0])], [step(1.0), step(-1.0)]


def oscillator() -> Model:
    """A mass on a spring that is pushed in time, with a wall."""
    p = numbers(k=4.0, c=0.1, F0=2.0, w=3.0, e=0.6, wall=0.1)
    k, c, F, w, e, wall = p.values()
    a = coordinate("a", "place", "m", start=0.5)
    return machine("oscillator", (a,), a.rate**2 / 2, k * a**2 / 2 - F * a * sin(w * time),
                   ((a <= -wall, {a.rate: -e * a.rate}),), c * a.rate**2 / 2, **p)  # fmt: skip


def oscillator_by_hand(k: float, c: float, F0: float, w: float, e: float, wall: float) -> tuple[Any, list[Impact]]:
    def bounce(y: Array) -> None:
        y[1] *= -e

    return lambda t, y: [y[1], F0 * np.sin(w * t) - k * y[0] - c * y[1]], [
        (lambda y: -y[0] - wall, lambda y: -y[1], bounce)]  # fmt: skip


KINDS: tuple[tuple[Callable[[], Model], Callable[..., Any]], ...] = (
    (balls, balls_by_hand), (box, box_by_hand), (wheel, wheel_by_hand), (oscillator, oscillator_by_hand)
)  # fmt: skip


def drawn(kind: int, rng: np.random.Generator) -> tuple[dict[str, float], list[float]]:
    """Parameters and a start (places, rates)."""
    u = rng.uniform
    if kind == 0:
        return {"m": u(0.3, 3), "e": u(0.5, 1), "k": u(0, 1), "c": u(0, 0.3)}, [
            u(0.3, 1),
            u(1.2, 2),
            u(-2, 2),
            u(-2, 2),
        ]
    if kind == 1:
        e = {f"e{i}": float(rng.choice([0.0, 1.0, u(), u()])) for i in range(4)}
        start = [u(0.2, 0.8), u(0.2, 0.8), u(-2, 2), u(-2, 2)]
        if rng.random() < 0.3:  # into the corner
            start[1], start[3] = start[0], start[2]
        return e | {"c": u(0, 0.5)}, start
    if kind == 2:
        return {"half": u(0.2, 0.5), "slope": u(0, 0.2), "length": u(0.5, 2)}, [
            u(0.0, 0.1),
            u(0.5, 3) * rng.choice([-1, 1]),
        ]
    p = {"k": u(1, 9), "c": u(0, 0.3), "F0": u(1, 4), "w": u(1, 5), "e": u(0.2, 1), "wall": u(0.05, 0.3)}
    return p, [u(0, 0.5), u(-1, 1)]


def located(by_hand: tuple[Any, list[Impact]], start: list[float], end: float) -> tuple[list[float], Any]:
    """The times of the impacts, by scipy's events, and the state at a time; ValueError: too close."""
    rates, impacts = by_hand
    times, pieces, t, y = list[float](), list[Any](), 0.0, np.array(start)
    lasts = dict.fromkeys(range(len(impacts)), -1.0)

    def event(margin: Any, rate: Any) -> Any:
        def value(t: float, y: Array) -> float:
            found: float = margin(y) if rate(y) > 0 else min(margin(y), -1e-9)
            return found

        value.terminal, value.direction = True, 1  # type: ignore[attr-defined]
        return value

    events = [event(margin, rate) for margin, rate, _ in impacts]
    while t < end:
        piece = solve_ivp(
            rates, (t, end), y, "DOP853", events=events, rtol=1e-13, atol=1e-13, max_step=0.02, dense_output=True
        )
        pieces.append((t, piece.sol))
        t, y = float(piece.t[-1]), piece.y[:, -1].copy()
        while piece.status == 1 and (now := [i for i, (m, r, _) in enumerate(impacts) if m(y) > -1e-11 and r(y) > 0]):
            if t - lasts[now[0]] < APART or (len(start) == 4 and times and t - APART < times[-1] < t):
                raise ValueError
            impacts[now[0]][2](y)
            lasts[now[0]] = t
            times.append(t)
    return times, lambda at: [sol for since, sol in pieces if since <= at][-1](at)


@lru_cache
def case(i: int) -> tuple[Any, dict[str, float], list[float], float, int, Array]:
    """A machine, its parameters and start, a time with its number of impacts, and the state there."""
    kind, rng = i % len(KINDS), np.random.default_rng(i)
    while True:
        p, start = drawn(kind, rng)
        try:
            motions = [located(KINDS[kind][1](**p), [each + d for each in start], 2.5) for d in (0.0, NEARBY, -NEARBY)]
        except ValueError:
            continue
        all_times = np.concatenate([times for times, _ in motions])
        ends = [t for t in np.arange(0.5, 2.5, PERIOD) if np.abs(all_times - t).min(initial=1.0) > APART][-1:]
        for end in ends:
            counts = [sum(t < end for t in times) for times, _ in motions]
            states = np.array([state(end) for _, state in motions])
            if 2 <= counts[0] == counts[1] == counts[2] and np.ptp(states, axis=0).max() < 0.2:
                return KINDS[kind][0], p, start, round(float(end), 2), counts[0], states[0]


def ended(i: int, step: float = STEPS[-1], **how: Any) -> tuple[int, Array]:
    """How many impacts the machine had, and its state at the end."""
    build, p, start, end, *_ = case(i)
    names = ["a", "b", "a_dot", "b_dot"] if len(start) == 4 else ["a", "a_dot"]
    plant = {"machine": build, "parameters": p, "initial": dict(zip(names, start, strict=True)), "step": step}
    controller = {"residuals": {"slide": "s"}, "period": PERIOD}
    run = servonode.simulate({"run": {"duration": end}, "plant": plant, "controller": controller}, **how)
    assert run.fault is None, run.fault
    return round(run.state["n"][-1]), np.array([run.state[name][-1] for name in names])


ALL = [pytest.param(i, marks=() if i < 2 else pytest.mark.slow if i < 12 else pytest.mark.soak) for i in range(50)]


@pytest.mark.parametrize("i", ALL)
def test_a_random_machine_has_the_impacts_and_the_state_that_scipy_finds(i: int) -> None:
    *_, count, exact = case(i)
    found, state = ended(i, control="continuous")
    assert found == count
    np.testing.assert_allclose(state, exact, rtol=0, atol=1e-8)
    found, state = ended(i)
    assert found == count
    by_nodes = ended(i, loop="nodes")
    assert (by_nodes[0], by_nodes[1].tolist()) == (count, state.tolist())


@pytest.mark.parametrize("cases", [range(2), pytest.param(range(50), marks=pytest.mark.soak)])
def test_sampled_impacts_come_nearer_to_the_located_ones_in_proportion_to_the_step(cases: range) -> None:
    errors = np.array([[np.abs(ended(i, step)[1] - case(i)[-1]).max() for step in STEPS] for i in cases])
    assert (errors < 600 * np.array(STEPS)).all()
    coarse, _, fine = errors.sum(axis=0)
    assert coarse / fine == pytest.approx(STEPS[0] / STEPS[-1], rel=0.35)
