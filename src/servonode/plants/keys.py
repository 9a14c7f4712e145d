"""What annotates a key of a launch file: bounds, unit, one sentence, its nature. And the tables of plants' own keys."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

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


class AddedSection(Struct, frozen=True, forbid_unknown_fields=True):
    """A section of launch files that a wing or another package adds; `key` annotates each of its keys.

    fixed: why they stay as they are while a run is in progress. unvaried: why they cannot differ between the runs of a
    sweep. alone: why no robot of a launch of several may state them. Empty: there is no reason of this section's own.
    """

    fixed: ClassVar[str] = ""
    unvaried: ClassVar[str] = ""
    alone: ClassVar[str] = ""

    @classmethod
    def stated(cls, table: dict[str, Any]) -> dict[str, Any]:
        """The table of a launch file, before its keys are read."""
        return table


class Impairments(Struct, frozen=True, forbid_unknown_fields=True):
    """[plant.link]: faults of the link to a loopback machine, in each direction; probabilities are per message."""

    delay: Annotated[Wait, key("the transit time of a message", "s (wall clock)")] = 0.0
    jitter: Annotated[Wait, key("the largest random addition to that time", "s (wall clock)")] = 0.0
    loss: Annotated[Share, key("the probability that a message is lost")] = 0.0
    duplicate: Annotated[Share, key("the probability that a message comes twice")] = 0.0
    reorder: Annotated[Share, key("the probability that the next message overtakes it")] = 0.0
    corrupt: Annotated[Share, key("the probability that some bytes of a message are changed")] = 0.0
    cut: Annotated[
        Literal["none", "both", "state", "applied"],
        key("the direction in which no message passes while the link is cut"),
    ] = "none"
    cut_at: Annotated[Wait, key("the time from the handshake to the cut", "s (wall clock)")] = 0.0
    cut_for: Annotated[Seconds, key("the duration of the cut", "s (wall clock)")] = MAX_SECONDS
