"""`servonode check`: what a launch file says, resolved."""

from dataclasses import asdict, dataclass
from typing import Any

from servonode.nodes.assembly import Assembly


@dataclass(frozen=True)
class Report:
    """What would run. Times in s, rates in 1/s; `condition` is that of W at the start."""

    file: str
    machine: str
    state: tuple[str, ...]
    inputs: tuple[str, ...]
    constraints: tuple[str, ...]
    degrees_of_freedom: int
    program: str | None
    residuals: dict[str, dict[str, float]]
    settings: dict[str, float]
    targets: tuple[str, ...]
    condition: float | None
    mode: str
    speed: float
    duration: float
    step: float
    period: float | None
    integrator: str
    command_timeout: float | None
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def report(assembly: Assembly) -> Report:
    """Resolve the assembly into a Report; the checks themselves were made while assembling."""
    launch, description, control = assembly.launch, assembly.machine.description, assembly.control
    law = control.law if control else None
    residuals: dict[str, dict[str, float]] = {}
    if control and law:
        for quantity, degree in zip(law.description.residuals, law.description.degrees, strict=True):
            residuals[quantity.name] = {"degree": degree, "rate": control.rates[quantity.name]}
    u = law.inputs.copy() if law else assembly.limits * 0.0
    return Report(
        file=launch.file,
        machine=description.name,
        state=description.state_names,
        inputs=description.input_names,
        constraints=description.constraints,
        degrees_of_freedom=len(description.velocities),
        program=law.description.name if law else None,
        residuals=residuals,
        settings=dict(law.parameters) if law else {},
        targets=assembly.targets.names,
        condition=law.condition if law and not law.description.explicit else None,
        mode=launch.run.mode,
        speed=launch.run.speed,
        duration=launch.duration_ns / 1e9,
        step=launch.step_ns / 1e9,
        period=launch.period_ns / 1e9 if launch.period_ns else None,
        integrator=launch.plant.integrator,
        command_timeout=assembly.command_timeout,
        warnings=tuple(assembly.machine.warnings(0.0, assembly.start, u)),
    )
