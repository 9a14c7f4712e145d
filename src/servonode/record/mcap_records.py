"""The records of an MCAP file, read sequentially, so that a truncated or damaged file yields its intact part.

In the recording of several robots all names begin with that of a robot, as `leader/plant/state`.
"""

import mmap
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from servonode.record.typed import SCHEMA, plain

if TYPE_CHECKING:
    from mcap.records import Attachment, Chunk, DataEnd, Footer, McapRecord
    from mcap.writer import Writer


from servonode.record.files import new_file
from servonode.version import VERSION

T = TypeVar("T")
ABOUT = "servonode"  # name of the metadata that say what was run
CHUNK = 1 << 18  # bytes, before they are packed: what one damaged byte costs
CHECKSUM = "checksum"  # of metadata, for which MCAP has none; absent in what other tools and earlier versions wrote
EXPANDED = 200  # times its packed size that anything in a recording may have; messages and rows have some 30 at most
DRAWN = "/"  # begins the topics of what viewers draw; those of nodes are NODE/WORD
LARGEST = 1 << 30  # bytes of a record that is accepted
_ATTACHMENT_BYTES = 8 + 8 + 4 + 4 + 8 + 4  # of its record beside texts and data: times, sizes, checksum


def of_robot(file: Path) -> tuple[Path, str]:
    """The file itself and the robot of FILE.mcap/ROBOT; no robot for another path."""
    return (file.parent, file.name) if file.parent.suffix == ".mcap" and file.parent.is_file() else (file, "")


def new_writer(stream: IO[bytes], library: str) -> "Writer":
    """A writer of a recording, begun, which seals all that it writes with checksums."""
    from mcap.writer import Writer

    writer = Writer(stream, chunk_size=CHUNK, enable_data_crcs=True)
    writer.start(library=library)
    return writer


def sealed(name: str, metadata: Mapping[str, str]) -> dict[str, str]:
    """Metadata of this name with its checksum."""
    known = {key: value for key, value in metadata.items() if key != CHECKSUM}
    return known | {CHECKSUM: str(zlib.crc32(repr((name, sorted(known.items()))).encode("utf-8", "backslashreplace")))}


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
        for record in self._records():
            if isinstance(record, Header):
                self.library = record.library
            elif isinstance(record, Attachment):
                attachments[record.name] = record.data
            elif isinstance(record, Metadata):
                metadata[record.name] = {key: text for key, text in record.metadata.items() if key != CHECKSUM}
        return self._own(metadata), self._own(attachments)

    def _own(self, found: dict[str, T]) -> dict[str, T]:
        """What belongs to the robot, by names without it."""
        prefix = self._prefix
        return {name.removeprefix(prefix): each for name, each in found.items() if name.startswith(prefix)}

    def messages(self) -> Iterator[tuple[str, int, bytes]]:
        """Topic, time [ns since 1970] and content of each message of a node, those of damaged chunks left out."""
        from mcap.records import Channel, Chunk, Message

        topics = {each.id: each.topic for each in self._repeated() if isinstance(each, Channel)}
        for record in self._records(summed=True):
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

        return [each for each in self._records() if isinstance(each, Channel | Schema)]

    def schemas(self) -> dict[str, Any]:
        """The JSON Schema of each topic of a node of a whole file. Raises ValueError where one cannot be read."""
        from mcap.records import Channel, Schema

        repeated = self._repeated()
        known = {each.id: plain(each.data, SCHEMA) for each in repeated if isinstance(each, Schema)}
        own = self._own({each.topic: known.get(each.schema_id) for each in repeated if isinstance(each, Channel)})
        return {topic: schema for topic, schema in own.items() if schema and not topic.startswith(DRAWN)}

    def _inner(self, chunk: "Chunk") -> "Sequence[McapRecord]":
        """The records of a chunk; none of one that is damaged."""
        from mcap.stream_reader import breakup_chunk

        try:
            inner: Sequence[McapRecord] = breakup_chunk(_expanded(chunk), validate_crc=True)
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
        for record in self._records():
            if isinstance(record, Attachment):
                times = record.create_time, record.log_time
                writer.add_attachment(*times, prefix + record.name, record.media_type, record.data)
            elif isinstance(record, Metadata):
                writer.add_metadata(prefix + record.name, sealed(prefix + record.name, record.metadata))
            for each in self._inner(record) if isinstance(record, Chunk) else (record,):
                _declare(each, writer, schemas, channels, prefix)
                if isinstance(each, Message) and each.channel_id in channels:
                    times = each.log_time, each.publish_time
                    writer.add_message(channels[each.channel_id], times[0], each.data, times[1], each.sequence)
                    copied += 1
        return copied

    def _records(self, summed: bool = False) -> "Iterator[McapRecord]":
        """The records as far as they are whole.

        summed: with the checksums of all of the file, which tell of damage in what is used by other tools alone.
        """
        from mcap.exceptions import EndOfFile, McapError
        from mcap.records import Attachment, DataEnd, Footer, Metadata
        from mcap.stream_reader import StreamReader

        sums = (DataEnd, Footer) if summed else ()
        with self.file.open("rb") as stream:
            try:
                for record in StreamReader(stream, emit_chunks=True, record_size_limit=LARGEST).records:
                    if isinstance(record, Attachment) and not _is_intact(record, stream):
                        self.damaged(f"the attachment {record.name} is damaged; it is left out")
                    elif (
                        isinstance(record, Metadata)
                        and CHECKSUM in record.metadata
                        and record.metadata != sealed(record.name, record.metadata)
                    ):
                        self.damaged(f"the metadata {record.name!r} is damaged; it is left out")
                    else:
                        yield record
                    if isinstance(record, sums) and not (self.damage or _is_summed(record, stream)):
                        self.damaged("its checksum is another: a byte beside messages, rows and metadata has changed")
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


def _is_summed(record: "DataEnd | Footer", stream: IO[bytes]) -> bool:
    """Whether what the record sums up, which ends where the stream stands, has its checksum, or none."""
    end, whole = stream.tell(), memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    if hasattr(record, "summary_start"):
        wanted, part = record.summary_crc, whole[record.summary_start or end - 29 : end - 4]
    else:
        wanted, part = record.data_section_crc, whole[: end - 13]
    return not wanted or zlib.crc32(part) == wanted


def _expanded(chunk: "Chunk") -> "Chunk":
    """The chunk without compression. ValueError, before that, where it would be larger than what a recording holds."""
    import lz4.frame
    import zstandard

    size, most = chunk.uncompressed_size, max(EXPANDED * len(chunk.data), 2 * CHUNK)  # hundreds of states at rest
    if chunk.compression == "zstd":
        size = max(size, zstandard.frame_content_size(chunk.data))
    if chunk.compression and size > most:
        raise ValueError(f"it would expand to {size} bytes, one of its size to {most} at most")
    if chunk.compression == "zstd":
        data = zstandard.ZstdDecompressor().decompress(chunk.data, max_output_size=size)
    elif chunk.compression == "lz4":
        data = lz4.frame.LZ4FrameDecompressor().decompress(chunk.data, max_length=size + 1)
    else:
        return chunk
    if len(data) != size:
        raise ValueError(f"it has {len(data)} bytes, not {size}")
    return replace(chunk, compression="", data=data)


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


def join_bags(parts: Mapping[str, Path], file: Path) -> int:
    """Make one recording of those of the robots, which are then removed; how many messages it has.

    Raises OSError where it cannot be written; the parts stay.
    """
    with new_file(file) as stream:
        writer = new_writer(stream, f"servonode {VERSION}")
        messages = sum(Records(part).copy_into(writer, f"{robot}/") for robot, part in parts.items())
        writer.finish()
    for part in parts.values():
        part.unlink()
    return messages


def robots_in(file: Path) -> list[str]:
    """The robots of a recording; empty for one of a single machine."""
    metadata, _ = Records(file).described()
    return [name.partition("/")[0] for name in metadata if name.endswith(f"/{ABOUT}")]


def parts_of(file: Path) -> list[Path]:
    """The recordings in a file: FILE.mcap/ROBOT of each robot, or the file itself."""
    robots = robots_in(file) if file.suffix == ".mcap" and file.is_file() else []
    return [file / robot for robot in robots] or [file]
