"""NAME: model predictive control that reverses the robot with trailer along the x-axis, by the solver OSQP.

It needs the extra `mpc`: pip install 'servonode[mpc]'. Edit this file to define your own controller. It runs in the
controller's process; what it returns goes through the same limits and checks as any other command.
"""

import numpy as np
import osqp
from scipy import sparse
from scipy.linalg import block_diag, solve_discrete_are

from servonode.controllers import PlantView

HELD = ("Y", "psi", "phi", "V", "Omega")  # the states that are predicted; X goes on, and nothing depends on it
SPARE = 0.003  # rad, of a hitch angle beyond its limit, which costs as much as the largest torque


class MPC:
    """The torques that are best over a horizon, within their limits and with the hitch angle in its own.

    The plant is linearised about its motion at one speed. Decided are the inputs of the horizon, as shares of their
    limits, and by how much the hitch angle may leave its limit, so that there always is a solution.
    """

    residual_units = {"offset": "m", "hitch": "rad", "speed": "m/s"}

    def __init__(self, plant: PlantView, horizon: int = 40, speed: float = -0.3, hitch: float = 0.35) -> None:
        """horizon [control periods]; speed [m/s], about which the plant is linearised; hitch [rad]: its limit."""
        self.states, self.goals, self.limits = plant.index(*HELD), plant.index("y", "v"), plant.limits
        motion = np.zeros(len(plant.state_names))
        motion[plant.index("V")] = speed
        A, B = plant.discretize(motion)
        A, B = A[np.ix_(self.states, self.states)], B[self.states]
        n, m = B.shape
        Q, R = np.diag([10.0, 1.0, 1.0, 5.0, 1.0]), np.eye(m)
        P = solve_discrete_are(A, B, Q, R)  # what comes after the horizon

        # the states of the horizon, one after the other, are free @ z[0] + forced @ (shares of the limits)
        powers = [np.linalg.matrix_power(A, k) for k in range(horizon + 1)]
        effects = [power @ B * plant.limits for power in powers]
        none = np.zeros((n, m))
        free = np.vstack(powers[1:])
        forced = np.block([[effects[i - j] if j <= i else none for j in range(horizon)] for i in range(horizon)])
        weights = block_diag(*[Q] * (horizon - 1), P)
        cost = block_diag(forced.T @ weights @ forced + np.kron(np.eye(horizon), R * plant.limits**2), [[1.0]])
        self.gradient, self.free = forced.T @ weights, free
        self.horizon, self.m, self.hitch = horizon, m, hitch

        # -1 <= shares <= 1, -hitch <= phi + SPARE s, phi - SPARE s <= hitch
        angle = slice(HELD.index("phi"), None, n)
        self.free_angle = free[angle]
        spare = np.full((horizon, 1), SPARE)
        shares = np.eye(horizon * m, horizon * m + 1)
        rows = np.vstack([shares, np.hstack([forced[angle], spare]), np.hstack([forced[angle], -spare])])
        self.low = np.concatenate([-np.ones(horizon * m), np.zeros(horizon), np.full(horizon, -np.inf)])
        self.high = np.concatenate([np.ones(horizon * m), np.full(horizon, np.inf), np.zeros(horizon)])
        self.q = np.zeros(horizon * m + 1)
        self.zeros = np.zeros(horizon * m + 1), np.zeros(len(self.low))
        self.solver = osqp.OSQP()
        self.solver.setup(
            sparse.csc_matrix(np.triu(cost)), self.q, sparse.csc_matrix(rows), self.low, self.high,
            verbose=False, eps_abs=1e-5, eps_rel=1e-5,
            adaptive_rho=1, adaptive_rho_interval=50,  # by iterations, not by the clock: the same states, the same bits
        )  # fmt: skip

    def reset(self, seed: int) -> None:
        """Begin again: each solution begins at the one before, which the first one has not."""
        self.solver.warm_start(*self.zeros)

    def command(self, t: float, state: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """The torques [N m] of the first period of the horizon."""
        now, angles = state[self.states], self.free_angle @ state[self.states]
        self.q[:-1] = self.gradient @ (self.free @ now - np.tile(self.wanted(goal), self.horizon))
        self.low[-2 * self.horizon : -self.horizon] = -self.hitch - angles
        self.high[-self.horizon :] = self.hitch - angles
        self.solver.update(q=self.q, l=self.low, u=self.high)
        found = self.solver.solve(raise_error=False)
        if found.info.status not in ("solved", "solved inaccurate"):
            raise RuntimeError(f"OSQP: {found.info.status}")  # a fault: the plant then does its safe action
        return self.limits * found.x[: self.m]

    def residuals(self, t: float, state: np.ndarray, goal: np.ndarray) -> dict[str, float]:
        """What the record and the check look at; leave it out where there is nothing."""
        error = state[self.states] - self.wanted(goal)
        return {"offset": error[0], "hitch": error[2], "speed": error[3]}

    def wanted(self, goal: np.ndarray) -> np.ndarray:
        """The goal of each state that is predicted."""
        y, v = goal[self.goals]
        return np.array([y, 0.0, 0.0, v, 0.0])
