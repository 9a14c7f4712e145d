"""`servonode region`, `robustness`, `tune` and `fastest`: rows of what calls a method of `Loop`."""

import click

from servonode.cli.command import option
from servonode.cli.methods import Method, MethodVerb
from servonode.cli.options import COUNT

TRIES, MANY = click.IntRange(min=1, max=10_000), 1_000_000
KEPT = (
    'What a run must keep besides, as "max(abs(phi)) < 1.5" or "NAME: max(abs(phi)) < 1.5" (repeatable); kept: all of '
    "[controller.keep], whether or not it reaches its goal."
)
OPTIONS = {  # of parameters that several methods have
    "over": option("A key of FILE and the range in which it varies (repeatable).", "KEY=LOW:HIGH", required=True),
    "require": option(KEPT, "MEASURE<NUMBER"),
    "threads": option("Number of threads (default: one per processor).", "N", COUNT),
}
METHODS = {
    "region": Method(
        "Find the starts from which FILE reaches its goal.\n\n"
        "One range or two are tried on a grid that is refined at the boundaries, more of them at random. A run reaches "
        "its goal where its residuals are small beside the goal in the last quarter, without a fault.",
        (
            "servonode region trailer_look_ahead --over plant.initial.phi=-3:3 --over plant.initial.psi=-3:3",
            'servonode region trailer_look_ahead --over plant.initial.phi=-3:3 --require "folds: max(abs(phi)) < 1.5"',
            "servonode region sphero_pursuit --over plant.initial.X=-9:9 --over plant.initial.Y=-9:9 --points 33",
        ),
        options=OPTIONS
        | {
            "points": option("Grid nodes along each range at first.", "N", click.IntRange(3, 257)),
            "runs": option("Try so many values at random, without a grid.", "N", click.IntRange(1, MANY)),
        },
        strict=False,
    ),
    "robustness": Method(
        "Find how much error, noise and delay FILE bears.\n\n"
        "The law keeps its parameters and rates while those of the plant, the noise, a delay that it does not know and "
        "the control period grow, one at a time. A margin is the largest size at which 90 % of the runs reach their "
        "goal.",
        (
            "servonode robustness trailer_pursuit --set run.duration=20",
            'servonode robustness trailer_pursuit --require "max(abs(residual_speed)) < 0.05" --seeds 20',
        ),
        options=OPTIONS | {"seeds": option("Runs with other seeds at each size where noise acts.", "N", TRIES)},
    ),
    "tune": Method(
        "Find the numbers of FILE for which a cost is least.\n\n"
        "The default cost is the integrals of the residuals and a tenth of the effort, both over those of FILE itself. "
        "The best candidate that check passes is printed as lines of a launch file.",
        (
            "servonode tune trailer_look_ahead --over controller.gains.lambda=0.2:20",
            'servonode tune sphero_line --over controller.gains.lambda=1:20 --cost "integral(abs(residual_rolling))"',
        ),
        options=OPTIONS
        | {
            "cost": option('What is to be least, as "integral(abs(residual_x)) + 0.1*max(U1)".', "EXPRESSION"),
            "runs": option("Number of runs at most.", "N", click.IntRange(10, MANY)),
            "seeds": option("Runs of each candidate where noise acts.", "N", click.IntRange(1, 1000)),
        },
        strict=False,
    ),
    "fastest": Method(
        "Find how fast the goal of FILE may be driven.\n\n"
        "The time of the goal's functions of t runs faster, and the run is as much shorter. The largest speed is found "
        "by bisection over runs; the input that is at its limit first is named with its time.",
        ("servonode fastest snowboarder_too_weak", "servonode fastest trailer_pursuit --set plant.actuator.limit=0.4"),
        strict=False,
    ),
}

region, robustness, tune, fastest = (MethodVerb(name, row) for name, row in METHODS.items())
