"""A sweep on two worker processes gives the dataset of two threads."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.runs import START_S

LIMIT_S = 5 * START_S


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


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
