"""Makes the CSV file from a spool that a run has left, because its processes died or the file could not be written."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servonode.bus.topology import PLANT
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import launch_of_table
from servonode.record.files import SUFFIX, lives_beside, runs_of
from servonode.record.spool import Pieces, SpoolError, read_spool

Array = npt.NDArray[np.float64]


def recovered(spool: Path, out: Path | None, raw: bool) -> list[str]:
    """Write the intact rows of a spool; returns lines about what was written and what is lost.

    raw: the rows as the nodes recorded them, a file for each node, which needs no machine.

    Raises:
        SpoolError: it is not a spool, is empty, or a file exists already; LaunchError, CacheError: the closed loop
        cannot be made again, for example if the machine's file has changed; OSError: a file cannot be written.
    """
    try:
        pieces = read_spool(spool)
    except OSError as error:
        raise SpoolError(f"{spool}: cannot be read ({error.strerror}); give the .spool file that a run left") from error
    if not pieces.lives:
        raise SpoolError(f"{spool}: the run had recorded nothing yet")
    wanted = out or Path(str(spool).removesuffix(SUFFIX))
    files = _raw(pieces, wanted) if raw else _whole(pieces, wanted)
    for file in files:
        if file.exists():
            raise SpoolError(f"{file} exists already; name another with --out, or remove it")
    lines = [f"{file} ({write(file)} rows)" for file, write in files.items()]
    return [*lines, *_lost(pieces)]


def _whole(pieces: Pieces, out: Path) -> dict[Path, Callable[[Path], int]]:
    """By file: the function that writes it as the run would have written it."""
    runs = runs_of(_closed_loop(pieces), pieces)

    def writer(number: int) -> Callable[[Path], int]:
        def write(file: Path) -> int:
            runs[number].write_csv(file)
            return len(runs[number].t)

        return write

    return {file: writer(i) for i, file in enumerate(lives_beside(out, len(runs)))}


def _closed_loop(pieces: Pieces) -> ClosedLoop:
    """The closed loop of the run, resolved again."""
    stored = pieces.about["launch"]
    return resolve(launch_of_table(stored["table"], path=Path(stored["path"]), file=stored["file"]), strict=False)


def _raw(pieces: Pieces, out: Path) -> dict[Path, Callable[[Path], int]]:
    """By file: the function that writes a node's rows, all lives of the plant in turn."""

    def writer(node: str, columns: list[str]) -> Callable[[Path], int]:
        def write(file: Path) -> int:
            rows = np.concatenate([pieces.rows(node, life, len(columns)) for life in pieces.lives])
            with file.open("x", encoding="utf-8") as stream:
                stream.write(",".join(columns) + "\n")
                for row in rows.tolist():
                    stream.write(",".join(map(repr, row)) + "\n")
            return len(rows)

        return write

    named = {node: out if node == PLANT else out.with_name(f"{out.stem}.{node}{out.suffix}") for node in pieces.columns}
    return {named[node]: writer(node, columns) for node, columns in pieces.columns.items()}


def _lost(pieces: Pieces) -> list[str]:
    """Lines on what is lost: rows that are missing between others, and damaged bytes."""
    lines = [f"{n} rows of the {node} are lost in between" for node, n in pieces.missing.items() if n]
    if pieces.damaged:
        lines.append(f"{pieces.damaged} bytes are damaged or cut off, and left out")
    return lines
