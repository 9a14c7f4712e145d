"""The points of a goal from a CSV file: a line of names, `t` among them, then a row for each time."""

import csv
import math
from pathlib import Path

from servonode.errors import StatementError, did_you_mean

MOST_POINTS = 10_000
LONGEST_LINE = 100_000  # characters


class SamplesError(StatementError):
    """A file of samples cannot be read, or has not what is asked for; the text says why and where."""


def read_samples(file: Path, column: str) -> list[list[float]]:
    """The pairs of time [s] and value of one column.

    Raises:
        SamplesError: it cannot be read, lacks a column, or holds what is not a finite number; its `key` says what is
            wrong of the launch file.
    """
    try:
        if not file.is_file():
            raise SamplesError(f"{file} does not exist; give the path of a CSV file, relative to the launch file")
        with file.open(encoding="utf-8", newline="") as stream:
            return _points(file, csv.reader(iter(lambda: stream.readline(LONGEST_LINE), "")), column)
    except OSError as error:
        raise SamplesError(f"{file} cannot be read ({error.strerror or error}); give a CSV file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise SamplesError(
            f"{file} is not a CSV file ({error}); give one with a line of names, t among them"
        ) from error


def _points(file: Path, reader: "csv._reader", column: str) -> list[list[float]]:  # type: ignore[name-defined]
    names = [each.strip() for each in next(reader, [])]
    if "t" not in names:
        raise SamplesError(f"{file} has no column t; its first line must name its columns, the times as t [s]")
    if column not in names:
        others = [each for each in names if each != "t"]
        near = did_you_mean(column, others)
        error = SamplesError(f"{file} has no column {column!r}; {near}write column = one of {', '.join(others)}")
        error.key = "column"
        raise error
    at, points = (names.index("t"), names.index(column)), list[list[float]]()
    for row in reader:
        if any(each.strip() for each in row):
            points.append([_number(file, reader.line_num, names[i], row[i] if i < len(row) else "") for i in at])
        if len(points) > MOST_POINTS:
            text = f"{file} has more than {MOST_POINTS} rows; keep every second or tenth of them"
            raise SamplesError(text)
    return points


def _number(file: Path, line: int, name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SamplesError(f"{file}, line {line}: {name} is {text[:30]!r}, which is not a finite number; give one")
    return number
