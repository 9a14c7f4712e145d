"""Outputs with their goals of a run that continues: computed by its law, from its states and goals as they come."""

from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.bus import Target
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.controller_section import Control


@dataclass(frozen=True)
class LiveGoals:
    """Computes the columns `output_NAME`, `goal_NAME` of the residuals that are an output less its goal.

    columns: their names. step [s]: of the plant. y: the goal as the law takes it; what nobody publishes is NaN.
    """

    control: Control
    columns: list[str]
    step: float
    y: Array

    @classmethod
    def of(cls, closed_loop: ClosedLoop) -> "LiveGoals | None":
        """Those of a closed loop; None where no residual is such a difference."""
        control = closed_loop.control
        if control is None or not control.law.description.tracked:
            return None
        names = [each.residual for each in control.law.description.tracked]
        columns = [f"{word}_{name}" for word in ("output", "goal") for name in names]
        return cls(control, columns, closed_loop.launch.step_ns * 1e-9, np.full(control.law.goal_layout.size, np.nan))

    def values(self, k: int, x: Array, aim: Target | None) -> Array:
        """Outputs, then goals, at state x whose goal is that of step k; aim: the newest goal that was published."""
        part, published = self.control.law.goal_layout, aim.target if aim else {}
        t = k * self.step
        self.y[part.targets] = [published.get(name, np.nan) for name in self.control.targets.entries]
        self.control.signals.evaluate(t, self.y[part.signals])
        return self.control.law.tracked(t, x, self.y).ravel()
