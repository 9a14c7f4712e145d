"""`servonode identify`: parameters of a machine from recordings of it."""

import json
import math
from pathlib import Path

import click

from servonode.cli import verb


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode identify run.mcap --parameters m1,c_w",
        "servonode identify monday.mcap tuesday.mcap --parameters m1,I1,c_w --picture fit.png",
        "servonode identify run.mcap --parameters m1,c_w --write my_robot.toml",
        "servonode identify run.mcap --parameters m1,m2,I2 --next next.toml",
    ),
    exits={0: "identified", 1: "the record does not tell some of the parameters", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=verb.FILE)
@click.option("--parameters", required=True, metavar="NAME,NAME", help="The parameters of the machine to identify.")
@verb.overrides
@verb.code
@verb.as_json
@click.option(
    "--segment",
    type=verb.ABOVE_ZERO,
    metavar="SECONDS",
    help="Estimate a new initial state after this time (default: as rarely as the motion allows).",
)
@click.option(
    "--write", type=verb.FILE, metavar="FILE.toml", help="Put [plant.parameters] into this launch file, or a new file."
)
@click.option(
    "--picture", type=verb.FILE, metavar="FILE.png", help="Draw what was measured and fitted, residuals and intervals."
)
@click.option(
    "--next",
    "next_file",
    type=verb.FILE,
    metavar="FILE.toml",
    help="Write the launch file of an experiment that would tell more.",
)
@click.option("--no-law", is_flag=True, help="Do not simulate how the residuals of the law change.")
def identify(
    recordings: tuple[Path, ...],
    parameters: str,
    overrides: tuple[str, ...],
    code: bool | None,
    as_json: bool,
    segment: float | None,
    write: Path | None,
    picture: Path | None,
    next_file: Path | None,
    no_law: bool,
) -> None:
    """Identify parameters of a machine from recordings.

    RECORDING is the .mcap file of a run, simulated or on hardware. The parameters begin at what the law believes. Each
    estimate has a 95 % interval; what the record tells only in combination is named.
    """
    from servonode.cli.identify_text import next_text, remarks, text
    from servonode.cli.start_checks import check_picture, check_writable
    from servonode.identification.next_file import write_next
    from servonode.identification.parameters_section import section_text, write_section
    from servonode.identification.recordings import identification_of

    for file in (write, next_file):
        check_writable(file)
    if picture is not None:
        check_picture(picture)
    names = [name.strip() for name in parameters.split(",") if name.strip()]
    found = identification_of(recordings, names, segment, not no_law, overrides, code)
    values = {name: each.shown for name, each in found.estimates.items()}
    click.echo(json.dumps(found.as_dict()) if as_json else text(found))
    if write is not None:
        write_section(write, values, remarks(found))
        click.echo(f"parameters: {write}", err=as_json)
    elif not as_json:
        click.echo("\n" + section_text(values, remarks(found)), nl=False)
    if picture is not None:
        from servonode.views.identification import write_picture

        write_picture(found, picture)
        click.echo(f"picture: {picture}", err=as_json)
    if next_file is not None:
        proposed = found.next_experiment()
        write_next(proposed, found.closed_loop, next_file)
        click.echo(next_text(proposed, next_file), err=as_json)
    raise SystemExit(0 if all(math.isfinite(each.error) for each in found.estimates.values()) else 1)
