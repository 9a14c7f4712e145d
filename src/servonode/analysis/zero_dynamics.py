"""What a program leaves free, and what becomes of it: the zero dynamics, linearised, simulated and judged.

At the initial condition, along the run and at the equilibria that belong to the goal the zero dynamics are linearised:
an eigenvalue with a positive real part is a goal of non-minimum phase. Where the closed loop changes periodically in
time, Floquet's multipliers of the periodic motion decide instead, see `internal_motion`. An instability refuses the
goal where it makes a perturbation LOST times as large within the run. The closed loop is also integrated with a few
copies that start a little beside it, which shows what no equilibrium does: perturbations that depart at a steady
rate, a velocity that goes to infinity, a law that stops.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from servonode.analysis.internal_motion import (
    NEUTRAL,
    InternalMotion,
    Linearised,
    Orbit,
    growth_along,
    orbit_near,
    period_of,
)
from servonode.analysis.linear_system import slope
from servonode.analysis.perturbations import BESIDE, Motion, follow, growth, largest_rise, spread
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.simulation.continuous_loop import ContinuousLoop, passive_coordinates

Judgement = Literal["bounded", "growing", "escaping", "leaves its domain"]
LOOKS = 7  # times of the run at which equilibria are looked for and the motion is linearised
ZERO = 1e-6  # a state below this is not printed
FAST = 3.0  # m/s, rad/s, or times the velocity at the start, to which a velocity that drifts has grown
LOST = 40.0  # growth within the run: 0.01 rad or m beside the motion become 0.4
NEAR = 0.3  # an equilibrium so near (rad, or relative to states above 1) decides what becomes of a motion
REACHED = 1e-6  # least singular value of (mu 1 - A, B), relative to its largest, of a mode that the inputs reach
AT_REST = 1e-3  # m/s or rad/s


@dataclass(frozen=True)
class ZeroDynamics:
    """What the program leaves free and the judgement on it.

    `internal` parametrises the internal motion. `passive` are coordinates on which nothing else depends (places, wheel
    angles): integrals, which no judgement looks at. `equilibria`: the linearisation at those that belong to the goal at
    times of the run; `near`: at those of them that the motion is near to at its time; `along`: at the motion itself.
    """

    judgement: Judgement
    text: str
    internal: tuple[str, ...]
    passive: tuple[str, ...]
    duration: float  # s
    state: str | None = None  # that grows most, or escapes
    rate: float | None = None  # 1/s, of growing
    time: float | None = None  # s, of the escape (extrapolated), or when the law stops
    growth: float = 0.0  # the largest factor by which a perturbation grew, when bounded
    equilibria: tuple[Linearised, ...] = ()
    near: tuple[Linearised, ...] = ()
    along: tuple[Linearised, ...] = ()
    drifts: bool = False  # whether a velocity that is left free grows steadily all along
    settled: bool = False  # whether the motion stays near equilibria at which perturbations do not grow
    diverges: bool = False  # whether an instability is too slow for this run alone
    orbit: Orbit | None = None  # the periodic motion that the run is near to, of a closed loop that is periodic in time


def judge(closed_loop: ClosedLoop, duration: float | None = None, run: float = 0.0) -> ZeroDynamics:
    """The judgement on the closed loop from its initial state on, over `duration` [s] (None: that of the run).

    `run` is the time [s] over which a growth counts, where it is longer than that.

    Raises:
        SimulationError: the integration takes more than MAX_STEPS steps.
    """
    length = closed_loop.launch.duration_ns / 1e9 if duration is None else duration
    loop = ContinuousLoop(closed_loop)
    passive = passive_coordinates(loop)
    found = _Found(loop, InternalMotion(loop, passive), passive, length, max(run, length))
    motion = follow(loop, length, np.array([name not in passive for name in loop.names]))
    return found.judged(motion)


@dataclass
class _Found:
    """A closed loop under judgement, and what of it is known so far: each method finds or words a part of it."""

    loop: ContinuousLoop
    free: InternalMotion
    passive: tuple[str, ...]
    length: float
    run: float  # s, of which the length is the beginning
    orbit: Orbit | None = None
    equilibria: list[Linearised] = field(default_factory=list)
    near: list[Linearised] = field(default_factory=list)
    along: list[Linearised] = field(default_factory=list)

    def judged(self, motion: Motion) -> ZeroDynamics:
        if motion.escape:
            time, state = motion.escape
            text = f"{state} goes to infinity at t = {time:.4g} s; hold {state} by another residual"
            return self._result("escaping", text, state, time=time)
        if motion.refusal:
            time, text = motion.refusal
            return self._result("leaves its domain", f"the law stops at t = {time:.4g} s: {text}", time=time)
        unstable = self._unstable_at(motion) if self.loop.control is not None else None
        grown = self._growth(unstable) if unstable is not None else 0.0
        if unstable is not None and grown > LOST:
            text = f"{self._text(unstable)}{self._kind()}; {self._remedies(unstable)}"
            return self._result("growing", text, unstable.grows, rate=unstable.rate)
        rate, direction, since = growth(motion, lasting=not self.loop.follows_residuals or self.loop.high_degrees)
        bound = self._bound(motion, since) if rate is not None else 0.0
        if rate is not None and bound > LOST:
            state = self.loop.names[int(np.argmax(np.abs(direction)))]
            text = f"{self._unstable()}perturbations grow as exp({rate:.3g} t), most in {state}; {self._remedy(state)}"
            return self._result("growing", text, state, rate=rate)
        if unstable is not None:
            text = f"{self._text(unstable)}{self._kind()}; {self._too_slow(unstable, grown)}"
            return self._result("bounded", text, unstable.grows, rate=unstable.rate, growth=grown, diverges=True)
        grown, drifts = bound or largest_rise(motion), self._drifting(motion)
        which = f"perturbations of {BESIDE:g}" if bound else "perturbations"
        text = f"over {self.length:g} s nothing runs away, and {which} grow at most {grown:.2g}-fold"
        return self._result("bounded", f"{self._settling()}{drifts}{text}", growth=grown, drifts=bool(drifts))

    def _result(self, judgement: Judgement, text: str, state: str | None = None, **numbers: Any) -> ZeroDynamics:
        loop = self.loop
        internal = self.free.names(0.0, loop.start)
        if loop.follows_residuals or loop.control is None:
            text = f"left free: {', '.join(internal) or 'nothing'}; {text}"
        numbers |= {"equilibria": tuple(self.equilibria), "near": tuple(self.near), "along": tuple(self.along)}
        numbers["settled"] = self.orbit is not None or (self._stays and not any(each.unstable for each in self.near))
        numbers["orbit"] = self.orbit
        return ZeroDynamics(judgement, text, internal, self.passive, self.length, state, **numbers)

    def _unstable_at(self, motion: Motion) -> Linearised | None:
        """The instability that decides: of the periodic motion, if the run is near one, else of equilibria."""
        frozen = self._linearise(motion)
        period = period_of(self.loop, motion)
        orbit = orbit_near(self.free, motion, period) if period is not None else None
        if orbit is None or not self._follows(motion, orbit, frozen is not None):
            return frozen
        self.orbit = orbit
        return orbit if orbit.unstable else None

    def _follows(self, motion: Motion, orbit: Orbit, begins: bool) -> bool:
        """Whether the motion is near a periodic one at the end of a period; where inputs are given, of the last one.

        `begins`: at its beginning, for it may have fallen from where it is unstable to where it is not.
        """
        ends = np.arange(0.0, motion.times[-1], orbit.period)
        ends = ends[-1:] if not self.loop.follows_residuals else ends[:1] if begins else ends
        states = np.array([motion.over(ends, i) for i in range(len(orbit.state))]).T
        return any(self.free.distance(x, orbit.state, orbit) < NEAR for x in states)

    def _bound(self, motion: Motion, since: float) -> float:
        """How far motions go that start a little beside it, from when perturbations of calculus begin to grow."""
        fastest = max(self.along, key=lambda each: np.abs(each.eigenvalues).max(initial=0.0), default=None)
        if fastest is None:
            return np.inf
        weights, moving = self.free.weights(fastest), {f"{name}_dot" for name in fastest.names}
        for i in self.loop.velocities:
            if self.loop.names[i] not in moving:  # it moves no place that counts, however fast the modes are
                weights[i] = float(self.loop.names[i] in fastest.names)
        return spread(self.loop, motion, since, weights)

    def _growth(self, at: Linearised) -> float:
        """The growth of a perturbation within the run, if the machine were kept where it is unstable."""
        if self.orbit is not None:
            return self.orbit.growth(self.run)
        same = all(each.names == at.names for each in self.equilibria)
        branch = self.equilibria if self.loop.follows_residuals and same else [at]
        return growth_along(branch, self.run)

    def _too_slow(self, at: Linearised, grown: float) -> str:
        """What becomes of an instability in a longer run."""
        longest = self.run + float(np.log(LOST / grown)) / at.rate
        fate = "refused" if self.loop.aims else "warned of"
        text = f"perturbations grow {grown:.2g}-fold in this run of {self.run:g} s, e-fold in {1 / at.rate:.3g} s: "
        return f"{text}a run of more than {longest:.3g} s is {fate}"

    def _linearise(self, motion: Motion) -> Linearised | None:
        """Fill `equilibria`, `near` and `along`; the equilibrium that decides that the motion is unstable, if one does.

        The branch of equilibria that belongs to the initial state is followed along the run. It decides if it is
        unstable at more than half of the times, and the motion is near it at one of these. A program that states its
        inputs may be made to leave the first one: that decides only where it serves the residuals, else the last does.
        """
        guess = self.loop.start
        follows, end = self.loop.follows_residuals, motion.times[-1]
        for wanted in np.linspace(0.0, end, LOOKS if follows else 2).tolist():
            t, x = motion.near(wanted)
            here = self.free.linearised(t, x)
            if here is None:
                continue
            self.along.append(here)
            rest = self.free.equilibrium(t, self._moved(x, guess, here.names))
            there = None if rest is None else self.free.linearised(t, rest)
            if rest is None or there is None:
                continue
            self.equilibria.append(there)
            guess = rest
            counts = follows or ((t == end or self.loop.serves(t, rest)) and self.free.belongs(x, there))
            if counts and self.free.distance(x, rest, there) < NEAR:
                self.near.append(there)
        lasting = not follows or 2 * sum(each.unstable for each in self.equilibria) > len(self.equilibria)
        worst = max(self.near, key=lambda each: each.rate, default=None)
        return worst if worst is not None and worst.unstable and lasting else None

    @property
    def _stays(self) -> bool:
        """Whether the motion is near an equilibrium, most of the time or, where inputs are given, at the end."""
        return 2 * len(self.near) > (LOOKS if self.loop.follows_residuals else 0)

    def _unstable(self) -> str:
        """An equilibrium that explains a growth, as the beginning of a sentence; empty: none is known."""
        worst = max(self.equilibria, key=lambda each: each.rate, default=None)
        if worst is None or not worst.unstable or self.loop.follows_residuals:
            return ""
        return f"{self._text(worst)}; "

    def _text(self, at: Linearised) -> str:
        return said(at, self.loop.units_of(at.names))

    def _moved(self, x: Array, guess: Array, names: Sequence[str]) -> Array:
        """The state x with what is left free as in the guess."""
        if not self.loop.follows_residuals:
            return x
        moved = x.copy()
        where = [self.loop.entries[self.loop.names.index(name)] for name in names]
        moved[where] = guess[where]
        return moved

    def _kind(self) -> str:
        if self.loop.follows_residuals:
            return ": non-minimum phase"
        held = "the closed loop does not hold it" if self.loop.feeds_back else "and nothing is fed back that holds it"
        return f", {held}"

    def _remedies(self, at: Linearised) -> str:
        if self.loop.follows_residuals and at is self.orbit:
            return f"{self._remedy(at.grows.removesuffix('_dot'))}, or give the goal another amplitude or period"
        if self.loop.follows_residuals:
            return remedies(self.loop, at)
        return self._feed_back(at.grows)

    def _feed_back(self, state: str) -> str:
        """What helps where a program states the inputs."""
        coordinate = state.removesuffix("_dot")
        whole = f"{coordinate} and its rate" if coordinate in self.loop.machine.description.coordinates else state
        if self.loop.feeds_back:
            return f"correct the signs and sizes of the feedback, or feed {whole} back"
        return f"feed {whole} back: inputs that are functions of time alone cannot correct a disturbance"

    def _remedy(self, state: str) -> str:
        """What helps against a growth that no equilibrium explains."""
        if not self.loop.follows_residuals:
            return self._feed_back(state)
        rolls = self.loop.machine.description.rolls
        return f"hold {state} by another residual" + (", or turn the direction of travel" if rolls else "")

    def _drifting(self, motion: Motion) -> str:
        """A velocity left free that accelerates all along, as the beginning of a sentence; empty: none does."""
        names = self.along[0].names if self.along else ()
        times = np.linspace(0.0, motion.times[-1], 5)
        for name in names:
            i = self.loop.names.index(name)
            v = motion.over(times, int(self.loop.entries[i]))
            steps = np.diff(v) * np.sign(v[-1])
            if i in self.loop.velocities and steps.min() > steps.max() / 2 and abs(v[-1]) > FAST * max(1.0, abs(v[0])):
                unit = self.loop.units_of([name])[0]
                return f"{name} grows steadily, to {v[-1]:.3g} {unit} at the end, and nothing brakes it; "
        return ""

    def _settling(self) -> str:
        """What equilibria near a bounded motion say of it, as the beginning of a sentence; empty: nothing."""
        with_modes = [each for each in self.near if len(each.eigenvalues)]
        worst = max(with_modes, key=lambda each: each.rate, default=None)
        if self.orbit is not None and (worst is None or worst.unstable):
            worst = self.orbit  # equilibria of single instants say nothing where it is stable
        elif not self._stays:
            worst = None
        return f"{self._text(worst)}; " if worst is not None else ""


def said(at: Linearised, units: Sequence[str]) -> str:
    """`unstable, +5.1 1/s at theta = 3.14 rad, theta_dot = 0 rad/s`: the fastest growing mode and where it is."""
    mu = at.eigenvalues[0]
    word = "unstable" if at.unstable else "stable" if at.rate < -NEUTRAL else "neither growing nor decaying"
    turning = f" (with {abs(mu.imag):.3g} rad/s)" if abs(mu.imag) > NEUTRAL else ""
    number = f"{mu.real:+.3g} 1/s" if abs(mu.real) > NEUTRAL else "0 1/s"
    where = ", ".join(
        f"{name} = {value:.3g}" + ("" if unit == "1" else f" {unit}")
        for name, value, unit in zip(at.names, at.values, units, strict=True)
        if abs(value) > ZERO
    )
    if isinstance(at, Orbit):
        largest = f"largest Floquet multiplier {abs(at.multipliers[0]):.4g} over the period of {at.period:.4g} s"
        return f"{word}, {number} about the periodic motion through {where or 'zero'} ({largest})"
    return f"{word}, {number}{turning} at {where or 'zero'}"


def remedies(loop: ContinuousLoop, at: Linearised) -> str:
    """The remedies for an unstable motion that is left free, as one text."""
    description, state = loop.machine.description, at.grows
    coordinate = state.removesuffix("_dot") if state.removesuffix("_dot") in description.coordinates else state
    found = []
    if description.rolls and np.abs(at.state[loop.velocities]).max() > AT_REST:
        found.append("turn the direction of travel")
    found.append(f"choose another output, a residual that contains {coordinate}")
    if inputs_reach(loop, at):
        found.append(f"hold {coordinate} by a fast inner loop whose set-point the present goal gives (a cascade)")
        found.append("feed all states back by inputs= of a program, such as an LQR about this state")
    if all(abs(mu.real) > NEUTRAL for mu in at.eigenvalues):  # hyperbolic
        found.append("follow a goal that is known in advance by stable inversion: add an empty [controller.inversion]")
    return ", or ".join(found)


def inputs_reach(loop: ContinuousLoop, at: Linearised) -> bool:
    """Whether the inputs can stabilise the machine about a state: each unstable mode obeys them (Hautus' test)."""
    machine, n, u = loop.machine, loop.n_x - 1, loop.inputs(at.time, at.state)
    if not len(u):
        return False

    def rates(both: Array) -> Array:
        return machine.derivatives(at.time, np.append(both[:n], at.state[n]), both[n:])[:n]

    A, B = np.hsplit(slope(rates, np.append(at.state[:n], u)), [n])
    for mu in np.linalg.eigvals(A):
        if mu.real > NEUTRAL:
            values = np.linalg.svd(np.hstack([mu * np.eye(len(A)) - A, B]), compute_uv=False)
            if values[-1] < REACHED * values[0]:
                return False
    return True
