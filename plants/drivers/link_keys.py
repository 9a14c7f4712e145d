"""The keys of [plant.link]."""

from typing import Annotated, Literal

from msgspec import Struct

from servonode.plants.keys import MAX_SECONDS, Seconds, Share, Wait, key


class Impairments(Struct, frozen=True, forbid_unknown_fields=True):
    """[plant.link]: faults of the link to a loopback machine, each way; chances per message."""

    delay: Annotated[Wait, key("the time a message takes", "s (wall clock)")] = 0.0
    jitter: Annotated[Wait, key("up to how much longer it takes, at random", "s (wall clock)")] = 0.0
    loss: Annotated[Share, key("the chance that a message is lost")] = 0.0
    duplicate: Annotated[Share, key("the chance that it comes twice")] = 0.0
    reorder: Annotated[Share, key("the chance that the next one overtakes it")] = 0.0
    corrupt: Annotated[Share, key("the chance that some of its bytes are changed")] = 0.0
    cut: Annotated[
        Literal["none", "both", "state", "applied"], key("which way nothing passes while the link is cut")
    ] = "none"
    cut_at: Annotated[Wait, key("when the cut begins, from the handshake on", "s (wall clock)")] = 0.0
    cut_for: Annotated[Seconds, key("how long it lasts", "s (wall clock)")] = MAX_SECONDS
