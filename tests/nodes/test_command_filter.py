"""The filter in front of the plant: whatever a command holds, only good answers pass, and only within limits."""

import math
from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servonode.bus import Command, MessageError, decode, encode
from servonode.definitions import cache
from servonode.nodes.answers import Expected, refusal
from servonode.plants.limits import Limits, limited

NAMES = ("U1", "U2")
ORDER = ("shape", "non_finite", "run", "future", "repeated", "old")
EXPECTED = Expected(run=77, newest=12, answered=9, outstanding={10: 100, 12: 120}, input_names=frozenset(NAMES))
FREE = (math.inf, math.inf)
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
MODERATE = st.floats(-1e3, 1e3)
LIMITS = st.floats(min_value=0.0, allow_nan=False, allow_infinity=True)


def command(**changes: Any) -> Command:
    """A good answer to state 12 of run 77, with changes."""
    header = {"t": 1.2, "seq": 12, "run": 77, "k": 1200, "mono": 1, "node": "controller", "src": 5}
    return Command(**{**header, "re": 12, "target_seq": 3, "input": {"U1": 0.1, "U2": -0.2}, **changes})


def clamped(asked: Sequence[float], most: Sequence[float]) -> tuple[list[float], list[str]]:
    """Through limits of value alone."""
    names = [f"U{i}" for i in range(len(asked))]
    return limited(asked, [0.0] * len(asked), 0.0, Limits(tuple(most), (math.inf,) * len(most)), names)


# which commands pass


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"re": 10}, None),  # late, but the newest there is
        ({"input": {"U1": math.nan}, "run": 78, "re": 9}, "shape"),  # of several reasons the first
        ({"input": {"U1": math.nan, "U2": 0.0}, "run": 78, "re": 9}, "non_finite"),
        ({"run": 78, "re": 13}, "run"),
        ({"run": 78}, "run"),
        ({"re": 13}, "future"),
        ({"re": 2**53}, "future"),
        ({"re": 9}, "repeated"),
        ({"re": 8}, "old"),
        ({"re": -1}, "old"),
        ({"re": 11}, "old"),  # a telemetry state, or one that was given up
        ({"input": {"U1": 0.1}}, "shape"),
        ({"input": {"U1": 0.1, "U3": 0.1}}, "shape"),
        ({"input": {"U1": 0.1, "U2": 0.1, "U3": 0.1}}, "shape"),
        ({"input": {"U1": 0.1, "U2": math.inf}}, "non_finite"),
        ({"input": {"U1": -math.inf, "U2": 0.1}}, "non_finite"),
    ],
)
def test_a_bad_answer_is_refused_for_the_stated_reason(changes: dict[str, Any], reason: str | None) -> None:
    assert refusal(command(**changes), EXPECTED) == reason


@given(
    run=st.sampled_from([77, 78]),
    re=st.integers(-1, 20),
    values=st.dictionaries(st.sampled_from(["U1", "U2", "U3", ""]), ANY_FLOAT, max_size=4),
    answered=st.integers(-1, 20),
    outstanding=st.dictionaries(st.integers(0, 20), st.integers(0, 1000)),
)
def test_exactly_the_finite_answers_to_open_states_of_this_run_pass(
    run: int, re: int, values: dict[str, float], answered: int, outstanding: dict[int, int]
) -> None:
    newest = max(outstanding, default=answered)
    expected = Expected(run=77, newest=newest, answered=answered, outstanding=outstanding, input_names=frozenset(NAMES))
    reason = refusal(command(run=run, re=re, input=values), expected)
    good = (
        run == 77
        and re in outstanding
        and re > answered
        and set(values) == {"U1", "U2"}
        and all(map(math.isfinite, values.values()))
    )
    assert reason in ({None} if good else set(ORDER))


# the same through real bytes


def reason_of(payload: bytes, expected: Expected = EXPECTED, topic: bytes = b"command") -> str | None:
    """What becomes of these bytes at the plant: the decoder's reason, the filter's, or None where they act."""
    try:
        message = decode(topic, payload)
    except MessageError as error:
        return error.reason
    assert isinstance(message, Command)
    assert all(type(value) is float for value in message.input.values())
    return refusal(message, expected)


GOOD = msgpack.unpackb(encode(command()))


def changed(**changes: Any) -> bytes:
    """The good answer's bytes with other values, of any type."""
    payload: bytes = msgpack.packb({**GOOD, **changes})
    return payload


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | ANY_FLOAT
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(GOOD)), anything, min_size=1, max_size=3))
def test_whatever_the_values_only_finite_inputs_of_the_right_names_act(changes: dict[str, Any]) -> None:
    payload = changed(**changes)
    if reason_of(payload) is not None:
        return
    message = decode(b"command", payload)
    assert isinstance(message, Command)
    assert set(message.input) == set(NAMES)
    assert all(type(value) is float and math.isfinite(value) for value in message.input.values())
    assert message.run == 77
    assert message.re in EXPECTED.outstanding


# limits of value


@given(st.lists(st.tuples(ANY_FLOAT, LIMITS), max_size=6))
def test_what_passes_the_limits_is_finite_and_inside_them(pairs: list[tuple[float, float]]) -> None:
    values, limits = [value for value, _ in pairs], [limit for _, limit in pairs]
    if not all(map(math.isfinite, values)):
        with pytest.raises(ValueError, match=r"input U\d is .*; only finite inputs"):
            clamped(values, limits)
        return
    applied, reasons = clamped(values, limits)
    changed_by = []
    for i, (asked, limit, given_out) in enumerate(zip(values, limits, applied, strict=True)):
        assert math.isfinite(given_out)
        assert abs(given_out) <= limit
        if abs(asked) <= limit:
            assert given_out == asked
        else:
            assert given_out == math.copysign(limit, asked)
            changed_by.append(f"limit:U{i}")
    assert reasons == changed_by


CLAMP = """\
def clamp(n: i64, values: f64[:], limits: f64[:], out: f64[:]):
    for i in range(n):
        out[i] = min(max(values[i], -limits[i]), limits[i])
"""  # as the fused loop clamps


def test_the_compiled_loop_clamps_to_the_same_bits() -> None:
    edges = [0.0, -0.0, 5e-324, -5e-324, 1.0, -1.0, math.nextafter(1.0, 2.0), 1e308, -1e308]
    pairs = [(value, limit) for value in edges for limit in [*map(abs, edges), math.inf]]
    values, limits = (np.array(each) for each in zip(*pairs, strict=True))
    out = np.empty(len(pairs))
    cache.load(cache.key_of("clamp", CLAMP), lambda: (CLAMP, b"{}"))[0].clamp(len(out), values, limits, out)
    applied, _ = clamped(values.tolist(), limits.tolist())
    assert np.array(applied).tobytes() == out.tobytes()


def test_inputs_limits_and_names_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="2 inputs, 2 before, 1 limits, 2 names"):
        limited([1.0, 2.0], [0.0, 0.0], 0.0, Limits((1.0,), (1.0,)), NAMES)
    with pytest.raises(ValueError, match="one each per input"):
        Limits((1.0, 2.0), (1.0,))


@pytest.mark.parametrize("wrong", [math.nan, -1.0, -math.inf])
def test_a_limit_that_is_no_magnitude_is_refused(wrong: float) -> None:
    for arguments in (((wrong,), (1.0,)), ((1.0,), (wrong,)), ((1.0,), (1.0,), wrong)):
        with pytest.raises(ValueError, match="magnitude, 0 or more"):
            Limits(*arguments)


# limits of rate and power


def test_an_input_moves_from_where_it_was_no_faster_than_its_rate() -> None:
    limits = Limits((5.0, 5.0), (10.0, math.inf))
    assert limited([1.0, 5.0], [0.5, -5.0], 0.01, limits, NAMES) == ([0.6, 5.0], ["rate:U1"])
    assert limited([-9.0, 0.0], [0.5, 0.0], 0.01, limits, NAMES) == ([0.4, 0.0], ["limit:U1", "rate:U1"])
    assert limited([0.55, 0.0], [0.5, 0.0], 0.01, limits, NAMES) == ([0.55, 0.0], [])
    for no_time in (0.0, -1.0, math.nan, math.inf):
        assert limited([1.0, 5.0], [0.5, 0.0], no_time, limits, NAMES) == ([0.5, 5.0], ["rate:U1"])


def test_the_limit_of_value_wins_over_that_of_rate() -> None:
    limits = Limits((1.0, 1.0), (10.0, 10.0))
    assert limited([0.0, 3.0], [2.0, 2.0], 0.01, limits, NAMES) == (
        [1.0, 1.0],
        ["limit:U2", "rate:U1", "rate:U2"],
    )


def test_too_much_power_scales_all_inputs_by_one_factor() -> None:
    limits = Limits(FREE, FREE, power=2.5)
    assert limited([3.0, 1.0], [0.0, 0.0], 0.01, limits, NAMES, lambda: (2.0, -1.0)) == ([1.5, 0.5], ["power"])
    assert limited([1.5, 0.5], [0.0, 0.0], 0.01, limits, NAMES, lambda: (2.0, -1.0)) == ([1.5, 0.5], [])


def test_a_call_within_another_one_or_beside_it_in_a_thread_has_numbers_of_its_own() -> None:
    limits = Limits((9.0, 9.0), (1.0, 1.0), power=1e9)

    def rates() -> tuple[float, float]:
        limited([7.0, 8.0], [7.0, 8.0], 0.5, limits, NAMES, lambda: (3.0, 4.0))
        return 1.0, 1.0

    assert limited([1.0, 0.0], [0.0, 0.0], 0.5, limits, NAMES, rates) == ([0.5, 0.0], ["rate:U1"])


def test_what_passes_are_plain_numbers_whatever_the_rates_come_in() -> None:
    limits = Limits(FREE, FREE, power=2.5)
    applied, _ = limited([3.0, 1.0], [0.0, 0.0], 0.01, limits, NAMES, lambda: np.array([2.0, -1.0]))
    assert [type(each) for each in applied] == [float, float]


def test_braking_is_never_cut() -> None:
    limits = Limits(FREE, FREE, power=0.0)
    assert limited([-1e200, -1e200], [0.0, 0.0], 0.0, limits, NAMES, lambda: (1e200, 1.0)) == ([-1e200, -1e200], [])
    assert limited([1.0, 1.0], [0.0, 0.0], 0.0, limits, NAMES, lambda: (-1.0, 1.0)) == ([1.0, 1.0], [])
    assert limited([1.0, 2.0], [0.0, 0.0], 0.0, limits, NAMES, lambda: (-1.0, 1.0)) == ([0.0, 0.0], ["power"])


@pytest.mark.parametrize(
    "rates", [(math.nan, 1.0), (math.inf, 1.0), (1.0, -math.inf), (1e308, 1e308), (math.inf, -math.inf)]
)
def test_a_power_that_cannot_be_told_lets_nothing_through(rates: tuple[float, float]) -> None:
    limits = Limits((10.0, 10.0), FREE, power=5.0)
    assert limited([10.0, 10.0], [1.0, 1.0], 0.0, limits, NAMES, lambda: rates) == ([0.0, 0.0], ["power"])


def test_the_rates_are_asked_for_only_where_power_is_limited() -> None:
    def never() -> Sequence[float]:
        raise AssertionError

    assert limited([1.0, 1.0], [0.0, 0.0], 0.01, Limits(FREE, (1.0, 1.0)), NAMES, never)[0] == [0.01, 0.01]
    with pytest.raises(ValueError, match="needs the rates"):
        limited([1.0, 1.0], [0.0, 0.0], 0.01, Limits(FREE, FREE, 1.0), NAMES)


def test_an_input_before_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(ValueError, match="only finite inputs have been applied"):
        limited([1.0, 1.0], [0.0, math.nan], 0.01, Limits(FREE, (1.0, 1.0)), NAMES)


steps = st.lists(
    st.tuples(
        st.tuples(FINITE | MODERATE, FINITE | MODERATE),  # asked
        st.floats(0.0, 10.0),  # elapsed, s
        st.tuples(ANY_FLOAT | MODERATE, ANY_FLOAT | MODERATE),  # rates on which the inputs work
    ),
    max_size=12,
)
bound = LIMITS | st.floats(0.0, 1e3)


@given(value=st.tuples(bound, bound), rate=st.tuples(bound, bound), power=bound, sequence=steps)
def test_no_sequence_of_inputs_brings_one_past_a_limit(
    value: tuple[float, float],
    rate: tuple[float, float],
    power: float,
    sequence: list[tuple[tuple[float, float], float, tuple[float, float]]],
) -> None:
    limits, before = Limits(value, rate, power), [0.0, 0.0]
    for asked, elapsed, rates in sequence:
        applied, reasons = limited(asked, before, elapsed, limits, NAMES, lambda rates=rates: rates)  # type: ignore[misc]
        assert all(map(math.isfinite, applied))
        assert all(abs(given_out) <= limit for given_out, limit in zip(applied, value, strict=True))
        if "power" not in reasons:
            for new, old, fastest in zip(applied, before, rate, strict=True):
                assert fastest == math.inf or old - fastest * elapsed <= new <= old + fastest * elapsed
        if power < math.inf and applied != [0.0, 0.0]:
            assert applied[0] * rates[0] + applied[1] * rates[1] <= power
        if not reasons:
            assert applied == list(asked)
        before = applied


@given(
    asked=st.tuples(MODERATE, MODERATE), rates=st.tuples(MODERATE, MODERATE), power=st.floats(0.0, 1e3)
)  # moderate, so that the power is told to a few digits
def test_power_takes_no_more_than_it_must(asked: tuple[float, float], rates: tuple[float, float], power: float) -> None:
    applied, reasons = limited(asked, (0.0, 0.0), 0.0, Limits(FREE, FREE, power), NAMES, lambda: rates)
    wanted = asked[0] * rates[0] + asked[1] * rates[1]
    assert reasons == (["power"] if wanted > power else [])
    if not reasons:
        assert applied == list(asked)
        return
    terms = (abs(asked[0] * rates[0]) + abs(asked[1] * rates[1])) / wanted * power
    assert power - 1e-14 * terms - 1e-300 <= applied[0] * rates[0] + applied[1] * rates[1] <= power
    assert math.isclose(applied[0] * asked[1], applied[1] * asked[0], rel_tol=1e-12, abs_tol=1e-300)
