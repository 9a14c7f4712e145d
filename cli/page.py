"""`servonode page`: a page in the browser on a run that is going on."""

from pathlib import Path

import click

from servonode.cli import verb


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode page",
        "servonode page trailer_pursuit --port 8700",
        "ssh -L 8642:localhost:8642 robot servonode page",
    ),
    exits={
        2: "bad usage, a library is missing, or neither such a run nor recordings",
        **verb.INTERRUPTED,
        143: "ended by SIGTERM",
    },
)
@click.argument("run_or_file", metavar="[RUN|FILE]", required=False)
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="PORT", help="Port of the page (default: 8642, or free)."
)
def page(run_or_file: str | None, port: int | None) -> None:
    """Serve a page on a run for browsers, with an emergency stop.

    It shows machine, curves, residuals, times and faults, and lists the recordings (.mcap files) in the working
    directory: a click opens the report of one.

    RUN is the name of a run that is going on, FILE a launch file, which means the run of its name; without either the
    one run that is going on. Where none is, but recordings are, the page shows these, and the next run that begins.
    The page is served until Ctrl-C. It stays when the run has ended, and shows the next run of the same name when that
    begins.

    Only this computer reaches it, and only with the link that is printed. From another computer: ssh -L, as above.
    """
    from servonode.web.page_process import check_libraries

    check_libraries()
    from servonode.nodes.find_runs import find_runs
    from servonode.web.page import serve
    from servonode.web.recordings import recordings_in

    if run_or_file is None and not find_runs() and recordings_in(Path.cwd())[0]:
        serve("", "", port or 0)
        return
    from servonode.views.shown_run import run_shown

    serve(run_shown(run_or_file), "", port or 0)
