"""How the relays of two computers meet: who they are, whether they run the same, and whether their keys may do it.

The computer that connects says hello until the one that listens accepts or refuses it. Both look at the other's
manifest. The one that listens goes on waiting after a refusal; the one that connects ends with the reason.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from servonode.bus.keys import OBSERVE, ROLE_OF, TrustedKey
from servonode.bus.messages import MAX_PAYLOAD
from servonode.bus.tunnel import Peer
from servonode.nodes.manifest import differences

HELLO, ACCEPTED, REFUSED, BUSY = b"H", b"A", b"R", b"Y"
SILENT_NS = 1_500_000_000  # after which another computer may take the place of one that says nothing
TELL_NS = 1_000_000_000  # between two refusals that people are told
LONGEST = 4000  # characters of one
HELLO_NS, HURRY_NS = 200_000_000, 20_000_000  # between two hellos, and where the other computer does not know us

Send = Callable[..., None]  # peer, frames


class Hello(msgspec.Struct):
    """What each computer says of itself. start: of its part of the run; nodes: those that it runs."""

    start: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    nodes: Annotated[tuple[str, ...], Meta(max_length=8)]
    manifest: dict[str, str]


_decode = msgspec.json.Decoder(Hello).decode


def printable(text: str) -> str:
    """A text of the other computer as it may stand in a terminal."""
    return "".join(each if each.isprintable() else "?" for each in text[:LONGEST])


class Meeting:
    """The other computer: whether it has been met, answers, or has refused us.

    here, there: the nodes of this computer and of the other one. listens: whether this one listens. say: tells people.
    """

    def __init__(
        self,
        here: Sequence[str],
        there: Sequence[str],
        manifest: Mapping[str, str],
        start: int,
        listens: bool,
        say: Callable[[str], None],
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.peer: Peer | None = None  # whom to send to; None: nobody has been met
        self.key: TrustedKey | None = None  # its key, as it was when it was met
        self.refused = ""  # why the other computer is refused, or has refused us
        self.met = self.ended = False  # whether there was ever one; whether it has said that its run has ended
        self.received_ns = 0
        self._start = 0  # of the other relay
        self._unknown = False  # whether it has said that it does not know us
        self._here, self._there, self._listens = tuple(here), tuple(there), listens
        self._hello = msgspec.json.encode(Hello(start, self._here, dict(manifest)))
        self._manifest, self._say = manifest, say
        self._greeted_ns = self._next_ns = 0  # when the last hello was said, and when the next one is due
        self._told, self._told_ns = "", -TELL_NS  # the last refusal that people were told, and when

    def connected(self, now: int) -> bool:
        """Whether something has come from the other computer lately."""
        return self.peer is not None and not (self.ended or self._unknown) and now - self.received_ns < SILENT_NS

    def greet(self, now: int, send: Send) -> None:
        """Say hello where that is this computer's part, and due."""
        if not self._listens and not self.connected(now) and now >= self._next_ns:
            self._greeted_ns, self._next_ns = now, now + HELLO_NS
            send(b"", HELLO, self._hello)

    def hurry(self) -> None:
        """Say hello soon: the other computer does not know us. Not for the one that listens: others could say that."""
        if not self._listens:
            self._unknown, self._next_ns = True, min(self._next_ns, self._greeted_ns + HURRY_NS)

    def note(self, peer: Peer, now: int) -> bool:
        """Note that something came; False if it is not from whom was met."""
        if peer != self.peer:
            return False
        self.received_ns, self.met = now, True
        return True

    def take(self, peer: Peer, key: TrustedKey | None, kind: bytes, payload: bytes, now: int, send: Send) -> bool:
        """Take a hello or its answer; whether the other computer has been met just now, perhaps once more."""
        if kind == REFUSED:
            if not self._listens:
                self.refused = printable(payload.decode(errors="replace"))
            return False
        if kind == BUSY:
            if not self._listens:
                self._tell(f"{payload.decode(errors='replace')}; waiting until that has ended its part", now)
            return False
        try:
            said = _decode(payload)
        except (msgspec.DecodeError, RecursionError):
            self.counts["refused_hellos"] += 1
            return False
        if self._listens and said.start != self._start and self.connected(now):
            self.counts["refused_hellos"] += 1
            send(peer, BUSY, f"another computer ({_named(self.key)}) is connected to this run".encode())
            return False
        why = theirs = self._refusal(said, key)
        if not why:
            why = "; ".join(differences(self._manifest, said.manifest))
            theirs = "; ".join(differences(said.manifest, self._manifest))
        if not why:
            return self._meet(peer, key, said.start, now, send)
        self.counts["refused_hellos"] += 1
        if self._listens:
            send(peer, REFUSED, theirs.encode()[:MAX_PAYLOAD])
            self._tell(f"{_named(key)} is refused: {why}; waiting for another attempt", now)
        self.refused = why
        return False

    def _tell(self, text: str, now: int) -> None:
        """Tell people, once, and not more often than every TELL_NS: the text has parts that came from there."""
        if text != self._told and now - self._told_ns > TELL_NS:
            self._told, self._told_ns = text, now
            self._say(printable(text))

    def _meet(self, peer: Peer, key: TrustedKey | None, start: int, now: int, send: Send) -> bool:
        if self._listens:
            send(peer, ACCEPTED, self._hello)
        new = (start, peer) != (self._start, self.peer) or not self.connected(now)
        self.peer, self.key, self._start, self.received_ns = peer, key, start, now
        # the one that connects may still refuse: only what it says next shows that it does not
        self.met, self.ended, self.refused = self.met or not self._listens, False, ""
        self._unknown = False
        return new

    def _refusal(self, said: "Hello", key: TrustedKey | None) -> str:
        """Why the other computer is not accepted, whatever it runs; empty: it is."""
        if said.nodes != self._there:
            there, wanted = (", ".join(each) or "none" for each in (said.nodes, self._there))
            return f"the other computer runs {there}, and [hosts] of the launch file here leaves it {wanted}"
        needed = {ROLE_OF[node] for node in self._there} or {OBSERVE}  # a computer without nodes only receives
        if key is not None and (missing := sorted(needed - set(key.roles))):
            roles = " ".join(f"--role {role}" for role in (*key.roles, *missing))
            return (
                f"key {key.name!r} is not trusted as {' and '.join(missing)} by the computer that refuses; there: "
                f"servonode keys trust {key.name}.key {roles}"
            )
        return ""


def _named(key: TrustedKey | None) -> str:
    return f"the computer with key {key.name!r}" if key else "a computer"
