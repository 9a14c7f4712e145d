"""The controller of a launch file of every task, run again on a recording of it: the same bits."""

import sys
from pathlib import Path

import pytest

from servonode.plants.drivers import DRIVERS
from servonode.record.bag import read_bag
from servonode.simulation.replay import replay
from tests.conformance.test_runs import A_TASK, CONTROLLED, FILES
from tests.helpers.runs import START_S, Runs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.slow
@pytest.mark.parametrize("launch", [each for each in CONTROLLED if each in A_TASK])
def test_every_task_replays_to_the_bit(launch: str, runs: Runs, tmp_path: Path) -> None:
    controller, driver = FILES[launch].controller, FILES[launch].plant.driver
    if not DRIVERS[driver].simulated:
        pytest.skip(f"needs a machine at {driver}")
    assert controller is not None
    file = tmp_path / "a.mcap"
    settings = ("run.mode=lockstep", f"run.duration={40 * controller.period:.9g}")
    run = runs.start(launch, *settings, words=("--record", str(file)))
    assert run.popen.wait(START_S) in (0, 1), run.stderr  # 1: a fault is what some show
    bag = read_bag(file)
    found = replay(bag, bag.closed_loop())
    assert (found.differing_messages, found.left_out) == (0, 0), found.first
    assert found.compared > 1
