"""What a cluster's worker does: it makes the closed loop of a sweep's texts, once, and computes chunks of its runs."""

import atexit
import shutil
import tempfile
import threading
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import launch_of_table
from servonode.errors import ServonodeError
from servonode.sweeps.chunk import Chunk, run_chunk
from servonode.sweeps.plan import Plan
from servonode.version import VERSION

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
        text = f"a worker cannot use a file of its own ({_said(error)}); make room or correct that on its computer"
        raise ClusterError(text) from error


def _said(error: OSError) -> str:
    return f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")


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
