"""[controller.inversion]: a goal whose zero dynamics is unstable, followed along its bounded solution.

The solution is computed when the launch file is resolved, once for the same numbers: the cache keeps it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.goals import Target
from servonode.closed_loop.keeping import keeping_of
from servonode.closed_loop.launch_error import KeyRefused, ProgramUnfit, check_names, stated_in
from servonode.closed_loop.launch_keys import Inversion, Plant
from servonode.closed_loop.start_on_program import wants_program_start
from servonode.closed_loop.static_checks import Examination
from servonode.controllers import load_law
from servonode.controllers.engine.signals import Signals
from servonode.controllers.inversion import feedback
from servonode.controllers.inversion.bounded import Bounded, bounded_solution
from servonode.controllers.inversion.feedforward import (
    Feedforward,
    Pieces,
    Solution,
    gain_pieces,
    input_pieces,
    state_pieces,
    stored_solution,
)
from servonode.controllers.inversion.rates import ClosedRates, NoInversion, complex_text
from servonode.controllers.inversion.summary import Goal, Inverted, Summary, goal_of, summary_of
from servonode.controllers.inversion.tracking import TrackingProgram, signal_names
from servonode.definitions import cache
from servonode.mechanics.stabilize import Gains
from servonode.version import page

SECTION = "controller.inversion"
_SOLVING = ("bounded", "feedback", "feedforward", "rates", "summary", "tracking")  # modules
FAR = 1e-3  # a start whose largest deviation from the solution is above this is reported (m, rad, m/s, rad/s)
MISSED = 1e-6  # a residual on the solution above this is reported
BEYOND = 8  # control instants after the run for which the feedback is computed


def inverted(
    control: Control, stated: Inversion, target: Target, plant: Plant, start: Array, stores: bool
) -> tuple[Control, Array]:
    """The control that follows the bounded solution of a program, and the initial state, on it if wanted.

    stores: whether the cache keeps the solution; those of a sweep would fill it.

    Raises:
        ProgramUnfit: there is no such solution; KeyRefused: an entry of the section does not fit.
    """
    with stated_in(SECTION, None, ProgramUnfit):
        _check(control)
        _check_weights(stated, control)
        duration = control.times.duration
        law, signals = control.law.with_parameters({}), control.signals
        assert isinstance(signals, Signals)
        goal = goal_of(law, control.targets, signals, duration)
        answer = law.evaluate(0.0, start, goal(np.zeros(1))[0])
        if answer.status:
            raise NoInversion(f"at the initial state {law.explain(answer)}")
        loop = ClosedRates(law, goal)
        first = np.append(start[: loop.n_state], law.initial_states)
        key = _key(control, target, plant.integrator, loop, goal, first)
        what = f"the bounded solution of program {control.source.name}"
        solve = partial(_solve, control, stated, plant, loop, first)
        solution = stored_solution(key, solve, what) if stores else solve()
        found = solution.bounded
        states = state_pieces(found)
        if wants_program_start(plant.initial):  # given states say near which equilibrium
            start = start.copy()
            start[found.held] = states.at(np.zeros(1))[0]
        summary = summary_of(loop, goal, found, start, duration)
        followed = _following(control, signals, solution, states, _lead(control, plant))
    return replace(followed, inversion=Inverted(found, summary, solution.radius)), start


def _check(control: Control) -> None:
    """Refuse programs and machines that have no stable inversion here."""
    program, machine = control.law.description, control.law.machine.description
    if program.explicit:
        text = f"program {program.name} gives its inputs directly, there is nothing to invert; leave [{SECTION}] out"
        raise NoInversion(text)
    if control.live:
        name = control.live[0].name
        text = f"target {name} comes from outside: it is not known in advance; give it as an expression, points or "
        raise NoInversion(f"{text}samples, or follow it by a cascade ({page('how_to/own_laws')})")
    if machine.held or machine.jumps:
        what = f"holds {machine.held[0]} = 0 by its coordinates" if machine.held else "sets states at the end of a step"
        text = f"machine {machine.name} {what}; stable inversion needs independent coordinates, so define it in these"
        raise NoInversion(text)


def _check_weights(stated: Inversion, control: Control) -> None:
    """Refuse weights of what the machine does not have, and such that are not above zero."""
    machine = control.law.machine.description
    names = (*machine.state_names, *machine.input_names)
    check_names(f"{SECTION}.weights", stated.weights, names)
    for name, value in stated.weights.items():
        if not value > 0:
            raise KeyRefused(f"{SECTION}.weights", name, f"{value:g} is not a weight; give a number above 0")


def _instants(control: Control) -> Array:
    """The control instants of the run, and some beyond it [s]."""
    times = control.times
    n = times.steps // (times.steps_per_period or 1) + BEYOND
    return np.arange(n, dtype=np.float64) * np.float64(times.period)


def _key(control: Control, target: Target, integrator: str, loop: ClosedRates, goal: Goal, first: Array) -> str:
    """What the solution depends on, as a key of the cache."""
    stated, times = control.stated.inversion, control.times
    numbers = [loop.law.c, loop.law.machine.c, first, goal(_instants(control))]
    digest = hashlib.sha256(b"".join(each.tobytes() for each in numbers)).hexdigest()
    texts = [target, control.stated.settings, times.duration_ns, times.step_ns, times.period_ns]
    texts += [integrator, control.delay, stated and [stated.tail, stated.tolerance, stated.weights]]
    sources = cache.code_digest(*(f"controllers.inversion.{name}" for name in _SOLVING))
    return cache.key_of("inversion", loop.key, digest, msgspec.json.encode(texts).decode(), sources)


def _solve(control: Control, stated: Inversion, plant: Plant, loop: ClosedRates, first: Array) -> Solution:
    """The bounded solution with its feedback: seconds of computation."""
    times = control.times
    found = bounded_solution(loop, first, times.duration, stated.tail, stated.tolerance)
    instants = _instants(control)
    states, inputs = state_pieces(found).at(instants), input_pieces(found).at(instants + _lead(control, plant))
    x = np.tile(first[: loop.n_state], (len(instants), 1))
    x[:, found.held] = states
    A, B = feedback.sampled(loop.law.machine, plant.integrator, times.step_ns, times.steps_per_period or 1, x, inputs)
    steps = list(zip(A[:, found.held][:, :, found.held], B[:, found.held], strict=True))
    sizes = np.ptp(np.hstack([states, inputs]), axis=0)
    K = feedback.gains(steps, *feedback.weights(sizes, len(found.held), _held_weights(loop, found, stated.weights)))
    radius = feedback.check_stable(*steps[-1], K[-1], int(np.ceil(control.delay - 1e-9)))
    return Solution(found, K, radius)


def _held_weights(loop: ClosedRates, found: Bounded, given: Mapping[str, float]) -> dict[int, float]:
    """The given weights by the place of their state among those that are held, or behind these of their input.

    Raises:
        KeyRefused: a weight is for a passive state.
    """
    names = [*(loop.names[i] for i in found.held), *loop.law.machine.description.input_names]
    for name in given:
        if name not in names:
            text = f"nothing depends on {name}, so the feedback leaves it out; remove its weight"
            raise KeyRefused(f"{SECTION}.weights", name, text)
    return {names.index(name): value for name, value in given.items()}


def _lead(control: Control, plant: Plant) -> float:
    """How far ahead of a sample the middle of the period is in which its input acts, a network apart [s]."""
    return (0.5 + control.delay - control.network_delay) * control.times.period - plant.sensor.delay


def _following(control: Control, signals: Signals, solution: Solution, states: Pieces, lead: float) -> Control:
    """The control whose law is u = u* + K (x - x*); lead [s]: see `_lead`."""
    machine = control.law.machine
    held = tuple(machine.description.state_names[i] for i in solution.bounded.held)
    program = TrackingProgram(control.source, held)
    believed, keeping = control.believed, keeping_of(control.stated, machine)
    law = load_law(program, machine, believed.key, believed.build, control.options, {}, keeping=keeping)
    law = law.with_parameters(control.law.parameters)
    own = slice(len(law.initial_states))  # of the program; the servo law may have more behind them
    law.initial_states, law.start_rates = control.law.initial_states[own], control.law.start_rates[own]
    signals = signals.of_order(law.description.signal_order)  # the servo law may take more derivatives
    targets = control.targets.of_order(law.description.target_order)
    names = signal_names(machine.description.input_names, held)
    parts = [
        (input_pieces(solution.bounded), lead),
        (states, 0.0),
        (gain_pieces(solution.K, control.times.period), 0.0),
    ]
    gains = Gains.from_rates([0.0] * law.n_s, law.description.relative_degrees)
    feedforward = Feedforward(signals, names, parts)
    return replace(control, source=program, law=law, signals=feedforward, targets=targets, gains=gains)


def examine_inversion(control: Control, limits: Array) -> Examination:
    """The findings about a control that follows a bounded solution; `limits` of the inputs, which it must not need."""
    assert control.inversion is not None
    found, inverted, summary = Examination(), control.inversion, control.inversion.summary
    bounded = inverted.found
    eigenvalues = [complex(mu) for mu in bounded.eigenvalues]
    found.numbers["inversion"] = _numbers(inverted)
    kind = "unstable: non-minimum phase" if any(mu.real > 0 for mu in eigenvalues) else "stable"
    free = f"zero dynamics {', '.join(map(complex_text, eigenvalues))} 1/s ({kind})"
    text = f"{free if eigenvalues else 'the goal leaves nothing free'}; bounded solution "
    text += f"from {bounded.before:.3g} s before the run to {bounded.after:.3g} s after it, "
    found.add("good", "inversion", f"{text}error {bounded.residual:.2g}, goal kept to {summary.goal_error:.2g}")
    if summary.goal_error > MISSED:
        text = f"the program's residuals are only small on the solution, up to {summary.goal_error:.2g}: damping, "
        found.add("warn", "inversion", f"{text}limits or setpoints act; leave them out for an exact goal")
    _tell_start(found, summary)
    decay = -np.log(inverted.radius) / control.times.period
    names = control.law.machine.description.state_names
    passive = ", ".join(name for i, name in enumerate(names) if i not in bounded.held)
    whole = f"all states but {passive}, on which nothing depends" if passive else "the whole state"
    text = f"u = u* + K (x - x*) holds {whole}: errors decay at {decay:.3g} 1/s, the largest eigenvalue of the "
    text += f"sampled loop is {inverted.radius:.4g} (limit 1)"
    found.add("good", "feedback", text)
    if control.stated.gains:
        text = "[controller.gains] are not used: [controller.inversion.weights] choose the feedback"
        found.add("warn", "gains", text)
    for (name, (most, at)), limit in zip(summary.peak.items(), limits, strict=True):
        if most > limit:
            text = f"the bounded solution needs {name} = {most:.4g} at t = {at:.4g} s, its limit is {limit:.4g}; "
            found.add("refuse", name, f"{text}give a slower or smaller goal")
    return found


def _tell_start(found: Examination, summary: Summary) -> None:
    """When the machine must begin to move, and whether the run lets it."""
    if summary.goal_moves is not None:
        early = ", ".join(f"{name} {most:.3g}" for name, most in summary.preactuation.items()) or "nothing"
        text = f"the goal moves at t = {summary.goal_moves:.4g} s, the machine {summary.lead:.3g} s before it, "
        found.add("good", "pre-actuation", f"{text}by then up to: {early}")
    name, gap = max(summary.gap.items(), key=lambda each: abs(each[1]))
    if abs(gap) > FAR:
        text = f"the initial state is beside the solution, {name} by {gap:.3g}: the goal is kept once the feedback has "
        remedy = "on_program = true in [plant.initial] starts on it"
        if summary.goal_moves is not None:
            remedy = f"let the goal rest for {summary.lead:.3g} s first and more, or {remedy}"
        found.add("warn", "pre-actuation", f"{text}brought it there; {remedy}")


def _numbers(inverted: Inverted) -> dict[str, Any]:
    bounded, summary = inverted.found, inverted.summary
    return {
        "eigenvalues": [[float(mu.real), float(mu.imag)] for mu in bounded.eigenvalues],
        "tail": {"before": bounded.before, "after": bounded.after},
        "nodes": len(bounded.t), "residual": bounded.residual, "goal_error": summary.goal_error,
        "goal_moves": summary.goal_moves, "lead": summary.lead, "preactuation": summary.preactuation,
        "gap": summary.gap,
        "peak": {name: most for name, (most, _) in summary.peak.items()}, "radius": inverted.radius,
    }  # fmt: skip
