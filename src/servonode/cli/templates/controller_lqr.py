"""NAME: an LQR that reverses the robot with trailer along the x-axis, by the Riccati equation of scipy.

Edit this file to define your own controller. It runs in the controller's process; what it returns goes through the
same limits and checks as any other command.
"""

import numpy as np
from scipy.linalg import solve_discrete_are

from servonode.controllers import PlantView

HELD = ("Y", "psi", "phi", "V", "Omega")  # the states that are fed back; X goes on, and nothing depends on it


class LQR:
    """u = -K (state - goal), K of the plant linearised about its motion at the initial speed of the goal."""

    residual_units = {"offset": "m", "hitch": "rad", "speed": "m/s"}

    def __init__(self, plant: PlantView, speed: float = -0.3, effort: float = 1.0) -> None:
        """speed [m/s], about which the plant is linearised; effort: the weight of the torques."""
        self.states, self.goals = plant.index(*HELD), plant.index("y", "v")
        motion = np.zeros(len(plant.state_names))
        motion[plant.index("V")] = speed
        A, B = plant.discretize(motion)  # x[k + 1] = A x[k] + B u[k], a control period later
        A, B = A[np.ix_(self.states, self.states)], B[self.states]
        Q, R = np.diag([10.0, 1.0, 1.0, 5.0, 1.0]), effort * np.eye(len(plant.input_names))
        P = solve_discrete_are(A, B, Q, R)
        self.K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)

    def command(self, t: float, state: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """The torques [N m] in the order of plant.input_names."""
        return -self.K @ self.error(state, goal)

    def residuals(self, t: float, state: np.ndarray, goal: np.ndarray) -> dict[str, float]:
        """What the record and the check look at; leave it out where there is nothing."""
        error = self.error(state, goal)
        return {"offset": error[0], "hitch": error[2], "speed": error[3]}

    def error(self, state: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """The states that are fed back, less their goals."""
        y, v = goal[self.goals]
        return state[self.states] - [y, 0.0, 0.0, v, 0.0]
