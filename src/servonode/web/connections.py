"""The connections to the page's server, bounded in number: anybody on this computer may open some, without the link.

Those that have been open for the longest make room for new ones, unless a request with the link is being answered: so
nobody can keep the emergency stop from the browser by holding connections.
"""

import asyncio
import time

from uvicorn.protocols.http.h11_impl import H11Protocol

from servonode.bus.descriptors import share

MOST = 256  # connections at once that are no websocket, where the limit of open files allows so many
AT_ONCE = 64  # accepted between two looks at what was sent on those before: fewer than there is room for
ADMITTED = "servonode.admitted"  # in the scope of a request that came with the link


class BoundedProtocol(H11Protocol):
    """A connection that is closed to make room for another one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the oldest ones where there are too many now."""
        super().connection_made(transport)
        self.since = time.monotonic()
        most = share(MOST)
        if len(self.connections) > most:
            others = [each for each in self.connections if isinstance(each, BoundedProtocol) and each is not self]
            strangers = sorted((each for each in others if not each.is_answering()), key=lambda each: each.since)
            for each in strangers[: most // 4 if len(others) >= most else 0]:
                each.transport.abort()

    def is_answering(self) -> bool:
        """Whether a request with the link is being answered."""
        return self.cycle is not None and not self.cycle.response_complete and ADMITTED in self.cycle.scope
