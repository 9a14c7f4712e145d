"""A recording of a run that is already in progress, by subscribing to it as a viewer does."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from servonode.bus import TOPICS, Message, MessageError, Status, decode
from servonode.bus.codec import encode_frames
from servonode.bus.topology import RELAY, publishers
from servonode.operator.find_runs import Found
from servonode.operator.listener import Raw, RawListener
from servonode.operator.run_parameters import stored_closed_loop
from servonode.record.files import opened, recovery
from servonode.record.spool import MESSAGES, about_block, append, block, message_entry, read_spool
from servonode.record.write import check_library, known_of, write_bag

NICE = 5


class OtherClock:
    """Converts the clock of messages that come from another computer, as the newest status of the relay says.

    registry: that of the run.
    """

    def __init__(self, registry: dict[str, Any]) -> None:
        self._nodes = set(registry.get("elsewhere", ()))
        self._offset_ns: int | None = None  # what is added to our clock to have theirs

    def on_ours(self, message: Message) -> Message | None:
        """The message with a time of this computer's clock; None while it is not known what stands between the two."""
        if message.node == RELAY and isinstance(message, Status) and "offset_s" in message.values:
            self._offset_ns = round(message.values["offset_s"] * 1e9)
        if message.node not in self._nodes:
            return message
        return None if self._offset_ns is None else replace(message, mono=max(message.mono - self._offset_ns, 0))


@dataclass
class Listened:
    """What was recorded. missing: messages by topic that were sent, but not read in time."""

    messages: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def record_run(found: Found, file: Path, is_over: Callable[[], bool]) -> Listened:
    """Record a run until it ends or `is_over`, and make the bag.

    Raises:
        BusError: the run is not there any more; BagError: the library is missing; OSError: the file cannot be written.
    """
    check_library()
    with contextlib.suppress(OSError):
        os.nice(NICE)
    made = Listened()
    with RawListener(str(found.path), partial(publishers, TOPICS)) as listener:
        listener.wait_open()
        descriptor, spool = opened(file.resolve())
        try:
            _listen(listener, descriptor, is_over, made)
            ending: dict[str, Any] = {"ended": "recorded by listening", "missing": dict(made.missing)}
            ending |= {"incomplete": "; ".join(made.problems)} if made.problems else {}
            made.messages = write_bag(read_spool(descriptor), file, ending)
        except OSError as error:
            kept = f"; {recovery(spool, file)}" if spool else ""
            made.problems.append(f"{file}: cannot be written ({error.strerror}){kept}")
            return made
        finally:
            os.close(descriptor)
        if spool is not None:
            spool.unlink(missing_ok=True)
    return made


def _listen(listener: RawListener, descriptor: int, is_over: Callable[[], bool], made: Listened) -> None:
    """Write to the spool what arrives, as often as it is read."""
    size = append(descriptor, 0, about_block(_about(listener.registry)))
    written: Counter[str] = Counter()
    newest: dict[tuple[int, str], int] = {}
    clock = OtherClock(listener.registry)
    for batch in listener.batches():
        entries: dict[str, list[bytes]] = {}
        for raw in batch:
            sent = _decoded(made, newest, raw)
            message = sent and clock.on_ours(sent)
            if message is not None:
                payload = raw.payload if message is sent else encode_frames(raw.topic, message)[1]
                entries.setdefault(raw.node, []).append(message_entry(raw.topic, payload))
        for node, parts in entries.items():
            content = b"".join(parts)
            try:
                size = append(descriptor, size, block(MESSAGES[node], written[node], content))
            except OSError as error:
                made.problems.append(f"the recording has ended before the run: {error.strerror}")
                return
            written[node] += len(content)
        if is_over():
            return


def _decoded(made: Listened, newest: dict[tuple[int, str], int], raw: Raw) -> Message | None:
    """The message of a payload; None where it is none of its topic. Counts those that are missing in front of it."""
    try:
        message = decode(raw.topic.encode(), raw.payload)
    except MessageError:
        made.missing[f"{raw.node}/{raw.topic}"] += 1
        return None
    key = message.src, raw.topic
    if key in newest:
        made.missing[f"{raw.node}/{raw.topic}"] += max(message.seq - newest[key] - 1, 0)
    newest[key] = message.seq
    return message


def _about(registry: dict[str, Any]) -> dict[str, Any]:
    """The first block of the spool."""
    stored = registry["launch"]
    known = known_of(stored_closed_loop(registry))
    return {"launch": stored, "every": 1, "run": registry["run"], "columns": {}} | known
