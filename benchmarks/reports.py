"""What reports compute: the size of their modules, how fast browsers run them, and how far they are from native runs.

    python benchmarks/reports.py             the table: V8 in node, and Firefox where it is installed
    python benchmarks/reports.py sphero      those whose name contains a word
    python benchmarks/reports.py --json      the same numbers for machines

Each time is that of the loop alone, of the fastest of RUNS runs; differences are shares of each column's range.
"""

import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from common import options

import servonode
from servonode.closed_loop.launch_file import packaged
from servonode.errors import ServonodeError
from servonode.record.run import Run
from servonode.simulation.fused_loop import fused_loop
from servonode.simulation.simulate import can_fuse
from servonode.wings.web.html_report import html_report

sys.path.append(str(Path(__file__).parents[1]))  # for the browsers, which the tests have

from tests.helpers.firefox import FIREFOX, firefox
from tests.helpers.html_files import HtmlFile
from tests.helpers.live_runs import NODE, computed

RUNS = 5
SECONDS = """LiveRun.open(report.data.live).then(async (run) => {{
  let [found, least] = [null, Infinity];
  for (let i = 0; i < {runs}; i += 1) {{ found = await run.first(); least = Math.min(least, found.loop); }}
  return {{ largest: found.largest, loop: least }};
}})"""


@dataclass
class Row:
    """Bytes of the module, seconds of writing the report with the trials of its keys, the loop [ms], difference."""

    launch: str
    module: int
    report_s: float
    native_ms: float
    v8_ms: float = float("nan")
    firefox_ms: float = float("nan")
    largest: float = float("nan")


def native_ms(run: Run) -> float:
    """The loop of a run, compiled for this processor."""
    loop, every = run.closed_loop, int(run.k[1] - run.k[0])
    answers = (
        np.zeros((len(run.k) * every + 2, loop.control.law.record_layout.size)) if loop.control else np.zeros((1, 1))
    )
    rows = np.zeros((len(run.k) + 1, len(loop.start) + loop.machine.n_inputs + 1))
    times = []
    for _ in range(RUNS):
        begin = perf_counter()
        fused_loop(loop, every, rows, answers)
        times.append(perf_counter() - begin)
    return 1e3 * min(times)


def main() -> None:
    """Print the table."""
    parser = options(__doc__)
    parser.add_argument("words", nargs="*", help="parts of names of launch files")
    args = parser.parse_args()
    rows, reports, lives = list[Row](), dict[str, str](), list[Any]()
    for name in packaged():
        if args.words and not any(word in name for word in args.words):
            continue
        try:
            loop = servonode.load(name)
        except ServonodeError:
            continue
        if not can_fuse(loop.closed_loop):
            continue
        run, begin = loop.simulate(), perf_counter()
        reports[name] = html_report(run, name)
        took, live = perf_counter() - begin, HtmlFile(reports[name]).data["live"]
        rows.append(Row(name, len(live["module"]) * 3 // 4, took, native_ms(run)))
        lives.append((live, [{}] * RUNS))
    if NODE:
        for row, live in zip(rows, lives, strict=True):
            (found,) = computed([live])  # one at a time: all columns of all runs are too long for a text
            row.v8_ms = 1e3 * min(each["loop"] for each in found["runs"])
            row.largest = found["first"]["largest"]
    if FIREFOX:
        with firefox() as page, tempfile.TemporaryDirectory() as folder:
            for row in rows:
                file = Path(folder) / f"{row.launch}.html"
                file.write_text(reports[row.launch], encoding="utf-8")
                page.open(file.as_uri())
                row.firefox_ms = 1e3 * page.evaluate(SECONDS.format(runs=RUNS))["loop"]
    if args.json:
        print(json.dumps([asdict(each) for each in rows]))
        return
    heads = ((28, ""), (9, "module B"), (9, "report s"), (10, "native ms"), (8, "V8 ms"), (11, "Firefox ms"))
    print("".join(f"{head:>{width}}" for width, head in (*heads, (11, "native/V8"), (12, "difference"))))
    for row in rows:
        print(
            f"{row.launch:28}{row.module:9}{row.report_s:9.2f}{row.native_ms:10.2f}{row.v8_ms:8.2f}"
            f"{row.firefox_ms:11.2f}{row.native_ms / row.v8_ms:11.2f}{row.largest:12.1e}"
        )


if __name__ == "__main__":
    main()
