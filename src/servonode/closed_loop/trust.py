"""Launch files from others: refuse what would run code that they name."""

from servonode.closed_loop.launch_error import KeyRefused
from servonode.controllers import PROGRAMS
from servonode.definitions.references import names_code
from servonode.plants import PLANTS

SHIPPED = {f"servonode.plants.{name}:model" for name in PLANTS}
SHIPPED |= {f"servonode.controllers.{entry.module}:program" for entry in PROGRAMS}


def named_code(machine: str, program: str | None) -> str | None:
    """The reference of these that is Python code, instead of a machine or program known by name; None: neither is."""
    references = (each for each in (machine, program) if each)
    return next((each for each in references if each not in SHIPPED and names_code(each)), None)


def refuse_code(machine: str, program: str | None) -> None:
    """Refuse Python code, a file or a module, instead of a machine or program known by name.

    Known are those that come with servonode and those that installed packages have registered.

    Raises:
        KeyRefused: one of them names code.
    """
    for section, key, reference in (("plant", "machine", machine), ("controller", "program", program)):
        if reference is not None and named_code(reference, None):
            text = f"{reference!r} is Python code, which --no-code (code=False) refuses; read the code and run it "
            raise KeyRefused(section, key, f"{text}without --no-code, or name one of `servonode list {key}s`")
