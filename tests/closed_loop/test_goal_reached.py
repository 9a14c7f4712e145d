"""When a goal counts as reached: late residuals against the goal's amplitude, or a constant goal's initial residual."""

import pytest

from servonode.closed_loop.goal_reached import Explained, Late, missed

NOTHING = Explained(held=0.0, noise=0.0, estimated=0.0)


@pytest.mark.parametrize(
    ("late", "first", "amplitude", "reached"),
    [
        (0.09, 0.0, 1.0, True),
        (0.2, 1.0, 1.0, False),
        (0.2, 10.0, 0.5, False),  # a start far away does not make the goal larger
        (0.04, 10.0, 0.5, True),
        (0.9, 10.0, 0.0, True),
        (1.1, 10.0, 0.0, False),
    ],
)
def test_a_tenth_of_the_goals_own_size_may_remain(late: float, first: float, amplitude: float, reached: bool) -> None:
    for limited in (False, True):
        assert (missed(Late(late, late), first, amplitude, limited, NOTHING) == "") == reached


def test_what_still_decays_is_not_judged_unless_an_input_is_limited() -> None:
    decaying = Late(0.5, 1.0)
    for first in (2.0, 0.0):  # of a goal that another one has disturbed
        assert not missed(decaying, first, 0.0, False, NOTHING)
        assert "still 0.5" in missed(decaying, first, 0.0, True, NOTHING)


def test_zero_order_hold_explains_a_missed_constant_goal_alone() -> None:
    held = Explained(held=0.1, noise=0.0, estimated=0.0)
    assert not missed(Late(0.25, 0.25), 1.0, 0.0, False, held)
    assert "0.25 of the goal's own size 1" in missed(Late(0.25, 0.25), 1.0, 1.0, False, held)
