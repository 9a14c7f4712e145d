"""The table of a comparison: titles, and a value for each source."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from servonode.analysis.compared import RESIDUAL, Compared
from servonode.analysis.comparison import Measures, common, differences, differing, unit_of

Row = tuple[str, list[float | str | None]]
MOST = 4  # quantities that differ most


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


PATH = (("RMS", "rms"), ("largest", "largest"))
SIZES = (("largest", "largest"), ("RMS", "rms"), ("largest, 2nd half", "largest_late"), ("RMS, 2nd half", "rms_late"))


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
