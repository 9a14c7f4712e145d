"""The verdicts that tests/analysis/verdicts.md lists: each with what a simulation by hand says.

`python -m tests.helpers.verdict_table` prints the table of the page.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.helpers import verdict_machines as machines
from tests.helpers import verdict_sheet as sheet
from tests.helpers.verdict_extended import Goals, arm_law, directions, hoist, on_goal, pvtol, quadrotor, thrust_law
from tests.helpers.verdict_sheet import Motion, follow, move

NO_SIZE = 1e-6
JUDGED = ("zero dynamics", "closed loop", "open loop")  # subjects of findings
OFFSET, APART = 0.01, 0.4  # rad or m beside an equilibrium at the start by hand; beyond it the state has left


@dataclass(frozen=True)
class Case:
    """A launch file, the verdict, a part of its reason, and the same motion by hand.

    reaches: largest late residual by hand as a share of the goal's own size; stays: an entry of the state and where it
    is to remain, None where nothing is left to see.
    """

    name: str
    machine: str
    goal: str
    verdict: str
    reason: str
    launch: Mapping[str, Any]
    motion: Callable[[], Motion]
    miss: Callable[[float, Any], Any]  # how far each goal is missed, with its sign
    stays: tuple[int, float] | None = None
    rate: float | None = None  # 1/s, of the instability, from a formula by hand


def launch(
    machine: Any, program: Any, settings: Mapping[str, Any], targets: Sequence[str] = (), duration: float = 10.0,
    period: float = 0.01, **plant: Any,
) -> dict[str, Any]:  # fmt: skip
    stated = {"program": program, "settings": dict(settings), "period": period}
    made: dict[str, Any] = {"run": {"duration": duration}, "plant": {"machine": machine} | plant, "controller": stated}
    goals = {f"y{i + 1}": text for i, text in enumerate(targets)}
    return made | ({"target": goals} if goals else {})


@dataclass(frozen=True)
class Goal:
    """A coordinate that is to follow a function of time, as text and by hand."""

    row: int
    name: str
    text: str
    y: Callable[[float], float] = field(compare=False)


def following(
    name: str, machine: str, goals: Sequence[Goal], verdict: str, reason: str, start: Sequence[float],
    stays: tuple[int, float] | None = None, rate: float | None = None, by_hand: Any = None, duration: float = 10.0,
    period: float = 0.01, limit: float = np.inf, hold: bool = False, parameters: Mapping[str, float] | None = None,
) -> Case:  # fmt: skip
    """A case of `verdict_machines.follow`; start: the coordinates and rates of the launch file."""
    build = getattr(machines, machine)
    q = [each.name for each in build().coordinates]
    given = {n: x for n, x in zip([*q, *(f"{n}_dot" for n in q)], start, strict=True) if x}
    plant: dict[str, Any] = {"initial": given} | ({"parameters": dict(parameters)} if parameters else {})
    plant |= {"actuator": {"limit": limit}} if np.isfinite(limit) else {}
    words = dict(zip(("output", "other", "third"), (each.name for each in goals), strict=False))
    law_of, n = by_hand or getattr(sheet, machine), len(goals)
    first = np.array(start, dtype=float)
    if stays is not None:  # by hand it starts a little beside the equilibrium that is judged
        first[stays[0]] = stays[1] + OFFSET

    def motion() -> Motion:
        law = follow(law_of, [each.row for each in goals], [each.y for each in goals], n)
        return move(law_of, law, first, duration, period if hold else 0.0, limit)

    return Case(
        name, machine, ", ".join(f"{each.name} = {each.text}" for each in goals), verdict, reason,
        launch(build, machines.follow, words, [each.text for each in goals], duration, period, **plant), motion,
        lambda t, x: [x[each.row] - each.y(t) for each in goals], stays, rate,
    )  # fmt: skip


def stating(
    name: str, machine: str, program: Any, goal: str, verdict: str, reason: str, settings: Mapping[str, float],
    law: Any, miss: Callable[[float, Any], Any], stays: tuple[int, float] | None = None,
    start: Mapping[str, float] | None = None, duration: float = 20.0, rate: float | None = None, period: float = 0.0,
) -> Case:  # fmt: skip
    """A case of a program that states its inputs, with the same law by hand."""
    build, by_hand = getattr(machines, machine), getattr(sheet, machine)
    q = [each.name for each in build().coordinates]
    first = np.array([(start or {}).get(each, 0.0) for each in [*q, *(f"{n}_dot" for n in q)]])
    if stays is not None:
        first[stays[0]] = stays[1] + OFFSET
    return Case(
        name, machine, goal, verdict, reason,
        launch(build, program, settings, duration=duration, period=period or 0.01, initial=start or {}),
        lambda: move(by_hand, law, first, duration, period), miss, stays, rate,
    )  # fmt: skip


def linear(gains: Sequence[float], about: float = 0.0, push: float = 0.0) -> Any:
    """u = push - k (x - (1, about, 0, 0))."""
    return lambda t, q, v: np.array([push - np.dot(gains, [q[0] - 1, q[1] - about, *v])])  # noqa: ARG005


def named(gains: Sequence[float], **more: float) -> dict[str, float]:
    return {f"k{i}": float(k) for i, k in enumerate(gains)} | more


def rolling(sign: float) -> Any:
    def law(t: float, q: Any, v: Any) -> Any:
        wanted = sign * (2 * (q[0] - 0.2) + 2 * v[0]) / 7
        return np.array([0.1 * 9.81 * q[0] * np.cos(q[1]) + 4 * (wanted - q[1]) - 0.6 * v[1]])

    return law


def hovering(sign: float) -> Any:
    def law(t: float, q: Any, v: Any) -> Any:
        wanted = sign * ((q[0] - 1) + 2 * v[0]) / 9.81
        return np.array([9.81 - 4 * (q[1] - 1) - 4 * v[1], 0.02 * (100 * (wanted - q[2]) - 20 * v[2])])

    return law


def from_one(t: float, x: Any) -> float:
    """How far the first coordinate is from 1."""
    return float(x[0]) - 1.0


def hover_miss(t: float, x: Any) -> Any:
    return x[:2] - 1.0


def falling(friction: float, stiffness: float) -> float:
    """The positive root [1/s] of s^2 + friction s - stiffness = 0, a pendulum about its top."""
    return float(np.roots([1.0, friction, -stiffness]).max())


SLOW = Goal(0, "x", "0.5*sin(0.8*t)", lambda t: 0.5 * np.sin(0.8 * t))
FAST = Goal(0, "x", "0.5*sin(8*t)", lambda t: 0.5 * np.sin(8 * t))
QUICK = Goal(0, "x", "0.01*sin(20*t)", lambda t: 0.01 * np.sin(20 * t))
SWAY = Goal(1, "theta", "0.1*sin(2*t)", lambda t: 0.1 * np.sin(2 * t))
TOP = Goal(1, "theta", "pi", lambda t: np.pi)  # noqa: ARG005
PI = float(np.pi)


def shaken(
    name: str, amplitude: float, speed: float, at: float, verdict: str, reason: str, duration: float = 10.0,
    period: float = 0.002,
) -> Case:  # fmt: skip
    """A pendulum on a pivot that goes up and down as a sine."""
    goal = Goal(0, "y", f"{amplitude:g}*sin({speed:g}*t)", lambda t: amplitude * np.sin(speed * t))
    start = [0, at, amplitude * speed, 0]
    return following(name, "pivot", [goal], verdict, reason, start, (1, at), duration=duration, period=period)


def heading(
    name: str, program: str, length: float, speed: float, verdict: str, reason: str, duration: float = 20.0
) -> Case:
    """An angle that is steered by nothing but the way driven, psi' = -(V/L) sin psi.

    So turn the robot, L = 0.3 m, whose point ahead follows a line, and the trailer, L = 1 m, that nobody steers.
    """

    def motion() -> Motion:
        times = np.linspace(0.0, duration, 1001)
        half = np.tan(OFFSET / 2) * np.exp(-speed / length * times)  # tan(psi/2)
        return Motion(times, 2 * np.arctan(half)[:, None], True)

    plant = {"machine": "diff_drive_trailer", "initial": {"V": speed, "X": -0.3}}
    stated: dict[str, Any] = {"run": {"duration": duration}, "plant": plant, "controller": {"program": program}}
    if program == "look_ahead":
        stated["target"] = {"x": f"{speed}*t", "y": "0"}
    else:
        stated["controller"]["settings"] = {"v": str(speed)}
    rate = -speed / length if speed < 0 else None
    goal = {"look_ahead": f"point ahead at ({speed:g}*t, 0)", "rates": f"V = {speed:g}, Omega = 0"}[program]
    return Case(name, "trailer", goal, verdict, reason, stated, motion, lambda t, x: 0.0, (0, 0.0), rate)  # noqa: ARG005


def flat(
    name: str, machine: str, targets: Sequence[str], by_hand: Any, verdict: str, reason: str, outputs: Sequence[str],
    start: Callable[[Goals], tuple[Any, Any]], limit: float = np.inf,
) -> Case:  # fmt: skip
    """A case of a goal of relative degree 4 for a point, on it from the start; by_hand: coordinates with T, p, p'."""
    accelerations, p, p_dot = by_hand
    goals = Goals(*targets)

    def motion() -> Motion:
        phi, T, turning, T_dot = on_goal(goals)
        places, rates = start(goals)
        law = thrust_law(goals, p, p_dot)
        return move(accelerations, law, np.array([*places, phi, T, *rates, turning, T_dot]), 10.0)

    plant: dict[str, Any] = {"initial": {"on_program": True}}
    plant |= {"actuator": {"limit": limit}} if np.isfinite(limit) else {}
    words = dict(zip(("output", "other"), outputs, strict=True))
    stated = launch(getattr(machines, machine), machines.follow_outputs, words, targets, period=0.005, **plant)
    goal = ", ".join(f"{each} = {text}" for each, text in zip(outputs, targets, strict=True))
    return Case(name, machine, goal, verdict, reason, stated, motion, lambda t, x: p(x) - goals(t)[0])


def load(q: Any) -> Any:
    return np.array([q[0] + q[1] * np.sin(q[2]), -q[1] * np.cos(q[2])])


def load_dot(q: Any, v: Any) -> Any:
    s, k = np.sin(q[2]), np.cos(q[2])
    return np.array([v[0] + v[1] * s + q[1] * v[2] * k, -v[1] * k + q[1] * v[2] * s])


def under_trolley(goals: Goals) -> tuple[Any, Any]:
    """Trolley and rope with which the load is on its goal, and their rates."""
    (phi, _, turning, _), y = on_goal(goals), goals(0.0)
    s, k = np.sin(phi), np.cos(phi)
    length = -y[0, 1] / k
    rate = (length * turning * s - y[1, 1]) / k
    return (y[0, 0] - length * s, length), (y[1, 0] - rate * s - length * turning * k, rate)


def place(q: Any) -> Any:
    return q[:2]


def place_dot(q: Any, v: Any) -> Any:
    return v[:2]


def at_place(goals: Goals) -> tuple[Any, Any]:
    y = goals(0.0)
    return y[0], y[1]


def centre(q: Any) -> Any:
    return q[:2] + 0.2 * directions(q[2])[0]


def centre_dot(q: Any, v: Any) -> Any:
    return v[:2] + 0.2 * v[2] * directions(q[2])[1]


def below_centre(goals: Goals) -> tuple[Any, Any]:
    (phi, _, turning, _), y = on_goal(goals), goals(0.0)
    n, b = directions(phi)
    return y[0] - 0.2 * n, y[1] - 0.2 * turning * b


def arm(name: str, verdict: str, reason: str, period: float, limit: float = np.inf) -> Case:
    """The elastic arm, from rest beside its goal."""
    text = "0.5*sin(2*t)"
    goals = Goals(text)
    plant: dict[str, Any] = {"initial": {"p": 0.1, "q": 0.1}}
    plant |= {"actuator": {"limit": limit}} if np.isfinite(limit) else {}
    return Case(
        name, "elastic_arm", f"p = {text}", verdict, reason,
        launch(machines.elastic_arm, machines.follow, {"output": "p"}, [text], period=period, **plant),
        lambda: move(sheet.elastic_arm, arm_law(goals), np.array([0.1, 0.1, 0, 0]), 10.0, period, limit),
        lambda t, x: x[1] - goals(t)[0, 0],
    )  # fmt: skip


def fed_forward(name: str, target: str, start: Mapping[str, float], verdict: str, reason: str, **more: Any) -> Case:
    """A pendulum whose motor gives the torque of its goal."""
    goals, m, L, c = Goals(target), 0.2, 0.5, 0.02
    first = np.array([start.get("theta", 0.0), start.get("theta_dot", 0.0)])
    first[0] += OFFSET if "stays" in more else 0.0

    def law(t: float, q: Any, v: Any) -> Any:
        y = goals(t)[:, 0]
        return np.array([m * L**2 * y[2] + c * y[1] + m * 9.81 * L * np.sin(y[0])])

    return Case(
        name, "pendulum", f"theta = {target}", verdict, reason,
        launch(machines.pendulum, machines.feed_forward, {}, [target], duration=20.0, initial=dict(start)),
        lambda: move(sheet.pendulum, law, first, 20.0), lambda t, x: x[0] - goals(t)[0, 0], **more,
    )  # fmt: skip


LQR = (-2.0, 69.4, -4.39, 17.9)  # of the cart-pole, weights 4, 4, 1, 1 and 1, rounded
UNSTABLE = "non-minimum phase"
STAYS = "nothing runs away"
MISSED = "the goal is not reached"


def rest(row: int, name: str, value: float = 0.0) -> Goal:
    return Goal(row, name, f"{value:g}", lambda t: value)  # noqa: ARG005


def slowly(name: str) -> Goal:
    return Goal(0, name, "0.1*sin(0.8*t)", lambda t: 0.1 * np.sin(0.8 * t))


def spin(speed: float) -> Goal:
    return Goal(0, "alpha", f"{speed:g}*t", lambda t: speed * t)


LOAD = ("0.5*sin(0.8*t)", "-2 + 0.3*cos(0.8*t)")  # of x and z
EIGHT = ("sin(0.8*t)", "1 + 0.3*sin(1.6*t)")
AT_LIMIT = "an input is at its limit for"

CASES = (
    following("crane_hanging", "crane", [SLOW], "yes", "stable, -0.078", [0, 0.2, 0, 0], (1, 0.0)),
    following("crane_upside_down", "crane", [SLOW], "no", UNSTABLE, [0, 3.14, 0, 0], (1, PI),
              falling(0.05 / (0.5 * 0.8**2), 9.81 / 0.8)),
    following("crane_too_heavy", "crane", [SLOW], "no", AT_LIMIT, [0, 0, 0, 0], None,
              by_hand=sheet.heavy_crane,
              limit=30.0, duration=8.0, parameters={"m": 600.0}),
    following("crane_too_weak", "crane", [FAST], "no", AT_LIMIT, [0, 0, 0, 0], limit=1.0),
    following("crane_strong_enough", "crane", [SLOW], "yes", STAYS, [0, 0.1, 0, 0], (1, 0.0), limit=30.0),
    following("crane_sampled_too_slowly", "crane", [QUICK], "no", MISSED, [0, 0, 0.2, 0], period=0.1, hold=True),
    following("crane_sampled_quickly", "crane", [QUICK], "yes", STAYS, [0, 0, 0.2, 0], (1, 0.0), period=0.004),
    following("crane_sampled_rather_slowly", "crane", [QUICK], "no", MISSED, [0, 0, 0.2, 0], period=0.02, hold=True),
    following("crane_from_afar", "crane", [QUICK], "yes", STAYS, [0.3, 0, 0, 0], period=0.004),
    following("crane_from_afar_rather_slowly", "crane", [QUICK], "no", MISSED, [0.3, 0, 0, 0], period=0.02, hold=True),
    following("crane_sway", "crane", [SWAY], "yes", STAYS, [0, 0.1, 0, 0]),
    following("cart_pole_angle", "crane", [TOP], "yes", STAYS, [0, 3.0, 0, 0]),
    following("segway_place", "segway", [SLOW], "no", UNSTABLE, [0, 0, 0, 0], (1, 0.0), falling(0, 9.81 / (0.5 + 0.1))),
    following("segway_tilt", "segway", [rest(1, "theta")], "yes", STAYS, [0, 0.2, 0, 0]),
    following("furuta_hanging", "furuta", [slowly("alpha")], "yes", "stable, -0.1", [0, 0.1, 0, 0], (1, 0.0)),
    following("furuta_upright", "furuta", [rest(0, "alpha", 0.2)], "no", UNSTABLE, [0, 3.14, 0, 0], (1, PI),
              falling(0.005 / (0.2 * 0.3**2), 9.81 / 0.3)),
    following("furuta_spinning", "furuta", [spin(10.0)], "no", UNSTABLE, [0, 0.01, 10, 0], (1, 0.0),
              falling(0.005 / (0.2 * 0.3**2), 10.0**2 - 9.81 / 0.3)),
    following("pendubot_hanging", "pendubot", [slowly("q1")], "yes", "stable, -0.4", [0, 0.1, 0, 0], (1, 0.0)),
    following("pendubot_up", "pendubot", [rest(0, "q1", 0.1)], "no", UNSTABLE, [0.1, 3.04, 0, 0], (1, PI - 0.1),
              falling(0.1 / (0.7 * 0.4**2), 9.81 / 0.4)),
    following("pendubot_all_up", "pendubot", [Goal(0, "q1", "pi", lambda t: PI)], "no", UNSTABLE, [PI, 0.01, 0, 0],  # noqa: ARG005
              (1, 0.0), falling(0.1 / (0.7 * 0.4**2), 9.81 / 0.4)),
    following("acrobot_hanging", "acrobot", [rest(1, "q2", 0.2)], "yes", "stable", [0, 0, 0, 0], (0, -0.06)),
    following("acrobot_up", "acrobot", [rest(1, "q2")], "no", UNSTABLE, [3.14, 0, 0, 0], (0, PI),
              falling(0.1 / 0.817, 9.81 * (1.0 * 0.5 + 0.7 * 0.9) / 0.817)),  # 1.0 0.5^2 + 0.7 0.9^2 = 0.817 kg m^2
    following("tora_rotor", "tora", [rest(1, "theta")], "yes", STAYS, [0.1, 0.3, 0, 0], (0, 0.0)),
    following("tora_place", "tora", [rest(0, "x")], "no", "", [0.1, 0, 0, 0]),
    following("beam_angle", "ball_and_beam", [rest(1, "theta")], "yes", STAYS, [0.1, 0.05, 0, 0]),
    following("quadrotor_attitude", "quadrotor", [rest(1, "z", 1.0), rest(2, "phi")], "yes", STAYS, [0, 0, 0.1, 0, 0,
              0]),
    stating("crane_damped", "crane", machines.feed_back, "x = 1", "yes", "closed loop", named((4, 0, 4, 0)),
            linear((4, 0, 4, 0)), from_one, (1, 0.0)),
    stating("crane_pushed_away", "crane", machines.feed_back, "x = 1", "no", "closed loop: unstable", named((-4, 0, 4,
              0)),
            linear((-4, 0, 4, 0)), from_one, (1, 0.0)),
    stating("crane_stops_short", "crane", machines.feed_back, "x = 1", "no", MISSED, named((4, 0, 4, 0), push=-2.0),
            linear((4, 0, 4, 0), push=-2.0), from_one, (1, 0.0)),
    stating("crane_fed_back_slowly", "crane", machines.feed_back, "x = 1", "yes", "sampling: largest eigenvalue",
            named((100, 0, 60, 0)), linear((100, 0, 60, 0)), from_one, (0, 1.0), {"x": 1.0}, period=0.02),
    stating("crane_fed_back_too_late", "crane", machines.feed_back, "x = 1", "no", "sampling: largest eigenvalue",
            named((100, 0, 60, 0)), linear((100, 0, 60, 0)), from_one, (0, 1.0), {"x": 1.0}, period=0.1),
    stating("cart_pole_balanced", "crane", machines.feed_back, "x = 1", "yes", "closed loop", named(LQR, about=PI),
            linear(LQR, PI), from_one, (1, PI), {"theta": 3.1}),
    stating("cart_pole_unbalanced", "crane", machines.feed_back, "x = 1", "no", "closed loop",
            named((4, 0, 4, 0), about=PI), linear((4, 0, 4, 0), PI), from_one, (1, PI), {"x": 1.0, "theta": PI}),
    stating("ball_balanced", "ball_and_beam", machines.roll, "r = 0.2", "yes", "closed loop", {"sign": 1.0},
              rolling(1.0),
            lambda t, x: float(x[0]) - 0.2, (1, 0.0)),  # noqa: ARG005
    stating("ball_lost", "ball_and_beam", machines.roll, "r = 0.2", "no", "", {"sign": -1.0}, rolling(-1.0),
            lambda t, x: float(x[0]) - 0.2),  # noqa: ARG005
    stating("quadrotor_hovers", "quadrotor", machines.hover, "x = 1, z = 1", "yes", "closed loop", {"sign": 1.0},
            hovering(1.0), hover_miss, (2, 0.0)),
    fed_forward("pendulum_fed_forward", "0.2*sin(t)", {"theta_dot": 0.2}, "yes", "open loop"),
    fed_forward("pendulum_fed_forward_at_its_top", "pi", {"theta": PI}, "no", "nothing is fed back that holds it",
                stays=(0, PI), rate=falling(0.02 / (0.2 * 0.5**2), 9.81 / 0.5)),
    flat("crane_load", "hoist", LOAD, (hoist(), load, load_dot), "yes", "left free: nothing", ("x", "z"),
         under_trolley),
    flat("crane_load_too_heavy", "hoist", LOAD, (hoist(limit=2.5), load, load_dot), "no", AT_LIMIT, ("x", "z"),
         under_trolley, 2.5),
    flat("quadrotor_place", "quadrotor", EIGHT, (quadrotor(), place, place_dot), "yes", "", ("x", "z"), at_place),
    flat("quadrotor_strong_enough", "quadrotor", EIGHT, (quadrotor(20.0), place, place_dot), "yes", "", ("x", "z"),
         at_place, 20.0),
    flat("quadrotor_too_weak", "quadrotor", EIGHT, (quadrotor(9.0), place, place_dot), "no", AT_LIMIT, ("x", "z"),
         at_place, 9.0),
    arm("elastic_arm", "yes", "left free: nothing", 0.001),
    arm("elastic_arm_sampled_slowly", "no", MISSED, 0.005),
    flat("pvtol_centre", "pvtol", EIGHT, (pvtol, centre, centre_dot), "yes", "", ("hx", "hz"), below_centre),
    following("pvtol_place", "pvtol", [rest(0, "x"), rest(1, "z")], "no", UNSTABLE, [0.1, 0, 0, 0, 0, 0], (2, 0.0),
              (9.81 / 0.2) ** 0.5),
    heading("robot_forward", "look_ahead", 0.3, 0.3, "yes", STAYS),
    heading("robot_backward", "look_ahead", 0.3, -0.3, "no", "turn the direction of travel"),
    heading("trailer_pushed_back", "rates", 1.0, -0.4, "no", "turn the direction of travel"),
    heading("trailer_pushed_back_slowly", "rates", 1.0, -0.05, "yes", "perturbations grow 1.6-fold in this run of 10 s",
            10.0),
    heading("trailer_pushed_back_slowly_for_long", "rates", 1.0, -0.05, "no", "turn the direction of travel", 100.0),
    shaken("pivot_shaken_fast", 0.08, 60.0, PI, "yes", "stable, -0.0556 1/s about the periodic motion", 6.0, 0.001),
    shaken("pivot_shaken_slowly", 0.08, 25.0, PI, "no", "unstable, +3.5 1/s about the periodic motion"),
    shaken("pivot_in_resonance", 0.03, 11.4, 0.0, "no", "unstable, +0.51 1/s about the periodic motion", 20.0),
    shaken("pivot_beside_resonance", 0.03, 8.0, 0.0, "yes", "stable, -0.0556 1/s"),
    stating("quadrotor_lost", "quadrotor", machines.hover, "x = 1, z = 1", "no", MISSED, {"sign": -1.0}, hovering(-1.0),
            hover_miss),
)  # fmt: skip


def by_hand(case: Case) -> tuple[float, float | None]:
    """The largest late residual as a share of the goal's own size; how far the state leaves its equilibrium, if any.

    The size of a goal that moves is its amplitude, that of one at rest how far it is missed at the start.
    """
    motion = case.motion()
    start = np.array([np.atleast_1d(case.miss(float(t), motion.states[0])) for t in motion.times])
    moved = np.ptp(start, axis=0) / 2
    size = np.where(moved > NO_SIZE, moved, np.abs(start[0]))
    missed = float(np.max(np.atleast_1d(motion.late(case.miss)) / np.where(size > NO_SIZE, size, 1.0)))
    if case.stays is None:
        return (missed if motion.whole else np.inf), None
    row, at = case.stays
    return (missed if motion.whole else np.inf), float(np.abs(motion.states[:, row] - at).max())


def judged_by_hand(missed: float, left: float | None) -> str:
    """The verdict that the simulation by hand gives."""
    return "yes" if missed < 0.1 and (left is None or left < APART) else "no"


def page() -> str:
    """The table of tests/analysis/verdicts.md."""
    import servonode

    lines = ["| case | goal | verdict | `check` says | missed by hand | left |"]
    lines.append("|---|---|---|---|---|---|")
    for case in CASES:
        report = servonode.check(case.launch)
        missed, left = by_hand(case)
        said = [each.text for each in report.findings if each.level == "refuse"]
        said += [each.text for each in report.findings if each.subject in JUDGED]
        parts = said[0].removeprefix("left free: ").split("; ")
        text = next(
            (each for each in parts if "stable" in each or "decaying" in each or MISSED in each or "(limit 1)" in each),
            parts[0] if "ends by a fault" in parts[0] else parts[-1],
        )
        away = "" if left is None else f"{left:.2g}"
        late = "does not end" if np.isinf(missed) else f"{missed:.2g}"
        lines.append(f"| {case.name} | `{case.goal}` | **{report.verdict}** | {short(text)} | {late} | {away} |")
    return "\n".join(lines)


SHORTER = {  # what `check` says in many words: what the table says
    r" \(with [^)]*\)|: non-minimum phase|: the inputs cannot move it here|, and nothing is fed back that holds it": "",
    r"the residual is still \S+ in the last quarter of the run, (\S+) of .*": r"misses it by \1 of its size",
    r"over 10 s nothing runs away, and ": "",
    r"about the periodic motion through (.*) \(largest (Floquet multiplier \S+) over.*\)": r"at \1 (\2)",
    r"the servo-constraint of_(\w+) lost rank \(.*\)": r"\1 lost rank",
}


def short(text: str) -> str:
    """A sentence of `check` without what the table's head says."""
    for words, fewer in SHORTER.items():
        text = re.sub(words, fewer, text)
    return text


if __name__ == "__main__":
    print(page())
