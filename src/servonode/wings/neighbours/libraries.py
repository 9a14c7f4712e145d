"""The libraries of other tools, which are installed apart."""

from importlib import import_module
from types import ModuleType

from servonode.errors import NotInstalled, installing

EXTRAS = {"rerun": "rerun"}  # what is not in the extra `neighbours`


def library(name: str) -> ModuleType:
    """A module of an optional library.

    Raises:
        NotInstalled: it is missing; the text says how to install it.
    """
    try:
        return import_module(name)
    except ImportError as error:
        top = name.partition(".")[0]
        text = f"{top} is not installed ({error}); {installing(EXTRAS.get(top, 'neighbours'))}"
        raise NotInstalled(text, name=error.name) from error
