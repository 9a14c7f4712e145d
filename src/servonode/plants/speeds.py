"""Drives that take speeds in place of efforts: the speeds that are sent to them, and a simulation of such drives.

The speed of an input is the velocity on which it works (`Machine.input_rates`): its power is effort times speed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.plants.effects import clipped
from servonode.plants.simulated import Motion

LATEST = 4  # control periods by which a state may be old: over more than these its motion is not foreseen
SAME = 1e-9  # relative; inputs that move their speeds in fewer directions than there are inputs


@dataclass(frozen=True)
class Drives:
    """Drives with a velocity loop, one value an input; `inf`: no limit, or a loop that is at its speed at once.

    limit: largest speed that is sent [unit of the speed]. bandwidth: of the velocity loop, of first order [rad/s].
    """

    limit: tuple[float, ...]
    bandwidth: tuple[float, ...]

    def share(self, time: float) -> Array:
        """The share of a difference of speed (n_tau,) that the drives make up within this time [s]."""
        return -np.expm1(-np.array(self.bandwidth) * time)


def speeds_after(machine: Machine, t: float, x: Array, h: float) -> tuple[Array, Array]:
    """Speeds a time h [s] later without effort (n_tau,), and what efforts add to them (n_tau, n_tau), to first order.

    The rates of a machine are affine in its efforts, so that n_tau + 1 evaluations tell both.
    """
    n = machine.n_inputs

    def after(effort: Array) -> Array:
        return machine.input_rates(t + h, x + h * machine.derivatives(t, x, effort))

    free = after(np.zeros(n))
    return free, np.array([after(effort) - free for effort in np.eye(n)]).T


def independent(gain: Array) -> bool:
    """Whether efforts with this effect on their speeds can set each speed by itself."""
    own = np.diag(gain)
    if not (np.isfinite(gain).all() and (own > 0).all()):
        return False
    scaled = gain / np.sqrt(np.outer(own, own))
    return bool(np.linalg.svd(scaled, compute_uv=False)[-1] > SAME)


class SpeedCommands:
    """The speeds for the drives, which the efforts of a law or of the safe action would bring about.

    newest: the speeds (n_tau,) that are sent now; one array, reused.
    """

    def __init__(self, machine: Machine, integrator: str, step_ns: int, period: int, drives: Drives) -> None:
        """period: between two control instants [plant steps]."""
        self.newest = np.zeros(machine.n_inputs)
        self._machine, self._advance, self._step_ns = machine, machine.advancer(integrator), step_ns
        self._period, self._limit = period, np.array(drives.limit)
        self._share = drives.share(period * step_ns / 1e9)

    def by_name(self) -> Mapping[str, float]:
        """The newest speeds by name, as `speed_U1`."""
        names = self._machine.description.input_names
        return {f"speed_{name}": value for name, value in zip(names, self.newest.tolist(), strict=True)}

    def follow(self, k: int, x: Array, effort: Array, late: float) -> bool:
        """Send what the efforts bring about over the next period, from state x of plant step k; whether all of it.

        late: how old x is, and how much later the speeds act [s]. What drives with a slow loop would not make up
        within a period is added. Beyond a limit all speeds shrink by one factor, so that a base keeps to its curve;
        speeds that are not finite are zero.
        """
        ahead = min(round(late * 1e9 / self._step_ns), LATEST * self._period)
        now, after = self._moved(k, x, effort, ahead, self._period)
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = now + (after - now) / self._share
        if not np.isfinite(wanted).all():
            self.newest[:] = 0.0
            return False
        size = np.abs(wanted)
        over = size > self._limit
        factor = np.min(self._limit[over] / size[over], initial=1.0)
        self.newest[:] = clipped(wanted * factor, self._limit)
        return not over.any()

    def brake(self, k: int, x: Array, effort: Array, steps: int) -> None:
        """Send what the efforts of the safe action make, in so many steps, of the speeds that were sent before.

        Each speed only shrinks: it is between zero and the smaller of what was sent and what is measured.
        """
        now, after = self._moved(k, x, effort, 0, steps)
        wanted, before = self.newest + (after - now), self.newest
        sign = np.sign(before)
        most = np.minimum(np.abs(before), np.maximum(sign * now, 0.0))
        shrunk = sign * np.minimum(np.maximum(sign * wanted, 0.0), most)
        self.newest[:] = np.where(np.isfinite(shrunk), shrunk, 0.0)

    def stop(self) -> None:
        """Send zero speed."""
        self.newest[:] = 0.0

    def _moved(self, k: int, x: Array, effort: Array, first: int, second: int) -> tuple[Array, Array]:
        """The speeds after `first` steps under these efforts, and after `second` more."""
        moved, found = x.copy(), []
        for steps in (first, second):
            if steps:
                self._advance(k, steps, self._step_ns, moved, effort, self._machine.c)
            k += steps
            found.append(self._machine.input_rates(k * self._step_ns / 1e9, moved))
        return found[0], found[1]


class SpeedMotion(Motion):
    """The motion of a machine's equations under drives that hold speeds: its inputs are speeds.

    effort: what the drives do now (n_tau,), at most `limit`; one array, reused.
    """

    def __init__(
        self, machine: Machine, integrator: str, step_ns: int, drives: Drives, limit: tuple[float, ...]
    ) -> None:
        super().__init__(machine, step_ns)
        self.effort, self._advance = np.zeros(machine.n_inputs), machine.advancer(integrator)
        self._share, self._limit = drives.share(step_ns / 1e9), np.array(limit)

    def advance(self, k: int, steps: int, x: Array, u: Array) -> bool:
        for at in range(k, k + steps):
            self.effort[:] = self._effort(at * self._step_ns / 1e9, x, u)
            if not self._advance(at, 1, self._step_ns, x, self.effort, self._machine.c):
                return False
        return True

    def _effort(self, t: float, x: Array, speeds: Array) -> Array:
        """The efforts after which, in a plant step, the speeds are nearer to these by the share of the loop."""
        free, gain = speeds_after(self._machine, t, x, self._step_ns / 1e9)
        now = self._machine.input_rates(t, x)
        try:
            found = np.linalg.solve(gain, now + self._share * (speeds - now) - free)
        except np.linalg.LinAlgError:  # a pose in which they cannot be set: they give no effort
            return np.zeros(len(self.effort))
        return clipped(np.where(np.isfinite(found), found, 0.0), self._limit)
