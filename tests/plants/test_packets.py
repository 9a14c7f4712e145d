"""The packets of docs/reference/firmware.md: the vectors that Python and C share, round trips, and what is refused."""

import ctypes
import math
import random
import struct
from binascii import crc_hqx

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servonode.plants.drivers import packets
from servonode.plants.drivers.packets import (
    Goal,
    Head,
    OwnLaw,
    PacketError,
    ReadingsContent,
    SensorReading,
    SetupContent,
    StateContent,
)
from servonode.plants.drivers.serial import stuffed, unstuffed
from tests.helpers import machine_packets
from tests.helpers.firmware import SOURCES, built, ran

VECTORS = SOURCES / "test" / "vectors.txt"
MANY = 1_000_000
LINES = [line.partition(" : ") for line in VECTORS.read_text().splitlines() if not line.startswith("#")]
SENT = ("setup", "applied", "state", "fault", "readings")
FLOAT = st.floats(width=32, allow_nan=False, allow_infinity=False)
IDS, WORDS = st.integers(1, 2**32 - 2), st.integers(0, 2**32 - 1)


def fields_of(text: str) -> tuple[str, dict[str, str]]:
    """Kind and fields of a vector."""
    kind, *words = text.split(" ")
    return kind, dict(word.split("=", 1) for word in words if word)


def floats(text: str) -> list[float]:
    return [float(each) for each in text.split(",") if each]


def head_of(kind: int, fields: dict[str, str]) -> Head:
    return Head(kind, *(int(fields[word]) for word in ("run", "source", "seq", "reply", "step", "flags")))


def check_vector(kind: str, fields: dict[str, str], data: bytes) -> None:
    """Assert that these bytes and these fields are the same packet."""
    head, payload = packets.decode(data)
    if kind == "setup":
        n = len(floats(fields["start"])) + 1
        safe = floats(fields["safe"])
        rows = [safe[i : i + n] for i in range(0, len(safe), n)]
        times = (int(fields[word]) for word in ("schema", "step_ns", "period_ns", "timeout_ns"))
        limits, start = floats(fields["limits"]), floats(fields["start"])
        law = OwnLaw(int(fields["law_schema"]), floats(fields["tolerance"])) if "law_schema" in fields else None
        content = SetupContent(*times, float(fields["speed"]), limits, rows, start, law)
        wanted, made = head_of(packets.SETUP, fields), packets.setup_payload(content)
        read = machine_packets.read_setup(payload, head.flags)
        assert read[:5] == content[:5]
        assert packets.setup_payload(read) == made
    elif kind == "applied":
        inputs = floats(fields["inputs"])
        entries = floats(fields.get("goal", ""))
        goal = Goal(int(fields["goal_at"]), int(fields["goal_step"]), tuple(entries)) if "goal" in fields else None
        wanted, made = head_of(packets.APPLIED, fields), packets.applied_payload(int(fields["until"]), inputs, goal)
        found = machine_packets.read_applied(payload, len(inputs), head.flags, len(entries))
        assert found == (int(fields["until"]), tuple(inputs), goal)
    elif kind == "state":
        states, inputs = ([each.item() for each in np.array(floats(fields[word]), np.float32)]
                          for word in ("states", "inputs"))  # fmt: skip
        content_of_state = StateContent(int(fields["refused"]), tuple(states), tuple(inputs))
        wanted, made = head_of(packets.STATE, fields), machine_packets.state_payload(content_of_state)
        assert packets.read_state(payload, len(states), len(inputs)) == content_of_state
    elif kind == "readings":
        inputs, values = (tuple(np.array(floats(fields[word]), np.float32).tolist()) for word in ("inputs", "values"))
        numbers = ([int(each) for each in floats(fields[word])] for word in ("sensors", "ago"))
        readings = tuple(map(SensorReading, *numbers, values))
        content_of_readings = ReadingsContent(int(fields["refused"]), inputs, readings)
        wanted, made = head_of(packets.READINGS, fields), machine_packets.readings_payload(content_of_readings)
        assert packets.read_readings(payload, head.step, len(inputs), 65536) == content_of_readings
    else:
        assert kind == "fault"
        said = int(fields["code"]), int(fields["detail"])
        wanted, made = head_of(packets.FAULT, fields), machine_packets.fault_payload(*said)
        assert packets.read_fault(payload) == said
    assert (head, payload) == (wanted, made)
    assert packets.encode(wanted, made) == data


def read(data: bytes) -> None:
    """Read a packet as far as it goes, with one input."""
    head, payload = packets.decode(data)
    if head.type == packets.SETUP:
        machine_packets.read_setup(payload, head.flags)
    elif head.type == packets.READINGS:
        packets.read_readings(payload, head.step, 1, 8)
    else:
        machine_packets.read_applied(payload, 1, head.flags, 2)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0].split(" ")[0])
def test_every_vector_holds_in_python(line: tuple[str, str, str]) -> None:
    kind, fields = fields_of(line[0])
    data = bytes.fromhex(line[2])
    if kind == "crc":
        assert crc_hqx(fields["text"].encode(), 0xFFFF) == int.from_bytes(data, "little")
    elif kind == "cobs":
        plain = bytes.fromhex(fields["data"])
        assert stuffed(plain) == data
        assert unstuffed(data[:-1]) == plain
    elif kind == "refuse":
        with pytest.raises(PacketError) as refused:
            read(data)
        assert refused.value.reason == fields["reason"]
    else:
        check_vector(kind, fields, data)


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("vectors", f"{len(LINES)} passed, 0 failed\n"),
        ("clock", ""),  # a clock that jumps: the machine neither drives on nor makes up for lost steps
        ("runs", ""),  # a new run does not release the brake of a machine that a host has driven
        ("line", "line: ok\n"),  # the newest packet alone waits for a slow line
        ("serial_small", "serial: ok\n"),  # also where a packet fills its room exactly
        ("serial", "serial: ok\n"),  # bytes of an interrupt are packets of the main loop
    ],
)
def test_test_programs_of_the_firmware_find_nothing_wrong_under_the_sanitizers(program: str, printed: str) -> None:
    assert ran(program, *([VECTORS] if program == "vectors" else [])) == (0, printed, "")


def test_each_side_reads_the_others_frames_of_every_size() -> None:
    c, rng = ctypes.CDLL(str(built("libcan.so"))), random.Random(3)
    c.cobs_encode.restype = c.cobs_decode.restype = ctypes.c_size_t
    out = (ctypes.c_uint8 * (packets.SIZE + packets.SIZE // 254 + 2))()
    ends = {at + d for at in range(0, packets.SIZE + 2, 254) for d in (-2, -1, 0, 1, 2)}  # COBS has blocks of 254
    for size in sorted({*range(300), *ends, packets.SIZE} & {*range(packets.SIZE + 1)}):
        for data in (bytes(size), b"\1" * size, bytes(rng.choices((0, 1, 255), (1, 200, 200), k=size))):
            frame = stuffed(data)
            assert bytes(out[: c.cobs_encode(data, ctypes.c_size_t(size), out)]) == frame
            n, room = ctypes.c_size_t(len(frame) - 1), ctypes.c_size_t(size)
            assert bytes(out[: c.cobs_decode(frame, n, out, room)]) == data == unstuffed(frame[:-1])


@given(st.binary(max_size=1400))
def test_cobs_comes_back_and_holds_no_zero(data: bytes) -> None:
    frame = stuffed(data)
    assert frame[-1] == 0
    assert 0 not in frame[:-1]
    assert unstuffed(frame[:-1]) == data
    assert len(frame) <= len(data) + len(data) // 254 + 2


@given(IDS, IDS, st.integers(0, 2**32 - 2), WORDS, st.integers(0, 2**53), st.integers(0, 1), WORDS,
       st.lists(FLOAT, max_size=32), st.lists(FLOAT, max_size=8))  # fmt: skip
def test_a_state_comes_back_as_it_was(
    run: int, source: int, seq: int, reply: int, step: int, flags: int, refused: int, x: list[float], u: list[float]
) -> None:
    head = Head(packets.STATE, run, source, seq, reply, step, flags)
    content = StateContent(refused, tuple(x), tuple(u))
    found, payload = packets.decode(packets.encode(head, machine_packets.state_payload(content)))
    assert found == head
    assert packets.read_state(payload, len(x), len(u)) == content


READINGS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 65535), FLOAT), max_size=packets.MOST_READINGS)


@given(IDS, st.integers(0, 2**53), WORDS, st.lists(FLOAT, max_size=8), READINGS)
def test_readings_come_back_as_they_were_and_none_is_older_than_the_run(
    run: int, step: int, refused: int, u: list[float], readings: list[tuple[int, int, float]]
) -> None:
    head = Head(packets.READINGS, run, 1, 0, 0, step)
    content = ReadingsContent(refused, tuple(u), tuple(map(SensorReading._make, readings)))
    found, payload = packets.decode(packets.encode(head, machine_packets.readings_payload(content)))
    assert found == head
    if any(ago > step for _, ago, _ in readings):
        with pytest.raises(PacketError, match="limits"):
            packets.read_readings(payload, step, len(u), 8)
    else:
        assert packets.read_readings(payload, step, len(u), 8) == content


def test_machines_with_other_names_states_inputs_or_sensors_have_other_schemas() -> None:
    base = ("robot", ("x", "v"), ("F",))
    others = [("robot2", ("x", "v"), ("F",)), ("robot", ("v", "x"), ("F",)), ("robot", ("x",), ("v", "F"))]
    sensors = ((), ("gyro",), ("gyro", "encoder"), ("encoder", "gyro"))
    found = [packets.schema_of(*each) for each in (base, *others)]
    found += [packets.readings_schema_of(*base, each) for each in sensors]
    assert len(set(found)) == len(found)


def test_the_longest_setup_is_as_long_as_both_sides_say() -> None:
    n, m = packets.MOST_STATES, packets.MOST_INPUTS
    law = OwnLaw(1, [0.0] * m)
    content = SetupContent(1, 1, 1, 1, 1.0, [0.0] * m, [[0.0] * (n + 1)] * m, [0.0] * n, law)
    assert len(packets.encode(Head(1, 1, 1, 0, 0, 0), packets.setup_payload(content))) == packets.SIZE == 1322


def test_a_number_beyond_its_field_is_refused_before_it_is_sent() -> None:
    with pytest.raises(OverflowError):
        packets.applied_payload(0, [1e39])
    with pytest.raises(struct.error):
        packets.encode(Head(packets.APPLIED, 1, 1, 2**32, 0, 0), b"")


# fuzzing


def mutations(rng: random.Random, good: list[bytes], count: int) -> list[tuple[str, bytes]]:
    """So many strings that are not one of the good packets, each with how it was made."""
    made: list[tuple[str, bytes]] = []
    while len(made) < count:
        data, kind = bytearray(rng.choice(good)), rng.choice(["bits", "burst", "spoiled", "resized", "random"])
        if kind == "bits":
            for _ in range(rng.randint(1, 3)):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == "burst":
            at = rng.randrange(len(data) - 1)
            data[at] ^= rng.randrange(256)
            data[at + 1] ^= rng.randrange(256)
        elif kind == "spoiled":
            for _ in range(rng.randint(4, 30)):
                data[rng.randrange(len(data))] = rng.randrange(256)
        elif kind == "resized":
            data = data[: rng.randrange(len(data))] if rng.random() < 0.5 else data + rng.randbytes(rng.randint(1, 50))
        else:
            data = bytearray(rng.randbytes(rng.randrange(100)))
        if bytes(data) not in good:
            made.append((kind, bytes(data)))
    return made


def fuzz(count: int) -> None:
    """Assert that nothing is accepted but what a CRC-16 lets through: no few bits, no burst, of others one in 65536."""
    good = [bytes.fromhex(line[2]) for line in LINES if line[0].split(" ")[0] in SENT]
    rng, tried, accepted = random.Random(18), dict[str, int](), dict[str, int]()
    for _ in range(count // 10_000):
        for kind, data in mutations(rng, good, 10_000):
            tried[kind] = tried.get(kind, 0) + 1
            unstuffed(data)
            try:
                packets.decode(data)
            except PacketError:
                continue
            accepted[kind] = accepted.get(kind, 0) + 1
            assert crc_hqx(data[:-2], 0xFFFF) == int.from_bytes(data[-2:], "little")
    assert {"bits", "burst"} & accepted.keys() == set()
    for kind, number in accepted.items():
        assert number <= tried[kind] / 65536 + 6 * math.sqrt(tried[kind] / 65536 + 1), (kind, number)


@pytest.mark.parametrize("count", [20_000, pytest.param(MANY, marks=pytest.mark.soak)])
def test_random_and_mutated_strings_are_refused_in_python(count: int) -> None:
    fuzz(count)


def test_sealed_nonsense_is_judged_field_by_field_and_never_raises_anything_else() -> None:
    rng, reasons = random.Random(19), set[str]()
    good = [bytes.fromhex(line[2]) for line in LINES if line[0].split(" ")[0] in SENT]
    for _ in range(20_000):
        data = bytearray(rng.choice(good))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(2, len(data) - 2)] = rng.choice([0, 255, rng.randrange(256)])
        sealed = bytes(data[:-2]) + struct.pack("<H", crc_hqx(bytes(data[:-2]), 0xFFFF))
        try:
            head, payload = packets.decode(sealed)
            if head.type == packets.STATE:
                content = packets.read_state(payload, 4, 1)
                assert all(map(math.isfinite, (*content.states, *content.inputs)))
            elif head.type == packets.FAULT:
                packets.fault_text(*packets.read_fault(payload), schema=1)
            else:
                read(sealed)
        except PacketError as error:
            reasons.add(error.reason)
    assert reasons == {"length", "version", "type", "limits", "non_finite"}


@pytest.mark.parametrize(
    ("program", "count"), [("fuzz", 50_000), ("fuzz_small", 10_000), pytest.param("fuzz", MANY, marks=pytest.mark.soak)]
)
def test_random_and_mutated_strings_are_refused_in_c_under_the_sanitizers(program: str, count: int) -> None:
    code, said, wrong = ran(program, count)
    assert (code, wrong) == (0, ""), said
    assert "more than" not in said
    assert "too few" not in said


# the page


def test_the_bytes_of_the_page_are_those_of_the_vectors() -> None:
    page = (SOURCES.parent / "docs" / "reference" / "firmware.md").read_text()
    for kind in ("state", "applied"):
        block = page.partition(f"<!-- {kind} -->\n```\n")[2].partition("```")[0]
        vector = next(line for line in LINES if line[0].startswith(f"{kind} run=4242"))
        assert bytes.fromhex(block) == bytes.fromhex(vector[2])


def test_every_fault_of_the_page_has_its_text() -> None:
    page = (SOURCES.parent / "docs" / "reference" / "firmware.md").read_text()
    rows = [line.split("|")[1] for line in page.partition("| code | fault |")[2].partition("\n\n")[0].splitlines()[2:]]
    codes = {int(each) for row in rows[:-1] for each in row.split(",")}
    assert codes == set(packets.FAULTS)
    assert "a fault of its own, number 130 (detail 5)" in packets.fault_text(130, 5, 1)
