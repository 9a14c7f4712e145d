"""The process that reads the recordings of a folder for the page's server: what each is, and the report of one.

It reads files that may be anybody's, so it is a process of its own that may use little: bounded memory, bounded time,
and runs only when the processor is otherwise idle. It runs no Python code that a recording names.
"""

import contextlib
import json
import os
import resource
import shlex
import stat
import sys
import warnings
from pathlib import Path
from typing import Any

from servonode.errors import ServonodeError
from servonode.nodes.node_process import call_process
from servonode.operator.listener import give_way

LARGEST = 500_000_000  # bytes of a recording of which a report is made
MEMORY = 3 * 2**30  # bytes of addresses
WRITTEN = 256 * 2**20  # bytes of a report
TIME_S = 120  # for a report
SAID = 300  # letters of a text from a recording


class NotShown(ServonodeError):
    """A recording that a page does not show; the text says why, and how to see it."""


def described(name: str) -> dict[str, Any]:
    """What the list of recordings says of a file: see `bags.summary`; {"problem"}: why it cannot be shown."""
    from servonode.record.summary import summary

    try:
        found = summary(Path(name))
        _check(name, found["machine"], found["program"])
    except Exception as error:  # noqa: BLE001  (it may be anybody's)
        problem = {"problem": _reason(name, error)}
        return problem if not isinstance(error, NotShown) else {**_bounded(found), **problem}
    return _bounded(found)


def report(name: str, descriptor: int) -> dict[str, Any]:
    """Write the HTML report of a recording into a file that is open: {"policy"}, what it may do, or {"problem"}."""
    try:
        return {"policy": _report(name, descriptor)}
    except Exception as error:  # noqa: BLE001  (it may be anybody's)
        return {"problem": _reason(name, error)}


def _report(name: str, descriptor: int) -> str:
    from servonode.record.bag import read_bag
    from servonode.simulation.rows_of_messages import runs_in
    from servonode.web.embedded import policy
    from servonode.web.html_report import html_report

    if not stat.S_ISREG(os.lstat(name).st_mode):
        raise NotShown("it is a link or no file, which a page does not follow")
    bag = read_bag(Path(name))
    table = bag.launch["table"]
    _check(name, table["plant"]["machine"], table.get("controller", {}).get("program", ""))
    run = runs_in(bag, bag.closed_loop(code=False))[-1]
    with open(descriptor, "w", encoding="utf-8") as out:
        out.write(html_report(run, bag.about["run"]))
    return policy()


def _check(name: str, machine: str, program: str) -> None:
    """NotShown where a report would run code that the recording names, or take too long."""
    from servonode.closed_loop.trust import named_code

    file = shlex.quote(name if not name.startswith("-") else f"./{name}")
    see = f"see it with: servonode bag report {file} --report {shlex.quote(f'{Path(name).stem}.html')}"
    code = named_code(machine, program)
    if code:
        raise NotShown(f"it names Python code ({code[:SAID]}), which a page does not run; {see}")
    size = Path(name).lstat().st_size
    if size > LARGEST:
        raise NotShown(f"it has {size / 1e6:.0f} MB, a page draws up to {LARGEST / 1e6:.0f} MB; {see}")


def _reason(name: str, error: Exception) -> str:
    """One line on what is wrong with a recording."""
    if isinstance(error, ServonodeError):
        text = " ".join(str(error).removeprefix(f"{name}: ").split())
    elif isinstance(error, MemoryError):
        text = f"it needs more memory than a page's report may take, {MEMORY // 2**30} GB"
    elif isinstance(error, OSError) and error.strerror:
        text = f"it cannot be read ({error.strerror})"
    else:
        what = " ".join(str(error).split())[:SAID]
        text = f"it is damaged or none of this version ({type(error).__name__}: {what})"
    return text[: 2 * SAID]


def _bounded(found: dict[str, Any]) -> dict[str, Any]:
    """The same, with texts that a list has room for."""
    texts = {name: value[:SAID] for name, value in found.items() if isinstance(value, str)}
    return {**found, **texts, "faults": [each[:SAID] for each in found["faults"][:9]]}


def _limit() -> None:
    """What this process may take at most; where memory is short it is the first to go."""
    limits = (resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, WRITTEN), (resource.RLIMIT_CPU, TIME_S)
    for what, most in (*limits, (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(what)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def main(word: str, *given: str) -> int:
    """Answer in lines of JSON: "list" on each name of the list at standard input, "report" on the name given."""
    give_way()
    _limit()
    call_process("page recordings", word)
    warnings.simplefilter("ignore")
    names = json.load(sys.stdin) if word == "list" else [given[0]]
    for name in names:
        print(json.dumps(described(name) if word == "list" else report(name, int(given[1]))), flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
