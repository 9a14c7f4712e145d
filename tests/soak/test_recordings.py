"""Recordings of runs in real time: by listening, cut off by deaths, limits, disks and whatever befalls their files."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader

from servonode.record.bag import read_bag
from servonode.record.info import info
from tests.helpers.refusals import command as servo
from tests.helpers.runs import MANY, START_S, Runs, eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

QUIET = ("plant.safety.command_timeout_floor=5", "plant.safety.lateness_limit=10")  # a busy host is not tested


def messages(file: Path) -> list[tuple[str, Any, Any]]:
    """Topic, schema and record of each message, by the library alone."""
    with file.open("rb") as stream:
        return [(channel.topic, schema, message) for schema, channel, message in make_reader(stream).iter_messages()]


# a run goes on


def test_a_run_that_goes_on_is_recorded_by_listening(runs: Runs, tmp_path: Path) -> None:
    run = runs.start("trailer_pursuit", "run.speed=1", "run.duration=600", *QUIET)
    run.wait_open()
    file = tmp_path / "listened.mcap"
    command = [sys.executable, "-m", "servonode.cli.main", "record", run.name, "--output", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"{run.name}: recording into {file}; Ctrl-C ends it\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=START_S)
    run.stop()
    assert process.returncode in (0, 1), err  # 1: a busy host has made it miss messages, which it says
    assert out.startswith(f"{file} (")
    found = json.loads(servo("bag", "info", str(file), "--json").stdout)
    assert found["topics"]["plant/state"] > 50
    result = servo("replay", str(file), "--json")
    assert json.loads(result.stdout)["differing"] == 0, result.stdout
    assert servo("bag", "report", str(file), "--report", str(tmp_path / "report.png"), "--json").exit_code == 0
    assert (tmp_path / "report.png").stat().st_size > 10_000


# deaths and disks


def killed_after(runs: Runs, seconds: float) -> tuple[Path, int]:
    """The recording of a run of which all processes were killed, and when [monotonic ns]."""
    file = runs.folder / f"{time.monotonic_ns()}.mcap"
    run = runs.start("trailer_pursuit", "run.speed=1", "run.duration=600", *QUIET, words=("--record", str(file)))
    run.wait_open()
    time.sleep(seconds)
    victims = [run.popen.pid, run.writer(), *run.pids().values()]
    killed = time.monotonic_ns()
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    run.popen.wait(START_S)
    return Path(f"{file}.spool"), killed


def assert_at_most_lost(spool: Path, killed: int, seconds: float) -> float:
    bag = read_bag(Path(str(spool).removesuffix(".spool")))  # by the name that it would have had
    last = max(mono for mono, *_ in bag.messages())
    assert (killed - last) / 1e9 <= seconds
    return (killed - last) / 1e9


def test_random_deaths_cost_at_most_six_tenths_of_a_second(runs: Runs, rng: np.random.Generator) -> None:
    costs = []
    for _ in range(MANY // 4):
        spool, killed = killed_after(runs, float(rng.uniform(0.3, 2.0)))
        costs.append(assert_at_most_lost(spool, killed, 0.6))
        spool.unlink()
    print(f"\n{MANY // 4} deaths: at worst {max(costs):.3f} s lost")


def test_a_recorder_that_is_killed_again_and_again_loses_nothing(runs: Runs, rng: np.random.Generator) -> None:
    file = runs.folder / "killed.mcap"
    run = runs.start("trailer_pursuit", "run.speed=1", "run.duration=600", *QUIET, words=("--record", str(file)))
    run.wait_open()
    killed = 0
    while killed < MANY // 2:
        time.sleep(float(rng.uniform(0.1, 1.0)))
        for writer in run.left_over(b"writer"):
            os.kill(writer, signal.SIGKILL)
            killed += 1
    time.sleep(2.0)
    run.popen.send_signal(signal.SIGTERM)
    run.ends_with(143)
    found = json.loads(servo("bag", "info", str(file), "--json").stdout)
    assert found["missing"] == {}
    assert found["topics"]["plant/state"] > 200
    assert json.loads(servo("replay", str(file), "--json").stdout)["differing"] == 0


def test_a_recording_that_reaches_a_limit_says_where_it_ended(runs: Runs, tmp_path: Path) -> None:
    file, settings = tmp_path / "a.mcap", ("run.duration=6", "run.speed=2", "plant.publish_every=1", *QUIET)
    words, limits = ("--record", str(file), "--every", "100"), {resource.RLIMIT_FSIZE: 400_000}
    run = runs.start("trailer_pursuit", *settings, words=words, limits=limits)
    assert run.popen.wait(START_S) == 1
    bag = read_bag(file)
    (text,) = re.findall(r"the recording ended at t = [1-5]\.\d\d\d s: File too large", bag.ended)
    assert f"servonode: {file}: {text}\n" in run.stderr
    assert (bag.ended, json.loads(bag.ending["exit"])) == (f"completed; {text}", 1)
    assert json.loads(bag.ending["lost_messages"])["plant"] > 100
    assert (len(bag.rows.newest("plant")), run.spools(), list(tmp_path.glob("*.spool"))) == (61, [], [])


def overwritten(file: Path) -> None:
    with Path(f"{file}.spool").open("r+b") as stream:
        stream.write(bytes(30))


def replaced(file: Path) -> None:
    Path(f"{file}.spool").unlink()
    Path(f"{file}.spool").write_text("another's")


@pytest.mark.parametrize(
    ("harm", "code", "says"),
    [
        (lambda file: file.write_text("another's"), 1, "cannot be written (File exists); what was recorded is kept: "),
        (overwritten, 1, " bytes are damaged or cut off, and left out"),
        (replaced, 0, ""),
    ],
)
def test_what_befalls_its_files_during_a_run_costs_no_recording(
    runs: Runs, tmp_path: Path, harm: Callable[[Path], None], code: int, says: str
) -> None:
    file = tmp_path / "a.mcap"
    run = runs.start("trailer_pursuit", "run.duration=1.5", "run.speed=1", *QUIET, words=("--record", str(file)))
    run.wait_open()
    spool = Path(f"{file}.spool")
    assert eventually(lambda: spool.stat().st_size > 30_000)
    harm(file)
    assert run.popen.wait(START_S) == code, run.stderr
    assert says in run.stderr
    assert "completed after 1.500 s" in run.stderr
    if file.read_bytes() == b"another's":
        command = run.stderr.partition("is kept: servonode ")[2].splitlines()[0].split()
        assert servo(*command).exit_code == 0
        file = Path(command[-1])
    assert info(read_bag(file))["topics"]["plant/state"] == 151
    assert len(read_bag(file).rows.newest("plant")) == 1501
    assert spool.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_ends_the_recording_and_not_the_run(runs: Runs, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode()}")
    try:
        run = runs.start(
            "trailer_pursuit", "run.speed=3", "run.duration=4.5", "plant.publish_every=1", *QUIET,
            words=("--record", str(small / "a.mcap")),
        )  # fmt: skip
        assert run.popen.wait(START_S) == 1
        ended = tuple(run.printed[word] for word in ("t", "ended", "faults", "exit"))
        assert ended == (4.5, "completed", [], 1)
        spool = small / "a.mcap.spool"
        assert f"[writer] {spool}: cannot be written (No space left on device); the recording ends here" in run.stderr
        remedy = f"what was recorded is kept: servonode bag recover {spool}"
        assert f"a.mcap: cannot be written (No space left on device); {remedy}" in run.stderr
        out = tmp_path / "out.mcap"
        assert servo("bag", "recover", str(spool), "--output", str(out)).exit_code == 0
        assert len(messages(out)) > 100
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
