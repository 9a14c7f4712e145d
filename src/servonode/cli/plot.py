"""`servonode plot`: a window that shows a run in progress."""

import sys
from pathlib import Path

import click

from servonode.cli import complete, verb


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode plot",
        "servonode plot trailer_pursuit --window 30",
        "servonode plot trailer_pursuit --panel V,Omega --panel residual_speed,residual_heading",
    ),
    exits={0: "the window was closed", 2: "bad usage, no display, or no such run", **verb.INTERRUPTED},
)
@click.argument("run_or_file", metavar="[RUN|FILE]", required=False, shell_complete=complete.runs_or_launch_files)
@verb.window
def plot(run_or_file: str | None, panels: tuple[str, ...], window: float | None, save: Path | None) -> None:
    """Show a run in a window: machine, target, states, inputs, times.

    RUN is the name of a run in progress; FILE is the launch file of such a run. Without either, the window shows the
    only run in progress. Keys: space pauses, s saves the picture, q closes the window.
    """
    from servonode.cli.start_checks import window_options

    options = window_options(True, panels, window, save)
    assert options is not None
    from servonode.views.display import gui_backend
    from servonode.views.shown_run import run_shown
    from servonode.views.window import watch

    gui_backend()
    sys.exit(watch(run_shown(run_or_file), options))
