"""`servonode plot`: a run in progress in a window."""

import sys

from servonode.cli import verb
from servonode.cli.command import command
from servonode.cli.options import RunOrFile, Window


@command(
    (
        "servonode plot",
        "servonode plot trailer_pursuit --window 30",
        "servonode plot trailer_pursuit --panel V,Omega --panel residual_speed,residual_heading",
    ),
    {0: "the window was closed", 2: "bad usage, no display, or no such run", **verb.INTERRUPTED},
)
def plot(run_or_file: RunOrFile, window: Window) -> None:
    """Show a run in a window: machine, target, states, inputs, times.

    RUN is the name of a run in progress; FILE is the launch file of such a run. Without either, the window shows the
    only run in progress. Keys: space pauses, s saves the picture, q closes the window.
    """
    from servonode.cli.start_checks import window_options

    options = window_options(True, window)
    assert options is not None
    from servonode.views.display import gui_backend
    from servonode.views.live_run import run_shown
    from servonode.views.window import watch

    gui_backend()
    sys.exit(watch(run_shown(run_or_file), options))
