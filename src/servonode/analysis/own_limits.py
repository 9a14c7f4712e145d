"""Limits that act because the machine states them, and what plant.safety.state_limit makes of the ranges of joints."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.description import JOINT_LIMIT


def own_limits(closed_loop: ClosedLoop) -> str:
    """The limits that act because the machine states them: of inputs, and of the ranges of joints."""
    machine, stated = closed_loop.machine, closed_loop.launch.plant.safety.limit
    own = {each.name: each.limit for each in machine.description.inputs if each.limit is not None}
    if stated is not None:
        own = {name: most for name, most in own.items() if isinstance(stated, Mapping) and name not in stated}
    stated_most = _stated_sizes(closed_loop)
    ends = _range_ends(closed_loop)
    own |= {end: value for end, (joint, value) in ends.items() if abs(value) <= stated_most.get(joint, np.inf)}
    listed = ", ".join(f"{name} {value:.4g}" for name, value in own.items())
    return f"of {closed_loop.source.definition.file.name} act: {listed}" if own else ""


def _range_ends(closed_loop: ClosedLoop) -> dict[str, tuple[str, float]]:
    """The ends of the ranges of joints, by their parameters: the joint, and where the end is."""
    machine = closed_loop.machine
    faults = machine.description.faults if closed_loop.launch.plant.safety.faults else ()
    names = [name for each in faults if each.name == JOINT_LIMIT for name in each.names]
    return {name: (name.rpartition("_")[0], machine.parameters[name]) for name in names}


def _stated_sizes(closed_loop: ClosedLoop) -> dict[str, float]:
    """What plant.safety.state_limit states, by state."""
    readings = closed_loop.safety.stated_readings
    return finite(readings.value, readings.names)


def idle_sizes(closed_loop: ClosedLoop) -> Iterator[str]:
    """A line for each state_limit of a joint beyond its range, so that the range always acts first."""
    ends = _range_ends(closed_loop)
    for joint, most in _stated_sizes(closed_loop).items():
        own = {end: abs(value) for end, (of, value) in ends.items() if of == joint}
        if own and most > max(own.values()):
            text = f"state_limit of {joint}, {most:g}, is beyond its range, which acts first"
            yield f"{text}; plant.parameters.{max(own, key=own.__getitem__)} moves its end"


def finite(limits: Sequence[float], names: Sequence[str]) -> dict[str, float]:
    """The limits that there are, by input."""
    return {name: most for name, most in zip(names, limits, strict=True) if np.isfinite(most)}
