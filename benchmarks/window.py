"""What the window on a run costs: frames per second and the share of a core, on a canvas without a display.

    python benchmarks/window.py            the table
    python benchmarks/window.py --json     the same numbers for machines

States at 1 kHz, with a command and a target at 100 Hz and the rare messages at 5 Hz, go through real sockets from one
process to the window in another. Measured in the window's process after it has settled: frames drawn and frames
that were due, and user and system time over wall time. A screen adds what it takes to copy the pixels there.
"""

import json
import multiprocessing
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import options

from servonode.bus import Bus, Report, State, Status, Target
from servonode.bus.codec import subscriptions_expected
from servonode.bus.topology import CONTROLLER, PLANT, TARGET, publishers
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.mechanics.description import derivative_name, packed
from servonode.nodes.node import Outbox
from servonode.operator.find_runs import Found
from servonode.simulation.simulate import simulate_fused
from servonode.views.display import Options
from servonode.views.live_run import TOPICS, LiveRun
from servonode.views.window import FPS, Window

sys.path.append(str(Path(__file__).parents[1]))  # for a canvas without a display, which the tests have
from tests.helpers.headless import headless_figure

LAUNCHES = ("trailer_pursuit", "sphero_pursuit", "snowboarder_carve")
SETTLE_S, MEASURE_S = 3.0, 6.0
STATE_S = 0.001  # between two states
CONTROL, RARE = 10, 200  # states to a target, to a report and a status
SPAN_S = 8.0  # plant time in the panels


@dataclass(frozen=True)
class Row:
    """Frames per second, share of one core, rows per second taken in, redrawings of axes are in the share."""

    launch: str
    frames_per_s: float
    skipped: int
    core_share: float
    states_per_s: float


class _Given(LiveRun):
    """A run that needs no registry."""

    def __init__(self, closed_loop: ClosedLoop, folder: Path) -> None:
        super().__init__("benchmark", span=SPAN_S)
        self.begin(closed_loop)
        self._folder, self.alive = folder, True

    def look(self, now: float) -> bool:  # noqa: ARG002
        if self._inbox is not None:
            return False
        self._inbox = self._connected(Found(self._folder, os.getuid(), {}, {}), publishers(TOPICS))
        return True


def speak(launch: str, folder: Path, seconds: float) -> None:
    """The nodes' side: messages of a simulated run, in real time."""
    closed_loop = resolve(read_launch(launch, ["run.duration=16", f"plant.step={STATE_S}"]))
    run = simulate_fused(closed_loop, 1)
    layout, names = closed_loop.machine.description.layout, list(run.input)
    states, inputs = np.array(list(run.state.values())).T, run.inputs.T
    residuals = {name: np.nan_to_num(values) for name, values in run.residual.items()}
    buses = {node: Bus(folder, node) for node in (PLANT, CONTROLLER, TARGET)}
    wanted = [publishers(TOPICS)]
    boxes = {node: Outbox(node, bus.publisher(subscriptions_expected(node, wanted))) for node, bus in buses.items()}
    while not all(box.ready() for box in boxes.values()):
        time.sleep(0.01)
    for box in boxes.values():
        box.run = boxes[PLANT].src
    goals = run.targets
    begin = time.monotonic()
    for k in range(min(len(run.t), round(seconds / STATE_S))):
        time.sleep(max(begin + k * STATE_S - time.monotonic(), 0.0))
        t = float(run.t[k])
        if k % CONTROL == 0:
            values = {derivative_name(name, 0): float(column[k]) for name, column in goals.items()}
            boxes[TARGET].send(Target, k, t, target=values)
        state = packed(layout, states[k].tolist())
        held = dict(zip(names, inputs[k].tolist(), strict=True))
        boxes[PLANT].send(State, k, t, state=state, input=held, control=k % CONTROL == 0)
        if k % RARE == 0:
            shown = {name: float(values[k]) for name, values in residuals.items()}
            boxes[CONTROLLER].send(Report, k, t, residual=shown, condition=1.0, saturated=False, compute_s=5e-5, re=-1)
            shown = {"round_trip": 3e-4, "lateness": 1e-4}
            boxes[PLANT].send(Status, k, t, lifecycle="active", counts={}, values=shown)
    for bus in buses.values():
        bus.close()


def measure(launch: str) -> Row:
    """The window's side, in this process."""
    closed_loop = resolve(read_launch(launch, ["run.duration=16", f"plant.step={STATE_S}"]))
    with tempfile.TemporaryDirectory(prefix="sn-") as folder:
        context = multiprocessing.get_context("spawn")
        speaker = context.Process(target=speak, args=(launch, Path(folder), SETTLE_S + MEASURE_S + 2.0))
        speaker.start()
        window = Window(headless_figure(), _Given(closed_loop, Path(folder)), Options(span=SPAN_S))
        marks: list[tuple[float, float, int, int, int]] = []
        frame = window.frame

        def watched() -> None:
            frame()
            feed: Any = window.feed
            if feed.t < 0:
                return
            now, used = time.monotonic(), sum(os.times()[:2])
            due = SETTLE_S if len(marks) == 1 else SETTLE_S + MEASURE_S
            if not marks or (len(marks) < 3 and now >= marks[0][0] + due):
                marks.append((now, used, window.frames, window.skipped, feed.taken))
            if len(marks) == 3:
                window.close()

        window.frame = watched  # type: ignore[method-assign]
        window.run()
        speaker.terminate()
        speaker.join()
    (t0, used0, frames0, skipped0, taken0), (t1, used1, frames1, skipped1, taken1) = marks[1:]
    passed = t1 - t0
    return Row(
        launch=launch,
        frames_per_s=(frames1 - frames0) / passed,
        skipped=skipped1 - skipped0,
        core_share=(used1 - used0) / passed,
        states_per_s=(taken1 - taken0) / passed,
    )


def table(rows: list[Row]) -> str:
    """A line for each launch file."""
    lines = [f"{'window':<22}{f'frames/s of {FPS}':>16}{'skipped':>9}{'of a core':>11}{'states/s':>10}"]
    lines += [
        f"{row.launch:<22}{row.frames_per_s:>16.1f}{row.skipped:>9}{row.core_share:>11.2f}{row.states_per_s:>10.0f}"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    arguments = options(__doc__).parse_args()
    rows = [measure(launch) for launch in LAUNCHES]
    print(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
