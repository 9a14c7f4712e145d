"""Calls that wait, measure time or start processes, outside the rooms of tests that may: `python tools/lint_tests.py`.

A test elsewhere has one process and a number as its clock, so that no busy computer can make it fail. What it imports
of the helpers counts as its own. ALLOWED: by file, what may stand there and why.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
FREE = ("processes", "soak", "helpers")  # a helper is judged by who imports it
CLOCKS = {"sleep", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "time_ns"}
STARTERS = {"Popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "Process", "ProcessPoolExecutor"}
AWAITED = {"run", "check_output", "check_call"}  # of subprocess
MODULES = {"subprocess", "multiprocessing", "tests.helpers.runs", "tests.helpers.computers", "tests.helpers.host"}
ALLOWED: dict[str, tuple[set[str], str]] = {}


def found_in(file: Path) -> Iterator[tuple[int, str]]:
    """Line and name of each such call or import of a file."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in CLOCKS | STARTERS:
                yield node.lineno, name
            elif (
                name in AWAITED
                and isinstance(node.func, ast.Attribute)
                and ast.unparse(node.func.value) == "subprocess"
            ):
                yield node.lineno, f"subprocess.{name}"
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield node.lineno, f"from {node.module}"


def main() -> int:
    """Print what is found; 1 if there is any, or if a file has none of what it may have."""
    faults, used = list[str](), set[str]()
    for file in sorted(TESTS.rglob("*.py")):
        path = file.relative_to(TESTS)
        if path.parts[0] in FREE:
            continue
        allowed = ALLOWED.get(path.as_posix(), (set(), ""))[0]
        for line, name in found_in(file):
            if name in allowed:
                used.add(path.as_posix())
            else:
                faults.append(f"tests/{path}:{line}: {name}: move the test to tests/processes, or give it a clock")
    faults += [f"tools/lint_tests.py: ALLOWED: {each} has nothing of that any more" for each in ALLOWED.keys() - used]
    sys.stdout.write("".join(f"{each}\n" for each in faults))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
