"""The command line `servonode`."""

import functools
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import click

from servonode.version import VERSION

PICTURES = (".png", ".pdf", ".svg", ".jpg")
EXIT_HELP = (
    "Exit codes: 0 ended well, 1 a fault during the run, a plant that was told to stop, an output that could not be "
    "made, or a verdict of no, 2 bad usage or input, 129, 130, 143 broken off by SIGHUP, Ctrl-C, SIGTERM."
)
OPERATOR_HELP = (
    "Exit codes: 0 done, 1 refused by the plant or not answered, 2 no such run or not clear which, 130 interrupted."
)
PROTOCOL_HELP = (
    "Exit codes: 0 nothing found, 1 something was found, 2 nobody there, bad usage or input, 130 interrupted."
)


class _FiniteRange(click.FloatRange):
    """A number within bounds; neither nan nor inf is one, whatever the bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class _Examples(click.Command):
    """A command whose help begins with examples."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in self.examples))
        formatter.write_paragraph()
        super().format_help(ctx, formatter)


def _reports_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what is wrong with the user's input into one line and exit code 2."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        import logging

        from servonode.analysis.simulate import SimulationError
        from servonode.bus import BusError
        from servonode.cli.start_checks import StartError
        from servonode.closed_loop.launch_file import LaunchError
        from servonode.mechanics.cache import CacheError
        from servonode.mechanics.description import ModelError
        from servonode.nodes.row_log import RecordTooLarge
        from servonode.nodes.spool import SpoolError
        from servonode.views.display import NoDisplay
        from servonode.views.panel_choice import FieldError

        logging.basicConfig(format="servonode: %(message)s", stream=sys.stderr)
        logging.getLogger("servonode").setLevel(logging.INFO)  # libraries only warn
        try:
            return function(*args, **kwargs)
        except (
            *(LaunchError, ModelError, CacheError, BusError, RecordTooLarge, NoDisplay, FieldError),
            *(SpoolError, StartError),
        ) as error:
            click.echo(f"servonode: {error}", err=True)
            sys.exit(2)
        except OSError as error:
            where = error.filename or "the output"
            click.echo(f"servonode: {where}: cannot be written ({error.strerror}); name another file", err=True)
            sys.exit(2)
        except SimulationError as error:
            click.echo(f"servonode: fault: {error}", err=True)
            sys.exit(1)
        except KeyboardInterrupt as interrupt:
            click.echo("servonode: interrupted", err=True)
            sys.exit(128 + getattr(interrupt, "number", signal.SIGINT))

    return wrapped


def _operates(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what an operator's verb meets into one line and an exit code; loads nothing heavy."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from servonode.bus.run_folder import BusError
        from servonode.nodes.operator_requests import OperatorError

        try:
            return function(*args, **kwargs)
        except BusError as error:
            click.echo(f"servonode: {error}", err=True)
            sys.exit(2)
        except (OperatorError, OSError, ValueError) as error:  # refused, no answer, one that is none
            click.echo(f"servonode: {error}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("servonode: interrupted", err=True)
            sys.exit(130)

    return wrapped


_file = click.argument("file", metavar="FILE")
_set = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a launch-file key (repeatable)."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
_no_code = click.option(
    "--no-code", is_flag=True, help="Refuse a FILE that names Python code: it would run with all your rights."
)
_out = click.option("--out", type=click.Path(path_type=Path), metavar="FILE.csv", help="Write the whole run.")
_every = click.option("--every", type=click.IntRange(min=1), help="Plant steps per recorded row.")
_panels = click.option(
    "--panel", "panels", multiple=True, metavar="NAME,NAME", help="A panel of the window with these (repeatable)."
)
_window = click.option(
    "--window", type=_FiniteRange(min=0, min_open=True), metavar="SECONDS", help="Plant time that the window shows."
)
_save = click.option("--save", type=click.Path(path_type=Path), metavar="FILE.png", help="Where the window's s saves.")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_HELP,
    invoke_without_command=True,
)
@click.version_option(VERSION, message="servonode %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Turn equations into a running control system.

    FILE is the path of a launch file or the bare name of a packaged one (servonode list launch).
    """
    from servonode.nodes.terminal import fill_closed

    ctx.obj = fill_closed()  # before anything is opened
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread per node; must precede numpy
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@main.command(
    cls=_Examples,
    examples=(
        "servonode run trailer_pursuit",
        "servonode run trailer_pursuit --set run.speed=1 --report pursuit.png",
        "servonode run trailer_pursuit --plot",
        "servonode run my_robot.toml --arm",
        "servonode run my_robot.toml --json --out my_robot.csv",
    ),
    epilog=EXIT_HELP,
)
@_file
@_set
@_no_code
@_json
@_out
@_every
@click.option("--name", help="Name of the run (default: the file's stem).")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE.png", help="Where the picture goes.")
@click.option("--no-report", is_flag=True, help="Draw no picture.")
@click.option("--plot", is_flag=True, help="Open a window on the run (servonode plot).")
@click.option("--arm", is_flag=True, help="Arm hardware at the start; else it waits for servonode arm.")
@_panels
@_window
@_save
@_reports_errors
def run(
    file: str,
    overrides: tuple[str, ...],
    no_code: bool,
    as_json: bool,
    out: Path | None,
    every: int | None,
    name: str | None,
    report: Path | None,
    no_report: bool,
    plot: bool,
    arm: bool,
    panels: tuple[str, ...],
    window: float | None,
    save: Path | None,
) -> None:
    """Run FILE: its nodes as processes over ZeroMQ."""
    from servonode.analysis.simulate import default_every
    from servonode.cli.console import StatusLine
    from servonode.cli.deliver import Signals
    from servonode.cli.start_checks import check_descriptors
    from servonode.closed_loop.closed_loop import assemble
    from servonode.closed_loop.launch_file import read_launch
    from servonode.nodes.launcher import Launcher
    from servonode.nodes.recording import Recording
    from servonode.nodes.terminal import last_words, never_waiting
    from servonode.views.display import check_display
    from servonode.views.panel_choice import chosen_panels
    from servonode.views.window_process import window_beside

    check_descriptors(click.get_current_context().obj or [], as_json)
    options = _window_options(plot, panels, window, save)
    if options:
        check_display()
    assembly = assemble(read_launch(file, overrides), code=not no_code)
    if options:
        chosen_panels(assembly, options.panels, timing=True)
    name = name or assembly.launch.name
    picture = None if no_report else report or Path(f"{name}.png")
    _check_writable(out)
    _check_picture(picture, assembly)
    rows = every or (1 if out else default_every(assembly))
    with Signals() as signals, never_waiting() as (printed, said), Recording(assembly, rows, out) as recording:
        line = StatusLine(assembly, name)
        with window_beside(name, options, line) as (open_window, progress):

            def begun() -> None:
                signals.raises = False  # the launcher hears them now, and when it has ended they come too late
                open_window()

            outcome = Launcher(assembly, name, rows, progress, begun, recording, arm=arm or None).launch()
        line.close()
        code = _deliver_run(outcome, recording, signals, name, as_json, out, picture)
        code = last_words(printed, said, code, as_json)
    sys.exit(code)


_run = click.argument("name", metavar="[RUN]", required=False)


def _verb(word: str, sentence: str) -> None:
    """Add a command that asks one thing of the plant of a run."""

    @main.command(
        word,
        cls=_Examples,
        examples=(f"servonode {word}", f"servonode {word} trailer_pursuit"),
        epilog=OPERATOR_HELP,
        help=f"{sentence}\n\n{_WHICH}",
    )
    @_run
    @_operates
    def command(name: str | None) -> None:
        _order(word, name)


def _order(word: str, name: str | None) -> None:
    """Have the plant of a run carry out a word, and print how it stands then."""
    from servonode.nodes import operator_requests as operate

    answer = operate.order(word, name)
    click.echo(f"{answer['run']}: {answer['lifecycle']}" + (f"; {answer['note']}" if "note" in answer else ""))


_WHICH = "RUN is the name of a run, or its folder; without it the one run of this user that is going on."
_verb("arm", "Arm a run: from now on commands reach its machine.")
_verb("disarm", "Disarm a run: the machine takes its safe action and ignores commands until it is armed.")


@main.command(
    cls=_Examples,
    examples=("servonode reset", "servonode reset trailer_pursuit", "servonode reset --estop trailer_pursuit"),
    epilog=OPERATOR_HELP,
    help="Let go of a run's latched faults, but not of an emergency stop; it stays safe until it is armed.\n\n"
    + _WHICH,
)
@_run
@click.option("--estop", "estop_too", is_flag=True, help="Release an emergency stop as well.")
@_operates
def reset(name: str | None, estop_too: bool) -> None:
    _order("reset_estop" if estop_too else "reset", name)


@main.command(
    cls=_Examples,
    examples=("servonode estop", "servonode estop trailer_pursuit", "servonode estop left_arm right_arm --json"),
    epilog="Exit codes: 0 every run has confirmed, 1 a run has not, 2 no such run, 130 interrupted.",
)
@click.argument("names", metavar="[RUN ...]", nargs=-1)
@_json
@_operates
def estop(names: tuple[str, ...], as_json: bool) -> None:
    """Emergency stop: the machine takes its safe action at once, until servonode reset --estop.

    Without a name: every run of this user that is going on, wherever it was started. A signal goes to each plant's
    process first; then the plant is asked to confirm.
    """
    from servonode.bus.places import distrusted
    from servonode.nodes.operator_requests import stop_all

    stops, unknown = stop_all(names)
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


@main.command(
    cls=_Examples,
    examples=("servonode status", "servonode status trailer_pursuit --json"),
    epilog=OPERATOR_HELP,
)
@_run
@_json
@_operates
def status(name: str | None, as_json: bool) -> None:
    """How a run stands: lifecycle and faults of each node, the rung, what was measured of time, what was counted.

    RUN is the name of a run, or its folder; without it the one run of this user that is going on.
    """
    from servonode.nodes import operator_requests as operate

    report = operate.status(name)
    click.echo(json.dumps(report) if as_json else operate.status_text(report))
    sys.exit(1 if any("error" in stands for stands in report["nodes"].values()) else 0)


@main.command(
    cls=_Examples,
    examples=(
        "servonode recover my_robot.csv.spool",
        "servonode recover my_robot.csv.spool --out recovered.csv",
        "servonode recover my_robot.csv.spool --raw --out recovered.csv",
    ),
    epilog=EXIT_HELP,
)
@click.argument("spool", type=click.Path(path_type=Path), metavar="SPOOL")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.csv", help="Default: SPOOL without .spool.")
@click.option("--raw", is_flag=True, help="What was recorded alone, without machine and program: one file a node.")
@_reports_errors
def recover(spool: Path, out: Path | None, raw: bool) -> None:
    """Make the CSV file of a run that could not: of SPOOL, which it wrote beside that file while it went on.

    What is damaged is left out, and told. Neither SPOOL nor a file that is there is touched.
    """
    from servonode.nodes.recover import recovered

    for line in recovered(spool, out, raw):
        click.echo(line)


@main.command(
    "plot",
    cls=_Examples,
    examples=(
        "servonode plot",
        "servonode plot trailer_pursuit --window 30",
        "servonode plot trailer_pursuit --panel V,Omega --panel residual_speed,residual_heading",
    ),
    epilog=EXIT_HELP,
)
@click.argument("run_or_file", metavar="[RUN|FILE]", required=False)
@_panels
@_window
@_save
@_reports_errors
def plot_(run_or_file: str | None, panels: tuple[str, ...], window: float | None, save: Path | None) -> None:
    """Open a window on a run that is going on: the machine, its target, states, inputs, residuals, times.

    RUN is the name of a run, FILE a launch file, which means the run of its name; without either the one run that is
    going on. Keys: space pauses, s saves the picture, q closes.
    """
    options = _window_options(True, panels, window, save)
    from servonode.views.display import gui_backend
    from servonode.views.window import find_run, watch

    gui_backend()
    sys.exit(watch(find_run(run_or_file), options))


@main.command(
    cls=_Examples,
    examples=(
        "servonode simulate trailer_pursuit",
        "servonode simulate trailer_pursuit --control continuous --set run.duration=10 --json",
        "servonode simulate trailer_pursuit --out pursuit.csv --every 10 --report pursuit.png",
        "servonode simulate trailer_pursuit --movie pursuit.mp4 --speed 10",
    ),
    epilog=EXIT_HELP,
)
@_file
@_set
@_no_code
@_json
@_out
@_every
@click.option(
    "--control",
    type=click.Choice(["sampled", "continuous"]),
    default="sampled",
    show_default=True,
    help="Zero-order hold as in a run, or the law inside the right-hand side (DOP853).",
)
@click.option(
    "--loop",
    type=click.Choice(["fused", "nodes"]),
    default="fused",
    show_default=True,
    help="Sampled control as one compiled loop or as nodes on a bus in memory: the same bits.",
)
@click.option("--rtol", type=_FiniteRange(min=1e-14, max=0.1), default=1e-12, show_default=True)
@click.option("--atol", type=_FiniteRange(min=1e-300, max=0.1), default=1e-12, show_default=True)
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE.png", help="Draw the report picture.")
@click.option("--movie", type=click.Path(path_type=Path), metavar="FILE.mp4|.gif", help="Film the run.")
@click.option("--fps", type=_FiniteRange(min=1, max=120), help="Frames per second of the movie (default: 30).")
@click.option(
    "--speed",
    type=_FiniteRange(min=0, min_open=True),
    help="Plant seconds per second of the movie (default: run.speed, or faster if that takes long).",
)
@_reports_errors
def simulate(
    file: str,
    overrides: tuple[str, ...],
    no_code: bool,
    as_json: bool,
    out: Path | None,
    every: int | None,
    control: str,
    loop: str,
    rtol: float,
    atol: float,
    report: Path | None,
    movie: Path | None,
    fps: float | None,
    speed: float | None,
) -> None:
    """Simulate FILE in one process, at full speed."""
    from servonode.analysis.simulate import default_every, simulate_continuous, simulate_fused, simulate_nodes
    from servonode.closed_loop.closed_loop import assemble
    from servonode.closed_loop.launch_file import read_launch

    _check_writable(out)
    assembly = assemble(read_launch(file, overrides), code=not no_code)
    _check_picture(report, assembly)
    film = _filming(movie, fps, speed, assembly)
    rows = every or (1 if out else default_every(assembly))
    if control == "continuous":
        result = simulate_continuous(assembly, rows, rtol, atol)
    else:
        result = (simulate_nodes if loop == "nodes" else simulate_fused)(assembly, rows)
    sys.exit(_deliver_simulation(result, assembly.launch.name, as_json, out, report, movie, film))


@main.command(
    cls=_Examples,
    examples=("servonode check trailer_pursuit", "servonode check my_robot.toml --json"),
    epilog=EXIT_HELP,
)
@_file
@_set
@_no_code
@_json
@_reports_errors
def check(file: str, overrides: tuple[str, ...], no_code: bool, as_json: bool) -> None:
    """Check FILE before power-on: the verdict and why."""
    from servonode.analysis.check import report
    from servonode.cli.console import check_text
    from servonode.closed_loop.closed_loop import assemble
    from servonode.closed_loop.controller_section import ProgramRefused
    from servonode.closed_loop.launch_file import read_launch

    try:
        result = report(assemble(read_launch(file, overrides), strict=False, code=not no_code))
    except ProgramRefused as refusal:
        findings = [{"level": "refuse", "subject": "program", "text": refusal.text}]
        answer = {"file": file, "verdict": "no", "findings": findings}
        click.echo(json.dumps(answer) if as_json else f"NO               {refusal.text}\nverdict          no")
        sys.exit(1)
    click.echo(json.dumps(result.as_dict()) if as_json else check_text(result))
    sys.exit(0 if result.verdict == "yes" else 1)


@main.group(epilog=PROTOCOL_HELP)
def protocol() -> None:
    """What a machine in another process says and hears (docs/protocol.md)."""


@protocol.command(
    "check",
    cls=_Examples,
    examples=(
        "servonode protocol check --launch trailer_pursuit_external",
        "servonode protocol check ipc:///run/user/1000/servonode/devices/diff_drive_trailer",
        "servonode protocol check tcp://127.0.0.1:9873 tcp://127.0.0.1:9874 --machine diff_drive_trailer",
    ),
    epilog=PROTOCOL_HELP,
)
@click.argument("addresses", metavar="[ADDRESS | STATE APPLIED]", nargs=-1)
@click.option("--launch", "file", metavar="FILE", help="The launch file whose machine, names and times are used.")
@click.option("--machine", metavar="NAME", help="The machine, where there is no launch file.")
@click.option(
    "--wait",
    type=_FiniteRange(min=0, min_open=True, max=3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the first answer.",
)
@_set
@_json
@_reports_errors
def protocol_check(
    addresses: tuple[str, ...], file: str | None, machine: str | None, wait: float, overrides: tuple[str, ...],
    as_json: bool,
) -> None:  # fmt: skip
    """Talk to a machine program as a host does, and name what it does otherwise than docs/protocol.md says.

    The inputs that are sent are zero or 1e-6: nothing is moved by them, but move the machine by hand meanwhile, so that
    signs can be seen. STATE and APPLIED are its two addresses; ADDRESS stands for ADDRESS.state and ADDRESS.applied, or
    for a tcp port and the next one; without any it is the launch file's, or the private one of the machine's name.
    """
    from servonode.nodes.protocol_check import NoMachine, Plan, both_addresses, check_protocol, meant

    if len(addresses) > 2:
        raise click.UsageError("give one address, or those of states and of what is applied")
    try:
        assembly = meant(file, machine, addresses, overrides)
        state, applied = both_addresses(assembly, addresses)
    except NoMachine as error:
        raise click.UsageError(str(error)) from error
    verdict = check_protocol(assembly, (state, applied), Plan(wait=wait))
    click.echo(json.dumps(verdict.as_dict()) if as_json else verdict.text())
    sys.exit(1 if verdict.findings else 0)


@main.command(
    cls=_Examples,
    examples=(
        "servonode show trailer_pursuit",
        "servonode show my_robot.toml --latex > my_robot.tex",
        "servonode show my_robot.toml --c > my_robot.c",
    ),
    epilog=EXIT_HELP,
)
@_file
@_set
@_no_code
@click.option("--latex", "form", flag_value="latex", help="A LaTeX document that needs amsmath only.")
@click.option("--c", "form", flag_value="c", help="C99 functions of plant step and law, without allocation.")
@_reports_errors
def show(file: str, overrides: tuple[str, ...], no_code: bool, form: Literal["latex", "c"] | None) -> None:
    """Print the derived equations of FILE: mass matrix, bias, constraints, the law."""
    from servonode.closed_loop.closed_loop import assemble
    from servonode.closed_loop.launch_file import read_launch
    from servonode.loop import Loop

    click.echo(Loop(assemble(read_launch(file, overrides), strict=False, code=not no_code)).show(form or "text"))


@main.command(
    cls=_Examples,
    examples=("servonode new machine crane", "servonode new program chase", "servonode new run serpentine"),
    epilog=EXIT_HELP,
)
@click.argument("kind", type=click.Choice(["machine", "program", "run", "schema"]))
@click.argument("name")
@_reports_errors
def new(kind: str, name: str) -> None:
    """Write commented files that run as they are: a machine, a program, or a launch file alone.

    schema: the JSON Schema of the launch file, for editors.
    """
    from servonode.cli.new import SCHEMA, NotMade, make

    try:
        made = make(kind, name, Path())
    except NotMade as error:
        raise click.UsageError(str(error)) from error
    click.echo("\n".join(f"made {file}" for file in made))
    click.echo(
        f"name it in a launch file: #:schema ./{made[0]}" if kind == SCHEMA else f"now: servonode run {made[-1]}"
    )


@main.command(
    "list",
    cls=_Examples,
    examples=("servonode list launch", "servonode list machines", "servonode list programs --json"),
    epilog=EXIT_HELP,
)
@click.argument("what", type=click.Choice(["machines", "programs", "launch"]))
@_json
@_reports_errors
def list_(what: str, as_json: bool) -> None:
    """List packaged machines, programs, launch files."""
    from servonode import plants
    from servonode.closed_loop.launch_file import packaged
    from servonode.plants import PLANTS

    if what == "machines":
        found = PLANTS | _installed(plants.ENTRY_POINTS)
    elif what == "programs":
        groups = _programs()
        text = "\n".join(f"{machine}\n{_listed(names, '  ')}" for machine, names in groups.items())
        click.echo(json.dumps(groups) if as_json else text)
        return
    else:
        found = packaged()
    click.echo(json.dumps(found) if as_json else _listed(found))


def _listed(found: Mapping[str, str], indent: str = "") -> str:
    width = max(map(len, found), default=0)
    return "\n".join(f"{indent}{name:<{width}}  {text}" for name, text in found.items())


def _programs() -> dict[str, dict[str, str]]:
    """The programs with their summaries, by machine; two machines may have one of the same name."""
    from servonode import controllers

    groups: dict[str, dict[str, str]] = {}
    for entry in controllers.PROGRAMS:
        groups.setdefault(entry.machine or "any machine", {})[entry.name] = entry.summary
    installed = _installed(controllers.ENTRY_POINTS)
    return groups | ({"installed packages": installed} if installed else {})


def _installed(group: str) -> dict[str, str]:
    """Machines or programs of other installed packages."""
    from servonode.mechanics.references import entry_points

    return {name: f"from {value.partition(':')[0]}" for name, value in entry_points(group).items()}


def _window_options(wanted: bool, panels: tuple[str, ...], window: float | None, save: Path | None) -> Any:
    """The options of the window, None where there is to be none."""
    from servonode.views.window_process import Options

    if not wanted:
        if panels or window or save:
            raise click.UsageError("--panel, --window and --save are of the window; give --plot as well")
        return None
    _check_writable(save)
    if save is not None and save.suffix.lower() not in PICTURES:
        raise click.UsageError(f"{save}: no picture ends like this; choose {', '.join(PICTURES)}")
    return Options(panels, window, str(save) if save else None)


def _check_writable(file: Path | None) -> None:
    """Refuse a file that cannot be written before the run, not after it."""
    from servonode.cli.start_checks import StartError

    if file is not None and not (file.parent.is_dir() and os.access(file.parent, os.W_OK)):
        raise StartError(f"{file}: the folder {file.parent} is not there or cannot be written; name another")
    if file is not None and file.is_dir():
        raise StartError(f"{file} is a folder; give the name of a file")


def _check_picture(file: Path | None, assembly: Any) -> None:
    """Refuse a picture that cannot be written or drawn."""
    if file is None:
        return
    _check_writable(file)
    if file.suffix.lower() not in PICTURES:
        raise click.UsageError(f"{file}: no picture ends like this; choose {', '.join(PICTURES)}")
    from servonode.views.display import check_backend

    check_backend()
    _check_views(assembly)


def _check_views(assembly: Any) -> None:
    """Refuse a machine of the user's whose views cannot be drawn."""
    if not assembly.source.packaged:
        from servonode.views.report import check_view

        check_view(assembly)


def _filming(file: Path | None, fps: float | None, speed: float | None, assembly: Any) -> Callable[[Any], str] | None:
    """What films a run and gives the line of the table about it; None without a movie. Refuses one that cannot be."""
    if file is None:
        if fps or speed:
            raise click.UsageError("--fps and --speed are of a movie; give --movie FILE.mp4 as well")
        return None
    from servonode.views.display import check_backend

    check_backend()
    from servonode.views.movie import NoMovie, plan, write_movie

    try:
        planned = plan(file, fps, speed, assembly)
    except NoMovie as reason:
        raise click.UsageError(str(reason)) from reason
    _check_views(assembly)

    def film(result: Any) -> str:
        frames = write_movie(result, assembly.launch.name, planned)
        return f"{file} ({frames} frames, {planned.speed:g} plant seconds per second)"

    return film


def _deliver_run(
    outcome: Any, recording: Any, signals: Any, name: str, as_json: bool, out: Path | None, picture: Path | None
) -> int:
    """Make the files of a run, print what it gave; its exit code."""
    from servonode.cli import deliver
    from servonode.nodes.recording import write_runs

    run, outputs = outcome.run, []
    if run is not None and out is not None:
        outputs.append(deliver.csv_output(run, out, lambda: write_runs([*outcome.earlier, run], out), True))
    if run is not None and picture is not None:
        outputs.append(deliver.picture_output(run, name, picture))
    done = deliver.make(outputs, signals)
    signals.number = signals.number or outcome.signal
    code = done.code(outcome.exit_code)
    mend = f"what was recorded is kept: servonode recover {recording.kept()}" if "data" in done.failures else ""
    deliver.say(run, name, as_json, outcome.faults, outcome.ending, outcome.stopped, code, done, mend)
    return code


def _deliver_simulation(
    result: Any, name: str, as_json: bool, out: Path | None, report: Path | None, movie: Path | None, film: Any
) -> int:
    """Make the files of a simulation, print what it gave; its exit code."""
    from servonode.cli import deliver

    outputs = []
    if out is not None:
        outputs.append(deliver.csv_output(result, out, lambda: result.write_csv(out) or [out]))
    if report is not None:
        outputs.append(deliver.picture_output(result, name, report))
    if movie is not None:
        outputs.append(deliver.Output("movie", movie, lambda: film(result)))
    with deliver.Signals() as signals:
        done = deliver.make(outputs, signals)
    code = done.code(int(bool(result.faults)))
    deliver.say(result, name, as_json, result.faults, "fault" if result.faults else "well", "", code, done)
    return code


if __name__ == "__main__":
    main()
