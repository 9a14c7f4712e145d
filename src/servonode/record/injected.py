"""The faults that were injected into a run, each with the one that was found after it."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any


def with_found(injected: Iterable[Mapping[str, Any]], faults: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The injected faults, each with `found`, the name of the first fault after it, and `after`, how long [s]; or None.

    A fault that comes after another one was injected counts for that one.

    What the plant finds goes before what the launcher sees, which knows plant time by the newest status alone.
    """
    told = [dict(each) for each in injected]
    begins = [each["t"] for each in told]
    return [each | _found(each, min((t for t in begins if t > each["t"]), default=inf), faults) for each in told]


def _found(injected: Mapping[str, Any], until: float, faults: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = [each for each in faults if injected["t"] <= each["t"] < until or each["node"] in injected["names"]]
    if not found:
        return {"found": None, "after": None}
    first = min(found, key=lambda each: (each["node"] in injected["names"], each["t"]))
    return {"found": first["name"], "after": max(first["t"] - injected["t"], 0.0)}


def injected_text(each: Mapping[str, Any]) -> str:
    """One of them in a line."""
    size = f" {each['size']:g}" if each["size"] else ""
    lasts = "" if each["duration"] is None else f" for {each['duration']:g} s"
    found = f"found {each['found']} {each['after']:.3f} s later" if each["found"] else "no fault was found"
    return f"{each['on']} {each['kind']}{size} ({', '.join(each['names'])}) at t = {each['t']:.3f} s{lasts}: {found}"
