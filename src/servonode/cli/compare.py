"""`servonode compare`: several runs in one picture and one table."""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from servonode.cli import complete, verb
from servonode.cli.command import argument, command
from servonode.cli.options import AsJson, Code, Launch, Open, Overrides, Panels, Picture

if TYPE_CHECKING:
    from servonode.analysis.comparison import Compared, Measures
    from servonode.closed_loop.closed_loop import ClosedLoop

OVERRIDE = re.compile(r":(?=[^\W\d][\w.]*=)")  # before KEY=VALUE
SOURCES = argument("SOURCE SOURCE...", required=True, shell_complete=complete.launch_files)


@command(
    (
        "servonode compare trailer_pursuit trailer_pursuit:controller.gains.lambda=3",
        "servonode compare ball_projected ball_split --panel residual_slip_x --output slip.png",
        "servonode compare before.csv after.csv --json",
        "servonode compare pursuit.mcap trailer_pursuit --output pursuit.pdf",
        "servonode compare measured.csv@my_robot.toml my_robot.toml:plant.parameters.m1=5",
    ),
    {
        0: "compared, even if a run ended with a fault",
        1: "the picture could not be made",
        2: "bad usage or input, or the runs have nothing in common",
        **verb.INTERRUPTED,
    },
)
def compare(
    sources: Annotated[tuple[str, ...], SOURCES],
    overrides: Overrides,
    code: Code,
    as_json: AsJson,
    panels: Panels,
    show: Open,
    out: Picture = Path("compare.png"),
) -> None:
    """Compare runs: curves in one picture, numbers in a table.

    SOURCE is a launch file, which is simulated, a recording, or a CSV file that --output has written. Overrides for one
    launch file follow it, each after a colon: FILE:KEY=VALUE:KEY=VALUE. --set changes all launch files. A CSV file
    contains only names and numbers; write CSV@FILE to name its launch file, which provides units, inputs, target
    and outline.
    """
    from servonode.analysis.comparison import measures
    from servonode.cli.start_checks import check_picture
    from servonode.views.comparison import check_sources, compared_panels, write_comparison

    check_picture(out)
    check_sources(sources)
    taken = [compared(each, overrides, code) for each in unmistakable(sources)]
    chosen = compared_panels(taken, panels)
    numbers = [measures(source, taken) for source in taken]
    failure = verb.made(lambda: write_comparison(taken, chosen, out))
    answer = answer_of(taken, numbers) | {"picture": None if failure else str(out)}
    verb.show(answer, as_json, text(taken, numbers))
    click.echo(
        f"servonode: {out}: {failure}" if failure else f"  picture           {out}", err=as_json or bool(failure)
    )
    if not failure:
        verb.picture_made(out, as_json, show)
    sys.exit(int(bool(failure)))


# sources


@dataclass(frozen=True)
class Source:
    """A word of the command line: its text, its name in table and picture, the file, the launch file behind @."""

    text: str
    name: str
    file: str
    launch: str
    overrides: tuple[str, ...]


def unmistakable(texts: Sequence[str]) -> list[Source]:
    """The words of the command line, each under a name of its own: short where that tells them apart."""
    parsed = [_parsed(text) for text in texts]
    names = [each.name for each in parsed]
    if len(set(names)) < len(names):
        names = [each.text for each in parsed]
    numbered = [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name for i, name in enumerate(names)
    ]
    return [replace(each, name=name) for each, name in zip(parsed, numbered, strict=True)]


def _parsed(text: str) -> Source:
    whole = Path(text).exists()  # whatever its name holds
    file, *overrides = [text] if whole else OVERRIDE.split(text)
    file, at, launch = (file, "", "") if whole else file.partition(".csv@")
    file += ".csv" if at else ""
    return Source(text, " ".join([Path(file).stem, *map(_short, overrides)]), file, launch, tuple(overrides))


def _short(override: str) -> str:
    """An override by the last part of its key."""
    key, _, value = override.partition("=")
    return f"{key.rpartition('.')[2]}={value}"


def compared(source: Source, overrides: Sequence[str], code: bool | None) -> "Compared":
    """What is compared of a source; one line for each kind of file."""
    from servonode.analysis.comparison import Compared, CompareError, read_csv, run_of_csv
    from servonode.simulation.rows_of_messages import runs_in

    def closed_loop(launch: str) -> "ClosedLoop":
        return Launch(launch, (*overrides, *source.overrides), code).resolved()

    def check_no_overrides(kind: str, remedy: str) -> None:
        if source.overrides:
            raise CompareError(f"{source.text}: a {kind} has no keys to override; {remedy}")

    name, file = source.name, Path(source.file)
    if source.launch:
        return Compared.of_run(name, run_of_csv(file, closed_loop(source.launch)), False)
    if source.file.endswith(".csv"):
        check_no_overrides("CSV file", f"name its launch file: {source.file}@FILE:{':'.join(source.overrides)}")
        return Compared.of_table(name, read_csv(file))
    if source.file.endswith(".mcap"):
        from servonode.record.bag import read_bag

        check_no_overrides("recording", "name the launch file in its place, or see what replay --set says")
        loop = verb.of_recording(bag := read_bag(file), code)
        return Compared.of_run(name, runs_in(bag, loop)[-1]) if loop else Compared.of_table(name, bag.columns())
    from servonode.record.run import default_every
    from servonode.simulation.simulate import simulate_fused

    simulated = closed_loop(source.file)
    simulated.check_known_goals()
    return Compared.of_run(name, simulate_fused(simulated, default_every(simulated)))


# what is printed

MOST = 4  # quantities that differ most
SIZES = {"largest": "largest", "RMS": "rms", "largest, 2nd half": "largest_late", "RMS, 2nd half": "rms_late"}


def answer_of(sources: "Sequence[Compared]", numbers: "Sequence[Measures]") -> dict[str, Any]:
    """The object that `--json` prints."""
    from servonode.analysis.comparison import common, differences, unit_of
    from servonode.record.run import json_number

    heads = [
        {
            "source": each.name,
            "t_end": float(each.t[-1]),
            "rows": len(each.t),
            "fault": each.run.fault if each.run else None,
        }
        for each in sources
    ]
    return {
        "sources": [head | each.as_dict() for head, each in zip(heads, numbers, strict=True)],
        "difference": {name: [*map(json_number, differences(sources, name))] for name in common(sources)},
        "units": {name: unit_of(sources, name) for name in common(sources)},
    }


def text(sources: "Sequence[Compared]", numbers: "Sequence[Measures]") -> str:
    """The table: a title and a value for each source, - where it is not known; no line where none is."""
    from servonode.analysis.comparison import RESIDUAL, common, differences, differing, unit_of

    rows: list[tuple[str, Sequence[float | str | None]]] = [
        ("end [s]", [f"{float(each.t[-1]):.3f}" for each in sources]),
        ("fault", [_ending(each) for each in sources]),
    ]
    for name in _names(each.residuals for each in numbers):
        found = [each.residuals.get(name, {}) for each in numbers]
        unit = next((each["unit"] for each in found if each.get("unit")), "")
        rows += [
            (_titled(f"residual {name}, {word}", unit), [e.get(key) for e in found]) for word, key in SIZES.items()
        ]
    for unit in _names(each.effort for each in numbers):
        square = f"({unit})^2 s" if " " in unit or "/" in unit else f"{unit}^2 s"
        rows += [(_titled("effort, inputs squared", unit and square), [each.effort.get(unit) for each in numbers])]
    rows += [("work, of magnitudes [J]", [each.work for each in numbers])]
    for name in _names(each.largest_input for each in numbers):
        rows += [(_titled(f"largest {name}", unit_of(sources, name)), [e.largest_input.get(name) for e in numbers])]
    for word, key in (("RMS", "rms"), ("largest", "largest")):
        rows += [(f"path error, {word} [m]", [(each.path or {}).get(key) for each in numbers])]
    names = [name for name in common(sources) if not name.startswith(RESIDUAL) and name != "energy"]
    for name in differing(sources, names)[:MOST]:
        rows += [(_titled(f"difference in {name}", unit_of(sources, name)), differences(sources, name))]
    shown = [(title, *map(_shown, values)) for title, values in rows if any(value is not None for value in values)]
    return "\n".join(verb.aligned([("", *(each.name for each in sources)), *shown], right=True))


def _shown(value: float | str | None) -> str:
    if value is None or (isinstance(value, float) and isnan(value)):
        return "-"
    return value if isinstance(value, str) else f"{value:.4g}"


def _ending(source: "Compared") -> str | None:
    fault = source.run.fault if source.run else None
    if fault is None:
        return "none" if source.faults_known else None
    return f"{fault['name']} at {fault['t']:.3f} s"


def _titled(title: str, unit: str) -> str:
    return f"{title} [{unit}]" if unit else title


def _names(mappings: Iterable[Iterable[str]]) -> list[str]:
    """The keys of all mappings, each once, in their order."""
    return list(dict.fromkeys(key for each in mappings for key in each))
