"""What annotates a key of a launch file: its bounds, its unit and one sentence."""

from typing import Annotated

from msgspec import Meta

MAX_SECONDS = 9e9  # 285 years; in nanoseconds within 64 bits

Seconds = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]
Wait = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
Share = Annotated[float, Meta(ge=0, le=1)]


def key(sentence: str, unit: str = "") -> Meta:
    """What a key is, and its unit; behind the type in its annotation."""
    return Meta(description=sentence, extra={"unit": unit})
