"""`servonode bag`: inspect, recover, merge and export recordings."""

import sys
from collections.abc import Sequence
from dataclasses import make_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from servonode.cli import complete, verb
from servonode.cli.command import argument, command, group, option, output
from servonode.cli.options import AsJson, Code, Movie, Open, Reports
from servonode.export import exports

if TYPE_CHECKING:
    from servonode.record.bag import Bag

Recording = Annotated[Path, argument("BAG")]
RECOVERED = "Where to write the recording (default: named after BAG)."
MERGED = "Where to write the recording (default: RUN.merged.mcap beside the first)."
TOPIC = "Export the messages of this topic instead of the run's rows."
TO = "Write FILE by this export of an installed package."
if TYPE_CHECKING:
    Tools = Any
else:  # an option for each export of a wing that writes recordings
    TOOLS = {name: each.help for name, each in exports.of_wings().items() if each.write is not None}
    Tools = make_dataclass("Tools", [(name, Annotated[bool, option(text)]) for name, text in TOOLS.items()])
ENDED = {**verb.BAD_USAGE, **verb.INTERRUPTED}


@group
def bag() -> None:
    """Inspect, export, plot, merge and recover recordings."""


@command(
    ("servonode bag info trailer_pursuit.mcap", "servonode bag info trailer_pursuit.mcap --json"),
    {0: "shown", **ENDED},
    of=bag,
)
def info(file: Recording, as_json: AsJson) -> None:
    """Show the contents of BAG: run, times, topics, gaps, events, damage.

    BAG is a recording, also a truncated one, or the .spool file that a killed run left.
    """
    from servonode.record.bag import read_bag
    from servonode.record.info import info as found_in
    from servonode.record.info import info_text

    found = found_in(read_bag(file))
    verb.show(found, as_json, "\n".join(info_text(found)))


@command(
    ("servonode bag recover trailer_pursuit.mcap.spool", "servonode bag recover damaged.mcap --output whole.mcap"),
    {0: "the intact data were written", **ENDED},
    of=bag,
)
def recover(file: Recording, out: Annotated[Path | None, output(RECOVERED, "FILE.mcap")], as_json: AsJson) -> None:
    """Write a complete recording from the intact data of BAG.

    BAG is the .spool file of a run that was killed, or a truncated or damaged MCAP file. It is not changed.
    """
    from servonode.cli.start_checks import check_ending
    from servonode.record.bag import read_bag
    from servonode.record.recover import recover_bag

    check_ending(out, ".mcap")
    verb.show_lines(recover_bag(read_bag(file), out), as_json)


@command(
    (
        "servonode bag merge robot.mcap desk.mcap",
        "servonode bag merge robot.mcap desk.mcap.spool --output pursuit.mcap",
    ),
    {0: "written", **ENDED},
    of=bag,
)
def merge(
    file: Recording, other: Recording, out: Annotated[Path | None, output(MERGED, "FILE.mcap")], as_json: AsJson
) -> None:
    """Join the recordings of the two computers of one run.

    All times of the result are those of the plant's computer. What stands between the two clocks is known from the
    statuses of the relays. Both files stay as they are, and may be .spool files that a killed run left.
    """
    from servonode.cli.start_checks import check_ending
    from servonode.record.bag import read_bag
    from servonode.record.merge import merge as merged

    check_ending(out, ".mcap")
    verb.show_lines(merged(read_bag(file), read_bag(other), out), as_json)


@command(
    (
        "servonode bag export trailer_pursuit.mcap rows.csv",
        "servonode bag export trailer_pursuit.mcap rows.parquet",
        "servonode bag export trailer_pursuit.mcap commands.npz --topic controller/command",
        "servonode bag export trailer_pursuit.mcap ros2.mcap --ros2",
    ),
    {0: "written", **ENDED},
    of=bag,
)
def export(
    file: Recording,
    out: Annotated[Path, argument("FILE")],
    topic: Annotated[str | None, option(TOPIC, "NODE/TOPIC")],
    tools: Tools,
    to: Annotated[str | None, option(TO, "NAME", shell_complete=complete.exports)],
    code: Code,
    as_json: AsJson,
) -> None:
    """Write the data of BAG as a table, or for another tool.

    FILE.csv, FILE.parquet or FILE.npz gets the rows of the run, as servonode run --output writes them; with --topic a
    column for each number in the messages of that topic. An export for another tool has at most 100 rows a second.
    """
    from servonode.cli.start_checks import StartError, check_writable
    from servonode.record.bag import read_bag
    from servonode.record.export import check_format, export_columns, export_run, export_topic
    from servonode.simulation.rows_of_messages import runs_in

    asked = {f"--{name}": name for name, given in vars(tools).items() if given}
    asked |= {"--to": to} if to else {}
    if len(asked) + bool(topic) > 1:
        words = " and ".join([*asked, *(["--topic"] if topic else [])])
        raise click.UsageError(f"{words} exclude each other; give one of them.")
    chosen = None
    for word, name in asked.items():
        chosen = exports.writing(name)
        if out.suffix != chosen.ending:
            word = f"{word} {name}" if word == "--to" else word
            text = f"an export with {word} is an {chosen.ending} file; name it {out.stem}{chosen.ending}"
            raise StartError(f"{out}: {text}")
    if chosen is None:
        check_format(out)
    check_writable(out)
    if out.exists():
        raise click.UsageError(f"{out} exists already; name another file, or remove it")
    read = read_bag(file)
    if chosen is not None and chosen.write is not None:
        word, count = chosen.unit, chosen.write(read, read.closed_loop(code=code), out)
    elif topic:
        word, count = "messages", export_topic(read, topic, out)
    else:
        closed_loop, word = verb.of_recording(read, code), "rows"
        count = export_run(runs_in(read, closed_loop)[-1], out) if closed_loop else export_columns(read.columns(), out)
    verb.show({"file": str(out), word: count}, as_json, f"{out} ({count} {word})")


@command(
    (
        "servonode bag report trailer_pursuit.mcap",
        "servonode bag report trailer_pursuit.mcap --report pursuit.svg --movie pursuit.mp4",
    ),
    {0: "drawn", 1: "the recorded run had a fault, or a file could not be made", **verb.BAD_USAGE, **verb.BROKEN_OFF},
    of=bag,
)
def report(file: Recording, reports: Reports, movie: Movie, show: Open, as_json: AsJson, code: Code) -> None:
    """Make the report and the movie of BAG.

    They look like those of run and simulate, and show the recorded data.
    """
    from servonode.cli.simulate import delivered, filming
    from servonode.cli.start_checks import check_reports
    from servonode.record.bag import read_bag
    from servonode.simulation.rows_of_messages import runs_in

    read = read_bag(file)
    closed_loop = verb.of_recording(read, code)
    reports = reports or (Path(f"{file.stem}.png"),)
    if closed_loop is None:
        _draw_columns(read, reports, movie.movie)
        return
    check_reports(reports, closed_loop)
    film = filming(movie, closed_loop)
    run = runs_in(read, closed_loop)[-1]
    sys.exit(delivered(run, read.about["run"], as_json, None, reports, film, show))


def _draw_columns(read: "Bag", reports: Sequence[Path], movie: Path | None) -> None:
    """Draw the recorded columns, whatever machine they are of."""
    from servonode.cli.start_checks import check_picture
    from servonode.views.quantity_plot import columns_figure

    for out in (*reports, *filter(None, [movie])):
        check_picture(out)
    figure = columns_figure(read.columns())
    for out in reports:
        failure = verb.made(partial(figure.savefig, out))
        click.echo(f"servonode: {out}: {failure}" if failure else f"  picture           {out}", err=bool(failure))
        if failure:
            sys.exit(1)
