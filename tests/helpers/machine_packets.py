"""The machine's side of the packets: what it sends, and how it reads what a host sends."""

from math import isfinite

from servonode.plants.drivers.packets import (
    _FAULT,
    _GOAL,
    _READING,
    _REFUSED,
    _SCHEMA,
    _SETUP,
    _UNTIL,
    LAST_STEP,
    LAW,
    MOST_INPUTS,
    MOST_STATES,
    Goal,
    OwnLaw,
    PacketError,
    ReadingsContent,
    SetupContent,
    StateContent,
    _finite,
    _floats,
)


def state_payload(content: StateContent) -> bytes:
    """The payload of a state."""
    return _REFUSED.pack(content.refused) + _floats([*content.states, *content.inputs])


def readings_payload(content: ReadingsContent) -> bytes:
    """The payload of readings."""
    readings = b"".join(_READING.pack(*each) for each in content.readings)
    return _REFUSED.pack(content.refused) + _floats(content.inputs) + readings


def fault_payload(code: int, detail: int) -> bytes:
    """The payload of a fault."""
    return _FAULT.pack(code, detail)


def read_setup(payload: bytes, flags: int = 0) -> SetupContent:
    """The content of a setup with these flags; raises PacketError."""
    if len(payload) < _SETUP.size:
        raise PacketError("length")
    schema, n_x, n_u, step, period, timeout, speed = _SETUP.unpack_from(payload)
    if not 0 < n_x <= MOST_STATES or n_u > MOST_INPUTS:
        raise PacketError("limits")
    n_numbers, law = n_u * (n_x + 2) + n_x, None
    end = _SETUP.size + 4 * n_numbers
    if flags & LAW:
        if len(payload) != end + _SCHEMA.size + 4 * n_u:
            raise PacketError("length")
        law = OwnLaw(_SCHEMA.unpack_from(payload, end)[0], _finite(payload, end + _SCHEMA.size, n_u))
        payload = payload[:end]
    numbers = _finite(payload, _SETUP.size, n_numbers)
    if not isfinite(speed):
        raise PacketError("non_finite")
    limits, rest = numbers[:n_u], numbers[n_u:]
    safe = [rest[i * (n_x + 1) : (i + 1) * (n_x + 1)] for i in range(n_u)]
    return SetupContent(schema, step, period, timeout, speed, limits, safe, rest[n_u * (n_x + 1) :], law)


def read_applied(
    payload: bytes, n_inputs: int, flags: int = 0, n_goal: int = 0
) -> tuple[int, tuple[float, ...], Goal | None]:
    """The step up to which to integrate in lockstep, the inputs, and with LAW set the goal; raises PacketError."""
    end, goal = _UNTIL.size + 4 * n_inputs, None
    if flags & LAW:
        if len(payload) != end + _GOAL.size + 4 * n_goal:
            raise PacketError("length")
        at, step = _GOAL.unpack_from(payload, end)
        if max(at, step) > LAST_STEP:
            raise PacketError("limits")
        goal = Goal(at, step, _finite(payload, end + _GOAL.size, n_goal))
        payload = payload[:end]
    inputs = _finite(payload, _UNTIL.size, n_inputs)
    until: int = _UNTIL.unpack_from(payload)[0]
    if until > LAST_STEP:
        raise PacketError("limits")
    return until, inputs, goal
