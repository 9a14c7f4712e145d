"""The messages in a spool, those of all nodes in the order in which they were sent."""

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from servonode.record.frame_store import ENTRY
from servonode.record.spool import FRAMES, Block, Pieces, blocks, check_about, mapped, take

Recorded = tuple[int, str, dict[str, Any]]  # the sender's monotonic clock [ns], NODE/WORD, the message's map
_NODES = {kind: node for node, kind in FRAMES.items()}
_decode = msgspec.msgpack.Decoder().decode


@dataclass(frozen=True)
class SpooledRun:
    """A run as its spool holds it. missing: bytes of messages by node that are in no block, though others follow."""

    pieces: Pieces
    contents: dict[str, list[memoryview]]
    missing: Counter[str]

    @property
    def about(self) -> dict[str, Any]:
        return self.pieces.about

    def messages(self) -> Iterator[Recorded]:
        """All messages in the order of their senders' clocks, which are one on one computer."""
        words: list[str] = self.about.get("topics", [])
        streams = [_messages(node, words, contents) for node, contents in self.contents.items()]
        return heapq.merge(*streams, key=itemgetter(0))


def read_frames(file: Path | int) -> SpooledRun:
    """What is intact of a spool, rows and messages. Raises as `read_spool`."""
    pieces, contents, missing, following = Pieces(), dict[str, list[memoryview]](), Counter[str](), Counter[str]()
    for found in blocks(mapped(file)):
        if not isinstance(found, Block):
            pieces.damaged += found
        elif found.kind in _NODES:
            node = _NODES[found.kind]
            missing[node] += max(found.first - following[node], 0)
            if found.first >= following[node]:  # else a writer that died had written it before
                contents.setdefault(node, []).append(found.content)
                following[node] = found.first + len(found.content)
        else:
            take(pieces, found)
    check_about(pieces.about, file)
    return SpooledRun(pieces, contents, +missing)


def _messages(node: str, words: list[str], contents: list[memoryview]) -> Iterator[Recorded]:
    topics = [f"{node}/{word}" for word in words]
    for content in contents:
        at = 0
        while at < len(content):
            size, topic = ENTRY.unpack_from(content, at)
            begin = at + ENTRY.size
            at = begin + size
            message = _decode(content[begin:at])
            yield message["mono"], topics[topic], message
