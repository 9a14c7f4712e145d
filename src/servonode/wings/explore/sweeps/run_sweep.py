"""Computes a sweep where its user wants it: in memory or into a folder, in threads or on a cluster.

A sweep on disk: a Zarr folder that xarray reads, with a digest of each chunk that is whole.

Each array has one Zarr chunk for each chunk of the sweep. Zarr writes a file under another name and renames it, and the
digest of a chunk follows its data, so whatever ends the process leaves no half of a chunk that counts; nor does one
count whose files were lost or damaged later.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from os import sched_getaffinity
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from servonode.definitions.progress import task
from servonode.errors import ServonodeError, StatementError
from servonode.wings.explore.sweeps.chunk import Chunk
from servonode.wings.explore.sweeps.dataset import (
    REASON,
    RUN,
    TEXT,
    TIME,
    attributes,
    attributes_of,
    check_libraries,
    columns,
    dataset,
)
from servonode.wings.explore.sweeps.plan import Chunks, Plan

if TYPE_CHECKING:
    import xarray

DIGESTS = "progress/digests"  # of the chunks, 0 of a missing one: in a group of its own, which a dataset leaves out
LOOKS, LOOK_S = 100, 0.01  # after a failure, for what is still written
MOST_SHOWN = 4  # differences in an error


class StoreError(ServonodeError, OSError):
    """The folder of a sweep cannot be used; the text says why."""


class StoreFull(StoreError):
    """The folder does not take a chunk; the text says that the finished ones are kept."""

    exit_code = 1


class Store:
    """The folder of a sweep, made when its first chunk is written; only one process at a time writes to it."""

    def __init__(self, plan: Plan, folder: Path, resume: bool) -> None:
        """Raises StoreError where the folder is there and not to be resumed, or is of another sweep, or in use."""
        self.plan, self.folder = plan, folder
        self._about = attributes(plan)
        self._group: Any = None
        self._lock: int | None = None
        if folder.exists():
            if not resume:
                raise self._there_already()
            self._open()
        elif not (folder.absolute().parent.is_dir() and os.access(folder.absolute().parent, os.W_OK)):
            raise StoreError(f"{folder}: its folder does not exist or cannot be written; give another")

    def missing(self) -> list[int]:
        """The chunks that are not in it, or not as they were written, in their order."""
        return [index for index in range(self.plan.chunks) if self._group is None or not self._holds(index)]

    def _holds(self, index: int) -> bool:
        """Whether a chunk is in the folder as it was written."""
        first, last = self.plan.bounds(index)
        try:
            there = {name: array[first:last] for name, array in self._group.arrays() if name != TIME}
            return int(self._group[DIGESTS][index]) == _digest(there)
        except Exception:  # noqa: BLE001  (each codec raises errors of its own where its bytes are damaged)
            return False

    def write(self, index: int, chunk: Chunk) -> None:
        """Write a chunk, then its digest; who is interrupted meanwhile goes on until both are written.

        Raises:
            StoreFull: the disk does not take it; StoreError: the folder was made or deleted by others meanwhile.
        """
        with ThreadPoolExecutor(1) as writer:  # which gets no signals: zarr would leave a write half done
            writer.submit(self._write, index, chunk).result()

    def _write(self, index: int, chunk: Chunk) -> None:
        first, last = self.plan.bounds(index)
        found = {RUN: np.arange(first, last)} | columns(self.plan, chunk)
        try:
            if self._group is None:
                self._create(found)
            for name, values in found.items():
                self._group[name][first:last] = values
            self._group[DIGESTS][index] = _digest(found)
        except StoreError:
            raise
        except KeyError as error:
            text = "was deleted or changed while the sweep was computed; begin again"
            raise StoreError(f"{self.folder}: {text}") from error
        except OSError as error:
            text = f"cannot be written ({error.strerror or error}); the finished chunks in it are kept: make room, "
            raise StoreFull(f"{self.folder}: {text}then go on with --resume (resume=True)") from error

    def dataset(self) -> "xarray.Dataset":
        """The dataset in the folder, of which values are read when they are needed."""
        import xarray

        found = xarray.open_zarr(self.folder, chunks=None)
        names = (*self.plan.measures.names, REASON)
        return found[[*names, *(str(name) for name in found if name not in names)]]

    def close(self) -> None:
        """Let other processes write to the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _open(self) -> None:
        import zarr

        try:
            group = zarr.open_group(self.folder, mode="r+", use_consolidated=False)
            there = {name: group.attrs[name] for name in self._about}
            found = list(_differences(there, self._about))
            histories = self.plan.measures.columns if self.plan.histories else ()
            needed = (DIGESTS, RUN, REASON, *self.plan.design.keys, *self.plan.measures.names, *histories)
            for name in () if found else needed:
                group[name]
        except (OSError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise StoreError(f"{self.folder}: holds no sweep of servonode; give another folder") from error
        if found:
            more = f", and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
            text = f"{', '.join(found[:MOST_SHOWN])}{more}; give another folder"
            raise StoreError(f"{self.folder}: holds another sweep: {text}")
        self._take(self.folder)
        self._group = group
        if self.plan.histories:
            group[TIME][:] = self.plan.times  # of no chunk

    def _create(self, found: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """The folder with all its arrays, whole or not at all."""
        import zarr

        partial = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}.", dir=self.folder.absolute().parent))
        try:
            partial.chmod(0o777 & ~_umask())
            group = zarr.open_group(partial, mode="w", zarr_format=3)
            group.attrs.update(self._about | {"coordinates": " ".join(self.plan.design.keys)})
            for name, values in found.items():
                self._array(group, name, values)
            if self.plan.histories:
                times = group.create_array(TIME, data=self.plan.times, dimension_names=(TIME,))
                times.attrs["units"] = "s"
            digests = {"shape": (self.plan.chunks,), "chunks": (1,), "dtype": "uint64", "fill_value": 0}
            group.create_array(DIGESTS, dimension_names=("chunk",), **digests)
            with warnings.catch_warnings():  # zarr warns that other readers may not use this copy of the metadata
                warnings.simplefilter("ignore", UserWarning)
                zarr.consolidate_metadata(group.store)  # without it xarray is slow to open the folder, and warns
            self._take(partial)
            self._put_in_place(partial)
        except BaseException:
            _delete(partial)
            raise
        self._group = zarr.open_group(self.folder, mode="r+", use_consolidated=False)

    def _put_in_place(self, partial: Path) -> None:
        try:
            partial.rename(self.folder)
        except OSError as error:
            if self.folder.exists():  # another process was faster
                raise self._there_already() from error
            raise

    def _there_already(self) -> StoreError:
        remedy = "go on with it by --resume (resume=True), or give another folder"
        return StoreError(f"{self.folder}: it is there already; {remedy}")

    def _array(self, group: Any, name: str, values: np.ndarray[Any, Any]) -> None:
        """One array for all runs, of the kind of these first ones."""
        kind: dict[str, Any] = {"dtype": values.dtype}
        if values.dtype == TEXT:
            kind = {"dtype": str, "fill_value": ""}
        elif values.dtype.kind == "f":
            kind["fill_value"] = np.nan
        group.create_array(
            name,
            shape=(self.plan.runs, *values.shape[1:]),
            chunks=(self.plan.chunk, *values.shape[1:]),
            dimension_names=(RUN, TIME)[: values.ndim],
            attributes=attributes_of(self.plan, name),
            **kind,
        )

    def _take(self, folder: Path) -> None:
        """Let no other process write to the folder. Raises StoreError where one does."""
        self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            text = "another process is computing this sweep; wait for its end, or give another folder"
            raise StoreError(f"{self.folder}: {text}") from error


def _digest(found: Mapping[str, np.ndarray[Any, Any]]) -> int:
    """A number for the values of a chunk by their names, never 0."""
    digest = hashlib.blake2b(digest_size=8)
    for name, values in sorted(found.items()):
        own = repr(values.tolist()).encode() if values.dtype == TEXT else values.tobytes()
        digest.update(repr((name, values.shape)).encode() + own)
    return int.from_bytes(digest.digest()) or 1


def _delete(folder: Path) -> None:
    """Delete a folder into which zarr's threads may still write, as they do where one of them has failed."""
    quiet = 0
    for _ in range(LOOKS):
        quiet = 0 if folder.exists() else quiet + 1
        if quiet > 1:
            return
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(LOOK_S)


def _umask() -> int:
    """The process's mask of new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    """What differs between the attributes of two sweeps: `plant.parameters.m1 is 4.0 there and 5.0 here`."""
    for word in ("machine", "program"):
        if there[f"{word}_digest"] != here[f"{word}_digest"]:
            yield f"the {word} has been changed since"
    if there["keys"] != here["keys"] and sorted(there["keys"]) == sorted(here["keys"]):
        yield "the keys have another order"
    old, new = (dict(_flat(tomllib.loads(each["launch"]))) for each in (there, here))
    for name in ("servonode", "histories"):
        old[name], new[name] = there[name], here[name]
    for each, found in ((there, old), (here, new)):
        found |= dict(library.split(" ", 1) for library in each["versions"].split(", "))
        found.pop("sweep.chunk", None)  # absent, it follows from the other ones
    differing = [key for key in dict.fromkeys((*old, *new)) if old.get(key) != new.get(key)]
    for key in differing:
        yield f"{key} is {_shown(old.get(key))} there and {_shown(new.get(key))} here"
    if not differing and there["chunk"] != here["chunk"]:
        yield f"sweep.chunk is {there['chunk']} there and {here['chunk']} here"


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)[:40]


@dataclass(frozen=True)
class Where:
    """Where a sweep is computed: in threads of this process, in worker processes here, or on a dask cluster.

    threads: of this process (absent: one for each processor that it may use). workers: processes of one thread each.
    scheduler: the address of a cluster. send_code: whether code of the user's may run on workers.
    """

    threads: int | None = None
    workers: int | None = None
    scheduler: str | None = None
    send_code: bool = False

    def __post_init__(self) -> None:
        given = [name for name in ("threads", "workers", "scheduler") if getattr(self, name) is not None]
        if len(given) > 1:
            raise StatementError(f"there are both {given[0]} and {given[1]}; give only one of them")
        for name in ("threads", "workers"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise StatementError(f"{name} = {count} is less than 1; give the number of {name}")

    def computed(self, plan: Plan, indices: Sequence[int]) -> Chunks:
        """The chunks of these indices as they are finished, in any order; the task is told of them."""
        told, failed, plant_s = task(), 0, 0.0
        left = sum(last - first for first, last in map(plan.bounds, indices))
        told.resumed(plan.runs - left)
        told.plan(left)
        begin = time.monotonic()
        for index, chunk in self._computed(plan, indices):
            failed, plant_s = failed + sum(map(bool, chunk.reasons)), plant_s + float(chunk.measures["duration"].sum())
            pace = f"{plant_s / max(time.monotonic() - begin, 1e-9):.0f} x real time"
            told.noted = ", ".join([f"{failed} failed", pace] if failed else [pace])
            yield index, chunk

    def _computed(self, plan: Plan, indices: Sequence[int]) -> Chunks:
        if self.workers is None and self.scheduler is None:
            return plan.computed(indices, self.threads or len(sched_getaffinity(0)))
        from servonode.wings.explore.sweeps.cluster import computed_on

        return computed_on(plan, indices, self.workers, self.scheduler, self.send_code)


def run_sweep(
    plan: Plan,
    where: Where,
    output: Path | None = None,
    resume: bool = False,
) -> "xarray.Dataset":
    """Compute a sweep; its dataset, which is read from the folder `output` where one is given.

    resume: compute only what is missing in that folder.

    Raises:
        StoreError: the folder cannot be used; ClusterError: the cluster cannot. What is in the folder stays there.
    """
    check_libraries()
    if output is None:
        if resume:
            raise StatementError("resume needs the folder of a sweep that was begun; give output as well")
        found = dict(where.computed(plan, range(plan.chunks)))
        return dataset(plan, [found[index] for index in range(plan.chunks)])
    with closing(Store(plan, output, resume)) as store:
        missing = store.missing()
        with closing(where.computed(plan, missing)) as chunks:  # a cluster is left before an error is reported
            for index, chunk in chunks:
                store.write(index, chunk)
        return store.dataset()
