"""Signatures of the functions in generated modules: their arguments with types and shapes, read from a Protocol.

What a module holds is stated once, as a Protocol: mypy sees the module by it, the compiler takes types and names of
arguments from it, the C export the shapes of arrays. Arrays are `Annotated[Array, ...]` with their shape: numbers, and
names of sizes.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
_SCALARS = {float: "f8", int: "i8", bool: "b1", None: "void"}
_ENTRIES = {Array: "f8", Whole: "i8"}


@dataclass(frozen=True)
class Argument:
    """An argument of a generated function; a scalar has no shape."""

    name: str
    type: str  # as numba writes it
    shape: tuple[str | int, ...] = ()

    @classmethod
    def of(cls, name: str, stated: Any) -> "Argument":
        if get_origin(stated) is not Annotated:
            return cls(name, _SCALARS[stated])
        array, *shape = get_args(stated)
        return cls(name, f"{_ENTRIES[array]}[{', '.join([*[':'] * (len(shape) - 1), '::1'])}]", tuple(shape))


@dataclass(frozen=True)
class Signature:
    """Name, arguments and result of a generated function."""

    name: str
    arguments: tuple[Argument, ...]
    result: str = "void"  # as numba writes it

    @classmethod
    def of(cls, module: type, name: str) -> "Signature":
        """That of a function of the module that a Protocol describes."""
        function = getattr(module, name, None) or module.__annotations__[name].__call__  # a member, or its type
        stated = inspect.signature(function)
        _, *parameters = stated.parameters.values()  # all but self
        arguments = tuple(Argument.of(each.name, each.annotation) for each in parameters)
        return cls(name, arguments, _SCALARS[stated.return_annotation])

    def definition(self, *symbols: str) -> str:
        """The decorator and the first line of the function: compiled at import, kept beside the source.

        Arguments that stand for users' `symbols` have the names that these have inside (see `emit.local`).
        """
        names = (f"{each.name}_" if each.name in symbols else each.name for each in self.arguments)
        types = ", ".join(each.type for each in self.arguments)
        decorator = f'@njit("{self.result}({types})", cache=True, error_model="numpy")'
        return f"{decorator}\ndef {self.name}({', '.join(names)}):\n"

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shape of each argument that is an array."""
        arrays = (each for each in self.arguments if each.shape)
        return {
            each.name: tuple(entry if isinstance(entry, int) else sizes[entry] for entry in each.shape)
            for each in arrays
        }

    def arrays(self, sizes: Mapping[str, int], *names: str) -> dict[str, Array]:
        """Arrays of zeros for the arguments of these names."""
        shapes = self.shapes(sizes)
        return {name: np.zeros(shapes[name]) for name in names}
