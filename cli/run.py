"""`servonode run`: a launch file's nodes as processes."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from servonode.cli import verb

if TYPE_CHECKING:
    from servonode.cli.deliver import Signals
    from servonode.nodes.collect import Outcome
    from servonode.nodes.recording import Recording


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode run trailer_pursuit",
        "servonode run trailer_pursuit --set run.speed=1 --report pursuit.png",
        "servonode run trailer_pursuit --plot",
        "servonode run my_robot.toml --arm",
        "servonode run my_robot.toml --json --out my_robot.csv",
    ),
    exits={
        0: "completed",
        1: "a fault, a plant that was told to stop, or an output that could not be made",
        **verb.BAD_USAGE,
        **verb.BROKEN_OFF,
    },
)
@verb.launch_file
@verb.as_json
@verb.out
@verb.every
@click.option("--name", help="Name of the run (default: the file's stem).")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE.png", help="Where the picture goes.")
@click.option("--no-report", is_flag=True, help="Draw no picture.")
@click.option("--plot", is_flag=True, help="Open a window on the run (servonode plot).")
@click.option("--arm", is_flag=True, help="Arm hardware at the start; else it waits for servonode arm.")
@verb.window
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
    from servonode.cli.start_checks import check_descriptors, check_picture, check_writable, window_options
    from servonode.nodes.launcher import Launcher
    from servonode.nodes.node_process import call_process
    from servonode.nodes.recording import Recording
    from servonode.nodes.terminal import last_words, never_waiting
    from servonode.nodes.topology import LAUNCHER
    from servonode.views.display import check_display
    from servonode.views.panel_choice import chosen_panels
    from servonode.views.window_process import window_beside

    check_descriptors(click.get_current_context().obj or [], as_json)
    options = window_options(plot, panels, window, save)
    if options:
        check_display()
    closed_loop = verb.resolved(file, overrides, no_code)
    if options:
        chosen_panels(closed_loop, options.panels, timing=True)
    name = name or closed_loop.launch.name
    picture = None if no_report else report or Path(f"{name}.png")
    check_writable(out)
    check_picture(picture, closed_loop)
    rows = every or (1 if out else default_every(closed_loop))
    call_process(LAUNCHER, name)
    with Signals() as signals, never_waiting() as (printed, said), Recording(closed_loop, rows, name, out) as recording:
        line = StatusLine(closed_loop, name)
        with window_beside(name, options, line) as (open_window, progress):

            def begun() -> None:
                signals.raises = False  # the launcher handles them now, and after its end they come too late
                open_window()

            outcome = Launcher(closed_loop, name, rows, progress, begun, recording, arm=arm or None).launch()
        line.close()
        code = _deliver(outcome, recording, signals, name, as_json, out, picture)
        code = last_words(printed, said, code, as_json)
    sys.exit(code)


def _deliver(
    outcome: "Outcome",
    recording: "Recording",
    signals: "Signals",
    name: str,
    as_json: bool,
    out: Path | None,
    picture: Path | None,
) -> int:
    """Write the files of a run, print its result; its exit code."""
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
    remedy = f"what was recorded is kept: servonode recover {recording.kept()}" if "data" in done.failures else ""
    deliver.say(run, name, as_json, outcome.faults, outcome.ending, outcome.stopped, code, done, remedy)
    return code
