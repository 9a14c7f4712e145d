"""Reading a bag, complete or truncated, or the spool that a killed run left."""

import io
import json
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.bus.topology import CONTROLLER, PLANT, RELAY
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import launch_of_table
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.record.events import Events
from servonode.record.files import SUFFIX
from servonode.record.mcap_records import ABOUT, EXPANDED, Records, of_robot, robots_in
from servonode.record.run import Run
from servonode.record.run_rows import RunRows, held, held_index
from servonode.record.spool import MAGIC as SPOOL_MAGIC
from servonode.record.spool import Recorded, SpooledRun, SpoolError, read_spool
from servonode.record.typed import (
    ENDING_TEXTS,
    MERGED_TEXTS,
    STORED_LAUNCH,
    check_about,
    check_texts,
    message_type,
    plain,
)
from servonode.record.write import ENDING, LAUNCH, MERGED, READ, ROWS_PART, BagError, check_library, described
from servonode.tables import Row, Tabular

RELAYED = f"{RELAY}/status"  # of a computer's relay: it says what stands between the clocks of the two computers
MAGIC = b"\x89MCAP0\r\n"


@dataclass(repr=False)
class Bag(Tabular):
    """A recording. about, ending: its metadata, texts by name; ending is empty where the run was killed.

    launch: the launch file's table, path and name. spool: what was read, where it is no bag yet. damage: what is not
    whole, in words.
    merged: of one that was joined of those of two computers, what is known of the other one than the plant's.
    """

    file: Path
    about: dict[str, str]
    launch: dict[str, Any]
    rows: RunRows
    ending: dict[str, str] = field(default_factory=dict)
    spool: SpooledRun | None = None
    damage: list[str] = field(default_factory=list)
    merged: dict[str, str] = field(default_factory=dict)

    def table(self) -> tuple[str, list[Row]]:
        """What was recorded, how it ended, what of it is damaged."""
        about, ended = self.about, "killed: how it ended was not recorded"
        if self.ending:
            ended = " ".join(self.ended.split()) or "not recorded"
        rows = [
            ("run", about["run"]),
            ("machine", about.get("machine", "")),
            ("program", about.get("program") or "none"),
        ]
        rows += [("mode", about["mode"]), ("ended", ended)] + [("damage", text) for text in self.damage[:3]]
        return f"Recording {self.file}{' (a spool)' if self.spool else ''}", rows

    def messages(self, topics: Collection[str] = ()) -> Iterator[Recorded]:
        """All messages, or those of some topics `NODE/WORD`: the sender's monotonic clock [ns], topic, map."""
        found = (
            Events().among(self.spool.messages())
            if self.spool
            else _messages(Records(self.file, self.damage), self.wall_less_mono)
        )
        return (each for each in found if each[1] in topics) if topics else found

    def holds(self, topic: str) -> bool:
        """Whether there is a message of this topic."""
        return next(self.messages((topic,)), None) is not None

    @property
    def ended(self) -> str:
        """How the run ended, and where its recording ended before it."""
        ended, lacks = (json.loads(self.ending.get(word, '""')) for word in ("ended", "incomplete"))
        return f"{ended}; {lacks}" if lacks else ended

    def remedy(self, otherwise: str) -> str:
        """What helps where messages or rows are missing: of a run on two computers, the recording of the other one."""
        if self.holds(RELAYED) and not self.merged:
            return "join it with the recording of the other computer: servonode bag merge"
        return otherwise

    @property
    def wall_less_mono(self) -> int:
        """What is added to a sender's monotonic clock to have the wall's [ns]."""
        return int(self.about["wall_ns"]) - int(self.about["mono_ns"])

    def schemas(self) -> dict[str, Any]:
        """The JSON Schema of each topic, of a whole recording."""
        try:
            known: dict[str, Any] = self.spool.about["schemas"] if self.spool else Records(self.file).schemas()
        except ValueError as error:
            raise BagError(f"{self.file}: a schema in it is damaged ({error})") from error
        return known

    def made_by(self, node: str) -> dict[str, str]:
        """The metadata of the computer on which a node ran."""
        return self.merged if self.merged and node in json.loads(self.merged["nodes"]) else self.about

    def closed_loop(
        self, overrides: Collection[str] = (), code: bool | None = None, strict: bool = False
    ) -> ClosedLoop:
        """What was run, resolved again, with `overrides` (KEY=VALUE); see `resolve`.

        code: whether Python code that it names may run; None: what is below the working directory as it was recorded.

        Raises CodeRefused: there is code that may not run; LaunchError, CacheError: it cannot be made again, as of a
        machine whose file has gone.
        """
        recorded = {
            name: each for of in (self.merged, self.about) for name, each in json.loads(of.get("files", "{}")).items()
        }
        return resolve(self._launch(overrides), strict=strict, code=recorded if code is None else code)

    def columns(self) -> dict[str, Array]:
        """The rows of the plant's last life as the nodes recorded them, by name, with their times t [s].

        They need no machine. Raises BagError where no rows were recorded.
        """
        if PLANT not in self.rows.columns:
            raise BagError(f"{self.file}: holds no rows; servonode bag export --topic writes its messages")
        launch = self._launch()
        names, table = self.rows.columns[PLANT], self.rows.newest(PLANT)
        k = table[:, 0].astype(np.int64)
        found = {"t": k * launch.step_ns / 1e9} | dict(zip(names, table.T, strict=True))
        if names := self.rows.columns.get(CONTROLLER, []):
            answers = self.rows.newest(CONTROLLER)
            index = held_index(k, answers[:, 0], launch.steps_per_period or 1)
            found |= held(*index, dict(zip(names[1:], answers.T[1:], strict=True)))
        return found

    def _launch(self, overrides: Collection[str] = ()) -> LaunchFile:
        table, path, file = (self.launch[word] for word in ("table", "path", "file"))
        return launch_of_table(table, tuple(overrides), name=self.about["run"], path=Path(path), file=file)

    def runs(self, closed_loop: ClosedLoop) -> list[Run]:
        """The run with all its rows, those of a plant that died and was restarted before it.

        Raises BagError where none was recorded.
        """
        if not self.rows.lives:
            raise BagError(f"{self.file}: holds no rows: it was recorded by listening, or the run was killed at once")
        stats = json.loads(self.ending.get("stats", "{}"))
        faults = json.loads(self.ending.get("faults", "[]"))
        wall_s = json.loads(self.ending.get("wall_s", "0.0"))
        return self.rows.runs(closed_loop, wall_s, stats=stats, faults=faults)


def read_bag(file: Path) -> Bag:
    """A recording by its file; by a bag's name also the spool of a run that was killed before it was made.

    Raises:
        BagError, SpoolError: it is not one, or of another version; OSError: it cannot be read.
    """
    spool = Path(f"{file}{SUFFIX}")
    try:
        if not file.exists() and spool.exists():
            file = spool
        stored, robot = of_robot(file)
        if not stat.S_ISREG(stored.stat().st_mode):  # a pipe would be waited for
            raise BagError(f"{file}: cannot be read (not a regular file); give the .mcap file of a recording")
        with stored.open("rb") as stream:
            magic = stream.read(len(MAGIC))
    except OSError as error:
        raise BagError(f"{file}: cannot be read ({error.strerror}); give the .mcap file of a recording") from None
    if magic.startswith(SPOOL_MAGIC):
        return bag_of_spool(read_spool(file), file)
    if magic != MAGIC or (robot and robot not in robots_in(stored)):
        if robots := robots_in(stored) if magic == MAGIC else []:
            raise BagError(f"{file}: the recording has no robot {robot!r}; choose {', '.join(robots)}")
        raise BagError(f"{file}: not a recording; give an .mcap file, or the .spool file that a killed run left")
    check_library()
    return _of_mcap(file)


def bag_of_spool(run: SpooledRun, file: Path) -> Bag:
    """What a spool holds, as a bag; file: its name. Raises SpoolError where it holds no messages."""
    if "clock" not in run.about:
        remedy = f"its CSV file is made by servonode recover {file}"
        raise SpoolError(f"{file}: contains only the rows of a run, no messages; {remedy}")
    known = described(run.about)
    try:
        check_about(known)
    except ValueError as error:
        raise SpoolError(f"{file}: its first block does not describe a run ({error}); give another file") from error
    return Bag(file, known, run.about["launch"], run.rows, spool=run, damage=run.lost())


def _of_mcap(file: Path) -> Bag:
    """The bag; its messages are read when they are asked for."""
    records = Records(file)
    metadata, attachments = records.described()
    damage = "".join(f"; {text}" for text in records.damage)
    known = _recognised(file, metadata.get(ABOUT) if LAUNCH in attachments else None, records.library, damage)
    try:
        check_about(known)
        launch = plain(attachments[LAUNCH], STORED_LAUNCH)
    except ValueError as error:
        raise BagError(
            f"{file}: its metadata or {LAUNCH} is damaged ({error}); other MCAP tools may read it"
        ) from error
    bag = Bag(file, known, launch, RunRows(), damage=records.damage)
    ending, merged = metadata.get(ENDING, {}), metadata.get(MERGED, {})
    try:
        check_texts(ending, ENDING_TEXTS)
        bag.ending = ending
    except ValueError as error:
        bag.damage.append(f"how it ended cannot be read ({error})")
    try:
        check_texts(merged, MERGED_TEXTS, needed=bool(merged))
        bag.merged = merged
    except ValueError as error:
        bag.damage.append(f"what was merged cannot be read ({error})")
    most = EXPANDED * of_robot(file)[0].stat().st_size
    parts = {int(found[1] or 1): found[0] for found in map(ROWS_PART.fullmatch, attachments) if found}
    for _, name in sorted(parts.items()):
        try:
            bag.rows.extend(_rows_of(attachments[name], most - bag.rows.size))
        except ValueError as error:
            bag.damage.append(f"its {name} cannot be read ({error}); it is left out")
    if len(parts) < max(parts, default=0):
        bag.damage.append("some of its rows are missing")
    return bag


def _rows_of(data: bytes, most: int) -> RunRows:
    """The rows of an attachment. Raises ValueError where they cannot be read, or would take more than `most` bytes."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            if (size := sum(each.file_size for each in arrays.zip.infolist())) > most:
                raise ValueError(f"they would expand to {size} bytes, those of a file of its size to {most} at most")
            named = {node: f"{node}_columns" for node in (PLANT, CONTROLLER)}
            found = RunRows({node: arrays[name].tolist() for node, name in named.items() if name in arrays})
            for life, name in sorted((int(name.rpartition("_life")[2]), name) for name in arrays if "_life" in name):
                node, rows = name.rpartition("_life")[0], arrays[name]
                columns = found.columns.get(node, ())
                if not columns or rows.dtype != np.float64 or rows.shape[1:] != (len(columns),):
                    raise ValueError(f"{name} has not the shape of rows")
                if len(rows):
                    found.add(node, life, rows)
            return found
    except Exception as error:  # zipfile, zlib and numpy have errors of many kinds
        raise ValueError(" ".join(f"{error or type(error).__name__}".split())) from error


def _messages(records: Records, wall_less_mono: int) -> Iterator[Recorded]:
    for topic, log_time, data in records.messages():
        try:
            message = plain(data, message_type(topic))
        except ValueError as error:
            records.damaged(f"{topic}: a message does not come from servonode ({error}); such ones are left out")
            continue
        yield log_time - wall_less_mono, topic, message


def _recognised(file: Path, about: dict[str, str] | None, library: str, damage: str = "") -> dict[str, str]:
    """The metadata of a recording of this version; BagError where it is another's, made with this library.

    damage: what of the file is known to be damaged, behind a semicolon.
    """
    if about is None and (robots := robots_in(file)):
        raise BagError(f"{file}: the recording of {len(robots)} robots; name one, as {file}/{robots[0]}{damage}")
    if about is None:
        made_by = f" ({library})" if library else ""
        raise BagError(
            f"{file}: an MCAP file, but not a recording of servonode{made_by}; give one of run --record{damage}"
        )
    if about.get("format") not in READ:
        made_by = f"servonode {about.get('servonode', '?')} in format {about.get('format', '?')}"
        raise BagError(
            f"{file}: written by {made_by}, this version reads formats {' and '.join(READ)}; use that version"
        )
    return about
