"""What a sweep has found, in a few lines: how many runs failed and why, median and largest value of each measure."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from servonode.record.run import json_number
from servonode.sweeps.dataset import REASON, RUN
from servonode.tables import named

if TYPE_CHECKING:
    import xarray

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
