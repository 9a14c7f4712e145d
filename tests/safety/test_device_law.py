"""The promises with firmware that has the law in it, on a pseudo-terminal, and its own brake while it acts."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from servonode.bus import State
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.nodes.driver import driven_plant
from servonode.nodes.topology import PLANT
from tests.helpers.firmware import Serial
from tests.helpers.runs import Runs, Watch, eventually, private_runs, signalled
from tests.safety.suite import COMMON, WAITS, Stage, safety_suite


class WithLaw(Serial):
    """The robot on a pseudo-terminal, whose own law acts."""

    settings = (*Serial.settings, "plant.device.law=true")


TestDeviceLaw = pytest.mark.slow(safety_suite(WithLaw()))


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs in a runtime folder of this test's own."""
    with private_runs(tmp_path) as runs:
        yield runs


def test_firmware_whose_law_acts_brakes_by_itself_when_all_of_servonode_is_killed(runs: Runs) -> None:
    driver = WithLaw()
    stage = Stage(driver, runs)
    run = stage.start(WAITS)
    with Watch(run.name, {PLANT: ["state", "status"]}) as watch:
        fast = watch.until(lambda message: type(message) is State and message.state["V"] > 0.2)
        assert eventually(lambda: run.ask("status")["values"]["extra_machine_law"] == 1.0), run.ask("status")
        for pid in [run.popen.pid, *run.pids().values()]:
            signalled(pid, 9)
    time.sleep(2.0)  # coasting it would keep its speed; the brake's time constant is 0.46 s
    launch = read_launch(driver.launch, [*COMMON, *driver.settings, *stage.beside.settings])
    plant = driven_plant(resolve(launch, strict=False), time.monotonic_ns)
    plant.open()
    plant.connect(4242, fast.k)  # not 0: it stays where it is
    assert eventually(plant.connected), plant.no_answer_reason()
    states = dict(zip(plant.machine.description.state_names, plant.read().state, strict=True))  # type: ignore[attr-defined]
    plant.close()
    assert 0.0 <= states["V"] < 0.1 * fast.state["V"]
    stage.close()
