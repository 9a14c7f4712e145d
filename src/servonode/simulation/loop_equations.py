"""The equations of a closed loop as compiled code, x' = F(t, x), the law inside the right-hand side; DOP853 on them.

A state is the machine's, its work, the program's own states, then the integrals of the residuals where they are asked
for. Copies of a state may stand one behind the other, or columns of perturbations behind one state: dx of all entries
but the work, which move by dx' = A dx, A dx by differences of F to both sides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.controllers.engine.signals import Signals
from servonode.controllers.inversion.feedforward import Feedforward
from servonode.definitions import cache
from servonode.mechanics import dop853
from servonode.simulation.equations_source import AGAIN, CONTEXT, GOOD, REFUSED, equations_source

BATCH = 256  # steps that are told at once
LEAST_RTOL = 100 * 2.0**-52  # below it errors are rounding


@dataclass(frozen=True)
class Steps:
    """Accepted steps: times (k,) [s], states (k, m), the code of what ended them, the length of the next step [s]."""

    times: Array
    states: Array
    code: int
    length: float


class _Integration:
    """The arrays of an integration of m states."""

    def __init__(self, t: float, y: Array, length: float = 0.0) -> None:
        self.solver = np.array([t, length, t, t])
        self.arrays = {name: np.zeros(size * len(y)) for name, size in dop853.ARRAYS.items()}
        self.y, self.beside = self.arrays["y"], self.arrays["beside"]
        self.y[:] = y

    @property
    def t(self) -> float:
        return float(self.solver[dop853.TIME])

    def of(self, *names: str) -> list[Array]:
        return [self.arrays[name] for name in names]


class LoopEquations:
    """F of a closed loop, limited as the plant's filter would.

    strict: whether an evaluation at which the law stops ends an integration; else its inputs there are taken.
    events: any of `fault` and `determinant`, then `jump` for each jump, which end `solve`.
    """

    def __init__(self, closed_loop: ClosedLoop, strict: bool, integrals: bool, events: Sequence[str] = ()) -> None:
        machine, control = closed_loop.machine, closed_loop.control
        source = equations_source(closed_loop, events, integrals)
        self._kernel = cast(Any, cache.load(cache.key_of("equations", source), lambda: (source, b"{}"))[0])
        self.n, self.n_held, self.n_x = self._kernel.n, self._kernel.n_held, machine.n_state + 1
        self.events = tuple(events)
        self.waiting = np.zeros(self.events.count("jump"))
        arrays = {"c": machine.c, "limit": np.array(closed_loop.safety.limits.value)}
        self._law, self.goal = control.law if control else None, np.zeros(0)
        if self._law is not None and control is not None:
            law, part, answer = self._law, self._law.goal_layout, self._law.answer()
            goal = self.goal = np.zeros(part.size)
            arrays |= {"goal": goal, "targets": goal[part.targets], "signals": goal[part.signals]}
            arrays |= {"kept": goal[part.kept if integrals else part.states], "out": answer.out}
            arrays |= {"inputs": answer.inputs, "residuals": answer.residuals, "recorded": answer.recorded}
            arrays |= {"c_law": law.c, "gains": law.K, "own": np.zeros(len(law.initial_states))}
            arrays |= {"target_pieces": _set(control.targets, arrays["targets"])}
            arrays |= {"signal_pieces": _set(control.signals, arrays["signals"])}
            self.answer = answer
        else:
            arrays |= {"gains": np.zeros((3, 0, 0)), "inputs": np.zeros(machine.n_inputs)}
        self.u = arrays["u"] = np.zeros(machine.n_inputs)
        arrays |= {name: np.zeros(self.n_x) for name in ("x", "dx")}
        empty = np.zeros(0)
        self._arrays = [arrays.get(name, empty) for name in list(CONTEXT)[2:]]
        self._strict = int(strict)

    def _context(self, columns: int = 0) -> list[Any]:
        return [self._strict, columns, *self._arrays]

    def rates(self, t: float, y: Array) -> Array:
        """x' (m,) of stacked states (m,); afterwards `u` are the inputs of the last, and `answer` is the law's."""
        dy = np.zeros(len(y))
        self._kernel.rates(t, len(y), y, *self._context(), dy)
        return dy

    def status(self, t: float, y: Array) -> int:
        """The law's status at a state, which `answer` has too, or GOAL_NOT_FINITE."""
        self.answer.status = self._kernel.rates(t, len(y), y, 2, *self._context()[1:], np.zeros(len(y)))
        return self.answer.status

    def held(self, t: float, y: Array) -> Array:
        """What the closed loop brings to zero (n_held,): f, f', ..., f^(r-1) of each residual, places."""
        found = np.zeros(self.n_held)
        self._kernel.held(t, y, *self._context(), found)
        return found

    def slopes(self, t: float, y: Array) -> tuple[Array, Array]:
        """dF/dx (n - 1, n - 1) and d held/dx (n_held, n - 1), of all entries but the work; of fourth order."""
        n, n_held = self.n, self.n_held
        A, C = np.zeros((n - 1, n - 1)), np.zeros((n_held, n - 1))
        scratch = np.zeros(n), np.zeros(n), np.zeros(4 * (n + n_held))
        self._kernel.slopes(t, y, *self._context(), *scratch, A.reshape(-1), C.reshape(-1))
        return A, C

    def steps(
        self, t: float, y: Array, end: float, rtol: float, atol: float, *, most: int = BATCH, length: float = 0.0,
        stops: bool = False, weights: Array | None = None, fastest: float = np.inf, velocities: Array | None = None,
        columns: int = 0,
    ) -> Steps:  # fmt: skip
        """Accepted steps of DOP853 from y (m,) on.

        Args:
            most: of them. length: of the first [s], 0: to be chosen.
            stops: whether they end where the law or the machine's motion stops.
            weights: (n,) of the copies' distances from the first, whose sizes are to stay between LEAST_APART and
                MOST_APART. velocities: (n,) 1 for entries that end them where they are above `fastest`.
            columns: of perturbations behind the state.
        """
        m, zeros = len(y), np.zeros(self.n)
        run, done = _Integration(t, y, length), np.zeros(1, dtype=np.int64)
        times, states = np.zeros(most), np.zeros(most * m)
        code = self._kernel.steps(
            most, end, rtol, atol, fastest, int(stops), run.solver, m,
            *run.of("y", "y_old", "f", "K", "beside", "dy"), zeros if weights is None else weights,
            zeros if velocities is None else velocities, *self._context(columns), done, times, states,
        )  # fmt: skip
        n = int(done[0])
        return Steps(times[:n], states.reshape(most, m)[:n], code, float(run.solver[dop853.LENGTH]))

    def solve(
        self, times: Array, done: int, t: float, y: Array, longest: float, rtol: float, atol: float, found: Array
    ) -> tuple[int, int, float, Array]:
        """Fill the states (n_times, n) at `times` from row `done` on, from y at t up to the first event.

        What ended it (a code, EVENT + i for event i), how many rows are filled, and time and state where it ended: at
        the event, or of the evaluation that was refused.
        """
        run, count = _Integration(t, y), np.array([done])
        code, before = AGAIN, np.zeros(len(self.events))
        while code == AGAIN:
            code = self._kernel.solve(
                longest, max(rtol, LEAST_RTOL), atol, run.solver, *run.arrays.values(), before, self.waiting,
                *self._context(),
                len(times), times, count, found.reshape(-1),
            )  # fmt: skip
        if code == REFUSED:
            return code, int(count[0]), float(run.solver[dop853.REFUSED_AT]), run.beside
        return code, int(count[0]), run.t, run.y

    def told(self, k: Any, times: Array, states: Array, rows: Array, answers: Array) -> int:
        """Fill the plant's and the controller's rows of states (n_times, n); the row at which the law stops, or -1."""
        y, dy = np.zeros((2, self.n))
        context = [2, *self._context()[1:]]
        return int(self._kernel.told(len(times), k, times, states.reshape(-1), y, dy, *context, rows, answers))


def _set(signals: Signals | Feedforward, out: Array) -> Array:
    """The pieces of signals' curves, numbers being written once into `out`."""
    if signals.kernel is None:
        signals.evaluate(0.0, out)
    return signals.pieces


__all__ = ["GOOD", "LoopEquations", "Steps"]
