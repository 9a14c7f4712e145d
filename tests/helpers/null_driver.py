"""A driver of one file: a plant that stands still, whatever its inputs are."""

from servonode.arrays import Array
from servonode.plants.drivers.driver import Driver, DriverContext
from servonode.plants.simulated import Motion


class Still(Motion):
    """Time passes, and nothing else: the state stays what it is."""

    def advance(self, k: int, steps: int, x: Array, u: Array) -> bool:  # noqa: ARG002
        return True


def _motion(context: DriverContext) -> Motion:
    return Still(context.machine, context.step_ns)


DRIVER = Driver(
    name="null",
    summary="a plant that stands still",
    reads=(),
    open=lambda context: context.simulation(),
    simulated=True,
    motion=_motion,
)
