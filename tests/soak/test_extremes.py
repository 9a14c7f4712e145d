"""Every number of a launch file at its extremes by every verb: never a hang, a traceback or all of the memory.

Each trial is a process of its own, forked from this one, with a limit of time and of memory.
"""

import json
import os
import resource
import select
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest

import servonode
from servonode.cli.main import main
from tests.closed_loop.test_extremes import KEYS, VALUES, Trial, is_good, words_of
from tests.helpers.runs import private_runs

LIMIT_S = 60.0  # on a machine that is busy; each takes a second or two on one that is not
LEFT_S = 15.0  # after an interrupt
MEMORY = 6_000_000_000  # bytes of addresses
ALL = "SERVONODE_ATTACKS" in os.environ  # every value of every key by every verb: an hour


def tried(words: Sequence[str], limit_s: float = LIMIT_S) -> Trial:
    """The command line in a forked process."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _try(words, write)
        finally:
            os._exit(70)
    os.close(write)
    with open(read, "rb") as answer:  # noqa: PTH123
        interrupted = not select.select([answer], [], [], limit_s)[0]
        if interrupted:
            os.kill(pid, signal.SIGINT)
        came = bool(select.select([answer], [], [], LEFT_S)[0])
        if not came:
            os.kill(pid, signal.SIGKILL)
        data = answer.read() if came else b""
    os.waitpid(pid, 0)
    code, text = json.loads(data) if data else (None, "")
    return Trial(code, text, interrupted)


def _try(words: Sequence[str], write: int) -> None:
    """In the child: run the command, and write its exit code and what it printed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryFile() as printed:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream in (1, 2):
            os.dup2(printed.fileno(), stream)
        sys.stdout, sys.stderr = (os.fdopen(os.dup(stream), "w", buffering=1) for stream in (1, 2))
        code: int | str | None = None
        try:
            main(list(words), standalone_mode=True)
        except SystemExit as end:
            code = end.code
        except BaseException:  # noqa: BLE001  (what is looked for)
            import traceback

            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        text = os.pread(printed.fileno(), 100_000, 0).decode(errors="replace")
    os.write(write, json.dumps([code, text[-20_000:]]).encode())
    os._exit(0)


@pytest.fixture(scope="module")
def loaded() -> None:
    """The kernels, in this process: its children have them too."""
    for launch in ("trailer_pursuit", "trailer_pursuit_loopback"):
        assert servonode.check(launch, run__duration=0.1).machine
    assert servonode.load("trailer_pursuit_external").machine


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("verb", ["check", "simulate", "run"] if ALL else ["run"])
def test_any_value_of_a_number_works_or_is_one_line(loaded: None, tmp_path: Path, verb: str, key: str) -> None:
    one = crc32(key.encode()) % len(VALUES)
    with private_runs(tmp_path):
        for value in VALUES if ALL else VALUES[one : one + 1]:
            trial = tried(words_of(verb, key, value), 8.0 if verb == "run" else LIMIT_S)
            assert is_good(trial, verb), (value, trial)
