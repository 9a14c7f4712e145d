"""`servonode region`, `robustness`, `tune` and `fastest`: what runs with other numbers tell, one picture each."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Protocol

import click

from servonode.cli import verb
from servonode.cli.command import command, option
from servonode.cli.options import COUNT, AsJson, Launch, Picture

EXITS = {0: "computed", 1: "the picture could not be made", **verb.BAD_USAGE, **verb.INTERRUPTED}
PIXELS_PER_INCH = 270


class _Answer(Protocol):
    """What each of these commands finds."""

    def as_dict(self) -> dict[str, Any]: ...

    def plot(self) -> Any: ...


KEYS = "A key of FILE and the range in which it varies (repeatable)."
KEPT = 'What a run must keep besides, as "max(abs(phi)) < 1.5" or "NAME: max(abs(phi)) < 1.5" (repeatable).'
Over = Annotated[tuple[str, ...], option(KEYS, "KEY=LOW:HIGH", required=True)]
Require = Annotated[tuple[str, ...], option(KEPT, "MEASURE<NUMBER")]
Threads = Annotated[int | None, option("Number of threads (default: one per processor).", "N", COUNT)]
TRIES, MANY = click.IntRange(min=1, max=10_000), 1_000_000


@command(
    (
        "servonode region trailer_look_ahead --over plant.initial.phi=-3:3 --over plant.initial.psi=-3:3",
        'servonode region trailer_look_ahead --over plant.initial.phi=-3:3 --require "folds: max(abs(phi)) < 1.5"',
        "servonode region sphero_pursuit --over plant.initial.X=-9:9 --over plant.initial.Y=-9:9 --points 33",
    ),
    EXITS,
)
def region(
    launch: Launch,
    over: Over,
    require: Require,
    points: Annotated[int | None, option("Grid nodes along each range at first.", "N", click.IntRange(3, 257))],
    runs: Annotated[int | None, option("Try so many values at random, without a grid.", "N", click.IntRange(1, MANY))],
    threads: Threads,
    as_json: AsJson,
    out: Picture = Path("region.png"),
) -> None:
    """Find the starts from which FILE reaches its goal.

    One range or two are tried on a grid that is refined at the boundaries, more of them at random. A run reaches its
    goal where its residuals are small beside the goal in the last quarter, without a fault.
    """
    from servonode.sweeps.ranges import stated_ranges
    from servonode.sweeps.region import region as region_of

    ranges = stated_ranges(over)
    _show(lambda: region_of(launch.resolved(strict=False), ranges, require, points, runs, threads), as_json, out)


@command(
    (
        "servonode robustness trailer_pursuit --set run.duration=20",
        'servonode robustness trailer_pursuit --require "max(abs(residual_speed)) < 0.05" --seeds 20',
    ),
    EXITS,
)
def robustness(
    launch: Launch,
    require: Require,
    *,
    seeds: Annotated[int, option("Runs with other seeds at each size where noise acts.", "N", TRIES)] = 40,
    threads: Threads,
    as_json: AsJson,
    out: Picture = Path("robustness.png"),
) -> None:
    """Find how much error, noise and delay FILE bears.

    The law keeps its parameters and rates while those of the plant, the noise, a delay that it does not know and the
    control period grow, one at a time. A margin is the largest size at which 90 % of the runs reach their goal.
    """
    from servonode.sweeps.robustness import robustness as robustness_of

    _show(lambda: robustness_of(launch.resolved(), require, seeds, threads), as_json, out)


COST = 'What is to be least, as "integral(abs(residual_x)) + 0.1*max(U1)".'


@command(
    (
        "servonode tune trailer_look_ahead --over controller.gains.lambda=0.2:20",
        'servonode tune sphero_line --over controller.gains.lambda=1:20 --cost "integral(abs(residual_rolling))"',
    ),
    EXITS,
)
def tune(
    launch: Launch,
    over: Over,
    cost: Annotated[str | None, option(COST, "EXPRESSION")],
    require: Require,
    *,
    runs: Annotated[int, option("Number of runs at most.", "N", click.IntRange(10, MANY))] = 600,
    seeds: Annotated[int, option("Runs of each candidate where noise acts.", "N", click.IntRange(1, 1000))] = 5,
    threads: Threads,
    as_json: AsJson,
    out: Picture = Path("tune.png"),
) -> None:
    """Find the numbers of FILE for which a cost is least.

    The default cost is the integrals of the residuals and a tenth of the effort, both over those of FILE itself. The
    best candidate that check passes is printed as lines of a launch file.
    """
    from servonode.sweeps.ranges import stated_ranges
    from servonode.sweeps.tune import tune as tuned

    ranges = stated_ranges(over)
    _show(lambda: tuned(launch.resolved(strict=False), ranges, cost, require, runs, seeds, threads), as_json, out)


@command(
    ("servonode fastest snowboarder_too_weak", "servonode fastest trailer_pursuit --set plant.actuator.limit=0.4"),
    EXITS,
)
def fastest(launch: Launch, as_json: AsJson, out: Picture = Path("fastest.png")) -> None:
    """Find how fast the goal of FILE may be driven.

    The time of the goal's functions of t runs faster, and the run is as much shorter. The largest speed is found by
    bisection over runs; the input that is at its limit first is named with its time.
    """
    from servonode.sweeps.fastest import fastest as fastest_of

    _show(lambda: fastest_of(launch.resolved(strict=False)), as_json, out)


def _show(find: Callable[[], _Answer], as_json: bool, out: Path) -> None:
    """Print what was found and write its picture; exit code 1 where that cannot be."""
    from servonode.cli.start_checks import check_picture

    check_picture(out)
    answer = find()
    failure = verb.made(lambda: answer.plot().savefig(out, dpi=PIXELS_PER_INCH))
    click.echo(json.dumps(answer.as_dict() | {"picture": None if failure else str(out)}) if as_json else repr(answer))
    line = f"servonode: {out}: {failure}" if failure else f"  picture  {out}"
    click.echo(line, err=as_json or bool(failure))
    sys.exit(int(bool(failure)))
