"""What docs/systems shows computed: a function for each entry, by name, that makes its pictures and tables."""

from collections.abc import Callable

from gallery_entries import ball, hoop, robots, snowboarder, sphero, theory, trailer
from gallery_entries.frame import Content

_PARTS = (trailer, sphero, snowboarder, hoop, ball, theory, robots)
ENTRIES: dict[str, Callable[[], Content]] = {name: make for part in _PARTS for name, make in part.ENTRIES.items()}
