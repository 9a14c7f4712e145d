"""`servonode bridge`: a run in progress in other tools."""

from functools import partial
from typing import Annotated

import click

from servonode.cli import verb
from servonode.cli.command import command, group, option
from servonode.cli.options import RunOrFile

EXITS = {
    0: "the run has ended",
    2: "bad usage, a missing library, or no such run",
    **verb.INTERRUPTED,
    143: "ended by SIGTERM",
}


@partial(group, section="Operate")
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
