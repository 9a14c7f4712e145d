"""The bounded solution with its feedback, computed once for the same numbers: it stands in the cache of kernels."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from servonode.arrays import Array
from servonode.controllers.inversion.bounded import Bounded
from servonode.controllers.inversion.feedforward import Pieces
from servonode.definitions import cache


class Solution(msgspec.Struct, frozen=True):
    """A bounded solution and its feedback: gains K (m, n_tau, n_held) at the control instants.

    `radius` is the largest eigenvalue of the sampled loop at the end.
    """

    bounded: Bounded
    K: Array
    radius: float


def stored_solution(key: str, solve: Callable[[], Solution], what: str) -> Solution:
    """The solution of a key, from the cache or by `solve`."""
    content = cache.kept_text(key, lambda: msgspec.json.encode(solve(), enc_hook=_plain).decode(), what)
    return msgspec.json.decode(content, type=Solution, dec_hook=_array)


def _plain(array: Any) -> dict[str, Any]:
    return {"type": array.dtype.str, "shape": array.shape, "data": array.tobytes()}


def _array(_: type, stored: dict[str, Any]) -> Any:
    data = base64.b64decode(stored["data"])
    return np.frombuffer(data, stored["type"]).reshape(stored["shape"])


def state_pieces(found: Bounded) -> Pieces:
    """x* of the states that are held."""
    return Pieces(found.breaks, found.x_pieces)


def input_pieces(found: Bounded) -> Pieces:
    """u*, which may jump from piece to piece."""
    return Pieces(found.breaks, found.u_pieces)


def gain_pieces(K: Array, period: float) -> Pieces:
    """-K, straight from one control instant to the next."""
    flat = -K.reshape(len(K), -1)
    lines = np.stack([np.diff(flat, axis=0) / period, flat[:-1]], axis=1)
    return Pieces(np.arange(len(K), dtype=np.float64) * np.float64(period), lines)
