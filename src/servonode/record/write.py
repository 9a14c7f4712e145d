"""A bag: the MCAP file of a run, made of its spool.

Messages are JSON with JSON Schemas, which PlotJuggler, Foxglove and every MCAP library read. In front of them stand
what the run was (metadata `servonode`) and its launch file as resolved, among them its rows, as attachments: a file
that was cut off keeps what stands before. Behind them stands what viewers draw. Schemas have the names of a run's
states, inputs and goals, each with its unit.
"""

import io
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from servonode.bus import TOPICS
from servonode.bus.messages import Field, fields_of
from servonode.bus.topology import NODES, RELAY, nodes_of
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.known_code import digest
from servonode.closed_loop.launch_text import table_text
from servonode.definitions.cache import loaded_digests
from servonode.errors import ServonodeError
from servonode.kernels.host import this_host, version_of
from servonode.mechanics.description import Quantity, packed
from servonode.record.events import Events
from servonode.record.files import new_file
from servonode.record.mcap_records import ABOUT, new_writer, sealed
from servonode.record.run_rows import RunRows
from servonode.record.spool import Recorded, SpooledRun
from servonode.record.typed import EVENTS
from servonode.version import VERSION

if TYPE_CHECKING:
    from mcap.writer import Writer

FORMAT = 2
READ = ("1", "2")  # formats; in the first all rows are one attachment
ENDING, MERGED = "servonode_ending", "servonode_merged"  # names of metadata, beside ABOUT
LAUNCH, ROWS = "launch.json", "rows{}.npz"  # names of attachments; the parts of the rows have numbers from 2 on
ROWS_PART = re.compile(r"rows(\d{0,9})\.npz")
LIBRARIES = ("numpy", "llvmlite", "pyzmq", "msgspec")
_to_json = msgspec.json.Encoder().encode
Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}


class Drawn(NamedTuple):
    """A message for viewers: its topic, which begins with DRAWN, its type, its time [ns since 1970]."""

    topic: str
    kind: str
    at: int
    content: dict[str, Any]


class BagError(ServonodeError, ValueError):
    """A recording that cannot be made, read or used; the text says why."""


def known_of(closed_loop: ClosedLoop) -> dict[str, Any]:
    """What a spool has to say of its run, so that a bag can be made of it; the clocks are those of now."""
    mono_ns = time.monotonic_ns()
    clock = {"wall_ns": time.time_ns(), "mono_ns": (mono_ns + time.monotonic_ns()) // 2}  # at the same time
    made_by = {**provenance(), "files": digests(closed_loop)}
    return {"topics": list(TOPICS), "clock": clock, "made_by": made_by, "schemas": schemas(closed_loop)}


def digests(closed_loop: ClosedLoop) -> dict[str, str]:
    """The digest of each file of the user's that states the machine or the program, by its path from the launch file.

    With those that they import or include.
    """
    folder = closed_loop.launch.path.parent.resolve()
    files = {file for *_, definition in closed_loop.own_definitions for file in definition.sources()}
    return {os.path.relpath(file, folder): text for file in sorted(files) if (text := digest(file))}


def provenance() -> dict[str, Any]:
    """Versions of servonode and its libraries, the processor, digests of the kernels, with values that JSON can carry.

    The same bits are promised where all of it is the same.
    """
    libc, version = platform.libc_ver()
    return {
        "servonode": VERSION,
        "python": sys.version.split()[0],
        "libraries": {name: version_of(name) for name in LIBRARIES},
        "system": f"{platform.system()} {platform.machine()}",
        "libm": f"{libc} {version}".strip(),
        "processor": this_host().processor,
        "kernels": loaded_digests(),
    }


def check_library() -> None:
    """BagError unless the MCAP library is installed."""
    try:
        import mcap.writer  # noqa: F401
    except ImportError as error:
        raise BagError(f'recordings need the library mcap ({error}); pip install "mcap>=1.2"') from error


def write_bag(run: SpooledRun, file: Path, ending: dict[str, Any], drawn: Iterable[Drawn] = ()) -> int:
    """Make a bag of what a spool holds, whole or not at all; how many messages of nodes it has.

    ending: how the run ended. drawn: what viewers draw, which no reader of bags reads.

    Raises:
        SpoolError, BagError: a message of it is none of the run; OSError: the bag cannot be written.
    """
    about, messages = run.about, Events().among(run.messages())
    known = described(about), about["launch"], run.rows, about["schemas"]
    return write_contents(file, *known, messages, ending | run.missing, drawn=drawn)


def write_contents(
    file: Path,
    about: dict[str, str],
    launch: dict[str, Any],
    rows: RunRows,
    schemas: dict[str, Any],
    messages: Iterator[Recorded],
    ending: dict[str, Any],
    merged: Mapping[str, str] = MappingProxyType({}),
    drawn: Iterable[Drawn] = (),
) -> int:
    """Make a bag, whole or not at all; how many messages it has. Raises OSError where it cannot be written.

    ending: how the run ended. messages: in their order, with the events. The others as in `BagWriter`.
    """
    with new_file(file) as stream:
        writer = BagWriter(stream, about, launch, schemas, merged)
        writer.add_rows(rows)
        writer.add(messages)
        writer.finish(ending, drawn)
    return writer.messages


class BagWriter:
    """Writes a bag to a stream, at once or while its run goes on. Its methods raise OSError where that fails.

    about, merged: its metadata, texts by name. launch: the launch file's table, path and name. schemas: by topic.
    """

    def __init__(
        self,
        stream: io.BufferedWriter,
        about: dict[str, str],
        launch: dict[str, Any],
        schemas: dict[str, Any],
        merged: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._about, self._begin = about, int(about["wall_ns"])
        self._wall_less_mono = self._begin - int(about["mono_ns"])
        self._writer = writer = new_writer(stream, f"servonode {VERSION}")
        writer.add_metadata(ABOUT, sealed(ABOUT, about))
        if merged:
            writer.add_metadata(MERGED, sealed(MERGED, merged))
        self._attach(LAUNCH, "application/json", json.dumps(launch, indent=1).encode())
        self._attach("launch.toml", "application/toml", table_text(launch["table"]).encode())
        self._channels = {
            topic: writer.register_channel(topic, "json", _registered(writer, schema["title"], schema))
            for topic, schema in schemas.items()
        }
        self._counts = dict.fromkeys(self._channels, 0)
        self._parts = 0  # of the rows

    def _attach(self, name: str, kind: str, data: bytes) -> None:
        self._writer.add_attachment(self._begin, self._begin, name, kind, data)

    def add_rows(self, rows: RunRows) -> None:
        """Add the next rows, if there are any."""
        if rows.columns:
            self._parts += 1
            name = ROWS.format("" if self._parts == 1 else self._parts)
            self._attach(name, "application/x-npz", _rows_file(rows))

    def add(self, messages: Iterable[Recorded]) -> None:
        """Add the next messages and events. BagError for one of a topic that the recording does not know."""
        for mono, topic, message in messages:
            at = self._wall_less_mono + mono
            if topic not in self._channels:
                raise BagError(f"the recording says nothing of the topic {topic!r}, of which it has messages")
            self._counts[topic] += 1
            number = message.get("seq", self._counts[topic] - 1) % 2**32
            self._writer.add_message(self._channels[topic], at, _to_json(message), at, number)

    @property
    def messages(self) -> int:
        """The number of messages so far."""
        return sum(self._counts.values())

    def finish(self, ending: dict[str, Any], drawn: Iterable[Drawn]) -> None:
        """Add how the run ended and what viewers draw; the bag is whole then."""
        _write_drawn(self._writer, drawn)
        self._writer.add_metadata(ABOUT, sealed(ABOUT, self._about))  # again, for without it nothing can be read
        texts = {name: json.dumps(value) for name, value in ending.items()}
        self._writer.add_metadata(ENDING, sealed(ENDING, texts))
        self._writer.finish()


def _registered(writer: "Writer", title: str, schema: dict[str, Any]) -> int:
    """The number of a JSON Schema."""
    number: int = writer.register_schema(title, "jsonschema", json.dumps(schema).encode())
    return number


def _write_drawn(writer: "Writer", drawn: Iterable[Drawn]) -> None:
    """Write what viewers draw; they know its types, which are lists of objects, by their names."""
    channels: dict[str, int] = {}
    for topic, kind, at, content in drawn:
        if topic not in channels:
            lists = {name: {"type": "array", "items": {"type": "object"}} for name in content}
            schema = {"title": kind, "type": "object", "properties": lists}
            channels[topic] = writer.register_channel(topic, "json", _registered(writer, kind, schema))
        writer.add_message(channels[topic], at, _to_json(content), at)


def described(about: dict[str, Any]) -> dict[str, str]:
    """What a bag's metadata says of its run; all values are texts."""
    table, made_by = about["launch"]["table"], about["made_by"]
    controller, machine = table.get("controller", {}), table["plant"]["machine"]
    return {
        "format": str(FORMAT),
        "run": about["run"],
        "machine": machine if isinstance(machine, str) else machine["name"],
        "program": controller.get("program") or ("residuals" if controller.get("residuals") else ""),
        "mode": table["run"]["mode"],
        "seed": str(table["run"]["seed"]),
        "every": str(about["every"]),
        "wall_ns": str(about["clock"]["wall_ns"]),
        "mono_ns": str(about["clock"]["mono_ns"]),
        **{name: value if isinstance(value, str) else json.dumps(value) for name, value in made_by.items()},
    }


def _rows_file(rows: RunRows) -> bytes:
    """The content of an attachment of rows."""
    arrays: dict[str, Any] = {f"{node}_columns": np.array(names) for node, names in rows.columns.items()}
    arrays |= {f"{node}_life{life}": table for node, life, table in rows.recorded()}
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    return packed.getvalue()


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
