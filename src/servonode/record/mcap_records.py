"""The records of an MCAP file, read sequentially, so that a truncated or damaged file yields its intact part."""

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from mcap.records import Attachment, Chunk, McapRecord
    from mcap.writer import Writer

T = TypeVar("T")
DRAWN = "/"  # begins the topics of what viewers draw; those of nodes are NODE/WORD
LARGEST = 1 << 30  # bytes of a record that is accepted
_ATTACHMENT_BYTES = 8 + 8 + 4 + 4 + 8 + 4  # of its record beside texts and data: times, sizes, checksum


def of_robot(file: Path) -> tuple[Path, str]:
    """The file itself and the robot of FILE.mcap/ROBOT; no robot for another path."""
    return (file.parent, file.name) if file.parent.suffix == ".mcap" and file.parent.is_file() else (file, "")


class Records:
    """An MCAP file. library: what wrote it; damage: what is not whole, in words, as far as was read.

    FILE.mcap/ROBOT is the part of one robot in a recording of several: names that begin with ROBOT/, without that.
    """

    def __init__(self, file: Path, damage: list[str] | None = None) -> None:
        """damage: the list to which what is found is added."""
        self.file, robot = of_robot(file)
        self._prefix = f"{robot}/" if robot else ""
        self.library = ""
        self.damage: list[str] = [] if damage is None else damage

    def described(self) -> tuple[dict[str, dict[str, str]], dict[str, bytes]]:
        """Metadata by name, wherever it stands; attachments by name."""
        from mcap.records import Attachment, Header, Metadata

        metadata: dict[str, dict[str, str]] = {}
        attachments: dict[str, bytes] = {}
        for record in self._records(emit_chunks=True):
            if isinstance(record, Header):
                self.library = record.library
            elif isinstance(record, Attachment):
                attachments[record.name] = record.data
            elif isinstance(record, Metadata):
                metadata[record.name] = record.metadata
        return self._own(metadata), self._own(attachments)

    def _own(self, found: dict[str, T]) -> dict[str, T]:
        """What belongs to the robot, by names without it."""
        prefix = self._prefix
        return {name.removeprefix(prefix): each for name, each in found.items() if name.startswith(prefix)}

    def messages(self) -> Iterator[tuple[str, int, bytes]]:
        """Topic, time [ns since 1970] and content of each message of a node, those of damaged chunks left out."""
        from mcap.records import Channel, Chunk, Message

        topics = {each.id: each.topic for each in self._repeated() if isinstance(each, Channel)}
        for record in self._records(emit_chunks=True):
            for each in self._inner(record) if isinstance(record, Chunk) else (record,):
                if isinstance(each, Channel):
                    topics[each.id] = each.topic
                elif isinstance(each, Message) and (topic := topics.get(each.channel_id, "")).startswith(self._prefix):
                    name = topic.removeprefix(self._prefix)
                    if not name.startswith(DRAWN):
                        yield name, each.log_time, each.data

    def _repeated(self) -> "list[McapRecord]":
        """Schemas and channels that stand at the end of a whole file too: they may be in a damaged chunk."""
        from mcap.records import Channel, Schema

        return [each for each in self._records(emit_chunks=True) if isinstance(each, Channel | Schema)]

    def schemas(self) -> dict[str, Any]:
        """The JSON Schema of each topic of a node of a whole file."""
        from mcap.records import Channel, Schema

        repeated = self._repeated()
        known = {each.id: json.loads(each.data) for each in repeated if isinstance(each, Schema)}
        own = self._own({each.topic: known[each.schema_id] for each in repeated if isinstance(each, Channel)})
        return {topic: schema for topic, schema in own.items() if not topic.startswith(DRAWN)}

    def _inner(self, chunk: "Chunk") -> "Sequence[McapRecord]":
        """The records of a chunk; none of one that is damaged."""
        from mcap.stream_reader import breakup_chunk

        try:
            inner: Sequence[McapRecord] = breakup_chunk(chunk, validate_crc=True)
            return inner
        except Exception as error:  # noqa: BLE001  (each decompressor has errors of its own)
            self.damaged(f"a chunk of {len(chunk.data)} bytes is damaged ({error}); its messages are left out")
            return ()

    def copy_into(self, writer: "Writer", prefix: str = "") -> int:
        """Write all that is whole into another file, `prefix` before all names; how many messages that was."""
        from mcap.records import Attachment, Chunk, Message, Metadata

        schemas: dict[int, int] = {0: 0}
        channels: dict[int, int] = {}
        copied = 0
        for each in self._repeated():
            _declare(each, writer, schemas, channels, prefix)
        for record in self._records(emit_chunks=True):
            if isinstance(record, Attachment):
                times = record.create_time, record.log_time
                writer.add_attachment(*times, prefix + record.name, record.media_type, record.data)
            elif isinstance(record, Metadata):
                writer.add_metadata(prefix + record.name, record.metadata)
            for each in self._inner(record) if isinstance(record, Chunk) else (record,):
                _declare(each, writer, schemas, channels, prefix)
                if isinstance(each, Message) and each.channel_id in channels:
                    times = each.log_time, each.publish_time
                    writer.add_message(channels[each.channel_id], times[0], each.data, times[1], each.sequence)
                    copied += 1
        return copied

    def _records(self, **options: Any) -> "Iterator[McapRecord]":
        """The records as far as they are whole."""
        from mcap.exceptions import EndOfFile, McapError
        from mcap.records import Attachment
        from mcap.stream_reader import StreamReader

        with self.file.open("rb") as stream:
            try:
                for record in StreamReader(stream, record_size_limit=LARGEST, **options).records:
                    if not isinstance(record, Attachment) or _is_intact(record, stream):
                        yield record
                    else:
                        self.damaged(f"the attachment {record.name} is damaged; it is left out")
            except (EndOfFile, struct.error):
                self.damaged("its end is cut off; servonode bag recover makes it whole")
            except (McapError, ValueError, UnicodeDecodeError, OverflowError, MemoryError) as error:
                self.damaged(
                    f"it is damaged from byte {stream.tell()} on ({error}); servonode bag recover takes the rest"
                )

    def damaged(self, text: str) -> None:
        """Note what is not whole, once."""
        if text not in self.damage:
            self.damage.append(text)


def _is_intact(attachment: "Attachment", stream: IO[bytes]) -> bool:
    """Whether an attachment has its checksum, with which its record ends, where the stream stands."""
    end = stream.tell()
    texts = len(attachment.name.encode()) + len(attachment.media_type.encode())
    stream.seek(end - _ATTACHMENT_BYTES - texts - len(attachment.data))
    content = stream.read(_ATTACHMENT_BYTES + texts + len(attachment.data))
    return int.from_bytes(content[-4:], "little") in (0, zlib.crc32(content[:-4]))  # 0: without one


def _declare(
    record: "McapRecord", writer: "Writer", schemas: dict[int, int], channels: dict[int, int], prefix: str
) -> None:
    """Declare a schema or a channel in another file, once; the numbers that it has there are added."""
    from mcap.records import Channel, Schema

    if isinstance(record, Schema) and record.id not in schemas:
        schemas[record.id] = writer.register_schema(record.name, record.encoding, record.data)
    elif isinstance(record, Channel) and record.id not in channels and record.schema_id in schemas:
        known = record.message_encoding, schemas[record.schema_id], record.metadata
        channels[record.id] = writer.register_channel(prefix + record.topic, *known)
