"""Findings about a control that follows the bounded solution of its program: `check` prints them."""

from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.static_checks import Examination
from servonode.controllers.inversion.ends import complex_text
from servonode.controllers.inversion.summary import Inverted, Summary

FAR = 1e-3  # a start whose largest deviation from the solution is above this is reported (m, rad, m/s, rad/s)
MISSED = 1e-6  # a residual on the solution above this is reported


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
        text = (
            f"the program's residuals are only small on the solution, up to {summary.goal_error:.2g}: damping, limits "
        )
        found.add("warn", "inversion", f"{text}or setpoints act; leave them out for an exact goal")
    _tell_start(found, summary)
    decay = -np.log(inverted.radius) / control.times.period
    names = control.law.machine.description.state_names
    passive = ", ".join(name for i, name in enumerate(names) if i not in bounded.held)
    whole = f"all states but {passive}, on which nothing depends" if passive else "the whole state"
    text = f"u = u* + K (x - x*) holds {whole}: errors decay at {decay:.3g} 1/s, the largest eigenvalue of the "
    text += f"sampled loop is {inverted.radius:.4g} (limit 1)"
    found.add("good", "feedback", text)
    if control.stated.gains:
        found.add(
            "warn", "gains", "[controller.gains] are not used: [controller.inversion.weights] choose the feedback"
        )
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
