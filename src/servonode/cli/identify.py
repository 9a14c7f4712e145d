"""`servonode identify`: parameters of a machine from recordings of it."""

import math
from pathlib import Path
from typing import Annotated

import click

from servonode.cli import verb
from servonode.cli.command import argument, command, option
from servonode.cli.options import ABOVE_ZERO, AsJson, Code, Overrides

PARAMETERS = "The parameters of the machine to identify."
SEGMENT = "Estimate a new initial state after this time (default: as rarely as the motion allows)."
WRITE = "Put [plant.parameters] into this launch file, or a new file."
PICTURE = "Draw what was measured and fitted, residuals and intervals."
NEXT = "Write the launch file of an experiment that would tell more."


@command(
    (
        "servonode identify run.mcap --parameters m1,c_w",
        "servonode identify monday.mcap tuesday.mcap --parameters m1,I1,c_w --picture fit.png",
        "servonode identify run.mcap --parameters m1,c_w --write my_robot.toml",
        "servonode identify run.mcap --parameters m1,m2,I2 --next next.toml",
    ),
    {0: "identified", 1: "the record does not tell some of the parameters", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
def identify(
    recordings: Annotated[tuple[Path, ...], argument("RECORDING...", required=True)],
    parameters: Annotated[str, option(PARAMETERS, "NAME,NAME", required=True)],
    overrides: Overrides,
    code: Code,
    as_json: AsJson,
    segment: Annotated[float | None, option(SEGMENT, "SECONDS", ABOVE_ZERO)],
    write: Annotated[Path | None, option(WRITE, "FILE.toml")],
    picture: Annotated[Path | None, option(PICTURE, "FILE.png")],
    next_file: Annotated[Path | None, option(NEXT, "FILE.toml", flag="--next")],
    no_law: Annotated[bool, option("Do not simulate how the residuals of the law change.")],
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
    verb.show(found.as_dict(), as_json, text(found))
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
