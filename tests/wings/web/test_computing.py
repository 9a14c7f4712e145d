"""What a report computes of its run again, in WebAssembly, has the numbers of a simulation; what it cannot it says."""

from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.launch_file import packaged
from servonode.errors import ServonodeError
from servonode.record.run import Run
from servonode.simulation.simulate import can_fuse
from servonode.wings.web.computing import live_of
from tests.helpers.live_runs import apart, before_fault, computed, needs_node

ALIKE = 1e-9  # of a column's range
LARGEST = 20_000  # bytes of a module
FEW = ("trailer_pursuit", "snowboarder_slalom", "hoop_flies", "ball_skip")


def lives(names: Any) -> dict[str, tuple[Run, dict[str, Any]]]:
    """The run and what a browser computes it from, of the launch files that the fused loop takes."""
    found = {}
    for name in names:
        try:
            loop = servonode.load(name)
        except ServonodeError:
            continue
        if can_fuse(loop.closed_loop):
            run = loop.simulate()
            found[name] = run, live_of(run)
    return found


def check(found: dict[str, tuple[Run, dict[str, Any]]]) -> None:
    """The first run is alike; the largest differences are printed."""
    results = computed([(live, [{}]) for _, live in found.values()])
    for (name, (run, live)), result in zip(found.items(), results, strict=True):
        (again,) = result["runs"]
        end = before_fault(run)
        differences = apart(again["columns"], servonode_columns(run), end)
        worst = max(differences, key=lambda each: differences[each])
        print(f"{name}: {len(live['module']) * 3 // 4} bytes, {differences[worst]:.1e} of the range of {worst}")
        assert len(live["module"]) * 3 // 4 <= LARGEST, name
        assert result["first"]["ok"], (name, result["first"])
        assert np.array_equal(again["t"][:end], run.t[:end])
        assert max(differences.values()) <= ALIKE, (name, worst, differences[worst])
        faults = [(each["t"], f"{each['name']}: {each['text']}") for each in run.faults[:1]]
        assert [(each["t"], each["text"]) for each in again["marks"]] == faults


def servonode_columns(run: Run) -> Any:
    from servonode.views.panels import columns_of

    return columns_of(run)


@needs_node
def test_a_report_computes_its_run_again() -> None:
    check(lives(FEW))


@needs_node
@pytest.mark.slow
def test_reports_of_all_packaged_launch_files_compute_their_runs() -> None:
    check(lives(packaged()))
