"""The keys of [plant.link]."""

from typing import Annotated, Literal

from msgspec import Struct

from servonode.plants.keys import MAX_SECONDS, Seconds, Share, Wait, key


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
