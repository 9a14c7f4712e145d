"""The record of a run in the launcher: memory for the nodes, the writer's process, the output files."""

import contextlib
import os
import shutil
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from servonode.bus.topology import CONTROLLER, PLANT, TARGET, nodes_of
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_file import table_of
from servonode.nodes.node_process import Child, forked
from servonode.record.files import SUFFIX, BagMaker, opened, runs_of, write_runs
from servonode.record.frame_store import FrameStore
from servonode.record.row_log import check_size
from servonode.record.spool import KINDS, Pieces, read_spool
from servonode.record.store import Store
from servonode.record.writer import Files, Spooler, write

SPARE_COLUMNS = 8  # columns for what a plant records beside step, state, work and inputs
DRAIN_S = 5.0  # timeout of the writer for the last rows, and then for its exit
AGAIN_NS = 1_000_000_000  # shortest time between two starts of the writer
WRITER = "writer"


class Recording:
    """The record of one run, from before the first fork until its output files are made. A context manager.

    out: the CSV file, with the spool beside it; without it and without a bag the rows stay in memory. bag: the
    recording of all messages, with the spool beside it.
    """

    def __init__(
        self, closed_loop: ClosedLoop, every: int, run: str, out: Path | None = None, bag: BagMaker | None = None
    ) -> None:
        """Make room for the record. Raises RecordTooLarge where it would not fit."""
        self.closed_loop, self.every, self.run = closed_loop, every, run
        self.out = None if out is None else out.resolve()
        self.bag = None if bag is None else replace(bag, file=bag.file.resolve())
        self.stores = {name: Store(room) for name, room in _rooms(closed_loop, every).items()}
        lockstep = closed_loop.launch.run.mode == "lockstep"
        nodes = nodes_of(closed_loop.control is not None) if bag else ()
        self.frames = {name: FrameStore(may_wait=lockstep) for name in nodes}
        self.spool: Path | None = None  # None also for a spool without a name
        self.keep = False  # whether to keep the spool, because the CSV file could not be made
        self.writer: Child | None = None
        self._spooler: Spooler | None = None
        self._lifeline: tuple[int, int] | None = None
        self._forked_ns = 0

    def begin(self) -> None:
        """Create the spool and start the writer; OSError where the spool cannot be created."""
        beside = self.bag.file if self.bag else self.out
        if beside is None:
            return
        descriptor, self.spool = opened(beside)
        recorded = {name: self.stores[name] for name in KINDS if name in self.stores}
        self._spooler = Spooler(Files(descriptor, self.spool), recorded, self.frames)
        try:
            self._spooler.begin(self._about())
        except OSError as error:
            self._remove()
            raise OSError(error.errno, error.strerror, str(self.spool)) from error
        self._lifeline = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._fork()

    def _about(self) -> dict[str, Any]:
        """The data with which the output files can be made from the spool."""
        launch = self.closed_loop.launch
        stored = {"table": table_of(launch), "path": str(launch.path), "file": launch.file}
        out = None if self.out is None else str(self.out)
        known = {"launch": stored, "every": self.every, "run": self.run, "out": out}
        return known | (self.bag.known if self.bag else {})

    def _fork(self) -> None:
        assert self._lifeline is not None
        assert self._spooler is not None
        spooler, (lifeline, _) = self._spooler, self._lifeline
        self.writer = forked(WRITER, self.run, lambda: write(spooler, lifeline, self._inherit), 0)
        self._forked_ns = time.monotonic_ns()

    def _inherit(self) -> None:
        """In the writer, after the launcher's death: make the files; the spool stays if that fails."""
        assert self._spooler is not None
        descriptor = self._spooler.files.descriptor
        with contextlib.suppress(OSError):
            if self.out is not None:
                write_runs(runs_of(self.closed_loop, read_spool(descriptor)), self.out)
            self.write_bag({"ended": "the launcher died"})
            self._remove()

    def write_bag(self, ending: dict[str, Any]) -> dict[str, Any]:
        """Make the bag from the spool, if one is wanted; returns its summary. ending: how the run ended.

        Raises OSError where it cannot be written.
        """
        if self.bag is None or self._spooler is None:
            return {}
        lost = {node: frames.lost for node, frames in self.frames.items() if frames.lost}
        return self.bag.make(self._spooler.files.descriptor, self.bag.file, ending | {"lost_messages": lost})

    def ended_early(self) -> bool:
        """Whether the recording of messages ended before the run, because it could not be written."""
        return any(frames.ended for frames in self.frames.values())

    def look(self) -> str:
        """Replace the writer if it has died; returns a sentence about it, or an empty text."""
        writer = self.writer
        if writer is None or not _has_ended(writer) or time.monotonic_ns() - self._forked_ns < AGAIN_NS:
            return ""
        os.close(writer.output)
        self._fork()
        return f"{writer.describe()}; another one continues the recording"

    @property
    def children(self) -> list[Child]:
        """The writer, if there is one: its output is printed like a node's."""
        return [] if self.writer is None else [self.writer]

    def begin_life(self) -> None:
        """Note that the plant begins at t = 0, for the first time or after a restart."""
        for store in self.stores.values():
            store.begin_life()
            if self._spooler is None:
                store.written = store.count  # in memory only the last life is kept

    def collect(self) -> Pieces:
        """All rows, after the nodes' end: those in the spool, and those that the writer could not write."""
        pieces = Pieces()
        if self._spooler is not None:
            self._drain()
            pieces = read_spool(self._spooler.files.descriptor)
        for node in KINDS:
            if node in self.stores:
                _add_rest(pieces, node, self.stores[node])
        return pieces

    def _drain(self) -> None:
        """Have the writer write the rest; kill it if it cannot, so that the rest can be taken from memory."""
        assert self._spooler is not None
        assert self._lifeline is not None
        assert self.writer is not None
        spooler, limit = self._spooler, time.monotonic() + DRAIN_S
        with contextlib.suppress(BlockingIOError):  # the pipe is full: it has been told
            os.write(self._lifeline[1], b"w")
        while not (spooler.all_written() or spooler.failed or _has_ended(self.writer) or time.monotonic() > limit):
            time.sleep(0.002)
        if not spooler.all_written() and not _has_ended(self.writer):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.writer.pid, signal.SIGKILL)
            _await_end(self.writer, DRAIN_S)

    def end(self, delivered: bool = True) -> None:
        """Let the writer end. delivered: whether all of the record is saved; else the writer makes the files."""
        if self._spooler is None or self._lifeline is None:
            return
        self._spooler.delivered = delivered or not any(store.count for store in self.stores.values())
        for descriptor in self._lifeline:
            os.close(descriptor)
        self._lifeline = None
        if self.writer is not None:
            _await_end(self.writer, DRAIN_S)
        if self._spooler.delivered and not self.keep:
            self._remove()
        os.close(self._spooler.files.descriptor)

    def kept(self) -> Path | None:
        """Keep the spool after the run; returns its path, or None. Without a name it is copied to a temporary file."""
        if self._spooler is None:
            return None
        self.keep = True
        if self.spool is not None and self.spool.exists():
            return self.spool
        number, name = tempfile.mkstemp(prefix="servonode-", suffix=SUFFIX)
        with (
            contextlib.suppress(OSError),
            os.fdopen(number, "wb") as copy,
            open(self._spooler.files.descriptor, "rb", closefd=False) as spool,
        ):
            spool.seek(0)
            shutil.copyfileobj(spool, copy)
            return Path(name)
        Path(name).unlink(missing_ok=True)
        return None

    def _remove(self) -> None:
        if self.spool is not None:
            self.spool.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(delivered=kind is None or kind is SystemExit)


def _rooms(closed_loop: ClosedLoop, every: int) -> dict[str, int]:
    """The bytes of each node's rows in a whole run."""
    launch, machine = closed_loop.launch, closed_loop.machine
    columns = 2 + machine.n_state + machine.n_inputs
    check_size(launch.steps // every + 2, columns)
    rooms = {PLANT: 8 * (launch.steps // every + 2) * (columns + SPARE_COLUMNS)}
    if closed_loop.control and launch.steps_per_period:
        answers = launch.steps // launch.steps_per_period + 2
        rooms[CONTROLLER] = check_size(answers, len(closed_loop.answer_columns))
        rooms[TARGET] = 0
    return rooms


def _add_rest(pieces: Pieces, node: str, store: Store) -> None:
    """Add the rows that are still in memory."""
    if store.count:
        pieces.columns[node] = store.columns
    first = store.written
    while first < store.count:
        life, following = store.life_of(first)
        last = min(following, store.count)
        pieces.add(node, life, first, store.rows(first, last))
        first = last


def _has_ended(child: Child) -> bool:
    if child.code is None:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if pid:
            child.code = os.waitstatus_to_exitcode(status)
    return child.code is not None


def _await_end(child: Child, within_s: float) -> bool:
    """Whether the process ends within this time."""
    limit = time.monotonic() + within_s
    while not _has_ended(child):
        if time.monotonic() > limit:
            return False
        time.sleep(0.002)
    return True
