"""The promises with firmware that has the law in it, on a pseudo-terminal, and its own brake while it acts."""

import subprocess
import time
from pathlib import Path

import pytest

from servonode.bus import State
from servonode.bus.topology import PLANT
from tests.helpers.firmware import SOURCES, Firmware, built, free_udp_port, needs_compiler
from tests.helpers.runs import Runs, Watch, eventually, signalled
from tests.soak.suite import WAITS, Stage
from tests.soak.test_drivers import WithLaw


def test_firmware_with_law_brakes_when_servonode_is_killed(runs: Runs) -> None:
    driver = WithLaw()
    stage = Stage(driver, runs)
    run = stage.start(WAITS, "plant.initial.V=0.5")  # about as fast as it pursues
    with Watch(run.name, {PLANT: ["state", "status"]}) as watch:
        fast = watch.until(lambda message: type(message) is State and message.state["V"] > 0.2)
        assert eventually(lambda: run.ask("status")["values"]["extra_machine_law"] == 1.0), run.ask("status")
        for pid in [run.popen.pid, *run.pids().values()]:
            signalled(pid, 9)
    assert eventually(lambda: run.left_over() == []), run.left_over()
    time.sleep(2.0)  # coasting it would keep its speed; the brake's time constant is 0.46 s
    states = stage.machine_alone(fast.k)
    assert 0.0 <= states["V"] < 0.1 * fast.state["V"]
    stage.close()


@pytest.fixture
def tampered(tmp_path: Path) -> Path:
    """The robot with ten times the gain of its speed, and the schema of the right one."""
    needs_compiler()
    folder = built("robot").parent
    text = (folder / "robot_machine.c").read_text()
    before, found, after = text.partition("law_K[12] = {\n    /* K0, feedback of f */\n    2.0,")
    assert found
    (tmp_path / "machine.c").write_text(before + found.replace("2.0,", "20.0,") + after)
    sources = [str(SOURCES / each) for each in ("packet.c", "device.c")]
    sources += [str(SOURCES / "host" / each) for each in ("main.c", "wire.c", "simulated.c", "sensors.c")]
    header = ['-DMACHINE_HEADER="robot_machine.h"', "-I", str(folder)]
    command = [
        "cc",
        "-std=c99",
        "-O1",
        *header,
        *sources,
        str(tmp_path / "machine.c"),
        str(folder / "robot_sensors.c"),
        "-lm",
        "-o",
        str(tmp_path / "robot"),
    ]
    subprocess.run(command, check=True, timeout=60)
    return tmp_path / "robot"


@pytest.mark.parametrize("mode", [pytest.param("lockstep", marks=pytest.mark.slow), "realtime"])
def test_other_gains_in_the_firmware_are_the_fault_device_law(mode: str, tampered: Path, runs: Runs) -> None:
    port = free_udp_port()
    words = (
        f'plant.device.address="127.0.0.1:{port}"', "plant.device.law=true", f'run.mode="{mode}"', "run.duration=20",
        "plant.initial.V=0.6", "plant.safety.ramp=0", "plant.safety.arming_time=0.02", "plant.safety.safe_time=0.1",
    )  # fmt: skip
    with Firmware(str(tampered), "--udp", str(port)):
        run = runs.start("trailer_pursuit_udp", *words, words=("--arm",))
        run.ends_with(1, 60.0)
    text = run.fault("device_law")["text"]
    assert "beyond plant.device.law_tolerance of the controller's: it may have other gains" in text
