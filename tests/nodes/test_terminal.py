"""What is printed never holds up a run, whoever reads it; outputs fail each on its own; what a run needs to start."""

import json
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from servonode.cli.deliver import ENDING, BrokenOff, Output, Signals, make
from servonode.cli.main import main
from servonode.nodes.terminal import KEPT_BYTES, Lines

LAUNCH = "trailer_pursuit"


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="sn-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


# streams


def pipe() -> tuple[int, Lines]:
    read, write = os.pipe()
    os.set_blocking(read, False)
    return read, Lines(write)


def taken(read: int) -> bytes:
    data = b""
    try:
        while chunk := os.read(read, 1 << 16):
            data += chunk
    except BlockingIOError:
        pass
    return data


def test_bytes_are_refused_as_a_text_stream_refuses_them() -> None:
    read, lines = pipe()
    with pytest.raises(TypeError, match="takes str, not bytes"):
        lines.write(b"")  # type: ignore[arg-type]
    print("a line", file=lines)
    assert taken(read) == b"a line\n"
    assert os.get_blocking(lines.fileno())  # nobody else writes without waiting for it


def test_silent_reader_costs_the_oldest_lines_and_is_not_waited_for() -> None:
    read, lines = pipe()
    for i in range(20_000):
        print(f"line {i:06d}", file=lines)
    assert lines._size <= KEPT_BYTES
    assert not lines.drain(0.05)
    found = taken(read)
    while not lines.drain(0.0):
        found += taken(read)
    found += taken(read)
    numbers = [int(line.split()[1]) for line in found.decode().splitlines()]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 19_999
    assert len(numbers) < 20_000
    assert all(len(line) == 11 for line in found.decode().splitlines())  # whole lines
    assert lines.failed is None


def test_a_reader_that_is_gone_is_passed_over_in_silence() -> None:
    read, lines = pipe()
    os.close(read)
    print("a line", file=lines)
    assert not lines.drain(1.0)
    assert isinstance(lines.failed, BrokenPipeError)


def test_files_sockets_and_full_devices_are_written_to(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log, Path("/dev/full").open("w") as full:
        log.write("before\n")
        log.flush()
        print("a line", file=Lines(log.fileno()))
        lines = Lines(full.fileno())
        print("a line", file=lines)
        assert lines.failed is not None
        assert lines.failed.strerror == "No space left on device"
    assert (tmp_path / "log").read_text() == "before\na line\n"
    ours, theirs = socket.socketpair()
    lines = Lines(theirs.fileno())
    for _ in range(100_000):
        print("a line", file=lines)
    assert ours.recv(7) == b"a line\n"
    lines.release()
    ours.close()
    theirs.close()


# outputs


def failing(error: BaseException) -> Any:
    def make() -> str:
        raise error

    return make


def test_outputs_fail_each_on_its_own(tmp_path: Path) -> None:
    outputs = [
        Output("data", tmp_path / "a.csv", failing(OSError(28, "No space left on device"))),
        Output("report", tmp_path / "a.png", failing(RuntimeError("of the drawing\nlibrary"))),
        Output("movie", tmp_path / "a.mp4", lambda: "a.mp4 (3 frames)"),
    ]
    with Signals() as signals:
        done = make(outputs, signals)
    assert done.rows == ["  movie             a.mp4 (3 frames)"]
    assert done.failures == {
        "data": f"{tmp_path}/a.csv: cannot be written (No space left on device)",
        "report": f"{tmp_path}/a.png: cannot be made (RuntimeError: of the drawing library)",
    }
    assert [done.code(code) for code in (0, 1, 143)] == [1, 1, 143]


@pytest.fixture
def handlers() -> Iterator[None]:
    """Gives the signals the handlers back that they have now."""
    before = {each: signal.getsignal(each) for each in ENDING}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", ENDING)
def test_signal_breaks_off_one_output_and_skips_the_rest(tmp_path: Path, number: int) -> None:
    def interrupted() -> str:
        os.kill(os.getpid(), number)
        return "made"

    whole = Output("data", tmp_path / "a.csv", interrupted, whole=True)
    report, movie = (Output(word, tmp_path / word, interrupted) for word in ("report", "movie"))
    with Signals() as signals:
        done = make([whole, report], signals)
        assert (done.rows, list(done.failures)) == (["  data              made"], ["report"])
        assert "left out" in done.failures["report"]
        done = make([report, movie], signals)
        assert [text.partition(": ")[2][:10] for text in done.failures.values()] == ["broken off", "left out, "]
        assert (done.code(0), done.code(1)) == (128 + number, 1)


@pytest.mark.usefixtures("handlers")
def test_before_anything_runs_a_signal_is_raised() -> None:
    with pytest.raises(BrokenOff), Signals():
        signal.raise_signal(signal.SIGTERM)


def test_a_picture_that_cannot_be_drawn_leaves_data_and_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from servonode.views import report

    monkeypatch.setattr(report, "write_report", lambda *_: failing(ValueError("no such font"))())
    words = ["simulate", LAUNCH, "--json", "--set", "run.duration=0.1", "--output", str(tmp_path / "a.csv")]
    result = CliRunner().invoke(main, [*words, "--report", str(tmp_path / "a.png")])
    assert result.exit_code == 1
    printed = json.loads(result.stdout)
    assert (printed["t"], printed["ended"], printed["exit"], printed["faults"]) == (0.1, "completed", 1, [])
    assert f"servonode: {tmp_path}/a.png: cannot be made (ValueError: no such font)" in result.stderr
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 102


def test_a_csv_file_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("before")
    monkeypatch.setattr("servonode.record.run.write_csv", lambda *_: failing(OSError(28, "No space left on device"))())
    result = CliRunner().invoke(main, ["simulate", LAUNCH, "--set", "run.duration=0.1", "--output", str(file)])
    assert result.exit_code == 1
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
    assert file.read_text() == "before"
