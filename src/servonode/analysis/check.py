"""`servonode check`: the report on a closed loop before power-on."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from servonode.analysis.aftermath import actions
from servonode.analysis.dry_run import dry_run
from servonode.analysis.report import Report
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.hosts import network_remark
from servonode.closed_loop.static_checks import Examination
from servonode.controllers import ServoLaw
from servonode.definitions import cache
from servonode.mechanics.description import JOINT_LIMIT
from servonode.tables import several


def report(closed_loop: ClosedLoop) -> Report:
    """Examine a closed loop: the static part was found while resolving it, the rest is simulated here."""
    launch, description, control = closed_loop.launch, closed_loop.machine.description, closed_loop.control
    law = control.law if control else None
    static = closed_loop.examination
    found = Examination([*static.findings], {**static.numbers})
    u = np.zeros(closed_loop.machine.n_inputs)
    if law:
        u = law.evaluate(0.0, closed_loop.start, closed_loop.goal(0.0)).inputs
    if description.by_numbers:
        text = f"satisfy {several(description.by_numbers)}: shown by numbers, at random states and parameters with "
        found.add("good", "kinematics", f"{text}60 digits, not by a proof")
    for text in description.notes:
        found.add("warn", "machine", text)
    if text := _own_limits(closed_loop):
        found.add("good", "limits", text)
    for text in _idle_sizes(closed_loop):
        found.add("warn", "limits", text)
    for text in closed_loop.machine.warnings(0.0, closed_loop.start, u):
        found.add("warn", "start", text)
    for text in closed_loop.connection.remarks(closed_loop.machine, closed_loop.start):
        found.add("warn", "device", text)
    for text in closed_loop.motion_notes():
        found.add("warn", "simulation", text)
    if text := network_remark(launch):
        found.add("warn", "hosts", text)
    line = closed_loop.traffic
    if line is not None and (problem := line.problem()):
        found.add("refuse", "device", problem)
    if closed_loop.safety.unlimited:
        found.add("refuse", "limits", closed_loop.safety.unlimited_text)
    if problem := closed_loop.servo_obstacle:
        found.add("refuse", "device", problem)
    _judge_units(closed_loop, found)
    if not [each for each in found.refusals if each.subject not in ("limits", "units")]:
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
        degrees_of_freedom=len(description.velocities) - len(description.first_order),
        program=law.description.name if law else None,
        residuals=_residuals(closed_loop),
        extension=_extension(law),
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


def structure(law: ServoLaw | None) -> dict[str, Any]:
    """What is known of a program that is refused before it is examined: relative degrees, extension."""
    if law is None:
        return {}
    degrees = zip(law.description.residuals, law.description.relative_degrees, strict=True)
    residuals = {quantity.name: {"relative_degree": degree} for quantity, degree in degrees}
    return {"program": law.description.name, "residuals": residuals, "extension": _extension(law)}


def _extension(law: ServoLaw | None) -> dict[str, Any]:
    """The extension of a law whose inputs do not reach the residuals directly; empty without extension."""
    extension = law.description.extension if law else None
    if extension is None:
        return {}
    return {
        "steps": list(extension.steps),
        "integrators": [each.name for each in extension.integrators],
        "left_free": extension.left_free,
        "determinant": extension.determinant,
        "depends_on": list(extension.depends_on),
    }


def _safety(closed_loop: ClosedLoop) -> dict[str, Any]:
    """The settings of the safety filter between law and machine; only limits that exist."""
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


def _residuals(closed_loop: ClosedLoop) -> dict[str, dict[str, Any]]:
    """Relative degree and convergence rate of each residual: f' = -rate f or f'' = -2 rate f' - rate^2 f.

    `held`: whether the law brings it to zero; a program that gives its inputs only monitors its residuals, and nothing
    else is known of those of a controller in Python.
    """
    control = closed_loop.control
    if control is None:
        return {}
    found: dict[str, dict[str, Any]] = {}
    description = control.law.description
    if description.own:
        return {each.name: {"held": False} for each in description.residuals}
    for i, (quantity, r) in enumerate(zip(description.residuals, description.relative_degrees, strict=True)):
        K0, K1 = float(control.gains.K0[i, i]), float(control.gains.K1[i, i])
        rate = float(control.gains.rates[i])
        numbers = {"relative_degree": r, "convergence_rate": rate, "K0": K0, "K1": K1}
        found[quantity.name] = numbers | {"held": not description.explicit}
    return found


def _judge_units(closed_loop: ClosedLoop, found: Examination) -> None:
    """Add what does not fit in the units of machine and program, as they are given.

    Nothing that runs depends on units. A mismatch is a reason to refuse all the same: either an equation or what every
    table and axis prints is wrong. A unit that is not known is a warning: nothing contradicts it, nothing could be
    checked.
    """
    control, machine = closed_loop.control, closed_loop.machine.kernel.__name__
    believed = (control.law.machine.kernel.__name__, control.law.kernel.__name__) if control else ()
    sources = cache.code_digest("mechanics.dimensions", "controllers.engine.dimensions")
    key = cache.key_of("units", machine, *believed, sources)  # kernels' names stand for all that states them
    wrong, unknown = json.loads(cache.kept_text(key, lambda: json.dumps(_mismatches(closed_loop))))
    for text in wrong:
        found.add("refuse", "units", f"{text}; correct the equation, or the unit that a symbol states")
    for text in unknown:
        found.add("warn", "units", text)


def _mismatches(closed_loop: ClosedLoop) -> tuple[list[str], list[str]]:
    """What does not fit, and units that are not known (this imports sympy, and takes a quarter of a second)."""
    from servonode.mechanics.dimensions import machine_mismatches

    source, control = closed_loop.source, closed_loop.control
    free_text = any(isinstance(each.default, str) and not each.choices for each in source.definition.options.values())
    model = source.build()
    wrong, unknown = machine_mismatches(model, rows=not free_text)  # its numbers have units that nobody states
    if control is not None and not control.law.description.own:
        from servonode.controllers.engine.dimensions import program_mismatches

        believed = model if control.believed.key == source.key else control.believed.build()
        more, odd = program_mismatches(believed, control.source.build(believed, control.options))
        wrong, unknown = [*wrong, *more], [*unknown, *odd]
    return wrong, unknown


def _own_limits(closed_loop: ClosedLoop) -> str:
    """The limits that act because the machine states them: of inputs, and of the ranges of joints."""
    machine, stated = closed_loop.machine, closed_loop.launch.plant.safety.limit
    own = {each.name: each.limit for each in machine.description.inputs if each.limit is not None}
    if stated is not None:
        own = {name: most for name, most in own.items() if isinstance(stated, Mapping) and name not in stated}
    stated_most = _stated_sizes(closed_loop)
    ends = _range_ends(closed_loop)
    own |= {end: value for end, (joint, value) in ends.items() if abs(value) <= stated_most.get(joint, np.inf)}
    listed = ", ".join(f"{name} {value:.4g}" for name, value in own.items())
    return f"of {closed_loop.source.definition.file.name} act: {listed}" if own else ""


def _range_ends(closed_loop: ClosedLoop) -> dict[str, tuple[str, float]]:
    """The ends of the ranges of joints, by their parameters: the joint, and where the end is."""
    machine = closed_loop.machine
    faults = machine.description.faults if closed_loop.launch.plant.safety.faults else ()
    names = [name for each in faults if each.name == JOINT_LIMIT for name in each.names]
    return {name: (name.rpartition("_")[0], machine.parameters[name]) for name in names}


def _stated_sizes(closed_loop: ClosedLoop) -> dict[str, float]:
    """What plant.safety.state_limit states, by state."""
    readings = closed_loop.safety.stated_readings
    return _finite(readings.value, readings.names)


def _idle_sizes(closed_loop: ClosedLoop) -> Iterator[str]:
    """A line for each state_limit of a joint beyond its range, so that the range always acts first."""
    ends = _range_ends(closed_loop)
    for joint, most in _stated_sizes(closed_loop).items():
        own = {end: abs(value) for end, (of, value) in ends.items() if of == joint}
        if own and most > max(own.values()):
            text = f"state_limit of {joint}, {most:g}, is beyond its range, which acts first"
            yield f"{text}; plant.parameters.{max(own, key=own.__getitem__)} moves its end"


def _finite(limits: Sequence[float], names: Sequence[str]) -> dict[str, float]:
    """The limits that there are, by input."""
    return {name: most for name, most in zip(names, limits, strict=True) if np.isfinite(most)}
