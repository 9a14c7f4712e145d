"""Runs of reports, computed by the script of reports: in node, all of them in one process."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode.wings.web
from servonode.arrays import Array
from servonode.record.run import Run
from servonode.wings.web.computing import spans_of
from servonode.wings.web.embedded import json_text
from tests.helpers.html_files import decoded

SCRIPT = Path(servonode.wings.web.__file__).with_name("assets") / "live.js"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(not NODE, reason="needs Node.js: apt install nodejs")


def computed(lives: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, float]]]]) -> list[dict[str, Any]]:
    """What LiveRun gives for each live object, with each of its values: `first`, and `runs` with t and columns."""
    assert NODE is not None
    given = [{"live": live, "several": list(several)} for live, several in lives]
    command = [NODE, str(Path(__file__).with_name("live_runs.js")), str(SCRIPT)]
    done = subprocess.run(command, input=json_text(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    for run in (run for each in found for run in each["runs"]):
        run["t"] = decoded(run["t"], "f8")
        run["columns"] = {name: decoded(text, "f8") for name, text in run["columns"].items()}
    return found


def apart(columns: Mapping[str, Array], known: Mapping[str, Array], end: int) -> dict[str, float]:
    """The largest difference of each column up to a row, by its range; none of columns that are rounding alone."""
    found, spans = {}, spans_of({name: known[name][:end] for name in columns})
    for name, values in columns.items():
        a, b = values[:end], known[name][:end]
        finite = np.isfinite(b)
        assert np.array_equal(np.isfinite(a), finite), name
        if spans[name]:
            found[name] = float(np.max(np.abs(a[finite] - b[finite]))) / spans[name]
    return found


def before_fault(run: Run) -> int:
    """The rows of a run before its fault, if it has one."""
    return len(run.t) if run.fault is None else int(np.searchsorted(run.t, run.fault["t"], side="left"))
