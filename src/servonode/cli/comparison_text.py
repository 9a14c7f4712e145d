"""What `servonode compare` prints: the JSON object and the table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from servonode.analysis.comparison import RESIDUAL, Compared, Measures, common, differences, differing, unit_of
from servonode.record.run import json_number

Row = tuple[str, list[float | str | None]]
UNKNOWN = "-"
MOST = 4  # quantities that differ most
PATH = (("RMS", "rms"), ("largest", "largest"))
SIZES = (("largest", "largest"), ("RMS", "rms"), ("largest, 2nd half", "largest_late"), ("RMS, 2nd half", "rms_late"))


def answer(sources: Sequence[Compared], numbers: Sequence[Measures]) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "sources": [
            {"source": source.name, "t_end": float(source.t[-1]), "rows": len(source.t), "fault": _fault(source)}
            | each.as_dict()
            for source, each in zip(sources, numbers, strict=True)
        ],
        "difference": {name: _numbers(differences(sources, name)) for name in common(sources)},
        "units": {name: unit_of(sources, name) for name in common(sources)},
    }


def _numbers(values: Sequence[float]) -> list[float | str | None]:
    """What JSON has of them: null if absent, a text where it is infinite."""
    return [json_number(each) for each in values]


def _fault(source: Compared) -> dict[str, Any] | None:
    return source.run.fault if source.run else None


def text(sources: Sequence[Compared], numbers: Sequence[Measures]) -> str:
    """The table: a column for each source."""
    head: Row = ("", [each.name for each in sources])
    rows = [head, *comparison_rows(sources, numbers)]
    shown = [(name, list(map(_shown, values))) for name, values in rows]
    wide = [max(len(values[i]) for _, values in shown) for i in range(len(sources))]
    first = max(len(name) for name, _ in shown)
    lines = [
        f"  {name:<{first}}  " + "  ".join(f"{value:>{width}}" for value, width in zip(values, wide, strict=True))
        for name, values in shown
    ]
    return "\n".join(line.rstrip() for line in lines)


def _shown(value: float | str | None) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return UNKNOWN
    return value if isinstance(value, str) else f"{value:.4g}"


# the rows of the table


def comparison_rows(sources: Sequence[Compared], numbers: Sequence[Measures]) -> list[Row]:
    """The rows: a title, and a value for each source, None where it is not known."""

    def row(title: str, value: Callable[[Measures], float | None]) -> Row:
        return (title, [value(each) for each in numbers])

    rows: list[Row] = [("end [s]", [f"{float(each.t[-1]):.3f}" for each in sources])]
    rows.append(("fault", [_ending(each) for each in sources]))
    rows += _residual_rows(numbers)
    for unit in _names(each.effort for each in numbers):
        square = f"({unit})^2 s" if " " in unit or "/" in unit else f"{unit}^2 s"
        title = _with_unit("effort, inputs squared", square if unit else "")
        rows.append(row(title, lambda each, unit=unit: each.effort.get(unit)))  # type: ignore[misc]
    rows.append(row("work, of magnitudes [J]", lambda each: each.work))
    for name in _names(each.largest_input for each in numbers):
        unit = unit_of(sources, name)
        rows.append(row(_with_unit(f"largest {name}", unit), lambda each, name=name: each.largest_input.get(name)))  # type: ignore[misc]
    rows += [row(f"path error, {word} [m]", lambda each, key=key: (each.path or {}).get(key)) for word, key in PATH]  # type: ignore[misc]
    names = [name for name in common(sources) if not name.startswith(RESIDUAL) and name != "energy"]
    for name in differing(sources, names)[:MOST]:
        rows.append((_with_unit(f"difference in {name}", unit_of(sources, name)), list(differences(sources, name))))
    return [(title, values) for title, values in rows if any(value is not None for value in values)]


def _ending(source: Compared) -> str | None:
    fault = source.run.fault if source.run else None
    if fault is None:
        return "none" if source.faults_known else None
    return f"{fault['name']} at {fault['t']:.3f} s"


def _residual_rows(numbers: Sequence[Measures]) -> Iterator[Row]:
    for name in _names(each.residuals for each in numbers):
        found = [each.residuals.get(name, {}) for each in numbers]
        unit = next((each["unit"] for each in found if each.get("unit")), "")
        for word, key in SIZES:
            yield _with_unit(f"residual {name}, {word}", unit), [each.get(key) for each in found]


def _with_unit(title: str, unit: str) -> str:
    return f"{title} [{unit}]" if unit else title


def _names(mappings: Iterable[Iterable[str]]) -> list[str]:
    """The keys of all mappings, each once, in their order."""
    return list(dict.fromkeys(key for each in mappings for key in each))
