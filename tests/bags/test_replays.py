"""The controller of every packaged launch file, run again on a recording of it: the same bits."""

import shutil
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.plants.drivers import DRIVERS
from servonode.record.bag import read_bag
from servonode.simulation.replay import replay
from tests.helpers.runs import START_S, Runs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
PACKAGED = sorted(each.name.removesuffix(".toml") for each in files("servonode.launch").iterdir())


def with_controller(launch: str) -> bool:
    """Whether it runs by itself, with a controller."""
    file = read_launch(launch)
    return file.controller is not None and DRIVERS[file.plant.driver].simulated


@pytest.mark.slow
@pytest.mark.parametrize("launch", [each for each in PACKAGED if with_controller(each)])
def test_every_packaged_run_replays_to_the_bit(launch: str, runs: Runs, tmp_path: Path) -> None:
    try:
        resolve(read_launch(launch))
    except ValueError as refusal:
        pytest.skip(f"refused, as it shows: {refusal}")
    file = tmp_path / "a.mcap"
    settings = ("run.mode=lockstep", f"run.duration={40 * period(launch):.9g}")
    run = runs.start(launch, *settings, words=("--record", str(file)))
    assert run.popen.wait(START_S) in (0, 1), run.stderr  # 1: a fault is what some show
    bag = read_bag(file)
    found = replay(bag, bag.closed_loop())
    assert (found.differing_messages, found.left_out) == (0, 0), found.first
    assert found.compared > 1
    shutil.rmtree(tmp_path, ignore_errors=True)


def period(launch: str) -> float:
    found = read_launch(launch).controller
    assert found is not None
    return float(found.period)
