"""The energy balance of a simulation: it shows motions that the model does not describe, as after a fall."""

from servonode.plants.plant import Plant

LEAST_ENERGY = 1e-6  # J; less of it is rounding
STRAY = 0.1  # share of the energy that may come from nowhere before a motion counts as nonsense


class EnergyAccount:
    """Energy of a plant beside the work on it [J]; nan for a device, which never strays."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self._first = plant.energy()
        self._missing = self._scale = 0.0  # as they were at `begin`

    def missing(self) -> float:
        """Energy [J] that was not there at first and that no work put in: errors of the integrator."""
        return self._plant.energy() - self._first - float(self._plant.x[-1])

    def begin(self) -> None:
        """Judge from now on: a machine at rest has no energy to measure by."""
        self._missing, self._scale = self.missing(), self._present_scale()

    def strays(self) -> bool:
        """Whether more energy has come from nowhere since `begin` than an integrator's errors."""
        error = abs(self.missing() - self._missing)
        return error > STRAY * max(self._present_scale(), self._scale, LEAST_ENERGY)

    def _present_scale(self) -> float:
        """What an error of energy is measured by [J]."""
        return abs(self._plant.energy()) + abs(self._first) + abs(float(self._plant.x[-1]))
