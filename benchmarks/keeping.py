"""What keeping costs: one evaluation of a law with barriers, against the same law without them in the same run.

    python benchmarks/keeping.py            the table; two minutes, most of them for compiling
    python benchmarks/keeping.py --json     the same numbers for machines
    python benchmarks/keeping.py --pink /tmp/pink/bin/python
                                            beside it a table of Pink on the same arms, in the Python of an environment
                                            of its own: uv venv /tmp/pink, uv pip install pin-pink daqp osqp proxsuite

Two arms: that of examples/arm, and the same with a fixed flange, which has six joints. Each is asked for a goal of its
tool that runs through what is forbidden, at states along a run; then with a wall that leaves no place, so that
something has to give way. At each state both laws are evaluated many times in compiled loops, in turn, on one core; the
fastest loop counts. Percentiles are those over states, so that p99 is what the solver takes at the worst of them.
"""

import json
import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from common import law_driver, options, pin

import servonode
from servonode.controllers import ServoLaw

Array = npt.NDArray[np.float64]

ARM = Path(__file__).parents[1] / "examples" / "arm" / "arm.urdf"
STATES = 400  # along a run
LOOP, LOOPS = 20, 9  # evaluations in one timed loop, and loops at each state
JOINTS = {"turn": 0.0, "shoulder": 0.67, "roll": 0.0, "elbow": 1.3, "twist": 0.0, "bend": 0.64, "flange": 0.0}
START = {"shoulder": 0.67, "elbow": 1.3, "bend": 0.648}
POSITION = ["0.65 - 0.2*sin(t/2)**2", "0.3*sin(2*t)", "0.344 - 0.13*sin(t/2)**2"]
BALL = "distance(tool, (0.6, 0.2, 0.33)) - 0.1"
FOUR = {"ball": BALL, "floor": "tool.z - 0.15", "wall": "0.85 - tool.x", "elbow_end": "2.4 - elbow"}
TWELVE = {"ball": BALL, "floor": "tool.z - 0.05", "wall": "0.85 - tool.x", "near": "tool.x - 0.2"}
TWELVE |= {"left": "0.9 - tool.y", "right": "tool.y + 0.9", "roof": "1.2 - tool.z"}
TWELVE |= {f"{link}_{side}": f"distance({link}, (0.6, {y}, 0.2)) - 0.1"
           for link in ("tool", "hand") for side, y in (("left", 0.6), ("right", -0.5))}  # fmt: skip
TWELVE |= {"fist": "hand.z - 0.05"}
LAWS = (
    (6, False, "six joints, 4 barriers"),
    (6, True, "six joints, 4 barriers, damped, with a posture"),
    (7, True, "seven joints, 40 rows, damped, with a posture"),
)


@dataclass(frozen=True)
class Row:
    """Microseconds of one evaluation at p50 and p99 of some states, and their ratios to the law without keeps."""

    law: str
    where: str
    states: int
    p50: float
    p99: float
    ratio50: float
    ratio99: float


def arm(folder: Path, joints: int) -> Path:
    """The file of an arm."""
    text = ARM.read_text("utf-8")
    if joints == 6:
        text = text.replace('<joint name="flange" type="revolute">', '<joint name="flange" type="fixed">')
    file = folder / f"arm_{joints}.urdf"
    file.write_text(text)
    return file


def pink(python: str, folder: Path) -> list[dict[str, Any]]:
    """What pink_arm.py measures in another Python."""
    script = Path(__file__).with_name("pink_arm.py")
    command = [python, "-W", "ignore", str(script), *(str(arm(folder, joints)) for joints in (6, 7))]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{python} cannot run Pink:\n{done.stderr}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def pink_table(found: list[dict[str, Any]]) -> str:
    lines = [f"{'us per solve of Pink':<48}{'states':>7}{'build p50':>11}{'p99':>7}{'solve p50':>11}{'p99':>8}"]
    for each in found:
        what = "{joints} joints, {rows} rows, {solver}".format(**each)
        numbers = "{states:>7}{build50:>11.0f}{build99:>7.0f}{solve50:>11.1f}{solve99:>8.1f}".format(**each)
        lines.append(f"{what:<48}{numbers}")
    return "\n".join(lines)


def loops(folder: Path, joints: int, posture: bool) -> tuple[servonode.Loop, servonode.Loop]:
    """An arm that keeps, and the same that does not."""
    file = arm(folder, joints)
    stated: dict[str, Any] = {"duration": 8.0, "plant__initial": START, "plant__safety__faults": False}
    goal: dict[str, Any] = {"position": POSITION, "axis_z": [0.5, 0.0, -0.8660254]}
    names = list(JOINTS)[:joints]
    controller: dict[str, Any] = {"period": 0.002, "goal": {"tool": goal}, "gains": {"lambda": 5.0}}
    if posture:
        controller |= {"damping": 0.03, "posture": {"rate": 3.0, "joints": {name: JOINTS[name] for name in names}}}
    else:
        controller["residuals"] = {"twist": "twist"}
    keeping: dict[str, Any] = {"keep": FOUR} if joints == 6 else {"keep": TWELVE, "limits": "keep"}
    return tuple(servonode.load(file, **stated, controller=controller | more) for more in (keeping, {}))  # type: ignore[return-value]


def seconds(run: Any, *arguments: Any) -> float:
    start = perf_counter()
    run(LOOP, *arguments)
    return (perf_counter() - start) / LOOP


def measured(kept: servonode.Loop, alone: servonode.Loop, law: ServoLaw) -> tuple[Array, Array, Array]:
    """How each state is kept, and the seconds of one evaluation with and without keeps."""
    other = alone.closed_loop.control.law  # type: ignore[union-attr]
    run, closed = kept.simulate(), kept.closed_loop
    states = np.column_stack([run.state[name] for name in closed.machine.description.state_names])
    runs = [(law_driver(each), each, each.answer().out) for each in (law, other)]
    how, times = [], []
    x = closed.start.copy()
    for i in np.linspace(0, len(states) - 1, STATES).astype(int):
        x[: states.shape[1]] = states[i]
        t = float(run.t[i])
        goals = (closed.goal(t), alone.closed_loop.goal(t))
        how.append(law.evaluate(t, x, goals[0]).keeping)
        best = [np.inf, np.inf]
        for _ in range(LOOPS):
            for k, ((laws, each, out), y) in enumerate(zip(runs, goals, strict=True)):
                best[k] = min(best[k], seconds(laws, x, y, each.c, each.K, out))
        times.append(best)
    return np.array(how), *np.array(times).T


def rows(name: str, kept: servonode.Loop, alone: servonode.Loop) -> list[Row]:
    law: ServoLaw = kept.closed_loop.control.law  # type: ignore[union-attr]
    numbers = {"wall": law.keep_numbers["wall"]._replace(margin=0.6)}  # and the ball is behind it
    found = []
    for each, more in (
        (law, ""),
        (law.keeping(law.keep_numbers | numbers, *law.limits), ", a wall in front of a ball"),
    ):
        how, with_keeps, without = measured(kept, alone, each)
        for where, state in (("nothing acts", 0), ("rows act", 1), ("something gives way", 2), ("clipped", 3)):
            at = how == state
            if at.sum() > 5:
                p50, p99, q50, q99 = (np.percentile(a[at], p) for a in (with_keeps, without) for p in (50, 99))
                found.append(
                    Row(name, where + more, int(at.sum()), *map(float, (p50 * 1e6, p99 * 1e6, p50 / q50, p99 / q99)))
                )
    return found


def table(found: list[Row]) -> str:
    lines = [f"{'us per evaluation':<62}{'states':>7}{'p50':>8}{'p99':>8}{'ratios':>13}"]
    for each in found:
        what = f"{each.law}: {each.where}"
        lines.append(
            f"{what:<62}{each.states:>7}{each.p50:>8.2f}{each.p99:>8.2f}{each.ratio50:>7.2f}{each.ratio99:>6.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--pink", metavar="PYTHON", help="a Python that has pin-pink")
    arguments = parser.parse_args()
    pin()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        beside = pink(arguments.pink, Path(folder)) if arguments.pink else []
        for joints, posture, name in LAWS:
            found += rows(name, *loops(Path(folder), joints, posture))
    if arguments.json:
        print(json.dumps([*map(asdict, found), *beside], indent=1))
        return
    print(table(found))
    if beside:
        print(pink_table(beside))


if __name__ == "__main__":
    main()
