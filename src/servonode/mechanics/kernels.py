"""What the generated modules of a machine hold: the one place that states arguments, types and shapes (`signatures`).

Sizes: n_x states and, last, the work; n_tau inputs; n_p parameters; n_constants; n_q coordinates, n_v velocities, n_c
passive constraints, n_full = n_q + n_c; n_requirements, n_residuals of constraints, n_held at zero, n_monitored outputs
and warnings; n_jumps; of an observer n_z sensors, n_own constants of its own module.
"""

from typing import Annotated, Protocol

from servonode.arrays import ANY, Array

Readings = Annotated[Array, "n_z"]
Square = Annotated[Array, "n_state", "n_state"]
ByInput = Annotated[Array, "n_state", "n_tau"]
State = Annotated[Array, "n_x"]
Inputs = Annotated[Array, "n_tau"]
Constants = Annotated[Array, "n_constants"]
Parameters = Annotated[Array, "n_p"]
Jumps = Annotated[Array, "n_jumps"]
Times = Annotated[Array, ANY]
States = Annotated[Array, ANY, "n_x"]


class MachineKernel(Protocol):
    """A machine's module. What a machine does not state (faults, inputs, a full form, ...) is not in its module.

    It has a method for each generated function; energies, residuals and monitored are energy, constraint_residual and
    outputs for n states at once. `full` and `matrices`, long and rarely wanted, are compiled in a module of their own.
    """

    __name__: str
    text: str
    n_constants: int

    def constants(self, p: Parameters, c: Constants) -> None: ...
    def requirements(self, p: Parameters, out: Annotated[Array, 3, "n_requirements"]) -> None: ...
    def derivatives(self, t: float, x: State, u: Inputs, c: Constants, dx: State) -> None: ...
    def energy(self, t: float, x: State, c: Constants, out: Annotated[Array, 2]) -> None: ...
    def constraint_residual(self, t: float, x: State, c: Constants, out: Annotated[Array, "n_residuals"]) -> None: ...
    def position_residual(self, t: float, x: State, c: Constants, out: Annotated[Array, "n_held"]) -> None: ...
    def project(self, t: float, x: State, c: Constants) -> None: ...
    def poses(self, t: float, x: State, c: Constants, out: Annotated[Array, "n_poses", 22]) -> None: ...
    def full(
        self, t: float, x: State, u: Inputs, c: Constants,
        S: Annotated[Array, "n_full", "n_full"], y: Annotated[Array, "n_full"],
    ) -> int: ...  # fmt: skip
    def matrices(
        self, t: float, x: State, c: Constants, M: Annotated[Array, "n_q", "n_q"], h: Annotated[Array, "n_q"],
        B: Annotated[Array, "n_q", "n_tau"], A: Annotated[Array, "n_c", "n_q"], gamma: Annotated[Array, "n_c"],
    ) -> None: ...  # fmt: skip
    def outputs(
        self, t: float, x: State, u: Inputs, c: Constants,
        S: Annotated[Array, "n_full", "n_full"], y: Annotated[Array, "n_full"], out: Annotated[Array, "n_monitored"],
    ) -> None: ...  # fmt: skip
    def energies(self, n: int, t: Times, x: States, c: Constants, parts: Annotated[Array, 2], out: Times) -> None: ...
    def residuals(
        self, n: int, t: Times, x: States, c: Constants, out: Annotated[Array, ANY, "n_residuals"]
    ) -> None: ...
    def monitored(
        self, n: int, t: Times, x: States, u: Annotated[Array, ANY, "n_tau"], c: Constants,
        S: Annotated[Array, "n_full", "n_full"], y: Annotated[Array, "n_full"],
        out: Annotated[Array, ANY, "n_monitored"],
    ) -> None: ...  # fmt: skip
    def faults(self, t: float, x: State, c: Constants) -> int: ...
    def margins(self, t: float, x: State, c: Constants, out: Jumps) -> None: ...
    def margin_rates(self, t: float, x: State, dx: State, c: Constants, out: Jumps) -> None: ...
    def act(self, i: int, t: float, b: State, x: State, c: Constants) -> None: ...
    def holds(self, i: int, margin: float) -> bool: ...
    def turns_back(self, i: int, t: float, b: State, x: State, u: Inputs, c: Constants) -> bool: ...
    def settle(
        self, t: float, b: State, x: State, u: Inputs, c: Constants, slack: float, located: int, free: Jumps,
        acted: Jumps,
    ) -> bool: ...  # fmt: skip
    def assembly(self, t: float, x: State, c: Constants) -> None: ...
    def input_rates(self, t: float, x: State, c: Constants, out: Inputs) -> None: ...
    def safe_input(self, t: float, x: State, c: Constants, out: Inputs) -> None: ...
    def jump_terms(self, t: float, x: State, c: Constants, out: Annotated[Array, "n_jump_terms"]) -> None: ...


class Step(Protocol):
    """One step of length h [s] from time t [s] on: x advances in place under the held input."""

    def __call__(self, t: float, x: State, u: Inputs, c: Constants, h: float) -> None: ...


class Advance(Protocol):
    """n steps from step k on, under a held input; whether x is still finite."""

    def __call__(self, k: int, n: int, step_ns: int, x: State, u: Inputs, c: Constants) -> bool: ...


class Watch(Protocol):
    """n steps, or to the first fault: how many, 0 where none is met; in `last` the state before it."""

    def __call__(self, k: int, n: int, step_ns: int, x: State, last: State, u: Inputs, c: Constants) -> int: ...


class StepsKernel(Protocol):
    """The module of an integrator's steps of a machine."""

    __name__: str
    text: str
    step: Step
    advance: Advance


class WatchKernel(Protocol):
    """The module of steps that are watched."""

    watch: Watch


class ObserverKernel(Protocol):
    """An observer's module; `normals` is in that of a machine that holds something at zero."""

    __name__: str
    text: str
    n_constants: int

    def constants(self, p: Parameters, c: Constants) -> None: ...
    def measure(self, t: float, x: State, u: Inputs, c: Constants, z: Readings) -> None: ...
    def measured(
        self, t: float, x: State, u: Inputs, c: Constants, z: Readings, H: Annotated[Array, "n_z", "n_state"]
    ) -> None: ...
    def normals(self, t: float, x: State, c: Constants, N: Annotated[Array, "n_held", "n_state"]) -> None: ...
    def slopes(self, t: float, x: State, u: Inputs, c: Constants, A: Square, B: ByInput) -> None: ...


class PropagationKernel(Protocol):
    """The module that takes a mean and its covariance along the motion, with the steps of an integrator.

    A, B, F, W: scratch. `predict` tells whether mean and covariance are still finite.
    """

    __name__: str

    def predict(
        self, k: int, n: int, step_ns: int, x: State, u: Inputs, c: Constants, o: Annotated[Array, "n_own"],
        S: Annotated[Array, "n_state"], V: Inputs, P: Square, A: Square, B: ByInput, F: Square, W: Square,
    ) -> bool: ...  # fmt: skip
    def transition(
        self, k: int, n: int, step_ns: int, x: State, u: Inputs, c: Constants, o: Annotated[Array, "n_own"],
        phi: Square, A: Square, B: ByInput, F: Square, W: Square,
    ) -> None: ...  # fmt: skip
