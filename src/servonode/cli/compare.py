"""`servonode compare`: several runs in one picture and one table."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from servonode.cli import complete, verb

if TYPE_CHECKING:
    from servonode.analysis.compared import Compared
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.record.bag import Bag
    from servonode.record.run import Run

OVERRIDE = re.compile(r":(?=[^\W\d][\w.]*=)")  # before KEY=VALUE


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode compare trailer_pursuit trailer_pursuit:controller.gains.lambda=3",
        "servonode compare ball_projected ball_split --panel residual_slip_x --out slip.png",
        "servonode compare before.csv after.csv --json",
        "servonode compare pursuit.mcap trailer_pursuit --out pursuit.pdf",
        "servonode compare measured.csv@my_robot.toml my_robot.toml:plant.parameters.m1=5",
    ),
    exits={
        0: "compared, even if a run ended with a fault",
        1: "the picture could not be made",
        2: "bad usage or input, or the runs have nothing in common",
    }
    | verb.INTERRUPTED,
)
@click.argument("sources", metavar="SOURCE SOURCE...", nargs=-1, required=True, shell_complete=complete.launch_files)
@verb.overrides
@verb.code
@verb.as_json
@verb.panels
@click.option(
    "--out",
    type=verb.FILE,
    default=Path("compare.png"),
    show_default=True,
    metavar="FILE.png",
    help="Where to write the picture.",
)
def compare(
    sources: tuple[str, ...],
    overrides: tuple[str, ...],
    code: bool | None,
    as_json: bool,
    panels: tuple[str, ...],
    out: Path,
) -> None:
    """Compare runs: curves in one picture, numbers in a table.

    SOURCE is a launch file, which is simulated, a recording, or a CSV file that --out has written. Overrides for one
    launch file follow it, each after a colon: FILE:KEY=VALUE:KEY=VALUE. --set changes all launch files. A CSV file
    contains only names and numbers; write CSV@FILE to name its launch file, which provides units, inputs, target
    and outline.
    """
    from servonode.analysis.comparison import measures
    from servonode.cli import comparison_text
    from servonode.cli.start_checks import check_picture
    from servonode.views.comparison import check_sources, compared_panels, write_comparison

    check_picture(out)
    check_sources(sources)
    taken = [compared(each, overrides, code) for each in unmistakable(sources)]
    chosen = compared_panels(taken, panels)
    numbers = [measures(source, taken) for source in taken]
    failure = verb.made(lambda: write_comparison(taken, chosen, out))
    answer = comparison_text.answer(taken, numbers) | {"picture": None if failure else str(out)}
    click.echo(json.dumps(answer) if as_json else comparison_text.text(taken, numbers))
    click.echo(
        f"servonode: {out}: {failure}" if failure else f"  picture           {out}", err=as_json or bool(failure)
    )
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
    from servonode.analysis.compared import Compared, run_of_csv
    from servonode.simulation.rows_of_messages import runs_in

    def closed_loop(launch: str) -> "ClosedLoop":
        return verb.resolved(launch, [*overrides, *source.overrides], code)

    if source.launch:
        return Compared.of_run(source.name, run_of_csv(Path(source.file), closed_loop(source.launch)), False)
    if source.file.endswith(".csv"):
        return _table(source)
    if source.file.endswith(".mcap"):
        bag = _recorded(source)
        loop = verb.of_recording(bag, code)
        return (
            Compared.of_run(source.name, runs_in(bag, loop)[-1])
            if loop
            else Compared.of_table(source.name, bag.columns())
        )
    return Compared.of_run(source.name, _simulated(closed_loop(source.file)))


def _table(source: Source) -> "Compared":
    from servonode.analysis.compared import Compared, CompareError, read_csv

    if source.overrides:
        remedy = f"name its launch file: {source.file}@FILE:{':'.join(source.overrides)}"
        raise CompareError(f"{source.text}: a CSV file has no keys to override; {remedy}")
    return Compared.of_table(source.name, read_csv(Path(source.file)))


def _recorded(source: Source) -> "Bag":
    from servonode.analysis.compared import CompareError
    from servonode.record.bag import read_bag

    if source.overrides:
        remedy = "name the launch file in its place, or see what replay --set says"
        raise CompareError(f"{source.text}: a recording has no keys to override; {remedy}")
    return read_bag(Path(source.file))


def _simulated(closed_loop: "ClosedLoop") -> "Run":
    from servonode.record.run import default_every
    from servonode.simulation.simulate import simulate_fused

    closed_loop.check_known_goals()
    return simulate_fused(closed_loop, default_every(closed_loop))
