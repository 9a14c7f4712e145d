"""The goals that a controller has received, by step: a state is answered once its goals are there."""

from collections.abc import Sequence

from servonode.bus import State, Target

MOST_GOALS = 2048  # that are kept for states still to come


def goal_step(state: State) -> int:
    """The step of the goal for a state; goal time stands still while no command acts."""
    return state.goal_k if state.goal_k >= 0 else state.k


class ReceivedGoals:
    """The goals of the present run in the order of their steps, and of the next run those that precede its states."""

    def __init__(self, names: Sequence[str], steps_per_period: int) -> None:
        self.names = names
        self._needed = frozenset(names)
        self._every = steps_per_period
        self._goals: dict[int, Target] = {}
        self._early: dict[int, Target] = {}  # of a run whose first state has not come yet
        self._run = 0  # run id; 0: none yet

    def begin_run(self, run: int) -> None:
        """Keep the goals of this run alone: the plant has started, or restarted."""
        self._run = run
        self._goals = {k: goal for k, goal in self._early.items() if goal.run == run}
        self._early = {}

    def add(self, target: Target) -> bool:
        """Keep a goal; False where it lacks a name."""
        if not self._needed <= target.target.keys():
            return False
        goals = self._goals if target.run == self._run else self._early
        goals.pop(target.k, None)
        goals[target.k] = target
        if len(goals) > MOST_GOALS:
            del goals[next(iter(goals))]
        return True

    def have(self, k: int, ahead: int) -> bool:
        """Whether the goals of step k and of the control instants around step k + ahead have arrived."""
        if not self.names:
            return True
        before = k + ahead - ahead % self._every
        after = before + (self._every if before < k + ahead else 0)
        return k in self._goals and before in self._goals and after in self._goals

    def seq(self, k: int) -> int:
        """The number of the goal of step k; -1 where it has none."""
        goal = self._goals.get(k)
        return goal.seq if goal else -1

    def values(self, k: int) -> list[float]:
        """The goal of step k by `names`; between two control instants it is interpolated linearly."""
        goal = self._goals.get(k)
        if goal is not None:
            return [goal.target[name] for name in self.names]
        passed = k % self._every
        before, after = self._goals[k - passed].target, self._goals[k - passed + self._every].target
        share = passed / self._every
        return [before[name] + share * (after[name] - before[name]) for name in self.names]

    def drop_before(self, k: int) -> None:
        """Drop the goals before step k."""
        while self._goals and (oldest := next(iter(self._goals))) < k:
            del self._goals[oldest]
