"""Which Python code of a launch file may run: all of a user's own, of a recording only what is known."""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from servonode.closed_loop.launch_error import UnknownCode, stated_in
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.controllers import PROGRAMS
from servonode.definitions.references import CODE, find, kind_of
from servonode.plants import PLANTS

SHIPPED = {f"servonode.plants.{name}:model" for name in PLANTS}
SHIPPED |= {f"servonode.controllers.{entry.module}:program" for entry in PROGRAMS}
MOST_BYTES = 100_000_000  # of a file of the user, whose digest is stored


def digest(file: Path) -> str:
    """The SHA-256 of a file; empty where it is no regular file or cannot be read."""
    with suppress(OSError):
        if file.is_file():
            with file.open("rb") as stream:
                return hashlib.sha256(stream.read(MOST_BYTES)).hexdigest()
    return ""


def refuse_code(launch: LaunchFile, recorded: Mapping[str, str] | None) -> None:
    """Refuse Python code, a file or a module, instead of a machine or program known by name; nothing of it runs.

    Known are those that come with servonode and those that installed packages have registered. recorded: of a
    recording the digests of its files, by path from the launch file; code is then known too whose files have them and
    stand below the working directory. None: of a launch file.

    Raises UnknownCode.
    """
    program = launch.controller.program if launch.controller else None
    for section, key, reference in (
        ("plant", "machine", str(launch.plant.machine)),
        ("controller", "program", program),
    ):
        if not reference or reference in SHIPPED or kind_of(reference) not in CODE:
            continue
        problem, remedy = " is Python code, which --no-code (code=False) refuses", "without --no-code"
        if recorded is not None:
            with stated_in(section, key, UnknownCode):
                problem, remedy = _unknown(reference, launch.path.parent.resolve(), recorded), "with --code (code=True)"
        if problem:
            text = f"{reference!r}{problem}; read the code and run it {remedy}"
            raise UnknownCode(section, key, f"{text}, or name one of `servonode list {key}s`")


def _unknown(reference: str, folder: Path, recorded: Mapping[str, str]) -> str:
    """What of the code that a recording names is not known; empty if all is."""
    if (kind := kind_of(reference)) != "file":
        return "" if kind == "function" else " is Python code without a file that a recording could hold"
    definition = find(reference, {}, folder, "machine")
    for file in sorted({definition.file.resolve(), *definition.sources()}):  # sources: none of servonode's own
        found = f" is Python code that a recording names: {file} (SHA-256 {digest(file)})"
        if recorded.get(os.path.relpath(file, folder)) != digest(file):
            return f"{found} is not what was recorded"
        if not file.is_relative_to(Path.cwd()):
            return f"{found} stands outside of the working directory"
    return ""
