"""The example of a curriculum learns, and learns the same each time."""

import runpy
from pathlib import Path

import numpy as np

EXAMPLE = runpy.run_path(str(Path(__file__).parents[4] / "examples" / "learning" / "back_up.py"))


def test_a_policy_learns_to_back_a_trailer_from_ever_wilder_starts() -> None:
    said = list[str]()
    policy, mastered = EXAMPLE["learn"](rounds=6, say=said.append)
    assert len(said) == 6
    assert mastered > 0.05
    again, _ = EXAMPLE["learn"](rounds=6, say=said.append)
    assert np.array_equal(policy, again)
    assert said[:6] == said[6:]
