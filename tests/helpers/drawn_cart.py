"""A cart of a user's own, whose VIEW a test says: its file, its launch file, and its run with any view."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import servonode
from servonode.record.run import Run

CART = '''"""A cart on a rail, pulled by a spring."""

import os

import numpy as np
from servonode.mechanics import Model, coordinate, input_, output, parameter
from servonode.plants.view import View, leaning_by, shown_larger, signed


def model() -> Model:
    """A cart."""
    x = coordinate("x", {place!r}, "m")
    k = parameter("k", "stiffness", "N/m", default=4.0)
    F = input_("F", "force", "N")
    return Model(
        name="cart",
        description={description!r},
        coordinates=(x,),
        parameters=(k,),
        kinetic=x.rate**2 / 2,
        potential=k * x**2 / 2,
        inputs={{F: x.rate}},
        outputs=(output("pull", "force of the spring", -k * x, "N"), output("level", "height of the rail", 0 * x, "m")),
    )


def outline(state, parameters):
    return [[[state["x"] - 0.1, 0.0], [state["x"] + 0.1, 0.0]], [[state["x"], 0.0]]]


def side(values, parameters):
    return [[[-0.1, 0.0], [0.1, 0.0], [0.1, 0.2]]]


def broken(values, parameters):
    return values["q"]


def forces(values, parameters):
    return {{"pull": ([0.0, 0.1], [values["pull"], 0.0]), "nothing": ([0.0, 0.0], [values["F"], 0.0])}}


TRAIL = {{"cart": ("x", "pull")}}
VIEW = lambda _: eval(os.environ["CART_VIEW"])
'''
LAUNCH = '[run]\nduration = 0.5\n[plant]\nmachine = "./cart.py:model"\ninitial = { x = 0.5 }\n'
CONTROL = '[controller]\nperiod = 0.01\nresiduals = { a = "x - sin(t)" }\ngains.lambda = 3.0\n'
Viewed = Callable[[str], Run]


@contextmanager
def viewed_cart(
    folder: Path, launch: str = LAUNCH, place: str = "place", text: str = "cart on a rail"
) -> Iterator[Viewed]:
    """The run of the cart, made once, with the VIEW that a text says; it counts until the next one is said."""
    (folder / "cart.py").write_text(CART.format(place=place, description=text))
    (folder / "cart.toml").write_text(launch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CART_VIEW", "None")
        run = servonode.simulate(folder / "cart.toml")

        def viewed(view: str) -> Run:
            os.environ["CART_VIEW"] = view
            return run

        yield viewed
