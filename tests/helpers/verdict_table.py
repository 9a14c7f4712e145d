"""The verdicts that docs/explanation/verdicts.md lists: each with what a simulation by hand says.

`python -m tests.helpers.verdict_table` prints the table of the page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.helpers import verdict_machines as machines
from tests.helpers import verdict_sheet as sheet
from tests.helpers.verdict_sheet import Motion, follow, move

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
    miss: Callable[[float, Any], float]
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
        lambda t, x: max(abs(x[each.row] - each.y(t)) for each in goals), stays, rate,
    )  # fmt: skip


def stating(
    name: str, machine: str, program: Any, goal: str, verdict: str, reason: str, settings: Mapping[str, float],
    law: Any, miss: Callable[[float, Any], float], stays: tuple[int, float] | None = None,
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


def hover_miss(t: float, x: Any) -> float:
    return max(abs(float(x[0]) - 1.0), abs(float(x[1]) - 1.0))


def falling(friction: float, stiffness: float) -> float:
    """The positive root [1/s] of s^2 + friction s - stiffness = 0, a pendulum about its top."""
    return float(np.roots([1.0, friction, -stiffness]).max())


SLOW = Goal(0, "x", "0.5*sin(0.8*t)", lambda t: 0.5 * np.sin(0.8 * t))
FAST = Goal(0, "x", "0.5*sin(8*t)", lambda t: 0.5 * np.sin(8 * t))
QUICK = Goal(0, "x", "0.01*sin(20*t)", lambda t: 0.01 * np.sin(20 * t))
SWAY = Goal(1, "theta", "0.1*sin(2*t)", lambda t: 0.1 * np.sin(2 * t))
TOP = Goal(1, "theta", "pi", lambda t: np.pi)  # noqa: ARG005
PI = float(np.pi)


def heading(name: str, program: str, length: float, speed: float, verdict: str, reason: str) -> Case:
    """An angle that is steered by nothing but the way driven, psi' = -(V/L) sin psi.

    So turn the robot, L = 0.3 m, whose point ahead follows a line, and the trailer, L = 1 m, that nobody steers.
    """

    def motion() -> Motion:
        times = np.linspace(0.0, 20.0, 1001)
        half = np.tan(OFFSET / 2) * np.exp(-speed / length * times)  # tan(psi/2)
        return Motion(times, 2 * np.arctan(half)[:, None], True)

    plant = {"machine": "diff_drive_trailer", "initial": {"V": speed, "X": -0.3}}
    stated: dict[str, Any] = {"run": {"duration": 20.0}, "plant": plant, "controller": {"program": program}}
    if program == "look_ahead":
        stated["target"] = {"x": f"{speed}*t", "y": "0"}
    else:
        stated["controller"]["settings"] = {"v": str(speed)}
    rate = -speed / length if speed < 0 else None
    goal = {"look_ahead": f"point ahead at ({speed:g}*t, 0)", "rates": f"V = {speed:g}, Omega = 0"}[program]
    return Case(name, "trailer", goal, verdict, reason, stated, motion, lambda t, x: 0.0, (0, 0.0), rate)  # noqa: ARG005


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


CASES = (
    following("crane_hanging", "crane", [SLOW], "yes", "stable, -0.078", [0, 0.2, 0, 0], (1, 0.0)),
    following("crane_upside_down", "crane", [SLOW], "no", UNSTABLE, [0, 3.14, 0, 0], (1, PI),
              falling(0.05 / (0.5 * 0.8**2), 9.81 / 0.8)),
    following("crane_too_heavy", "crane", [SLOW], "no", "an input is at its limit for", [0, 0, 0, 0], None,
              by_hand=sheet.heavy_crane,
              limit=30.0, duration=8.0, parameters={"m": 600.0}),
    following("crane_too_weak", "crane", [FAST], "no", "an input is at its limit for", [0, 0, 0, 0], limit=1.0),
    following("crane_strong_enough", "crane", [SLOW], "yes", STAYS, [0, 0.1, 0, 0], (1, 0.0), limit=30.0),
    following("crane_sampled_too_slowly", "crane", [QUICK], "no", MISSED, [0, 0, 0.2, 0], period=0.1, hold=True),
    following("crane_sampled_quickly", "crane", [QUICK], "yes", STAYS, [0, 0, 0.2, 0], (1, 0.0), period=0.004),
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
    heading("robot_forward", "look_ahead", 0.3, 0.3, "yes", STAYS),
    heading("robot_backward", "look_ahead", 0.3, -0.3, "no", "turn the direction of travel"),
    heading("trailer_pushed_back", "rates", 1.0, -0.4, "no", "turn the direction of travel"),
    stating("quadrotor_lost", "quadrotor", machines.hover, "x = 1, z = 1", "no", MISSED, {"sign": -1.0}, hovering(-1.0),
            hover_miss),
)  # fmt: skip


def by_hand(case: Case) -> tuple[float, float | None]:
    """The largest late residual as a share of the goal's own size; how far the state leaves its equilibrium, if any."""
    motion = case.motion()
    start = [case.miss(float(t), motion.states[0]) for t in motion.times]
    size = max(abs(start[0]), float(np.ptp(start)) / 2)
    missed = motion.late(case.miss) / size if size > 1e-6 else motion.late(case.miss)
    if case.stays is None:
        return (missed if motion.whole else np.inf), None
    row, at = case.stays
    return (missed if motion.whole else np.inf), float(np.abs(motion.states[:, row] - at).max())


def judged_by_hand(missed: float, left: float | None) -> str:
    """The verdict that the simulation by hand gives."""
    return "yes" if missed < 0.1 and (left is None or left < APART) else "no"


def page() -> str:
    """The table of docs/explanation/verdicts.md."""
    import servonode

    lines = ["| case | goal | verdict | `check` says | by hand: late residual / size | leaves its equilibrium by |"]
    lines.append("|---|---|---|---|---|---|")
    for case in CASES:
        report = servonode.check(case.launch)
        missed, left = by_hand(case)
        said = [each.text for each in report.findings if each.level == "refuse"]
        said += [each.text for each in report.findings if each.subject in ("zero dynamics", "closed loop")]
        parts = said[0].removeprefix("left free: ").split("; ")
        text = next(
            (each for each in parts if "stable" in each or "decaying" in each or MISSED in each or "(limit 1)" in each),
            parts[-1],
        )
        away = "" if left is None else f"{left:.2g}"
        late = "does not end" if np.isinf(missed) else f"{missed:.2g}"
        lines.append(f"| {case.name} | `{case.goal}` | **{report.verdict}** | {text} | {late} | {away} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page())
