"""`servonode recover`: write the CSV file of a run that could not write it itself."""

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
    exits={0: "the intact data were written", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
@click.argument("spool", type=verb.FILE, metavar="SPOOL")
@click.option(
    "--out", type=verb.FILE, metavar="FILE.csv", help="Where to write the data (default: beside SPOOL, named after it)."
)
@click.option(
    "--raw", is_flag=True, help="Write only the recorded data, one file per node; needs no machine and program."
)
@verb.code
@verb.as_json
def recover(spool: Path, out: Path | None, raw: bool, code: bool | None, as_json: bool) -> None:
    """Write the CSV file of a run that could not write it itself.

    The data come from SPOOL, which the run wrote beside its CSV file. Damaged parts are left out and reported. SPOOL
    and existing files are not changed.
    """
    from servonode.cli.start_checks import check_ending
    from servonode.record.recover import recover_rows

    check_ending(out, ".csv")
    verb.show_lines(recover_rows(spool, out, raw, code), as_json)
