"""The terms on which a machine behind a link takes part in a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from servonode.mechanics.description import packed
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.estimated import EstimateTerms

Array = npt.NDArray[np.float64]
Clock = Callable[[], int]  # monotonic ns


@dataclass(frozen=True)
class LawTerms:
    """The terms on which the law in a machine's firmware acts."""

    schema: int
    n_goal: int  # entries of its goal
    tolerance: tuple[float, ...]  # largest difference from the inputs that are sent, each in its unit


@dataclass(frozen=True)
class Terms:
    """The terms on which a machine takes part in a run."""

    machine: str  # name of the machine
    lockstep: bool  # time stands still between two inputs
    step_ns: int  # plant step
    period: float  # s, between two control instants; 0: no controller
    speed: float  # plant seconds per second of wall-clock time
    timeout: float  # s (wall clock) without an input after which the machine takes its safe action
    state_timeout: float  # s (wall clock) without a state after which the machine counts as lost
    limits: Mapping[str, float] = field(default_factory=dict)  # largest magnitude of an input that has one
    frozen_time: float = float("inf")  # s of plant time for which readings may stay the same while inputs act
    parameters: Mapping[str, float] = field(default_factory=dict)
    start: Mapping[str, float | list[float]] = field(default_factory=dict)  # state at step 0
    readonly: bool = False  # the run only observes: no input is ever sent
    brake_time: float = float("inf")  # s of plant time for which inputs of the safe action may be held
    resolution: float = 0.0  # relative; readings that differ by less may be equal
    law: LawTerms | None = None  # None: no law of the machine's own acts
    estimate: EstimateTerms | None = None  # for a machine that sends only readings; None: it sends its state


def terms_of(
    machine: Machine,
    start: Array,
    limits: Array,
    *,
    lockstep: bool,
    step_ns: int,
    period: float,
    speed: float,
    timeout: float,
    state_timeout: float,
    frozen_time: float = float("inf"),
    brake_time: float = float("inf"),
    readonly: bool = False,
    law: LawTerms | None = None,
    estimate: EstimateTerms | None = None,
) -> Terms:
    """The terms for a machine, with its own names and parameters; `start` is a kernel state, `limits` by input."""
    description = machine.description
    limits = np.zeros(len(limits)) if readonly else limits  # a machine that keeps them cannot be moved by anybody
    finite = {name: float(v) for name, v in zip(description.input_names, limits, strict=True) if np.isfinite(v)}
    return Terms(
        description.name, lockstep, step_ns, period, speed, timeout, state_timeout, finite, frozen_time,
        dict(machine.parameters), packed(description.layout, start[: machine.n_state].tolist()), readonly,
        brake_time=brake_time, law=law, estimate=estimate,
    )  # fmt: skip
