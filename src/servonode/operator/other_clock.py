"""The nodes of a run that are on another computer, as a listener on this one needs them: the times of its clock."""

from typing import Any

from msgspec.structs import replace

from servonode.bus import Message, Status
from servonode.bus.topology import RELAY


class OtherClock:
    """Converts the clock of messages that come from another computer, as the newest status of the relay says.

    registry: that of the run.
    """

    def __init__(self, registry: dict[str, Any]) -> None:
        self._nodes = set(registry.get("elsewhere", ()))
        self._offset_ns: int | None = None  # what is added to our clock to have theirs

    def on_ours(self, message: Message) -> Message | None:
        """The message with a time of this computer's clock; None while it is not known what stands between the two."""
        if message.node == RELAY and isinstance(message, Status) and "offset_s" in message.values:
            self._offset_ns = round(message.values["offset_s"] * 1e9)
        if message.node not in self._nodes:
            return message
        return None if self._offset_ns is None else replace(message, mono=max(message.mono - self._offset_ns, 0))
