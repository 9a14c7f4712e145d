"""The faults of an unreliable link, drawn from a seed: delay, loss, duplication, reordering, damage, a cut."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import numpy as np

from servonode.plants.keys import Impairments

Frames = tuple[bytes, bytes]
T = TypeVar("T")
MOST_WAITING = 1000  # messages under way
DRAWS = 7  # random numbers for each message, used or not, so that one effect does not shift another's


class Way(Generic[T]):
    """One direction of the link: messages go in with the time [ns] they are sent, and come out when they arrive.

    Jitter alone keeps their order, as a stream does; only `reorder` changes it. impairments: of what is sent from now
    on. damage: a message that is corrupt, by two random numbers; None: nothing of it is left.
    """

    def __init__(
        self,
        impairments: Impairments,
        cut: bool,
        rng: np.random.Generator,
        damage: Callable[[T, float, float], T | None] = lambda *_: None,
    ) -> None:
        self.impairments = impairments
        self._cuts, self._rng, self._damage = cut, rng, damage
        self._waiting: deque[tuple[int, T]] = deque()  # arrival [ns] and message
        self._overtaken: tuple[T, ...] = ()  # at most one message, which arrives directly after the next
        self._last = 0  # newest arrival [ns]
        self.origin: int | None = None  # time of the first handshake [ns]

    def send(self, now: int, message: T) -> None:
        """Send a message, subject to the impairments."""
        late, lost, twice, overtaken, damaged, *where = self._rng.random(DRAWS).tolist()
        faults = self.impairments
        if lost < faults.loss or self._is_cut(now) or len(self._waiting) >= MOST_WAITING:
            return
        if damaged < faults.corrupt:
            left = self._damage(message, *where)
            if left is None:
                return
            message = left
        if overtaken < faults.reorder and not self._overtaken:
            self._overtaken = (message,)
            return
        self._last = max(self._last, now + round((faults.delay + late * faults.jitter) * 1e9))
        copies = 2 if twice < faults.duplicate else 1
        self._waiting.extend((self._last, each) for each in (*[message] * copies, *self._overtaken))
        self._overtaken = ()

    def clear(self) -> None:
        """Lose all that is under way."""
        self._waiting.clear()
        self._overtaken, self._last = (), 0

    def next_arrival(self) -> int | None:
        """The arrival time of the next message [ns], or None."""
        return self._waiting[0][0] if self._waiting else None

    def arrivals(self, now: int) -> Iterator[T]:
        """The messages that have arrived by now, in order of arrival."""
        while self._waiting and self._waiting[0][0] <= now:
            yield self._waiting.popleft()[1]

    def _is_cut(self, now: int) -> bool:
        if not self._cuts or self.origin is None:
            return False
        return 0 <= (now - self.origin) * 1e-9 - self.impairments.cut_at < self.impairments.cut_for


def both_ways(impairments: Impairments, seed: int) -> tuple[Way[Frames], Way[Frames]]:
    """The way to the machine and the way back, each with its own random numbers from the seed."""
    to, back = two_generators(seed)
    cut = impairments.cut
    return (
        Way(impairments, cut in ("both", "applied"), to, damaged),
        Way(impairments, cut in ("both", "state"), back, damaged),
    )


def two_generators(seed: int | list[int]) -> list[np.random.Generator]:
    """Random numbers for each way, from the seed."""
    return [np.random.default_rng(each) for each in np.random.SeedSequence(seed).spawn(2)]


def damaged(frames: Frames, place: float, size: float) -> Frames:
    """The frames with one to four bytes, in a row, inverted."""
    joined = bytearray(frames[0] + frames[1])
    begin = int(place * len(joined))
    for i in range(begin, min(begin + 1 + int(4 * size), len(joined))):
        joined[i] ^= 0xFF
    return bytes(joined[: len(frames[0])]), bytes(joined[len(frames[0]) :])
