"""What is kept of the soak: a line for each test with the lateness of the computer; of failures also recordings.

SERVONODE_SOAK=FOLDER: where (`soak` in the working directory). `tools/soak.py` plays all, and makes the table of it.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.host import HostWatch
from tests.helpers.runs import SEED

FOLDER = Path(os.environ.get("SERVONODE_SOAK", "soak"))
KEPT = {".csv", ".spool", ".mcap", ".stderr", ".stdout", ".life1"}  # of what a test leaves in its folder
LARGEST = 50_000_000  # bytes of a file that is kept
BEGAN, WATCH = pytest.StashKey[int](), pytest.StashKey[HostWatch]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[WATCH] = HostWatch().__enter__()


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[WATCH].__exit__()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[BEGAN] = time.monotonic_ns()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Note the outcome of a test, or of a fixture that fails."""
    report: pytest.TestReport = yield  # type: ignore[assignment, misc]
    if report.when == "call" or not report.passed:
        late_s = item.config.stash[WATCH].worst(item.stash[BEGAN], time.monotonic_ns())
        told = {"test": item.nodeid, "outcome": report.outcome, "s": report.duration, "late_s": late_s, "seed": SEED}
        FOLDER.mkdir(parents=True, exist_ok=True)
        with (FOLDER / "results.jsonl").open("a") as results:
            results.write(json.dumps(told) + "\n")
        if report.failed:
            keep(item, f"{told}\n\n{report.longreprtext}\n")
    return report  # type: ignore[return-value]


def keep(item: pytest.Item, text: str) -> None:
    """Keep what a failed test says and what it has recorded."""
    folder = FOLDER / item.nodeid.removeprefix("tests/soak/").replace("/", "_").replace("::", ".")[:120]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "failure.txt").write_text(text)
    places = [each for each in getattr(item, "funcargs", {}).values() if isinstance(each, Path)]
    stage, runs = (getattr(item, "funcargs", {}).get(each) for each in ("stage", "runs"))
    places += [each.folder for each in (runs, getattr(stage, "runs", None)) if each is not None]
    for file in {file for place in places for file in place.rglob("*") if file.suffix in KEPT}:
        if file.is_file() and file.stat().st_size < LARGEST:
            shutil.copy(file, folder)
