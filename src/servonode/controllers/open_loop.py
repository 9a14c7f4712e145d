"""Inputs as functions of time, for any machine: no residual, no feedback."""

from servonode.controllers.engine.program import Program, signal
from servonode.mechanics import Model


def program(machine: Model) -> Program:
    """Each input follows the expression of its name in [controller.settings] (default 0)."""
    signals = {u: signal(u.name, u.quantity.description, u.quantity.unit, default="0") for u in machine.inputs}
    return Program(
        name="open_loop",
        description="every input is a stated function of time",
        residuals=(),
        signals=tuple(signals.values()),
        inputs=signals,
    )
