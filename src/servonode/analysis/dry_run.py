"""What a launch file will do, found by simulating it: peaks, conditions, steady residuals, the zero dynamics."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np

from servonode.analysis.aftermath import after_fault
from servonode.analysis.goal_speed import lasting, slower_goal
from servonode.analysis.held_residuals import ROWS, judge_along, judge_noise, pose, rows_of
from servonode.analysis.internal_motion import Linearised, Orbit
from servonode.analysis.kept_runs import judge_keeps
from servonode.analysis.linearisation import sampled_step
from servonode.analysis.observability import judge_estimate
from servonode.analysis.orbits import judge_orbit
from servonode.analysis.sampled_step import lively
from servonode.analysis.zero_dynamics import ZeroDynamics, judge
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.gains import MATRICES, PERTURBATION
from servonode.closed_loop.goal_reached import (
    BAND,
    LIMITED_SHARE,
    Explained,
    Late,
    at_limit,
    goal_amplitudes,
    limited_late,
    missed,
)
from servonode.closed_loop.launch_file import LaunchError, with_step
from servonode.closed_loop.launch_keys import AUTO
from servonode.closed_loop.static_checks import Examination, Level
from servonode.controllers.engine.keeping import KEEP_FAULT
from servonode.mechanics.stiffness import stiffness
from servonode.plants.plausible import StateLimits
from servonode.record.run import Run, default_every
from servonode.simulation.event_integration import SimulationError
from servonode.simulation.simulate import can_fuse, simulate_fused
from servonode.tables import several

PERIOD_GROWS = 1e-4  # above 1 by which an eigenvalue of a period must be to count as growing
GROWTH = 3.0  # perturbations that grow more than this are warned of
FEW_ROWS = 10  # of a run whose eigenvalues are looked at
NO_ENERGY = 1e-12  # J, below which the balance is rounding
WITHIN = 0.5  # of a time constant: a longer period does not follow what decays with it
STAYS = 0.9  # share of an energy error that is still there with half the step: no step explains it
STEP_ERROR = 1e-3  # share of the energy turned over that the integrator may lose before it is warned of
MOST_STEPS = 2_000_000  # of a run that are simulated here, a second or two
MOST_SINGLE_STEPS = 200_000  # the same where an engine or an estimator keeps the loop from being compiled as a whole
JUDGED = 500.0  # s over which the zero dynamics is judged at most
SLOWER = (1.0, 0.3, 0.1, 0.03)  # shares of the rate of "auto" that are tried, the fastest first


def dry_run(closed_loop: ClosedLoop, found: Examination) -> None:
    """Simulate the sampled run and the zero dynamics; add findings and numbers to the examination.

    Of a long run only the beginning is looked at, which is reported.
    """
    whole, times = closed_loop.launch.duration_ns / 1e9, closed_loop.launch.times_of_steps
    closed_loop = _beginning(closed_loop)
    if closed_loop.launch.duration_ns / 1e9 < whole:
        text = f"long: only the first {closed_loop.launch.duration_ns / 1e9:g} s of {whole:g} s were simulated"
        found.add("warn", "run", f"{text}; give plant.step or run.duration such that it has fewer steps to see more")
    run = simulate_fused(closed_loop, default_every(closed_loop))
    if closed_loop.estimation is not None:
        ideal = simulate_fused(closed_loop.with_parts(estimation=None), default_every(closed_loop))
        judge_estimate(closed_loop, ideal, run, found)
    found.numbers["simulated"] = _peaks(closed_loop, run)
    if run.fault:
        rate = working_rate(closed_loop)
        text = f"ends by a fault at t = {run.fault['t']:.4g} s: {run.fault['text']}"
        if run.fault["name"] == "law" or run.fault["name"].startswith(KEEP_FAULT):
            at = pose(closed_loop.machine, [values[-1] for values in run.state.values()])
            text += f" (at {', '.join(f'{name} = {value:.3g}' for name, value in at.items())})"
        found.add("refuse", "run", f"{text}; or {rate}" if rate else text)
    for each in run.warnings:
        if each.name == "machine":  # the others are judged below, by more than a run knows
            found.add("warn", "run", str(each))
    slower = cache(lambda: slower_goal(closed_loop))
    judge_limits(closed_loop, run, found, slower)
    _judge_arming(closed_loop, found)
    _judge_energy(run, found, times)
    if closed_loop.machine.n_inputs:
        found.numbers["after_fault"] = after_fault(closed_loop, run, _largest_kinetic(run), found)
    control = closed_loop.control
    if control is None:
        return
    description = control.law.description
    if not description.explicit:
        judge_along(closed_loop, run, found)
        judge_noise(closed_loop, found)
    judge_keeps(closed_loop, run, found)
    judge_arrival(closed_loop, run, found, slower)
    if not description.own:
        _judge_zero_dynamics(closed_loop, run, whole, found)


def _reached(closed_loop: ClosedLoop, run: Run) -> bool:
    """Whether a run with other rates than those of the launch file reaches its goal."""
    found = Examination(numbers={"simulated": {}})
    judge_along(closed_loop, run, found)
    judge_noise(closed_loop, found)
    return not found.refusals and not missed_residuals(closed_loop, run, found)


def _beginning(closed_loop: ClosedLoop) -> ClosedLoop:
    """The closed loop of as much of the run as can be simulated at once, in whole control periods; at least one."""
    launch = msgspec.structs.replace(closed_loop.launch, fault=[])  # it is judged as it is meant to be
    closed_loop = closed_loop.with_parts(launch=launch)
    unit = launch.steps_per_period or 1
    most = MOST_STEPS if can_fuse(closed_loop) else MOST_SINGLE_STEPS
    steps = max(most - most % unit, min(unit, MOST_STEPS))
    return closed_loop if launch.steps <= steps else lasting(closed_loop, steps * launch.step_ns)


def _peaks(closed_loop: ClosedLoop, run: Run) -> dict[str, Any]:
    """Largest demanded inputs, rates on which they work, and power [W], over the rows."""
    peaks = {name: float(np.max(np.abs(values))) for name, values in run.input.items()}
    power = [closed_loop.machine.derivatives(t, x, u)[-1] for _, t, x, u in rows_of(run, ROWS)]
    return {
        "input_max": peaks,
        "power_max": float(np.max(power, initial=0.0)),
        "power_min": float(np.min(power, initial=0.0)),
        "residual_max": run.residual_max,
    }


def _judge_arming(closed_loop: ClosedLoop, found: Examination) -> None:
    peaks = found.numbers["simulated"]["input_max"]
    soft = closed_loop.safety.soft_start
    if soft.at_first and not soft.periods and closed_loop.control is not None:
        twice = ", ".join(f"{name} = {2 * peak:.2g}" for name, peak in peaks.items())
        text = "nothing limits the inputs after an arming: a machine that is far from its goal then lurches; give "
        found.add("warn", "limits", f"{text}plant.safety.arming_limit, such as twice the peaks here: {{ {twice} }}")


def _judge_energy(run: Run, found: Examination, times: Sequence[int]) -> None:
    """Whether the step is small enough: the energy balance is integrated beside the motion.

    times [ns]: those that a step must divide.
    """
    if run.fault:
        return
    scale = float(np.max(np.abs(run.work), initial=0.0)) + _largest_kinetic(run)
    stiff = _stiff(run, times)
    if run.energy_error > max(STEP_ERROR * scale, NO_ENERGY):
        text = f"the energy check is off by {run.energy_error:.2g} J of {scale:.3g} J turned over: "
        if run.closed_loop.driver.motion is not None:
            text += "an engine's contacts take it where they slip: give more friction, or a gentler goal; where the "
            found.add("warn", "contact", f"{text}machine has no contacts, shorten the step")
            return
        if not stiff and _energy_error_of_half_a_step(run) > STAYS * run.energy_error:
            text = f"{text.removesuffix(': ')}, with half the step too: the statement of the machine is not consistent"
            found.add("warn", "energy", f"{text}; look at rates in its potential, at losses and inputs without rates")
            return
        text += f"the step of {run.closed_loop.launch.step_ns / 1e9:g} s is too long for this motion; "
        found.add("warn", "step", text + (stiff or "shorten it"))
    elif stiff:
        found.add("warn", "step", f"a motion of this machine decays faster than the steps follow: {stiff}")


def _energy_error_of_half_a_step(run: Run) -> float:
    launch = run.closed_loop.launch
    half = resolve(with_step(launch, launch.step_ns // 2 / 1e9 or launch.step_ns / 1e9), strict=False)
    return simulate_fused(half, default_every(half)).energy_error


def _stiff(run: Run, times: Sequence[int]) -> str:
    """The stiffest motion along the run that its steps do not follow; empty where they follow all."""
    loop = run.closed_loop
    if loop.driver.motion is not None:
        return ""
    method, step = loop.launch.plant.integrator, loop.launch.step_ns / 1e9
    found = [stiffness(loop.machine, method, step, t, x, u, times) for _, t, x, u in rows_of(run, FEW_ROWS)]
    worst = max((each for each in found if each), key=lambda each: each.size / each.limit, default=None)
    return str(worst) if worst else ""


def _largest_kinetic(run: Run) -> float:
    """The largest kinetic energy [J] over the rows that are looked at."""
    energies = (run.closed_loop.machine.energies(t, x)[0] for _, t, x, _ in rows_of(run, ROWS))
    return max(energies, default=0.0)


def _judge_zero_dynamics(closed_loop: ClosedLoop, run: Run, whole: float, found: Examination) -> None:
    """The judgement on what the program leaves free; `whole` [s] is the time of the whole run."""
    try:
        judgement = judge(closed_loop, min(closed_loop.launch.duration_ns / 1e9, JUDGED), whole)
    except SimulationError as error:
        if not judge_orbit(closed_loop, run, whole, found):
            found.add("warn", "zero dynamics", str(error))
        return
    found.numbers["zero_dynamics"] = {
        "judgement": judgement.judgement,
        "internal": list(judgement.internal),
        "rate": judgement.rate,
        "time": judgement.time,
        "equilibria": [_numbers(each) for each in judgement.equilibria],
        "along": [_numbers(each) for each in judgement.along],
        "orbit": _orbit_numbers(judgement.orbit),
    }
    level: Level = "refuse"
    if judgement.judgement == "bounded":
        departs = judgement.growth > GROWTH and not judgement.settled
        level = "warn" if departs or judgement.drifts or judgement.diverges else "good"
    control, description = closed_loop.known_control, closed_loop.known_control.law.description
    _judge_fast_zeros(judgement, control.times.period, found)
    if not description.feeds_back and not description.residuals:  # there is no goal that could be missed
        level = "warn" if level == "refuse" else "good"
    explicit, fed = description.explicit, description.feeds_back
    found.add(level, "zero dynamics" if not explicit else "closed loop" if fed else "open loop", judgement.text)
    if judgement.judgement == "bounded" and judgement.orbit is None and not judgement.near:
        judge_orbit(closed_loop, run, whole, found)
    if explicit and fed and judgement.near:
        _judge_sampling(closed_loop, judgement.near[-1], judgement.passive, found)


def _judge_sampling(closed_loop: ClosedLoop, at: Linearised, passive: Sequence[str], found: Examination) -> None:
    """Add what one period makes of perturbations of an equilibrium, where the program states its inputs.

    A law with residuals has its limits in closed form (docs/explanation/mathematics.md, eq. 9); of feedback that a user
    states only the period itself tells whether it is slow enough for the period and the delay.
    """
    control = closed_loop.known_control
    step = sampled_step(closed_loop, at.time)
    kept, n_x = lively(step.names, passive), len(closed_loop.start)
    period_map = step.open_at_inputs(step.state_at(at.state[:n_x], at.state[n_x:])).closed[np.ix_(kept, kept)]
    radius = float(np.abs(np.linalg.eigvals(period_map)).max(initial=0.0))
    found.numbers["sampled_radius"] = radius
    period, delay = control.times.period, control.delay
    text = f"largest eigenvalue of a period of {period:g} s with a delay of {delay:g} periods: "
    text += f"{radius:.4g} (limit 1)"
    if radius > 1 + PERIOD_GROWS:
        found.add("refuse", "sampling", f"{text}; lower the feedback, or shorten period and delay")
    else:
        found.add("good", "sampling", text)


def _judge_fast_zeros(judgement: ZeroDynamics, period: float, found: Examination) -> None:
    """Whether inputs that are held for a period may be why a goal is missed: an unstable zero of the sampled loop."""
    rates = [-mu.real for at in (*judgement.equilibria, *judgement.along) for mu in at.eigenvalues]
    fastest = float(max(rates, default=0.0))
    if found.refusals and fastest * period > WITHIN:
        text = f"what the goal leaves free decays as exp(-{fastest:.3g} t), too fast for inputs that are held for "
        text += f"{period:g} s (a zero of the sampled loop); give a controller.period of at most "
        found.add("warn", "sampling", f"{text}{WITHIN / fastest:.2g} s")


def _orbit_numbers(orbit: Orbit | None) -> dict[str, Any] | None:
    """Period [s] and multipliers, as pairs, of a periodic motion, and a state on it; None without one."""
    if orbit is None:
        return None
    multipliers = [[float(rho.real), float(rho.imag)] for rho in orbit.multipliers]
    return _numbers(orbit) | {"period": orbit.period, "multipliers": multipliers}


def _numbers(at: Linearised) -> dict[str, Any]:
    """Time [s], eigenvalues [1/s] as pairs, and the states at which they were found."""
    eigenvalues = [[float(mu.real), float(mu.imag)] for mu in at.eigenvalues]
    return {"t": at.time, "eigenvalues": eigenvalues, "state": dict(zip(at.names, at.values, strict=True))}


def judge_limits(closed_loop: ClosedLoop, run: Run, found: Examination, slower: Callable[[], str]) -> None:
    """Warn of inputs that reach their limits, when first and for which share of time, and of states beyond theirs.

    `slower` finds the remedy.
    """
    shares = found.numbers["simulated"]["limited_share"] = run.limited_share
    limits = dict(zip(closed_loop.machine.description.input_names, closed_loop.safety.limits.value, strict=True))
    for name, share in shares.items():
        if share:
            first = run.t[at_limit(run.input[name], limits[name])][:1]
            text = f"reaches its limit {limits[name]:g}, first at t = {first[0]:.4g} s and " if len(first) else ""
            text += f"for {share:.2g} of the time: while it is limited the residuals do not follow their equations"
            found.add("warn", name, "; ".join(filter(None, (text, slower()))))
    for name, text in _beyond(closed_loop.safety.known_readings, run):
        found.add("warn", name, "; ".join(filter(None, (f"{text}, which ends a run on the machine", slower()))))


def _beyond(limits: StateLimits, run: Run) -> Iterator[tuple[str, str]]:
    """The states that leave their limits of size or speed, as joints of a robot's file have them: when, how far."""
    described = run.closed_loop.machine.description.state
    for each, x, most, fastest in zip(described, run.state.values(), limits.value, limits.rate, strict=True):
        name, unit = each.name, each.unit
        speeds = np.abs(np.diff(x) / np.diff(run.t))
        looks = (("size", np.abs(x), most, unit), ("speed", speeds, fastest, f"{unit} per s"))
        for word, sizes, limit, of in looks:
            if (over := np.flatnonzero(sizes > limit)).size:
                text = f"reaches the limit of its {word}, {limit:g} {of}, at t = {run.t[over[0]]:.4g} s, and at most "
                yield name, f"{text}{np.max(sizes):.4g} {of} in the run"


def judge_arrival(closed_loop: ClosedLoop, run: Run, found: Examination, slower: Callable[[], str]) -> None:
    """Whether the last quarter's residuals are small beside the initial ones and what sampling and noise leave.

    `slower` finds the remedy with a slower goal, if it helps.
    """
    texts = {} if run.fault else missed_residuals(closed_loop, run, found)
    if not texts:
        return
    if acting := [name for name, each in found.numbers.get("keeps", {}).items() if each.get("holds")]:
        for name, text in texts.items():
            found.add("warn", name, f"{text}: the goal is not reached, for what is kept: {several(acting)}")
        return
    remedy = _remedy(limited_late(closed_loop, run.input, len(run.t)), working_rate(closed_loop), slower)
    control = closed_loop.known_control
    for i, name in enumerate(_judged(run)):
        if name in texts:
            level: Level = "warn" if i in control.gains.plain and not control.law.description.explicit else "refuse"
            found.add(level, name, f"{texts[name]}: the goal is not reached; {remedy}")


def missed_residuals(closed_loop: ClosedLoop, run: Run, found: Examination) -> dict[str, str]:
    """How far each residual is missed of those that are; the sizes go into the numbers."""
    limited = limited_late(closed_loop, run.input, len(run.t)) > LIMITED_SHARE
    residuals = _judged(run)
    amplitudes = goal_amplitudes(closed_loop, run.t, run.program_state)
    found.numbers["goal_amplitude"] = dict(zip(residuals, amplitudes.tolist(), strict=True))
    late_residuals, texts = found.numbers.setdefault("late_residual", {}), dict[str, str]()
    for amplitude, (name, values) in zip(amplitudes.tolist(), residuals.items(), strict=True):
        late = Late.of(values)
        late_residuals[name] = late.last
        text = missed(late, abs(float(values[0])), amplitude, limited, _explained(name, found))
        texts |= {name: text} if text else {}
    return texts


def _judged(run: Run) -> Mapping[str, Array]:
    """The residuals of the true state where these are known, else those that the law saw."""
    return (run.estimate.residual if run.estimate else {}) or run.residual


def _explained(name: str, found: Examination) -> Explained:
    spread = found.numbers.get("estimator", {}).get("residual_std", {})
    noise = found.numbers.get("noise_residual", {}).get(name, 0.0)
    held = found.numbers.get("steady_residual", {}).get(name, 0.0)
    return Explained(held, noise, BAND * min(spread.get(name, [0.0])))


def _remedy(limited: float, rate: str, slower: Callable[[], str]) -> str:
    """What to change: the rate where another one reaches the goal, else drives, goal or period."""
    if limited > LIMITED_SHARE:
        text = f"an input is at its limit for {limited:.2g} of the second half: "
        less = ", or ".join(filter(None, ("ask for less", slower(), "give stronger drives or more time")))
        return text + (rate or less)
    return rate or "look at the drives, and whether the period is short enough for this goal"


def working_rate(closed_loop: ClosedLoop) -> str:
    """The remedy with the rate [1/s], the fastest of those tried, with which the goal is reached; empty: none is.

    It is empty, too, where gains are matrices, which no single rate replaces, and where the law has none.
    """
    for loop, text in _others(closed_loop):
        run = simulate_fused(loop, default_every(loop))
        if not run.fault and _reached(loop, run):
            return text
    return ""


def _others(closed_loop: ClosedLoop) -> Iterator[tuple[ClosedLoop, str]]:
    """The closed loop with other rates, and how to give them."""
    control, launch = closed_loop.control, closed_loop.launch
    if control is None or launch.controller is None or control.law.description.explicit:
        return
    given = launch.controller.gains
    if launch.controller.inversion is not None or any(key in given for key in (*MATRICES, *PERTURBATION)):
        return
    kept = {key: value for key, value in given.items() if key.startswith("integral")}
    fastest: list[float] = []
    for share in SLOWER:
        rate = float(f"{share * min(fastest):.2g}") if fastest else AUTO
        controller = msgspec.structs.replace(launch.controller, gains={"lambda": rate} | kept)
        try:
            loop = resolve(msgspec.structs.replace(launch, controller=controller), strict=False)
        except LaunchError:  # an initial state for which this rate is too fast
            continue
        rates = loop.known_control.gains.rates.tolist()
        fastest = fastest or rates
        if rates == control.gains.rates.tolist() or loop.examination.refusals:
            continue
        numbers = ", ".join(f"{each:.3g}" for each in dict.fromkeys(rates))
        shown = f'"auto" ({numbers} 1/s)' if rate == AUTO else f"{rate:g}"
        yield loop, f"give controller.gains.lambda = {shown}, which reaches the goal"
