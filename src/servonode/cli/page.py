"""`servonode page`: a browser page that shows a run in progress."""

from pathlib import Path

import click

from servonode.cli import complete, verb


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode page",
        "servonode page trailer_pursuit --port 8700",
        "ssh -L 8642:localhost:8642 robot servonode page",
        "servonode page --host 0.0.0.0 --certfile robot.pem --keyfile robot.key",
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
@click.option(
    "--host",
    metavar="HOST",
    default="127.0.0.1",
    show_default=True,
    help="Serve the page at this address of this computer; any other than the default needs a certificate.",
)
@click.option(
    "--certfile",
    type=verb.FILE,
    metavar="FILE.pem",
    shell_complete=complete.files,
    help="Serve the page over https with this certificate.",
)
@click.option(
    "--keyfile",
    type=verb.FILE,
    metavar="FILE.key",
    shell_complete=complete.files,
    help="Private key of the certificate; nobody else may read the file.",
)
def page(run_or_file: str | None, port: int | None, host: str, certfile: Path | None, keyfile: Path | None) -> None:
    """Show a run in the browser, with an emergency stop.

    The page shows machine, curves, residuals, times and faults.

    RUN is the name of a run in progress; FILE is the launch file of such a run. Without either, the page shows the
    only run in progress, or waits for the next run that begins. The page is served until Ctrl-C. After the end of a
    run it waits for the next run of the same name.

    The page opens only with the printed link, and only on this computer. From another computer, use ssh -L as in the
    example; or serve the page at an address that others reach, over https with a certificate.
    """
    from servonode.operator.find_runs import find_runs
    from servonode.web.listening import Place, tls_of
    from servonode.web.page import check_libraries, serve

    check_libraries()
    if (certfile is None) != (keyfile is None):
        raise click.UsageError("--certfile and --keyfile belong together; name both, or neither.")
    place = Place(port or 0, host, tls_of(certfile, keyfile) if certfile and keyfile else None)
    if run_or_file is None and not find_runs():
        serve("", "", place)
        return
    from servonode.views.shown_run import run_shown

    serve(run_shown(run_or_file), "", place)
