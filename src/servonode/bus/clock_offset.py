"""The offset of another computer's monotonic clock, and the delay of the link, from exchanges of time stamps (as NTP).

No decision rests on the offset: it is shown, and joins recordings. The exchange with the least delay bounds its error:
the true offset differs by at most half of that delay.
"""

from collections import deque

KEPT = 64  # exchanges that count


class ClockOffset:
    """The offset and the delays of the newest exchanges."""

    def __init__(self) -> None:
        self._exchanges: deque[tuple[int, int]] = deque(maxlen=KEPT)  # delay there and back, offset [ns]

    def add(self, sent: int, came: int, answered: int, received: int) -> None:
        """Take one exchange: `sent` and `received` on our clock, `came` and `answered` on the other one [ns].

        An exchange whose times are not in order is ignored: the peer's clock went backwards.
        """
        delay = (received - sent) - (answered - came)
        if answered >= came and delay >= 0:
            self._exchanges.append((delay, ((came - sent) + (answered - received)) // 2))

    def forget(self) -> None:
        """Forget all exchanges: the other computer has started anew."""
        self._exchanges.clear()

    @property
    def known(self) -> bool:
        """Whether there was an exchange."""
        return bool(self._exchanges)

    @property
    def offset_ns(self) -> int:
        """What is added to our clock to have the other one [ns]: of the exchange with the least delay."""
        return min(self._exchanges)[1]

    def values(self) -> dict[str, float]:
        """The offset, its largest error, and the median and the largest delay there and back [s]; empty: not known."""
        if not self._exchanges:
            return {}
        delays = sorted(delay for delay, _ in self._exchanges)
        return {
            "offset_s": self.offset_ns / 1e9,
            "offset_error_s": delays[0] / 2e9,
            "delay_s": delays[len(delays) // 2] / 1e9,
            "delay_max_s": delays[-1] / 1e9,
        }
