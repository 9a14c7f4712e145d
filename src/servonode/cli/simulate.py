"""`servonode simulate`: run a launch file in one process; `servonode check`: check it before power-on."""

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from servonode.cli import verb
from servonode.cli.command import Choice, command, option
from servonode.cli.options import AsJson, Every, FiniteRange, Launch, Movie, Open, Out, Reports
from servonode.cli.terminal import opened, painted

if TYPE_CHECKING:
    from servonode.cli.deliver import Output
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.closed_loop.fleet import Fleet
    from servonode.record.run import Run

CONTROL = "Zero-order hold as in a run, or the continuous closed loop (DOP853)."
LOOP = "Sampled control as one compiled loop, or as nodes in one process; the results are identical."
RELATIVE = "Relative tolerance with --control continuous."
ABSOLUTE = "Absolute tolerance with --control continuous."


@command(
    (
        "servonode simulate trailer_pursuit",
        "servonode simulate trailer_pursuit --control continuous --set run.duration=10 --json",
        "servonode simulate trailer_pursuit --output pursuit.csv --every 10",
        "servonode simulate trailer_pursuit --report pursuit.html --report pursuit.png",
        "servonode simulate trailer_pursuit --movie pursuit.mp4 --speed 10",
    ),
    {0: "completed", 1: "a fault, or an output that could not be written", **verb.BAD_USAGE, **verb.BROKEN_OFF},
)
def simulate(
    launch: Launch,
    as_json: AsJson,
    out: Out,
    every: Every,
    *,
    control: Annotated[str, option(CONTROL, type=Choice(["sampled", "continuous"]))] = "sampled",
    loop: Annotated[str, option(LOOP, type=Choice(["fused", "nodes"]))] = "fused",
    rtol: Annotated[float, option(RELATIVE, "NUMBER", FiniteRange(min=1e-14, max=0.1))] = 1e-12,
    atol: Annotated[float, option(ABSOLUTE, "NUMBER", FiniteRange(min=1e-300, max=0.1))] = 1e-12,
    reports: Reports,
    no_report: Annotated[bool, option("Write no report, as without --report.")],
    movie: Movie,
    show: Open,
) -> None:
    """Simulate FILE in one process, as fast as possible."""
    from servonode.cli.start_checks import check_ending, check_reports, check_writable
    from servonode.record.run import default_every
    from servonode.simulation.simulate import simulate_fused, simulate_nodes
    from servonode.simulation.simulate_continuous import simulate_continuous

    check_writable(out)
    check_ending(out, ".csv")
    reports = () if no_report else reports
    if fleet := launch.fleet():
        if control == "continuous" or movie.movie is not None:
            refused = "--movie" if movie.movie else "--control continuous"
            raise click.UsageError(f"{refused} takes one robot; give the launch file that a robot includes.")
        sys.exit(_simulate_robots(*fleet, as_json, out, every, reports))
    closed_loop = launch.resolved()
    closed_loop.check_known_goals()
    check_reports(reports, closed_loop)
    film = filming(movie, closed_loop)
    rows = every or (1 if out else default_every(closed_loop))
    if control == "continuous":
        result = simulate_continuous(closed_loop, rows, rtol, atol)
    else:
        result = (simulate_nodes if loop == "nodes" else simulate_fused)(closed_loop, rows)
    sys.exit(delivered(result, closed_loop.launch.name, as_json, out, reports, film, show))


def _simulate_robots(
    fleet: "Fleet",
    loops: "dict[str, ClosedLoop]",
    as_json: bool,
    out: Path | None,
    every: int | None,
    reports: tuple[Path, ...],
) -> int:
    """Simulate several robots; each has files of its own, with its name in theirs. The exit code."""
    from servonode.cli.start_checks import check_reports, file_of
    from servonode.record.run import default_every
    from servonode.simulation.simulate_fleet import simulate_fleet

    for each in loops.values():
        each.check_known_goals(alone=False)
        check_reports(reports, each)
    rows = {robot: every or (1 if out else default_every(each)) for robot, each in loops.items()}
    results, code = dict[str, Any](), 0
    for robot, run in simulate_fleet(loops, rows).items():
        files = out and file_of(robot, out), tuple(file_of(robot, each) for each in reports)
        with redirect_stdout(io.StringIO()) as said:
            done = delivered(run, f"{fleet.name}.{robot}", as_json, *files)
        results[robot], code = said.getvalue(), code or done
    if as_json:
        click.echo(json.dumps({"robots": {robot: json.loads(text) for robot, text in results.items()}, "exit": code}))
    else:
        click.echo("\n".join(results.values()), nl=False)
    return code


@command(
    ("servonode check trailer_pursuit", "servonode check my_robot.toml --json"),
    {0: "the check passed", 1: "the check failed", **verb.BAD_USAGE, **verb.INTERRUPTED},
)
def check(launch: Launch, as_json: AsJson) -> None:
    """Check FILE before power-on, and explain the result."""
    from servonode.analysis.check import report, structure
    from servonode.analysis.report import refused_text
    from servonode.closed_loop.launch_error import ProgramRefused

    try:
        if fleet := launch.fleet(strict=False):
            results = {robot: report(each) for robot, each in fleet[1].items()}
            answers = {robot: each.as_dict() for robot, each in results.items()}
            texts = "\n\n".join(f"robot {robot}\n{each.text()}" for robot, each in results.items())
            click.echo(json.dumps({"robots": answers}) if as_json else texts)
            sys.exit(0 if all(results.values()) else 1)
        result = report(launch.resolved(strict=False))
    except ProgramRefused as refusal:
        findings = [{"level": "refuse", "subject": "program", "text": refusal.text}]
        known = structure(refusal.law)
        answer = {"file": launch.file, "verdict": "no", "findings": findings, **known}
        click.echo(json.dumps(answer) if as_json else painted(refused_text(known, refusal.text), sys.stdout))
        sys.exit(1)
    click.echo(json.dumps(result.as_dict()) if as_json else painted(result.text(), sys.stdout))
    sys.exit(0 if result else 1)


Film = Callable[["Run"], "Output"]


def filming(movie: Movie, closed_loop: "ClosedLoop") -> Film | None:
    """The function that makes the output of a run's movie; None without a movie. May refuse the movie."""
    if (file := movie.movie) is None:
        if movie.fps or movie.speed or movie.panels:
            raise click.UsageError("--fps, --speed and --panel belong to a movie; give --movie FILE.mp4 as well")
        return None
    from servonode.cli.deliver import Output
    from servonode.cli.start_checks import check_views
    from servonode.views.display import check_backend

    check_backend()
    from servonode.views.movie import plan, write_movie

    planned = plan(file, movie.fps, movie.speed, closed_loop, movie.panels)
    check_views(closed_loop)

    def film(result: "Run") -> str:
        frames = write_movie(result, closed_loop.launch.name, planned)
        return f"{file} ({frames} frames, {planned.speed:g} plant seconds per second)"

    return lambda result: Output("movie", file, lambda: film(result))


def delivered(
    result: "Run",
    name: str,
    as_json: bool,
    out: Path | None,
    reports: tuple[Path, ...],
    film: Film | None = None,
    show: bool = False,
) -> int:
    """Write the files of a simulation, print its result, open what is to be shown; its exit code."""
    from servonode.cli import deliver
    from servonode.nodes.recording import Outcome

    outcome = Outcome(result, faults=result.faults)
    outputs = deliver.outputs_of(outcome, name, out, reports) + ([film(result)] if film else [])
    with deliver.Signals() as signals:
        done = deliver.make(outputs, signals)
    code = done.code(outcome.exit_code)
    deliver.say(outcome, name, as_json, code, done)
    for file in done.shown if show else ():
        opened(file)
    return code
