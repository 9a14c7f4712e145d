"""The operator's verbs; they load nothing heavy, so that a stop is sent at once."""

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import click

from servonode.cli import complete, verb
from servonode.cli.command import argument, command, option
from servonode.cli.options import WHICH_RUN, AsJson, FiniteRange, OneRun

EXITS = {
    0: "done",
    1: "the plant refused, or did not answer",
    2: "bad usage, no such run, or several runs match",
    **verb.INTERRUPTED,
}
_command = partial(command, logs=False)


def send(words: Sequence[str], name: str | None, as_json: bool, text: str = "", **arguments: Any) -> None:
    """Send requests to the plant of a run, or of each robot, and print the last answer.

    It shows the lifecycle, or `text` in its place.
    """
    from servonode.operator import operator_requests as operate
    from servonode.operator.find_runs import robots_of

    for each in robots_of(name):
        answer = [operate.order(word, each, **arguments) for word in words][-1]
        chosen = {key: answer[key] for key in ("run", "lifecycle", "note") if key in answer}
        note = f"; {answer['note']}" if "note" in answer else ""
        verb.show(chosen | arguments, as_json, f"{answer['run']}: {text or answer['lifecycle']}{note}")


@_command(
    ("servonode arm", "servonode arm trailer_pursuit", "servonode arm my_robot --wait 60"),
    {**EXITS, 1: "not armed yet: the plant refused, or did not answer", 2: f"{EXITS[2]}; with --wait: never"},
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
        chosen = {key: answer[key] for key in ("run", "lifecycle")}
        verb.show(chosen, as_json, f"{answer['run']}: {answer['lifecycle']}")


@_command(
    ("servonode goal x=1.0 y=2.0", "servonode goal v=0.3 my_robot"),
    {**EXITS, 1: "a goal was refused, or the target node did not answer"},
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
    said = {"run": answer["run"], "goal": values, "t": answer["t"]}
    verb.show(said, as_json, f"{answer['run']}: {shown} from t = {answer['t']:.2f} s")


def _number(name: str, text: str) -> float:
    try:
        return float(FiniteRange().convert(text, None, None))
    except click.UsageError:
        raise click.UsageError(f"{name}={text} is not a number; give one in SI units, as {name}=1.5") from None


@_command(
    ("servonode disarm", "servonode disarm trailer_pursuit"),
    EXITS,
    help=f"Disarm a run: its machine takes the safe action.\n\n"
    f"The machine ignores commands until the run is armed again. {WHICH_RUN}",
)
def disarm(name: OneRun, as_json: AsJson) -> None:
    send(["disarm"], name, as_json)


@_command(
    ("servonode reset", "servonode reset trailer_pursuit", "servonode reset --estop trailer_pursuit"),
    EXITS,
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
    EXITS | {0: "every run confirmed the stop", 1: "a run did not confirm", 2: "bad usage, or no such run"},
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
    {**EXITS, 0: "every node answered; with --watch: the run has ended", 1: "a node did not answer"},
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
        from servonode.cli.watch import watch

        watch(name, as_json)
        return
    reports = [operate.status(each) for each in robots_of(name)]
    for report in reports:
        click.echo(json.dumps(report) if as_json else operate.status_text(report))
    sys.exit(1 if any("error" in stands for report in reports for stands in report["nodes"].values()) else 0)
