"""How a machine is drawn: which values are its paths, and its outline at a state. No plotting library here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Outline = Callable[[Mapping[str, float], Mapping[str, float]], list[npt.NDArray[np.float64]]]


@dataclass(frozen=True)
class View:
    """A machine seen in a plane.

    trails: legend name -> names of the two states or outputs that make a path [m]. goal: the targets' names that
    make the goal's path, if there is one. axes: labels. outline: (state by name, parameters by name) -> polylines
    (n, 2) [m].
    """

    outline: Outline
    trails: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    goal: tuple[str, str] | None = None
    axes: tuple[str, str] = ("x [m]", "y [m]")
