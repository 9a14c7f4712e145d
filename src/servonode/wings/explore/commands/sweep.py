"""`servonode sweep`: many runs of a launch file with other numbers, in threads or on a cluster."""

from pathlib import Path
from typing import Annotated

import click

from servonode.cli import verb
from servonode.cli.command import command, option, output
from servonode.cli.options import COUNT, AsJson, Launch

OUTPUT = "Folder for the results, readable by xarray (default: the name of FILE with the ending .zarr)."
THREADS = "Threads of this process (default: one for each processor)."
WORKERS = "Compute in N processes on this computer instead, by dask."


@command(
    (
        "servonode sweep trailer_sweep",
        "servonode sweep trailer_sweep --runs 4096 --set sweep.vary.plant.initial.phi=[-0.5,0.5]",
        "servonode sweep trailer_sweep --output hitch.zarr --resume",
        "servonode sweep trailer_sweep --scheduler tcp://10.0.0.7:8786",
    ),
    {
        0: "all runs are computed; one that failed is a row with its reason",
        1: "the folder could not be written, or the cluster is lost; the finished runs are kept",
        **verb.BAD_USAGE,
        **verb.BROKEN_OFF,
    },
    section="Explore",
)
def sweep(
    launch: Launch,
    as_json: AsJson,
    output: Annotated[Path | None, output(OUTPUT, "FOLDER.zarr")],
    resume: Annotated[bool, option("Compute only the runs that the folder lacks.")],
    runs: Annotated[int | None, option("Number of runs of a random method (sweep.runs).", "N", COUNT)],
    histories: Annotated[bool, option("Keep every recorded row of each run too.")],
    threads: Annotated[int | None, option(THREADS, "N", COUNT)],
    workers: Annotated[int | None, option(WORKERS, "N", COUNT)],
    scheduler: Annotated[str | None, option("Compute on the dask cluster of this scheduler instead.", "ADDRESS")],
    send_code: Annotated[bool, option("Let code of your own machine or program run on the cluster's workers.")],
) -> None:
    """Simulate FILE many times, with the numbers of its [sweep]."""
    from servonode.definitions.progress import progress_of
    from servonode.wings.explore.sweeps.dataset import check_libraries, summary, summary_text
    from servonode.wings.explore.sweeps.plan import Plan
    from servonode.wings.explore.sweeps.run_sweep import Where, run_sweep

    check_libraries()
    where = Where(threads, workers, scheduler, send_code)
    if runs is not None:
        launch = launch.but(f"sweep.runs={runs}")
    plan = Plan(launch.resolved(), histories)
    folder = output or Path(f"{plan.closed_loop.launch.name}.zarr")
    try:
        with progress_of(plan.closed_loop.launch.name, progress=True):  # in the log of a cluster's job too
            found = run_sweep(plan, where, folder, resume)
    except KeyboardInterrupt:
        click.echo(f"servonode: finished runs are kept in {folder}; go on with --resume", err=True)
        raise
    answer = summary(found)
    verb.show(answer | {"output": str(folder)}, as_json, summary_text(answer))
    click.echo(f"  results in {folder}", err=as_json)
