"""docs/reference/outputs.md names every key of a run's own `--json`, and of its status while it goes on."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from servonode.nodes.recording import SHOWN
from tests.docs.test_outputs import documented, unknown, unused
from tests.helpers.runs import operator, private_runs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
QUIET = ("plant.safety.command_timeout=10", "plant.safety.lateness_limit=10")  # a busy host is not tested
RARE = {  # keys that no run here has: what the code says of each
    "readonly", "extra", "link_latency_s", "watched", "restarts", "lost_rows", "pauses", "paused_s",
    "speed_changes", "changed_numbers",
}  # fmt: skip


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What a run in real time prints that is told to stop, and its status before."""
    with private_runs(tmp_path_factory.mktemp("outputs")) as runs:
        run = runs.start("trailer_pursuit", "run.duration=600", *QUIET)
        run.wait_open()
        status = json.loads(operator("status", run.name, "--json", patient=True).stdout)
        run.ask("stop")
        run.ends_with(1)
        yield run.printed, status


def test_every_key_of_run_and_status_is_in_the_tables_and_every_entry_is_used(
    processes: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    run, status = processes
    assert (run["ended"], run["stopped_by"], run["exit"], run["faults"]) == ("stopped early", "a request", 1, [])
    both = {entry.split(".")[0] for entry in documented("`simulate --json`")}
    own = {key: value for key, value in run.items() if key not in both}
    shared = {key: value for key, value in run.items() if key in both}
    assert unknown("`simulate --json`", shared) == set()
    assert unknown("`run --json`", own) == set()
    left = {entry.split(".")[0] for entry in unused("`run --json`", own)}
    assert left <= RARE
    assert {*SHOWN, "extra"} - {"counts"} == {entry.split(".")[0] for entry in documented("`run --json`")} - {
        "nodes", "node_counts", "restarts", "lost_rows", "changed_numbers",
    }  # fmt: skip
    assert unknown("`status --json`", status) == set()
    assert {entry.rpartition(".")[2] for entry in unused("`status --json`", status)} == {
        "error", "readonly", "would_send", "would_send_reasons",
    }  # fmt: skip
