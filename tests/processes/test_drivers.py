"""One run with each driver over its real wire, in lockstep, so that no time can run out; the host program."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from tests.helpers.drivers import Driver, External, Wheels
from tests.helpers.firmware import Can, Firmware, Serial, Udp, built, free_udp_port
from tests.helpers.runs import START_S, Runs

DURATION = 0.5
LOCKSTEP = ("run.mode=lockstep", f"run.duration={DURATION}", "run.lockstep_timeout=60", "plant.device.wait=60",
            "plant.safety.ramp=0", "plant.publish_every=10")  # fmt: skip
ROUNDING = 2.0**-20  # relative to the largest value of a state, of firmware's packets and libraries
ESTIMATED = 0.02  # of what is estimated from noisy sensors; not relative: m, rad, m/s, rad/s
DRIVERS: dict[str, tuple[Callable[[], Driver], float]] = {  # by how much a state may differ from the simulation's
    "external": (External, ROUNDING),
    "udp": (Udp, ROUNDING),
    "serial": (Serial, ROUNDING),
    "can": (Can, ROUNDING),
    "a package's own": (Wheels, ROUNDING),
}


@pytest.mark.parametrize("name", DRIVERS)
def test_a_run_over_the_drivers_real_wire_moves_as_the_simulation(name: str, runs: Runs) -> None:
    if name == "can":
        pytest.importorskip("can", reason='needs python-can: pip install "servonode[can]"')
    moves_as_the_simulation(runs, *DRIVERS[name])


def moves_as_the_simulation(runs: Runs, make: Callable[[], Driver], allowed: float) -> None:
    """A run in lockstep ends without a fault, and its states differ from the simulation's by no more than allowed."""
    driver = make()
    with driver.machine() as beside:
        words = ("--arm", *beside.words)
        run = runs.start(driver.launch, *driver.settings, *beside.settings, *LOCKSTEP, words=words)
        run.ends_with(0, START_S)
    assert (run.printed["faults"], run.printed["t"]) == ([], DURATION)
    simulated: dict[str, Any] = {"run__mode": "lockstep", "run__duration": DURATION, "plant__safety__ramp": 0.0}
    expected = servonode.simulate(driver.launch, every=10, plant__publish_every=10, **simulated)
    for state, values in expected.state.items():
        near = allowed if allowed == ESTIMATED else allowed * np.abs(values).max()
        found = run.columns[state][np.isin(run.columns["t"], expected.t)]
        assert np.abs(found - values[np.isin(expected.t, run.columns["t"])]).max() <= near, state


# the host program


PLACES = [("--udp", "abc"), ("--udp", "99999"), ("--udp", "127.0.0.1:"), ("--pty", "/dev/null")]
NUMBERS = [(option, word) for option in ("--corrupt", "--delay")
           for word in ("abc", "", "0.5s", "nan", "inf", "-1", "1e30")]  # fmt: skip


def test_the_host_program_says_where_it_serves_or_why_not_and_leaves_the_link_of_its_successor(tmp_path: Path) -> None:
    for option, word in PLACES + NUMBERS:
        place = () if (option, word) in PLACES else ("--udp", str(free_udp_port()))
        command = [built("robot"), *place, option, word]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        said = word.rpartition(":")[2] if (option, word) in PLACES else f"{option} '{word}': give a number from 0 to "
        assert said in done.stderr
        assert "give" in done.stderr
    port = free_udp_port()
    for given, served, *words in (
        (str(port), f"127.0.0.1:{port}"),
        (f"127.0.0.2:{port}", f"127.0.0.2:{port}", "--corrupt", "1e-3", "--delay", "0.5"),
    ):
        command = [built("robot"), "--udp", given, *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as popen:
            assert popen.stdout is not None
            assert popen.stdout.readline() == f"serving at {served}\n"
            popen.terminate()
    pty = tmp_path / "port"
    with Firmware("robot", "--pty", str(pty)) as first, Firmware("robot", "--pty", str(pty)) as second:
        first.popen.terminate()
        assert first.popen.wait(START_S) == 0
        assert pty.is_char_device()
        second.popen.terminate()
        assert second.popen.wait(START_S) == 0
        assert not pty.is_symlink()
