"""States near a start that the machine reaches from there, and steps to such of which something is wanted."""

from collections.abc import Callable

import numpy as np

from servonode.arrays import Array
from servonode.controllers.engine.realize import random_states
from servonode.mechanics.machine import Machine

WAY = 4  # steps of a way on which coordinates follow
HALVINGS = 6  # of a way to a state
DIFFERENCE = 1e-6


def has_followers(machine: Machine) -> bool:
    """Whether some states follow from others: by constraints of places, or as all velocities are rates of coordinates
    from which others follow (feet that stay).
    """
    described = machine.description
    rates = {f"{q}_dot" for q in described.coordinates}
    return bool(described.held) or (described.rolls and {*described.velocities} <= rates)


def reached(machine: Machine, start: Array, x: Array) -> Array:
    """The state next to x that the machine reaches from its start: on its constraints, with those that follow as they
    do on a straight way.
    """
    described = machine.description
    if not (described.rolls and has_followers(machine)):
        return machine.projected(0.0, x)
    names = described.state_names
    places, velocities, own = (
        [names.index(each.removesuffix(end)) for each in of]
        for of, end in ((described.coordinates, ""), (described.velocities, ""), (described.velocities, "_dot"))
    )
    at, u, h = start.copy(), np.zeros(machine.n_inputs), 1.0 / WAY
    at[velocities] = x[own] - at[own]

    def rates(dx: Array) -> Array:
        moved = at.copy()
        moved[places] += dx
        return machine.derivatives(0.0, moved, u)[places]

    for _ in range(WAY):
        k1 = rates(np.zeros(len(places)))
        k2 = rates(h / 2 * k1)
        k3 = rates(h / 2 * k2)
        at[places] += h / 6 * (k1 + 2 * k2 + 2 * k3 + rates(h * k3))
    at[velocities] = x[velocities]
    return at


def near_states(machine: Machine, start: Array, rng: np.random.Generator, count: int, spread: float) -> Array:
    """Random ones (count, n_x) within `spread` of the start in every entry, but for those that follow: halfway there,
    and so on, where a way meets a dead point, so that it does not lead back.
    """
    found = []
    for x in random_states(machine.description, start, rng, count, spread):
        for _ in range(HALVINGS):
            at = reached(machine, start, x)
            back = reached(machine, at, start) if machine.description.rolls else start
            if np.abs(back - start).max() < spread / 10:
                break
            x = (x + start) / 2
        found.append(at)
    return np.array(found)


def step_to(of: Callable[[Array], Array], x: Array, wanted: Array | float = 0.0) -> Array | None:
    """The least change of a state, but for its work, after which a function of it is as wanted, by its slopes; None
    where these are not finite.
    """
    value, sides = of(x), DIFFERENCE * np.eye(len(x))[:-1]
    slopes = (np.array([of(x + side) for side in sides]) - value).T / DIFFERENCE
    if not np.isfinite(slopes).all():
        return None
    return np.append(np.linalg.lstsq(slopes, wanted - value, rcond=1e-9)[0], 0.0)
