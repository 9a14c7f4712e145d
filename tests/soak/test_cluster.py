"""Sweeps on clusters of processes that die, are interrupted, or lose their scheduler."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import xarray

from servonode.bus.processes import beyond_this_computer, listening_sockets
from tests.helpers.ports import free_port
from tests.helpers.runs import START_S, eventually
from tests.helpers.sessions import processes

LIMIT_S = 2 * START_S

SLOW = ("trailer_sweep", "--set", "sweep.chunk=8", "--runs", "400")

REMEDY = "the finished chunks of a sweep with an output folder are kept: go on with --resume (resume=True)"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# clusters of processes


@contextmanager
def started(*words: str, module: str = "servonode.cli.main") -> Iterator[subprocess.Popen[str]]:
    """A command as a process, in a session of its own."""
    arguments = [sys.executable, "-m", module, *words]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def cluster(port: int, workers: int) -> Iterator[tuple[subprocess.Popen[bytes], list[subprocess.Popen[bytes]]]]:
    """A scheduler at a port of this computer, and so many workers of one thread."""
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    here = ["--host", "127.0.0.1", "--no-dashboard"]
    with ExitStack() as stack:

        def process(*words: str) -> subprocess.Popen[bytes]:
            started = stack.enter_context(subprocess.Popen([sys.executable, "-m", "dask", *words, *here], **quiet))
            stack.callback(started.kill)
            return started

        scheduler = process("scheduler", "--port", str(port))
        address = f"tcp://127.0.0.1:{port}"
        yield scheduler, [process("worker", address, "--nthreads", "1", "--no-nanny") for _ in range(workers)]


def finished(folder: str) -> int:
    """The number of finished chunks in the folder."""
    marks = Path(folder, "progress", "digests", "c")
    return len(list(marks.iterdir())) if marks.is_dir() else 0


def in_threads() -> xarray.Dataset:
    """The dataset of the sweep in threads."""
    with started("sweep", *SLOW, "--threads", "2", "--output", "threads.zarr") as process:
        assert process.communicate(timeout=LIMIT_S)[1] is not None
    assert process.returncode == 0
    return dataset("threads.zarr")


def dataset(folder: str) -> xarray.Dataset:
    return xarray.open_zarr(folder, chunks=None).load()


def resumed_in_threads() -> xarray.Dataset:
    with started("sweep", *SLOW, "--threads", "2", "--output", "a.zarr", "--resume") as process:
        errors = process.communicate(timeout=LIMIT_S)[1]
    assert process.returncode == 0, errors
    return dataset("a.zarr")


def test_two_local_workers_give_the_bits_of_threads_though_one_is_killed_and_only_this_computer_reaches_them() -> None:
    with started("sweep", *SLOW, "--workers", "2", "--output", "a.zarr") as process:
        assert eventually(lambda: finished("a.zarr") > 4, LIMIT_S)
        listening = listening_sockets(processes(process.pid))
        workers = [each for each in processes(process.pid) if "dask worker" in title(each)]
        signalled = workers[0]
        Path("killed").write_text(str(signalled))
        subprocess.run(["kill", "-9", str(signalled)], check=True)
        out, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert out.startswith("  runs                             400, of which none failed")
    assert len(workers) == 2
    assert len(listening) >= 3
    assert [each for each in listening if beyond_this_computer(each)] == []
    assert dataset("a.zarr").identical(in_threads())


def title(pid: int) -> str:
    """How a process is called in the system's list."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def test_ctrl_c_ends_local_workers_too_and_resume_goes_on_in_threads() -> None:
    with started("sweep", *SLOW, "--workers", "2", "--output", "a.zarr") as process:
        assert eventually(lambda: finished("a.zarr") > 4, LIMIT_S)
        everybody = processes(process.pid)
        subprocess.run(["kill", "-INT", "--", f"-{process.pid}"], check=True)  # as a terminal does, to all of them
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert errors.splitlines()[-2:] == [
        "servonode: finished runs are kept in a.zarr; go on with --resume", "servonode: interrupted",
    ]  # fmt: skip
    assert "Traceback" not in errors
    assert eventually(lambda: not any(title(pid) for pid in everybody), START_S)
    assert 4 < finished("a.zarr") < 50
    assert resumed_in_threads().identical(in_threads())


def test_a_scheduler_that_is_lost_ends_the_sweep_with_a_line_and_resume_goes_on_in_threads() -> None:
    port = free_port()
    words = ("sweep", *SLOW, "--scheduler", f"tcp://127.0.0.1:{port}", "--output", "a.zarr")
    with cluster(port, 2) as (scheduler, (worker, _)), started(*words) as process:
        assert eventually(lambda: finished("a.zarr") > 4, LIMIT_S)
        worker.kill()  # its chunks are given to the other one
        before = finished("a.zarr")
        assert eventually(lambda: finished("a.zarr") > before + 4, LIMIT_S)
        scheduler.kill()
        out, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (1, "")
    assert errors.splitlines()[-1] == f"servonode: the connection to the dask scheduler is lost; {REMEDY}"
    assert "Traceback" not in errors
    assert 8 < finished("a.zarr") < 50
    assert resumed_in_threads().identical(in_threads())


def test_a_chunk_that_ends_its_workers_is_given_up_after_a_few() -> None:
    Path("deadly.py").write_text("import os\n\n\ndef compute(texts, values):\n    os._exit(1)\n")
    Path("sweep.py").write_text("""\
import deadly

from servonode.cli.main import main
from servonode.wings.explore.sweeps import cluster as of_dask

if __name__ == "__main__":
    of_dask.compute = deadly.compute
    main(["sweep", "trailer_sweep", "--workers", "1"])
""")
    done = subprocess.run([sys.executable, "sweep.py"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        1, "", "servonode: a chunk has ended 4 workers one after the other, as for want of memory; give a smaller "
        f"sweep.chunk; {REMEDY}\n",
    )  # fmt: skip


def test_from_python_a_cluster_gives_the_same_dataset() -> None:
    Path("sweep.py").write_text('''\
import warnings

import servonode

if __name__ == "__main__":
    warnings.simplefilter("error")
    loop = servonode.load("trailer_pursuit", run__duration=0.2)
    vary = {"plant.initial.phi": {"low": -0.5, "high": 0.5, "points": 9}, "run.seed": [1, 2]}
    found = [loop.sweep(vary, chunk=4, histories=True, **where) for where in ({"threads": 1}, {"workers": 2})]
    print(found[0].identical(found[1]), found[0].sizes["run"])
''')  # fmt: skip
    done = subprocess.run([sys.executable, "sweep.py"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.stdout, done.stderr) == ("True 18\n", "")
