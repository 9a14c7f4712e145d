"""A machine at many states at once: energies, monitored values and residuals of all rows by one compiled call."""

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.kernels import MachineKernel
from servonode.mechanics.machine import Machine
from servonode.mechanics.signatures import Signature

_MONITORED = Signature.of(MachineKernel, "monitored")


def energies(machine: Machine, t: Array, x: Array) -> Array:
    """Kinetic plus potential energy [J] of each row (n,), at times (n,) [s] and kernel states (n, n_x)."""
    out = np.zeros(len(t))
    machine.kernel.energies(len(t), t, x, machine.c, np.zeros(2), out)
    return out


def residuals(machine: Machine, t: Array, x: Array) -> Array:
    """`Machine.constraint_residual` of each row (n, n_c + n_N)."""
    out = np.zeros((len(t), machine.sizes["n_residuals"]))
    machine.kernel.residuals(len(t), t, x, machine.c, out)
    return out


def monitored(machine: Machine, t: Array, x: Array, u: Array) -> Array:
    """Outputs, then the margins of the warnings, of each row, under the inputs (n, n_tau)."""
    out = np.zeros((len(t), machine.sizes["n_monitored"]))
    spare = _MONITORED.arrays(machine.sizes, "S", "y")
    machine.kernel.monitored(len(t), t, x, u, machine.c, spare["S"], spare["y"], out)
    return out
