"""Exports: recordings and machines as files and texts of other tools, which wings and other packages add."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from servonode import extensions

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.record.bag import Bag

KIND = "exports"
FORMS = ("text", "latex", "c")  # that `servonode show` has without any


@dataclass(frozen=True)
class Export:
    """What an extension of the kind "exports" adds: its functions import what they need when they are called.

    Attributes:
        help: of its option, a sentence.
        write: writes a recording's last run to a new file for `servonode bag export`, and returns how many of what
            `unit` names it has; None: recordings have no such form.
        ending: of these files, with its dot.
        unit: what is counted, in the plural.
        text: the text of `servonode show`; None: it prints no such form.
    """

    help: str
    write: "Callable[[Bag, ClosedLoop, Path], int] | None" = None
    ending: str = ""
    unit: str = "rows"
    text: "Callable[[ClosedLoop], str] | None" = None


def writing(name: str) -> Export:
    """The export of this name, which writes recordings.

    Raises:
        ExtensionError: nothing has this name, or it is of `servonode show` alone, or as `extensions.get`.
    """
    found = extensions.get(KIND, name, Export)
    if found.write is None:
        raise extensions.ExtensionError(f"the export {name!r} writes no recordings; servonode show prints it")
    return found


def of_wings() -> dict[str, Export]:
    """The exports that wings add, by name; all are loaded, for the help of options."""
    return {name: each.load(Export) for name, each in extensions.of_wings(KIND).items()}


def printing(name: str) -> "Callable[[ClosedLoop], str] | None":
    """What makes the text of an export for `servonode show`; None: there is none of this name, or only of recordings.

    Raises:
        ExtensionError: it is broken, or two packages have the name.
    """
    added = extensions.find(KIND, name) if isinstance(name, str) else None
    return None if added is None else added.load(Export).text


def printed() -> dict[str, Export]:
    """The exports of wings that `servonode show` prints, by name."""
    return {name: each for name, each in of_wings().items() if each.text is not None}
