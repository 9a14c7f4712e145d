"""The filter in front of the plant: whatever a command holds, only good answers pass, and only within limits."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servonode.bus import Command
from servonode.nodes.safety import Expected, limited, refusal

NAMES = ("U1", "U2")
REASONS = {"run", "future", "repeated", "old", "shape", "non_finite"}
EXPECTED = Expected(run=77, newest=12, answered=9, outstanding={10: 100, 12: 120}, input_names=NAMES)
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)
LIMITS = st.floats(min_value=0.0, allow_nan=False, allow_infinity=True)


def command(**changes: Any) -> Command:
    """A good answer to state 12 of run 77, with changes."""
    header = {"t": 1.2, "seq": 12, "run": 77, "k": 1200, "mono": 1, "node": "controller", "src": 5}
    return Command(**{**header, "re": 12, "target_seq": 3, "input": {"U1": 0.1, "U2": -0.2}, **changes})


def test_a_good_answer_passes() -> None:
    assert refusal(command(), EXPECTED) is None
    assert refusal(command(re=10), EXPECTED) is None  # late, but the newest there is


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run": 78}, "run"),
        ({"run": 78, "input": {}}, "run"),
        ({"re": 13}, "future"),
        ({"re": 2**53}, "future"),
        ({"re": 9}, "repeated"),
        ({"re": 8}, "old"),
        ({"re": -1}, "old"),
        ({"re": 11}, "old"),  # a telemetry state, or one that was given up
        ({"input": {}}, "shape"),
        ({"input": {"U1": 0.1}}, "shape"),
        ({"input": {"U1": 0.1, "U3": 0.1}}, "shape"),
        ({"input": {"U1": 0.1, "U2": 0.1, "U3": 0.1}}, "shape"),
        ({"input": {"U1": 0.1, "U2 ": 0.1}}, "shape"),
        ({"input": {"U1": math.nan, "U2": 0.1}}, "non_finite"),
        ({"input": {"U1": 0.1, "U2": math.inf}}, "non_finite"),
        ({"input": {"U1": -math.inf, "U2": 0.1}}, "non_finite"),
    ],
)
def test_a_bad_answer_is_refused_for_the_stated_reason(changes: dict[str, Any], reason: str) -> None:
    assert refusal(command(**changes), EXPECTED) == reason


@given(
    run=st.sampled_from([77, 78]),
    re=st.integers(-1, 20),
    values=st.dictionaries(st.sampled_from(["U1", "U2", "U3", ""]), ANY_FLOAT, max_size=4),
    answered=st.integers(-1, 20),
    outstanding=st.dictionaries(st.integers(0, 20), st.integers(0, 1000)),
)
@settings(max_examples=1000, deadline=None, derandomize=True)
def test_exactly_the_finite_answers_to_open_states_of_this_run_pass(
    run: int, re: int, values: dict[str, float], answered: int, outstanding: dict[int, int]
) -> None:
    newest = max(outstanding, default=answered)
    expected = Expected(run=77, newest=newest, answered=answered, outstanding=outstanding, input_names=NAMES)
    reason = refusal(command(run=run, re=re, input=values), expected)
    good = (
        run == 77
        and re in outstanding
        and re > answered
        and set(values) == {"U1", "U2"}
        and all(map(math.isfinite, values.values()))
    )
    assert reason in ({None} if good else REASONS)


@given(st.lists(st.tuples(ANY_FLOAT, LIMITS), max_size=6))
@settings(max_examples=1000, deadline=None, derandomize=True)
def test_what_passes_the_limits_is_finite_and_inside_them(pairs: list[tuple[float, float]]) -> None:
    values, limits = [value for value, _ in pairs], [limit for _, limit in pairs]
    names = [f"U{i}" for i in range(len(pairs))]
    if not all(map(math.isfinite, values)):
        with pytest.raises(ValueError, match=r"input U\d is .*; only finite inputs"):
            limited(values, limits, names)
        return
    applied, reasons = limited(values, limits, names)
    changed = []
    for name, asked, limit, given_out in zip(names, values, limits, applied, strict=True):
        assert math.isfinite(given_out)
        assert abs(given_out) <= limit
        if abs(asked) <= limit:
            assert given_out == asked
        else:
            assert given_out == math.copysign(limit, asked)
            changed.append(f"limit:{name}")
    assert reasons == changed


def test_a_limit_of_zero_lets_nothing_through() -> None:
    assert limited([1e308, -1e-300], [0.0, 0.0], NAMES) == ([0.0, 0.0], ["limit:U1", "limit:U2"])


def test_more_values_than_limits_are_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        limited([1.0, 2.0], [1.0], NAMES)
