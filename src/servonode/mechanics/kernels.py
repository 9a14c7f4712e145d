"""What the generated modules of a machine hold, each given once, as a Protocol, with arguments, types and shapes.

mypy sees the module by it, the compiler takes types and names of arguments from it (`Signature`). Arrays are
`Annotated[Array, ...]` with their shape: numbers, and names of sizes.

Sizes: n_x states and, last, the work; n_tau inputs; n_p parameters; n_constants; n_q coordinates, n_v velocities, n_c
passive constraints, n_full = n_q + n_c; n_requirements, n_residuals of constraints, n_held at zero, n_monitored outputs
and warnings; n_jumps; n_drawn numbers of a drawing; of an observer n_z sensors, n_own constants of its own module.
"""

import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Annotated, Any, Protocol, Self, TypeVar, get_args, get_origin

import numpy as np
import numpy.typing as npt

from servonode.arrays import ANY, Array

T = TypeVar("T")
Whole = npt.NDArray[np.int64]
_SCALARS = {float: "f64", int: "i64", bool: "bool", None: ""}
_ENTRIES = {Array: "f64", Whole: "i64"}
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
    outputs for n states at once. `full`, `matrices` and `drawing`, long or rarely wanted, are compiled in modules of
    their own, the last with `drawn`, which is it for n states.
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
    def drawing(
        self, t: float, x: State, u: Inputs, c: Constants, magnification: float,
        S: Annotated[Array, "n_full", "n_full"], y: Annotated[Array, "n_full"], out: Annotated[Array, "n_drawn"],
    ) -> None: ...  # fmt: skip
    def drawn(
        self, n: int, t: Times, x: States, u: Annotated[Array, ANY, "n_tau"], c: Constants, magnification: float,
        S: Annotated[Array, "n_full", "n_full"], y: Annotated[Array, "n_full"], out: Annotated[Array, ANY, "n_drawn"],
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


@dataclass(frozen=True)
class Argument:
    """An argument of a generated function; a scalar has no shape."""

    name: str
    type: str  # of a scalar, or of the entries
    shape: tuple[str | int, ...] = ()

    @classmethod
    def of(cls, name: str, stated: Any) -> "Argument":
        if get_origin(stated) is not Annotated:
            return cls(name, _SCALARS[stated])
        array, *shape = get_args(stated)
        return cls(name, _ENTRIES[array], tuple(shape))

    def __str__(self) -> str:
        """The argument in the kernel language; sizes are constants of the module."""
        lengths = ", ".join(":" if each == ANY else str(each) for each in self.shape)
        return f"{self.name}: {self.type}" + (f"[{lengths}]" if self.shape else "")


@dataclass(frozen=True)
class Signature:
    """Name, arguments and result of a generated function."""

    name: str
    arguments: tuple[Argument, ...]
    result: str = ""  # its type; empty: none

    @classmethod
    @functools.cache
    def of(cls, module: type, name: str) -> "Signature":
        """That of a function of the module that a Protocol describes."""
        function = getattr(module, name, None) or module.__annotations__[name].__call__  # a member, or its type
        stated = inspect.signature(function)
        _, *parameters = stated.parameters.values()  # all but self
        arguments = tuple(Argument.of(each.name, each.annotation) for each in parameters)
        return cls(name, arguments, _SCALARS[stated.return_annotation])

    def definition(self, *symbols: str) -> str:
        """The first line of the function.

        Arguments that stand for users' `symbols` have the names that these have inside (see `emit.local`).
        """
        named = (replace(each, name=f"{each.name}_") if each.name in symbols else each for each in self.arguments)
        result = f" -> {self.result}" if self.result else ""
        return f"def {self.name}({', '.join(map(str, named))}){result}:\n"

    def arrays(self, sizes: Mapping[str, int], *names: str) -> dict[str, Array]:
        """Arrays of zeros for the arguments of these names."""
        shapes = {each.name: each.shape for each in self.arguments}
        return {name: np.zeros([n if isinstance(n, int) else sizes[n] for n in shapes[name]]) for name in names}


def sizes_text(sizes: Mapping[str, int]) -> str:
    """The constants of a module that its shapes are made of."""
    return "".join(f"{name} = {size}\n" for name, size in sizes.items()) + "\n\n"


@dataclass(frozen=True)
class Layout:
    """Named parts of an array, one behind the other."""

    @classmethod
    def _consecutive(cls, *sizes: int) -> Self:
        return cls(*(slice(begin, end) for begin, end in pairwise(accumulate(sizes, initial=0))))

    @property
    def size(self) -> int:
        """The length of the array."""
        return sum(self._sizes.values())

    @property
    def _sizes(self) -> dict[str, int]:
        return {name: part.stop - part.start for name, part in vars(self).items()}

    def arranged(self, **parts: Sequence[T]) -> list[T]:
        """What stands in each part, by its name, in the order of the array.

        Raises:
            ValueError: not all parts are given, or one has another size.
        """
        given = {name: len(part) for name, part in parts.items()}
        if given != self._sizes:
            raise ValueError(f"entries {given} do not fit into the parts {self._sizes}; give each part its entries")
        return [each for name in self._sizes for each in parts[name]]
