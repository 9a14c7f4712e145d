"""`servonode protocol check` with the external plants of examples/, in Python, C and JavaScript, as processes."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from servonode.cli.main import main
from tests.helpers.external_programs import PROGRAMS
from tests.wings.acceptance.test_protocol_check import LAUNCH


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A runtime folder of these tests' own, short: a socket's path has 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="sn", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(made))
        yield made
    shutil.rmtree(made)


@pytest.fixture(params=PROGRAMS)
def example(request: pytest.FixtureRequest, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An example without arguments, in the private folder."""
    process = subprocess.Popen(PROGRAMS[request.param]())
    yield process
    process.kill()
    process.wait()
    with suppress(FileNotFoundError):
        shutil.rmtree(folder / "servonode")


def test_the_example_keeps_to_the_page(example: Any, folder: Path) -> None:
    words = ["protocol", "check", "--launch", LAUNCH, "--json", "--wait", "20"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.output)
    assert (printed["verdict"], printed["findings"], printed["notes"]) == ("yes", [], [])
    assert printed["state"] == f"ipc://{folder}/servonode/devices/diff_drive_trailer.state"
