"""One control period of the sampled loop as a map of its state, made of the compiled law and the compiled steps.

Its state z holds all that one period hands to the next: the machine's state, the program's own states with their rates
(Heun's rule, see `law.follow`), integrals of residuals, what drives with a lag do, inputs that are on their way, those
that a predictor remembers, and states that a late sensor has yet to show. An input whose command is d periods late and
whose drive is a steps late acts from step d P + a after its sample on, P steps a period, as in the simulated plant.
What has no slope is left out: noise, rounding, dead zones, limits of rate and power, lost states; so is an estimator.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from servonode.analysis.linear_system import Complex, reached, slope
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import StatementError
from servonode.mechanics.machine import Machine

SEEN_AT_ALL = 1e-7  # a direction that is coupled less is left to the rounding of differences
# of the largest slope in its row, and of all: a larger one is no rounding of differences
DEPENDS, ROUNDING = 1e-7, 1e-12
SEEN = "_seen_in_"  # of states that a sensor shows in so many periods


def lively(names: Sequence[str], passive: Collection[str]) -> npt.NDArray[np.bool_]:
    """Which entries of z are neither passive states nor copies of them that a sensor has yet to show."""
    return np.array([name.partition(SEEN)[0] not in passive for name in names])


def kept(keep: npt.NDArray[np.bool_], A: Array, *seen: Array) -> npt.NDArray[np.bool_]:
    """The entries to keep with all on which those depend, by the rows of A, and whoever sees the state by other rows.

    A law may cancel what depends on a passive state, such as gravity or a spring, but only where the loop is closed.
    """
    keep, rows = keep.copy(), np.abs(np.vstack([A, *seen]))
    depends = rows > DEPENDS * rows.max(axis=1, keepdims=True, initial=0.0) + ROUNDING * (1 + rows.max(initial=0.0))
    while (more := ~keep & (depends[: len(A)][keep].any(axis=0) | depends[len(A) :].any(axis=0))).any():
        keep |= more
    return keep


@dataclass(frozen=True)
class Open:
    """The map of a period with the loop cut: z_(k+1) = A z_k + B v_k, w_k = C z_k + D v_k.

    v replaces what went through the cut, w is what arrives at it: v = w closes the loop.
    """

    A: Array
    B: Array
    C: Array
    D: Array

    @property
    def closed(self) -> Array:
        """The map of the closed loop."""
        n = len(self.D)
        result: Array = self.A + self.B @ np.linalg.solve(np.eye(n) - self.D, self.C)
        return result

    def delayed(self, periods: int) -> "Open":
        """The same with v so many whole periods late; what waits is behind the states, the newest first."""
        if not periods:
            return self
        n, m = self.B.shape
        wait = np.eye(periods * m, k=-m)
        A = np.block([[self.A, np.zeros((n, (periods - 1) * m)), self.B], [np.zeros((periods * m, n)), wait]])
        B = np.vstack([np.zeros((n, m)), np.eye(periods * m, m)])
        C = np.hstack([self.C, np.zeros((len(self.C), (periods - 1) * m)), self.D])
        return Open(A, B, C, np.zeros((len(self.C), m)))

    def minimal(self) -> "Open":
        """The same G(z) without states that v does not move, or that w does not show.

        What is seen at all is decided with units of states and signals that balance the map, v and w in the same ones
        (B. N. Parlett, C. Reinsch, Numerische Mathematik 13, 1969): not by the newtons of a heavy machine.
        """
        from scipy.linalg import matrix_balance

        whole, n = np.block([[self.A, self.B], [self.C, self.D]]), len(self.A)
        units = matrix_balance(whole, permute=False, separate=True)[1][0]
        whole = whole / units[:, None] * units
        A, B, C = whole[:n, :n], whole[:n, n:], whole[n:, :n]
        basis = reached(A, B, SEEN_AT_ALL)[0]
        A, B, C = basis.T @ A @ basis, basis.T @ B, C @ basis
        basis = reached(A.T, C.T, SEEN_AT_ALL)[0]
        signals = units[n:]
        return Open(basis.T @ A @ basis, basis.T @ B / signals, signals[:, None] * (C @ basis), self.D)

    def transfer(self, z: complex) -> Complex:
        """G(z) = C (z 1 - A)^-1 B + D."""
        inner = np.linalg.solve(z * np.eye(len(self.A)) - self.A, self.B.astype(complex))
        return np.asarray(self.C @ inner + self.D, dtype=complex)

    def sensitivity(self, z: complex) -> Complex:
        """(1 - G(z))^-1, of the closed loop's own matrices, so that a pole of G does no harm."""
        n = len(self.D)
        direct = np.linalg.inv(np.eye(n) - self.D)
        inner = np.linalg.solve(z * np.eye(len(self.A)) - self.closed, (self.B @ direct).astype(complex))
        return np.asarray(direct @ (np.eye(n) + self.C @ inner), dtype=complex)


class SampledStep:
    """The sampled loop from the instant at step k on, a period at a time.

    `machine`: the plant's, of any parameters. `late`: plant steps by which every input acts later than the launch file
    says.
    """

    def __init__(self, closed_loop: ClosedLoop, machine: Machine, k: int, late: int = 0) -> None:
        loop, launch, control = closed_loop, closed_loop.launch, closed_loop.control
        self.closed_loop, self.machine, self.k = closed_loop, machine, k
        if control is None or launch.controller is None or launch.steps_per_period is None:
            raise StatementError(f"{launch.file} has no [controller], so there is no sampled loop; look at the plant")
        if loop.driver.motion is not None:
            text = f'driver "{loop.driver.name}" moves the machine, and its steps have no derivatives; '
            raise StatementError(f'{text}give plant__driver="simulated"')
        if loop.drives is not None:
            text = 'plant.command = "velocity" puts drives between law and machine, which are simulated only; '
            raise StatementError(f'{text}give plant__command="effort"')
        self.law, self.control, self.per, self.step_ns = control.law, control, launch.steps_per_period, launch.step_ns
        self.period = launch.period_ns / 1e9 if launch.period_ns else 0.0
        self._limits = np.array(loop.safety.limits.value)
        self._predicted = launch.controller.delay if launch.controller.predictor else 0
        step, drives = launch.step_ns / 1e9, loop.actuator
        self._lag = np.array(drives.lag)
        blend = -np.expm1(-step / np.where(self._lag > 0, self._lag, 1.0))
        self._blend = np.where(self._lag > 0, blend, 1.0)
        delays = np.array([round(each / step) for each in drives.delay], dtype=int)
        self._acts = launch.controller.delay * self.per + delays + late  # steps after its sample, of an input
        self._seen = round(loop.sensor.delay / step)  # steps by which a state is seen late
        n_u, n_x, own = self.machine.n_inputs, self.machine.n_state, len(self.law.initial_states)
        y = self.law.goal_layout
        waiting = max((-(-int(each) // self.per) for each in self._acts), default=0)
        sizes = {
            "x": n_x, "own": own, "own_rates": own, "integrals": y.integrals.stop - y.integrals.start,
            "drives": n_u if self._lag.any() else 0, "waiting": waiting * n_u,
            "sent": self._predicted * n_u, "seen": -(-self._seen // self.per) * n_x,
        }  # fmt: skip
        ends = np.cumsum([0, *sizes.values()]).tolist()
        self.parts = {name: slice(a, b) for name, a, b in zip(sizes, ends, ends[1:], strict=False)}
        self.names = self._named(waiting)
        self._answer, self._ahead = self.law.answer(), self.law.answer()

    def _named(self, waiting: int) -> tuple[str, ...]:
        described, program = self.machine.description, self.law.description
        states, inputs = described.state_names, described.input_names
        own = [each.name for each in program.states]
        seen = (self.parts["seen"].stop - self.parts["seen"].start) // max(len(states), 1)
        integrals = [f"integral_{each.name}" for each in program.residuals] if program.integral else []
        drives = [f"{name}_drive" for name in inputs] if self._lag.any() else []
        late = [f"{name}_{age}_ago" for age in range(waiting, 0, -1) for name in inputs]
        late += [f"{name}_sent_{age}_ago" for age in range(self._predicted, 0, -1) for name in inputs]
        shown = [f"{name}{SEEN}{i}" for i in range(seen) for name in states]
        return (*states, *own, *(f"{name}_rate" for name in own), *integrals, *drives, *late, *shown)

    @property
    def t(self) -> float:
        """Time of the instant [s]."""
        return self.k * self.step_ns / 1e9

    def state_at(self, x: Array, own: Array) -> Array:
        """z of a loop that has long been at the machine's state x (n_x,), or moves on from it as its rates say."""
        z = np.zeros(len(self.names))
        z[self.parts["x"]] = x[: self.machine.n_state]
        y = self.closed_loop.goal(self.t, own)
        full = np.append(x[: self.machine.n_state], 0.0)
        rates = self.law.state_rates(self.t, full, y)
        z[self.parts["own"]], z[self.parts["own_rates"]] = own - self.period * rates, rates
        self.law.compute(self.t, full, y, self._answer)
        u = np.clip(self._answer.inputs, -self._limits, self._limits)
        if self._lag.any():
            z[self.parts["drives"]] = u
        for part in ("waiting", "sent"):
            z[self.parts[part]] = np.tile(u, self._count(part, len(u)))
        moves = self.machine.derivatives(self.t, full, u)[: self.machine.n_state]
        late = self._count("seen", len(moves))
        since = np.array([self._seen - i * self.per for i in range(late)]) * self.step_ns / 1e9
        z[self.parts["seen"]] = (x[: len(moves)] - since[:, None] * moves).ravel()
        return z

    def _count(self, part: str, size: int) -> int:
        return (self.parts[part].stop - self.parts[part].start) // size if size else 0

    def after(
        self, z: Array, command: Array | None = None, measured: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """z a period later, the law's command (n_tau,) and the state that the sensors show (n_x,).

        command, measured: what takes the place of the latter two where the loop is cut.
        """
        shows = z[self.parts["seen"]][: self.machine.n_state] if self._seen else z[self.parts["x"]]
        after = z.copy()
        given = self._given(after, shows if measured is None else measured)
        taken = given if command is None else np.clip(command, -self._limits, self._limits)
        self._move(z, after, taken)
        return after, given, shows

    def residuals(self, z: Array) -> Array:
        """The residuals (n_s,) that the law finds."""
        self.after(z)
        return self._answer.residuals.copy()

    def _given(self, z: Array, shown: Array) -> Array:
        """The law's command to a state that is shown; its own states and integrals in z go on."""
        law, y = self.law, self.closed_loop.goal(self.t)
        full = np.append(shown, 0.0)
        own, rates, integrals = (self.parts[name] for name in ("own", "own_rates", "integrals"))
        y[law.goal_layout.integrals] = z[integrals]
        memory = np.append(z[own], z[rates])
        law.follow(self.t, full, y, self.period, memory)
        z[own], z[rates] = np.split(memory, 2)
        if law.compute(self.t, full, y, self._answer):
            raise StatementError(f"at this state {law.explain(self._answer)}")
        z[integrals] += self.period * self._answer.residuals[: z[integrals].size]
        if not self._predicted:
            return np.clip(self._answer.inputs, -self._limits, self._limits)
        return self._foreseen(z, full, y)

    def _foreseen(self, z: Array, x: Array, y: Array) -> Array:
        """The law's command to the state that its own model predicts."""
        law, believed, n_u = self.law, self.law.machine, self.machine.n_inputs
        advance, sent = believed.advancer(self.closed_loop.launch.plant.integrator), self.parts["sent"]
        for i, u in enumerate(z[sent].reshape(-1, n_u)):
            advance(self.k + i * self.per, self.per, self.step_ns, x, u.copy(), believed.c)
        t = (self.k + self._predicted * self.per) * self.step_ns / 1e9
        goal = self.closed_loop.goal(t)
        goal[law.goal_layout.kept] = y[law.goal_layout.kept]
        if law.compute(t, x, goal, self._ahead):
            raise StatementError(f"at the predicted state {law.explain(self._ahead)}")
        given = np.clip(self._ahead.inputs, -self._limits, self._limits)
        z[sent] = np.append(z[sent], given)[n_u:]
        return given

    def _move(self, z: Array, after: Array, command: Array) -> None:
        """The plant's period: its state, drives and all that waits, of z, into `after`."""
        n_u, P = self.machine.n_inputs, self.per
        waiting = np.append(z[self.parts["waiting"]], command).reshape(-1, n_u)
        x, drives, shown = np.append(z[self.parts["x"]], 0.0), z[self.parts["drives"]].copy(), []
        looks = -self._seen % P if self._seen else -1  # at which step of the period a state is kept for the sensors
        stops = sorted({0, P, *(int(each) % P for each in self._acts), *([looks] if looks > 0 else [])})
        for begin, end in pairwise(stops):
            if begin == looks:
                shown = x[:-1].tolist()
            u = np.array([waiting[-1 + (begin - int(acts)) // P, i] for i, acts in enumerate(self._acts)])
            self._advance(begin, end, x, u, drives)
        after[self.parts["x"]], after[self.parts["drives"]] = x[:-1], drives
        after[self.parts["waiting"]] = waiting[1:].ravel()
        seen = self.parts["seen"]
        after[seen] = np.append(z[seen][self.machine.n_state :], shown)

    def _advance(self, begin: int, end: int, x: Array, u: Array, drives: Array) -> None:
        """The machine from one step of the period to another, under inputs that drives with a lag follow."""
        advance = self.machine.advancer(self.closed_loop.launch.plant.integrator)
        if not len(drives):
            advance(self.k + begin, end - begin, self.step_ns, x, u, self.machine.c)
            return
        for step in range(begin, end):
            drives += self._blend * (u - drives)
            advance(self.k + step, 1, self.step_ns, x, drives, self.machine.c)

    def open_at_inputs(self, z: Array) -> Open:
        """The linear map about z with the loop cut where the law gives its command."""
        command, n = self.after(z)[1], len(z)

        def moved(both: Array) -> Array:
            return np.concatenate(self.after(both[:n], command=both[n:])[:2])

        return _open(moved, z, command)

    def open_at_sensors(self, z: Array) -> Open:
        """The same with the loop cut where the law is shown the machine's state."""
        shown, n = self.after(z)[2], len(z)

        def moved(both: Array) -> Array:
            after, _, shows = self.after(both[:n], measured=both[n:])
            return np.append(after, shows)

        return _open(moved, z, shown)


def _open(moved: Callable[[Array], Array], z: Array, cut: Array) -> Open:
    n, both = len(z), slope(moved, np.append(z, cut))
    return Open(both[:n, :n], both[:n, n:], both[n:, :n], both[n:, n:])
