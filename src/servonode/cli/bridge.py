"""`servonode bridge`: a run in progress in other tools."""

import click

from servonode.cli import complete, verb

_run = click.argument("run_or_file", metavar="[RUN|FILE]", required=False, shell_complete=complete.runs_or_launch_files)
_EXITS = {
    0: "the run has ended",
    2: "bad usage, a missing library, or no such run",
    **verb.INTERRUPTED,
    143: "ended by SIGTERM",
}


@verb.group
def bridge() -> None:
    """Show a run in progress in other tools, and take goals from them."""


@bridge.command(
    cls=verb.Verb,
    examples=("servonode bridge foxglove", "servonode bridge foxglove trailer_pursuit --port 8766"),
    exits=_EXITS,
)
@_run
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    default=8765,
    show_default=True,
    help="Port of the server, at 127.0.0.1.",
)
def foxglove(run_or_file: str | None, port: int) -> None:
    """Show a run in Foxglove, change its numbers, and stop it.

    The bridge prints the address for Foxglove's "Open connection", and a link that opens it. It shows frames, the
    machine in space, events and all values by name. RUN is the name of a run in progress; FILE is the launch file of
    such a run. Without either, it takes your only run. The bridge ends with the run.

    Only this computer is served. Every program of it can read; to change a number, or to call the service /stop, a
    client gives the token that the bridge prints.
    """
    from servonode.neighbours.libraries import library
    from servonode.views.shown_run import run_shown

    library("foxglove.websocket")
    run = run_shown(run_or_file)
    from servonode.neighbours.foxglove_bridge import serve

    serve(run, port)


@bridge.command(
    cls=verb.Verb,
    examples=("servonode bridge ros2", "servonode bridge ros2 trailer_pursuit --domain 7"),
    exits=_EXITS,
)
@_run
@click.option(
    "--domain",
    type=click.IntRange(0, 232),
    metavar="ID",
    default=0,
    envvar="ROS_DOMAIN_ID",
    help="Domain of ROS 2 (default: ROS_DOMAIN_ID, or 0).",
)
@click.option("--network", is_flag=True, help="Let other computers take part, each of which may then move the machine.")
def ros2(run_or_file: str | None, domain: int, network: bool) -> None:
    """Publish a run to ROS 2, and take goals from it.

    ROS 2 need not be installed here. The bridge publishes joint states, transforms, odometry, inputs, residuals and
    diagnostics. It takes goals from /goal_pose, /clicked_point and /cmd_vel for targets with a bandwidth, and stops the
    machine when the service /servonode/stop is called. RUN is the name of a run in progress; FILE is the launch file of
    such a run. Without either, it takes your only run. The bridge ends with the run.

    Only this computer takes part, unless --network is given: everybody in the domain may give goals. Start the programs
    of ROS 2 with ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST.
    """
    from servonode.neighbours.libraries import library
    from servonode.views.shown_run import run_shown

    for name in ("cyclonedds", "rosbags"):
        library(name)
    run = run_shown(run_or_file)
    from servonode.neighbours.ros2_bridge import serve

    serve(run, domain, network)
