"""What happens to a microcontroller and its wire, on both drivers: killed, frozen, unplugged, bytes corrupted."""

import signal
import time

import pytest

from servonode.bus import Applied, State
from servonode.bus.topology import PLANT
from tests.helpers.firmware import Serial, Udp
from tests.helpers.runs import Runs, Watch, eventually, signalled
from tests.soak.suite import PERIOD, TIMEOUT, WAITS, Stage, assert_within
from tests.soak.test_drivers import WithLaw

DRIVERS = [Serial, Udp]


def assert_zero_since(watch: Watch, fault: str, begun: int) -> None:
    """After the fault zero inputs were sent."""
    applied = next(each for each in watch.of(Applied, begun) if f"fault:{fault}" in each.reasons)
    assert set(applied.input.values()) == {0.0}


@pytest.mark.parametrize("kind", DRIVERS)
def test_firmware_frozen_or_killed_is_a_fault_and_taken_after_a_reset(kind: type[Udp], runs: Runs) -> None:
    driver = kind()
    stage = Stage(driver, runs)
    run = stage.start(WAITS)
    expected = "link_lost" if kind is Serial else "stale_state"  # a network does not tell
    with Watch(run.name) as watch:
        watch.status("active", time.monotonic_ns())
        begun = signalled(driver.firmware.pid, signal.SIGSTOP)
        status = watch.status("fault", begun)
        assert (status.fault, status.safe_state) == ("stale_state", "zero")
        assert_within(TIMEOUT + PERIOD, begun, status.mono)
        signalled(driver.firmware.pid, signal.SIGCONT)
        assert eventually(run.armed_again), run.ask("status")
        before = watch.status("active", time.monotonic_ns())
        begun = time.monotonic_ns()
        driver.firmware.kill()
        status = watch.status("fault", begun)
        assert (status.fault, status.safe_state) == (expected, "zero")
        assert_within(TIMEOUT + PERIOD, begun, status.mono)
        assert_zero_since(watch, expected, begun)
        if kind is Serial:
            text = run.ask("status")["faults"][0]["text"]
            assert "is gone" in text
            assert "Plug it in again, then reset and arm" in text
        driver.firmware.restart()
        assert run.order("reset") == "inactive"
        assert eventually(lambda: "has started anew" in run.ask("arm").get("refused", "")), run.ask("arm")
        assert "its positions begin at X = 0" in run.ask("status")["text"]
        assert run.order("reset_origin") == "inactive"
        assert eventually(run.armed_again), run.ask("status")
        assert watch.status("active", time.monotonic_ns()).run != before.run
    run.stop()
    stage.close()


@pytest.mark.parametrize("kind", [*DRIVERS, WithLaw])
def test_firmware_brakes_when_servonode_is_killed(kind: type[Udp], runs: Runs) -> None:
    driver = kind()
    stage = Stage(driver, runs)
    run = stage.start(WAITS, "plant.initial.V=0.5")  # about as fast as it pursues
    with Watch(run.name, {PLANT: ["state", "status"]}) as watch:
        fast = watch.until(lambda message: type(message) is State and message.state["V"] > 0.2)
        if kind is WithLaw:
            assert eventually(lambda: run.ask("status")["values"]["extra_machine_law"] == 1.0), run.ask("status")
        for pid in [run.popen.pid, *run.pids().values()]:
            signalled(pid, signal.SIGKILL)
    assert eventually(lambda: run.left_over() == []), run.left_over()
    time.sleep(2.0)  # coasting it would keep its speed; the brake's time constant is 0.46 s
    states = stage.machine_alone(fast.k)
    assert states["X"] > fast.state["X"]
    assert 0.0 <= states["V"] < 0.1 * fast.state["V"]
    stage.close()


@pytest.mark.parametrize("kind", DRIVERS)
def test_firmware_corrupted_bytes_are_refused_on_both_sides(kind: type[Udp], runs: Runs) -> None:
    driver = kind()
    driver.words = ("--corrupt", "0.1")
    stage = Stage(driver, runs)
    run = stage.start(WAITS, "plant.safety.command_timeout=0.5")  # damage alone takes commands, not a busy computer
    with Watch(run.name) as watch:
        watch.status("active", time.monotonic_ns())

        def counted() -> bool:
            stands = run.ask("status")
            refused = sum(count for reason, count in stands["counts"].items() if reason.startswith("refused_"))
            return refused > 5 and "refused_crc" in stands["counts"] and stands["values"]["extra_machine_refused"] > 5

        assert eventually(counted), run.ask("status")
        stands = run.ask("status")
        assert (stands["lifecycle"], stands["fault"]) == ("active", "")
    run.stop()
    columns = run.columns
    assert max(abs(columns["X"])) < 10.0
    assert max(abs(columns["V"])) < 10.0
    stage.close()
