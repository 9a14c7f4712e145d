"""The types of what a recording or a spool says of its run, by which it is checked: it may be from someone else."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from servonode.bus import TOPICS
from servonode.bus.messages import fields_of
from servonode.bus.run_folder import is_run_name

EVENTS = "run/events"  # the topic of events, which no node publishes
DEEPEST = 64  # levels of a JSON text; a launch file has some five
Number = float | None  # JSON has null for one that is not finite
_SIMPLE = {"number": Number, "integer": int, "string": str, "boolean": bool}
_decode = msgspec.json.Decoder().decode


def kind_of(needed: dict[str, Any], bases: tuple[Any, ...] = (), **optional: Any) -> Any:
    """The type of a map with these values; what else is in it is not looked at."""
    more = [(name, kind | msgspec.UnsetType, msgspec.UNSET) for name, kind in optional.items()]
    return msgspec.defstruct("Map", [*needed.items(), *more], bases=bases, kw_only=True)


HEADER = kind_of({"t": float, "node": str, **dict.fromkeys(("seq", "run", "k", "mono", "src"), int)})
SCHEMA: Any = kind_of({"title": str})
_RUN: Any = kind_of({"mode": str, "seed": int})
_TABLE: Any = kind_of(
    {"plant": kind_of({"machine": str | kind_of({"name": str})}), "run": _RUN}, controller=dict[str, Any]
)
_PATH: Any = Annotated[str, msgspec.Meta(pattern="^[^\0]*$")]
STORED_LAUNCH: Any = kind_of({"table": _TABLE, "path": _PATH, "file": str | None})
_CLOCK: Any = kind_of({"wall_ns": int, "mono_ns": int})
_MADE: dict[str, Any] = {"topics": list[str], "clock": _CLOCK, "made_by": dict[str, Any], "schemas": dict[str, SCHEMA]}
SPOOLED: Any = kind_of({"run": str, "every": int, "launch": STORED_LAUNCH, "columns": dict[str, list[str]]}, **_MADE)
_TOLD: dict[str, Any] = {"t": float, "on": str, "kind": str, "names": list[str], "found": str | None}
_INJECTED: Any = kind_of(_TOLD, size=Number, duration=Number, after=Number)
_SHOWN: dict[str, Any] = {
    **dict.fromkeys(("rate", "misses", "stalls", "overruns", "pauses", "paused_s", "link_latency_s"), Number),
    **dict.fromkeys(("counts", "extra", "restarts", "lost_rows", "changed_numbers", "round_trip_s"), dict[str, float]),
    "nodes": dict[str, dict[str, dict[str, float]]],
    "node_counts": dict[str, dict[str, float]],
    "grants": kind_of({}, line=str),
    "injected": list[_INJECTED],
}
_STATS: Any = kind_of({}, speed_changes=list[Number], readonly=bool, incomplete=str, **_SHOWN)
_FAULT: Any = kind_of({"name": str, "text": str, "t": float}, node=str)
# of JSON texts in the metadata, by name
ENDING_TEXTS: dict[str, Any] = {
    "ended": str,
    "faults": list[_FAULT],
    "stats": _STATS,
    "incomplete": str,
    "wall_s": float,
}
MERGED_TEXTS: dict[str, Any] = {"nodes": list[str], "offset_s": float, "bound_s": float}
_DIGESTS: dict[str, Any] = {"kernels": dict[str, Any], "files": dict[str, str]}


def plain(data: bytes, kind: Any = Any) -> Any:
    """What a JSON text says. Raises ValueError where it is not one, not of this type, or nested too deep."""
    try:
        found = _decode(data)
        if data.count(b"[") + data.count(b"{") > DEEPEST:
            _check_depth(found, DEEPEST)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    msgspec.convert(found, kind)
    return found


def check_texts(texts: Mapping[str, str], kinds: Mapping[str, Any], needed: bool = False) -> None:
    """ValueError unless the JSON texts of these names are of these types; needed: or one of them is missing."""
    for name, kind in kinds.items():
        if needed or name in texts:
            plain(texts.get(name, "").encode(), kind)


def check_about(about: Mapping[str, str]) -> None:
    """ValueError unless the metadata of a recording names the run and its clocks."""
    if not is_run_name(about.get("run", "")):
        raise ValueError("its run has no name, or one that is not usable")
    if "mode" not in about:
        raise ValueError("its run has no mode")
    for name in ("wall_ns", "mono_ns", "every"):
        if not re.fullmatch("[0-9]{1,19}", about.get(name, "")):
            raise ValueError(f"{name} = {about.get(name)!r} is not a number")
    check_texts(about, _DIGESTS)


def _check_depth(value: Any, levels: int) -> None:
    if not levels:
        raise RecursionError
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_depth(part, levels - 1)


def _type(schema: dict[str, Any]) -> Any:
    """The type of a value by its JSON Schema."""
    if schema["type"] == "array":
        return list[_type(schema["items"])]  # type: ignore[misc]
    if schema["type"] == "object":
        values = _type(schema["additionalProperties"]) if "additionalProperties" in schema else Any
        return dict[str, values]  # type: ignore[valid-type]
    return _SIMPLE[schema["type"]]


def _message(word: str) -> Any:
    """The type of the messages of a topic."""
    types = {each.name: _type(each.kind.schema) for each in fields_of(TOPICS[word])}
    needed = {each.name for each in msgspec.structs.fields(TOPICS[word]) if each.required}
    own = {name: kind for name, kind in types.items() if name not in HEADER.__struct_fields__}
    more = {name: kind for name, kind in own.items() if name not in needed}
    return kind_of({name: kind for name, kind in own.items() if name in needed}, (HEADER,), **more)


_MESSAGES = {word: _message(word) for word in TOPICS}
_EVENT = kind_of({"t": float, "node": str, "event": str, "text": str})


def message_type(topic: str) -> Any:
    """The type of the messages of NODE/WORD, or of events; of a word that is not known that of their header."""
    if topic == EVENTS:
        return _EVENT
    return _MESSAGES.get(topic.rpartition("/")[2], HEADER)
