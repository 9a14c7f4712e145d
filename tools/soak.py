"""Play the tests that are marked `soak`, as all of tests/soak are, file by file: `python tools/soak.py [FILE ...]`.

The folder SERVONODE_SOAK (`soak`) keeps results.jsonl, and of each failure text, seed, recordings, and the lateness of
the computer. SERVONODE_SEED=N plays the same random numbers again. Without files all are played, and the table goes to
docs/explanation/soak.md; with files it is printed.
"""

import json
import os
import platform
import subprocess
import sys
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "soak.md"
PYTEST = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "soak", "-p", "no:cacheprovider"]
HEAD = """---
orphan: true
---

# The soak

`make soak` plays what needs a quiet computer: latencies, kills at random moments, floods, real wires, two computers.
The table is of {date}, revision {revision}, on {cores} cores ({machine}, Linux {kernel}). *Lateness* is the longest
time for which the computer kept a ready process waiting during tests of a group. No test is played twice.

| group | tests | passed | failed | skipped | minutes | worst lateness [ms] |
|---|---|---|---|---|---|---|
"""


def everything() -> list[str]:
    """The files of the soak, and those of other rooms with tests that are marked so."""
    files = sorted(each.relative_to(ROOT) for each in (ROOT / "tests").rglob("test_*.py"))
    soaked = [each for each in files if each.parent.name == "soak" or "mark.soak" in (ROOT / each).read_text()]
    return [str(each) for each in soaked]


def table(lines: list[dict[str, Any]]) -> str:
    """A row for each file of tests, and one for all."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[Path(line["test"].partition("::")[0]).stem.removeprefix("test_").replace("_", " ")].append(line)
    rows = [row(name, groups[name]) for name in sorted(groups)]
    return "".join([*rows, row("**all**", lines)]) if lines else ""


def row(name: str, lines: list[dict[str, Any]]) -> str:
    """One row of the table."""
    counts = [sum(line["outcome"] == each for line in lines) for each in ("passed", "failed", "skipped")]
    minutes, late_ms = sum(line["s"] for line in lines) / 60, 1e3 * max(line["late_s"] for line in lines)
    return f"| {name} | {len(lines)} | {' | '.join(map(str, counts))} | {minutes:.1f} | {late_ms:.0f} |\n"


def page(lines: list[dict[str, Any]]) -> str:
    """The whole page, with the failures by name."""
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    head = HEAD.format(
        date=f"{datetime.now():%Y-%m-%d}", revision=revision.stdout.strip() or "unknown", cores=os.cpu_count(),
        machine=platform.machine(), kernel=platform.release().partition("-")[0],
    )  # fmt: skip
    failed = "".join(f"- `{line['test']}`, lateness {1e3 * line['late_s']:.0f} ms\n" for line in lines
                     if line["outcome"] == "failed")  # fmt: skip
    return head + table(lines) + (f"\nFailed:\n\n{failed}" if failed else "")


def main(files: list[str]) -> int:
    """Play these files, or all; 1 if a test has failed or a file has not come to its end."""
    folder = Path(os.environ.setdefault("SERVONODE_SOAK", str(Path("soak").absolute())))
    results, broken = folder / "results.jsonl", list[str]()
    results.unlink(missing_ok=True)
    for file in files or everything():
        if subprocess.run([*PYTEST, file], cwd=ROOT, check=False).returncode not in (0, 1, 5):
            broken.append(file)
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if files:
        sys.stdout.write(table(lines))
    else:
        PAGE.write_text(page(lines))
    for file in broken:
        sys.stderr.write(f"{file}: pytest has not come to its end\n")
    return int(bool(broken) or any(line["outcome"] == "failed" for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
