"""A fresh interpreter for a part of servonode that must not share a process with the rest."""

import sys

from servonode.version import TOP

_CODE = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def fresh(module: str, *words: str) -> list[str]:
    """The command that runs a module with these words, and imports nothing from the working directory.

    servonode is found where this one was, last of all places: it need not be installed, and hides nothing.
    """
    return [sys.executable, "-P", "-c", _CODE, str(TOP), module, *words]
