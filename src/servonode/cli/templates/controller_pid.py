"""NAME: two PID controllers, of the speed and the heading of the robot with trailer.

Edit this file to define your own controller. It runs in the controller's process; what it returns goes through the
same limits and checks as any other command.
"""

import numpy as np

from servonode.controllers import PlantView


class PID:
    """One of a single input: its derivative comes from a measured rate, its integral stops where the input is limited.

    u = kp e + ki (integral of e) + kd e_dot, |u| <= limit.
    """

    def __init__(self, kp: float, ki: float, kd: float, period: float, limit: float) -> None:
        self.kp, self.ki, self.kd, self.period, self.limit = kp, ki, kd, period, limit
        self.integral = 0.0

    def command(self, error: float, rate: float) -> float:
        """The input for an error and its rate."""
        wanted = self.kp * error + self.ki * self.integral + self.kd * rate
        limited = min(max(wanted, -self.limit), self.limit)
        if wanted == limited:
            self.integral += self.period * error
        return limited


class SpeedAndHeading:
    """Both wheels drive with the torque of the speed, less and more that of the heading."""

    residual_units = {"speed": "m/s", "heading": "rad"}

    def __init__(
        self,
        plant: PlantView,
        kp_speed: float = 4.0,
        ki_speed: float = 1.0,
        kp_heading: float = 2.0,
        ki_heading: float = 0.2,
        kd_heading: float = 2.0,
    ) -> None:
        self.V, self.psi, self.Omega = plant.index("V", "psi", "Omega")
        self.goals = plant.index("v", "psi_goal", "psi_goal_dot")
        half = float(plant.limits.min()) / 2  # of each wheel for either
        self.gains = ((kp_speed, ki_speed, 0.0), (kp_heading, ki_heading, kd_heading))
        self.period, self.half = plant.period, half

    def reset(self, seed: int) -> None:
        """Begin again, as before the first command and after an interruption."""
        self.speed, self.heading = (PID(*gains, self.period, self.half) for gains in self.gains)

    def command(self, t: float, state: np.ndarray, goal: np.ndarray) -> list[float]:
        """The torques [N m] of the left and the right wheel."""
        v, psi, psi_dot = goal[self.goals]
        drive = self.speed.command(v - state[self.V], 0.0)
        turn = self.heading.command(psi - state[self.psi], psi_dot - state[self.Omega])
        return [drive - turn, drive + turn]

    def residuals(self, t: float, state: np.ndarray, goal: np.ndarray) -> dict[str, float]:
        """What the record and the check look at; leave it out where there is nothing."""
        v, psi, _ = goal[self.goals]
        return {"speed": state[self.V] - v, "heading": state[self.psi] - psi}
