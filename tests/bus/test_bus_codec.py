import inspect
import math
import sys

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servonode.bus import (
    LARGEST,
    TOPICS,
    Applied,
    Command,
    Estimate,
    Message,
    MessageError,
    Parameters,
    Report,
    Setup,
    State,
    Status,
    Target,
    decode,
    encode,
)
from servonode.bus.codec import REASONS, encode_frames
from servonode.bus.messages import MOST_NUMBERS
from servonode.bus.requests import LARGEST_REQUEST, decode_map, encode_map

HEADER = {"t": 0.1, "seq": 1, "run": 2**53, "k": 100, "mono": 2**60, "node": "plant", "src": 7}
SAMPLES: dict[str, Message] = {
    "state": State(**HEADER, state={"x": 0.1, "n": [0.0, -0.0, 1.0]}, input={"tau1": 1e-320}, control=True),
    "command": Command(**HEADER, re=1, target_seq=-1, input={"tau1": -2.5}),
    "applied": Applied(**HEADER, input={"a": 1.0}, desired={"a": 2.0}, re=0, reasons=["limit"], repeats=2),
    "setup": Setup(
        **HEADER,
        machine="m",
        mode="lockstep",
        step=1e-3,
        period=0.01,
        speed=1.0,
        timeout=0.03,
        inputs=["tau1"],
        limits={},
        parameters={"m1": 4.0},
        start={"x": 0.0, "n": [0.0, 1.0]},
    ),
    "target": Target(**HEADER, target={"x": 1.0, "x_dot": 2.0, "x_ddot": 3.0}),
    "report": Report(**HEADER, residual={"v": 0.0}, condition=LARGEST, saturated=False, compute_s=1e-4, re=3),
    "estimate": Estimate(
        **HEADER,
        state={"x": 0.5, "n": [0.0, 1.0]},
        std={"x": 0.1, "n[0]": 0.0, "n[1]": LARGEST},
        innovation={"gyroscope": -0.01},
        nis=1.2,
        readings=1,
        nees=2.5,
        dimensions=3,
        re=3,
    ),
    "parameters": Parameters(**HEADER, values={"controller.gains.lambda": 2.0}, numbers=[0.5, LARGEST]),
    "status": Status(**HEADER, lifecycle="active", counts={"type": 3}, values={"rate": 499.5}),
}
STATE = msgpack.unpackb(encode(SAMPLES["state"]))


def reason_of(payload: bytes, topic: bytes = b"state") -> str:
    with pytest.raises(MessageError) as caught:
        decode(topic, payload)
    assert caught.value.reason in REASONS
    return caught.value.reason


def packed(**changes: object) -> bytes:
    return msgpack.packb({**STATE, **changes})


def with_key(name: str, value: bytes) -> bytes:
    """The state with one more key, whose value is raw msgpack."""
    content = {key: each for key, each in msgpack.unpackb(packed()).items() if key != "latency"}  # 15 keys at most
    payload = msgpack.packb(content)
    return bytes([payload[0] + 1]) + payload[1:] + msgpack.packb(name) + value


def test_every_topic_has_a_sample_and_no_word_is_the_start_of_another():
    assert set(SAMPLES) == set(TOPICS)
    assert not [(a, b) for a in TOPICS for b in TOPICS if a != b and b.startswith(a)]


@pytest.mark.parametrize("topic", sorted(SAMPLES))
def test_each_message_comes_back_as_it_was_sent(topic):
    frame, payload = encode_frames(topic, SAMPLES[topic])
    assert frame == topic.encode()
    assert decode(frame, payload) == SAMPLES[topic]


@pytest.mark.parametrize("topic", sorted(SAMPLES))
def test_the_wire_is_a_flat_map_of_words_that_any_msgpack_reads(topic):
    content = msgpack.unpackb(encode(SAMPLES[topic]))
    assert list(content)[:7] == ["t", "seq", "run", "k", "mono", "node", "src"]
    assert content["t"] == 0.1


finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(max_size=8)


@given(t=finite, values=st.dictionaries(names, finite | st.lists(finite, max_size=5), max_size=6))
def test_every_finite_float_survives_to_the_bit(t, values):
    sent = State(**{**HEADER, "t": t}, state=values, input={}, control=False)
    got = decode(b"state", encode(sent))
    assert repr(got) == repr(sent)  # repr tells -0.0 from 0.0 and has all digits


def test_integers_from_other_languages_become_floats():
    got = decode(b"state", packed(t=1, state={"x": 2, "n": [3, 2**53, 1e300]}))
    assert repr((got.t, got.state)) == repr((1.0, {"x": 2.0, "n": [3.0, 2.0**53, 1e300]}))


def test_numpy_values_travel_as_plain_numbers():
    sent = State(**HEADER, state={"x": np.float64(0.1), "n": np.ones(2)}, input={}, control=np.bool_(True))
    assert decode(b"state", encode(sent)).state == {"x": 0.1, "n": [1.0, 1.0]}


def test_unknown_keys_are_ignored():
    assert decode(b"state", packed(later={"deep": [1, b"x", None]})) == SAMPLES["state"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["t", "number", "list", "input"])
def test_no_number_that_is_not_finite_gets_through(bad, where):
    changes = {"t": {"t": bad}, "number": {"state": {"x": bad}}, "list": {"state": {"n": [1.0, bad]}}}
    assert reason_of(packed(**changes.get(where, {"input": {"tau1": bad}}))) == "non_finite"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"t": True}, "type"),
        ({"state": {"x": True}}, "type"),
        ({"state": {"x": [True]}}, "type"),
        ({"state": {"x": "1"}}, "type"),
        ({"state": {"x": [[1.0]]}}, "type"),
        ({"state": {"x": None}}, "type"),
        ({"state": {1: 1.0}}, "type"),
        ({"state": [1.0]}, "type"),
        ({"node": b"plant"}, "type"),
        ({"seq": 1.0}, "type"),
        ({"seq": True}, "type"),
        ({"control": 1}, "type"),
        ({"seq": -1}, "limits"),
        ({"run": 0}, "limits"),
        ({"run": 2**53 + 1}, "limits"),
        ({"run": 2**64 - 1}, "limits"),
        ({"t": 2**53 + 1}, "limits"),
        ({"state": {"x": -(2**53) - 1}}, "limits"),
        ({"state": {"x": [2**63]}}, "limits"),
        ({"state": {"x": [0.0] * 257}}, "limits"),
        ({"state": {str(i): 0.0 for i in range(257)}}, "limits"),
        ({"node": "n" * 1025}, "limits"),
        ({f"key{i}": 0 for i in range(257)}, "limits"),
        ({"later": "x" * 65536}, "length"),
    ],
)
def test_what_is_ill_typed_or_too_large_is_refused_by_its_reason(changes, reason):
    assert reason_of(packed(**changes)) == reason


@pytest.mark.parametrize("key", [k for k in STATE if k not in ("final", "applied_seq", "goal_k", "age", "latency")])
def test_a_missing_key_is_refused(key):
    assert reason_of(msgpack.packb({k: v for k, v in STATE.items() if k != key})) == "missing"


def test_an_unknown_lifecycle_is_refused_whatever_it_says():
    content = msgpack.unpackb(encode(SAMPLES["status"]))
    for word in ("asleep", "`float` ", "of length", "Object missing required field"):
        assert reason_of(msgpack.packb({**content, "lifecycle": word}), b"status") == "type"


def test_an_unknown_topic_is_refused():
    for topic in (b"", b"stat", b"state2", b"\xff" * 300):
        assert reason_of(packed(), topic) == "topic"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "malformed"),
        (packed()[:-1], "malformed"),
        (packed() + b"\xc0", "malformed"),
        (b"\xc1", "type"),
        (b"\xc0", "type"),
        (b"\x91" * 65536, "type"),
        (b"\xdf\xff\xff\xff\xff", "limits"),
        (b"\x81\xa1t\xc1", "malformed"),
        (b"\x81\xa2\xff\xfe\x01", "missing"),
        (with_key("node", b"\xa2\xff\xfe"), "malformed"),
        (with_key("t", b"\xd6\xff\x00\x00\x00\x00"), "type"),
        (with_key("state", b"\x81\xa1x\xdd\xff\xff\xff\xff"), "limits"),
        (with_key("state", b"\xdf\xff\xff\xff\xff"), "limits"),
        (with_key("later", b"\xdb\xff\xff\xff\xff"), "malformed"),
        (with_key("later", b"\xdd\xff\xff\xff\xff"), "malformed"),
        (with_key("later", b"\x91" * 65000), "limits"),
        (with_key("later", b"\x81\xa1a" * 21000), "limits"),
        (with_key("later", b"\xdd\xff\xff\xff\xff" * 13000), "limits"),
    ],
)
def test_bombs_and_garbage_are_refused_by_their_reason(payload, reason):
    assert reason_of(payload) == reason


def test_a_decoder_called_deep_in_the_stack_still_raises_only_message_errors():
    def dive(depth: int) -> None:
        if depth:
            dive(depth - 1)
        else:
            reason_of(with_key("later", b"\x91" * 300 + b"\xc1"))

    dive(sys.getrecursionlimit() - len(inspect.stack(0)) - 120)


def test_requests_are_held_to_the_limits():
    request = {"verb": "arm", "ids": [1, 2.5, None, True], "more": {"a": "b"}}
    assert decode_map(encode_map(request)) == request
    nested: object = 1
    for _ in range(8):
        nested = [nested]
    bombs = [b"\x91" * 65536, b"\x81\xa1a" * 21000, b"\xdd\xff\xff\xff\xff" * 13000, b"\xdc\x01\x00" * 20000]
    bad = [{"a": math.nan}, {"a": b"x"}, {"a": nested}, {"a": "x" * 1025}, {"a": 2**63}, [1], {1: 2}]
    for payload in [*bombs, *map(msgpack.packb, bad), b"", msgpack.packb(request) + b"\xc0", b"x" * 65537]:
        with pytest.raises(MessageError):
            decode_map(payload)


def test_only_what_fits_the_topic_is_encoded():
    with pytest.raises(ValueError, match="carries Command, not State"):
        encode_frames("command", SAMPLES["state"])
    with pytest.raises(ValueError, match="choose applied, command"):
        encode_frames("comand", SAMPLES["command"])
    with pytest.raises(MessageError, match="length"):
        encode(Target(**HEADER, target={f"{i:01000d}": 0.0 for i in range(100)}))
    with pytest.raises(TypeError, match="cannot be sent"):
        encode(Target(**HEADER, target={"x": object()}))  # type: ignore[dict-item]


def test_the_numbers_of_an_arm_of_seven_joints_pass_as_message_and_as_request():
    many = [LARGEST / 3] * MOST_NUMBERS  # of one that keeps its limits they are 296
    message = Parameters(**HEADER, values={"controller.gains.lambda": 2.0}, numbers=many)
    assert decode(b"parameters", encode(message)) == message
    request = {"values": message.values, "numbers": many, "revision": 1}
    assert decode_map(encode_map(request)) == request
    assert len(encode_map(request)) < LARGEST_REQUEST
    with pytest.raises(MessageError, match="limits"):
        decode(b"parameters", encode(Parameters(**HEADER, values={}, numbers=[*many, 0.0])))
