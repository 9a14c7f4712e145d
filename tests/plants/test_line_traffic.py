"""What a serial line must carry, and which rate of states fits it."""

from typing import Any

import pytest

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.plants.drivers.line_traffic import SHARE, Traffic

LAUNCH = "trailer_pursuit_serial"  # 8 states, 2 inputs, a plant step of 1 ms and a control period of 10 ms


def of(baud: int, **more: Any) -> tuple[Traffic, Any]:
    loop = servonode.load(LAUNCH, plant__device__baud=baud, **more)
    found = loop.closed_loop.traffic
    assert found is not None
    return found, loop


@pytest.mark.parametrize(("baud", "every"), [(921600, 1), (460800, 2), (230400, 5), (115200, 10), (57600, 10)])
def test_states_come_as_often_as_the_line_carries_and_once_a_period(baud: int, every: int) -> None:
    found, _ = of(baud)
    assert found.state_every == every
    assert found.states == pytest.approx(80 * 1000 / every)  # a packet of 78 bytes, and two of COBS
    assert found.inputs == pytest.approx(52 * 100)
    assert (found.share <= SHARE) == (baud > 57600)


@pytest.mark.parametrize(("baud", "enough"), [(9600, 115200), (57600, 115200)])
def test_what_a_line_cannot_carry_is_refused_with_the_rate_that_would(baud: int, enough: int) -> None:
    found, loop = of(baud)
    assert f"set plant.device.baud = {enough} here and in the firmware" in found.problem()
    with pytest.raises(LaunchError, match=r"\[plant.device\] baud: a line of") as caught:
        loop.closed_loop.check_traffic()
    assert caught.value.exit_code == 2
    report = loop.check()
    assert report.verdict == "no"
    assert [each.text for each in report.findings if each.level == "refuse"] == [found.problem()]


def test_a_rate_that_is_asked_for_is_kept_and_judged() -> None:
    found, _ = of(57600, plant__device__state_rate=50)
    assert (found.state_every, found.problem()) == (20, "")
    assert "lower plant.device.state_rate" in of(115200, plant__device__state_rate=500)[0].problem()


def test_a_network_has_no_baud_rate_and_the_machine_chooses() -> None:
    loop = servonode.load("trailer_pursuit_udp")
    found = loop.closed_loop.traffic
    assert found is not None
    assert (found.state_every, found.problem()) == (0, "")
