"""How the relays of two computers meet: who they are, whether they run the same, and whether their keys may do it.

The computer that connects says hello until the one that listens accepts or refuses it. Both look at the other's
manifest: what they must have in common, as texts by name, of which none depends on a processor, a folder or a version
of Python. The one that listens goes on waiting after a refusal; the one that connects ends with the reason.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from servonode.bus.envelope import MAX_WHY, Busy, Envelope, Hello, Refused
from servonode.bus.keys import OBSERVE, ROLE_OF, TrustedKey
from servonode.bus.tunnel import Peer
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.hosts import shared_keys
from servonode.closed_loop.launch_file import table_of
from servonode.record.write import schemas
from servonode.version import VERSION

SILENT_NS = 1_500_000_000  # after which another computer may take the place of one that says nothing
TELL_NS = 1_000_000_000  # between two refusals that people are told
HELLO_NS, HURRY_NS = 200_000_000, 20_000_000  # between two hellos, and where the other computer does not know us

Send = Callable[[Peer, Envelope], None]
FOLDER = Path(__file__).parents[1]  # of the package
LARGEST = 60_000  # bytes of a manifest as JSON, which fits a message with what says whose it is
LONGEST_VALUE = 80  # characters; a longer one is cut, and has its digest behind it
MOST_KEYS = 8  # of the launch file, in a sentence; more are counted
# that compute the loop or carry its messages; no run of two computers needs the same wings on both
ROOMS = (
    "kernels",
    "definitions",
    "mechanics",
    "bus",
    "plants",
    "controllers",
    "estimators",
    "closed_loop",
    "nodes",
)
COPY = "copy its file (Python, URDF or MJCF) and those that it imports to both computers, or install the same package"
REMEDIES = {
    "servonode": "install the same version on both computers",
    "the machine": COPY,
    "the program": COPY,
    "--readonly": "give it on both computers, or on neither",
}
SCHEMA = "the schema of the messages"
ABSENT = "absent"


def manifest(closed_loop: ClosedLoop) -> dict[str, str]:
    """The manifest of a run: versions and digests, then each key of the launch file as it was read, by `[section] key`.

    Where that would be too long, the sections of the launch file with their digests.
    """
    table, source = table_of(closed_loop.stated), closed_loop.source
    found = {
        "servonode": f"{VERSION} (sources {_sources()})",
        "the machine": _digest(source.definition.digest(**source.settings)),
        "the program": _program(closed_loop),
        "--readonly": "given" if closed_loop.readonly else ABSENT,
        SCHEMA: _digest(json.dumps(schemas(closed_loop), sort_keys=True)),
    }
    whole = found | {name: _cut(text) for name, text in shared_keys(table)}
    return whole if len(json.dumps(whole)) <= LARGEST else found | _sections(table)


def _program(closed_loop: ClosedLoop) -> str:
    """A digest of the sources of the program, unless the launch file holds all of it."""
    controller, control = closed_loop.launch.controller, closed_loop.control
    if controller is None or control is None or controller.program is None:
        return ABSENT
    return _digest(control.source.digest(control.believed.build, control.options))


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """A sentence for each difference, with both values and the remedy. ours: of the computer that is called here."""
    differing = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    found = [_sentence(name, ours, theirs, remedy) for name, remedy in REMEDIES.items() if name in differing]
    keys = [key for key in differing if key not in REMEDIES and key != SCHEMA]
    if keys:
        several = (f"{_shown(key)} is {_shown(ours.get(key))} here and {_shown(theirs.get(key))} there" for key in keys)
        more = f", and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
        remedy = "copy the file to both computers, and run it with the same --set"
        found.append(f"the launch file differs: {', '.join(islice(several, MOST_KEYS))}{more}; {remedy}")
    if SCHEMA in differing and not found:  # else it follows from the others
        found.append(_sentence(SCHEMA, ours, theirs, "install the same version of servonode on both computers"))
    return found


def _sentence(name: str, ours: Mapping[str, str], theirs: Mapping[str, str], remedy: str) -> str:
    return f"{name} differs: here {_shown(ours.get(name))}, there {_shown(theirs.get(name))}; {remedy}"


def _sections(table: Mapping[str, Any]) -> dict[str, str]:
    """The digest of each section with all that is in it."""
    parts: dict[str, list[str]] = {}
    for name, text in shared_keys(table):
        parts.setdefault(f"{name.partition(']')[0].partition('.')[0]}]", []).append(f"{name} = {text}")
    return {section: _digest("\n".join(sorted(texts))) for section, texts in parts.items()}


@cache
def _sources() -> str:
    """A digest of servonode's own sources, which tells apart working copies that have the same version."""
    digest = hashlib.sha256()
    files = {file.relative_to(FOLDER).as_posix(): file for room in ROOMS for file in (FOLDER / room).rglob("*.py")}
    for name, file in sorted(files.items()):
        digest.update(f"{name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:40]}... (digest {_digest(text)})"


def _shown(text: str | None) -> str:
    """A text of a manifest for people."""
    return printable(_cut(ABSENT if text is None else text))


def printable(text: str) -> str:
    """A text of the other computer as it may stand in a terminal."""
    return "".join(each if each.isprintable() else "?" for each in text[:MAX_WHY])


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
        self._hello = Hello(start, self._here, dict(manifest))
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
            send(b"", self._hello)

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

    def take(self, peer: Peer, key: TrustedKey | None, said: Hello | Refused | Busy, now: int, send: Send) -> bool:
        """Take a hello or its answer; whether the other computer has been met just now, perhaps once more."""
        if not isinstance(said, Hello):
            if self._listens:
                return False
            if isinstance(said, Refused):
                self.refused = printable(said.why)
            else:
                self._tell(f"{said.why}; waiting until that has ended its part", now)
            return False
        if self._listens and said.start != self._start and self.connected(now):
            self.counts["refused_hellos"] += 1
            send(peer, Busy(f"another computer ({_named(self.key)}) is connected to this run"))
            return False
        why = theirs = self._refusal(said, key)
        if not why:
            why = "; ".join(differences(self._manifest, said.manifest))
            theirs = "; ".join(differences(said.manifest, self._manifest))
        if not why:
            return self._meet(peer, key, said.start, now, send)
        self.counts["refused_hellos"] += 1
        if self._listens:
            send(peer, Refused(theirs[:MAX_WHY]))
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
            send(peer, self._hello)
        new = (start, peer) != (self._start, self.peer) or not self.connected(now)
        self.peer, self.key, self._start, self.received_ns = peer, key, start, now
        # the one that connects may still refuse: only what it says next shows that it does not
        self.met, self.ended, self.refused = self.met or not self._listens, False, ""
        self._unknown = False
        return new

    def _refusal(self, said: Hello, key: TrustedKey | None) -> str:
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
