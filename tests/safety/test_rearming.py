"""Arming again after a pause: what the machine is asked for, beside what the checked run asks for.

    python -m pytest -m slow -n 0 -s tests/safety/test_rearming.py

prints the peaks.
"""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import servonode
from tests.helpers.runs import START_S, Runs, Watch, eventually, private_runs
from tests.safety.test_external import ROBOT, free_ports

MOST = 2.0  # times the checked peak
PAUSES = [pytest.param(3), pytest.param(20, marks=pytest.mark.slow)]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs in a runtime folder of this test's own."""
    with private_runs(tmp_path) as runs:
        yield runs


@contextmanager
def robot() -> Iterator[tuple[str, ...]]:
    """The example of a robot, and the settings that lead to it."""
    state, applied = (f"tcp://127.0.0.1:{port}" for port in free_ports())
    process = subprocess.Popen([sys.executable, str(ROBOT), state, applied])
    try:
        yield (f'plant.device.state="{state}"', f'plant.device.applied="{applied}"')
    finally:
        process.kill()
        process.wait()


@contextmanager
def nothing() -> Iterator[tuple[str, ...]]:
    yield ()


def checked_peak() -> float:
    """The largest torque [N m] of the checked run."""
    return max(servonode.check("trailer_pursuit").numbers["simulated"]["input_max"].values())


@pytest.mark.parametrize("pauses", PAUSES)
@pytest.mark.parametrize(("launch", "beside"), [("external", robot), ("loopback", nothing)])
def test_peaks_after_random_pauses_are_at_most_twice_the_checked_one(
    runs: Runs, launch: str, beside: object, pauses: int
) -> None:
    peak, rng = checked_peak(), random.Random(pauses)
    settings = ("run.speed=1", "run.duration=2000", 'plant.safety.on_fault="wait"')
    with beside() as more:  # type: ignore[operator]
        run = runs.start(f"trailer_pursuit_{launch}", *settings, *more, words=("--every", "1", "--arm"))
        run.wait_open()
        with Watch(run.name) as watch:
            watch.status("active", within_s=START_S)
            for i in range(pauses):
                time.sleep(rng.uniform(2.0, 6.0))
                if i % 2:
                    run.order("disarm")
                else:
                    run.popen.send_signal(signal.SIGQUIT)  # an emergency stop
                    assert eventually(lambda: run.ask("status")["lifecycle"] == "fault")
                time.sleep(rng.uniform(0.1, 5.0))
                if not i % 2:
                    run.order("reset")
                run.arm(watch)
        time.sleep(3.0)
        run.stop()
    columns = run.columns
    passes = np.isclose(np.diff(columns["goal_t"]), 0.001)  # goal time, where the brake does not act
    torque = np.maximum(abs(columns["U1"]), abs(columns["U2"]))[1:-1][passes[1:] & passes[:-1]]
    print(f"\n{launch}: {pauses} pauses, peak {max(torque):.4f} N m, {max(torque) / peak:.2f} times the checked one")
    assert columns["t"][-1] - columns["goal_t"][-1] > 0.05 * pauses
    assert max(torque) <= MOST * peak
