"""The public functions: `servonode.load`, `simulate`, `sweep`, `run`, `check`, `read_recording` and `identify`."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct
from msgspec import inspect as struct_inspect

from servonode.closed_loop.added_sections import all_sections, find_section
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import LaunchError, launch_of_table, read_launch
from servonode.closed_loop.launch_keys import LaunchFile, Sections
from servonode.closed_loop.launch_text import toml_value
from servonode.definitions.references import reference_to
from servonode.errors import CallError, StatementError, did_you_mean, nearest
from servonode.loop import Loop, needed
from servonode.record.run import Run

if TYPE_CHECKING:
    import xarray

    from servonode.analysis.report import Report
    from servonode.mechanics.model import Model

Launch: TypeAlias = "str | Path | Mapping[str, Any] | Model"
WHERE = (("plant", "machine", "Model"), ("controller", "program", "Program"))


def load(launch: Launch, *, strict: bool = True, code: bool = True, **overrides: Any) -> Loop:
    """The machine and its law, ready to be looked into, checked and simulated: a `Loop`.

    Args:
        launch: path of a launch file, the bare name of a packaged one, or its content as nested mappings, where
            machine and program may also be functions, or a Model and a Program; or a Model, or path of a robot's URDF
            or MJCF file, which is then the machine, without a law, for 1 s.
        strict: refuse what `run` would refuse; False to look into it all the same.
        code: False to refuse a launch file that names Python code, which would run here with all your rights.
        overrides: launch-file keys with `__` for the dot: `run__duration=10`, `controller__gains__lambda=3`.

    Raises:
        LaunchError: the launch file or an override does not fit; CacheError: the kernel cache cannot be used;
        CallError: there is no such argument.

    >>> import servonode
    >>> loop = servonode.load("trailer_pursuit", run__duration=2.0)
    >>> loop.machine.description.name
    'diff_drive_trailer'
    >>> loop.closed_loop.launch.run.duration
    2.0
    """
    return Loop(resolve(launch_of(launch, overrides, load), strict=strict, code=code))


def simulate(
    launch: Launch,
    *,
    control: Literal["sampled", "continuous"] = "sampled",
    loop: Literal["fused", "nodes"] = "fused",
    every: int | None = None,
    rtol: float = 1e-12,
    atol: float = 1e-12,
    code: bool = True,
    **overrides: Any,
) -> Run:
    """Simulate a launch file in this process: a `Run`, whose arrays have one entry for each recorded row.

    Args:
        launch, code, overrides: see `load`.
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
    >>> run = servonode.simulate("trailer_pursuit", run__duration=2.0)
    >>> run.fault is None, float(run.t[-1]), sorted(run.input)
    (True, 2.0, ['U1', 'U2'])
    >>> run.residual_max["heading"] < 1e-3
    True
    """
    found = Loop(resolve(launch_of(launch, overrides, simulate), strict=True, code=code))
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
    code: bool = True,
    **overrides: Any,
) -> "xarray.Dataset":
    """Simulate many runs of a launch file with other numbers: an xarray Dataset with one entry of `run` for each.

    A run that is refused or meets a fault is an entry with its reason. The bits are the same wherever it is computed.

    Args:
        launch, code, overrides: see `load`.
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
    found = Loop(resolve(launch_of(launch, overrides, sweep), strict=True, code=code))
    return found.sweep(
        vary, method=method, runs=runs, seed=seed, chunk=chunk, measures=measures, histories=histories, threads=threads,
        workers=workers, scheduler=scheduler, send_code=send_code, output=output, resume=resume,
    )  # fmt: skip


def run(
    launch: Launch,
    *,
    name: str | None = None,
    every: int | None = None,
    arm: bool | None = None,
    code: bool = True,
    **overrides: Any,
) -> Run:
    """Run a launch file on processes over ZeroMQ, as `servonode run` does, and wait for its end: a `Run`.

    `run.stats` then has the times, misses and counts of the nodes. While it goes on, `servonode.status()` and
    `servonode.estop()` work from another process.

    Args:
        launch, code, overrides: see `load`.
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
    found = Loop(resolve(launch_of(launch, overrides, run), strict=True, code=code))
    return found.run(name=name, every=every, arm=arm)


def check(launch: Launch, *, code: bool = True, **overrides: Any) -> "Report":
    """What `servonode check` finds before power-on: a `Report` with `verdict` ("yes" or "no"), findings and numbers.

    Args:
        launch, code, overrides: see `load`.

    Raises:
        LaunchError, CacheError, CallError: as `load`. What is wrong with gains, limits or the goal is not an error: it
        stands in `findings`, each with its level ("good", "warn", "refuse"), subject and text.

    >>> import servonode
    >>> report = servonode.check("trailer_pursuit", run__duration=2.0)
    >>> report.verdict, report.residuals["heading"]["relative_degree"]
    ('yes', 2)
    """
    return Loop(resolve(launch_of(launch, overrides, check), strict=False, code=code)).check()


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

    _check_sections(overrides, read_recording)
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
    _check_sections(overrides, identify)
    given = [recordings] if isinstance(recordings, str | Path | Run) else list(recordings)
    names = [name.strip() for name in parameters.split(",")] if isinstance(parameters, str) else list(parameters)
    if segment is not None and not (isinstance(segment, int | float) and 0 < segment < float("inf")):
        raise StatementError(f"segment={segment!r} is not a positive number of seconds; give one, or leave it out")
    return needed("identify")(given, names, segment, law, override_texts(overrides), code)


def launch_of(launch: Any, overrides: dict[str, Any], called: Callable[..., Any]) -> LaunchFile:
    """The launch file; errors name an override as it was given, KEY__NAME."""
    if type(launch).__name__ == "Model":
        launch = {"run": {"duration": 1.0}, "plant": {"machine": launch}}  # as of a robot's file
    if not isinstance(launch, str | Path | Mapping):
        remedy = "give the path of a launch file, the name of a packaged one, nested mappings, or a Model"
        raise StatementError(f"launch={_short(launch)} is not a launch file; {remedy}")
    _check_sections(overrides, called)
    texts = override_texts(overrides)
    try:
        if isinstance(launch, Mapping):
            return launch_of_table(_with_references(launch), texts)
        return read_launch(launch, texts)
    except LaunchError as error:
        error.argument = None if error.option is None else error.option.replace(".", "__")
        raise


def _short(given: Any) -> str:
    """What was given, on one line."""
    return textwrap.shorten(repr(given), 80, placeholder=" ...")


def _check_sections(overrides: Mapping[str, Any], called: Callable[..., Any]) -> None:
    """CallError for a keyword that is neither an argument of the function nor a key of launch files."""
    keys = _keys(Sections)
    for word, value in overrides.items():
        section = word.partition("__")[0]
        own = keys.get(section)
        if own is None and (added := find_section(section)) is not None:
            own = added.__struct_fields__
        if own is None:
            raise CallError(_unknown_argument(word, called, _keys(all_sections(installed=True))))
        listed = isinstance(value, list) and not own
        if "__" not in word and not isinstance(value, Mapping) and not listed:
            example = f"{section}__{own[0]}=" if own else f"{section}={{'x': 1.0}}"
            example = "fault=[{'on': 'drive', 'kind': 'off', 'at': 1.0}]" if section == "fault" else example
            raise CallError(f"{called.__name__}(): {word}={value!r} is not a mapping of its keys; write {example}...")


def _unknown_argument(word: str, called: Callable[..., Any], keys: Mapping[str, Sequence[str]]) -> str:
    """That there is no such argument, with the nearest one or the nearest key of launch files."""
    from inspect import signature  # after mistakes alone

    stated = signature(called).parameters.values()
    arguments = [each.name for each in stated if each.kind is each.KEYWORD_ONLY]
    near = did_you_mean(word, arguments)
    if not near:  # a key without its section, or with one underscore
        dotted = [(section, key) for section, known in keys.items() for key in known]
        spelled = {f"{section}_{key}": (section, key) for section, key in dotted} | {key: (s, key) for s, key in dotted}
        near = "".join(f"did you mean {'__'.join(spelled[each])}? " for each in nearest(word, spelled))
    text = f"{called.__name__}() has no argument {word!r}; {near}it takes {', '.join(arguments)}"
    return f"{text}, and keys of launch files as SECTION__KEY=, with the sections {', '.join(keys)}"


@cache
def _keys(sections: type[Struct]) -> dict[str, tuple[str, ...]]:
    """The keys of each section of launch files."""
    found = {}
    for field in struct_inspect.type_info(sections).fields:  # type: ignore[attr-defined]
        info = field.type
        parts = [info, *getattr(info, "types", ())]
        structs = [each for each in parts if isinstance(each, struct_inspect.StructType)]
        found[field.encode_name] = tuple(each.encode_name for part in structs for each in part.fields)
    return found


def _with_references(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with functions, Models and Programs replaced by references."""
    replaced = {}
    for section, key, kind in WHERE:
        content = table.get(section)
        stated = content.get(key, "") if isinstance(content, Mapping) else ""
        if isinstance(stated, str):
            continue
        if not (callable(stated) or type(stated).__name__ == kind):
            text = f"{_short(stated)} is neither a name nor a function that returns a {kind}, nor a {kind}; give one"
            raise LaunchError("<launch>", section, key, text)
        replaced[section] = {**table[section], key: reference_to(stated)}
    return {**table, **replaced}


def override_texts(overrides: Mapping[str, Any]) -> list[str]:
    """`--set` texts of Python keyword arguments."""
    entries: dict[str, Any] = {}
    for key, value in overrides.items():
        whole = isinstance(value, Mapping) and "__" not in key  # a whole section: key by key
        entries |= {f"{key}__{name}": each for name, each in value.items()} if whole else {key: value}
    return [f"{key.replace('__', '.')}={toml_value(value)}" for key, value in entries.items()]
