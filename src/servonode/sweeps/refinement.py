"""A grid over a box that is computed only where neighbours differ: the boundaries of regions, for few runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

Nodes = npt.NDArray[np.int64]  # (n, dimensions) whole numbers
Kinds = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
UNKNOWN = -1


@dataclass(frozen=True)
class Refined:
    """A grid of kinds: which kind each node is of, and whether it was computed or lies among nodes of one kind."""

    kinds: Kinds
    computed: Marks


def refined(kinds_of: Callable[[Nodes], Sequence[int]], coarse: int, dimensions: int, levels: int) -> Refined:
    """The kinds of all nodes of a grid with (coarse - 1) 2^levels + 1 nodes along each dimension.

    All nodes of the coarse grid are computed. Each level halves the cells whose corners differ; what is new in other
    cells takes the kind of their corners. A region that lies between the nodes of the coarse grid is not found.
    """
    shape = ((coarse - 1) * 2**levels + 1,) * dimensions
    found = Refined(np.full(shape, UNKNOWN, dtype=np.int64), np.zeros(shape, dtype=bool))
    step = 2**levels
    _compute(found, kinds_of, step, np.ones(shape, dtype=bool))
    while step > 1:
        divided = _divided(found.kinds, step)
        step //= 2
        _compute(found, kinds_of, step, divided)
    return found


def _compute(found: Refined, kinds_of: Callable[[Nodes], Sequence[int]], step: int, where: Marks) -> None:
    """Compute the nodes of the grid with this step that lie where it is wanted and are not computed yet."""
    on_grid = np.zeros(where.shape, dtype=bool)
    on_grid[(slice(None, None, step),) * where.ndim] = True
    nodes = np.argwhere(on_grid & where & ~found.computed)
    if len(nodes):
        place = tuple(nodes.T)
        found.kinds[place], found.computed[place] = kinds_of(nodes), True


def _divided(kinds: Kinds, step: int) -> Marks:
    """Which nodes belong to cells of this step whose corners differ; the others that are unknown get their kind."""
    divided = np.zeros(kinds.shape, dtype=bool)
    for low in product(range(0, kinds.shape[0] - 1, step), repeat=kinds.ndim):
        corners = {int(kinds[each]) for each in product(*((a, a + step) for a in low))}
        cell = tuple(slice(a, a + step + 1) for a in low)
        if len(corners) > 1:
            divided[cell] = True
        else:
            np.copyto(kinds[cell], corners.pop(), where=kinds[cell] == UNKNOWN)
    return divided
