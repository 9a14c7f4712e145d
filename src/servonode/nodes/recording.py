"""The record of a run in the launcher: memory for the nodes, the writer's process, the files, and the outcome."""

import contextlib
import errno
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from servonode.bus.topology import CONTROLLER, PLANT, RELAY, nodes_of
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_file import table_of
from servonode.errors import ServonodeError
from servonode.nodes.node_process import Child, forked
from servonode.record.files import SUFFIX, opened, remove_drafts
from servonode.record.recorder import check_size
from servonode.record.run_rows import RunRows, columns_of, write_runs
from servonode.record.shared_memory import MESSAGES_ROOM, NodeMemory, Ring
from servonode.record.spool import MESSAGES, ROWS, SpooledRun, read_spool
from servonode.record.writer import Spooler, write

if TYPE_CHECKING:
    from servonode.record.draft import Draft
    from servonode.record.write import Drawn

from dataclasses import dataclass, field
from typing import Literal

from servonode.bus.topology import NODES
from servonode.record.events import merged_faults, with_found
from servonode.record.run import Run

DRAIN_S = 5.0  # timeout of the writer for the last rows, and then for its exit
SPARE_ROWS = 1000  # of a record: rows come again where a machine does not reach its step
AGAIN_NS = 1_000_000_000  # shortest time between two starts of the writer
WRITER = "writer"
Ending = Literal["completed", "fault", "stopped early", "broken off"]

SHOWN = (  # parts of the plant's summary that the statistics of a run contain
    "rate",
    "misses",
    "round_trip_s",
    "counts",
    "lateness_s",
    "stalls",
    "overruns",
    "grants",
    "readonly",
    "link_latency_s",
    "pauses",
    "paused_s",
    "speed_changes",
)


class Recording:
    """The record of one run, from before the first fork until its output files are made. A context manager.

    out: the CSV file, with the spool beside it; without it and without a bag the rows stay in memory. bag: the
    recording of all messages, with the spool beside it. It has many methods: memory, writer and files share one life.
    """

    def __init__(
        self, closed_loop: ClosedLoop, every: int, run: str, out: Path | None = None, bag: Path | None = None
    ) -> None:
        """Make room for the record. Raises RecordTooLarge where it would not fit."""
        self.closed_loop, self.every, self.run = closed_loop, every, run
        self.out, self.bag = (None if file is None else file.resolve() for file in (out, bag))
        self.memories = _memories(closed_loop, every, messages=bag is not None)
        self.spool: Path | None = None  # None also for a spool without a name
        self.keep = False  # whether to keep the spool, because an output could not be made of it
        self._described: dict[str, Any] = {"columns": columns_of(closed_loop)}  # what the spool says of the run
        self._run: SpooledRun | None = None  # what was recorded, once the nodes have ended
        self.writer: Child | None = None
        self._spooler: Spooler | None = None
        self._lifeline: tuple[int, int] | None = None
        self._forked_ns = 0

    def begin(self) -> None:
        """Create the spool and start the writer; OSError where the spool cannot be created."""
        beside = self.bag or self.out
        if beside is None:
            return
        descriptor, self.spool = opened(beside)
        self._spooler = Spooler(descriptor, self.spool, self._rings())
        try:
            self._described = self._about()
            self._spooler.begin(self._described)
        except OSError as error:
            self._remove()
            raise OSError(error.errno, error.strerror, str(self.spool)) from error
        self._lifeline = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._fork()

    def _rows(self) -> dict[str, Ring]:
        """The memory of rows, by node."""
        return {node: memory.rows for node, memory in self.memories.items() if memory.rows}

    def _messages(self) -> dict[str, Ring]:
        """The memory of messages, by node."""
        return {node: memory.messages for node, memory in self.memories.items() if memory.messages}

    def _rings(self) -> dict[int, Ring]:
        """All of it, by kind of block."""
        rings = {MESSAGES[node]: ring for node, ring in self._messages().items()}
        return rings | {ROWS[node]: ring for node, ring in self._rows().items()}

    def _about(self) -> dict[str, Any]:
        """The data with which the output files can be made from the spool."""
        launch = self.closed_loop.launch
        stored = {"table": table_of(launch), "path": str(launch.path), "file": launch.file}
        known: dict[str, Any] = self._described | {"launch": stored, "every": self.every, "run": self.run}
        if self.bag:
            from servonode.record.write import known_of  # loads the schemas, which only recordings need

            known |= known_of(self.closed_loop)
        return known

    def _fork(self) -> None:
        assert self._lifeline is not None
        assert self._spooler is not None
        spooler, (lifeline, _) = self._spooler, self._lifeline
        draft = self._draft if self.bag is not None and self.writer is None else None
        self.writer = forked(WRITER, self.run, lambda: write(spooler, lifeline, draft, self._inherit), 0)
        self._forked_ns = time.monotonic_ns()

    def _draft(self) -> "Draft":
        from servonode.record.draft import Draft

        assert self.bag is not None
        assert self._spooler is not None
        return Draft(self._spooler.descriptor, self.bag, self._described)

    def _inherit(self) -> None:
        """In the writer, after the launcher's death: make the files; the spool stays if that fails."""
        with contextlib.suppress(OSError, ServonodeError):
            if self.out is not None:
                write_runs(self.recorded.rows.runs(self.closed_loop), self.out)
            if self._spooler is not None and not self._spooler.has_made_bag:
                self.write_bag({"ended": "the launcher died"})
            if not self.recorded.lost():
                self._remove()

    def write_bag(self, ending: dict[str, Any], drawn: Sequence["Drawn"] = ()) -> int:
        """Make the bag from the spool, if one is wanted; returns how many messages it has.

        ending: how the run ended. drawn: what viewers draw.

        Raises OSError where it cannot be written.
        """
        if self.bag is None or self._spooler is None:
            return 0
        lost = {node: ring.lost for node, ring in self._messages().items() if ring.lost}
        more = {"incomplete": "; ".join(lacking)} if (lacking := self.lacking()) else {}
        ending = ending | {"lost_messages": lost} | more
        if (made := self._finish_draft(ending, drawn)) is not None:
            return made
        from servonode.record.write import write_bag

        return write_bag(self.recorded, self.bag, ending, drawn)

    def _finish_draft(self, ending: dict[str, Any], drawn: Sequence["Drawn"]) -> int | None:
        """Have the writer finish the bag that it has made so far; its messages, or None where it has made none."""
        writer, progress, since = self.writer, -1, time.monotonic()
        if self._spooler is None or self._lifeline is None or writer is None or writer.has_ended():
            return None

        def waits(used: int) -> bool:
            nonlocal progress, since
            if progress < 0:
                self._wake()
            if used > progress:
                progress, since = used, time.monotonic()
            time.sleep(0.002)
            return not writer.has_ended() and time.monotonic() - since < DRAIN_S

        try:
            return self._spooler.finish_draft(ending, drawn, waits)
        finally:
            if self._spooler.finishes_draft:
                self._kill_writer()  # nothing but this bag is left to it, which must not come later

    def lacking(self, rows: bool = False) -> list[str]:
        """What the recording, or the rows alone, lack of the run, in words; empty where nothing is missing."""
        if self._spooler is None:
            return []
        number = max((ring.ended for ring in self._messages().values() if ring.lost), default=0)
        if rows or not number:
            return self.recorded.lost()
        end = max((message["t"] for _, _, message in self.recorded.messages()), default=0.0)
        why = "disk full" if number in (errno.ENOSPC, errno.EDQUOT) else os.strerror(number)
        return [f"the recording ended at t = {end:.3f} s: {why}", *self.recorded.lost()]

    def look(self) -> str:
        """Replace the writer if it has died; returns a sentence about it, or an empty text."""
        writer = self.writer
        if writer is None or not writer.has_ended() or time.monotonic_ns() - self._forked_ns < AGAIN_NS:
            return ""
        os.close(writer.output)
        self._fork()
        return f"{writer.describe()}; another one continues the recording"

    @property
    def children(self) -> list[Child]:
        """The writer, if there is one: its output is printed like a node's."""
        return [] if self.writer is None else [self.writer]

    def note_start(self) -> None:
        """Note that the plant begins at t = 0, for the first time or after a restart."""
        for ring in self._rows().values():
            ring.note_start()
            if self._spooler is None:
                ring.release(ring.count)  # in memory only the last life is kept

    def collect(self) -> RunRows:
        """All rows, after the nodes' end."""
        if self._spooler is not None:
            self._drain()
        return self.recorded.rows

    @property
    def recorded(self) -> SpooledRun:
        """What was recorded, after the nodes' end: what is in the spool, and what the writer could not write."""
        if self._run is None:
            spooler, known = self._spooler, self._described
            self._run = SpooledRun(known) if spooler is None else read_spool(spooler.descriptor, known)
            for kind, ring in self._rings().items():
                self._run.add(kind, ring.written, memoryview(ring.content(ring.written, ring.count)))
        return self._run

    def _drain(self) -> None:
        """Have the writer write the rest; kill it if it cannot, so that the rest can be taken from memory."""
        assert self._spooler is not None
        assert self._lifeline is not None
        assert self.writer is not None
        spooler, limit = self._spooler, time.monotonic() + DRAIN_S
        self._wake()
        while not (spooler.all_written() or spooler.failed or self.writer.has_ended() or time.monotonic() > limit):
            time.sleep(0.002)
        if not spooler.all_written():
            self._kill_writer()

    def _wake(self) -> None:
        """Have the writer look at once."""
        assert self._lifeline is not None
        with contextlib.suppress(BlockingIOError):  # the pipe is full: it has been told
            os.write(self._lifeline[1], b"w")

    def _kill_writer(self) -> None:
        """End the writer at once, with what it has begun."""
        assert self.writer is not None
        if not self.writer.has_ended():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.writer.pid, signal.SIGKILL)
            _await_end(self.writer, DRAIN_S)
        if self.bag is not None:
            remove_drafts(self.bag)

    def end(self, delivered: bool = True) -> None:
        """Let the writer end. delivered: whether all of the record is saved; else the writer makes the files."""
        if self._spooler is None or self._lifeline is None:
            return
        self._spooler.delivered = delivered or not any(ring.count for ring in self._rows().values())
        for descriptor in self._lifeline:
            os.close(descriptor)
        self._lifeline = None
        if self.writer is not None:
            _await_end(self.writer, DRAIN_S)
        if self._spooler.delivered and not self.keep:
            self._remove()
        os.close(self._spooler.descriptor)

    def kept(self) -> Path | None:
        """Keep the spool after the run; returns its path, or None. Without a name it is copied to a temporary file."""
        if self._spooler is None:
            return None
        self.keep = True
        if self._has_its_name():
            return self.spool
        number, name = tempfile.mkstemp(prefix="servonode-", suffix=SUFFIX)
        with (
            contextlib.suppress(OSError),
            os.fdopen(number, "wb") as copy,
            open(self._spooler.descriptor, "rb", closefd=False) as spool,
        ):
            spool.seek(0)
            shutil.copyfileobj(spool, copy)
            return Path(name)
        Path(name).unlink(missing_ok=True)
        return None

    def _has_its_name(self) -> bool:
        """Whether the spool is still found by its name, and no other file is."""
        if self.spool is None or self._spooler is None or not self.spool.exists():
            return False
        return os.path.samestat(self.spool.stat(), os.fstat(self._spooler.descriptor))

    def _remove(self) -> None:
        if self.spool is not None and self._has_its_name():
            self.spool.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.end(delivered=kind is None or kind is SystemExit)


def _memories(closed_loop: ClosedLoop, every: int, messages: bool) -> dict[str, NodeMemory]:
    """The memory of each node, for the rows of a whole run. messages: whether these are recorded too."""
    launch, columns = closed_loop.launch, columns_of(closed_loop)
    rows = {PLANT: launch.steps // every + 2, CONTROLLER: launch.steps // (launch.steps_per_period or 1) + 2}
    for node, names in columns.items():
        check_size(rows[node], len(names))
    may_wait = launch.run.mode == "lockstep"
    nodes = nodes_of(closed_loop.control is not None)
    if closed_loop.computer is not None:
        nodes = (*nodes, RELAY)
    return {
        node: NodeMemory(
            Ring.of_rows(rows[node] + SPARE_ROWS, len(columns[node])) if node in columns else None,
            Ring(MESSAGES_ROOM, may_wait=may_wait) if messages else None,
        )
        for node in nodes
    }


def _await_end(child: Child, within_s: float) -> None:
    """Wait until the process has ended, or this time is over."""
    limit = time.monotonic() + within_s
    while not child.has_ended() and time.monotonic() < limit:
        time.sleep(0.002)


@dataclass
class Outcome:
    """The outcome of a launch: the run as far as it was recorded, and how it ended.

    earlier: the runs of a plant that died and was restarted. faults: those of all nodes. signal: the first signal by
    which the launcher was told to end. stopped: who told the plant to stop before its time; empty where nobody did.
    """

    run: Run | None = None
    earlier: list[Run] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    signal: int | None = None
    stopped: str = ""

    @property
    def interrupted(self) -> bool:
        return self.signal is not None

    @property
    def ending(self) -> Ending:
        """How the run ended, in words."""
        if self.interrupted:
            return "broken off"
        return "fault" if self.faults else "stopped early" if self.stopped else "completed"

    @property
    def exit_code(self) -> int:
        """128 plus the signal if the run was interrupted, 1 after a fault or if the plant was stopped, else 0."""
        return 128 + self.signal if self.signal is not None else int(self.ending != "completed")


def collect(
    outcome: Outcome, closed_loop: ClosedLoop, recording: Recording, restarts: dict[str, int], wall_s: float
) -> None:
    """Take what the nodes left into the outcome: their faults, and the run if there is a record."""
    summaries = {name: memory.summary for name, memory in recording.memories.items()}
    plant = summaries[PLANT]
    # the plant comes last in the table: a failed goal or law is the cause of the fault that it found
    outcome.faults = merged_faults(outcome.faults, *(summaries.get(name, {}).get("faults", []) for name in NODES))
    if plant and plant.get("k", closed_loop.launch.steps) < closed_loop.launch.steps:
        outcome.stopped = plant.get("stopped_by") or "it ended before its time"
    lost = {name: memory.rows.lost for name, memory in recording.memories.items() if memory.rows and memory.rows.lost}
    times = {name: summary.get("times", {}) for name, summary in summaries.items()}
    if plant.get("lateness_s"):
        times[PLANT] = times[PLANT] | {"lateness_s": plant["lateness_s"]}
    counts = {name: summary.get("counts", {}) for name, summary in summaries.items()}
    stats = {name: plant[name] for name in (*SHOWN, "extra") if name in plant}
    stats |= {"nodes": times, "node_counts": counts, "restarts": restarts, "lost_rows": lost}
    if changed := {key: value for each in summaries.values() for key, value in each.get("changed", {}).items()}:
        stats["changed_numbers"] = changed
    if injected := plant.get("injected") or []:
        stats["injected"] = with_found(injected, outcome.faults)
    rows = recording.collect()
    if lacking := recording.lacking():
        stats["incomplete"] = "; ".join(lacking)
    more = {"faults": outcome.faults, "stats": stats}
    runs = rows.runs(closed_loop, plant.get("wall_s", wall_s), **more)
    if runs:
        *outcome.earlier, outcome.run = runs
