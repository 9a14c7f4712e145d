"""Short tables for `repr` and for notebooks. Imports nothing of the package, so that every room may have it."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from importlib import import_module
from textwrap import wrap
from typing import Any, Self

from msgspec import json

Row = tuple[str, str]
WIDTH, LONGEST = 100, 280  # characters of a line, and of a text, which is cut where it is longer
MOST_ROWS = 16
TOGETHER = "\u00a0"  # a space at which no line is broken
_TABLE = "border-collapse:collapse;margin:0.4em 0;font-size:0.92em"
_CELL = "text-align:left;vertical-align:top;padding:0.15em 0.9em 0.15em 0;background:none;border:none"
_LINE = "border-top:1px solid rgba(128,128,128,0.35)"


class Tabular:
    """What shows itself as a title and a few lines: as text in a terminal, as a table in a notebook."""

    def table(self) -> tuple[str, list[Row]]:
        """The title, and for each line its name and its text."""
        raise NotImplementedError

    def __repr__(self) -> str:
        title, rows = _shortened(*self.table())
        width = max((len(name) for name, _ in rows), default=0)
        lines = [title]
        for name, text in rows:
            first, *others = wrap(text, WIDTH, break_on_hyphens=False) or [""]
            lines.append(f"  {name:<{width}}  {first}")
            lines += [f"  {'':<{width}}  {other}" for other in others]
        return "\n".join(lines).replace(TOGETHER, " ")

    def _repr_html_(self) -> str:
        """The same for a notebook: without colours of its own, so that it reads on light and on dark pages."""
        title, rows = _shortened(*self.table())
        body = "".join(
            f'<tr style="background:none;{_LINE}"><th scope="row" style="{_CELL};font-weight:normal;opacity:0.7;'
            f'white-space:nowrap">{_escaped(name)}</th><td style="{_CELL}">{_escaped(text)}</td></tr>'
            for name, text in rows
        )
        caption = f'<caption style="text-align:left;font-weight:bold;caption-side:top">{_escaped(title)}</caption>'
        return f'<table style="{_TABLE}">{caption}<tbody>{body}</tbody></table>'

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy of all that it holds, also of what its pickle leaves out."""
        made = memo[id(self)] = type(self).__new__(type(self))
        vars(made).update(deepcopy(vars(self), memo))
        return made


class Result(Tabular):
    """What was computed: it has its table, and names the function that draws it.

    That function is looked up when a picture is asked for, so that no room which computes stands on pictures.
    """

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, as JSON has them."""
        found: dict[str, Any] = json.decode(json.encode(self, enc_hook=_listed))
        return found

    def by_view(self, function: str, *choices: Any) -> Any:
        """What a function of the package, named ROOM.MODULE.FUNCTION, makes of it: a matplotlib Figure, or a movie."""
        module, _, name = function.rpartition(".")
        return getattr(import_module(f"servonode.{module}"), name)(self, *choices)


def _listed(value: Any) -> Any:
    """What JSON does not know: complex numbers as pairs, arrays as lists."""
    return [value.real, value.imag] if isinstance(value, complex) else value.tolist()


def several(texts: Iterable[str], most: int = 6) -> str:
    """The first few of the texts and how many more there are; `none` without any."""
    entries = list(texts)
    shown = entries if len(entries) <= most + 1 else entries[:most]
    left = len(entries) - len(shown)
    return (", ".join(shown) + (f", and {left} more" if left else "")) or "none"


def valued(name: str, value: float, unit: str) -> str:
    """`name = value unit`, of which a unit of 1 is left out."""
    return f"{name} = {value:.4g}{'' if unit in ('', '1') else ' ' + unit}".replace(" ", TOGETHER)


def named(name: str, unit: str) -> str:
    """`name [unit]`, of which a unit of 1 is left out."""
    return name if unit in ("", "1") else f"{name} [{unit}]"


def _shortened(title: str, rows: Sequence[Row]) -> tuple[str, list[Row]]:
    left = len(rows) - MOST_ROWS
    more = [("...", f"{left} more lines")] if left > 0 else []
    return _cut(title), [(name, _cut(text)) for name, text in [*rows[:MOST_ROWS], *more]]


def _cut(text: str) -> str:
    line = text.replace("\n", " ")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3].rpartition(' ')[0] or line[: LONGEST - 3]}..."


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
