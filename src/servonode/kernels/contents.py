"""The contents of a kernel's machine code: its functions, their arguments, and the outside functions it calls."""

import msgspec

ENTRY, ADAPTER = "entry.", "adapter"  # symbols that Python calls: entry.NAME, through the adapter
NUMBERS = "numbers.in.text"  # the symbol of the array that holds the numbers of a text


class Argument(msgspec.Struct, frozen=True):
    """An argument of a function; `shape` only for an array, with -1 for a first length that may be any."""

    name: str
    type: str
    shape: tuple[int, ...] | None = None
    written: bool = False


class Entry(msgspec.Struct, frozen=True):
    """A function: its arguments, and the type of its result."""

    name: str
    arguments: tuple[Argument, ...] = ()
    result: str = ""

    def __str__(self) -> str:
        given = ", ".join(f"{each.name}: {type_text(each)}" for each in self.arguments)
        return f"{self.name}({given})" + (f" -> {self.result}" if self.result else "")


class Contents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The description of machine code.

    numbers: what the array NUMBERS is to be filled with, for code that reads the numbers of its text from there.
    """

    entries: tuple[Entry, ...]
    constants: dict[str, int]
    numbers: tuple[float, ...] = ()


def type_text(argument: Argument) -> str:
    """The argument's type in the kernel language."""
    if argument.shape is None:
        return argument.type
    return f"{argument.type}[{', '.join(':' if n < 0 else str(n) for n in argument.shape)}]"
