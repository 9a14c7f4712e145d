"""Requests and replies: free msgpack maps, held to the limits of the messages."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from servonode.bus.codec import MessageError, pack
from servonode.bus.messages import LARGEST, MAX_ITEMS, MAX_PAYLOAD, Text

MAX_DEPTH = 8  # nesting, the map itself included

_Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Finite = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
_SCALAR: Any = None | bool | _Integer | _Finite | Text


def _map_of(inner: Any) -> Any:
    return Annotated[dict[Text, inner], Meta(max_length=MAX_ITEMS)]


def _nested(depth: int) -> Any:
    """The values that are allowed with `depth` levels left; the decoder refuses deeper ones and allocates nothing."""
    if depth == 1:
        return _SCALAR
    inner = _nested(depth - 1)
    return _SCALAR | Annotated[list[inner], Meta(max_length=MAX_ITEMS)] | _map_of(inner)  # type: ignore[valid-type]


_read = msgspec.msgpack.Decoder(_map_of(_nested(MAX_DEPTH - 1))).decode


def encode_map(content: dict[str, Any]) -> bytes:
    """A request or a reply as one msgpack map; raises as `encode`."""
    payload = pack(content)
    if len(payload) > MAX_PAYLOAD:
        raise MessageError("length", f"{len(payload)} bytes, at most {MAX_PAYLOAD} can be sent")
    return payload


def decode_map(payload: bytes) -> dict[str, Any]:
    """The request or reply in `payload`, with the limits of the messages; MessageError for anything else."""
    if len(payload) > MAX_PAYLOAD:
        raise MessageError("length", f"{len(payload)} bytes")
    try:
        content: dict[str, Any] = _read(payload)
    except msgspec.ValidationError as error:
        raise MessageError(_reason(str(error)), str(error)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise MessageError("malformed", str(error)) from None
    return content


def _reason(text: str) -> str:
    """The reason to count for a text of the decoder; tests compare these texts."""
    if "got `" in text:
        return "type"
    return "non_finite" if text.startswith("Expected `float` ") else "limits"
