"""The verbs that stop and pace the time of a simulated plant: pause, resume, step, speed."""

from functools import partial
from typing import Annotated, Any

import click

from servonode.cli import verb
from servonode.cli.command import argument, command
from servonode.cli.operate import EXITS, send
from servonode.cli.options import WHICH_RUN, AsJson, FiniteRange, OneRun

_command = partial(command, exits=EXITS, logs=False)
SIMULATED = "A machine that is not simulated has a time of its own, and its run refuses this."


def _pause(word: str, name: str | None, as_json: bool, **arguments: Any) -> None:
    """Send pause or step to a run, or to one robot of a launch, and say where each stands then."""
    from servonode.operator import operator_requests as operate
    from servonode.operator.find_runs import robots_of

    first, *others = robots_of(name)
    for answer in (operate.paused(word, first, **arguments), *map(operate.at_pause, others)):
        chosen = {key: answer[key] for key in ("run", "lifecycle", "t", "paused")}
        verb.show(chosen, as_json, f"{answer['run']}: paused at t = {answer['t']:.9g} s")


@_command(
    ("servonode pause", "servonode pause trailer_pursuit --json"),
    help="Pause a run: the time of its simulated plant stands still.\n\n"
    "It stands still from the next control instant on, until servonode resume or step. No timeout passes meanwhile, "
    f"and an emergency stop ends the pause. {SIMULATED} {WHICH_RUN}",
)
def pause(name: OneRun, as_json: AsJson) -> None:
    _pause("pause", name, as_json)


@_command(
    ("servonode resume", "servonode resume trailer_pursuit"),
    help=f"Let the time of a paused run pass again.\n\n{WHICH_RUN}",
)
def resume(name: OneRun, as_json: AsJson) -> None:
    from servonode.operator.find_runs import robots_of

    send(["resume"], robots_of(name)[0], as_json, "goes on")  # of one robot: all go on


class Periods(click.IntRange):
    """A number of control periods."""

    name = "number of periods"


@_command(
    ("servonode step", "servonode step 10", "servonode step 1 trailer_pursuit --json"),
    help="Let a paused run pass through N control periods (default: 1).\n\n"
    f"The command ends when the run is paused again. Without a controller a period is the time between two states. "
    f"{WHICH_RUN}",
)
def step(periods: Annotated[int, argument("[N]", Periods(min=1), default=1)], name: OneRun, as_json: AsJson) -> None:
    _pause("step", name, as_json, periods=periods)


class Factor(FiniteRange):
    """A number above 0, or max."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "max" else super().convert(value, param, ctx)


@_command(
    ("servonode speed 0.1", "servonode speed 2 trailer_pursuit", "servonode speed max"),
    help="Change how fast the time of a simulated plant passes.\n\n"
    "X is plant seconds per second of wall-clock time. A run in lockstep waits for its control instants then; with max "
    f"it goes as fast as its nodes answer again. {SIMULATED} {WHICH_RUN}",
)
def speed(
    factor: Annotated[float | str, argument("X", Factor(min=0, min_open=True))], name: OneRun, as_json: AsJson
) -> None:
    send(["speed"], name, as_json, f"speed {factor if factor == 'max' else format(factor, 'g')}", speed=factor)
