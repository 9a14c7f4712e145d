"""The manifest of a run on two computers: what both must have in common, as texts by name, and what differs.

Nothing in it depends on a processor, a folder or a version of Python: the computers may differ in these.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.hosts import shared_keys
from servonode.closed_loop.launch_file import table_of
from servonode.record.schemas import schemas
from servonode.version import VERSION

FOLDER = Path(__file__).parents[1]  # of the package
LARGEST = 60_000  # bytes of a manifest as JSON, which fits a message with what says whose it is
LONGEST = 80  # characters of a value; a longer one is cut, and has its digest behind it
MOST_KEYS = 8  # of the launch file, in a sentence; more are counted
ROOMS = ("kernels", "definitions", "mechanics", "robots", "bus", "plants", "controllers", "estimators", "closed_loop")
NODES = ("nodes",)
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
    table, source = table_of(closed_loop.derived.stated), closed_loop.source
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
    """A digest of servonode's own sources, of the rooms that compute the loop or carry its messages.

    It tells apart working copies that have the same version.
    """
    digest = hashlib.sha256()
    files = {
        file.relative_to(FOLDER).as_posix(): file for room in (*ROOMS, *NODES) for file in (FOLDER / room).rglob("*.py")
    }
    for name, file in sorted(files.items()):
        digest.update(f"{name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:40]}... (digest {_digest(text)})"


def _shown(text: str | None) -> str:
    """A text of a manifest for people: without what would disturb a terminal, for it came from another computer."""
    cut = _cut(ABSENT if text is None else text)
    return "".join(c if c.isprintable() else "?" for c in cut)
