"""The table of topics as text and as JSON: types, fields with their units, publishers, subscribers."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from servonode.bus import TOPICS
from servonode.bus.messages import fields_of
from servonode.bus.topology import NODES, readers


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
    fields = first.fields()
    widths = [max(len(each[key]) for each in fields) for key in ("name", "kind", "unit")]
    lines.append("Fields:")
    for each in fields:
        cells = [each[key].ljust(width) for key, width in zip(("name", "kind", "unit"), widths, strict=True)]
        lines.append(f"  {'  '.join(cells)}  {each['what']}".rstrip())
    return "\n".join(lines)
