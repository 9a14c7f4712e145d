"""`servonode doctor` and `servonode bench`: what they find, say and end with."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servonode.bus.processes import listening_sockets
from tests.cli.test_doctor import text_of
from tests.helpers.refusals import command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs and the cache have folders of their own."""
    for name, word in (("runs", "SERVONODE_RUNTIME_DIR"), ("cache", "XDG_CACHE_HOME")):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(word, str(tmp_path / name))
    return tmp_path


def test_who_listens_is_told(private: Path) -> None:
    listens = "import socket, time; s = socket.create_server(('0.0.0.0', 0)); print(s.getsockname()[1], flush=True)"
    program = private / "servonode"
    program.write_text(f"{listens}; time.sleep(60)")
    process = subprocess.Popen([sys.executable, str(program), "page"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert listening_sockets([process.pid]) == {f"tcp 0.0.0.0:{port}"}
        text = text_of("runs")
        assert f"process {process.pid} " in text
        assert f"listens at tcp 0.0.0.0:{port}, which other computers reach" in text
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


# bench


@pytest.mark.slow  # some ten seconds on real processes
def test_bench_prints_each_measure_beside_its_floor() -> None:
    begin = time.monotonic()
    printed = json.loads(command("bench", "--json").stdout)["measures"]
    assert time.monotonic() - begin < 60
    assert len(printed) == 8
    assert all(each["ours"] >= 0 for each in printed)
    assert all((each["floor"] is None) == (each["ratio"] is None) for each in printed)
