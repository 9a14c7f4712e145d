"""Machines in files whose names end in .cart, which hold the mass of a cart in kilograms."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servonode.definitions.references import Definition, NotFound, Option
from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.plants.machine_files import MachineFiles


@dataclass(frozen=True)
class CartFile(Definition):
    """A file with a mass; it is read, and never run."""

    function: str = "cart"
    takes_plant = False

    @property
    def options(self) -> dict[str, Option]:
        return {}

    @property
    def place(self) -> Place:
        return Place(str(self.file), 1)

    def digest(self, *arguments: Any, **options: Any) -> str:
        return hashlib.sha256(self.file.read_bytes()).hexdigest()

    def sources(self) -> set[Path]:
        return {self.file.resolve()}

    def from_folder(self, folder: str) -> str:
        return f"./{folder}"

    def call(self, *arguments: Any, **options: Any) -> Any:
        """The Model."""
        from cart_equations import model

        try:
            mass = float(self.file.read_text())
        except ValueError as error:
            raise ModelError("no number; write the mass of the cart [kg]", self.place) from error
        return model(mass)

    def states(self, name: str, *seen: Path) -> bool:
        return False

    def attribute(self, name: str) -> Any:
        return None


def find(reference: str, folder: Path) -> CartFile:
    """The definition of a file."""
    if not (folder / reference).is_file():
        raise NotFound(f"there is no file {folder / reference}; the path is relative to the launch file's folder")
    return CartFile(reference, folder / reference)


FILES = MachineFiles(what="the mass of a cart, in a file whose name ends in .cart", find=find)
