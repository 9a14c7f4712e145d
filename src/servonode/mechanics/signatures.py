"""Signatures of the functions in generated modules: their arguments with types and shapes, read from a Protocol.

What a module holds is given once, as a Protocol: mypy sees the module by it, the compiler takes types and names of
arguments from it, the C export the shapes of arrays. Arrays are `Annotated[Array, ...]` with their shape: numbers, and
names of sizes.
"""

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_args, get_origin

import numpy as np
import numpy.typing as npt

from servonode.arrays import ANY, Array

Whole = npt.NDArray[np.int64]
_SCALARS = {float: "f64", int: "i64", bool: "bool", None: ""}
_ENTRIES = {Array: "f64", Whole: "i64"}


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
