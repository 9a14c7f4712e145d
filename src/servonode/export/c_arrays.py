"""Constant arrays in C."""

import textwrap
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from servonode.kernels.c99 import WIDTH, c_number

Array = npt.NDArray[np.float64]
NO_ARRAY = "0"  # the null pointer, for an array without elements


def argument(name: str, values: Array) -> str:
    return name if values.size else NO_ARRAY


def array(name: str, words: str, tables: Mapping[str, Array]) -> list[str]:
    """A constant array of all the tables, each under its heading; nothing where there are no entries."""
    size = sum(table.size for table in tables.values())
    lines = []
    for heading, table in tables.items():
        lines += [f"    /* {heading} */"] if heading else []
        rows = [table] if table.ndim == 1 else table
        for row in rows:
            numbers = ", ".join(map(c_number, row.tolist()))
            lines += textwrap.wrap(f"{numbers},", WIDTH - 4, initial_indent="    ", subsequent_indent="    ")
    return (
        [
            f"/* {words[0].upper()}{words[1:]}. */\n"
            + "\n".join([f"static const double {name}[{size}] = {{", *lines, "};"])
        ]
        if size
        else []
    )
