"""The static checks of a closed loop: gains, margins, realisability."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.controller_section import Control, DerivedLaw
from servonode.closed_loop.launch_error import ProgramUnfit, stated_in
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.closed_loop.near_states import has_followers, near_states, reached
from servonode.closed_loop.safety_settings import SafetySettings
from servonode.controllers import ServoLaw
from servonode.controllers.engine import realize
from servonode.controllers.engine.inline_program import POSTURE_RATE
from servonode.controllers.engine.layout import NOT_FINITE, SINGULAR
from servonode.controllers.own.law import OwnLaw
from servonode.controllers.own.source import OwnController
from servonode.controllers.own.trial import Trial, tried
from servonode.controllers.own.view import PlantView
from servonode.mechanics import discrete, stabilize
from servonode.mechanics.stabilize import Gains

Level = Literal["good", "warn", "refuse"]
WATCHED = "watched: what residuals() gives"  # of a controller in Python
STATES, SPREAD = 40, 0.5  # random states that are surveyed, and how far from the initial state (m, rad, m/s, rad/s)
SLOW = 0.5  # of the period: a command that takes longer is warned of


@dataclass(frozen=True)
class Finding:
    """One sentence of the examination: good, a warning, or a reason to refuse."""

    level: Level
    subject: str
    text: str


@dataclass
class Examination:
    """The findings of the static checks; `numbers` hold the values that a report prints."""

    findings: list[Finding] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def refusals(self) -> list[Finding]:
        return [each for each in self.findings if each.level == "refuse"]

    def add(self, level: Level, subject: str, text: str) -> None:
        self.findings.append(Finding(level, subject, text))


def examine(control: Control, start: Array) -> Examination:
    """Stability of the residuals, margins of the sampled law, rank and condition of W near the initial state."""
    found, law, goal = Examination(), control.law, control.goal(0.0)
    if law.description.explicit:
        how = "the state is fed back" if law.description.feeds_back else "nothing is fed back"
        found.add("good", "program", f"gives its inputs directly: {how}, residuals are only monitored")
        return found
    _gains(found, law, control.gains)
    _sampling(found, control)
    _rank(found, control, start, goal)
    _conditions(found, control, start, goal)
    return found


def _conditions(found: Examination, control: Control, start: Array, goal: Array) -> None:
    """The program's own requirements and warnings, at the initial state."""
    late = (0.5 + control.delay) * (control.times.period_ns or 0) / 1e9
    refused, warned = control.law.violated(0.0, start, goal, late)
    for text in refused:
        found.add("refuse", "program", text)
    for text in warned:
        found.add("warn", "program", text)


def _names(law: ServoLaw) -> list[str]:
    return [each.name for each in law.description.residuals]


def _gains(found: Examination, law: ServoLaw, gains: Gains) -> None:
    try:
        certificate = stabilize.check(gains, allow_plain=True, names=_names(law))
    except stabilize.UnstableGains as error:
        found.add("refuse", "gains", str(error))
        return
    found.numbers["eigenvalues"] = [[float(mu.real), float(mu.imag)] for mu in certificate.eigenvalues]
    found.numbers["proved_decay_rate"] = certificate.decay_rate
    if certificate.plain:
        plain = ", ".join(_names(law)[i] for i in certificate.plain)
        found.add("warn", "gains", f"{plain} is not stabilised (rate 0): errors stay and grow; for demonstrations only")
    else:
        slowest = float(certificate.eigenvalues[0].real)
        text = f"residuals decay, slowest eigenvalue {slowest:.3g} 1/s (proved by a Lyapunov function: "
        found.add("good", "gains", f"{text}{certificate.decay_rate:.3g} 1/s)")


def _sampling(found: Examination, control: Control) -> None:
    """Margins against the limits of the law under zero-order hold at this period and delay."""
    law, gains, period, delay = control.law, control.gains, control.times.period, control.delay
    found.numbers |= {"delay": delay, "margins": {}}
    if POSTURE_RATE in law.parameters:
        rate = law.parameters[POSTURE_RATE]
        _margin(found, "posture", discrete.margin(2, rate, period, delay), period, delay, 2)
    coupled = bool(
        np.any(gains.K0 - np.diag(np.diag(gains.K0))) or gains.KI.any() or np.any(gains.K1 - np.diag(np.diag(gains.K1)))
    )
    simple = not coupled and all(_is_rate(gains, i) for i in range(law.n_s))
    if simple:
        for i, (name, r) in enumerate(zip(_names(law), gains.relative_degrees, strict=True)):
            _margin(found, name, discrete.margin(r, float(gains.rates[i]), period, delay), period, delay, r)
    elif not gains.plain and stabilize.is_stable(gains):
        _margin(found, "coupled gains", discrete.margin_of(gains, period, delay), period, delay, None)
    for kept, numbers in zip(law.description.keeps, law.keep_numbers.values(), strict=True):
        if r := max(kept.degrees):
            margin = discrete.margin(r, numbers.rate, period, delay)
            if margin.verdict != "good":  # else `check` tells of the keep in its own line
                _margin(found, f"keep {kept.quantity.name}", margin, period, delay, r)


def _is_rate(gains: Gains, i: int) -> bool:
    """Whether a residual's gains are those of one rate, f'' = -2 lambda f' - lambda^2 f."""
    double = np.isclose(gains.K0[i, i], (gains.K1[i, i] / 2) ** 2, rtol=1e-12, atol=0)
    return gains.relative_degrees[i] != 2 or bool(double)  # those of higher relative degree have rates alone


def _margin(found: Examination, name: str, margin: discrete.Margin, period: float, delay: float, r: int | None) -> None:
    found.numbers["margins"][name] = {
        "value": margin.value, "limit": margin.limit, "best": margin.best, "radius": margin.radius
    }  # fmt: skip
    advice = _advice(margin, period, delay, r)
    text = (
        f"lambda T = {margin.value:.3g} at a period of {period:g} s and a delay of {delay:g} periods, limit "
        f"{margin.limit:.4g}, best {margin.best:.3g}"
    )
    if margin.verdict == "refuse":
        found.add(
            "refuse",
            name,
            f"{text}: above 0.8 of the limit; lower the convergence rate or shorten period and delay{advice}",
        )
    elif margin.verdict == "warn":
        found.add("warn", name, f"{text}: beyond the best value more gain decays more slowly{advice}")
    else:
        found.add("good", name, text + advice)


def _advice(margin: discrete.Margin, period: float, delay: float, r: int | None) -> str:
    """The rate of "auto" for a residual of relative degree r; of coupled gains (None) the same share of their limit."""
    if r is not None:
        return f"; auto would take {discrete.auto_rate(r, period, delay):.3g} 1/s"
    if margin.verdict == "good":
        return ""
    share = min(discrete.SHARE * margin.limit, margin.best) / period
    return f"; their fastest eigenvalue, now {margin.value / period:.3g} 1/s, should be at most {share:.3g} 1/s"


def _where(law: ServoLaw, found: realize.Realisability) -> str:
    """Where the residuals that cannot be realised are given, if in a file."""
    named = zip(_names(law), law.description.places, strict=True)
    places = [place for name, place in named if place and found.about in (None, name)]
    return f" (stated in {', '.join(places)})" if places and not found.realisable else ""


def _rank(found: Examination, control: Control, start: Array, goal: Array) -> None:
    """Rank and condition of W at random admissible states around the initial one."""
    rng, law = np.random.default_rng(0), control.law
    machine = law.machine
    states = near_states(machine, start, rng, STATES, SPREAD)
    n, description = len(states), law.description
    goals = _goals_near(law, goal, n, rng)
    survey = realize.survey(law, states, np.zeros(n), goals, search=not has_followers(machine))
    try:
        judged = realize.realisability(survey, law.n_s, machine.n_inputs, description.relations, description.completion)
    except ValueError as error:
        found.add("warn", "rank", str(error))
        return
    found.numbers["case"] = judged.case
    if survey.worst is not None:
        worst = dict(zip(survey.states, map(float, survey.worst.state), strict=False))
        found.numbers |= {"rank": survey.lowest_rank, "worst_condition": survey.worst.condition, "worst_state": worst}
    hint = ""
    if control.stated.damping and survey.highest_rank < law.n_s == machine.n_inputs:
        hint = "; with controller.damping no integrators are looked for that may help: leave it out"
    text = judged.text + hint + (f"; {judged.remedy}" if judged.remedy else "") + _where(law, judged)
    somewhere = judged.case == "singular" and (survey.crossing is not None or survey.highest_rank > survey.lowest_rank)
    found.add("good" if judged.realisable else "warn" if somewhere else "refuse", "rank", text)


def _goals_near(law: ServoLaw, goal: Array, n: int, rng: np.random.Generator) -> Array:
    """The goal for n states (n, n_y), its entries that are integrators of the law spread as states are."""
    goals, extension = np.tile(goal, (n, 1)), law.description.extension
    if extension is not None:
        part = law.goal_layout.states
        of_law = slice(part.stop - len(extension.integrators), part.stop)
        goals[:, of_law] += rng.uniform(-SPREAD, SPREAD, goals[:, of_law].shape)
    return goals


def singular_at_rest(law: ServoLaw, start: Array, goal: Array) -> bool:
    """Whether the law is singular at all states of rest near the initial one."""
    description, rng = law.machine.description, np.random.default_rng(0)
    moving = [
        i
        for i, name in enumerate(description.state_names)
        if name in description.velocities and name not in description.first_order
    ]
    states = realize.random_states(description, start, rng, STATES, SPREAD)
    states[:, moving] = 0.0
    states = np.array([reached(law.machine, start, x) for x in states])
    answer, goals = law.answer(), _goals_near(law, np.nan_to_num(goal), STATES, rng)
    return all(law.compute(0.0, x, y, answer) in (SINGULAR, NOT_FINITE) for x, y in zip(states, goals, strict=True))


def placed(control: Control, launch: LaunchFile, safety: SafetySettings, start: Array) -> Control:
    """The control whose controller knows its plant; any other one as it is."""
    law = control.law
    if not isinstance(law, OwnLaw):
        return control
    machine = law.machine
    described = machine.description
    plant = PlantView(
        name=described.name,
        state_names=described.state_names,
        state_units=tuple(each.unit for each in described.state),
        input_names=described.input_names,
        input_units=tuple(each.unit for each in described.inputs),
        goal_names=control.targets.entries,
        limits=np.array(safety.limits.value),
        period=control.times.period,
        delay=control.delay,
        start=start[: machine.n_state].copy(),
        machine=machine,
        integrator=launch.plant.integrator,
        step_ns=launch.step_ns,
    )
    return replace(control, law=law.placed(plant, launch.run.seed))


def trial(control: Control | None, start: Array) -> Trial | None:
    """What a controller of the user's own gives at the start of a run; None where the law is derived.

    Raises:
        ProgramUnfit: it fails.
    """
    if control is None or not isinstance(control.law, OwnLaw):
        return None
    with stated_in("controller", "program", ProgramUnfit):
        return tried(control.law, start, control.goal(0.0))


def with_residuals(law: DerivedLaw, residuals: Mapping[str, str]) -> DerivedLaw:
    """The law of [controller] whose controller gives these residuals: unit by name."""
    own, source = law.law, law.source
    assert isinstance(own, OwnLaw)
    assert isinstance(source, OwnController)
    return replace(law, law=own.described(source.description(own.description.targets, residuals)))


def examine_own(control: Control, found: Trial, mode: str) -> Examination:
    """What is known of a loop with such a controller before it is simulated."""
    examination, period = Examination(), control.times.period
    text = "is a controller in Python: that its residuals decay cannot be proved, only simulated"
    examination.add("good", "program", text)
    if mode == "realtime" and found.command_s > SLOW * period:
        text = f"one command took {found.command_s * 1e3:.3g} ms here, of a period of {period * 1e3:g} ms: late "
        text += "commands are missed ones; make it faster, or lengthen controller.period"
        examination.add("warn", "program", text)
    examination.numbers["command_s"] = found.command_s
    return examination
