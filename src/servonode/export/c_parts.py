"""The parts of a C file: constant arrays, and the functions of kernels with what the file itself holds."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from servonode.arrays import Array
from servonode.kernels.c99 import WIDTH, Translation, c_number, translate
from servonode.kernels.ir import Module
from servonode.mechanics.kernels import Argument, Signature

NO_ARRAY = "0"  # the null pointer, for an array without elements
_C_TYPES = {"f64": "double", "i64": "int", "bool": "int", "": "void"}


def argument(name: str, values: Array) -> str:
    """C text of an array as an argument."""
    return name if values.size else NO_ARRAY


def array(name: str, words: str, tables: Mapping[str, Array]) -> list[str]:
    """A constant array of all the tables, each under its heading; nothing where there are no entries."""
    size = sum(table.size for table in tables.values())
    lines = []
    for heading, table in tables.items():
        lines += [f"    /* {heading} */"] if heading else []
        rows = [table] if table.ndim == 1 else table
        for row in rows:
            numbers = ", ".join(map(c_number, row.tolist()))
            lines += textwrap.wrap(f"{numbers},", WIDTH - 4, initial_indent="    ", subsequent_indent="    ")
    text = "\n".join(
        [f"/* {words[0].upper()}{words[1:]}. */", f"static const double {name}[{size}] = {{", *lines, "};"]
    )
    return [text] if size else []


@dataclass(frozen=True)
class PublicFunction:
    """A kernel's function in C, and the one of this `name` that calls it.

    Its arguments are those that the kernel's Protocol states, but for the `held` ones: C texts of what the file holds.
    """

    name: str
    signature: Signature
    translation: Translation
    held: Mapping[str, str]

    @classmethod
    def of(
        cls, name: str, signature: Signature, module: Module, rename: Mapping[str, str], held: Mapping[str, str]
    ) -> "PublicFunction":
        """That of a function of a generated module; raises as `translate`."""
        return cls(name, signature, translate(module, signature.name, rename), held)

    @property
    def prototype(self) -> str:
        """Result, name and parameters, as C declares them."""
        parameters = (self._parameter(each) for each in self.signature.arguments if each.name not in self.held)
        return f"{_C_TYPES[self.signature.result]} {self.name}({', '.join(parameters)})"

    @property
    def text(self) -> str:
        """The kernel's function with all that it calls, then this one."""
        arguments = ", ".join(self.held.get(each.name, each.name) for each in self.signature.arguments)
        result = "" if not self.signature.result else "return "
        body = f"    {result}{self.translation.name}({arguments});"
        return f"{self.translation.text.rstrip()}\n\n{self.prototype}\n{{\n{body}\n}}"

    def call(self, **others: str) -> str:
        """C text of a call with the names of the parameters, or with others."""
        names = (each.name for each in self.signature.arguments if each.name not in self.held)
        return f"{self.name}({', '.join(others.get(name, name) for name in names)})"

    def _parameter(self, argument: Argument) -> str:
        if not argument.shape:
            return f"{_C_TYPES[argument.type]} {argument.name}"
        return f"{'' if argument.name in self.translation.writes else 'const '}double *{argument.name}"
