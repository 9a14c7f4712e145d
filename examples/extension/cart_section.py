"""A section of launch files."""

from typing import Annotated, Literal

from servonode.plants.keys import AddedSection, key


class Energy(AddedSection, frozen=True):
    """[energy]: how `servonode energy` prints it."""

    unit: Annotated[Literal["J", "kJ"], key("the unit of the energy")] = "J"
