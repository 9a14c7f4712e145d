"""The entries of the gallery, by source. A new one: a function that makes a Content, and an Entry of it."""

from gallery_entries import ball, hoop, robots, snowboarder, sphero, theory, trailer
from gallery_entries.frame import Entry, Source

_PARTS = (trailer, sphero, snowboarder, hoop, ball, theory, robots)
SOURCES: tuple[Source, ...] = tuple(part.SOURCE for part in _PARTS)
ENTRIES: tuple[Entry, ...] = tuple(entry for part in _PARTS for entry in part.ENTRIES)
