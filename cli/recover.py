"""`servonode recover`: the CSV file of a run that could not write it."""

from pathlib import Path

import click

from servonode.cli import verb


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode recover my_robot.csv.spool",
        "servonode recover my_robot.csv.spool --out recovered.csv",
        "servonode recover my_robot.csv.spool --raw --out recovered.csv",
    ),
    exits={0: "what is intact is written", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
@click.argument("spool", type=click.Path(path_type=Path), metavar="SPOOL")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.csv", help="Default: SPOOL without .spool.")
@click.option("--raw", is_flag=True, help="What was recorded alone, without machine and program: one file a node.")
def recover(spool: Path, out: Path | None, raw: bool) -> None:
    """Make the CSV file of a run that could not make it itself.

    It is made of SPOOL, which the run wrote beside that file while it went on. What is damaged is left out, and told.
    Neither SPOOL nor a file that is there is touched.
    """
    from servonode.nodes.recover import recovered

    for line in recovered(spool, out, raw):
        click.echo(line)
