"""The rows of a recorded run, or the messages of one topic, as CSV, Parquet or NPZ."""

import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from servonode.record.bag import Bag
from servonode.record.files import replaced_file
from servonode.record.run import Run
from servonode.record.write import BagError

Columns = Mapping[str, Any]


def export_run(run: Run, file: Path) -> int:
    """Write the rows of a run, one column each, units in Parquet's field metadata; how many rows."""
    if file.suffix != ".csv":
        return export_columns(run.columns, file, run.units)
    run.save_csv(file)
    return len(run.t)


def export_columns(columns: Columns, file: Path, units: Mapping[str, str] = {}) -> int:
    """Write columns of one length; how many rows."""
    with replaced_file(file) as draft:
        FORMATS[file.suffix](columns, units, draft)
    return len(next(iter(columns.values())))


def export_topic(bag: Bag, topic: str, file: Path) -> int:
    """Write the messages of a topic, one column for each number in them; how many messages.

    Raises BagError where there is no such topic.
    """
    rows = [
        {"wall_ns": mono + bag.wall_less_mono} | dict(_flat(message)) for mono, _, message in bag.messages((topic,))
    ]
    if not rows:
        topics = sorted({each for _, each, _ in bag.messages()})
        raise BagError(f"{bag.file}: holds no topic {topic!r}; choose {', '.join(topics)}")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    return export_columns(columns, file)


def _flat(message: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """Each value with its name, `state.V`; elements of lists are `state.n[0]`."""
    for key, value in message.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, list):
            yield from ((f"{name}[{i}]", each) for i, each in enumerate(value))
        else:
            yield name, value


def _column(values: list[Any]) -> Any:
    """Whole numbers and flags stay what they are where all are there; else floats, NaN where one is missing; texts."""
    kinds = {type(value) for value in values}
    if kinds <= {bool} or kinds <= {int}:
        return np.array(values)
    if kinds <= {int, float, type(None)}:
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array(["" if value is None else str(value) for value in values])


def _csv(columns: Columns, units: Mapping[str, str], file: Path) -> None:  # noqa: ARG001
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def _npz(columns: Columns, units: Mapping[str, str], file: Path) -> None:
    with file.open("wb") as stream:
        named: dict[str, Any] = dict(columns) | {f"unit of {name}": np.array(unit) for name, unit in units.items()}
        np.savez_compressed(stream, **named)


def _parquet(columns: Columns, units: Mapping[str, str], file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [
        pa.field(name, pa.array(column).type, metadata={"unit": units[name]} if name in units else None)
        for name, column in columns.items()
    ]
    pq.write_table(pa.table([pa.array(column) for column in columns.values()], schema=pa.schema(fields)), file)


FORMATS: dict[str, Callable[[Columns, Mapping[str, str], Path], None]] = {
    ".csv": _csv,
    ".npz": _npz,
    ".parquet": _parquet,
}


def check_format(file: Path) -> None:
    """BagError where no export is written to a file of this name, or a library for it is missing."""
    if file.suffix not in FORMATS:
        raise BagError(f"{file}: is not a format of exports; name it {', '.join(f'FILE{each}' for each in FORMATS)}")
    if file.suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            remedy = "pip install pyarrow, or name a .csv or .npz file"
            raise BagError(f"{file}: Parquet needs pyarrow ({error}); {remedy}") from error
