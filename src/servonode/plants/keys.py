"""What annotates a key of a launch file: its bounds, its unit, one sentence, and its nature."""

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

MAX_SECONDS = 9e9  # 285 years; in nanoseconds within 64 bits

Seconds = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]
Wait = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
Share = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True)
class Nature:
    """What a key of a launch file is, beside its type and its sentence."""

    unit: str = ""
    of: str = ""  # what the names of its table are, such as an input, whose units entries have unless `unit` is one
    derived: str = ""  # of which derived equations it is part, so that it cannot vary
    live: str = ""  # the node that takes new numbers of it while a run is in progress
    fixed: str = ""  # why it, or an entry of it, stays as it is then; empty: as its section says
    here: bool = False  # whether it concerns one computer alone of two
    times: bool = False  # whether the times of a run depend on it
    sizes: bool = False  # whether other arrays of a run do, such as what waits for its time
    apart: bool = False  # whether it is a table with a text of its own on the page


def key(sentence: str, unit: str = "", **more: Any) -> Meta:
    """What a key is, and its unit; behind the type in its annotation. more: of its nature."""
    return Meta(description=sentence, extra={"unit": unit, "nature": Nature(unit, **more)})
