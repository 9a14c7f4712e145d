"""`servonode plot`: a window on a run that is going on."""

import sys
from pathlib import Path

import click

from servonode.cli import verb


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode plot",
        "servonode plot trailer_pursuit --window 30",
        "servonode plot trailer_pursuit --panel V,Omega --panel residual_speed,residual_heading",
    ),
    exits={0: "the window was closed", 2: "bad usage, no display, or no such run", **verb.INTERRUPTED},
)
@click.argument("run_or_file", metavar="[RUN|FILE]", required=False)
@verb.window
def plot(run_or_file: str | None, panels: tuple[str, ...], window: float | None, save: Path | None) -> None:
    """Open a window on a run: machine, target, states, inputs, times.

    RUN is the name of a run that is going on, FILE a launch file, which means the run of its name; without either the
    one run that is going on. Keys: space pauses, s saves the picture, q closes.
    """
    from servonode.cli.start_checks import window_options

    options = window_options(True, panels, window, save)
    assert options is not None
    from servonode.views.display import gui_backend
    from servonode.views.shown_run import run_shown
    from servonode.views.window import watch

    gui_backend()
    sys.exit(watch(run_shown(run_or_file), options))
