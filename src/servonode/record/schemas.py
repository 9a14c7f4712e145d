"""JSON Schemas of the messages of a run: the names of its states, inputs and goals, each with its unit."""

from collections.abc import Iterable
from typing import Any

from servonode.bus import TOPICS
from servonode.bus.messages import Field, fields_of
from servonode.bus.topology import NODES, RELAY, nodes_of
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.description import Quantity, packed
from servonode.record.typed import EVENTS

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}


def schemas(closed_loop: ClosedLoop) -> dict[str, Schema]:
    """The schema of each topic `NODE/WORD` of a run, and of its events."""
    named = _named(closed_loop)
    nodes = nodes_of(closed_loop.control is not None)
    if closed_loop.launch.hosts is not None:
        nodes = (*nodes, RELAY)
    topics = {f"{node}/{word}": _schema(word, named) for node in nodes for word in NODES[node].publishes}
    event = {"t": _number("s", "plant time"), "node": _TEXT, "event": _TEXT, "text": _TEXT}
    return topics | {EVENTS: {"title": "servonode.Event", **_object(event)}}


def _schema(word: str, named: dict[str, Schema]) -> Schema:
    kind = TOPICS[word]
    properties = {each.name: named.get(f"{word}.{each.name}") or _field(each) for each in fields_of(kind)}
    return {"title": f"servonode.{kind.__name__}", **_object(properties)}


def _field(field: Field) -> Schema:
    """The schema of a field whose names, if it has any, are not known before the run."""
    text = f"{field.what} [{field.unit}]" if field.unit else field.what
    return {**field.kind.schema, "description": text}


def _named(closed_loop: ClosedLoop) -> dict[str, Schema]:
    """The fields, as TOPIC.FIELD, whose names a run knows before it starts."""
    described = closed_loop.machine.description
    state, inputs = _object(_packed(closed_loop)), _quantities(described.inputs)
    entries = _object({name: {"type": "number"} for name in described.columns})
    return {
        "state.state": state,
        "state.input": inputs,
        "state.std": entries,
        "command.input": inputs,
        "applied.input": inputs,
        "applied.desired": inputs,
        "target.target": _object({name: {"type": "number"} for name in closed_loop.targets.entries}),
        "report.residual": _quantities(closed_loop.residuals),
        "estimate.state": state,
        "estimate.std": entries,
    }


def _number(unit: str, what: str = "") -> Schema:
    return {"type": "number", "description": f"{what} [{unit}]".strip()}


def _quantities(quantities: Iterable[Quantity]) -> Schema:
    return _object({each.name: _number(each.unit, each.description) for each in quantities})


def _object(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties}


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
