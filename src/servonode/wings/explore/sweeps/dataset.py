"""The results of a sweep as an xarray Dataset, an entry of the dimension `run` for each run, and in a few lines."""

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from servonode.closed_loop.launch_text import launch_text
from servonode.errors import NotInstalled, installing
from servonode.record.run import json_number
from servonode.tables import named
from servonode.version import VERSION
from servonode.wings.explore.sweeps.chunk import Chunk
from servonode.wings.explore.sweeps.measures import TEXTS
from servonode.wings.explore.sweeps.plan import Plan, swept

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
    histories = {  # with nan behind the end of the runs of the chunk
        name: np.pad(values, ((0, 0), (0, len(plan.times) - values.shape[1])), constant_values=np.nan)
        for name, values in chunk.histories.items()
        if name != TIME
    }
    return keys | measures | {REASON: np.array(chunk.reasons, dtype=TEXT)} | histories


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
    made = {name: ((RUN, TIME)[: values.ndim], values, attributes_of(plan, name)) for name, values in whole.items()}
    coordinates: dict[str, Any] = {RUN: np.arange(plan.runs)} | {key: made.pop(key) for key in plan.design.keys}
    if plan.histories:
        coordinates[TIME] = ((TIME,), plan.times, {"units": "s"})
    return xarray.Dataset(made, coordinates, attributes(plan))


LEFT_OUT = ("duration", "fault_time")  # measures that say when a run ended
MOST_GROUPS, LONGEST = 8, 110  # kinds of failures in the text, and characters of a reason
NUMBER = re.compile(r"-?\b\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def summary(found: "xarray.Dataset") -> dict[str, Any]:
    """The summary as JSON; each measure is read by itself, so that memory holds one of them."""
    reasons = found[REASON].values
    failed = np.flatnonzero(reasons != "")
    return {
        "runs": found.sizes[RUN],
        "failed": len(failed),
        "failures": list(_failures(found["fault"].values[failed], reasons[failed], failed)),
        "measures": dict(_measures(found)),
    }


def _failures(faults: Any, reasons: Any, runs: Any) -> Iterator[dict[str, Any]]:
    """The kinds of failures, the most frequent first: reasons that differ in numbers alone are one."""
    groups: dict[tuple[str, str], list[int]] = {}
    for i, (fault, reason) in enumerate(zip(faults.tolist(), reasons.tolist(), strict=True)):
        groups.setdefault((fault, NUMBER.sub("#", reason)), []).append(i)
    for (fault, _), members in sorted(groups.items(), key=lambda group: -len(group[1])):
        first = members[0]
        yield {"fault": fault, "runs": len(members), "first": int(runs[first]), "reason": str(reasons[first])}


def _measures(found: "xarray.Dataset") -> Iterator[tuple[str, dict[str, Any]]]:
    """Median and largest value of each measure over the runs that have one."""
    for name, variable in found.data_vars.items():
        if variable.dims != (RUN,) or variable.dtype.kind != "f" or name in LEFT_OUT:
            continue
        values = variable.values
        known = {"unit": variable.attrs.get("units", "")}
        if np.isnan(values).all():
            yield str(name), known | {"median": None, "largest": None, "run": None}
            continue
        at = int(np.nanargmax(values))
        yield str(name), known | {
            "median": json_number(np.nanmedian(values)), "largest": json_number(values[at]), "run": at
        }  # fmt: skip


def summary_text(answer: dict[str, Any]) -> str:
    """The summary as lines of text."""
    lines = [f"  {'runs':<32} {answer['runs']}, of which {answer['failed'] or 'none'} failed"]
    for each in answer["failures"][:MOST_GROUPS]:
        reason = each["reason"] if len(each["reason"]) <= LONGEST else f"{each['reason'][:LONGEST]}..."
        lines.append(f"  {each['runs']:>10} x {reason} (run {each['first']})")
    left = len(answer["failures"]) - MOST_GROUPS
    lines += [f"  {left:>10} more kinds of failures"] if left > 0 else []
    lines += ["", f"  {'measure':<32} {'median':>12} {'largest':>12}   in run"]
    for name, each in answer["measures"].items():
        shown = [_short(each[word]) for word in ("median", "largest")]
        run = "" if each["run"] is None else each["run"]
        lines.append(f"  {named(name, each['unit']):<32} {shown[0]:>12} {shown[1]:>12}   {run}".rstrip())
    return "\n".join(lines)


def _short(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:.4g}"
