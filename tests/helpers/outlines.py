"""What a machine's drawing shows of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.mechanics.machine import Machine
from servonode.plants.drawn import drawn_views
from servonode.plants.view import View


def drawing(machine: Machine, **values: float) -> tuple[tuple[View, ...], dict[str, float]]:
    """Its views, and what their functions are given: states and inputs by name, else zero, its outputs, the time."""
    described = machine.description
    names = (*described.state_names, *described.input_names)
    given = dict.fromkeys(names, 0.0) | values
    x = np.array([*(given[name] for name in described.state_names), 0.0])
    outputs = machine.outputs(0.0, x, np.array([given[name] for name in described.input_names]))
    return drawn_views(machine, (), ""), given | outputs | {"t": 0.0}


def outline(machine: Machine, values: Mapping[str, float], number: int = 0) -> list[Any]:
    """The polylines of one of its views, without an input."""
    views, given = drawing(machine, **values)
    drawn = views[number].outline
    assert drawn is not None
    return drawn(given, {})
