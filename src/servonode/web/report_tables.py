"""The tables of a report in HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.analysis.compared import Compared
from servonode.analysis.comparison import measures
from servonode.bus.durations import QUANTILES
from servonode.record.run import Run
from servonode.views.summary import summary_rows
from servonode.web.embedded import escaped

SECONDS = (*QUANTILES, "max")


@dataclass(frozen=True)
class Table:
    """A table: its title, the heads of its columns, its rows. words: of the columns, how many hold words."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    words: int = 1

    def html(self) -> str:
        """The table as an HTML section; nothing without a row."""
        if not self.rows:
            return ""
        head = "".join(self._cell("th", i, text) for i, text in enumerate(self.heads))
        body = "".join(
            f"<tr>{''.join(self._cell('td', i, each) for i, each in enumerate(row))}</tr>" for row in self.rows
        )
        heads = f"<thead><tr>{head}</tr></thead>" if any(self.heads) else ""
        table = f"<table>{heads}<tbody>{body}</tbody></table>"
        return f'<section class="card"><h2>{escaped(self.title)}</h2><div class="scroll">{table}</div></section>'

    def _cell(self, tag: str, column: int, value: object) -> str:
        style = ' class="word"' if column < self.words else ""
        return f"<{tag}{style}>{escaped(shown(value))}</{tag}>"


def shown(value: object) -> str:
    """A number with four digits; a dash for what is not known."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def tables(run: Run, name: str, source: Compared | None) -> list[Table]:
    """All tables of a run; `source`: the run as it is compared, None without a row."""
    summary = [(key, text) for key, text in summary_rows(run, name, times=False)[1:] if key not in ("fault", "warning")]
    return [
        Table("Summary", ("", ""), summary, words=2),
        Table("Faults", ("t [s]", "node", "fault", ""), _faults(run), words=4),
        *(_measured(source) if source else ()),
        Table("Limits", ("", "control instants", "first at [s]"), _limits(run)),
        Table("Times [ms]", ("", "", "p50", "p99", "p99.9", "max"), _times(run.stats.get("nodes", {})), words=2),
        Table("Counts", ("", "", ""), _counts(run.stats.get("node_counts", {})), words=2),
    ]


def _faults(run: Run) -> list[Sequence[object]]:
    return [(f"{each['t']:.3f}", each.get("node", ""), each["name"], each["text"]) for each in run.faults]


def _measured(source: Compared) -> list[Table]:
    """Residuals, inputs and effort."""
    found = measures(source, [source])
    sizes = ("largest", "rms", "largest_late", "rms_late")
    residuals = [(name, each["unit"], *(each[key] for key in sizes)) for name, each in found.residuals.items()]
    inputs = [(name, source.units.get(name, ""), value) for name, value in found.largest_input.items()]
    effort: list[Sequence[object]] = [
        ("inputs squared, integral", f"({unit})² s", value) for unit, value in found.effort.items()
    ]
    effort += [("work, of magnitudes", "J", found.work)] if found.work is not None else []
    path = found.path or {}
    effort += [
        (f"path error, {word}", "m", path[key]) for word, key in (("RMS", "rms"), ("largest", "largest")) if path
    ]
    heads = ("", "", "largest", "RMS", "largest, 2nd half", "RMS, 2nd half")
    return [
        Table("Residuals", heads, residuals, words=2),
        Table("Inputs", ("", "", "largest"), inputs, words=2),
        Table("Effort and path", ("", "", ""), effort, words=2),
    ]


def _limits(run: Run) -> list[Sequence[object]]:
    return [(name, each["instants"], each["first"]) for name, each in run.limits.items()]


def _times(nodes: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[Sequence[object]]:
    def words(name: str) -> str:
        return name.removesuffix("_s").replace("_", " ")

    return _once(
        (node, words(name), *(f"{each[key] * 1e3:.3f}" for key in SECONDS))
        for node, named in nodes.items()
        for name, each in named.items()
        if each.keys() >= set(SECONDS)
    )


def _counts(nodes: Mapping[str, Mapping[str, int]]) -> list[Sequence[object]]:
    return _once(
        (node, name.replace("_", " "), f"{count:,}") for node, named in nodes.items() for name, count in named.items()
    )


def _once(rows: Any) -> list[Sequence[object]]:
    """The rows, what stands first in them only where it changes."""
    found = list(rows)
    return [("" if i and found[i - 1][0] == row[0] else row[0], *row[1:]) for i, row in enumerate(found)]
