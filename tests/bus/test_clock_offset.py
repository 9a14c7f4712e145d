"""The offset of another computer's clock, from exchanges of time stamps: the truth lies within the stated error."""

import random

import pytest

from servonode.bus.tunnel import KEPT, ClockOffset

MS = 1_000_000


def exchanged(clock: ClockOffset, offset: int, there: int, back: int, at: int = 10**12, held: int = 0) -> None:
    """One exchange with a clock that is ahead of ours by `offset`, and these delays [ns]."""
    came = at + there + offset
    clock.add(at, came, came + held, at + there + held + back)


def test_equal_delays_give_the_offset() -> None:
    clock = ClockOffset()
    assert clock.values() == {}
    exchanged(clock, -3600 * 10**9, MS, MS, held=7 * MS)
    assert clock.values() == {"offset_s": -3600.0, "offset_error_s": 0.001, "delay_s": 0.002, "delay_max_s": 0.002}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 1.0])
def test_the_error_is_within_its_bound_however_the_delay_is_shared(share: float) -> None:
    rng, clock, offset = random.Random(3), ClockOffset(), 123_456_789_012
    for _ in range(3 * KEPT):
        delay = round(MS * (1 + rng.expovariate(0.5)))
        exchanged(clock, offset, round(share * delay), delay - round(share * delay))
        assert abs(round(clock.values()["offset_s"] * 1e9) - offset) <= clock.values()["offset_error_s"] * 1e9 + 1


def test_the_exchange_with_the_least_delay_counts() -> None:
    clock = ClockOffset()
    exchanged(clock, 5 * MS, 20 * MS, 0)
    exchanged(clock, 5 * MS, MS, MS)
    exchanged(clock, 5 * MS, 0, 30 * MS)
    assert round(clock.values()["offset_s"] * 1e9) == 5 * MS
    assert clock.values()["delay_max_s"] == 0.03


def test_old_exchanges_are_forgotten() -> None:
    """A clock that drifts, or was suspended, is followed."""
    clock = ClockOffset()
    exchanged(clock, 0, 0, 0)
    for _ in range(KEPT):
        exchanged(clock, 8 * MS, MS, MS)
    assert round(clock.values()["offset_s"] * 1e9) == 8 * MS
    clock.forget()


@pytest.mark.parametrize(("came", "answered", "received"), [(5, 4, 9), (5, 30, 9), (0, 0, -1)])
def test_times_that_are_not_in_order_are_ignored(came: int, answered: int, received: int) -> None:
    clock = ClockOffset()
    clock.add(0, came, answered, received)


def test_any_integers_give_finite_values() -> None:
    clock, rng = ClockOffset(), random.Random(1)
    ends = (-(2**63), -1, 0, 1, 2**63 - 1)
    for _ in range(500):
        clock.add(rng.choice(ends), rng.choice(ends), rng.choice(ends), 10**15)
    assert all(abs(value) < 1e12 for value in clock.values().values())
