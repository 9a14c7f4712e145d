"""The closed loop as a differential equation, x' = F(t, x): what the judgements of its motion look at."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.equilibrium import passive
from servonode.simulation.event_integration import SimulationError

RTOL = ATOL = 1e-9
MAX_STEPS = 100_000
HUGE = 1e6  # a velocity beyond this (m/s, rad/s) runs away
SOON = 1e-2  # an escape is one that comes within this share of the time already past
SIDE = 1e-3  # of the differences of fourth order, relative to the states (to 1 for states below 1)
SERVED = 1e-3  # a residual below this is met


class ContinuousLoop:
    """The closed loop x' = F(t, x), limited as the plant's filter would; `refusal` explains where the law stops.

    A stacked state is the machine's, its work, then the program's own states; `names` are those of `entries`, all
    but the work. Guards are ignored, integral action is left out. It is large because every judgement asks the same
    few functions of a state, which share the law's answer and the order of the entries.

    Raises:
        SimulationError: the machine has jumps, after which a motion beside another one is not where it would be.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        if closed_loop.machine.description.jumps:
            text = f"machine {closed_loop.machine.description.name} has jumps, and what is left free is judged along "
            raise SimulationError(f"{text}smooth motions only; look at runs from starts beside this one")
        self.closed_loop, self.machine, self.control = closed_loop, closed_loop.machine, closed_loop.control
        d = self.machine.description
        self.names, self.start, self.units = d.state_names, closed_loop.start, [each.unit for each in d.state]
        self.n_x, self.follows_residuals, self.high_degrees = len(self.start), False, False
        self.feeds_back = False
        if self.control:
            law = self.control.law
            self.start = np.append(self.start, law.initial_states)
            self.names += tuple(each.name for each in law.description.states)
            self.units += [each.unit for each in law.description.states]
            self.follows_residuals, self.feeds_back = not law.description.explicit, law.description.feeds_back
            self.high_degrees = law.description.extension is not None  # errors of them grow before they decay
            self._answer = law.answer()
        self.entries = np.delete(np.arange(len(self.start)), self.n_x - 1)
        self.velocities = [self.names.index(name) for name in d.velocities]
        self.angles = np.array([self.units[i] == "rad" and i not in self.velocities for i in range(len(self.names))])
        self._u = np.zeros(self.machine.n_inputs)
        self._limits = np.array(closed_loop.safety.limits.value)

    def units_of(self, names: Sequence[str]) -> list[str]:
        """The units of these states."""
        return [self.units[self.names.index(name)] for name in names]

    def are_velocities(self, entries: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these of `entries` are velocities."""
        return np.isin(entries, self.velocities)

    def rates(self, t: float, stacked: Array) -> Array:
        """x' of stacked states (n_copies * n,); guards are ignored, the law gives its inputs beyond them too."""
        y, n, limits, u = self.closed_loop.goal(t), len(self.start), self._limits, self._u
        rates = np.zeros(len(stacked))
        for i in range(0, len(stacked), n):
            x = stacked[i : i + n]
            if self.control:
                self._evaluate(t, x, y)
                np.maximum(np.minimum(self._answer.inputs, limits, out=u), -limits, out=u)
                rates[i + self.n_x : i + n] = self.control.law.state_rates(t, x[: self.n_x], y)
            self.machine.kernel.derivatives(t, x[: self.n_x], u, self.machine.c, rates[i : i + self.n_x])
        return rates

    def inputs(self, t: float, x: Array) -> Array:
        """What the law gives at a state, within its limits."""
        if self.control is None:
            return np.zeros(self.machine.n_inputs)
        self._evaluate(t, x, self.closed_loop.goal(t))
        return np.clip(self._answer.inputs, -self._limits, self._limits)

    def held(self, t: float, x: Array) -> Array:
        """What the closed loop brings to zero: f, f', ..., f^(r-1) of each residual, constraints of places."""
        places = self.machine.position_residual(t, x[: self.n_x])
        if self.control is None or not self.follows_residuals:
            return places
        law, y = self.control.law, self.closed_loop.goal(t)
        y[law.goal_layout.states] = x[self.n_x :]
        if law.description.extension is not None:
            return np.concatenate([*law.chains(t, x[: self.n_x], y), places])
        terms = law.terms(t, x[: self.n_x], y)
        finite = np.array(law.description.relative_degrees) > 1
        return np.concatenate([terms["f"], terms["f_dot"][finite], places])

    def serves(self, t: float, x: Array) -> bool:
        """Whether there are residuals, and they vanish at this state."""
        if self.control is None or not self.control.law.n_s:
            return False
        self._evaluate(t, x, self.closed_loop.goal(t))
        return bool(np.abs(self._answer.residuals).max() < SERVED)

    def _evaluate(self, t: float, x: Array, y: Array) -> int:
        """The law's status, and its answer, at a state; the program's own states go into y."""
        assert self.control is not None
        law = self.control.law
        y[law.goal_layout.states] = x[self.n_x :]
        return law.compute(t, x[: self.n_x], y, self._answer)

    def dead_point(self, t: float, x: Array) -> str | None:
        """The machine's dead point, at this state or passed before it, as a text; beyond it nothing is known."""
        judged = self.closed_loop.launch.plant.safety.faults
        violated = self.machine.fault(t, x[: self.n_x]) if judged else None
        return violated.text if violated and violated.name == "dead_point" else None

    def refusal(self, t: float, x: Array) -> str | None:
        """Why the law or the machine's motion stops at this state, or None."""
        if dead := self.dead_point(t, x):
            return dead
        stops = self.control is not None and self._evaluate(t, x, self.closed_loop.goal(t)) != 0
        return self.control.law.explain(self._answer) if self.control and stops else None

    def steps(self, t: float, stacked: Array, end: float) -> Iterator[tuple[float, Array]]:
        """Accepted steps of DOP853 up to `end`, or until its step is too small; continue from changed states."""
        from scipy.integrate import DOP853

        options = {"t_bound": end, "rtol": RTOL, "atol": ATOL}
        with np.errstate(all="ignore"):  # an escape overflows before the step fails
            solver = DOP853(self.rates, t, stacked, **options)
        for _ in range(MAX_STEPS):
            with np.errstate(all="ignore"):
                solver.step()
            if solver.status == "failed":
                return
            accepted = solver.y.copy()
            yield solver.t, accepted
            if solver.status == "finished":
                return
            if (accepted != solver.y).any():
                options["first_step"] = min(solver.h_abs, end - solver.t)
                solver = DOP853(self.rates, solver.t, accepted, **options)
        raise SimulationError(
            f"the zero dynamics took {MAX_STEPS} steps to t = {solver.t:g} s; judge a shorter duration"
        )

    def huge(self, x: Array) -> bool:
        return bool(np.abs(x[self.velocities]).max(initial=0.0) > HUGE)

    def escape(self, t: float, x: Array) -> tuple[float, str] | None:
        """When and which velocity goes to infinity, by v' ~ v^2 from here on, or None."""
        v, v_dot = x[self.velocities], self.rates(t, x)[self.velocities]
        i = int(np.argmax(np.abs(v)))
        left = v[i] / v_dot[i] if v_dot[i] else np.inf
        return (t + left, self.names[self.velocities[i]]) if 0 < left < SOON * max(t, 1.0) else None

    def jacobian(self, t: float, x: Array) -> tuple[Array, Array]:
        """dF/dx (n, n) and d held/dx (n_held, n) at a state, in `entries`; differences of fourth order."""
        n = len(self.entries)
        both = self._slope(lambda each: np.append(self.rates(t, each)[self.entries], self.held(t, each)), x)
        return both[:n], both[n:]

    def held_slope(self, t: float, x: Array) -> Array:
        """d held/dx (n_held, n) at a state, as of `jacobian`."""
        return self._slope(lambda each: self.held(t, each), x)

    def _slope(self, of: Callable[[Array], Array], x: Array) -> Array:
        columns = []
        for i in self.entries:
            step = np.zeros(len(x))
            step[i] = SIDE * max(1.0, abs(x[i]))
            near = [of(x + k * step) for k in (-2, -1, 1, 2)]
            columns.append((near[0] - 8 * near[1] + 8 * near[2] - near[3]) / (12 * step[i]))
        return np.array(columns).T


def passive_coordinates(loop: ContinuousLoop) -> tuple[str, ...]:
    """Coordinates, and own states, on which no rate depends but those of other passive ones: places, wheel angles.

    They are found at states beside the initial one.
    """

    def linearised(x: Array) -> tuple[Array, Array]:
        return loop.rates(0.0, x)[loop.entries], loop.jacobian(0.0, x)[0]

    candidates = sorted(set(range(len(loop.entries))) - set(loop.velocities))
    return tuple(loop.names[i] for i in passive(linearised, loop.start, candidates))
