"""The functions of a C file that a microcontroller calls: those of the kernels, with what the file itself holds."""

from collections.abc import Mapping
from dataclasses import dataclass

from servonode.kernels.c99 import Translation, translate
from servonode.kernels.ir import Module
from servonode.mechanics.signatures import Argument, Signature

_C_TYPES = {"f64": "double", "i64": "int", "bool": "int", "": "void"}


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
