"""`servonode new controller`: each file does its job on the packaged machine, with the same bits in every mode."""

from pathlib import Path

import pytest

from servonode.cli.create import make
from tests.cli.test_controller_templates import NEEDS, every_kind
from tests.helpers.refusals import command


@pytest.fixture
def launch(kind: str, tmp_path: Path) -> str:
    """The launch file of a kind, made here; skipped where its libraries are not installed."""
    for name in NEEDS[kind]:
        pytest.importorskip(name, reason=f'needs {name}: pip install "servonode[{kind}]"')
    return str(make(f"controller {kind}", kind, tmp_path)[-1])


@pytest.mark.slow
@every_kind
def test_it_runs_in_real_time_as_it_is(launch: str, kind: str) -> None:
    result = command("run", launch, "--no-report", "--json", "--set", "run.duration=3")
    assert result.exit_code == 0, result.stderr
