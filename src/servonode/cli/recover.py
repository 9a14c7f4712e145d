"""`servonode recover`: write the CSV file of a run that could not write it itself."""

from pathlib import Path
from typing import Annotated

from servonode.cli import verb
from servonode.cli.command import argument, command, option
from servonode.cli.options import AsJson, Code

OUT = "Where to write the data (default: beside SPOOL, named after it)."
RAW = "Write only the recorded data, one file per node; needs no machine and program."


@command(
    (
        "servonode recover my_robot.csv.spool",
        "servonode recover my_robot.csv.spool --out recovered.csv",
        "servonode recover my_robot.csv.spool --raw --out recovered.csv",
    ),
    {0: "the intact data were written", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
def recover(
    spool: Annotated[Path, argument("SPOOL")],
    out: Annotated[Path | None, option(OUT, "FILE.csv")],
    raw: Annotated[bool, option(RAW)],
    code: Code,
    as_json: AsJson,
) -> None:
    """Write the CSV file of a run that could not write it itself.

    The data come from SPOOL, which the run wrote beside its CSV file. Damaged parts are left out and reported. SPOOL
    and existing files are not changed.
    """
    from servonode.cli.start_checks import check_ending
    from servonode.record.recover import recover_rows

    check_ending(out, ".csv")
    verb.show_lines(recover_rows(spool, out, raw, code), as_json)
