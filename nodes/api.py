"""The public functions: `servonode.simulate` and `servonode.check`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from servonode.nodes.assembly import assemble
from servonode.nodes.launch_file import read_launch
from servonode.nodes.result import Run
from servonode.nodes.simulate import default_every, simulate_continuous, simulate_fused, simulate_nodes

if TYPE_CHECKING:
    from servonode.nodes.check import Report


def simulate(
    launch: str | Path,
    *,
    control: Literal["sampled", "continuous"] = "sampled",
    loop: Literal["fused", "nodes"] = "fused",
    every: int | None = None,
    rtol: float = 1e-12,
    atol: float = 1e-12,
    **overrides: Any,
) -> Run:
    """Simulate a launch file (path or packaged name) in this process.

    Args:
        launch: path of a launch file, or the bare name of a packaged one.
        control: sampled with a zero-order hold, or the law inside the right-hand side of an adaptive integrator.
        loop: the sampled loop as one compiled function or as nodes on a bus in memory; the bits are the same.
        every: plant steps per row of the result; default: at most 20 000 rows, on control instants.
        rtol, atol: tolerances of the continuous rung.
        overrides: launch-file keys with `__` for the dot: `run__duration=10`, `controller__gains__lambda=3`.

    Raises:
        LaunchError: the launch file or an override does not fit; CacheError: the kernel cache is damaged;
        SimulationError: the law failed, or the continuous integration cannot go on;
        ValueError: `control`, `loop` or `every` is not one of the choices.
    """
    for word, choices in ((control, ("sampled", "continuous")), (loop, ("fused", "nodes"))):
        if word not in choices:
            raise ValueError(f"{word!r} is unknown; choose {' or '.join(choices)}")
    if every is not None and every < 1:
        raise ValueError(f"every = {every} is not a number of plant steps; give 1 or more")
    assembly = assemble(read_launch(launch, override_texts(overrides)))
    rows = every or default_every(assembly)
    if control == "continuous":
        return simulate_continuous(assembly, rows, rtol, atol)
    return simulate_nodes(assembly, rows) if loop == "nodes" else simulate_fused(assembly, rows)


def check(launch: str | Path, **overrides: Any) -> "Report":
    """What would run: machine, program, constraints, degrees, gains, times; raises as `simulate`."""
    from servonode.nodes.check import report

    return report(assemble(read_launch(launch, override_texts(overrides)), strict=False))


def override_texts(overrides: dict[str, Any]) -> list[str]:
    """`--set` texts of Python keyword arguments."""
    return [f"{key.replace('__', '.')}={_toml(value)}" for key, value in overrides.items()]


def _toml(value: Any) -> str:
    if hasattr(value, "tolist"):  # of numpy, whose repr is no TOML
        value = value.tolist()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {_toml(each)}' for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
