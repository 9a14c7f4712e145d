"""The estimator in the controller node: it computes from sensor readings the estimate that the law uses."""

from collections import Counter

import numpy as np
from msgspec import UNSET

from servonode.arrays import Array
from servonode.bus import Estimate, State
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.estimators.kalman import consistency
from servonode.mechanics.description import packed, unpacked
from servonode.nodes.node import Outbox

NOT_FINITE = (
    "the estimate is no longer finite: the filter has diverged; give sensors that observe what drifts, an "
    "initial state nearer to the truth, or another process_noise"
)


class Observing:
    """An estimator that takes readings, and the inputs that acted, from the plant's messages.

    The state in a message, which a simulation knows, is only compared with the estimate, never used for it. A state
    with standard deviations is itself an estimate, made by the plant node from readings. It has more attributes than a
    dozen, because it keeps the estimate, its errors and what they are compared with in memory that does not grow.
    """

    def __init__(self, closed_loop: ClosedLoop, outbox: Outbox, counts: Counter[str], simulated: bool) -> None:
        estimation = closed_loop.estimation
        assert estimation is not None
        self.estimator = estimation.estimator()
        self._diverged = False  # the estimate cannot be used until the plant restarts
        settings = estimation.settings
        used = [settings.sensors[i] for i in settings.used]
        slowest = max(1e9 / each.rate / settings.step_ns if each.rate else 0.0 for each in used)
        self._most_steps = settings.horizon + round(slowest)  # steps within which the first reading must come
        self._names = ", ".join(each.name for each in used)
        self._begun, self._has_read = 0, False  # the step at which it began, and whether a reading has come since
        self._awaits = False  # none has come for longer than the first may take
        description = estimation.observer.machine.description
        self._layout, self._columns, self._inputs = description.layout, description.columns, description.input_names
        self._outbox, self._counts = outbox, counts
        self._run = 0  # run id; 0: none yet
        self._held: list[State] = []  # states that came while another waits for its answer
        self._u = np.zeros(len(self._inputs))
        self._deviations = np.zeros(len(self._columns))
        self._consistency = np.zeros(4)
        self._gated = settings.gated
        self._rejected = np.zeros(len(self._gated))  # in all
        self._knows_truth = (simulated or closed_loop.driver.simulated) and closed_loop.sensor.ideal

    def receive(self, state: State, waiting: State | None) -> None:
        """Take a state of the plant; one that comes after a state that still waits for its answer is held back.

        So the answer to a state uses only what was known at that state, however late it is computed.
        """
        if waiting is None or state.run != waiting.run or (state.control and state.seq > waiting.seq):
            self.take_held()
            self._take(state)
        else:
            self._held.append(state)

    def take_held(self) -> None:
        """Take the states that were held back."""
        for state in self._held:
            self._take(state)
        self._held.clear()

    def _take(self, state: State) -> None:
        """Update the estimate by a message: by the inputs that acted until then and the readings, not by its state."""
        estimator = self.estimator
        if not self._run or (state.run != self._run and state.k < estimator.k):  # the plant has restarted
            estimator.begin(state.k)
            self._diverged, self._begun, self._has_read, self._awaits = False, state.k, False, False
        self._run = state.run
        if state.std is not UNSET:  # the plant node has made an estimate
            self._has_read = True
            return
        try:
            self._u[:] = [state.input[name] for name in self._inputs]
        except KeyError:
            self._counts["refused_shape"] += 1
            return
        readings = {} if state.readings is UNSET else state.readings
        self._diverged = not estimator.advance(state.k, self._u, readings) or self._diverged
        self._has_read = self._has_read or bool(estimator.came)
        self._awaits = not self._has_read and state.k - self._begun > self._most_steps
        for name, number in estimator.counts.items():
            self._counts[name] = number

    @property
    def lost(self) -> str:
        """Why the estimate cannot be used now; empty: it can."""
        if self._diverged:
            return NOT_FINITE
        if self._awaits:
            return f"no reading of {self._names} has come yet; check that the machine's state messages contain them"
        return self.estimator.persistent_rejection

    def mean(self, state: State) -> Array:
        """The estimate at a state (n,): the plant node's, where it has made one, else our own.

        Raises:
            KeyError, ValueError: the plant's has other names or sizes.
        """
        return self.estimator.x[:-1] if state.std is UNSET else self._stated(state)

    def publish(self, state: State) -> tuple[Array, Array, Array, Array]:
        """Publish the estimate at a state; what is recorded of it, in the order of `Estimation.columns`."""
        mean, nees, dimensions = self.mean(state), 0.0, 0
        if state.std is UNSET:
            stats = self.estimator.take_stats()
            self._deviations[:], innovations, nis, taken, rejected = self.estimator.deviations, *stats
            if self._knows_truth:
                nees, dimensions = consistency(mean, self.estimator.P, self._stated(state))
        else:
            self._deviations[:] = [state.std.get(name, np.nan) for name in self._columns]
            innovations = {} if state.innovation is UNSET else state.innovation
            quality = {} if state.consistency is UNSET else state.consistency
            nis, taken = quality.get("nis", 0.0), round(quality.get("readings", 0.0))
            rejected = {} if state.rejected is UNSET else state.rejected
        self._consistency[:] = nis, taken, nees, dimensions
        self._rejected += [rejected.get(name, 0.0) for name in self._gated]
        self._outbox.send(
            Estimate, state.k, state.t, state=packed(self._layout, mean.tolist()),
            std=dict(zip(self._columns, self._deviations.tolist(), strict=True)),
            innovation=innovations, nis=nis, readings=taken, nees=nees, dimensions=dimensions, re=state.seq,
            rejected=rejected or UNSET,
        )  # fmt: skip
        return mean, self._deviations, self._consistency, self._rejected

    def _stated(self, state: State) -> Array:
        return np.array(unpacked(self._layout, state.state))
