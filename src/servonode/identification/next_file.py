"""The launch file of the next experiment."""

import os
from pathlib import Path
from typing import Any

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_text import table_text
from servonode.identification.excitation import NextExperiment
from servonode.identification.experiment import IdentificationError

HEAD = "# Watch for: an experiment for servonode identify; {what}.\n"
WHAT = {"inputs": "the inputs are sums of sines", "goals": "sums of sines are added to the goals"}


def write_next(proposed: NextExperiment, closed_loop: ClosedLoop, file: Path) -> None:
    """Write the launch file.

    Raises:
        IdentificationError: the file is there; OSError: it cannot be written.
    """
    if file.exists():
        raise IdentificationError(f"{file}: the file exists already; name another file, or remove it")
    table = dict(proposed.table)
    folder = closed_loop.launch.path.parent
    for section, key in (("plant", "machine"), ("controller", "program")):
        table[section] = _moved(table.get(section, {}), key, folder, file.parent)
    table = {name: each for name, each in table.items() if each}
    file.write_text(HEAD.format(what=WHAT[proposed.kind]) + table_text(table), "utf-8")


def _moved(section: dict[str, Any], key: str, folder: Path, to: Path) -> dict[str, Any]:
    """The section with a reference to a Python file as seen from another folder."""
    stated = section.get(key, "")
    path, colon, name = stated.partition(":")
    if not path.endswith(".py") or Path(path).is_absolute():
        return section
    seen = os.path.relpath((folder / path).resolve(), to.resolve())
    return section | {key: f"{seen if seen.startswith('.') else f'./{seen}'}{colon}{name}"}
