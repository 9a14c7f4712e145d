"""The public functions: `servonode.load`, `simulate`, `sweep`, `run`, `check`, `read_recording` and `identify`."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import (
    GOAL_SPEED,
    LaunchError,
    launch_of_table,
    launch_path,
    read_launch,
    with_values,
)
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.closed_loop.launch_text import toml_value
from servonode.definitions.progress import Progress, progress_of
from servonode.definitions.references import kind_of, reference_to
from servonode.errors import StatementError
from servonode.keywords import check_goal_speed, check_keywords, dotted, given
from servonode.loop import Loop, needed
from servonode.plants import PLANTS
from servonode.record.run import Run

if TYPE_CHECKING:
    import xarray

    from servonode.analysis.report import Report
    from servonode.mechanics.model import Model

Launch: TypeAlias = "str | Path | Mapping[str, Any] | Model | Callable[..., Model]"
WHERE = (("plant", "machine", "Model"), ("controller", "program", "Program"))


def load(
    launch: Launch,
    *,
    strict: bool = True,
    residuals: Mapping[str, Any] | None = None,
    keep: Mapping[str, Any] | None = None,
    program: Any = None,
    settings: Mapping[str, Any] | None = None,
    gains: Mapping[str, Any] | None = None,
    targets: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
    parameters: Mapping[str, float | str] | None = None,
    limits: float | Mapping[str, float] | None = None,
    duration: float | None = None,
    period: float | None = None,
    values: Mapping[str, Any] | None = None,
    progress: Progress = None,
    code: bool = True,
    **overrides: Any,
) -> Loop:
    """The machine and its law, ready to be looked into, checked and simulated: a `Loop`.

    Args:
        launch: path of a launch file, the bare name of a packaged one, or its content as nested mappings. Or a machine,
            which then runs for 1 s, without a law unless one is given here: a Model or a function that returns one, a
            packaged one by name, "./file.py:function", or the path of a robot's URDF or MJCF file.
        strict: refuse what `run` would refuse; False to look into it all the same.
        residuals: the goals by name, in place of a program: expressions of sympy or texts, of the machine's symbols and
            the time t, as {"arm": p - 0.8*sin(2*t)}.
        keep: what stays at or above zero, by name: such expressions, or tables, {"expression": 1.2 - p, "margin": 0.1}.
        program: a program by name, or a Program, or a function or class as a launch file may name it.
        settings, gains, targets, initial, parameters: entries of [controller.settings], [controller.gains], [target],
            [plant.initial] and [plant.parameters], by name; targets may be expressions of sympy in t.
        limits: the largest magnitude of the inputs, one number or by name; duration, period [s]: of run and controller.
        values: any of these by dotted key, as {"controller.gains.lambda": 3.0}; "goal.speed" is how fast the goal's
            time runs.
        code: False to refuse a launch file that names Python code, which would run here with all your rights.
        progress: a function f(done, of, text) that is called during a long derivation (the text may be left out), True
            for a line wherever it is, False for none. None: a line in a terminal or a notebook, after a second.
        overrides: any other key of launch files with `__` for the dot: `run__mode="lockstep"`.

    Raises:
        LaunchError: the launch file or an override does not fit; CacheError: the kernel cache cannot be used;
        CallError: there is no such argument.

    >>> import servonode
    >>> loop = servonode.load("trailer_pursuit", duration=2.0)
    >>> loop.machine.description.name
    'diff_drive_trailer'
    >>> loop.closed_loop.launch.run.duration
    2.0
    """
    with progress_of("", progress=progress):
        return _loop(launch, overrides | given(locals()), load, strict, code)


def simulate(
    launch: Launch,
    *,
    control: Literal["sampled", "continuous"] = "sampled",
    loop: Literal["fused", "nodes"] = "fused",
    every: int | None = None,
    rtol: float = 1e-12,
    atol: float = 1e-12,
    residuals: Mapping[str, Any] | None = None,
    keep: Mapping[str, Any] | None = None,
    program: Any = None,
    settings: Mapping[str, Any] | None = None,
    gains: Mapping[str, Any] | None = None,
    targets: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
    parameters: Mapping[str, float | str] | None = None,
    limits: float | Mapping[str, float] | None = None,
    duration: float | None = None,
    period: float | None = None,
    values: Mapping[str, Any] | None = None,
    code: bool = True,
    **overrides: Any,
) -> Run:
    """Simulate a launch file in this process: a `Run`, whose arrays have one entry for each recorded row.

    Args:
        launch, residuals to values, code, overrides: see `load`.
        control: sampled with a zero-order hold, or the law inside the right-hand side of an adaptive integrator.
        loop: the sampled loop as one compiled function or as nodes on a bus in memory; the bits are the same.
        every: plant steps per row of the result; default: at most 20 000 rows, on control instants.
        rtol, atol: tolerances of the continuous mode, rtol from 1e-14 to 0.1.

    A fault ends the simulation before its time; it stands in `run.fault`, and nothing is raised.

    Raises:
        LaunchError, CacheError, CallError: as `load`;
        SimulationError: the law failed, or the continuous integration cannot go on;
        StatementError (a ValueError): `control`, `loop`, `every` or a tolerance is not one that can be.

    >>> import servonode
    >>> run = servonode.simulate("trailer_pursuit", duration=2.0, gains={"lambda": 3.0})
    >>> run.fault is None, float(run.t[-1]), sorted(run.input)
    (True, 2.0, ['U1', 'U2'])
    >>> run.residual_max["heading"] < 1e-3
    True
    >>> from sympy import sin
    >>> from servonode.mechanics import Model, coordinate, input_, t
    >>> x, force = coordinate("x", "place of a cart", "m"), input_("F", "force", "N")
    >>> cart = Model("cart", "a cart of 2 kg", coordinates=(x,), kinetic=x.rate**2, inputs={force: x.rate})
    >>> run = servonode.simulate(cart, residuals={"place": x - sin(t)}, initial={"x_dot": 1.0}, duration=5.0)
    >>> run.residual_max["place"] < 1e-3
    True
    """
    found = _loop(launch, overrides | given(locals()), simulate, code=code)
    return found.simulate(control, loop, every, rtol, atol)


def sweep(
    launch: Launch,
    vary: Mapping[str, Any] | None = None,
    *,
    method: Literal["grid", "random", "latin_hypercube", "sobol"] | None = None,
    runs: int | None = None,
    seed: int | None = None,
    chunk: int | None = None,
    measures: Mapping[str, str] | None = None,
    histories: bool = False,
    threads: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    send_code: bool = False,
    output: str | Path | None = None,
    resume: bool = False,
    progress: Progress = None,
    residuals: Mapping[str, Any] | None = None,
    keep: Mapping[str, Any] | None = None,
    program: Any = None,
    settings: Mapping[str, Any] | None = None,
    gains: Mapping[str, Any] | None = None,
    targets: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
    parameters: Mapping[str, float | str] | None = None,
    limits: float | Mapping[str, float] | None = None,
    duration: float | None = None,
    period: float | None = None,
    values: Mapping[str, Any] | None = None,
    code: bool = True,
    **overrides: Any,
) -> "xarray.Dataset":
    """Simulate many runs of a launch file with other numbers: an xarray Dataset with one entry of `run` for each.

    A run that is refused or meets a fault is an entry with its reason. The bits are the same wherever it is computed.

    Args:
        launch, residuals to values, code, overrides: see `load`.
        vary: the keys that vary, dotted, each with its range `[low, high]`, the table of [sweep.vary], or an array or
            range() of its values; default: those of the launch file.
        method: all combinations (grid, the default), or points between the ends, as many as `runs`.
        runs, seed, chunk: as in [sweep]. Only what is given here differs from the launch file.
        measures: what to keep of each run beside what always is, by name: expressions of columns with max(), min(),
            final(), mean(), integral().
        histories: keep every recorded row of all runs too, with the dimensions `run` and `t`.
        threads: of this process (default: one for each processor); workers: processes of one thread each on this
            computer, by dask; scheduler: the address of a dask cluster, such as "tcp://10.0.0.7:8786".
        send_code: let code of your own machine or program run on the workers of a cluster.
        output: the Zarr folder that holds each chunk of runs as soon as it is finished (default: memory).
        resume: compute only what is missing in that folder.
        progress: a function f(done, of, text) that is called as runs are finished (the text may be left out), True for
            a bar wherever it is, False for none. None: a bar in a terminal or a notebook, after a second.

    Returns:
        Values of the keys as coordinates, measures as variables, with `units` in their attributes. For a grid,
        `ds.set_index(run=ds.attrs["keys"]).unstack("run")` has a dimension for each key.

    Raises:
        LaunchError, CacheError, CallError: as `load`, or a key cannot vary; NotInstalled: xarray, zarr or distributed
        are missing; StoreError: the folder cannot be used; ClusterError: the cluster cannot.

    >>> import servonode
    >>> ds = servonode.sweep("trailer_pursuit", {"plant.initial.phi": range(2)}, run__duration=0.5)
    >>> dict(ds.sizes), ds["plant.initial.phi"].values.tolist(), ds.fault.values.tolist()
    ({'run': 2}, [0.0, 1.0], ['', ''])
    """
    stated = overrides | given(locals())
    with progress_of("a sweep", progress=progress):
        return _loop(launch, stated, sweep, code=code).sweep(
            vary, method=method, runs=runs, seed=seed, chunk=chunk, measures=measures, histories=histories,
            threads=threads, workers=workers, scheduler=scheduler, send_code=send_code, output=output, resume=resume,
        )  # fmt: skip


def run(
    launch: Launch,
    *,
    name: str | None = None,
    every: int | None = None,
    arm: bool | None = None,
    residuals: Mapping[str, Any] | None = None,
    keep: Mapping[str, Any] | None = None,
    program: Any = None,
    settings: Mapping[str, Any] | None = None,
    gains: Mapping[str, Any] | None = None,
    targets: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
    parameters: Mapping[str, float | str] | None = None,
    limits: float | Mapping[str, float] | None = None,
    duration: float | None = None,
    period: float | None = None,
    values: Mapping[str, Any] | None = None,
    code: bool = True,
    **overrides: Any,
) -> Run:
    """Run a launch file on processes over ZeroMQ, as `servonode run` does, and wait for its end: a `Run`.

    `run.stats` then has the times, misses and counts of the nodes. While it goes on, `servonode.status()` and
    `servonode.estop()` work from another process.

    Args:
        launch, residuals to values, code, overrides: see `load`.
        name: what operators call it by; default: the launch file's name.
        every: plant steps per row of the result; default: at most 20 000 rows, on control instants.
        arm: True: commands reach the machine at once; False: it waits for `servonode.arm()`. Default: a simulated
            machine is armed, hardware waits.

    Raises:
        LaunchError, CacheError, CallError: as `load`; BusError: a run of this name is in progress, or its folder cannot
        be had; RunFailed: nothing was recorded; KeyboardInterrupt: it was broken off, after the machine was stopped.

    >>> import servonode
    >>> done = servonode.run("trailer_pursuit", name="example", run__duration=0.5, run__mode="lockstep")
    >>> done.control, float(done.t[-1]), done.fault
    ('lockstep', 0.5, None)
    """
    found = _loop(launch, overrides | given(locals()), run, code=code)
    return found.run(name=name, every=every, arm=arm)


def check(
    launch: Launch,
    *,
    residuals: Mapping[str, Any] | None = None,
    keep: Mapping[str, Any] | None = None,
    program: Any = None,
    settings: Mapping[str, Any] | None = None,
    gains: Mapping[str, Any] | None = None,
    targets: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
    parameters: Mapping[str, float | str] | None = None,
    limits: float | Mapping[str, float] | None = None,
    duration: float | None = None,
    period: float | None = None,
    values: Mapping[str, Any] | None = None,
    code: bool = True,
    **overrides: Any,
) -> "Report":
    """What `servonode check` finds before power-on: a `Report` with `verdict` ("yes" or "no"), findings and numbers.

    Args:
        launch, residuals to values, code, overrides: see `load`.

    Raises:
        LaunchError, CacheError, CallError: as `load`. What is wrong with gains, limits or the goal is not an error: it
        stands in `findings`, each with its level ("good", "warn", "refuse"), subject and text.

    >>> import servonode
    >>> report = servonode.check("trailer_pursuit", run__duration=2.0)
    >>> report.verdict, report.residuals["heading"]["relative_degree"]
    ('yes', 2)
    """
    return _loop(launch, overrides | given(locals()), check, strict=False, code=code).check()


def read_recording(file: str | Path, *, code: bool | None = None, **overrides: Any) -> Run:
    """The run in a recording (.mcap) or in the spool that a killed run has left: a `Run`, with `plot` and `movie`.

    Of a plant that died and was started again it is the last life.

    Args:
        file: the recording, as `servonode run --record` writes it.
        code: whether Python code that the recording names may run; None: what stands below the working directory as it
            was recorded.
        overrides: see `load`; the machine and the law are made again from the launch file in the recording.

    Raises:
        BagError: it is not a recording, or holds nothing of which rows can be made; LaunchError, CacheError, CallError:
        the machine cannot be made again.
    """
    from servonode.record.bag import read_bag
    from servonode.simulation.rows_of_messages import runs_in

    check_keywords(overrides, read_recording)
    bag = read_bag(Path(file))
    return runs_in(bag, bag.closed_loop(override_texts(overrides), code=code))[-1]


def identify(
    recordings: "str | Path | Run | Sequence[str | Path | Run]",
    parameters: str | Sequence[str],
    *,
    segment: float | None = None,
    law: bool = True,
    code: bool | None = None,
    **overrides: Any,
) -> Any:
    """Parameters of a machine from recordings of it, as `servonode identify` finds them: an `Identification`.

    Its `estimates` have value, 95 % interval and whether the record tells the parameter, by name; `parameters` are
    the values, for `plant__parameters=`; `combinations`, `residuals`, `correlation` and `law` say
    how far to trust them.

    Args:
        recordings: the .mcap file of a run, a `Run`, or several of them. Of a `Run` that was simulated the states are
            the true ones, without errors of sensors.
        parameters: names of the machine's parameters, or one text with commas between them.
        segment: the time [s] after which a new initial state is estimated; None: as rarely as the motion allows.
        law: whether the closed loop is simulated to say how the residuals of the law change.
        code, overrides: see `read_recording`; overrides change the launch files in recordings.

    Raises:
        IdentificationError: a parameter is unknown, enters no motion, or the records tell none of them; BagError,
        LaunchError, CacheError, CallError: as `read_recording`.

    >>> import servonode
    >>> torques = {"U1": "0.3*sin(2*t)", "U2": "0.3*sin(3*t)"}
    >>> run = servonode.simulate("trailer_open_loop", controller__settings=torques, plant__parameters__m1=5.0,
    ...                          controller__parameters__m1=4.0)
    >>> found = servonode.identify(run, "m1,c_w")
    >>> round(found.estimates["m1"].value, 6), found.estimates["m1"].before, found.estimates["c_w"].told
    (5.0, 4.0, 'yes')
    """
    check_keywords(overrides, identify)
    files = [recordings] if isinstance(recordings, str | Path | Run) else list(recordings)
    names = [name.strip() for name in parameters.split(",")] if isinstance(parameters, str) else list(parameters)
    if segment is not None and not (isinstance(segment, int | float) and 0 < segment < float("inf")):
        raise StatementError(f"segment={segment!r} is not a positive number of seconds; give one, or leave it out")
    return needed("identify")(files, names, segment, law, override_texts(overrides), code)


def _loop(
    launch: Any, overrides: Mapping[str, Any], called: Callable[..., Any], strict: bool = True, code: bool = True
) -> Loop:
    """The loop of a launch file with these keywords."""
    found = resolve(launch_of(launch, overrides, called), strict=strict, code=code)
    check_goal_speed(found, overrides)
    return Loop(found)


def launch_of(launch: Any, overrides: Mapping[str, Any], called: Callable[..., Any]) -> LaunchFile:
    """The launch file with these keywords; errors name one as it was given.

    Raises:
        LaunchError, StatementError: something does not fit; CallError: there is no such keyword.
    """
    check_keywords(overrides, called)
    found, spelled = dotted(overrides)
    speed = found.pop(GOAL_SPEED, None)
    texts = [f"{key}={toml_value(value)}" for key, value in found.items()]
    try:
        if isinstance(launch, Mapping):
            stated = launch_of_table(_with_references(launch), texts)
        elif _is_machine(launch):
            name = str(getattr(launch, "name", None) or getattr(launch, "__name__", "launch"))
            table = {"run": {"duration": 1.0}, "plant": {"machine": launch}}  # as of a robot's file
            stated = launch_of_table(_with_references(table), texts, name if name.isidentifier() else "launch")
        elif isinstance(launch, str | Path):
            stated = read_launch(launch, texts)
        else:
            remedy = "give the path of a launch file, the name of a packaged one, nested mappings, or a Model"
            raise StatementError(f"launch={_short(launch)} is not a launch file; {remedy}")
        return stated if speed is None else with_values(stated, {GOAL_SPEED: speed})
    except LaunchError as error:
        error.argument = None if error.option is None else spelled.get(error.option, error.option.replace(".", "__"))
        raise


def _is_machine(launch: Any) -> bool:
    """Whether it is a Model or a function that returns one, or names one: packaged, or in a Python file or module."""
    if isinstance(launch, str | Path):
        text = str(launch)
        return not launch_path(text).exists() and (text in PLANTS or kind_of(text) == "module" or ".py:" in text)
    return type(launch).__name__ == "Model" or (callable(launch) and not isinstance(launch, type))


def _short(given: Any) -> str:
    """What was given, on one line."""
    return textwrap.shorten(repr(given), 80, placeholder=" ...")


def _with_references(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with functions, Models and Programs replaced by references."""
    replaced = {}
    for section, key, kind in WHERE:
        content = table.get(section)
        stated = content.get(key, "") if isinstance(content, Mapping) else ""
        if isinstance(stated, str) or (kind == "Model" and isinstance(stated, Mapping)):  # a machine may be a table
            continue
        if not (callable(stated) or type(stated).__name__ == kind):
            text = f"{_short(stated)} is neither a name nor a function that returns a {kind}, nor a {kind}; give one"
            raise LaunchError("<launch>", section, key, text)
        replaced[section] = {**table[section], key: reference_to(stated)}
    return {**table, **replaced}


def override_texts(overrides: Mapping[str, Any]) -> list[str]:
    """`--set` texts of Python keyword arguments."""
    return [f"{key}={toml_value(value)}" for key, value in dotted(overrides)[0].items()]
