"""What `servonode compare` prints: the JSON object and the table."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from servonode.analysis.compared import Compared
from servonode.analysis.comparison import Measures, common, differences, unit_of
from servonode.record.run import json_number
from servonode.views.comparison_table import Row, comparison_rows

UNKNOWN = "-"


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
