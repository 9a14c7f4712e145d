"""The closed loop as a differential equation, x' = F(t, x): what the judgements of its motion look at."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.equilibrium import passive
from servonode.simulation.equations_source import AGAIN, APART
from servonode.simulation.event_integration import SimulationError
from servonode.simulation.loop_equations import BATCH, LoopEquations, Steps

RTOL = ATOL = 1e-9
MAX_STEPS = 100_000
HUGE = 1e6  # a velocity beyond this (m/s, rad/s) runs away
SOON = 1e-2  # an escape is one that comes within this share of the time already past
SERVED = 1e-3  # a residual below this is met


class ContinuousLoop:
    """The closed loop x' = F(t, x), limited as the plant's filter would; `refusal` explains where the law stops.

    A stacked state is the machine's, its work, then the program's own states; `names` are those of `entries`, all
    but the work. Guards are ignored, integral action is left out.

    Raises:
        SimulationError: the machine has jumps, after which a motion beside another one is not where it would be;
            `with_jumps` for who locates them.
    """

    def __init__(self, closed_loop: ClosedLoop, with_jumps: bool = False) -> None:
        if closed_loop.machine.description.jumps and not with_jumps:
            text = f"machine {closed_loop.machine.description.name} has jumps, and what is left free is judged along "
            raise SimulationError(f"{text}smooth motions only; look at runs from starts beside this one")
        if closed_loop.has_own_controller:
            text = (
                f"{closed_loop.launch.controller and closed_loop.launch.controller.program} is a controller in Python, "
            )
            text += "which answers at its instants: nothing is linearised with it; look at `PlantView.linearize`, or "
            raise SimulationError(f"{text}load the launch file without [controller]")
        self.closed_loop, self.machine, self.control = closed_loop, closed_loop.machine, closed_loop.control
        d = self.machine.description
        self.names, self.start, self.units = d.state_names, closed_loop.start, [each.unit for each in d.state]
        self.n_x, self.follows_residuals, self.high_degrees = len(self.start), False, False
        self.feeds_back = self.aims = False
        if self.control:
            law = self.control.law
            self.start = np.append(self.start, law.initial_states)
            self.names += tuple(each.name for each in law.description.states)
            self.units += [each.unit for each in law.description.states]
            self.follows_residuals, self.feeds_back = not law.description.explicit, law.description.feeds_back
            self.aims = self.feeds_back or bool(law.description.residuals)  # else there is no goal to miss
            self.high_degrees = law.description.extension is not None  # errors of them grow before they decay
        self.entries = np.delete(np.arange(len(self.start)), self.n_x - 1)
        self.velocities = [self.names.index(name) for name in d.velocities]
        self.angles = np.array([self.units[i] == "rad" and i not in self.velocities for i in range(len(self.names))])
        events = ["jump" for _ in closed_loop.machine.description.jumps]
        self.equations = LoopEquations(closed_loop, strict=False, integrals=False, events=events)

    def units_of(self, names: Sequence[str]) -> list[str]:
        """The units of these states."""
        return [self.units[self.names.index(name)] for name in names]

    def are_velocities(self, entries: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these of `entries` are velocities."""
        return np.isin(entries, self.velocities)

    def rates(self, t: float, stacked: Array) -> Array:
        """x' of stacked states (n_copies * n,); guards are ignored, the law gives its inputs beyond them too."""
        return self.equations.rates(t, stacked)

    def forcing(self, t: float, x: Array) -> Array:
        """What time may change of the loop at a state: the goal, x', and what the machine's jumps look at and set."""
        rates = self.rates(t, x)
        return np.concatenate([self.equations.goal, rates, self.machine.jump_terms(t, x[: self.n_x])])

    def inputs(self, t: float, x: Array) -> Array:
        """What the law gives at a state, within its limits."""
        self.equations.rates(t, x)
        return self.equations.u.copy()

    def held(self, t: float, x: Array) -> Array:
        """What the closed loop brings to zero: f, f', ..., f^(r-1) of each residual, constraints of places."""
        return self.equations.held(t, x)

    def serves(self, t: float, x: Array) -> bool:
        """Whether there are residuals, and they vanish at this state."""
        if self.control is None or not self.control.law.n_s:
            return False
        self.equations.rates(t, x)
        return bool(np.abs(self.equations.answer.residuals).max() < SERVED)

    def dead_point(self, t: float, x: Array) -> str | None:
        """The machine's dead point, at this state or passed before it, as a text; beyond it nothing is known."""
        judged = self.closed_loop.launch.plant.safety.faults
        violated = self.machine.fault(t, x[: self.n_x]) if judged else None
        return violated.text if violated and violated.name == "dead_point" else None

    def refusal(self, t: float, x: Array) -> str | None:
        """Why the law or the machine's motion stops at this state, or None."""
        if dead := self.dead_point(t, x):
            return dead
        if self.control is None or not self.equations.status(t, x):
            return None
        return self.control.law.explain(self.equations.answer)

    def steps(self, t: float, stacked: Array, end: float, **ends: Any) -> Iterator[Steps]:
        """Accepted steps of DOP853 in batches up to `end`, or to what `LoopEquations.steps` is told that ends them.

        Where copies have come apart it continues from the last state of the batch, which may be changed.
        """
        total, length = 0, 0.0
        while total < MAX_STEPS:
            most = min(BATCH, MAX_STEPS - total)
            part = self.equations.steps(t, stacked, end, RTOL, ATOL, most=most, length=length, **ends)
            yield part
            if part.code not in (AGAIN, APART) or part.times[-1] >= end:
                return
            total, length = total + len(part.times), part.length
            t, stacked = float(part.times[-1]), part.states[-1]
        raise SimulationError(f"the zero dynamics took {MAX_STEPS} steps to t = {t:g} s; judge a shorter duration")

    def huge(self, x: Array) -> bool:
        return bool(np.abs(x[self.velocities]).max(initial=0.0) > HUGE)

    @property
    def too_fast(self) -> dict[str, Any]:
        """What ends steps at velocities that are huge."""
        velocities = np.zeros(len(self.start))
        velocities[self.entries[self.velocities]] = 1.0
        return {"fastest": HUGE, "velocities": velocities}

    def escape(self, t: float, x: Array) -> tuple[float, str] | None:
        """When and which velocity goes to infinity, by v' ~ v^2 from here on, or None."""
        v, v_dot = x[self.velocities], self.rates(t, x)[self.velocities]
        i = int(np.argmax(np.abs(v)))
        left = v[i] / v_dot[i] if v_dot[i] else np.inf
        return (t + left, self.names[self.velocities[i]]) if 0 < left < SOON * max(t, 1.0) else None

    def jacobian(self, t: float, x: Array) -> tuple[Array, Array]:
        """dF/dx (n, n) and d held/dx (n_held, n) at a state, in `entries`; differences of fourth order."""
        return self.equations.slopes(t, x)

    def held_slope(self, t: float, x: Array) -> Array:
        """d held/dx (n_held, n) at a state, as of `jacobian`."""
        return self.equations.slopes(t, x)[1]


def passive_coordinates(loop: ContinuousLoop) -> tuple[str, ...]:
    """Coordinates, and own states, on which no rate depends but those of other passive ones: places, wheel angles.

    They are found at states beside the initial one.
    """

    def linearised(x: Array) -> tuple[Array, Array]:
        return loop.rates(0.0, x)[loop.entries], loop.jacobian(0.0, x)[0]

    candidates = sorted(set(range(len(loop.entries))) - set(loop.velocities))
    return tuple(loop.names[i] for i in passive(linearised, loop.start, candidates))
