"""What laws keep: violations between samples, from random starts of the class that is promised to be kept.

    python benchmarks keeps                         200 runs of each machine, some minutes
    python benchmarks/keeps.py --runs 10000         hours
    python benchmarks/keeps.py --machine cart --spread 0.1

The machines of `examples/kept`, each for 5 s with inputs that are held for 1 ms and act one period late, from starts at
which every keep is at least its margin and the last function before its row at least 0; half of them within 5 % of that
class's edge, on the way from the file's start (crane, arm and quadruped: the starts that `check` draws, see
`servonode.analysis.keeping.starts`). Their goals ask for more than is kept and more than the drives give. The
plant steps 2 times in a period, in which the inputs are held and the motion is smooth: the parabola through these 3
states gives it at 21 instants (`--exact` steps 20 times instead; margins agree to 1e-7 of their range), where keeps
are evaluated by numpy, not by the law. A violation is a keep below -1e-3 of its range; `least` is the least of any keep
in any run by its range. `--spread 0.1` draws the plant's parameters within 10 % of those that the law knows.
"""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from common import options

import servonode
from servonode.analysis.keeping import starts
from servonode.analysis.kept_runs import begun_at
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.record_layout import PlantRecordLayout
from servonode.simulation.fused_loop import fused_loop, rows_of

Array = Any
Draw = Callable[[np.random.Generator, Array], Array]
FILES = Path(__file__).resolve().parents[1] / "examples" / "kept"
FINER, STEPS, PERIOD, DURATION = 20, 2, 0.001, 5.0
NEAR = 0.01  # m: a tool farther away from what it is kept from, at both ends of a period, does not come to it between
VIOLATED = 1e-3  # of a keep's range
EDGE = 0.05
MATH = {name: getattr(np, name) for name in ("cos", "sin", "sqrt", "tanh", "abs")}
MATH |= {"distance": lambda a, b: np.linalg.norm(a - np.array(b), axis=-1)}
MATH |= {"max": lambda *parts: reduce(np.maximum, parts), "min": lambda *parts: reduce(np.minimum, parts)}


@dataclass(frozen=True)
class Case:
    """One machine. goals: what varies beside the start. spread: how far states are drawn, by name. ranges: of keeps."""

    goals: tuple[Mapping[str, Any], ...]
    spread: Mapping[str, float]
    ranges: Mapping[str, float]
    changes: Mapping[str, Any]
    checked: bool = False  # starts are those that check draws
    also: Mapping[str, str] = field(default_factory=dict)  # keeps that the file does not state


SPEEDS = {"turn": 2.2, "shoulder": 2.2, "roll": 2.5, "elbow": 2.5, "twist": 3.0, "bend": 3.0, "flange": 3.0}
TORQUES = {"turn": 11.0}
FEET = ("front_left", "front_right", "hind_left", "hind_right")
CASES = {
    "cart": Case(
        tuple({"target": {"X": text}} for text in ("2*sin(4*t)", "3*sin(7*t)", "-3*sin(11*t)", "4*sin(15*t)")),
        {"x": 0.8, "theta": 0.4, "x_dot": 2.0, "theta_dot": 2.0},
        {"track": 0.8, "pole": 0.9},
        {},
    ),
    "sphero": Case(
        tuple(
            {"target": {"x": f"3*sin({f}*t)", "y": f"2*cos({g}*t)"}}
            for f, g in ((1.0, 2.0), (3.0, 1.5), (6.0, 5.0), (0.5, 8.0))
        ),
        {"n_0": 0.3, "n_1": 0.3, "omega_0": 3.0, "omega_1": 3.0, "omega_2": 1.0}
        | {"Omega_0": 2.0, "Omega_1": 2.0, "Omega_2": 0.5},
        {"tilt": 0.28, "grip": 2.2},
        {},
    ),
    "trailer": Case(
        tuple(
            {"settings": {"v": f"-{a}*(1 + sin({f}*t))", "mu": mu}, "gains": {"lambda": rate}}
            for a, f, mu, rate in (
                (0.5, 3.0, 1.0, 10.0),
                (0.4, 9.0, 2.0, 30.0),
                (0.5, 20.0, 1.5, 5.0),
                (0.4, 1.0, 3.0, 100.0),
            )
        ),
        {"X": 1.0, "Y": 0.5, "psi": 0.9, "phi": 0.8, "V": 0.6, "Omega": 1.0},
        {"hitch": 0.8, "speed": 0.6, "robot": 0.8, "bed": 0.8, "dock": 0.8},
        {},
    ),
    "crane": Case(
        tuple(
            {"target": {"X": f"{a}*tanh({f}*t - 1) + 0.2*sin(10*t)", "Z": z}}
            for a, f, z in ((2.5, 1.0, "1.0"), (3.0, 2.0, "0.7"), (2.0, 0.8, "0.5"), (2.5, 1.5, "1 + 0.3*sin(3*t)"))
        ),
        {"s": 0.4, "l": 0.4, "theta": 0.19, "s_dot": 0.5, "l_dot": 0.5, "theta_dot": 0.5},
        {"swing": 0.2, "obstacle": 1.85},
        {"controller.predictor": False, "controller.limits": "keep", "plant.safety.limit.F": 200.0},
        checked=True,
    ),
    "arm": Case(
        tuple(
            {"goal": {"position": [f"0.65 - 0.2*tanh(t/2)**2 + {a}*sin({f}*t)**2", f"{b}*sin({f}*t)", z]}}
            for a, b, f, z in ((0.0, 0.4, 3.0, "0.344"), (0.1, 0.6, 5.0, "0.344 - 0.1*sin(2*t)**2"),
                               (-0.2, 0.5, 8.0, "0.344 + 0.2*sin(3*t)"), (0.3, 0.3, 2.0, "0.3"))
        ),
        dict.fromkeys(SPEEDS, 0.5) | {f"{joint}_dot": most for joint, most in SPEEDS.items()},
        {"ball": 0.4} | {f"{joint}_range": 5.8 for joint in ("turn", "roll", "twist", "flange")}
        | {"shoulder_range": 3.8, "elbow_range": 2.8, "bend_range": 3.2}
        | {f"{joint}_speed": 2 * most for joint, most in SPEEDS.items()},
        {f"plant.safety.limit.{joint}_torque": most for joint, most in TORQUES.items()},  # so that they act
        checked=True,
        also={f"{joint}_range": f"min({joint}_upper - {joint}, {joint} - {joint}_lower)" for joint in SPEEDS}
        | {f"{joint}_speed": f"{most} - abs({joint}_dot)" for joint, most in SPEEDS.items()},
    ),
    "quadruped": Case(
        tuple(
            {"settings": {"sway": sway, "fast": fast}}
            for sway, fast in ((0.05, 10.0), (0.1, 6.0), (0.03, 20.0), (0.15, 4.0))
        ),
        {"x": 0.1, "y": 0.15, "z": 0.05, "yaw": 0.2, "pitch": 0.2, "roll": 0.2}
        | {"x_dot": 0.4, "y_dot": 0.4, "z_dot": 0.4, "yaw_dot": 0.5, "pitch_dot": 0.5, "roll_dot": 0.5},
        dict.fromkeys(FEET, 100.0) | {"legs": 0.1, "height": 0.1, "side": 0.08},
        {f"plant.safety.limit.{foot}_hip_motor": 4.0 for foot in FEET},
        checked=True,
    ),
}  # fmt: skip


def loops_of(name: str, more: Mapping[str, Any]) -> list[Any]:
    """One loop for each goal of a case."""
    case = CASES[name]
    keys: dict[str, Any] = {"run.duration": DURATION, "controller.period": PERIOD, "controller.delay": 1}
    keys |= {"controller.predictor": True, "plant.step": PERIOD / STEPS, **case.changes, **more}
    found = []
    for goal in case.goals:
        changed = dict(keys)
        for key, value in goal.get("target", {}).items():
            changed[f"target.{key}"] = value
        if "goal" in goal:
            changed["controller.goal.tool.position"] = goal["goal"]["position"]
        for section in ("settings", "gains"):
            for key, value in goal.get(section, {}).items():
                changed[f"controller.{section}.{key}"] = value
        changed |= {f"controller.keep.{keep}.tolerance": 1e6 for keep in case.ranges}  # how far, not whether
        found.append(servonode.load(FILES / f"{name}.toml", strict=False, values=changed))
    return found


def inside(closed_loop: ClosedLoop, x: Array) -> bool:
    """Whether a start belongs to the class: by the law's rows, under inputs 0 where these depend on inputs."""
    control = closed_loop.control
    assert control is not None
    rows = control.law.keep_rows(0.0, x, control.goal(0.0))
    return bool(np.isfinite(rows).all() and (rows[:, :2] >= 0.0).all())


def start_of(closed_loop: ClosedLoop, spread: Mapping[str, float], rng: np.random.Generator) -> Array | None:
    """A start of the class: on a random way from the file's start, half of them within EDGE of its end."""
    machine, middle = closed_loop.machine, closed_loop.start
    names = list(machine.description.state_names)
    way = np.zeros(len(middle))
    for key, size in spread.items():
        way[names.index(key)] = size * rng.uniform(-1.0, 1.0)

    def at(share: float) -> Array:
        x = middle + share * way
        if "n_2" in names:
            i = names.index("n_0")
            x[i + 2] = -np.sqrt(max(1.0 - x[i] ** 2 - x[i + 1] ** 2, 0.1))
        return machine.projected(0.0, x)

    if not inside(closed_loop, at(0.0)):
        return None
    low, high = 0.0, 1.0
    if inside(closed_loop, at(1.0)):
        low = 1.0
    for _ in range(0 if low else 12):
        middle_share = (low + high) / 2
        low, high = (middle_share, high) if inside(closed_loop, at(middle_share)) else (low, middle_share)
    share = low * (rng.uniform(1.0 - EDGE, 1.0) if rng.uniform() < 0.5 else rng.uniform())
    return at(share)


@dataclass(frozen=True)
class Found:
    """Of one run: the least of each keep by its range, and when; the share of periods with an input at its limit."""

    least: dict[str, float]
    when: dict[str, float]
    limited: float
    start: Array


def between(values: Array) -> Array:
    """(periods, FINER + 1, ...) of values at STEPS + 1 instants of each period, (periods, STEPS + 1, ...)."""
    if values.shape[1] == FINER + 1:
        return values
    known, wanted = np.linspace(0.0, 1.0, values.shape[1]), np.linspace(0.0, 1.0, FINER + 1)
    weights = np.vander(wanted, len(known)) @ np.linalg.inv(np.vander(known, len(known)))
    return np.einsum("ij,pj...->pi...", weights, values)


def tools(closed_loop: ClosedLoop, x: Array, far: Callable[[Array], Array]) -> Array:
    """The tool's places (periods, FINER + 1, 3); straight from end to end of periods in which it stays far away."""

    def places(states: Array) -> Array:  # poses are those of links, then of frames, of which the tool is the last
        found = np.array([closed_loop.machine.poses(0.0, each)[-1, :3] for each in states.reshape(-1, x.shape[-1])])
        return found.reshape(*states.shape[:-1], 3)

    ends = np.append(places(x[:, 0]), places(x[-1:, -1]), axis=0)
    share = np.linspace(0.0, 1.0, FINER + 1)[:, None]
    found = ends[:-1, None] * (1 - share) + ends[1:, None] * share
    near = np.flatnonzero(np.minimum(far(ends[:-1]), far(ends[1:])) < NEAR)
    if len(near):
        found[near] = between(places(x[near]))
    return found


def one(closed_loop: ClosedLoop, case: Case, x: Array) -> Found:
    """The run from a start; what it stops by is -inf."""
    begun, control = begun_at(closed_loop, x) if case.checked else closed_loop.with_parts(start=x), closed_loop.control
    assert control is not None
    launch, machine = begun.launch, begun.machine
    described, layout = machine.description, PlantRecordLayout.of(machine.description)
    steps = launch.steps_per_period or 1
    table = np.zeros((rows_of(launch.steps, 1), layout.computed.stop))
    answers = np.zeros((launch.steps // steps + 1, control.law.record_layout.size))
    ended = fused_loop(begun, 1, table, answers)
    periods = (launch.steps if ended.completed else max(ended.stopped - 1, 1)) // steps
    at = np.arange(periods)[:, None] * steps + np.arange(steps + 1)  # rows of each period, with both ends
    t, states = table[at, 0] * launch.step_ns / 1e9, table[at, layout.x]
    u = np.repeat(table[at[:, :1], layout.inputs], steps + 1, axis=1)  # held
    outputs = machine.monitored_rows(t.ravel(), states.reshape(-1, states.shape[-1]), u.reshape(-1, u.shape[-1]))
    t, fine, outputs, held = (between(each) for each in (t, states, outputs.reshape(*t.shape, -1), u))
    names: dict[str, Any] = {"t": t, **machine.parameters, **control.law.parameters}
    for each, values in ((described.state, fine), (described.inputs, held), (described.outputs, outputs)):
        names |= {quantity.name: values[..., i] for i, quantity in enumerate(each)}
    controller = launch.controller
    assert controller is not None
    stated = {key: each.expression or "" for key, each in controller.keeps.items() if each.expression} | dict(case.also)
    balls = [text for text in stated.values() if "distance(tool" in text]
    if balls:

        def far(tool: Array) -> Array:
            return np.min([eval(text, MATH, {**names, "tool": tool}) for text in balls], axis=0)  # noqa: S307

        names["tool"] = tools(begun, states, far)
    least, when = {}, {}
    with np.errstate(invalid="ignore"):
        for key, text in stated.items():
            value = eval(f"({text})", MATH, names) + 0 * t  # noqa: S307
            value = np.where(np.isfinite(value), value, -np.inf)
            if "force" in text:  # inputs alone make it: nothing keeps it before the first command acts
                value = np.where(t < 1.5 * PERIOD, np.inf, value)
            least[key], when[key] = float(np.min(value)) / case.ranges[key], float(t.ravel()[np.argmin(value)])
    if not ended.completed:
        least["stopped"], when["stopped"] = -np.inf, float(t[-1, -1])
    limits = np.array(begun.safety.limits.value)
    limited = float(np.mean((np.abs(u[:, 0]) >= 0.999 * limits).any(axis=1)))
    return Found(least, when, limited, x)


def row(name: str, runs: int, spread: float, seed: int, threads: int, more: Mapping[str, Any]) -> dict[str, Any]:
    """The table's row of a machine."""
    case, rng, loops = CASES[name], np.random.default_rng(seed), loops_of(name, more)
    begun: list[tuple[ClosedLoop, Array]] = []
    checked = []
    for i, each in enumerate(loops if case.checked else ()):
        spreads = [case.spread.get(key, 0.0) for key in each.closed_loop.machine.description.state_names]
        checked.append(list(starts(each.closed_loop, -(-runs // len(loops)), 100 * seed + i, np.array(spreads))))
    while len(begun) < runs:
        closed_loop = loops[len(begun) % len(loops)].closed_loop
        if spread:
            machine = closed_loop.machine
            numbers = {key: v * rng.uniform(1 - spread, 1 + spread) for key, v in machine.parameters.items() if v}
            closed_loop = closed_loop.with_parts(machine=machine.with_parameters(numbers))
        x = checked[len(begun) % len(loops)].pop() if case.checked else start_of(closed_loop, case.spread, rng)
        if x is not None:
            begun.append((closed_loop, x))
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda each: one(each[0], case, each[1]), begun))
    least = {key: min(each.least[key] for each in found) for key in case.ranges}
    bad = [each for each in found if min(each.least.values()) < -VIOLATED]
    return {
        "machine": name, "runs": runs, "violations": len(bad), "least": least,
        "limited": float(np.mean([each.limited for each in found])),
        "bad": [{"start": each.start.tolist(), "least": each.least, "when": each.when} for each in bad[:5]],
    }  # fmt: skip


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=200, help="runs of each machine")
    parser.add_argument("--machine", choices=CASES, help="one machine")
    parser.add_argument("--spread", type=float, default=0.0, help="how far parameters are drawn from the law's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--exact", action="store_true", help="the plant steps 20 times in a period")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the launch files")
    arguments = parser.parse_args()
    more = {key: json.loads(value) for key, _, value in (each.partition("=") for each in arguments.set)}
    more |= {"plant.step": PERIOD / FINER} if arguments.exact else {}
    names = [arguments.machine] if arguments.machine else list(CASES)
    rows = [row(each, arguments.runs, arguments.spread, arguments.seed, arguments.threads, more) for each in names]
    if arguments.json:
        print(json.dumps(rows))
        return
    for each in rows:
        parts = "  ".join(f"{key} {value:+.2e}" for key, value in each["least"].items())
        counts = f"{each['runs']} runs, {each['violations']} violated, inputs limited {each['limited']:.0%}"
        print(f"{each['machine']:8} {counts}, least by range: {parts}")
        for bad in each["bad"]:
            print("   ", bad)


if __name__ == "__main__":
    main()
