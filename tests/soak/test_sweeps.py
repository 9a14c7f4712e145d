"""Sweeps that are ended at any moment, on full disks, and their memory."""

import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import xarray

from tests.helpers.runs import MANY, START_S, eventually

SLOW = ("trailer_sweep", "--set", "sweep.chunk=4", "--runs", "200", "--threads", "1")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# processes


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """`servonode sweep` with these words as a process of its own."""
    arguments = [sys.executable, "-m", "servonode.cli.main", "sweep", *words]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def finished(folder: str = "trailer_sweep.zarr") -> int:
    """The number of finished chunks in the folder."""
    marks = Path(folder, "progress", "digests", "c")
    return sum(1 for each in marks.iterdir() if each.suffix != ".partial") if marks.is_dir() else 0


def whole(*words: str) -> xarray.Dataset:
    """The dataset of an undisturbed sweep."""
    with started(*words, "--output", "whole.zarr") as process:
        _, errors = process.communicate(timeout=START_S)
    assert process.returncode == 0, errors
    return xarray.open_zarr("whole.zarr", chunks=None).load()


def resumed(*words: str) -> xarray.Dataset:
    """The dataset of the sweep that was ended, once the rest is computed."""
    with started(*words, "--resume") as process:
        _, errors = process.communicate(timeout=START_S)
    assert process.returncode == 0, errors
    return xarray.open_zarr("trailer_sweep.zarr", chunks=None).load()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)], ids=["Ctrl-C", "kill -9"])
def test_a_sweep_that_is_ended_at_any_moment_is_resumed_with_the_identical_result(
    number: signal.Signals, code: int
) -> None:
    expected, seed = whole(*SLOW), random.Random(31)
    for i in range(MANY):
        resume = ["--resume"] if i and finished() else []
        before = finished()
        with started(*SLOW, *resume) as process:
            assert eventually(lambda: finished() > before or process.poll() is not None, START_S)  # noqa: B023
            time.sleep(seed.uniform(0.0, 0.1))
            process.send_signal(number)
            _, errors = process.communicate(timeout=START_S)
        assert process.returncode in (code, 0), errors
        assert finished() >= before
        if process.returncode == 130:
            kept = (
                "servonode: finished runs are kept in trailer_sweep.zarr; go on with --resume\nservonode: interrupted\n"
            )
            assert errors.endswith(kept)
    assert 0 < finished() <= 50
    assert resumed(*SLOW).identical(expected)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process")
def test_a_disk_that_is_full_ends_the_sweep_with_a_line_and_keeps_what_is_finished() -> None:
    expected = whole(*SLOW)
    with started(*SLOW) as process:
        assert eventually(lambda: finished() > 2, START_S)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))  # not a byte more in a file
        out, errors = process.communicate(timeout=START_S)
    assert (process.returncode, out) == (1, "")
    assert errors.splitlines()[-1] == (
        "servonode: trailer_sweep.zarr: cannot be written (File too large); the finished chunks in it are kept: make "
        "room, then go on with --resume (resume=True)"
    )
    assert 2 < finished() < 50
    assert resumed(*SLOW).identical(expected)


def test_the_memory_of_a_sweep_is_that_of_its_chunks() -> None:
    def peak_kb(runs: int) -> int:
        words = ["trailer_sweep", "--set", "run.duration=0.1", "--set", "sweep.chunk=100", "--threads", "1"]
        peak = 0
        with started(*words, "--runs", str(runs), "--output", f"{runs}.zarr") as process:
            while process.poll() is None:
                hit = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
                peak = max(peak, int(hit[1])) if hit else peak
                time.sleep(0.02)
        assert process.returncode == 0
        return peak

    few, many = peak_kb(200), peak_kb(4000)
    assert many - few < 12_000  # kB
