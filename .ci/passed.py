"""A plugin of pytest: tests that passed in the core alone are not played again with the wings.

    python -m pytest -p passed

The file that the variable PASSED names holds the ids of tests, one a line. Where it is not there, it is written.
"""

import os
from pathlib import Path

import pytest

FILE = Path(os.environ["PASSED"])
BEFORE = frozenset(FILE.read_text("utf-8").splitlines()) if FILE.is_file() else None
passed: list[str] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has passed before."""
    if BEFORE is None:
        return
    again = [item for item in items if item.nodeid not in BEFORE]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in BEFORE])
    items[:] = again


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what has passed; the workers of xdist report to the process that started them."""
    if report.when == "call" and report.passed:
        passed.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what has passed, but not in a worker."""
    if BEFORE is None and not hasattr(session.config, "workerinput"):
        FILE.write_text("".join(f"{each}\n" for each in passed), "utf-8")
