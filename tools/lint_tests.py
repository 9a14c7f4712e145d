"""Calls that wait, measure time or start processes, outside the rooms of tests that may: `python tools/lint_tests.py`.

A test elsewhere has one process and a number as its clock, so that no busy computer can make it fail. A deadline that
stands in the call of what waits is none of these, nor a compiler or another program whose end is awaited for at least
a minute.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
FREE = ("processes", "soak", "helpers", "conftest.py")  # a helper is judged by who imports it
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"}
WAITS = {"sleep", "Popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "ProcessPoolExecutor"}
AWAITED = {"run", "check_output", "check_call"}  # of subprocess
SHORTEST_S = 60.0  # for which a program may be awaited
RUNS = {"Process", "Runs", "Watch", "eventually", "operator", "final_of_run", "stopped_early", "Puppet"}
ROOMS = {"tests.helpers.computers", "tests.helpers.host", "multiprocessing"}


def called(node: ast.Call) -> str:
    """The last part of the name of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def found_in(file: Path) -> Iterator[tuple[int, str]]:
    """Line and name of each such call or import of a file."""
    tree = ast.parse(file.read_text("utf-8"))
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    deadlines = {id(inner) for call in calls for given in (*call.args, *(each.value for each in call.keywords))
                 for inner in ast.walk(given)}  # fmt: skip
    for node in calls:
        name = called(node)
        if name in WAITS or (name in CLOCKS and id(node) not in deadlines):
            yield node.lineno, name
        elif name in AWAITED and ast.unparse(node.func).startswith("subprocess."):
            limits = [each.value for each in node.keywords if each.arg == "timeout"]
            if any(isinstance(each, ast.Constant) and each.value < SHORTEST_S for each in limits):
                yield node.lineno, f"{name}, which ends a program that a busy computer has not served"
    for each in (each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)):
        if each.module in ROOMS or (each.module == "tests.helpers.runs" and RUNS & {name.name for name in each.names}):
            yield each.lineno, f"from {each.module}"


def main() -> int:
    """Print what is found; 1 if there is any."""
    faults = [
        f"{file.relative_to(ROOT)}:{line}: {name}: give it a clock, or move it to tests/processes\n"
        for file in sorted(TESTS.rglob("*.py"))
        if file.relative_to(TESTS).parts[0] not in FREE
        for line, name in found_in(file)
    ]
    sys.stdout.write("".join(faults))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
