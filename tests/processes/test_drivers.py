"""Each driver once over its real wire, as a run of processes in lockstep; the firmware's host program; imports."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import servonode
from tests.helpers.firmware import Can, Firmware, Sensing, Serial, Udp, built, free_udp_port
from tests.helpers.runs import Runs
from tests.soak.suite import Driver
from tests.soak.test_external import External
from tests.soak.test_external_c_suite import ExternalC
from tests.soak.test_own_driver import Wheels

SECONDS = 1.0
PATIENT = ("run.lockstep_timeout=60", "plant.device.wait=60")
SETTINGS = ("run.mode=lockstep", *PATIENT, f"run.duration={SECONDS}", "plant.safety.ramp=0")
END_S = 60.0
EXACT = 1e-9  # for what has the same equations in 64 bits
ROUNDED = 1e-4  # for packets of 32 bits, relative to a metre, a radian, a metre a second
ESTIMATED = 0.05
WIRES: dict[str, tuple[Callable[[], Driver], float]] = {
    "udp": (Udp, ROUNDED),
    "serial": (Serial, ROUNDED),
    "can": (Can, ROUNDED),
    "sensors_only": (Sensing, ESTIMATED),
    "external": (External, EXACT),
    "external_c": (ExternalC, EXACT),
    "own_driver": (Wheels, EXACT),
}


@pytest.mark.parametrize("name", WIRES)
def test_a_run_over_the_real_wire_moves_as_the_simulation(name: str, runs: Runs) -> None:
    if name == "can":
        pytest.importorskip("can", reason='needs python-can: pip install "servonode[can]"')
    made, near = WIRES[name]
    driver = made()
    with driver.machine() as beside:
        given = (*SETTINGS, *driver.settings, *beside.settings)
        run = runs.start(driver.launch, *given, words=("--arm", "--every", "10", *beside.words))
        run.ends_with(0, END_S)
    found = run.columns
    expected = servonode.simulate(driver.launch, run__duration=SECONDS, plant__safety__ramp=0.0, every=10)
    assert found["t"][-1] == SECONDS
    assert found["U1"].any()
    for state in ("X", "Y", "psi", "phi", "V", "Omega"):
        assert found[state][-1] == pytest.approx(expected.state[state][-1], abs=near), state


# the host program


PLACES = [("--udp", "abc"), ("--udp", "99999"), ("--udp", "127.0.0.1:"), ("--pty", "/dev/null")]
NUMBERS = [(option, word) for option in ("--corrupt", "--delay")
           for word in ("abc", "", "0.5s", "nan", "inf", "-1", "1e30")]  # fmt: skip


def test_host_program_refuses_what_it_cannot_serve() -> None:
    for option, word in PLACES + NUMBERS:
        place = () if (option, word) in PLACES else ("--udp", str(free_udp_port()))
        command = [built("robot"), *place, option, word]
        done = subprocess.run(command, capture_output=True, text=True, timeout=END_S, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        said = word.rpartition(":")[2] if (option, word) in PLACES else f"{option} '{word}': give a number from 0 to "
        assert said in done.stderr
        assert "give" in done.stderr


@pytest.mark.parametrize("words", [(), ("--corrupt", "1e-3", "--delay", "0.5")])
def test_host_program_says_at_which_address_it_serves(words: tuple[str, ...]) -> None:
    port = free_udp_port()
    for given, served in ((str(port), f"127.0.0.1:{port}"), (f"127.0.0.2:{port}", f"127.0.0.2:{port}")):
        command = [built("robot"), "--udp", given, *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as popen:
            assert popen.stdout is not None
            assert popen.stdout.readline() == f"serving at {served}\n"
            popen.terminate()


def test_host_program_that_ends_leaves_the_link_of_its_successor_alone(tmp_path: Path) -> None:
    place = tmp_path / "port"
    with Firmware("robot", "--pty", str(place)) as first, Firmware("robot", "--pty", str(place)) as second:
        first.popen.terminate()
        assert first.popen.wait(END_S) == 0
        assert place.is_char_device()
        second.popen.terminate()
        assert second.popen.wait(END_S) == 0
        assert not place.is_symlink()


def test_a_driver_of_servonode_loads_neither_mujoco_nor_the_table_of_installed_packages() -> None:
    code = "import sys, servonode; servonode.load('trailer_pursuit').closed_loop.driver; "
    code += "print([each for each in ('mujoco', 'importlib.metadata') if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=END_S, check=True)
    assert done.stdout == "[]\n"
