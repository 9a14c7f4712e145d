"""A recording in Foxglove's own types: MCAP, written by its SDK."""

from collections.abc import Iterable
from pathlib import Path

from servonode.neighbours.foxglove_messages import Channels
from servonode.neighbours.libraries import library
from servonode.neighbours.moments import Layout, Moment
from servonode.record.files import replaced_file


def write_foxglove_bag(layout: Layout, moments: Iterable[Moment], file: Path) -> int:
    """Write moments to a new file; how many there are.

    Raises:
        NotInstalled: foxglove-sdk is missing; OSError: the file cannot be written.
    """
    foxglove = library("foxglove")
    context, count = foxglove.Context(), 0
    channels = Channels(layout, context)
    with replaced_file(file) as draft, foxglove.open_mcap(draft, allow_overwrite=True, context=context):
        for moment in moments:
            if not count:
                channels.log_solids(moment)
            channels.log(moment)
            count += 1
    return count
