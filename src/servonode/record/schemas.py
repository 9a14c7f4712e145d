"""JSON Schemas of the messages of a run: the names of its states, inputs and goals, each with its unit."""

from typing import Any

from servonode.bus import TOPICS
from servonode.bus.topology import NODES, nodes_of
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.description import packed
from servonode.record.events import EVENTS

Schema = dict[str, Any]
_INTEGER: Schema = {"type": "integer"}
_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_VALUES: Schema = {"type": "object", "additionalProperties": {"type": "number"}}


def _number(unit: str, what: str = "") -> Schema:
    text = f"{what} [{unit}]".strip()
    return {"type": "number", "description": text}


def _object(properties: dict[str, Schema], title: str = "") -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {"title": title, **schema} if title else schema


_READINGS: Schema = {
    "type": "object",
    "description": "of sensors by name: step of measuring, value, step, value, ...",
    "additionalProperties": {"type": "array", "items": {"type": "number"}},
}
_HEADER: dict[str, Schema] = {
    "t": _number("s", "plant time"),
    "seq": {**_INTEGER, "description": "number of the message at its sender, per topic"},
    "run": {**_INTEGER, "description": "the plant's start id"},
    "k": {**_INTEGER, "description": "plant step"},
    "mono": {**_INTEGER, "description": "the sender's monotonic clock [ns]"},
    "node": _TEXT,
    "src": {**_INTEGER, "description": "the sender's start id"},
}
_EVENT = _object({"t": _number("s", "plant time"), "node": _TEXT, "event": _TEXT, "text": _TEXT}, "servonode.Event")


def schemas(closed_loop: ClosedLoop) -> dict[str, Schema]:
    """The schema of each topic `NODE/WORD` of a run, and of its events."""
    words = {word: _schema(word, closed_loop) for word in TOPICS}
    nodes = nodes_of(closed_loop.control is not None)
    return {f"{node}/{word}": words[word] for node in nodes for word in NODES[node].publishes} | {EVENTS: _EVENT}


def _schema(word: str, closed_loop: ClosedLoop) -> Schema:
    described = closed_loop.machine.description
    inputs = _object({each.name: _number(each.unit, each.description) for each in described.inputs})
    more: dict[str, dict[str, Schema]] = {
        "state": {
            "state": _object(_packed(closed_loop)),
            "input": inputs,
            "control": {**_FLAG, "description": "a control instant: a command is expected"},
            "final": _FLAG,
            "applied_seq": _INTEGER,
            "goal_k": {**_INTEGER, "description": "plant step to which the goal belongs; -1: k"},
            "age": _number("s", "age of the measured values"),
            "latency": _number("s", "measured time from here until an input acts; 0: not measured"),
            "extra": _VALUES,
            "readings": _READINGS,
        },
        "command": {
            "re": {**_INTEGER, "description": "seq of the state it answers"},
            "target_seq": _INTEGER,
            "input": inputs,
            "fault": _TEXT,
            "goal": {
                "type": "array",
                "description": "that the law used, where the machine's firmware has the same law",
                "items": {"type": "number"},
            },
        },
        "applied": {
            "input": inputs,
            "desired": inputs,
            "re": _INTEGER,
            "reasons": {"type": "array", "items": _TEXT},
            "repeats": _INTEGER,
            "until": _INTEGER,
            "state_seq": _INTEGER,
            "final": _FLAG,
        },
        "target": {"target": _object({name: {"type": "number"} for name in closed_loop.targets.entries})},
        "report": {
            "residual": _object({each.name: _number(each.unit, each.description) for each in closed_loop.residuals}),
            "condition": {"type": "number"},
            "saturated": _FLAG,
            "compute_s": _number("s", "time that the law took"),
            "re": _INTEGER,
            "scale": _VALUES,
        },
        "status": {
            "lifecycle": _TEXT,
            "fault": _TEXT,
            "safe_state": _TEXT,
            "counts": _VALUES,
            "values": _VALUES,
            "goal_k": _INTEGER,
        },
        "estimate": {
            "state": _object(_packed(closed_loop)),
            "std": _object({name: {"type": "number"} for name in described.columns}),
            "innovation": _VALUES,
            "nis": {"type": "number"},
            "readings": _INTEGER,
            "nees": {"type": "number"},
            "dimensions": _INTEGER,
            "re": _INTEGER,
            "rejected": _VALUES,
        },
        "setup": {},
    }
    return _object(_HEADER | more[word], f"servonode.{TOPICS[word].__name__}")


def _packed(closed_loop: ClosedLoop) -> dict[str, Schema]:
    """The states by their names in messages, vectors as arrays."""
    described = closed_loop.machine.description
    by_name: dict[str, Any] = packed(described.layout, list(described.state))  # type: ignore[arg-type]
    return {
        name: {"type": "array", "items": _number(each[0].unit)}
        if isinstance(each, list)
        else _number(each.unit, each.description)
        for name, each in by_name.items()
    }
