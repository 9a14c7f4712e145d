"""Recovery of what a run has left: its CSV file from a spool, its bag from a spool or a damaged MCAP file."""

import json
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from servonode.bus.topology import PLANT
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import launch_of_table
from servonode.record.bag import Bag
from servonode.record.files import new_file, recovered_file, write_csv
from servonode.record.mcap_records import Records, new_writer, sealed
from servonode.record.run_rows import RunRows, life_files
from servonode.record.spool import SpooledRun, SpoolError, read_spool
from servonode.record.write import ENDING, BagError, write_bag

Table = tuple[int, Callable[[Path], object]]  # number of rows, and what writes them as a file


def recover_rows(spool: Path, out: Path | None, raw: bool, code: bool | None = None) -> list[str]:
    """Write the intact rows of a spool as CSV; returns lines about what was written and what is lost.

    raw: the rows as the nodes recorded them, a file for each node, which needs no machine. code: see `Bag.closed_loop`.

    Raises:
        SpoolError: it is not a spool, is empty, or a file exists already; LaunchError, CacheError: the closed loop
        cannot be made again, for example if the machine's file has changed; OSError: a file cannot be written.
    """
    try:
        run = read_spool(spool)
    except OSError as error:
        raise SpoolError(f"{spool}: cannot be read ({error.strerror}); give the .spool file that a run left") from error
    if not run.rows.lives:
        raise SpoolError(f"{spool}: the run had recorded nothing yet")
    wanted = out or recovered_file(spool, ".csv")
    tables = _raw_tables(run.rows, wanted) if raw else _run_tables(run, wanted, code)
    for file in tables:
        if file.exists():
            raise SpoolError(_exists(file))
    for file, (_, write) in tables.items():
        write(file)
    return [*(f"{file} ({rows} rows)" for file, (rows, _) in tables.items()), *run.lost()]


def recover_bag(bag: Bag, out: Path | None) -> list[str]:
    """Write all that is intact as a whole bag; the file is not touched. What was written and what is lost, as lines.

    Raises:
        BagError: nothing is wrong with it, or a file is in the way, or cannot be written.
    """
    deque(bag.messages() if bag.spool is None else (), maxlen=0)  # damage is known once all has been read
    if bag.spool is None and not bag.damage:
        raise BagError(f"{bag.file}: is whole; there is nothing to recover")
    file = out or (
        recovered_file(bag.file, ".mcap") if bag.spool else bag.file.with_name(f"{bag.file.stem}.recovered.mcap")
    )
    if file.exists():
        raise BagError(_exists(file))
    try:
        written = write_bag(bag.spool, file, {"ended": "killed"}) if bag.spool else _copy_whole(bag, file)
    except OSError as error:
        raise BagError(f"{file}: cannot be written ({error.strerror}); name another with --output") from error
    return [f"{file} ({written} messages)", *(f"lost: {text}" for text in bag.damage)]


def _exists(file: Path) -> str:
    return f"{file} exists already; name another with --output, or remove it"


def _run_tables(run: SpooledRun, out: Path, code: bool | None) -> dict[Path, Table]:
    """By file: a run of the plant, as it would have written it itself."""
    stored = run.about["launch"]
    launch = launch_of_table(stored["table"], path=Path(stored["path"]), file=stored["file"])
    recorded = run.about.get("made_by", {}).get("files", {})
    runs = run.rows.runs(resolve(launch, strict=False, code=recorded if code is None else code))
    tables = [(len(each.t), each.save_csv) for each in runs]
    return dict(zip(life_files(out, len(runs)), tables, strict=True))


def _raw_tables(rows: RunRows, out: Path) -> dict[Path, Table]:
    """By file: the rows of a node, all lives of the plant in turn."""
    found: dict[Path, Table] = {}
    for node, columns in rows.columns.items():
        table = np.concatenate([rows.table(node, life, len(columns)) for life in rows.lives])
        file = out if node == PLANT else out.with_name(f"{out.stem}.{node}{out.suffix}")
        found[file] = len(table), partial(write_csv, names=columns, columns=table.T, mode="x")
    return found


def _copy_whole(bag: Bag, file: Path) -> int:
    """Copy what is whole: schemas, channels, messages, attachments, metadata; how many messages."""
    with new_file(file) as stream:
        writer = new_writer(stream, Records(bag.file).library or "servonode")
        n = Records(bag.file).copy_into(writer)
        if not bag.ending:
            writer.add_metadata(ENDING, sealed(ENDING, {"ended": json.dumps("killed")}))
        writer.finish()
    return n
