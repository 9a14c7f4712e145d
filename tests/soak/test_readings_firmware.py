"""What happens to firmware that sends readings alone: frozen, killed, its bytes corrupted, the other firmware."""

import signal
import time

import pytest

from servonode.bus.topology import PLANT
from tests.helpers.firmware import ESTIMATED, Firmware, Sensing, free_udp_port
from tests.helpers.runs import Process, Runs, Watch, eventually, signalled
from tests.soak.suite import PERIOD, TIMEOUT, WAITS, Stage, assert_within
from tests.soak.test_firmware import assert_zero_since


def test_readings_board_resumes_after_a_hang_not_after_a_restart(runs: Runs) -> None:
    driver = Sensing()
    stage = Stage(driver, runs)
    run = stage.start(WAITS, "plant.safety.repeats=4")
    with Watch(run.name) as watch:
        watch.status("active", time.monotonic_ns())
        begun = signalled(driver.firmware.pid, signal.SIGSTOP)
        status = watch.status("fault", begun)
        assert (status.fault, status.safe_state) == ("stale_state", "zero")
        assert_within(TIMEOUT + PERIOD, begun, status.mono)
        assert_zero_since(watch, "stale_state", begun)
        signalled(driver.firmware.pid, signal.SIGCONT)
        assert eventually(run.armed_again), run.ask("status")
        watch.status("active", time.monotonic_ns())
        begun = time.monotonic_ns()
        driver.firmware.kill()
        assert watch.status("fault", begun).fault == "link_lost"
        driver.firmware.restart()
        assert eventually(lambda: "restarted" in str(refused(run))), refused(run)
    run.stop()
    stage.close()


def refused_counts(run: Process) -> dict[str, int]:
    """The packets that the plant has refused, by reason."""
    counts = run.ask("status")["counts"]
    return {word.removeprefix("refused_"): n for word, n in counts.items() if word.startswith("refused_") and n}


def refused(run: object) -> object:
    """Why it is not armed, after a reset."""
    run.ask("reset")  # type: ignore[attr-defined]
    return run.ask("arm").get("refused")  # type: ignore[attr-defined]


def test_corrupted_bytes_cost_readings_and_nothing_else(runs: Runs) -> None:
    driver = Sensing()
    driver.words = (*driver.words, "--corrupt", "0.02")
    stage = Stage(driver, runs)
    run = stage.start(WAITS)
    with Watch(run.name, {PLANT: ["state", "status"]}) as watch:
        watch.status("active", time.monotonic_ns())
        assert eventually(lambda: sum(refused_counts(run).values()) > 5), run.ask("status")
        assert refused_counts(run).keys() <= {"crc", "length"}
        stands = run.ask("status")
        assert (stands["lifecycle"], stands["fault"]) == ("active", "")
    run.stop()
    assert max(abs(run.columns["X"])) < 10.0
    stage.close()


@pytest.mark.parametrize(
    ("words", "settings", "text"),
    [
        (("--readings",), (), 'its firmware sends readings of its sensors alone; give plant.device.sends = "readings"'),
        ((), ESTIMATED, "its firmware sends its state; leave plant.device.sends out"),
    ],
)
def test_the_other_firmware_of_the_same_machine_is_named(
    words: tuple[str, ...], settings: tuple[str, ...], text: str, runs: Runs
) -> None:
    port = free_udp_port()
    with Firmware("robot", "--udp", str(port), *words):
        run = runs.start("trailer_pursuit_udp", f'plant.device.address="127.0.0.1:{port}"', *settings)
        run.ends_with(1, 30.0)
    assert text in run.fault("device")["text"]
