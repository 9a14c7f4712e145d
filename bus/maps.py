"""Requests and replies: free msgpack maps, held to the limits of the messages."""

import math
from typing import Any

import msgpack

from servonode.bus.codec import MessageError, pack
from servonode.bus.messages import MAX_ITEMS, MAX_PAYLOAD, MAX_TEXT

MAX_DEPTH = 8  # nesting, the map itself included


def encode_map(content: dict[str, Any]) -> bytes:
    """A request or a reply as one msgpack map; raises as `encode`."""
    payload = pack(content)
    if len(payload) > MAX_PAYLOAD:
        raise MessageError("length", f"{len(payload)} bytes, at most {MAX_PAYLOAD} travel")
    return payload


def decode_map(payload: bytes) -> dict[str, Any]:
    """The request or reply in `payload`, with the limits of the messages; MessageError for anything else."""
    if len(payload) > MAX_PAYLOAD:
        raise MessageError("length", f"{len(payload)} bytes")
    try:
        content = msgpack.unpackb(
            payload,
            strict_map_key=True,
            max_str_len=4 * MAX_TEXT,  # bytes of UTF-8; characters are counted below
            max_array_len=MAX_ITEMS,
            max_map_len=MAX_ITEMS,
            max_bin_len=0,
            max_ext_len=0,
        )
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise MessageError("malformed", str(error)) from None
    if not isinstance(content, dict):
        raise MessageError("type", "not a map")
    _check(content, MAX_DEPTH)
    return content


def _check(value: Any, depth: int) -> None:
    """MessageError unless `value` is built of texts, flags, finite numbers, lists and maps with text keys."""
    if depth == 0:
        raise MessageError("limits", f"nested deeper than {MAX_DEPTH}")
    match value:
        case float() if not math.isfinite(value):
            raise MessageError("non_finite")
        case bool() | None | float():
            pass
        case int() if not -(2**63) <= value < 2**63:
            raise MessageError("limits", f"integer {value}")
        case int():
            pass
        case str() if len(value) > MAX_TEXT:
            raise MessageError("limits", f"text of {len(value)} characters")
        case str():
            pass
        case list():
            for item in value:
                _check(item, depth - 1)
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise MessageError("type", f"key {key!r}")
                _check(key, depth)
                _check(item, depth - 1)
        case _:
            raise MessageError("type", type(value).__name__)
