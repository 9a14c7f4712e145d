"""`servonode sweep`: results and their table, resume, refusals, and processes that are killed at any moment."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.extras import of_sweeps
from tests.helpers.refusals import command, refused_command

xarray = of_sweeps("xarray")

SHORT = ("trailer_sweep", "--set", "run.duration=0.1", "--threads", "1")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of progress, however busy the computer is."""
    monkeypatch.setattr("servonode.definitions.progress.LOG_PERIOD", float("inf"))


@pytest.mark.usefixtures("silent")
def test_a_sweep_ends_with_a_table_and_a_folder() -> None:
    result = command("sweep", *SHORT, "--runs", "16")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "  runs                             16, of which none failed"
    assert lines[-1] == "  results in trailer_sweep.zarr"
    found = xarray.open_zarr("trailer_sweep.zarr", chunks=None)
    for name, unit in (("residual_speed_largest", "m/s"), ("effort_U1", "(N m)^2 s"), ("hitch", "")):
        values = found[name].values
        title = f"{name} [{unit}]" if unit else name
        row = next(line for line in lines if line.startswith(f"  {title} "))
        expected = (f"{np.median(values):.4g}", f"{values.max():.4g}", str(values.argmax()))
        assert tuple(row.removeprefix(f"  {title}").split()) == expected


@pytest.mark.usefixtures("silent")
def test_what_threads_prepare_at_the_same_time_leaves_stdout_to_the_summary() -> None:
    """The hoop's preparation runs in each thread for each run; what such a source prints goes to stderr."""
    vary = ("--set", "sweep.vary.plant.initial.s={low=0.0, high=1.0, points=200}", "--set", "run.duration=0.01")
    result = command("sweep", "hoop_rolls", *vary, "--threads", "4", "--json")
    assert (result.exit_code, result.stderr) == (0, "  results in hoop_rolls.zarr\n")
    assert json.loads(result.stdout)["runs"] == 200
    assert json.loads(result.stdout)["failed"] == 0


@pytest.mark.usefixtures("silent")
def test_failed_runs_are_rows_with_their_reasons_and_no_failure_of_the_sweep() -> None:
    vary = ("--set", "sweep.vary.plant.parameters.m1=[-1.0,3.0]", "--set", "sweep.seed=5")
    result = command("sweep", *SHORT, "--runs", "64", *vary, "--json")
    assert result.exit_code == 0
    assert result.stderr == "  results in trailer_sweep.zarr\n"
    answer = json.loads(result.stdout)
    found = xarray.open_zarr("trailer_sweep.zarr", chunks=None)
    refused = found["plant.parameters.m1"].values <= 0
    assert answer["runs"] == 64
    assert answer["failed"] == refused.sum() == 16  # a quarter of a Sobol sequence
    (failure,) = answer["failures"]
    assert (failure["fault"], failure["runs"], failure["first"]) == ("refused", 16, int(refused.argmax()))
    assert "must be greater than 0" in failure["reason"]
    assert (found.reason.values != "").tolist() == refused.tolist()
    assert answer["measures"]["hitch"]["largest"] == found.hitch.max()
    assert answer["output"] == "trailer_sweep.zarr"
    text = command("sweep", *SHORT, "--runs", "64", *vary, "--resume").stdout
    assert text.startswith(
        "  runs                             64, of which 16 failed\n          16 x trailer_sweep [plant"
    )


def test_a_sweep_of_refused_runs_alone_has_a_table_of_gaps() -> None:
    result = command("sweep", *SHORT, "--runs", "4", "--set", "sweep.vary.plant.parameters.m1=[-2.0,-1.0]")
    assert result.exit_code == 0
    assert re.search(r"^  hitch +- +-$", result.stdout, re.MULTILINE)


def test_a_folder_that_is_there_is_resumed_only_when_that_is_asked() -> None:
    assert command("sweep", *SHORT, "--runs", "4").exit_code == 0
    text = "trailer_sweep.zarr: it is there already; go on with it by --resume (resume=True), or give another folder"
    assert refused_command("sweep", *SHORT, "--runs", "4") == text
    assert command("sweep", *SHORT, "--runs", "4", "--resume").exit_code == 0
    text = "trailer_sweep.zarr: holds another sweep: sweep.runs is 4 there and 8 here; give another folder"
    assert refused_command("sweep", *SHORT, "--runs", "8", "--resume") == text


def test_without_its_libraries_a_sweep_says_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zarr", None)
    assert refused_command("sweep", *SHORT) == (
        'a sweep needs zarr; install it with pip install "servonode[sweep]" (in a clone: uv sync --extra sweep)'
    )
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "zarr")
    text = 'a cluster needs distributed; install it with pip install "servonode[cluster]"'
    text += " (in a clone: uv sync --extra cluster)"
    assert refused_command("sweep", "trailer_sweep", "--workers", "1") == text
