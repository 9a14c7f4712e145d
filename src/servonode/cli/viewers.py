"""`servonode plot`, `page` and `bridge`: a run in progress in a window, in a browser, in other tools."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import click

from servonode.cli import complete, verb
from servonode.cli.command import command, group, option
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
)
def page(
    run_or_file: RunOrFile,
    port: Annotated[int | None, option(PORT, "PORT", click.IntRange(1, 65535))],
    *,
    host: Annotated[str, option(HOST, "HOST")] = "127.0.0.1",
    certfile: Annotated[Path | None, option(CERTIFICATE, "FILE.pem", shell_complete=complete.files)],
    keyfile: Annotated[Path | None, option(PRIVATE_KEY, "FILE.key", shell_complete=complete.files)],
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
    if run_or_file is None and not find_runs():
        serve("", "", place)
        return
    from servonode.views.live_run import run_shown

    serve(run_shown(run_or_file), "", place)


EXITS = {
    0: "the run has ended",
    2: "bad usage, a missing library, or no such run",
    **verb.INTERRUPTED,
    143: "ended by SIGTERM",
}


@group
def bridge() -> None:
    """Show a run in progress in other tools, and take goals from them."""


_command = partial(command, exits=EXITS, of=bridge)


@_command(("servonode bridge foxglove", "servonode bridge foxglove trailer_pursuit --port 8766"))
def foxglove(
    run_or_file: RunOrFile,
    port: Annotated[int, option("Port of the server, at 127.0.0.1.", "PORT", click.IntRange(1, 65535))] = 8765,
) -> None:
    """Show a run in Foxglove, change its numbers, and stop it.

    The bridge prints the address for Foxglove's "Open connection", and a link that opens it. It shows frames, the
    machine in space, events and all values by name. RUN is the name of a run in progress; FILE is the launch file of
    such a run. Without either, it takes your only run. The bridge ends with the run.

    Only this computer is served. Every program of it can read; to change a number, or to call the service /stop, a
    client gives the token that the bridge prints.
    """
    from servonode.views.live_run import run_shown
    from servonode.wings.neighbours.libraries import library

    library("foxglove.websocket")
    run = run_shown(run_or_file)
    from servonode.wings.neighbours.foxglove_bridge import serve

    serve(run, port)


DOMAIN = "Domain of ROS 2 (default: ROS_DOMAIN_ID, or 0)."


@_command(("servonode bridge ros2", "servonode bridge ros2 trailer_pursuit --domain 7"))
def ros2(
    run_or_file: RunOrFile,
    domain: Annotated[int, option(DOMAIN, "ID", click.IntRange(0, 232), default=0, envvar="ROS_DOMAIN_ID")],
    network: Annotated[bool, option("Let other computers take part, each of which may then move the machine.")],
) -> None:
    """Publish a run to ROS 2, and take goals from it.

    ROS 2 need not be installed here. The bridge publishes joint states, transforms, odometry, inputs, residuals and
    diagnostics. It takes goals from /goal_pose, /clicked_point and /cmd_vel for targets with a bandwidth, and stops the
    machine when the service /servonode/stop is called. RUN is the name of a run in progress; FILE is the launch file of
    such a run. Without either, it takes your only run. The bridge ends with the run.

    Only this computer takes part, unless --network is given: everybody in the domain may give goals. Start the programs
    of ROS 2 with ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST.
    """
    from servonode.views.live_run import run_shown
    from servonode.wings.neighbours.libraries import library

    for name in ("cyclonedds", "rosbags"):
        library(name)
    run = run_shown(run_or_file)
    from servonode.wings.neighbours.ros2_bridge import serve

    serve(run, domain, network)
