"""`servonode region`, `robustness`, `tune` and `fastest`: what runs with other numbers tell, one picture each."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import click

from servonode.cli import verb
from servonode.cli.verb import F

EXITS = {0: "computed", 1: "the picture could not be made", **verb.BAD_USAGE, **verb.INTERRUPTED}


class _Answer(Protocol):
    """What each of these commands finds."""

    def as_dict(self) -> dict[str, Any]: ...

    def plot(self) -> Any: ...


def _over(required: bool) -> Callable[[F], F]:
    text = "A key of FILE and the range in which it varies (repeatable)."
    return click.option("--over", "over", multiple=True, required=required, metavar="KEY=LOW:HIGH", help=text)


def _picture(name: str) -> Callable[[F], F]:
    text = "Where to write the picture."
    default = Path(name)
    return click.option("--out", type=verb.FILE, default=default, show_default=True, metavar="FILE.png", help=text)


_require = click.option(
    "--require",
    "require",
    multiple=True,
    metavar="MEASURE<NUMBER",
    help='What a run must keep besides, as "max(abs(phi)) < 1.5" or "NAME: max(abs(phi)) < 1.5" (repeatable).',
)
_threads = click.option(
    "--threads", type=click.IntRange(min=1), metavar="N", help="Number of threads (default: one per processor)."
)


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode region trailer_look_ahead --over plant.initial.phi=-3:3 --over plant.initial.psi=-3:3",
        'servonode region trailer_look_ahead --over plant.initial.phi=-3:3 --require "folds: max(abs(phi)) < 1.5"',
        "servonode region sphero_pursuit --over plant.initial.X=-9:9 --over plant.initial.Y=-9:9 --points 33",
    ),
    exits=EXITS,
)
@verb.launch_file
@_over(required=True)
@_require
@click.option(
    "--points", type=click.IntRange(min=3, max=257), metavar="N", help="Grid nodes along each range at first."
)
@click.option(
    "--runs",
    type=click.IntRange(min=1, max=1_000_000),
    metavar="N",
    help="Try so many values at random, without a grid.",
)
@_threads
@verb.as_json
@_picture("region.png")
def region(
    file: str,
    overrides: tuple[str, ...],
    code: bool | None,
    over: tuple[str, ...],
    require: tuple[str, ...],
    points: int | None,
    runs: int | None,
    threads: int | None,
    as_json: bool,
    out: Path,
) -> None:
    """Find the starts from which FILE reaches its goal.

    One range or two are tried on a grid that is refined at the boundaries, more of them at random. A run reaches its
    goal where its residuals are small beside the goal in the last quarter, without a fault.
    """
    from servonode.cli.start_checks import check_picture
    from servonode.sweeps.ranges import stated_ranges
    from servonode.sweeps.region import region as region_of

    check_picture(out)
    ranges = stated_ranges(over)
    closed_loop = verb.resolved(file, overrides, code, strict=False)
    _show(region_of(closed_loop, ranges, require, points, runs, threads), as_json, out)


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode robustness trailer_pursuit --set run.duration=20",
        'servonode robustness trailer_pursuit --require "max(abs(residual_speed)) < 0.05" --seeds 20',
    ),
    exits=EXITS,
)
@verb.launch_file
@_require
@click.option(
    "--seeds",
    type=click.IntRange(min=1, max=10_000),
    default=40,
    show_default=True,
    metavar="N",
    help="Runs with other seeds at each size where noise acts.",
)
@_threads
@verb.as_json
@_picture("robustness.png")
def robustness(
    file: str,
    overrides: tuple[str, ...],
    code: bool | None,
    require: tuple[str, ...],
    seeds: int,
    threads: int | None,
    as_json: bool,
    out: Path,
) -> None:
    """Find how much error, noise and delay FILE bears.

    The law keeps its parameters and rates while those of the plant, the noise, a delay that it does not know and the
    control period grow, one at a time. A margin is the largest size at which 90 % of the runs reach their goal.
    """
    from servonode.cli.start_checks import check_picture
    from servonode.sweeps.robustness import robustness as robustness_of

    check_picture(out)
    _show(robustness_of(verb.resolved(file, overrides, code), require, seeds, threads), as_json, out)


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode tune trailer_look_ahead --over controller.gains.lambda=0.2:20",
        'servonode tune sphero_line --over controller.gains.lambda=1:20 --cost "integral(abs(residual_rolling))"',
    ),
    exits=EXITS,
)
@verb.launch_file
@_over(required=True)
@click.option("--cost", metavar="EXPRESSION", help='What is to be least, as "integral(abs(residual_x)) + 0.1*max(U1)".')
@_require
@click.option(
    "--runs",
    type=click.IntRange(min=10, max=1_000_000),
    default=600,
    show_default=True,
    metavar="N",
    help="Number of runs at most.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1, max=1000),
    default=5,
    show_default=True,
    metavar="N",
    help="Runs of each candidate where noise acts.",
)
@_threads
@verb.as_json
@_picture("tune.png")
def tune(
    file: str,
    overrides: tuple[str, ...],
    code: bool | None,
    over: tuple[str, ...],
    cost: str | None,
    require: tuple[str, ...],
    runs: int,
    seeds: int,
    threads: int | None,
    as_json: bool,
    out: Path,
) -> None:
    """Find the numbers of FILE for which a cost is least.

    The default cost is the integrals of the residuals and a tenth of the effort, both over those of FILE itself. The
    best candidate that check passes is printed as lines of a launch file.
    """
    from servonode.cli.start_checks import check_picture
    from servonode.sweeps.ranges import stated_ranges
    from servonode.sweeps.tune import tune as tuned

    check_picture(out)
    ranges = stated_ranges(over)
    closed_loop = verb.resolved(file, overrides, code, strict=False)
    _show(tuned(closed_loop, ranges, cost, require, runs, seeds, threads), as_json, out)


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode fastest snowboarder_too_weak",
        "servonode fastest trailer_pursuit --set plant.actuator.limit=0.4",
    ),
    exits=EXITS,
)
@verb.launch_file
@verb.as_json
@_picture("fastest.png")
def fastest(file: str, overrides: tuple[str, ...], code: bool | None, as_json: bool, out: Path) -> None:
    """Find how fast the goal of FILE may be driven.

    The time of the goal's functions of t runs faster, and the run is as much shorter. The largest speed is found by
    bisection over runs; the input that is at its limit first is named with its time.
    """
    from servonode.cli.start_checks import check_picture
    from servonode.sweeps.fastest import fastest as fastest_of

    check_picture(out)
    _show(fastest_of(verb.resolved(file, overrides, code, strict=False)), as_json, out)


def _show(answer: _Answer, as_json: bool, out: Path) -> None:
    """Print what was found and write its picture; exit code 1 where that cannot be."""
    failure = verb.made(lambda: answer.plot().savefig(out, dpi=PIXELS_PER_INCH))
    click.echo(json.dumps(answer.as_dict() | {"picture": None if failure else str(out)}) if as_json else repr(answer))
    line = f"servonode: {out}: {failure}" if failure else f"  picture  {out}"
    click.echo(line, err=as_json or bool(failure))
    sys.exit(int(bool(failure)))


PIXELS_PER_INCH = 270
