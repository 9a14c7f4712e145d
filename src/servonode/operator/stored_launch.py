"""The launch file of a run in progress, of its registry."""

from pathlib import Path
from typing import Any

from servonode.bus import BusError
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import launch_of_table


def stored_closed_loop(registry: dict[str, Any]) -> ClosedLoop:
    """The resolved launch file of a run, from its registry; raises as `resolve`, BusError where it has none."""
    stored = registry.get("launch")
    if not stored:
        raise BusError(f"run {registry.get('run')!r} does not say what it runs; its servonode has another version")
    launch = launch_of_table(stored["table"], path=Path(stored["path"]), file=stored["file"])
    return resolve(launch, strict=False)
