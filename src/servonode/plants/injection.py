"""Faults on demand: how drives, sensors and the link of a machine can fail, and what that makes of their signals."""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.plants.keys import Impairments

_SIGNAL = ("off", "stuck", "wrong_sign", "intermittent", "garbage", "noise", "slow", "delayed")
KINDS = {  # of what fails, the ways in which it can
    "drive": _SIGNAL,
    "sensor": _SIGNAL,
    "link": ("off", "intermittent", "delayed", "drop", "garbage"),
    "node": ("stall", "kill"),
}
SIZES = {  # the kinds that have a size, and what it is
    "intermittent": "the time for which it fails and then works, in turns, in s",
    "garbage": "the largest magnitude of random values, in the unit of the signal; none for a link",
    "noise": "the standard deviation, in the unit of the signal",
    "slow": "the time constant of the lag, in s",
    "delayed": "the dead time, in s",
    "drop": "the probability that a message is lost",
}
DIRECTIONS = ("state", "applied")  # of a link: what the machine sends, and what it is sent
CLEAR = Impairments()


@dataclass(frozen=True)
class Injection:
    """A fault that is injected: on what, how, and at which plant steps.

    names: of inputs, states, sensors, directions of the link, or nodes. size: see SIZES; 0 where the kind has none.
    """

    on: str
    kind: str
    names: tuple[str, ...]
    begin: int
    end: float  # the first step without it; inf: it stays
    size: float = 0.0

    def acts(self, k: int, step: float) -> bool:
        """Whether it acts at plant step k; step [s]."""
        if not self.begin <= k < self.end:
            return False
        return self.kind != "intermittent" or (k - self.begin) // max(round(self.size / step), 1) % 2 == 0

    def as_dict(self, step: float) -> dict[str, Any]:
        """As a record tells it; step [s]. Without `duration` it stays to the end."""
        duration = (self.end - self.begin) * step if self.end < math.inf else None
        told = {"on": self.on, "kind": self.kind, "names": list(self.names), "t": self.begin * step}
        return told | {"duration": duration, "size": self.size}


class FailingSignal:
    """The value of one signal while a fault acts on it. rng: its own random numbers. step [s]: of the plant."""

    def __init__(self, injection: Injection, rng: np.random.Generator, step: float) -> None:
        self._kind, self._size, self._step, self._rng = injection.kind, injection.size, step, rng
        self._came: deque[tuple[int, float]] = deque()  # values that are still to be shown, with their steps

    def value(self, k: int, true: float) -> float:
        """What becomes of the true value of step k."""
        match self._kind:
            case "wrong_sign":
                return -true
            case "garbage":
                return self._size * float(self._rng.uniform(-1.0, 1.0))
            case "noise":
                return true + self._size * float(self._rng.standard_normal())
            case "stuck" | "slow" | "delayed":
                return self._from_before(k, true)
        return 0.0  # off, also in turns

    def _from_before(self, k: int, true: float) -> float:
        """A value of which an earlier one is a part; the first is the true one."""
        came = self._came
        if not came:
            came.append((k, true))
        elif self._kind == "slow":
            at, before = came.pop()
            part = -math.expm1(-(k - at) * self._step / self._size)
            came.append((k, before + part * (true - before)))
        elif self._kind == "delayed":
            came.append((k, true))
            while len(came) > 1 and came[1][0] <= k - round(self._size / self._step):
                came.popleft()
        return came[0][1]


class Injector:
    """The faults of one run, planned or added while it is in progress, and their state.

    signals: the names of inputs ("drive") and of states ("sensor"), in their order. k: the plant step, which the
    link to an external plant needs. link_timeout: steps without a message after which a simulated link counts as lost.
    """

    def __init__(
        self,
        injections: Iterable[Injection] = (),
        signals: dict[str, tuple[str, ...]] | None = None,
        step: float = 1e-3,
        seed: int = 0,
        link_timeout: int = 0,
    ) -> None:
        self.injections = list(injections)
        self.step, self.seed, self.link_timeout, self.k = step, seed, link_timeout, 0
        self.lifted = False  # whether a stop has ended the faults of the link
        self._signals = signals or {}
        self._failing: dict[tuple[int, str], FailingSignal] = {}

    def lift_link(self) -> None:
        """End the faults of the link, those too that have not begun."""
        self.lifted = True
        self.injections = [replace(each, end=0) if each.on == "link" else each for each in self.injections]

    def any_of(self, *places: str) -> bool:
        """Whether such a fault is planned, acts or has acted."""
        return any(each.on in places for each in self.injections)

    def may_act(self, on: str, first: int, last: int) -> bool:
        """Whether such a fault acts at one of the steps from `first` to before `last`."""
        return any(each.on == on and each.begin < last and first < each.end for each in self.injections)

    def signals(self, on: str, k: int, true: Array) -> Array:
        """What becomes of the inputs or states of step k; the same array where nothing fails."""
        if not self.injections:
            return true
        shown = true
        for number, each in enumerate(self.injections):
            if each.on == on and each.acts(k, self.step):
                shown = shown.copy() if shown is true else shown
                for name in each.names:
                    if name in self._signals[on]:
                        i = self._signals[on].index(name)
                        shown[i] = self._signal(number, each, name).value(k, float(shown[i]))
        return shown

    def reading(self, k: int, sensor: str, value: float) -> float | None:
        """What becomes of a sensor's reading of step k; None: it gives no reading."""
        for number, each in enumerate(self.injections):
            if each.on == "sensor" and sensor in each.names and each.acts(k, self.step):
                if each.kind in ("off", "intermittent"):
                    return None
                value = self._signal(number, each, sensor).value(k, value)
        return value

    def impairments(self, direction: str, k: int) -> Impairments:
        """What the link does to a message that is sent at step k."""
        acting = [e for e in self.injections if e.on == "link" and direction in e.names and e.acts(k, self.step)]
        if not acting:
            return CLEAR
        sizes = {each.kind: each.size for each in acting}
        loss = 1.0 if sizes.keys() & {"off", "intermittent"} else sizes.get("drop", 0.0)
        return Impairments(delay=sizes.get("delayed", 0.0), loss=loss, corrupt=float("garbage" in sizes))

    def _signal(self, number: int, injection: Injection, name: str) -> FailingSignal:
        if (number, name) not in self._failing:
            rng = np.random.default_rng([self.seed, number, *name.encode()])
            self._failing[number, name] = FailingSignal(injection, rng, self.step)
        return self._failing[number, name]
