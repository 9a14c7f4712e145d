"""What a controller of the user's own is given at its construction: the machine's names, limits, and its motion."""

from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.errors import StatementError, did_you_mean
from servonode.mechanics.machine import Machine

DIFFERENCE = 1e-6  # of a state or an input, to both sides, for a derivative


@dataclass(frozen=True)
class PlantView:
    """The plant as its controller believes it to be.

    The order of `state_names`, `input_names` and `goal_names` is that of the arrays `state`, `goal` and of the inputs
    that `command` returns.
    """

    name: str
    state_names: tuple[str, ...]
    state_units: tuple[str, ...]
    input_names: tuple[str, ...]
    input_units: tuple[str, ...]
    goal_names: tuple[str, ...]  # of [target], each with its first and second derivative: x, x_dot, x_ddot
    limits: Array  # (n_inputs,) the largest magnitude that acts; inf where nothing limits it
    period: float  # s between two commands
    delay: float  # control periods from a state to the instant at which its command acts
    start: Array  # (n_state,) the plant's initial state
    machine: Machine  # with the parameters that the controller believes
    integrator: str
    step_ns: int  # ns, of the plant's integrator

    def index(self, *names: str) -> list[int]:
        """Where states of these names stand in `state`; of names of the goal, where they stand in `goal`.

        Raises:
            StatementError: a name is neither in `state_names` nor all of them in `goal_names`.
        """
        known = self.goal_names if names and names[0] not in self.state_names else self.state_names
        for name in names:
            if name not in known:
                near = did_you_mean(name, (*self.state_names, *self.goal_names))
                goals = ", ".join(self.goal_names) or "none, for [target] is empty"
                text = f"there is no {name!r}; {near}the states are {', '.join(self.state_names)}, the goals {goals}"
                raise StatementError(text)
        return [known.index(name) for name in names]

    def derivatives(self, state: Array, inputs: Array, t: float = 0.0) -> Array:
        """The rate of each state (n_state,) [its unit per s], under these inputs."""
        return self.machine.derivatives(t, np.append(state, 0.0), np.asarray(inputs, dtype=float))[:-1]

    def advance(self, state: Array, inputs: Array, k: int = 0) -> Array:
        """The state (n_state,) a control period after plant step `k`, the inputs held, by the run's integrator."""
        x = np.append(state, 0.0)
        steps = round(self.period * 1e9 / self.step_ns)
        held = np.array(inputs, dtype=float)
        self.machine.advancer(self.integrator)(k, steps, self.step_ns, x, held, self.machine.c)
        return x[:-1]

    def linearize(self, state: Array | None = None, inputs: Array | None = None, t: float = 0.0) -> tuple[Array, Array]:
        """A (n_state, n_state) and B (n_state, n_inputs) of x' = A x + B u about a state, by central differences.

        Absent, the state is the plant's initial one and the inputs are zero.
        """
        x = np.array(self.start if state is None else state, dtype=float)
        u = np.zeros(len(self.input_names)) if inputs is None else np.array(inputs, dtype=float)

        def rates(both: Array) -> Array:
            return self.derivatives(both[: len(x)], both[len(x) :], t)

        def slope(both: Array, i: int) -> Array:
            side = np.zeros(len(both))
            side[i] = DIFFERENCE
            return (rates(both + side) - rates(both - side)) / (2 * DIFFERENCE)

        both = np.append(x, u)
        columns = np.array([slope(both, i) for i in range(len(both))]).T
        return columns[:, : len(x)], columns[:, len(x) :]

    def discretize(
        self, state: Array | None = None, inputs: Array | None = None, t: float = 0.0
    ) -> tuple[Array, Array]:
        """A and B of `linearize` for a control period with inputs held: x[k + 1] = A x[k] + B u[k] about a state."""
        from scipy.linalg import expm

        A, B = self.linearize(state, inputs, t)
        n, m = B.shape
        both: Array = expm(np.block([[A, B], [np.zeros((m, n + m))]]) * self.period)
        return both[:n, :n], both[:n, n:]
