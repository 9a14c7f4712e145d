"""The public functions: `servonode.load`, `servonode.simulate` and `servonode.check`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import launch_of_table, read_launch
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.closed_loop.launch_text import toml_value
from servonode.closed_loop.run import Run
from servonode.loop import Loop
from servonode.mechanics.references import at_hand

if TYPE_CHECKING:
    from servonode.analysis.check import Report

Launch = str | Path | Mapping[str, Any]


def load(launch: Launch, *, strict: bool = True, code: bool = True, **overrides: Any) -> Loop:
    """The machine and its law, ready to be looked into, checked and simulated.

    Args:
        launch: path of a launch file, the bare name of a packaged one, or its content as nested mappings, where
            machine and program may also be functions.
        strict: refuse what `run` would refuse; False to look into it all the same.
        code: False to refuse a launch file that names Python code, which would run here with all your rights.
        overrides: launch-file keys with `__` for the dot: `run__duration=10`, `controller__gains__lambda=3`.

    Raises:
        LaunchError: the launch file or an override does not fit; CacheError: the kernel cache cannot be used.
    """
    return Loop(resolve(_read(launch, overrides), strict=strict, code=code))


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
    """Simulate a launch file in this process.

    Args:
        launch, code, overrides: see `load`.
        control: sampled with a zero-order hold, or the law inside the right-hand side of an adaptive integrator.
        loop: the sampled loop as one compiled function or as nodes on a bus in memory; the bits are the same.
        every: plant steps per row of the result; default: at most 20 000 rows, on control instants.
        rtol, atol: tolerances of the continuous mode.

    Raises:
        LaunchError, CacheError: as `load`;
        SimulationError: the law failed, or the continuous integration cannot go on;
        ValueError: `control`, `loop` or `every` is not one of the choices.
    """
    return load(launch, code=code, **overrides).simulate(control, loop, every, rtol, atol)


def check(launch: Launch, *, code: bool = True, **overrides: Any) -> "Report":
    """What would run: machine, program, constraints, relative degrees, gains, times, verdict; raises as `load`."""
    return load(launch, strict=False, code=code, **overrides).check()


def _read(launch: Launch, overrides: dict[str, Any]) -> LaunchFile:
    texts = override_texts(overrides)
    return (
        launch_of_table(_with_references(launch), texts) if isinstance(launch, Mapping) else read_launch(launch, texts)
    )


def _with_references(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with functions, Models and Programs replaced by references."""
    replaced = {}
    for section, key in (("plant", "machine"), ("controller", "program")):
        content = table.get(section)
        if isinstance(content, Mapping) and not isinstance(content.get(key, ""), str):
            replaced[section] = {**content, key: at_hand(content[key])}
    return {**table, **replaced}


def override_texts(overrides: dict[str, Any]) -> list[str]:
    """`--set` texts of Python keyword arguments."""
    entries: dict[str, Any] = {}
    for key, value in overrides.items():
        whole = isinstance(value, Mapping) and "__" not in key  # a whole section: key by key
        entries |= {f"{key}__{name}": each for name, each in value.items()} if whole else {key: value}
    return [f"{key.replace('__', '.')}={toml_value(value)}" for key, value in entries.items()]
