"""A sweep on a dask cluster: the chunks go to its workers, a bounded number at a time, and come back here."""

import atexit
import logging
import os
import re
import shutil
import socket
import tempfile
import threading
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.launch_file import launch_of_table, table_of
from servonode.closed_loop.launch_text import table_text
from servonode.definitions.progress import task
from servonode.definitions.references import CODE, FunctionDefinition, kind_of
from servonode.errors import NotInstalled, ServonodeError, installing
from servonode.version import VERSION
from servonode.wings.explore.sweeps import local_worker
from servonode.wings.explore.sweeps.chunk import Chunk, run_chunk
from servonode.wings.explore.sweeps.measures import TEXTS
from servonode.wings.explore.sweeps.plan import Chunks, Plan, swept

_making = threading.Lock()  # of a worker with several threads


class ClusterError(ServonodeError, RuntimeError):
    """A cluster cannot compute a sweep, or no longer; the text says why and how to go on."""

    exit_code = 1


@dataclass(frozen=True)
class Texts:
    """All that a worker needs to make a sweep: no file of the user's is read there.

    launch: the launch file as stated. file: as its user named it. folder: where it stands below the root of the
    sources, of which each has its path there and its text.
    """

    version: str
    launch: str
    name: str
    file: str
    histories: bool
    code: bool
    folder: str = "."
    sources: tuple[tuple[str, bytes], ...] = ()


def compute(texts: Texts, values: Array) -> Chunk:
    """The runs with these values, computed here.

    Raises:
        ClusterError: another version of servonode is installed here, or a file cannot be written or read.
    """
    if texts.version != VERSION:
        text = f"a worker has servonode {VERSION}, this computer {texts.version}; install the same on both"
        raise ClusterError(text)
    try:
        with _making:
            plan = _plan(texts)
        return run_chunk(plan.variation, values, plan.measures)
    except ServonodeError:
        raise
    except OSError as error:  # which the client would take for one of its connection
        what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        text = f"a worker cannot use a file of its own ({what}); make room or correct that on its computer"
        raise ClusterError(text) from error


@lru_cache(maxsize=2)
def _plan(texts: Texts) -> Plan:
    root = Path(tempfile.mkdtemp(prefix="servonode-sweep-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for name, text in texts.sources:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text)
    path = root / texts.folder / f"{texts.name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)  # from which paths of the sources begin
    launch = launch_of_table(tomllib.loads(texts.launch), name=texts.name, path=path, file=texts.file)
    return Plan(resolve(launch, code=texts.code), texts.histories)


WAITING = "the sweep waits for a worker: start one with dask worker, or end the sweep with Ctrl-C"
AHEAD = 2  # chunks in flight for each thread of the cluster: one in work, one waiting there
LOOK_S = 2.0  # after which without a result it is looked whether there is a worker
GREETING = 1 << 20  # bytes that a scheduler may announce at first
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
MOST_SHOWN = 300  # characters of another's error
LEAST_AHEAD = 4  # while no worker is there yet
CONNECT_S = 10.0
LOGGERS = ("distributed", "tornado", "asyncio")
REMEDY = "the finished chunks of a sweep with an output folder are kept: go on with --resume (resume=True)"


def computed_on(
    plan: Plan,
    indices: Iterable[int],
    workers: int | None,
    scheduler: str | None,
    send_code: bool,
) -> Chunks:
    """The chunks of these indices, in the order in which the cluster finishes them.

    A chunk of a worker that dies is given to another one by dask.

    Raises:
        LaunchError: the sweep needs code of the user's, which may not be sent. ClusterError: there is no cluster, it
            is lost, or its workers cannot compute the sweep.
    """
    texts = texts_of(plan, send_code)
    _check_library()
    with _quiet(), _cluster_errors(), _client(workers, scheduler) as client:
        yield from _chunks(client, plan, texts, iter(indices))


def _chunks(client: Any, plan: Plan, texts: Texts, indices: Iterator[int]) -> Chunks:
    from distributed import wait

    flying: dict[Any, int] = {}
    idle = False  # whether there is no worker, and that has been said

    def fill() -> None:
        ahead = max(LEAST_AHEAD, AHEAD * sum(client.nthreads().values()))
        while len(flying) < ahead and (index := next(indices, None)) is not None:
            flying[client.submit(compute, texts, plan.values(index), pure=False)] = index

    fill()
    while flying:
        try:
            finished = wait(list(flying), timeout=LOOK_S, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            if (none := not client.nthreads()) and not idle:
                task().remark(WAITING)
            idle = none
            continue
        chunks = []
        for future in finished:
            index = flying.pop(future)
            chunks.append((index, checked(plan, index, future.result())))
            future.release()
            task().at(task().done + len(chunks[-1][1].values))
        fill()  # before these are written, so that no worker waits for that
        yield from chunks


def checked(plan: Plan, index: int, found: Any) -> Chunk:
    """What a worker gave for a chunk, if it is one of the runs that were sent to it.

    Raises:
        ClusterError: it is something else, or has other runs, names, lengths or kinds of values.
    """
    sent = plan.values(index)
    values = found.values if isinstance(found, Chunk) and isinstance(found.values, np.ndarray) else np.empty(0)
    if (values.dtype, values.shape, values.tobytes()) != (sent.dtype, sent.shape, sent.tobytes()):
        wrong = "no results of the runs that were sent"
    elif table := next(_misfits(plan, len(sent), found), ""):
        wrong = f"{table} that no {len(sent)} runs of this sweep can have"
    else:
        return cast(Chunk, found)
    text = f"a worker gave {wrong}, for chunk {index}, of which nothing is kept; use workers that you trust"
    raise ClusterError(f"{text}; {REMEDY}")


def _misfits(plan: Plan, n: int, found: Chunk) -> Iterator[str]:
    """What of a chunk of n runs its worker cannot have computed."""
    if not (isinstance(found.reasons, list) and len(found.reasons) == n and all(map(_plain, found.reasons))):
        yield "reasons"
    columns = set(plan.measures.columns) if plan.histories else set()
    for word, names in (("measures", set(plan.measures.names)), ("histories", columns)):
        if not (isinstance(table := getattr(found, word), dict) and set(table) == names):
            yield word
    for name, values in found.measures.items():
        kind = np.dtype(object if name in TEXTS else float)
        known = isinstance(values, np.ndarray) and (values.shape, values.dtype) == ((n,), kind)
        if not known or (name in TEXTS and not all(map(_plain, values))):
            yield f"a measure {name}"
    faults, times = found.measures["fault"].astype(bool), found.measures["duration"]
    if [*map(bool, found.reasons)] != faults.tolist() or not np.all(faults | np.isfinite(times)):
        yield "reasons, faults and durations"
    shapes = {getattr(values, "shape", None) for values in found.histories.values()}
    rows = {(n, rows) for rows in range(len(plan.times) + 1)} if plan.histories else set()
    if len(shapes) > 1 or not shapes <= rows or any(each.dtype != float for each in found.histories.values()):
        yield "histories"


def _plain(text: Any) -> bool:
    """Whether this is a text without control characters, such as those that a terminal obeys."""
    return isinstance(text, str) and not CONTROL.search(text)


def _check_answers(address: str) -> None:
    """Raise ClusterError where what listens there is no scheduler, before dask believes what it announces.

    A scheduler begins with the length of its greeting, 8 bytes. Of TLS and other transports dask looks itself.
    """
    from distributed.comm import parse_host_port

    scheme, _, rest = address.rpartition("://")
    if scheme not in ("", "tcp"):
        return
    with socket.create_connection(parse_host_port(rest), timeout=CONNECT_S) as tried:
        head = tried.recv(8)
    if (announced := int.from_bytes(head, "little")) > GREETING or len(head) < 8:
        raise OSError(f"it begins with {announced}, which is no length of a greeting")


def _check_library() -> None:
    """Import dask, which makes its loggers. Raises NotInstalled."""
    try:
        import cryptography  # noqa: F401  (for the TLS of workers on this computer)
        import distributed  # noqa: F401
    except ImportError as error:
        text = f"a cluster needs {error.name}; install it with {installing('cluster')}"
        raise NotInstalled(text, name=error.name) from error


@contextmanager
def _client(workers: int | None, scheduler: str | None) -> Iterator[Any]:
    """The client of a cluster: of an existing one, or of worker processes of one thread each on this computer."""
    from distributed import Client, LocalCluster, Security

    if scheduler is not None:
        try:
            _check_answers(scheduler)
            client = Client(scheduler, timeout=CONNECT_S)
        except (OSError, ValueError, TypeError, MemoryError) as error:
            text = f"there is no dask scheduler at {scheduler} ({_one_line(error)}); start one with dask scheduler, "
            raise ClusterError(f"{text}or compute here with --threads or --workers") from error
        with client:
            yield client
        return
    here = LocalCluster(
        n_workers=workers, threads_per_worker=1, memory_limit=0, dashboard_address=None,
        silence_logs=logging.CRITICAL, preload=[local_worker.__name__],
        protocol="tls://", security=Security.temporary(),  # other users of this computer can reach its ports
    )  # fmt: skip
    with here, Client(here) as client:
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Within it dask logs nothing of what an error of ours says, or what it has repaired itself."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in LOGGERS]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


@contextmanager
def _cluster_errors() -> Iterator[None]:
    """What dask raises within is a ClusterError of one line."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except ServonodeError:
        raise
    except KilledWorker as error:
        text = f"a chunk has ended {error.allowed_failures + 1} workers one after the other, as for want of memory"
        raise ClusterError(f"{text}; give a smaller sweep.chunk; {REMEDY}") from error
    except ModuleNotFoundError as error:
        text = f"a worker has no {CONTROL.sub('?', str(error.name))}; install servonode {VERSION} on scheduler and"
        raise ClusterError(f"{text} workers; {REMEDY}") from error
    except (CancelledError, CommClosedError, OSError) as error:
        raise ClusterError(f"the connection to the dask scheduler is lost; {REMEDY}") from error
    except Exception as error:  # whatever a worker has raised, or made dask raise here
        text = f"a worker or the scheduler failed by {type(error).__name__} ({_one_line(error)})"
        if "deserialization of the task graph" in str(error):
            text = f"the scheduler cannot read the work; install servonode {VERSION} on scheduler and workers"
        raise ClusterError(f"{text}; {REMEDY}") from error


def texts_of(plan: Plan, send_code: bool) -> Texts:
    """The sweep as texts. Raises LaunchError where it needs code that may not be sent, or meshes."""
    closed_loop = plan.closed_loop
    launch = swept(closed_loop)
    table = table_of(launch)
    definitions = list(closed_loop.own_definitions)
    for section, key, definition in definitions:
        where = (launch.file, section, key)
        if isinstance(definition, FunctionDefinition):
            text = "is a function of this process, which workers do not have; write it into a file"
            raise LaunchError(*where, f"{definition.reference} {text}, or compute with threads")
        if not send_code and kind_of(definition.reference) in CODE:
            text = f"{definition.reference!r} is Python code of yours, which would run on the workers; say so with "
            raise LaunchError(*where, f"{text}--send-code (send_code=True), or compute with --threads")
    _check_meshes(closed_loop)
    files = sorted({file for *_, each in definitions if each.module is None for file in each.sources()})
    home = launch.path.parent.resolve()
    root = Path(os.path.commonpath([home, *(file.parent for file in files)]))
    for section, key, definition in definitions:
        if definition.module is None:
            relative = os.path.relpath(definition.file.resolve(), home)
            table[section][key] = definition.from_folder(relative)
    return Texts(
        VERSION,
        table_text(table),
        launch.name,
        launch.file,
        plan.histories,
        send_code,
        str(home.relative_to(root)),
        tuple((str(file.relative_to(root)), file.read_bytes()) for file in files),
    )


def _check_meshes(closed_loop: ClosedLoop) -> None:
    """Refuse a robot whose meshes touch where its driver moves it, of which a worker has no files."""
    meshes = closed_loop.source.parts().meshes if closed_loop.driver.motion is not None else ()
    for name, mesh in meshes[:1]:
        file, driver = closed_loop.source.definition.file.name, closed_loop.driver.name
        text = f"{file} has meshes ({name}: {mesh}), which workers would lack for contacts of the driver {driver}"
        remedy = 'compute with --threads, or state plant.driver = "simulated"'
        raise LaunchError(closed_loop.launch.file, "plant", "machine", f"{text}; {remedy}")


def _one_line(error: BaseException) -> str:
    return CONTROL.sub("?", " ".join(str(error).split()))[:MOST_SHOWN]
