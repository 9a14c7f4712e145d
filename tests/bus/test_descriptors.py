"""The descriptors that a node needs are there, or it is refused: libzmq would end the process."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from servonode.bus import BusError, descriptors
from tests.helpers.refusals import refused_command


def limited(number: int, code: str) -> subprocess.CompletedProcess[str]:
    """This code in a process that may open so many files."""
    set_limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({number}, {number}))\n"
    return subprocess.run([sys.executable, "-c", set_limit + code], capture_output=True, text=True, check=False)


def test_without_enough_descriptors_a_bus_is_refused_in_one_sentence(folder: Path) -> None:
    code = f"from servonode.bus import Bus\nBus({str(folder)!r}, 'plant')"
    done = limited(40, code)
    assert done.returncode == 1  # where libzmq would have ended the process by SIGABRT
    assert "BusError: this process may open 40 files and needs 48" in done.stderr
    assert limited(64, code).returncode == 0


def test_the_limit_is_raised_as_far_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    descriptors.ensure_room()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(descriptors.MOST, hard), hard)
    assert bool(descriptors.arming_obstacle()) == (hard < descriptors.FEWEST_TO_ARM)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (60, 60))
    assert descriptors.share(32) == 7
    assert "may open only 60 files" in descriptors.arming_obstacle()
    held = len(list(Path("/proc/self/fd").iterdir()))
    enough = max(held + descriptors.NEEDED, descriptors.OWN + descriptors.FEWEST)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (enough, enough))
    descriptors.ensure_room()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (enough - 4, enough - 4))
    with pytest.raises(BusError, match="raise the limit"):
        descriptors.ensure_room()


def test_a_run_that_may_open_too_few_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (26, 26))
    text = "this process may open 26 files, a run needs 128; raise it: ulimit -n 128"
    assert refused_command("run", "trailer_coast") == text
