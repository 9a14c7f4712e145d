"""Topics and their messages as text, JSON and CSV: types, fields with their units, publishers, values."""

import csv
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import click
from msgspec import to_builtins

from servonode.bus import TOPICS, Message
from servonode.bus.messages import fields_of
from servonode.bus.topology import NODES, readers
from servonode.cli.verb import aligned
from servonode.errors import ServonodeError, did_you_mean


@dataclass(frozen=True)
class TopicEntry:
    """A topic of a node."""

    name: str  # NODE/TOPIC
    type: str
    what: str
    node: str
    topic: str
    publishers: list[str]
    subscribers: list[str]

    def as_dict(self) -> dict[str, Any]:
        """The entry for programs."""
        return asdict(self)

    def fields(self) -> list[dict[str, str]]:
        """Name, kind, unit and meaning of each field."""
        return [
            {"name": each.name, "kind": each.kind.text, "unit": each.unit, "what": each.what}
            for each in fields_of(TOPICS[self.topic])
        ]


def table(nodes: Iterable[str] | None) -> list[TopicEntry]:
    """The topics of these nodes (absent: of all that there are), sorted by name."""
    known = [node for node in NODES if nodes is None or node in nodes]
    found = []
    for node in known:
        for topic in NODES[node].publishes:
            kind = TOPICS[topic]
            what = f"{(kind.__doc__ or '').partition('. ')[0].rstrip('.')}."
            subscribers = readers(node, topic, known)
            found.append(TopicEntry(f"{node}/{topic}", kind.__name__, what, node, topic, [node], subscribers))
    return sorted(found, key=lambda each: each.name)


def summary(entry: TopicEntry) -> str:
    """A topic in one line."""
    return f"{entry.name} [{entry.type}] to {', '.join(entry.subscribers) or 'listeners only'}: {entry.what}"


def described(entries: Sequence[TopicEntry], address: str | None) -> str:
    """What there is to know of the topics of one name. address: of the run's telemetry."""
    first = entries[0]
    lines = [f"Type: {first.type}", first.what]
    for title, names in (
        ("Publisher", [name for each in entries for name in each.publishers]),
        ("Subscription", list(dict.fromkeys(name for each in entries for name in each.subscribers))),
    ):
        lines.append(f"{title} count: {len(names)}" + (f" ({', '.join(names)})" if names else ""))
    if address:
        lines.append(f"Telemetry: {address} as {', '.join(each.name for each in entries)}")
    return "\n".join([*lines, "Fields:", *aligned([list(each.values()) for each in first.fields()])])


HEAD = ("node", "t", "run", "src", "mono")  # stands in front, or is for programs only


class NoSuchField(ServonodeError, ValueError):
    """A message has no field of this name; the text names the choices."""


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """The single values in a message by their names, such as `state.V` and `state.n[0]`; texts of a list are one."""
    if isinstance(value, Mapping):
        parts = [flat(each, f"{name}.{key}".lstrip(".")) for key, each in value.items()]
    elif isinstance(value, list) and not any(isinstance(each, str) for each in value):
        parts = [flat(each, f"{name}[{i}]") for i, each in enumerate(value)]
    else:
        return {name: ";".join(value) if isinstance(value, list) else value}
    return {key: each for part in parts for key, each in part.items()}


def chosen(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The values of these names; a name that stands for several gives them all.

    Raises NoSuchField for a name that stands for none.
    """
    found: dict[str, Any] = {}
    for name in names:
        below = {key: each for key, each in values.items() if key == name or key.startswith((f"{name}.", f"{name}["))}
        if not below:
            near = did_you_mean(name, values)
            raise NoSuchField(f"there is no field {name!r}; {near}{'C' if near else 'c'}hoose {', '.join(values)}")
        found |= below
    return found


class Printer:
    """Prints messages, each in a line. fields: only these. The first message decides which there are."""

    def __init__(self, fields: Sequence[str], form: Literal["text", "json", "csv"]) -> None:
        self._fields, self._form = fields, form
        self._names: list[str] = []  # of the values that are printed, where they are chosen or columns
        self._late: set[str] = set()  # names that came later than the line of names

    def show(self, came: tuple[str, Message]) -> None:
        """Print one message with its topic. Raises NoSuchField for a field that the first one has not."""
        topic, message = came
        content = to_builtins(message)
        if not self._fields and self._form != "csv":
            head = f"{message.node}/{topic} t={message.t:.9g}"
            click.echo(json.dumps({"topic": topic, **content}) if self._form == "json" else f"{head} {_text(content)}")
            return
        values = flat(content)
        if not self._names:
            self._names = list(chosen(values, self._fields) if self._fields else values)
            if self._form == "csv":
                self._row(self._names)
        self._show_values(values)

    def _show_values(self, values: Mapping[str, Any]) -> None:
        shown = {name: values.get(name) for name in self._names}
        if self._form == "csv":
            self._row(["" if each is None else each for each in shown.values()])
            if not self._fields:
                self._tell_late(values)
        elif self._form == "json":
            click.echo(json.dumps(shown))
        elif len(shown) == 1:
            click.echo(json.dumps(*shown.values()))
        else:
            click.echo(" ".join(f"{name}={json.dumps(each)}" for name, each in shown.items()))

    def _row(self, cells: Sequence[Any]) -> None:
        csv.writer(sys.stdout, lineterminator="\n").writerow(
            [str(each).lower() if isinstance(each, bool) else each for each in cells]
        )
        sys.stdout.flush()

    def _tell_late(self, values: Mapping[str, Any]) -> None:
        """Say which values have no column, each once."""
        late = values.keys() - set(self._names) - self._late
        if late:
            self._late |= late
            text = f"{', '.join(sorted(late))} came later than the line of names, and stands in no column"
            click.echo(f"servonode: {text}; name what you want with --field, or one node's topic", err=True)


def _text(value: Any, name: str = "") -> str:
    if isinstance(value, dict):
        shown = {key: each for key, each in value.items() if each != {} and (name or key not in HEAD)}
        return " ".join(_text(each, f"{name}.{key}".lstrip(".")) for key, each in shown.items())
    return f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={json.dumps(value)}"
