"""Where things stand in goals, answers and records; who owns an answer."""

from typing import Any

import numpy as np
import pytest

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.controllers.engine.layout import AnswerLayout
from servonode.mechanics.description import ProgramDescription, Quantity


def described(integral: bool) -> ProgramDescription:
    """Two residuals, one target to order 2, two signals to order 1, three states of its own, one limit."""
    names = {"residuals": "ab", "signals": "vw", "states": "pqr", "limits": "l"}
    quantities: dict[str, Any] = {key: tuple(Quantity(name, name) for name in of) for key, of in names.items()}
    nothing: dict[str, Any] = dict.fromkeys(("parameters", "guards"), ())
    return ProgramDescription(
        name="any", description="any", relative_degrees=(2, 1), targets=("x",), signal_defaults=("0", "0"),
        target_order=2, signal_order=1, relations=0, completion="none", integral=integral, explicit=False,
        **quantities, **nothing,
    )  # fmt: skip


def test_parts_are_arranged_in_the_order_of_the_array_or_refused() -> None:
    answer = AnswerLayout.of(described(False), 1)
    parts = {"scales": ["s"], "inputs": ["u"], "residuals": ["f", "g"], "rates": ["f'", "g'"], "condition": ["c"]}
    parts |= {key: [] for key in ("margins", "active", "keeping", "determinant")}
    assert answer.arranged(**parts) == ["u", "f", "g", "f'", "g'", "c", "s"]
    for wrong in ({**parts, "rates": ["f'"]}, {"inputs": ["u"]}):
        with pytest.raises(ValueError, match="do not fit into the parts"):
            answer.arranged(**wrong)


@pytest.fixture(scope="module")
def closed_loop() -> ClosedLoop:
    return resolve(read_launch("trailer_pursuit", []))


def test_an_answer_belongs_to_its_caller_and_shows_every_part(closed_loop: ClosedLoop) -> None:
    assert closed_loop.control is not None
    law, y = closed_loop.control.law, closed_loop.goal(0.0)
    mine = law.evaluate(0.0, closed_loop.start, y)
    before = mine.out.copy()
    other = law.evaluate(0.0, closed_loop.start + 0.1, y)
    assert (other.out != before).any()
    np.testing.assert_array_equal(mine.out, before)
    assert closed_loop.control is not None
    law, y, answer = closed_loop.control.law, closed_loop.goal(0.0), closed_loop.control.law.answer()
    inputs, recorded = answer.inputs, answer.recorded
    answer.out[:] = np.nan
    assert law.compute(0.0, closed_loop.start, y, answer) == answer.status == 0
    part = law.answer_layout
    np.testing.assert_array_equal(np.concatenate([inputs, recorded]), answer.out)
    parts = [answer.inputs, answer.residuals, answer.rates, [answer.condition], answer.scales]
    assert answer.determinant == 0.0  # the goal moves W of a pursuit
    np.testing.assert_array_equal(np.concatenate(parts), answer.out)
    assert np.isfinite(answer.out).all()
    assert len(answer.out) == part.size
