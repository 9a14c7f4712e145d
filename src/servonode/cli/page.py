"""`servonode page`: a browser page that shows a run in progress."""

import click

from servonode.cli import complete, verb


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode page",
        "servonode page trailer_pursuit --port 8700",
        "ssh -L 8642:localhost:8642 robot servonode page",
    ),
    exits={
        2: "bad usage, a missing library, or no such run",
        **verb.INTERRUPTED,
        143: "ended by SIGTERM",
    },
)
@click.argument("run_or_file", metavar="[RUN|FILE]", required=False, shell_complete=complete.runs_or_launch_files)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Port of the page (default: 8642, or a free port if that is taken).",
)
def page(run_or_file: str | None, port: int | None) -> None:
    """Show a run in the browser, with an emergency stop.

    The page shows machine, curves, residuals, times and faults.

    RUN is the name of a run in progress; FILE is the launch file of such a run. Without either, the page shows the
    only run in progress, or waits for the next run that begins. The page is served until Ctrl-C. After the end of a
    run it waits for the next run of the same name.

    Only this computer can open the page, and only with the printed link. From another computer, use ssh -L as in the
    example.
    """
    from servonode.operator.find_runs import find_runs
    from servonode.web.page import check_libraries, serve

    check_libraries()

    if run_or_file is None and not find_runs():
        serve("", "", port or 0)
        return
    from servonode.views.shown_run import run_shown

    serve(run_shown(run_or_file), "", port or 0)
