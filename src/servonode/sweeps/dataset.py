"""The results of a sweep as an xarray Dataset: one entry of the dimension `run` for each run."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from servonode.closed_loop.launch_text import launch_text
from servonode.errors import NotInstalled, installing
from servonode.sweeps.chunk import Chunk
from servonode.sweeps.measures import TEXTS
from servonode.sweeps.plan import Plan, swept
from servonode.version import VERSION

if TYPE_CHECKING:
    import xarray

Values = np.ndarray[Any, Any]
TEXT = np.dtypes.StringDType()
RUN, TIME, REASON = "run", "t", "reason"


def check_libraries() -> None:
    """Raise NotInstalled where xarray or zarr are missing."""
    try:
        import xarray  # noqa: F401
        import zarr  # noqa: F401
    except ImportError as error:
        text = f"a sweep needs {error.name}; install it with {installing('sweep')}"
        raise NotInstalled(text, name=error.name) from error


def columns(plan: Plan, chunk: Chunk) -> dict[str, Values]:
    """The results of a chunk by variable: (n,) each, and (n, n_times) of a history."""
    keys = dict(zip(plan.design.keys, chunk.values.T, strict=True))
    measures = {name: values.astype(TEXT) if name in TEXTS else values for name, values in chunk.measures.items()}
    histories = {name: _padded(values, len(plan.times)) for name, values in chunk.histories.items() if name != TIME}
    return keys | measures | {REASON: np.array(chunk.reasons, dtype=TEXT)} | histories


def _padded(values: Values, n_times: int) -> Values:
    """A history with nan behind the end of the runs of its chunk."""
    return np.pad(values, ((0, 0), (0, n_times - values.shape[1])), constant_values=np.nan)


def attributes_of(plan: Plan, name: str) -> dict[str, str]:
    """The unit of a variable, and what it is where its name does not say so."""
    if name == REASON:
        return {"long_name": "why a run did not complete; empty where it did"}
    unit = plan.units.get(name, "")
    return {"units": unit} if unit else {}


def attributes(plan: Plan) -> dict[str, Any]:
    """All that the results depend on: the launch file as stated, with its [sweep], the sources, and versions."""
    closed_loop = plan.closed_loop
    source, control = closed_loop.source, closed_loop.control
    program = control.source.digest(control.believed.build, control.options) if control else ""
    return {
        "title": f"sweep of {closed_loop.launch.name}",
        "keys": list(plan.design.keys),
        "launch": launch_text(swept(closed_loop)),
        "machine_digest": source.definition.digest(**source.settings),
        "program_digest": program,
        "servonode": VERSION,
        "versions": ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "llvmlite")),
        "chunk": plan.chunk,
        "histories": int(plan.histories),
    }


def dataset(plan: Plan, chunks: Sequence[Chunk]) -> "xarray.Dataset":
    """The dataset of all chunks of a sweep, in their order."""
    import xarray

    parts = [columns(plan, chunk) for chunk in chunks]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    made = {name: (_dimensions(values), values, attributes_of(plan, name)) for name, values in whole.items()}
    coordinates: dict[str, Any] = {RUN: np.arange(plan.runs)} | {key: made.pop(key) for key in plan.design.keys}
    if plan.histories:
        coordinates[TIME] = ((TIME,), plan.times, {"units": "s"})
    return xarray.Dataset(made, coordinates, attributes(plan))


def _dimensions(values: Values) -> tuple[str, ...]:
    return (RUN, TIME)[: values.ndim]
