"""The summaries that the nodes of one computer leave at the end of a run, as its relay sends them to the other one."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from servonode.bus.messages import LARGEST, MAX_ITEMS, MAX_PAYLOAD, MAX_TEXT, Count, Text
from servonode.bus.topology import PLANT
from servonode.nodes.meeting import printable

MOST_FAULTS = 20  # of a node
SHORTER = (MOST_FAULTS, 5, 1, 0)  # faults of a node, until all fits one message

Seconds = Annotated[float, Meta(ge=0, le=LARGEST)]


class LeftFault(msgspec.Struct):
    """A fault, as `Fault.as_dict` gives it."""

    name: Text
    text: Text
    t: Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
    node: Text


class Percentiles(msgspec.Struct):
    """Times, as `Durations.percentiles` gives them."""

    p50: Seconds
    p99: Seconds
    p999: Seconds
    max: Seconds


class Left(msgspec.Struct, omit_defaults=True):
    """What is sent of a node's summary: what the other computer shows, or decides by."""

    faults: Annotated[list[LeftFault], Meta(max_length=MOST_FAULTS)] = []
    counts: Annotated[dict[Text, Count], Meta(max_length=MAX_ITEMS)] = {}
    times: Annotated[dict[Text, Percentiles], Meta(max_length=MAX_ITEMS)] = {}
    k: Count | UnsetType = UNSET
    wall_s: Seconds | UnsetType = UNSET
    stopped_by: Text = ""


_decode = msgspec.json.Decoder(Annotated[dict[Text, Left], Meta(max_length=8)]).decode


def encode_summaries(summaries: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The summaries by node, in one message: with fewer faults, and no counts and times, where they are too long."""
    for most in SHORTER:
        payload = msgspec.json.encode({node: _sent(each, most) for node, each in summaries.items() if each})
        if len(payload) <= MAX_PAYLOAD:
            break
    return payload


def _sent(summary: Mapping[str, Any], most: int) -> Left:
    whole = most == MOST_FAULTS
    faults = [
        LeftFault(fault["name"], fault["text"][:MAX_TEXT], fault["t"], fault["node"])
        for fault in summary.get("faults", [])[:most]
    ]
    return Left(
        faults,
        summary.get("counts", {}) if whole else {},
        {name: Percentiles(**each) for name, each in summary.get("times", {}).items() if each} if whole else {},
        summary.get("k", UNSET),
        summary.get("wall_s", UNSET),
        summary.get("stopped_by", "")[:MAX_TEXT],
    )


def decode_summaries(payload: bytes) -> dict[str, dict[str, Any]]:
    """The summaries by node; ValueError for anything else, whatever the bytes. Their texts may stand in a terminal."""
    try:
        found = _decode(payload)
    except RecursionError:
        raise ValueError("nested too deep") from None
    for node, left in found.items():
        if node == PLANT and left.k is UNSET:
            raise ValueError("the plant's summary has no step")
        left.stopped_by = printable(left.stopped_by)
        for fault in left.faults:
            fault.name, fault.text, fault.node = map(printable, (fault.name, fault.text, fault.node))
        left.counts = {printable(name): number for name, number in left.counts.items()}
    return {node: msgspec.to_builtins(left) for node, left in found.items()}
