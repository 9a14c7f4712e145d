"""Checks of the contents of a recording before they are used: the file may be damaged, or from someone else."""

import io
import re
from typing import Any

import numpy as np

from servonode.bus.run_folder import is_run_name
from servonode.record.events import EVENTS
from servonode.record.run_rows import RunRows
from servonode.record.spool import ROWS
from servonode.record.typed import FAULT, LAUNCH, STATS, kind_of, message_type, plain

_NUMBERS = ("wall_ns", "mono_ns", "every")  # of the metadata


_EVENT = kind_of({"t": float, "node": str, "event": str, "text": str})
_ENDING: dict[str, Any] = {
    "ended": str,
    "faults": list[FAULT],
    "stats": STATS,
    "incomplete": str,
    "wall_s": float,
}
_MERGED: dict[str, Any] = {"nodes": list[str], "offset_s": float, "bound_s": float}


def launch_of(data: bytes) -> dict[str, Any]:
    """The launch file's table, path and name. Raises ValueError where it is not one."""
    launch: dict[str, Any] = plain(data, LAUNCH)
    return launch


def check_about(about: dict[str, str]) -> None:
    """ValueError unless the metadata names the run and its clocks."""
    if not is_run_name(about.get("run", "")):
        raise ValueError("its run has no name, or one that is not usable")
    if "mode" not in about:
        raise ValueError("its run has no mode")
    for name in _NUMBERS:
        if not re.fullmatch("[0-9]{1,19}", about.get(name, "")):
            raise ValueError(f"{name} = {about.get(name)!r} is not a number")
    plain(about.get("kernels", "{}").encode(), dict[str, Any])
    plain(about.get("files", "{}").encode(), dict[str, str])


def ending_of(ending: dict[str, str]) -> dict[str, str]:
    """How the run ended, if that can be read. Raises ValueError where it cannot."""
    for name, kind in _ENDING.items():
        if name in ending:
            plain(ending[name].encode(), kind)
    return ending


def merged_of(merged: dict[str, str]) -> dict[str, str]:
    """What is known of the other computer of a merged recording. Raises ValueError where it cannot be read."""
    if merged:
        for name, kind in _MERGED.items():
            plain(merged.get(name, "").encode(), kind)
    return merged


def message_of(topic: str, data: bytes) -> dict[str, Any]:
    """A message as a map with all that every message has. Raises ValueError where it is not one."""
    message: dict[str, Any] = plain(data, _EVENT if topic == EVENTS else message_type(topic))
    return message


def rows_of(data: bytes, most: int) -> RunRows:
    """The rows of an attachment. Raises ValueError where they cannot be read, or would take more than `most` bytes."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            if (size := sum(each.file_size for each in arrays.zip.infolist())) > most:
                raise ValueError(f"they would expand to {size} bytes, those of a file of its size to {most} at most")
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
