"""What the generated modules of a machine's observer hold: the one place that states arguments, types and shapes.

Sizes beside those of the machine: n_z sensors; n_own constants of the observer's module, n_constants of the machine's.
"""

from typing import Annotated, Protocol

from servonode.arrays import Array
from servonode.mechanics.kernels import Constants, Inputs, Parameters, State

Readings = Annotated[Array, "n_z"]
Square = Annotated[Array, "n_state", "n_state"]
ByInput = Annotated[Array, "n_state", "n_tau"]


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
