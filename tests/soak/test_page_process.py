"""The page's processes beside real runs: the stop while other things hang, browsers of all kinds, what is said."""

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.helpers.pages import (
    COMMAND,
    LINK,
    Link,
    PageProcess,
    begun,
    is_stopped,
    made_certificate,
    needs_openssl,
    told,
)
from tests.helpers.runs import START_S, Process, Runs, eventually, operator, state_of

# the stop, while other things hang


def test_stop_works_while_feed_and_launcher_are_frozen_and_browsers_misbehave(runs: Runs, tmp_path: Path) -> None:
    run = begun(runs, "trailer_pursuit")
    missed = run.ask("status")["counts"].get("missed_commands", 0)
    with PageProcess(tmp_path, run.name) as page, page.link.feed() as quick, page.link.feed() as frozen:
        frozen.recv(timeout=START_S)
        assert eventually(lambda: "scene" in told(quick), START_S)
        with page.link.feed() as mad, suppress(ConnectionClosed):
            for _ in range(100000):
                mad.send("drawn")
        assert eventually(lambda: "scene" in told(quick))
        before = memory(page)
        for _ in range(30):
            with page.link.feed() as closing:
                closing.recv(timeout=START_S)
        assert memory(page) < before + 20000
        status = run.ask("status")  # the run has noticed nothing
        assert status["counts"].get("missed_commands", 0) - missed < 200
        assert status["lifecycle"] == "active"
        os.kill(page.feed_process(), signal.SIGSTOP)
        run.popen.send_signal(signal.SIGSTOP)
        try:
            assert eventually(lambda: told(quick)["quiet"] > 1.0)
            answer = page.link.stop()
            assert answer["confirmed"], answer
            assert f"{run.name}: stopped, confirmed by its plant (fault)" in answer["text"]
            assert is_stopped(run)
        finally:
            run.popen.send_signal(signal.SIGCONT)


def memory(page: PageProcess) -> int:
    """Resident memory of the server [KiB]."""
    lines = Path(f"/proc/{page.popen.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def test_the_stop_works_on_a_computer_whose_cores_are_all_taken(runs: Runs, tmp_path: Path) -> None:
    run = begun(runs, "trailer_pursuit")
    with PageProcess(tmp_path, run.name) as page:
        assert page.link.stop()["confirmed"]
        assert run.order("reset_estop") == "inactive"
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * (os.cpu_count() or 1))]
        try:
            time.sleep(1.0)
            assert page.link.stop()["confirmed"]
            assert is_stopped(run)
        finally:
            for each in busy:
                each.kill()
                each.wait()


def test_stop_of_a_silent_plant_is_not_confirmed(runs: Runs, tmp_path: Path) -> None:
    run = begun(runs, "trailer_pursuit", "run.mode=lockstep")
    with PageProcess(tmp_path, run.name) as page:
        run.kill("plant", signal.SIGSTOP)
        answer = page.link.stop()
        assert not answer["confirmed"]
        assert "was sent SIGUSR1 and stops as soon as it runs" in answer["text"]
        run.kill("plant", signal.SIGCONT)
        assert eventually(lambda: is_stopped(run))


# beside the run


def page_of(run: Process) -> tuple[Link, int]:
    """The page that a run has started: its link and its process, beside which another one feeds it."""
    assert eventually(lambda: LINK.search(run.stderr), START_S), run.stderr
    (server,) = [pid for pid in run.left_over(b"page") if b" feed " not in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return Link.read(run.stderr), server


def test_a_run_with_a_page_prints_its_link_and_ends_as_ever(runs: Runs) -> None:
    run = begun(runs, "trailer_pursuit", words=["--page"])
    link, pid = page_of(run)
    with link.feed() as feed:
        assert eventually(lambda: told(feed).get("status", {}).get("standing") == "active", START_S), told(feed)
        run.popen.send_signal(signal.SIGINT)
        assert run.popen.wait(START_S) == 130, run.stderr
        assert "[page] http://127.0.0.1" in run.stderr
        assert eventually(lambda: told(feed).get("status", {}).get("standing") in ("finished", "ended"))
        assert state_of(pid)  # as long as a browser looks at it
    os.kill(pid, signal.SIGTERM)
    assert eventually(lambda: not state_of(pid) and run.left_over() == [])


# what is said


def test_without_a_run_the_page_says_so_in_one_line(runs: Runs) -> None:
    done = operator("page", "nix")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("servonode: no run named 'nix' is in progress")


def test_page_port_that_is_taken_or_invalid_is_refused(runs: Runs, tmp_path: Path) -> None:
    run = begun(runs, "trailer_pursuit")
    with PageProcess(tmp_path, run.name) as page:
        done = operator("page", run.name, "--port", str(page.link.port))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"port {page.link.port} of 127.0.0.1 is not available (Address already in use)" in done.stderr
        page.popen.send_signal(signal.SIGINT)
        assert page.popen.wait(START_S) == 130
        assert "Traceback" not in page.stderr
    done = operator("run", "--page", "trailer_pursuit")
    assert done.returncode == 2
    assert "'trailer_pursuit' is not a port from 1 to 65535; write --page after FILE, or --page=8642" in done.stderr


@needs_openssl
def test_another_computer_reaches_the_page_over_https_alone(runs: Runs, tmp_path: Path) -> None:
    certificate, key = made_certificate(tmp_path)
    words = ("--host", "0.0.0.0", "--certfile", str(certificate))
    run = begun(runs, "trailer_pursuit")
    done = operator("page", run.name, "--host", "0.0.0.0")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "may be reached from other computers, so it needs --certfile and --keyfile; or leave out" in done.stderr
    assert "--certfile and --keyfile belong together" in operator("page", run.name, *words).stderr
    with PageProcess(tmp_path, run.name, *words, "--keyfile", str(key), certificate=certificate) as page:
        assert f"https://{socket.gethostname()}:{page.link.port}/" in page.stderr
        with pytest.raises(OSError), page.link.feed(ssl=ssl.create_default_context()):  # which does not trust it
            pass
        with pytest.raises(OSError):
            Link(page.link.port, page.link.token).ask()  # without TLS
        with page.link.feed() as feed:
            assert eventually(lambda: "scene" in told(feed), START_S)
            assert page.link.stop()["confirmed"]
            assert is_stopped(run)
        assert page.stderr.count("\n") == 1  # the link; strangers write nothing


@pytest.mark.parametrize("fails", ["raise ValueError('no picture')", "while True: pass"])
def test_stop_works_beside_a_view_that_fails_or_hangs(runs: Runs, tmp_path: Path, fails: str) -> None:
    subprocess.run([*COMMAND, "new", "machine", "my_crane"], cwd=tmp_path, check=True, capture_output=True)
    file = tmp_path / "my_crane.py"
    run = begun(runs, str(tmp_path / "my_crane.toml"))
    told_ends: Callable[[dict[str, Any]], bool] = lambda message: "no picture" in message.get("end", "")  # noqa: E731
    line = '    x, theta, L = state["x"]'
    assert line in file.read_text()
    file.write_text(file.read_text().replace(line, f"    if state['theta'] != 0.2:\n        {fails}\n{line}"))
    with PageProcess(tmp_path, run.name) as page, page.link.feed() as feed:
        hangs = fails.startswith("while")
        assert eventually(lambda: told(feed)["quiet"] > 1.0 if hangs else told_ends(told(feed)), START_S), page.stderr
        assert page.link.stop()["confirmed"]
        assert is_stopped(run)
        assert "Traceback" not in page.stderr
