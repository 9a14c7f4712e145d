"""A driver of one file: a plant that stands still, whatever its inputs are."""

from typing import Any, cast

from servonode.plants.drivers.driver import Driver, DriverContext
from servonode.plants.plant import Plant
from servonode.plants.simulated import SimulatedPlant


class Still:
    """A simulation whose time passes, and nothing else."""

    def __init__(self, plant: SimulatedPlant) -> None:
        self._plant = plant

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plant, name)

    def advance(self, steps: int, watched: bool = False) -> None:  # noqa: ARG002
        self._plant.k += steps


def _open(context: DriverContext) -> Plant:
    return cast(Plant, Still(context.simulation()))


DRIVER = Driver(name="null", summary="a plant that stands still", reads=(), open=_open, simulated=True)
