"""`servonode check`: the report an engineer wants before power-on."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from servonode.analysis.aftermath import actions
from servonode.analysis.dry_run import dry_run
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.driver_checks import remarks
from servonode.closed_loop.static_checks import Examination, Finding


@dataclass(frozen=True)
class Report:
    """What would run, and what servonode thinks of it. Times in s, rates in 1/s.

    verdict: "yes" or "no"; findings: level, subject and sentence each; numbers: margins, conditions, peaks,
    judgement of the zero dynamics, by name.
    """

    file: str
    verdict: str
    machine: str
    state: tuple[str, ...]
    inputs: tuple[str, ...]
    constraints: tuple[str, ...]
    reactions: tuple[str, ...]  # of a machine that determines them itself
    stabilised: tuple[str, ...]  # the constraints that they hold
    degrees_of_freedom: int
    program: str | None
    residuals: dict[str, dict[str, float]]
    settings: dict[str, float]  # of the program
    options: dict[str, Any]  # of the machine
    targets: tuple[str, ...]
    mode: str
    speed: float
    duration: float
    step: float
    period: float | None
    integrator: str
    command_timeout: float | None
    after_fault: dict[str, str]  # what each input does
    safety: dict[str, Any]  # driver, limits by input, what a fault leads to
    findings: tuple[Finding, ...]
    numbers: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def report(closed_loop: ClosedLoop) -> Report:
    """Examine a closed loop: the static part was found while resolving it, the rest is simulated here."""
    launch, description, control = closed_loop.launch, closed_loop.machine.description, closed_loop.control
    law = control.law if control else None
    static = closed_loop.examination
    found = Examination([*static.findings], {**static.numbers})
    u = np.zeros(closed_loop.machine.n_inputs)
    if law:
        u = law.evaluate(0.0, closed_loop.start, closed_loop.goal(0.0)).inputs
    for text in closed_loop.machine.warnings(0.0, closed_loop.start, u):
        found.add("warn", "start", text)
    for text in remarks(launch, closed_loop.machine, closed_loop.start):
        found.add("warn", "device", text)
    if closed_loop.safety.unlimited:
        found.add("refuse", "limits", closed_loop.safety.unlimited_text)
    if not [each for each in found.refusals if each.subject != "limits"]:
        dry_run(closed_loop, found)
    return Report(
        file=launch.file,
        verdict="no" if found.refusals else "yes",
        machine=description.name,
        state=description.state_names,
        inputs=description.input_names,
        constraints=description.constraints,
        reactions=description.reactions,
        stabilised=tuple(each.name for each in description.stabilised),
        degrees_of_freedom=len(description.velocities),
        program=law.description.name if law else None,
        residuals=_residuals(closed_loop),
        settings=dict(law.parameters) if law else {},
        options=dict(closed_loop.source.settings),
        targets=closed_loop.targets.names,
        mode=launch.run.mode,
        speed=launch.run.speed,
        duration=launch.duration_ns / 1e9,
        step=launch.step_ns / 1e9,
        period=launch.period_ns / 1e9 if launch.period_ns else None,
        integrator=launch.plant.integrator,
        command_timeout=closed_loop.safety.command_timeout,
        after_fault=actions(closed_loop),
        safety=_safety(closed_loop),
        findings=tuple(found.findings),
        numbers=found.numbers,
    )


def _safety(closed_loop: ClosedLoop) -> dict[str, Any]:
    """What stands between the law and the machine. Limits only where there are any."""
    launch, limits, names = closed_loop.launch, closed_loop.safety.limits, closed_loop.machine.description.input_names
    return {
        "driver": launch.plant.driver,
        "limit": _finite(limits.value, names),
        "rate_limit": _finite(limits.rate, names),
        "power_limit": limits.power if np.isfinite(limits.power) else None,
        "safe_action": "the machine's own" if closed_loop.machine.description.has_safe_action else "zero input",
        "safe_time": closed_loop.safety.safe_steps * launch.step_ns / 1e9,
        "on_fault": closed_loop.safety.on_fault,
        "ramp": launch.plant.safety.ramp,
        "arming_limit": _finite(closed_loop.safety.soft_start.limits.value, names)
        if closed_loop.safety.soft_start.periods
        else {},
        "arming_time": launch.plant.safety.arming_time,
        "unsafe": list(closed_loop.safety.unsafe),
    }


def _finite(limits: Sequence[float], names: Sequence[str]) -> dict[str, float]:
    """The limits that there are, by input."""
    return {name: most for name, most in zip(names, limits, strict=True) if np.isfinite(most)}


def _residuals(closed_loop: ClosedLoop) -> dict[str, dict[str, float]]:
    """Degree and gains of each residual; the rate is that of f' = -rate f or f'' = -2 rate f' - rate^2 f."""
    control = closed_loop.control
    if control is None:
        return {}
    found: dict[str, dict[str, float]] = {}
    description = control.law.description
    for i, (quantity, r) in enumerate(zip(description.residuals, description.relative_degrees, strict=True)):
        K0, K1 = float(control.gains.K0[i, i]), float(control.gains.K1[i, i])
        rate = K0 if r == 1 else K1 / 2
        found[quantity.name] = {"relative_degree": r, "convergence_rate": rate, "K0": K0, "K1": K1}
    return found
