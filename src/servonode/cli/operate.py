"""The operator's verbs; they load nothing heavy, so that a stop is sent at once."""

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, TextIO

import click

from servonode.cli import complete, verb
from servonode.cli.command import Choice, argument, command, option
from servonode.cli.options import ABOVE_ZERO, WHICH_RUN, AsJson, FiniteRange, OneRun

EXITS = {
    0: "done",
    1: "the plant refused, or did not answer",
    2: "bad usage, no such run, or several runs match",
    **verb.INTERRUPTED,
}
_command = partial(command, exits=EXITS, logs=False)
SIMULATED = "A machine that is not simulated has a time of its own, and its run refuses this."


def send(words: Sequence[str], name: str | None, as_json: bool, text: str = "", **arguments: Any) -> None:
    """Send requests to the plant of a run, or of each robot, and print the last answer.

    It shows the lifecycle, or `text` in its place.
    """
    from servonode.operator import operator_requests as operate
    from servonode.operator.find_runs import robots_of

    for each in robots_of(name):
        answer = [operate.order(word, each, **arguments) for word in words][-1]
        _show(answer, as_json, text or answer["lifecycle"], **arguments)


def _show(answer: Mapping[str, Any], as_json: bool, text: str, *keys: str, **more: Any) -> None:
    """Print the answer of a run: its values of these keys and more as JSON, or the text, with the answer's note."""
    shown = {key: answer[key] for key in ("run", *(keys or ["lifecycle"]), "note") if key in answer}
    note = f"; {answer['note']}" if "note" in answer else ""
    verb.show(shown | more, as_json, f"{answer['run']}: {text}{note}")


@_command(
    ("servonode arm", "servonode arm trailer_pursuit", "servonode arm my_robot --wait 60"),
    exits={**EXITS, 1: "not armed yet: the plant refused, or did not answer", 2: f"{EXITS[2]}; with --wait: never"},
    help="Arm a run, so that commands reach its machine.\n\n"
    "With --wait the command tries again until the machine has answered. It ends at once where waiting is of no use: "
    f"the run has ended, or a fault is latched. {WHICH_RUN}",
)
def arm(
    name: OneRun,
    wait: Annotated[float, option("Try for so many seconds.", "SECONDS", FiniteRange(min=0, max=86400), default=0.0)],
    as_json: AsJson,
) -> None:
    from servonode.operator import operator_requests as operate
    from servonode.operator.find_runs import robots_of

    for each in robots_of(name):
        answer = operate.armed(each, wait)
        _show(answer, as_json, answer["lifecycle"])


@_command(
    ("servonode goal x=1.0 y=2.0", "servonode goal v=0.3 my_robot"),
    exits={**EXITS, 1: "a goal was refused, or the target node did not answer"},
    help="Give a run goals from outside, by the names of its targets.\n\n"
    f"They are in SI units; a target takes them that has a bandwidth: [target.NAME] bandwidth = 5.0. {WHICH_RUN}",
)
def goal(
    words: Annotated[tuple[str, ...], argument("NAME=VALUE ... [RUN]", required=True, shell_complete=complete.runs)],
    as_json: AsJson,
) -> None:
    from servonode.operator.operator_requests import set_goal

    pairs = [word.partition("=") for word in words if "=" in word]
    runs = [word for word in words if "=" not in word]
    if not pairs or len(runs) > 1:
        raise click.UsageError("give one or more NAME=VALUE and at most one RUN, as in servonode goal x=1.0 y=2.0")
    values = {name: _number(name, text) for name, _, text in pairs}
    if len(values) < len(pairs):
        raise click.UsageError("a name is given twice; give each target one value")
    answer = set_goal(runs[0] if runs else None, values)
    shown = ", ".join(f"{name} = {value:g}" for name, value in values.items())
    _show(answer, as_json, f"{shown} from t = {answer['t']:.2f} s", "t", goal=values)


def _number(name: str, text: str) -> float:
    try:
        return float(FiniteRange().convert(text, None, None))
    except click.UsageError:
        raise click.UsageError(f"{name}={text} is not a number; give one in SI units, as {name}=1.5") from None


@_command(
    ("servonode disarm", "servonode disarm trailer_pursuit"),
    help=f"Disarm a run: its machine takes the safe action.\n\n"
    f"The machine ignores commands until the run is armed again. {WHICH_RUN}",
)
def disarm(name: OneRun, as_json: AsJson) -> None:
    send(["disarm"], name, as_json)


@_command(
    ("servonode reset", "servonode reset trailer_pursuit", "servonode reset --estop trailer_pursuit"),
    help="Clear a run's latched faults, but not an emergency stop.\n\n"
    f"The machine stays in its safe state until the run is armed. {WHICH_RUN}",
)
def reset(
    name: OneRun,
    estop_too: Annotated[bool, option("Clear an emergency stop as well.", flag="--estop")],
    origin: Annotated[
        bool, option("Accept the positions of a machine that has started anew, as a board after a reset.")
    ],
    as_json: AsJson,
) -> None:
    words = ["reset_origin"] if origin else []
    words += ["reset_estop"] if estop_too else [] if origin else ["reset"]
    send(words, name, as_json)


@_command(
    ("servonode estop", "servonode estop trailer_pursuit", "servonode estop left_arm right_arm --json"),
    exits=EXITS | {0: "every run confirmed the stop", 1: "a run did not confirm", 2: "bad usage, or no such run"},
)
def estop(
    names: Annotated[tuple[str, ...], argument("[RUN ...]", shell_complete=complete.runs)], as_json: AsJson
) -> None:
    """Emergency stop: the machine takes its safe action at once.

    The stop is latched until servonode reset --estop. Without RUN, the command stops every run of this user, wherever
    it was started. It sends a signal to the process of each plant and then asks the plant to confirm.
    """
    from servonode.operator.find_runs import distrusted, robots_of
    from servonode.operator.operator_requests import stop_all

    stops, unknown = stop_all([run for name in names for run in robots_of(name) if run])
    code = 1 if any(not stop.confirmed for stop in stops) else 2 if unknown else 0
    for stop in stops:
        line = f"servonode: {stop.run}: {stop.text}"
        if stop.confirmed:
            how = f"process {stop.pid} was signalled" if stop.signalled else "by request only"
            line = f"{stop.run}: stopped ({stop.lifecycle}), confirmed; {how}"
        click.echo(line, err=as_json or not stop.confirmed)
    for error in unknown:
        click.echo(f"servonode: {error}", err=True)
    for problem in distrusted() if not unknown else ():
        click.echo(f"servonode: not looked at: {problem}", err=True)
    if as_json:
        click.echo(json.dumps({"runs": [stop.as_dict() for stop in stops], "exit": code}))
    sys.exit(code)


@_command(
    ("servonode status", "servonode status trailer_pursuit --json", "servonode status --watch"),
    exits={**EXITS, 0: "every node answered; with --watch: the run has ended", 1: "a node did not answer"},
    help=f"Show the status of a run: its nodes, faults, times and counts.\n\n{WHICH_RUN}",
)
def status(
    name: OneRun,
    watched: Annotated[bool, option("Show it again twice a second, until the run ends.", flag="--watch")],
    as_json: AsJson,
) -> None:
    from servonode.operator import operator_requests as operate
    from servonode.operator.find_runs import robots_of

    if watched:
        return watch(name, as_json)
    reports = [operate.status(each) for each in robots_of(name)]
    for report in reports:
        click.echo(json.dumps(report) if as_json else operate.status_text(report))
    sys.exit(1 if any("error" in stands for report in reports for stands in report["nodes"].values()) else 0)


def _pause(word: str, name: str | None, as_json: bool, **arguments: Any) -> None:
    """Send pause or step to a run, or to one robot of a launch, and say where each stands then."""
    from servonode.operator import operator_requests as operate
    from servonode.operator.find_runs import robots_of

    first, *others = robots_of(name)
    for answer in (operate.paused(word, first, **arguments), *map(operate.at_pause, others)):
        _show(answer, as_json, f"paused at t = {answer['t']:.9g} s", "lifecycle", "t", "paused")


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


PLACES = Choice(("drive", "sensor", "link", "node"))


@_command(
    (
        "servonode fault trailer_pursuit drive off U1",
        "servonode fault trailer_pursuit link delayed --size 0.1 --duration 2",
        "servonode fault trailer_pursuit node kill controller",
        "servonode fault my_robot link off --hardware",
    ),
    exits=EXITS | {0: "the fault is injected, or planned"},
)
def fault(
    run: Annotated[str, argument("RUN", shell_complete=complete.runs)],
    place: Annotated[str, argument("|".join(PLACES.choices), PLACES)],
    kind: Annotated[str, argument("KIND")],
    name: Annotated[str | None, argument("[NAME]", required=False)],
    at: Annotated[float | None, option("Begin at this plant time (default: now).", "SECONDS", FiniteRange(min=0))],
    duration: Annotated[float | None, option("End after this plant time (default: never).", "SECONDS", ABOVE_ZERO)],
    size: Annotated[float | None, option("How large it is, where its kind has a size.", "SIZE", ABOVE_ZERO)],
    hardware: Annotated[bool, option("Allow it in a machine that is no simulation.")],
    as_json: AsJson,
) -> None:
    """Inject a fault into a run, to see what finds it.

    KIND is off, stuck, wrong_sign, intermittent, garbage, noise, slow or delayed of a drive or a sensor; off,
    intermittent, delayed, drop or garbage of the link; stall or kill of a node. NAME is one input, state, sensor,
    direction of the link (state or applied), or node. The record tells the fault with the one that was found after it.
    """
    from servonode.closed_loop.launch_error import unknown
    from servonode.operator.operator_requests import order
    from servonode.plants.injection import KINDS

    if kind not in KINDS[place]:
        raise click.UsageError(unknown(f"{kind} is no fault of a {place}", kind, KINDS[place]))
    stated: dict[str, Any] = {"on": place, "kind": kind, "name": name, "hardware": hardware}
    stated |= {"at": at, "duration": duration, "size": size}
    stated = {key: value for key, value in stated.items() if value is not None}
    answer = order("fault", run, fault=stated)
    what = " ".join(filter(None, (place, kind, name)))
    _show(answer, as_json, f"{what} from t = {answer['t']:.3f} s", "t", **stated)


EVERY_S = 0.5  # wall clock
UP, CLEAR = "\x1b[{}F", "\x1b[J"  # so many lines up, to their beginning; clear to the end of the screen


class Screen:
    """Shows a text of several lines in the place of the one before, in a terminal; in a pipe its first lines alone."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._in_place = self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._lines = 0  # of the text that is shown

    def show(self, report: Mapping[str, Any]) -> None:
        """Show the report of `status`."""
        from servonode.operator.operator_requests import status_line, status_text

        if not self._in_place:
            click.echo(status_line(report), file=self._stream)
            return
        size = shutil.get_terminal_size()
        lines = [line[: size.columns - 1] for line in status_text(report).splitlines()][: size.lines - 1]
        up = UP.format(self._lines) if self._lines else ""
        self._lines = len(lines)
        click.echo(up + CLEAR + "\n".join(lines), file=self._stream)


def watch(name: str | None, as_json: bool) -> None:
    """Show the status of a run until it ends; a successor with its name is another run.

    Raises:
        BusError: there is no such run at the beginning.
    """
    from servonode.bus.run_folder import BusError
    from servonode.operator import operator_requests as operate
    from servonode.operator.find_runs import find_run

    run, screen = find_run(name), Screen()
    with verb.printing():
        with suppress(BusError):  # it ends while it is looked for
            while run.lives():
                report = operate.status(str(run.path))
                if report["pid"] != run.registry.get("pid", 0) or not run.lives():
                    break
                if as_json:
                    click.echo(json.dumps(report))
                else:
                    screen.show(report)
                time.sleep(EVERY_S)
        click.echo(f"{run.name}: the run has ended", err=True)
