"""The energy balance of a simulation: it shows motions that the model does not describe, as after a fall."""

from servonode.mechanics.machine import Machine
from servonode.plants.plant import Plant

LEAST_ENERGY = 1e-6  # J; smaller energies are rounding errors
STRAY = 0.1  # largest error of the balance, as a share of the energy, of a motion that counts as valid


class EnergyAccount:
    """Compares the energy of a plant with the work on it [J]; nan for a device, which never strays."""

    def __init__(self, plant: Plant, machine: Machine) -> None:
        self._plant, self._machine = plant, machine
        self._first = self.present()
        self._missing = self._scale = 0.0  # values at `begin`

    def present(self) -> float:
        """Kinetic plus potential energy of the newest state [J]."""
        return self._machine.energy(self._plant.t, self._plant.x)

    def missing(self) -> float:
        """The energy [J] gained beyond the initial energy and the work: errors of the integrator."""
        return self.present() - self._first - float(self._plant.x[-1])

    def begin(self) -> None:
        """Start judging now; at rest a machine has no energy to compare with."""
        self._missing, self._scale = self.missing(), self._present_scale()

    def strays(self) -> bool:
        """Whether the balance has changed since `begin` by more than the errors of an integrator."""
        error = abs(self.missing() - self._missing)
        return error > STRAY * max(self._present_scale(), self._scale, LEAST_ENERGY)

    def _present_scale(self) -> float:
        """The energy to which an error is compared [J]."""
        return abs(self.present()) + abs(self._first) + abs(float(self._plant.x[-1]))
