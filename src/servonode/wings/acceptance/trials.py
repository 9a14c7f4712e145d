"""What a machine must not take, as tables of trials for `servonode protocol check` and `servonode hil accept`."""

import math
import struct
from binascii import crc_hqx
from collections.abc import Callable
from typing import Any, NamedTuple

from servonode.plants.drivers.packets import LAST_STEP, STATE, VERSION
from servonode.wings.acceptance.protocol_host import Host, new_id


class Trial(NamedTuple):
    """A good message with these changes, and the remedy where it has an effect.

    aged: it is sent when the run is older than the timeout.
    """

    changes: Callable[[Host], dict[str, Any]]
    remedy: str
    aged: bool = False


def _first(number: float) -> Trial:
    """A trial of this number as the first input."""
    remedy = "test inputs with isfinite before they are clamped"
    return Trial(lambda host: host.inputs(0.0, {host.names[0]: number}), remedy)


NEWER = "take an `applied` only if its seq is greater than that of the last one"
# an `applied` in a run in real time, between good ones
APPLIED = {
    "foreign run": Trial(lambda _: {"run": new_id()}, "take inputs of the run of the last setup alone"),
    "foreign host": Trial(lambda _: {"src": new_id()}, "take inputs of the host alone that began the run"),
    "older seq": Trial(lambda host: {"seq": host.sent[-2][0]}, NEWER),
    "same seq": Trial(lambda host: {"seq": host.sent[-1][0]}, NEWER),
    "old state": Trial(
        lambda host: {"state_seq": host.outdated()},
        "take an `applied` only if the state `state_seq` was sent less than `timeout` ago", aged=True,
    ),
    "nan": _first(math.nan),
    "infinity": _first(math.inf),
}  # fmt: skip

# a setup of a new run while one goes on
SETUPS = {
    "stranger": Trial(
        lambda _: {"src": new_id()},
        "a setup of another src takes over the machine during a run; let the first host keep it until `final` or the "
        "timeout",
    ),
    "late setup": Trial(
        lambda host: {"seq": host.begun},
        "a setup of the host takes effect though its seq is below that of the newest run; ignore it as late",
    ),
}

# a setup that must be answered by a `status`: how it differs from a good one; `limits`: of all inputs
UNUSABLE: dict[str, dict[str, Any]] = {
    "timeout = -1 s": {"timeout": -1.0},
    "timeout = 0": {"timeout": 0.0},
    "step = 0": {"step": 0.0},
    "speed = -1": {"speed": -1.0},
    "speed = 2": {"speed": 2.0},
    "limits of -1": {"limits": -1.0},
    "another machine": {"machine": "nobody"},
}
UNUSABLE_MESSAGES: dict[str, dict[str, Any]] = {  # which packets cannot say
    "timeout = inf": {"timeout": math.inf},
    "other inputs": {"inputs": ["nothing"]},
    'command = "nothing"': {"command": "nothing"},
}

# an `applied` in lockstep at step k that must be ignored
IGNORED: dict[str, Callable[[int], dict[str, int]]] = {
    "of another step": lambda k: {"k": k + 1, "until": k + 10},
    "that goes back": lambda k: {"until": max(k - 10, 0)},
    "of more than 1 000 000 steps": lambda k: {"until": k + 1_000_001},
}

UNSEEN = (
    "what motors do with the inputs (sign, side, scale; a brake only reported), states older than their stamps, "
    "the machine's own limits, sensors that fail, what acts before the first setup; try it by hand, under small limits"
)


# packets that firmware must refuse: good ones of inputs with one defect


def _sealed(packet: bytes) -> bytes:
    """The packet with its CRC corrected."""
    return packet[:-2] + struct.pack("<H", crc_hqx(packet[:-2], 0xFFFF))


def _with(at: int, field: bytes) -> Callable[[bytes], bytes]:
    """Puts this into a packet, from this byte on."""
    return lambda packet: _sealed(packet[:at] + field + packet[at + len(field) :])


LENGTH = "compare the length with the payload's"
PACKETS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "corrupt packet": (
        lambda packet: packet[:-1] + bytes((packet[-1] ^ 1,)), "compare the CRC before anything else is accepted",
    ),
    "other magic": (_with(0, b"\0"), "refuse what does not begin with the magic number"),
    "other version": (_with(2, bytes((VERSION + 1,))), "refuse packets of another protocol version"),
    "other type": (_with(3, bytes((STATE,))), "take setups and `applied` alone"),
    "late step": (_with(20, struct.pack("<Q", LAST_STEP + 1)), "refuse steps above 2^53"),
    "unknown flag": (_with(28, b"\x08"), "refuse flags that have no meaning"),
    "short packet": (lambda packet: _sealed(packet[:-3]), LENGTH),
    "long packet": (lambda packet: _sealed(packet + bytes(4)), LENGTH),
}  # fmt: skip
