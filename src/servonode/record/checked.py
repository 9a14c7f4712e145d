"""Checks of the contents of a recording before they are used: the file may be damaged, or from someone else."""

import io
import re
from typing import Any

import msgspec
import numpy as np

from servonode.record.events import EVENTS
from servonode.record.run_rows import RunRows
from servonode.record.spool import ROWS

_NUMBERS = ("wall_ns", "mono_ns", "every")  # of the metadata
_decode = msgspec.json.Decoder().decode


class _Launch(msgspec.Struct):
    table: dict[str, Any]
    path: str
    file: str | None


class _Header(msgspec.Struct):
    """What every message of a node has."""

    t: float
    seq: int
    run: int
    k: int
    mono: int
    node: str
    src: int


class _Event(msgspec.Struct):
    t: float
    node: str
    event: str
    text: str


class _Fault(msgspec.Struct):
    name: str
    text: str


_ENDING: dict[str, Any] = {
    "ended": str,
    "faults": list[_Fault],
    "stats": dict[str, Any],
    "wall_s": float,
}
_MERGED: dict[str, Any] = {"nodes": list[str], "offset_s": float, "bound_s": float}


def launch_of(data: bytes) -> dict[str, Any]:
    """The launch file's table, path and name. Raises ValueError where it is not one."""
    launch: dict[str, Any] = _plain(data)
    msgspec.convert(launch, _Launch)
    return launch


def check_about(about: dict[str, str]) -> None:
    """ValueError unless the metadata names the run and its clocks."""
    if "run" not in about:
        raise ValueError("its run has no name")
    for name in _NUMBERS:
        if not re.fullmatch("[0-9]{1,19}", about.get(name, "")):
            raise ValueError(f"{name} = {about.get(name)!r} is not a number")
    msgspec.convert(_plain(about.get("kernels", "{}").encode()), dict[str, Any])
    msgspec.convert(_plain(about.get("files", "{}").encode()), dict[str, str])


def ending_of(ending: dict[str, str]) -> dict[str, str]:
    """How the run ended, if that can be read. Raises ValueError where it cannot."""
    for name, kind in _ENDING.items():
        if name in ending:
            msgspec.convert(_plain(ending[name].encode()), kind)
    return ending


def merged_of(merged: dict[str, str]) -> dict[str, str]:
    """What is known of the other computer of a merged recording. Raises ValueError where it cannot be read."""
    if merged:
        for name, kind in _MERGED.items():
            msgspec.convert(_plain(merged.get(name, "").encode()), kind)
    return merged


def message_of(topic: str, data: bytes) -> dict[str, Any]:
    """A message as a map with all that every message has. Raises ValueError where it is not one."""
    message: dict[str, Any] = _plain(data)
    msgspec.convert(message, _Event if topic == EVENTS else _Header)
    return message


def rows_of(data: bytes) -> RunRows:
    """The rows of an attachment. Raises ValueError where they cannot be read."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return _rows({name: arrays[name] for name in arrays})
    except Exception as error:  # zipfile, zlib and numpy have errors of many kinds
        raise ValueError(" ".join(f"{error or type(error).__name__}".split())) from error


def _rows(arrays: dict[str, Any]) -> RunRows:
    found = RunRows({node: arrays[f"{node}_columns"].tolist() for node in ROWS if f"{node}_columns" in arrays})
    for life, name in sorted((int(name.rpartition("_life")[2]), name) for name in arrays if "_life" in name):
        node, rows = name.rpartition("_life")[0], arrays[name]
        columns = found.columns.get(node, ())
        if not columns or rows.dtype != np.float64 or rows.shape[1:] != (len(columns),):
            raise ValueError(f"{name} has not the shape of rows")
        if len(rows):
            found.add(node, life, rows)
    return found


def _plain(data: bytes) -> Any:
    """What a JSON text says. Raises ValueError where it is not one."""
    try:
        return _decode(data)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
