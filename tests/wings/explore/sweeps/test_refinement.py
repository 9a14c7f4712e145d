"""A grid that is refined where neighbours differ is the whole grid, for a small part of its nodes."""

import numpy as np
import pytest

from servonode.wings.explore.sweeps.region import Nodes, refined


@pytest.mark.parametrize("radius", [23.0, 41.5, 60.0])
def test_a_disc_is_found_as_on_the_whole_grid(radius: float) -> None:
    tried: list[tuple[int, ...]] = []

    def kinds_of(nodes: Nodes) -> list[int]:
        tried.extend(map(tuple, nodes.tolist()))
        return [int(a**2 + b**2 < radius**2) for a, b in nodes.tolist()]

    found = refined(kinds_of, 9, 2, 3)
    a, b = np.indices(found.kinds.shape)
    assert found.kinds.shape == (65, 65)
    assert np.array_equal(found.kinds, a**2 + b**2 < radius**2)
    assert len(tried) == len(set(tried)) == found.computed.sum() < 0.13 * found.kinds.size


def test_a_boundary_on_a_line_is_bisected() -> None:
    found = refined(lambda nodes: [int(node > 700) for node in nodes[:, 0]], 3, 1, 9)
    assert np.flatnonzero(np.diff(found.kinds)).tolist() == [700]
    assert found.computed.sum() == 3 + 9


def test_a_boundary_that_leaves_the_divided_cells_is_followed() -> None:
    """What is new on the edge of a divided cell may differ from the cell behind it, which then is divided too."""
    found = refined(lambda nodes: [int(a > 8 + abs(b - 8) // 3) for a, b in nodes.tolist()], 3, 2, 3)
    a, b = np.indices(found.kinds.shape)
    assert (found.kinds == (a > 8 + abs(b - 8) // 3)).mean() > 0.97
