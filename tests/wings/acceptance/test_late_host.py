"""A host that is late accuses no good firmware, and bad firmware still fails. The clock is the test's own."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.wings.acceptance.protocol_check import AGAIN, Plan, Report
from tests.helpers.timed_board import MS, accepted

PLAN = Plan(wait=1.0, observe=0.3, settle=0.25)
SEEDS = range(3)


@pytest.fixture(scope="module")
def closed_loop() -> ClosedLoop:
    return resolve(read_launch("trailer_pursuit_udp"), strict=False)


def judged(closed_loop: ClosedLoop, stalls: Callable[[int], int] = lambda now: 0, **board: Any) -> Report:  # noqa: ARG005
    return accepted(closed_loop, PLAN, stalls, **board)[0]


def busy(seed: int, share: float = 0.5) -> Callable[[int], int]:
    """A computer that does something else for 5 to 250 ms at a time, for this share of the time."""
    rng, due = np.random.default_rng(seed), [0]

    def stall(now: int) -> int:
        if now < due[0]:
            return 0
        length = int(rng.choice([5, 30, 120, 250], p=[0.6, 0.25, 0.1, 0.05])) * MS
        due[0] = now + length + int(rng.exponential(26 * MS * (1 - share) / share))
        return length

    return stall


def once(at_s: float, seconds: float) -> Callable[[int], int]:
    """One stall, so long after the beginning."""
    left = [round(seconds * 1e9)]
    return lambda now: left.pop() if left and now >= 10**9 + at_s * 1e9 else 0


def never(asked: int) -> float:
    return np.inf


def test_a_host_that_is_in_time_accepts_good_firmware(closed_loop: ClosedLoop) -> None:
    report = judged(closed_loop)
    assert (report.verdict, report.findings, report.undecided) == ("yes", [], []), report.text()
    assert "timeout" in [each.subject for each in report.proven]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_host_that_is_late_accuses_no_good_firmware(closed_loop: ClosedLoop, seed: int) -> None:
    report = judged(closed_loop, busy(seed))
    assert report.findings == [], report.text()
    for each in report.undecided:
        assert each.text.endswith(f"ms meanwhile: {AGAIN})")
    assert (report.verdict == "yes") == (not report.undecided)
    assert report.text().endswith("yes" if not report.undecided else f"undecided: do not arm it; {AGAIN}")


@pytest.mark.parametrize("at_s", [0.05, 2.3, 4.55])
def test_a_part_during_which_the_host_was_late_is_tried_again(closed_loop: ClosedLoop, at_s: float) -> None:
    report = judged(closed_loop, once(at_s, 0.4))
    assert report.verdict == "yes", report.text()


@pytest.mark.parametrize("timeout", [never, lambda asked: asked + 200 * MS], ids=["never", "200 ms late"])
@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_hil_accept_fails_firmware_without_timeout_on_a_late_host(
    closed_loop: ClosedLoop, seed: int | None, timeout: Any
) -> None:
    report = judged(closed_loop, lambda now: 0, timeout=timeout) if seed is None else judged(  # noqa: ARG005
        closed_loop, busy(seed), timeout=timeout
    )  # fmt: skip
    assert report.verdict == "no", report.text()
    (text,) = [each.text for each in report.findings if each.subject == "timeout"]
    assert text.startswith("inputs that stop coming end ")
    assert "0.1 s were asked for; set them to zero, or brake, so long after the newest `applied`" in text
    assert "timeout" not in [each.subject for each in report.proven]


def test_hil_accept_fails_firmware_that_times_out_too_early(closed_loop: ClosedLoop) -> None:
    report = judged(closed_loop, timeout=lambda asked: asked / 4)
    assert [each.subject for each in report.findings if "count the time from" in each.text] == ["timeout"]


def test_hil_accept_fails_firmware_that_clamps_from_above_alone(closed_loop: ClosedLoop) -> None:
    report = judged(closed_loop, clamps_below=False)
    assert [each.subject for each in report.findings] == ["limits"]
    assert "clamp each input from both sides" in report.findings[0].text


@pytest.mark.parametrize("lost_s", [np.inf, 0.25, 0.45])  # [s]; a new run is asked for after 0.5 s
def test_silence_after_the_end_of_a_run_proves_nothing(closed_loop: ClosedLoop, lost_s: float) -> None:
    report = judged(closed_loop, lost_s=lost_s)
    assert report.verdict != "yes", report.text()
    assert "final" not in {each.subject for each in report.proven}
    if np.isfinite(lost_s):
        (text,) = [each.text for each in report.undecided if each.subject == "final"]
        assert re.fullmatch(r"of \d+ inputs after `final` \d+ are counted as refused: did the others arrive\?", text)
    else:
        assert "setup" not in {each.subject for each in report.proven}


@pytest.mark.parametrize("period", [0.01, 0.2, 0.3])
def test_firmware_that_takes_the_end_twice_is_as_good(period: float) -> None:
    closed_loop = resolve(read_launch("trailer_pursuit_udp", [f"controller.period={period}"]), strict=False)
    report = judged(closed_loop, ends_twice=True)
    assert (report.verdict, report.findings, report.undecided) == ("yes", [], []), report.text()


@pytest.mark.parametrize("stalls", [lambda now: 0, once(0.2, 0.1)], ids=["in time", "late before"])  # noqa: ARG005
def test_hil_accept_fails_what_a_punctual_host_alone_sees(closed_loop: ClosedLoop, stalls: Any) -> None:
    report = judged(closed_loop, stalls, keeps_host=False)
    assert "takes over the machine" in next(each.text for each in report.findings if each.subject == "stranger")


def test_a_host_that_is_always_late_says_that_it_does_not_know(closed_loop: ClosedLoop) -> None:
    """Each tenth of a second it is away for longer than the firmware's timeout."""
    due = [0]

    def stall(now: int) -> int:
        if now < due[0]:
            return 0
        due[0] = now + 250 * MS
        return 150 * MS

    report = judged(closed_loop, stall)
    assert report.findings == [], report.text()
    assert report.verdict == "undecided"
    assert report.as_dict()["verdict"] == "undecided"
    assert {each.subject for each in report.undecided} & {"nan", "corrupt packet", "stranger"}
