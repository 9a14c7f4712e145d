"""`servonode page`: a run in progress in a browser."""

from pathlib import Path
from typing import Annotated

import click

from servonode.cli import complete, verb
from servonode.cli.command import command, option
from servonode.cli.options import Open, RunOrFile
from servonode.cli.terminal import opened

PORT = "Port of the page (default: 8642, or a free port if that is taken)."
HOST = "Serve the page at this address of this computer; any other than the default needs a certificate."
CERTIFICATE = "Serve the page over https with this certificate."
PRIVATE_KEY = "Private key of the certificate; nobody else may read the file."


@command(
    (
        "servonode page",
        "servonode page trailer_pursuit --port 8700",
        "ssh -L 8642:localhost:8642 robot servonode page",
        "servonode page --host 0.0.0.0 --certfile robot.pem --keyfile robot.key",
    ),
    {2: "bad usage, a missing library, or no such run", **verb.INTERRUPTED, 143: "ended by SIGTERM"},
    section="Operate",
)
def page(
    run_or_file: RunOrFile,
    port: Annotated[int | None, option(PORT, "PORT", click.IntRange(1, 65535))],
    *,
    host: Annotated[str, option(HOST, "HOST")] = "127.0.0.1",
    certfile: Annotated[Path | None, option(CERTIFICATE, "FILE.pem", shell_complete=complete.files)],
    keyfile: Annotated[Path | None, option(PRIVATE_KEY, "FILE.key", shell_complete=complete.files)],
    show: Open,
) -> None:
    """Show a run in the browser, with an emergency stop.

    The page shows machine, curves, residuals, times and faults.

    RUN is the name of a run in progress; FILE is the launch file of such a run. Without either, the page shows the
    only run in progress, or waits for the next run that begins. The page is served until Ctrl-C. After the end of a
    run it waits for the next run of the same name.

    The page opens only with the printed link, and only on this computer. From another computer, use ssh -L as in the
    example; or serve the page at an address that others reach, over https with a certificate.
    """
    from servonode.operator.find_runs import find_runs
    from servonode.wings.web.listening import Place, tls_of
    from servonode.wings.web.page import check_libraries, serve

    check_libraries()
    if (certfile is None) != (keyfile is None):
        raise click.UsageError("--certfile and --keyfile belong together; name both, or neither.")
    place = Place(port or 0, host, tls_of(certfile, keyfile) if certfile and keyfile else None)
    told = opened if show else (lambda _: None)
    if run_or_file is None and not find_runs():
        serve("", "", place, told=told)
        return
    from servonode.views.live_run import run_shown

    serve(run_shown(run_or_file), "", place, told=told)
