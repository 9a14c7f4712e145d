"""The packets of docs/reference/firmware.md: bytes that a microcontroller reads and writes.

`firmware/packet.c` is the same in C; both are held to `firmware/test/vectors.txt`.
"""

import struct
from binascii import crc32, crc_hqx
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import NamedTuple

from servonode.errors import ServonodeError

MAGIC, VERSION = 0x5653, 1
SETUP, APPLIED, STATE, FAULT, READINGS = 1, 2, 3, 4, 5
LOCKSTEP = FINAL = SAFE = 1  # flag of a setup, of applied inputs, of a state
BRAKE = 4  # flag of applied inputs: the machine is to take its own safe action, whatever the inputs say
LAW, CLIPPED = 2, 4  # of all three: the machine's own law is to act, or acts; of a state: its inputs are clipped
MOST_FLAGS = {
    SETUP: LOCKSTEP | LAW,
    APPLIED: FINAL | LAW | BRAKE,
    STATE: SAFE | LAW | CLIPPED,
    FAULT: 0,
    READINGS: SAFE,
}
NONE = 0xFFFFFFFF  # a `reply` to nothing; of a setup: the machine chooses the rate of its states
MOST_STATES, MOST_INPUTS, MOST_GOAL, MOST_READINGS = 32, 8, 32, 32
LAST_STEP = 2**53
LARGEST: float = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]  # finite number of 32 bits; as a limit it means no limit

_HEAD = struct.Struct("<HBBIIIIQHH")
_SETUP = struct.Struct("<IHHqqqf")
_UNTIL = struct.Struct("<Q")
_SCHEMA = struct.Struct("<I")
_GOAL = struct.Struct("<QQ")
_REFUSED = struct.Struct("<I")
_FAULT = struct.Struct("<IQ")
_READING = struct.Struct("<HHf")
_CRC = struct.Struct("<H")
HEADER, TRAILER = _HEAD.size, _CRC.size
SIZE = HEADER + _SETUP.size + 4 * (MOST_INPUTS * (MOST_STATES + 3) + MOST_STATES + 1) + TRAILER  # of the longest packet

OTHER_SCHEMA = 1
FAULTS = {  # the text of each fault code, with the remedy; {} is its detail
    1: "it is the firmware of another machine, or of other states or inputs (its schema is {:#010x}, this machine's is "
    "{schema:#010x}); build it from this launch file, or run the launch file that it was built from",
    2: "its step is {} ns; set plant.step to that, or build it from this launch file",
    3: "it runs only at speed 1; set run.speed = 1",
    4: "the timeout is not positive; set plant.safety.command_timeout",
    5: "a limit is negative; check plant.safety.limit",
    6: 'it is hardware, which cannot wait in lockstep; set run.mode = "realtime"',
    7: "it received packets of version {} but speaks version {version}",
    8: "its state is not finite",
    9: "it has used up its packet numbers, or steps to 2^53; reset and arm again, or start the run anew",
    10: "a sensor fails; check the sensors and their wires",
    11: "its own emergency stop was pressed",
    12: "its clock went backwards; count its time in 64 bits",
    13: "its own law is not that of this launch file (its law's schema is {:#010x}, 0 for none; this launch file's is "
    "{law:#010x}); build it from this launch file, or leave plant.device.law out",
}


class PacketError(ServonodeError, ValueError):
    """Bytes that are not a packet; `reason` is one word for counting, `version` that of another protocol version."""

    def __init__(self, reason: str, version: int = 0) -> None:
        super().__init__(f"packet refused ({reason})")
        self.reason, self.version = reason, version


class Head(NamedTuple):
    """The header of every packet."""

    type: int
    run: int
    source: int
    seq: int
    reply: int
    step: int
    flags: int = 0


class OwnLaw(NamedTuple):
    """Part of a setup with the machine's own law: its schema, and by how much it may differ from the host's law."""

    schema: int
    tolerance: Sequence[float]


class Goal(NamedTuple):
    """Part of applied inputs, for the machine's own law: the machine's step, the goal's step then, and the goal."""

    at: int
    step: int
    values: Sequence[float]


class SetupContent(NamedTuple):
    """The content of a setup: the terms of a run. Times in ns; `safe`: a row for each input, its constant last."""

    schema: int
    step: int
    period: int
    timeout: int
    speed: float
    limits: Sequence[float]
    safe: Sequence[Sequence[float]]
    start: Sequence[float]
    law: OwnLaw | None = None


class StateContent(NamedTuple):
    """The content of a state: the number of packets refused by the machine, its state, the inputs that act."""

    refused: int
    states: tuple[float, ...]
    inputs: tuple[float, ...]


class SensorReading(NamedTuple):
    """One reading: the number of its sensor, its age in steps before that of the packet, its value."""

    sensor: int
    ago: int
    value: float


class ReadingsContent(NamedTuple):
    """The content of readings: the number of packets refused by the machine, the inputs that act, the new readings."""

    refused: int
    inputs: tuple[float, ...]
    readings: tuple[SensorReading, ...]


def schema_of(machine: str, states: Iterable[str], inputs: Iterable[str]) -> int:
    """The number by which two sides check that machine, states and inputs are the same: a CRC-32."""
    return crc32("\n".join([machine, "states", *states, "inputs", *inputs]).encode())


def readings_schema_of(machine: str, states: Iterable[str], inputs: Iterable[str], sensors: Iterable[str]) -> int:
    """As `schema_of`, for a machine that sends readings of these sensors in place of its state."""
    return crc32("\n".join([machine, "states", *states, "inputs", *inputs, "sensors", *sensors]).encode())


def law_schema_of(program: str, goal: Iterable[str], numbers: Iterable[float]) -> int:
    """The number by which two sides check that they have the same law: program, goal, gains and parameters."""
    return crc32("\n".join([program, "goal", *goal, "numbers", *(f"{each:.9g}" for each in numbers)]).encode())


# bytes of a packet


def encode(head: Head, payload: bytes) -> bytes:
    """The bytes of a packet; struct.error for a number that its field cannot hold."""
    body = _HEAD.pack(MAGIC, VERSION, *head, len(payload)) + payload
    return body + _CRC.pack(crc_hqx(body, 0xFFFF))


def is_replaced(packet: bytes) -> bool:
    """Whether a newer packet may take the place of this one, which waits for the line: inputs, but not a run's end."""
    return packet[3] == APPLIED and not packet[28] & FINAL


def setup_payload(content: SetupContent) -> bytes:
    """The payload of a setup."""
    numbers = [*content.limits, *(each for row in content.safe for each in row), *content.start]
    sizes = (len(content.start), len(content.limits))
    head = _SETUP.pack(content.schema, *sizes, content.step, content.period, content.timeout, content.speed)
    law = _SCHEMA.pack(content.law.schema) + _floats(content.law.tolerance) if content.law else b""
    return head + _floats(numbers) + law


def applied_payload(until: int, inputs: Sequence[float], goal: Goal | None = None) -> bytes:
    """The payload of applied inputs; OverflowError for an input beyond 32 bits."""
    return _UNTIL.pack(until) + _floats(inputs) + (_GOAL.pack(*goal[:2]) + _floats(goal.values) if goal else b"")


def _floats(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


# and back


def decode(data: bytes) -> tuple[Head, bytes]:
    """Header and payload of a good packet; PacketError for anything else, whatever the bytes."""
    if not HEADER + TRAILER <= len(data) <= SIZE:
        raise PacketError("length")
    magic, version, *fields, length = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise PacketError("magic")
    if _CRC.unpack_from(data, len(data) - TRAILER)[0] != crc_hqx(data[:-TRAILER], 0xFFFF):
        raise PacketError("crc")
    if version != VERSION:
        raise PacketError("version", version)
    head = Head(*fields)
    if length != len(data) - HEADER - TRAILER:
        raise PacketError("length")
    if not SETUP <= head.type <= READINGS:
        raise PacketError("type")
    if 0 in (head.run, head.source) or head.seq == NONE or head.step > LAST_STEP:
        raise PacketError("limits")
    if head.flags > MOST_FLAGS[head.type]:
        raise PacketError("limits")
    return head, data[HEADER:-TRAILER]


def read_state(payload: bytes, n_states: int, n_inputs: int) -> StateContent:
    """The content of a state; raises PacketError."""
    numbers = _finite(payload, _REFUSED.size, n_states + n_inputs)
    return StateContent(_REFUSED.unpack_from(payload)[0], numbers[:n_states], numbers[n_states:])


def read_readings(payload: bytes, step: int, n_inputs: int, n_sensors: int) -> ReadingsContent:
    """The content of readings in a packet of this step; raises PacketError."""
    end = _REFUSED.size + 4 * n_inputs
    if len(payload) < end or (len(payload) - end) % _READING.size or len(payload) > end + MOST_READINGS * _READING.size:
        raise PacketError("length")
    inputs = _finite(payload[:end], _REFUSED.size, n_inputs)
    readings = tuple(map(SensorReading._make, _READING.iter_unpack(payload[end:])))
    if not all(isfinite(each.value) for each in readings):
        raise PacketError("non_finite")
    if any(each.sensor >= n_sensors or each.ago > step for each in readings):
        raise PacketError("limits")
    return ReadingsContent(_REFUSED.unpack_from(payload)[0], inputs, readings)


def read_fault(payload: bytes) -> tuple[int, int]:
    """Code and detail of a fault; raises PacketError."""
    if len(payload) != _FAULT.size:
        raise PacketError("length")
    code, detail = _FAULT.unpack(payload)
    return code, detail


def fault_text(code: int, detail: int, schema: int, law: int = 0) -> str:
    """The sentence for a fault. schema, law: those of this launch file; law is 0 where the machine uses none."""
    text = FAULTS.get(code, f"a fault of its own, number {code} (detail {detail})")
    return text.format(detail, schema=schema, law=law, version=VERSION)


def _finite(payload: bytes, offset: int, count: int) -> tuple[float, ...]:
    """The `count` numbers at the end of a payload; raises PacketError."""
    if len(payload) != offset + 4 * count:
        raise PacketError("length")
    values = struct.unpack_from(f"<{count}f", payload, offset)
    if not all(map(isfinite, values)):
        raise PacketError("non_finite")
    return values
