"""What the tests of the core leave out where a wing is not there: its packaged launch files, and what needs it."""

from typing import Any

import pytest

from servonode.closed_loop.launch_file import packaged
from servonode.extensions import WINGS

FROM_OUTSIDE = ("base_tap",)  # its goals come from outside, and so in real time only
OF_WINGS = {"_mujoco": "robots", "_sweep": "explore"}  # endings of packaged launch files, and the wing that reads them


def wing(name: str) -> bool:
    """Whether a wing of servonode is there."""
    return (WINGS / name / "entry_points.py").is_file()


def needs_wing(name: str) -> Any:
    """The mark of a test or parameter that is skipped where a wing of servonode is not there."""
    return pytest.mark.skipif(not wing(name), reason=f"needs the wing {name} of servonode")


def launches() -> dict[str, str]:
    """The packaged launch files that the core and the wings that are there can read, and what they say."""
    return {each: text for each, text in packaged().items() if not each.endswith(ABSENT)}


ABSENT = tuple(ending for ending, name in OF_WINGS.items() if not wing(name))
