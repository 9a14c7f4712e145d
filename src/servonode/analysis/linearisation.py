"""The closed loop linearised about a state: the plant, the continuous loop, and the sampled loop period by period."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from servonode.analysis.internal_motion import InternalMotion
from servonode.analysis.linear_system import DAMPED, DECAYS, LinearSystem, checked_slope, pole_text, slope
from servonode.analysis.sampled_step import SampledStep, kept, lively
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import StatementError
from servonode.mechanics.equilibrium import nearby_states
from servonode.simulation.continuous_loop import ContinuousLoop, passive_coordinates
from servonode.tables import Result, Row, several, valued

About = Literal["equilibrium", "motion"]
RESTS = 1e-6  # a smaller rate [unit of the state per s] counts as rest
LATER = np.array([1e-3, 0.137, 1.0])  # s after which a goal that stands is still the same
AT_LIMIT = 1 - 1e-9  # share of its limit from which on an input is at it


@dataclass(frozen=True, repr=False, eq=False)
class Linearisation(Result):
    """A closed loop linearised at a time [s] and a state: three systems of deviations from it.

    `plant`: machine's inputs to states, outputs and residuals. `closed`: the continuous closed loop, whose inputs are
    added to those of the law. `sampled`: a control period of it (None without a controller), from what is added to the
    law's commands to states and residuals at the instants; see `sampled_step`. `about` an equilibrium the poles decide
    about stability; about a motion the systems are those of this instant of a time-varying one, and they do not.
    `passive` are states on which no rate depends but those of others like them: places, angles of wheels. Each adds a
    pole at 0 (sampled: 1), which the table and `without_passive` leave out unless the law cancels what depends on it.
    """

    time: float
    state: Mapping[str, float]
    about: About
    passive: tuple[str, ...]
    plant: LinearSystem
    closed: LinearSystem
    sampled: LinearSystem | None
    remarks: tuple[str, ...] = ()

    def table(self) -> tuple[str, list[Row]]:
        """Where it is, the poles of its systems, and remarks."""
        units = self.closed.units
        rows = [
            ("at", several((valued(*each, units[each[0]]) for each in self.state.items() if abs(each[1]) > RESTS), 8))
        ]
        text = f"an equilibrium but for {', '.join(self.passive)}" if self.passive else "an equilibrium"
        moving = "a motion: systems of this instant, whose poles do not decide about stability"
        rows += [("about", text if self.about == "equilibrium" else moving)]
        for name in ("plant", "closed", "sampled"):
            system = getattr(self, name)
            if system is not None:
                rows += [(f"{name} [1/s]", several(map(pole_text, self.without_passive(name).rates), 8))]
        rows += [("remark", text) for text in self.remarks]
        return f"Linearisation at t = {self.time:g} s", rows

    def without_passive(self, name: Literal["plant", "closed", "sampled"]) -> LinearSystem:
        """One of the systems without the passive states on which none of its other states depends."""
        system: LinearSystem | None = getattr(self, name)
        if system is None:
            raise StatementError("there is no [controller], so there is no sampled loop; look at plant or closed")
        keep = kept(lively(system.states, self.passive), system.A)
        names = tuple(each for each, there in zip(system.states, keep, strict=True) if there)
        A, B, C = system.A[np.ix_(keep, keep)], system.B[keep], system.C[:, keep]
        return replace(system, A=A, B=B, C=C, states=names)

    @property
    def stable(self) -> bool | None:
        """Whether perturbations of an equilibrium decay, by more than rounding, in the sampled loop if there is one.

        None about a motion.
        """
        if self.about == "motion":
            return None
        if self.sampled is not None:
            return self.without_passive("sampled").radius <= 1 - DECAYS
        poles = self.without_passive("closed").poles
        return bool(poles.real.max(initial=-np.inf) < -DAMPED * max(1.0, np.abs(poles).max(initial=0.0)))


def linearise(closed_loop: ClosedLoop, t: float, x: Array, own: Array, at_rest: bool = False) -> Linearisation:
    """The closed loop linearised at time t [s] about the machine's state x (n_x,) and the program's own (n_own,).

    at_rest: about the equilibrium next to that state, with the goal as it is at time t.

    Raises:
        StatementError: there is no equilibrium nearby, or the law fails there; SimulationError: the machine has jumps.
    """
    loop = ContinuousLoop(closed_loop)
    passive = passive_coordinates(loop)
    both = np.append(x, own)
    if at_rest:
        found = InternalMotion(loop, passive).equilibrium(t, both)
        if found is None:
            text = f"there is no equilibrium near this state with the goal as at t = {t:g} s; give another state"
            raise StatementError(f"{text}, or linearise about the motion")
        both = found
    if refusal := loop.refusal(t, both):
        raise StatementError(f"at t = {t:g} s {refusal}; linearise about another state")
    sampled, remarks = None, list[str]()
    if closed_loop.control is not None and closed_loop.driver.motion is None and closed_loop.drives is None:
        sampled = _sampled(closed_loop, t, both[: loop.n_x], both[loop.n_x :])
        remarks = _left_out(closed_loop)
    remarks += _at_limits(loop, t, both)
    about = _about(loop, t, both, passive)
    if at_rest and about == "motion" and _integrates_errors(closed_loop):
        text = "integrals of residuals are taken as 0: with the parameters that the law believes the loop comes to rest"
        remarks += [f"{text} where they are not"]
    (plant, rough), (closed, rougher) = (_continuous(loop, t, both, each) for each in (False, True))
    if doubtful := dict.fromkeys(rough + rougher):
        text = "are in doubt: differences of other sizes give others, as next to a limit or to something steep"
        remarks += [f"slopes by {several(doubtful, 8)} {text}"]
    return Linearisation(
        time=t,
        state=dict(zip(loop.names, both[loop.entries].tolist(), strict=True)),
        about=about,
        passive=passive,
        plant=plant,
        closed=closed,
        sampled=sampled,
        remarks=tuple(remarks),
    )


def _about(loop: ContinuousLoop, t: float, x: Array, passive: tuple[str, ...]) -> About:
    """Whether all but the passive states rest at x, and the loop stays the same there and beside it as time goes on."""
    lively = loop.entries[[name not in passive for name in loop.names]]
    rates = np.array([loop.rates(each, x)[lively] for each in (t, *(t + LATER))])
    changes = [loop.forcing(each, at) - loop.forcing(t, at) for each in t + LATER for at in (x, *nearby_states(x))]
    still = np.nanmax(np.abs(changes), initial=0.0) < RESTS
    return "equilibrium" if still and np.abs(rates).max(initial=0.0) < RESTS else "motion"


def _integrates_errors(closed_loop: ClosedLoop) -> bool:
    """Whether integral action makes up for parameters that the law believes to be others."""
    control = closed_loop.control
    if control is None or not control.law.description.integral:
        return False
    return bool(control.law.machine.parameters != closed_loop.machine.parameters)


def _at_limits(loop: ContinuousLoop, t: float, x: Array) -> list[str]:
    limits, u = loop.closed_loop.safety.limits.value, loop.inputs(t, x)
    names = zip(loop.machine.description.input_names, u.tolist(), limits, strict=True)
    return [f"{name} is at its limit of {most:g}: it obeys no feedback" for name, each, most in names
            if abs(each) >= AT_LIMIT * most]  # fmt: skip


def _left_out(closed_loop: ClosedLoop) -> list[str]:
    """What of the sampled loop has no slope, or is not part of the map."""
    drives, sensors, limits = closed_loop.actuator, closed_loop.sensor, closed_loop.safety.limits
    found = [("rounding and dead zones of drives", any(drives.quantum) or any(drives.dead_zone))]
    found += [("limits of rate and power", min((*drives.rate_limit, *limits.rate, limits.power)) < np.inf)]
    found += [
        ("noise, bias, rounding and lost states", any((*sensors.noise, *sensors.bias, *sensors.quantum, sensors.drop)))
    ]
    found += [("the estimator, in whose place the law is shown the state", closed_loop.estimation is not None)]
    return [f"left out: {what}" for what, there in found if there]


def _outputs(loop: ContinuousLoop) -> tuple[tuple[str, ...], dict[str, str]]:
    """Names of the states, outputs and residuals, and their units with those of the inputs."""
    described = loop.machine.description
    units = dict(zip(loop.names, loop.units, strict=True))
    known = (*described.inputs, *described.outputs)
    units |= {each.name: each.unit for each in known}
    residuals = loop.control.law.description.residuals if loop.control else ()
    units |= {f"residual_{each.name}": each.unit for each in residuals}
    states = described.state_names
    return (
        *states,
        *(each.name for each in described.outputs),
        *(f"residual_{each.name}" for each in residuals),
    ), units


def _shown(loop: ContinuousLoop, t: float, x: Array, u: Array) -> Array:
    """States, outputs and residuals at a state under these inputs."""
    n, machine = loop.n_x - 1, loop.machine
    outputs = machine.monitor(t, x[: loop.n_x], u)[: len(machine.description.outputs)]
    if loop.control is None:
        return np.append(x[:n], outputs)
    y = loop.closed_loop.goal(t, x[loop.n_x :])
    return np.concatenate([x[:n], outputs, loop.control.law.evaluate(t, x[: loop.n_x], y).residuals])


def _continuous(loop: ContinuousLoop, t: float, x: Array, closed: bool) -> tuple[LinearSystem, list[str]]:
    """The closed loop, whose inputs are added to those of the law, or the machine alone, and what is in doubt.

    The machine alone is under the inputs that the law gives at this state. In doubt are slopes by the listed names.
    """
    described, n_x = loop.machine.description, loop.n_x
    entries, states = (loop.entries, loop.names) if closed else (np.arange(n_x - 1), described.state_names)
    n, given = len(entries), np.zeros(loop.machine.n_inputs) if closed else loop.inputs(t, x)

    def moved(both: Array) -> Array:
        state = x.copy()
        state[entries] = both[:n]
        u = both[n:] + (loop.inputs(t, state) if closed else 0.0)
        rates = loop.rates(t, state)
        rates[:n_x] = loop.machine.derivatives(t, state[:n_x], u)
        return np.append(rates[entries], _shown(loop, t, state, u))

    outputs, units = _outputs(loop)
    S, doubtful = checked_slope(moved, np.append(x[entries], given))
    inputs, name = described.input_names, "closed" if closed else "plant"
    system = LinearSystem(name, S[:n, :n], S[:n, n:], S[n:, :n], S[n:, n:], states, inputs, outputs, units)
    return system, [(*states, *inputs)[i] for i in doubtful]


def _sampled(closed_loop: ClosedLoop, t: float, x: Array, own: Array) -> LinearSystem:
    """A control period of the closed loop, from what is added to the law's commands to states and residuals."""
    step = sampled_step(closed_loop, t)
    z = step.state_at(x, own)
    cut = step.open_at_inputs(z)
    program, described = step.law.description, step.machine.description
    shown = slope(step.residuals, z)
    C = np.vstack([np.eye(step.machine.n_state, len(z)), shown])
    outputs = (*described.state_names, *(f"residual_{each.name}" for each in program.residuals))
    units = {each.name: each.unit for each in (*described.state, *described.inputs, *program.states)}
    units |= {f"residual_{each.name}": each.unit for each in program.residuals}
    D = np.zeros((len(C), cut.B.shape[1]))
    return LinearSystem(
        "sampled", cut.closed, cut.B, C, D, step.names, described.input_names, outputs, units, step.period
    )


def sampled_step(closed_loop: ClosedLoop, t: float) -> SampledStep:
    """The sampled loop at the control instant next to t [s]."""
    launch = closed_loop.launch
    period = launch.period_ns or launch.step_ns
    return SampledStep(closed_loop, closed_loop.machine, round(t * 1e9 / period) * (launch.steps_per_period or 1))
