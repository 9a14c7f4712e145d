"""A controller of the user's own in a launch file: what it is given, and what of [controller] is not for it."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.controller_section import Control, DerivedLaw
from servonode.closed_loop.launch_error import KeyRefused, ProgramUnfit, stated_in
from servonode.closed_loop.launch_keys import Controller, LaunchFile
from servonode.closed_loop.safety_settings import SafetySettings
from servonode.closed_loop.start_on_program import wants_program_start
from servonode.closed_loop.static_checks import Examination
from servonode.controllers.own.law import OwnLaw
from servonode.controllers.own.source import OwnController
from servonode.controllers.own.trial import Trial, tried
from servonode.controllers.own.view import PlantView

SLOW = 0.5  # of the period: a command that takes longer is warned of
_INSTEAD = "give what it needs as arguments with defaults of its class or function, which [controller.settings] sets"


def check_own(controller: Controller, launch: LaunchFile) -> None:
    """Refuse what only a law that servonode derives can have.

    Raises:
        KeyRefused: something of it is stated.
    """
    name = f"{controller.program} is a controller in Python"
    if controller.gains:
        raise KeyRefused("controller.gains", next(iter(controller.gains)), f"{name}: it has no gains here; {_INSTEAD}")
    if controller.damping:
        text = f"{name}, which solves no equations for its inputs here; leave it out"
        raise KeyRefused("controller", "damping", text)
    if controller.inversion is not None:
        text = f"{name}, and the bounded solution is that of a program's residuals; leave the section out"
        raise KeyRefused("controller.inversion", None, text)
    if wants_program_start(launch.plant.initial):
        text = f"{name}, whose residuals are only watched; give the initial state in numbers"
        raise KeyRefused("plant.initial", "on_program", text)


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
