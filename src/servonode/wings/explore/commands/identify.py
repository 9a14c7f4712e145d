"""`servonode identify`: parameters of a machine from recordings of it."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from servonode.cli import verb
from servonode.cli.command import argument, command, option, output
from servonode.cli.options import ABOVE_ZERO, AsJson, Code, Overrides

if TYPE_CHECKING:
    from servonode.wings.explore.identification.excitation import NextExperiment
    from servonode.wings.explore.identification.identification import Estimate, Identification

PARAMETERS = "The parameters of the machine to identify."
SEGMENT = "Estimate a new initial state after this time (default: as rarely as the motion allows)."
WRITE = "Put [plant.parameters] into this launch file, or a new file."
PICTURE = "Draw what was measured and fitted, residuals and intervals."
NEXT = "Write the launch file of an experiment that would tell more."


@command(
    (
        "servonode identify run.mcap --parameters m1,c_w",
        "servonode identify monday.mcap tuesday.mcap --parameters m1,I1,c_w --output fit.png",
        "servonode identify run.mcap --parameters m1,c_w --write my_robot.toml",
        "servonode identify run.mcap --parameters m1,m2,I2 --next next.toml",
    ),
    {0: "identified", 1: "the record does not tell some of the parameters", **verb.BAD_USAGE, **verb.INTERRUPTED},
    section="Explore",
)
def identify(
    recordings: Annotated[tuple[Path, ...], argument("RECORDING...", required=True)],
    parameters: Annotated[str, option(PARAMETERS, "NAME,NAME", required=True)],
    overrides: Overrides,
    code: Code,
    as_json: AsJson,
    segment: Annotated[float | None, option(SEGMENT, "SECONDS", ABOVE_ZERO)],
    write: Annotated[Path | None, option(WRITE, "FILE.toml")],
    picture: Annotated[Path | None, output(PICTURE, "FILE.png")],
    next_file: Annotated[Path | None, option(NEXT, "FILE.toml", flag="--next")],
    no_law: Annotated[bool, option("Do not simulate how the residuals of the law change.")],
) -> None:
    """Identify parameters of a machine from recordings.

    RECORDING is the .mcap file of a run, simulated or on hardware. The parameters begin at what the law believes. Each
    estimate has a 95 % interval; what the record tells only in combination is named.
    """
    from servonode.cli.start_checks import check_picture, check_writable
    from servonode.wings.explore.identification.excitation import write_next
    from servonode.wings.explore.identification.parameters_section import section_text, write_section
    from servonode.wings.explore.identification.recordings import identification_of

    for file in (write, next_file):
        check_writable(file)
    if picture is not None:
        check_picture(picture)
    names = [name.strip() for name in parameters.split(",") if name.strip()]
    found = identification_of(recordings, names, segment, not no_law, overrides, code)
    estimates = found.estimates.items()
    values = {name: each.shown for name, each in estimates}
    remarks = {name: f"± {each.error:.2g} (95 %)" if isfinite(each.error) else each.told for name, each in estimates}
    verb.show(found.as_dict(), as_json, text(found))
    if write is not None:
        write_section(write, values, remarks)
        click.echo(f"parameters: {write}", err=as_json)
    elif not as_json:
        click.echo("\n" + section_text(values, remarks), nl=False)
    if picture is not None:
        from servonode.wings.explore.identification.figures import write_picture

        write_picture(found, picture)
        click.echo(f"picture: {picture}", err=as_json)
    if next_file is not None:
        proposed = found.next_experiment()
        write_next(proposed, found.closed_loop, next_file)
        click.echo(next_text(proposed, next_file), err=as_json)
    raise SystemExit(0 if all(isfinite(each.error) for _, each in estimates) else 1)


def text(found: "Identification") -> str:
    """All that was found, for people."""
    from servonode.wings.explore.identification.identification import law_text

    of = f"{found.duration:.4g} s, {found.fit.n_measurements} measurements"
    head = f"{found.machine}: {', '.join(found.records)} ({of})"
    rows = [["parameter", "before", "estimate", "95 % interval", "unit", "told by the record"]]
    rows += [_estimate_row(each) for each in (*found.estimates.values(), *found.combinations)]
    channels = [["measured", "rms of residuals", "quantum", "fit", "white", "record"]]
    for each in found.residuals:
        unit, white = "" if each.unit == "1" else f" {each.unit}", "yes" if each.white else "no"
        quantum = f"{each.quantum:.3g}{unit}" if each.quantum else "-"
        channels += [[each.channel, f"{each.rms:.3g}{unit}", quantum, f"{each.fit:.2%}", white, each.experiment]]
    if len(found.records) == 1:
        channels = [each[:-1] for each in channels]
    lines = [head, *verb.aligned(rows), "", *verb.aligned(channels)]
    if found.law:
        law = [(name, law_text(*each)) for name, each in found.law.items()]
        lines += ["", *verb.aligned([("residual of the law", "believing before -> believing the estimates"), *law])]
    return "\n".join([*lines, *(f"note: {each}" for each in found.notes)])


def _estimate_row(each: "Estimate") -> list[str]:
    from servonode.wings.explore.identification.identification import rounded

    value, interval = f"left at {each.value:.5g}", "-"
    if isfinite(each.error):
        value = rounded(each.value, each.error)
        interval = " to ".join(rounded(end, each.error) for end in each.interval)
    return [each.name, f"{each.before:.5g}", value, interval, "" if each.unit == "1" else each.unit, each.told]


def next_text(proposed: "NextExperiment", file: Path) -> str:
    """What the next experiment is, and what is to be expected of it."""
    what = "sines as inputs" if proposed.kind == "inputs" else "sines added to the goals of the law"
    rows = [("parameter", "95 % now", "with it")]
    rows += [(name, _half(now), _half(proposed.expected[name])) for name, now in proposed.now.items()]
    head = f"next experiment: {file} ({what}, {proposed.duration:g} s; servonode run {file} --record)"
    return "\n".join([head, *verb.aligned(rows)])


def _half(error: float) -> str:
    return f"± {error:.2g}" if isfinite(error) else "not told"
