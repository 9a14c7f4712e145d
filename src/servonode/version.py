"""The version and the address of the pages, for whoever needs nothing else of the package."""

from pathlib import Path

VERSION = "0.1.0"
SITE = "https://servonode.readthedocs.io"
TOP = Path(__file__).resolve().parents[1]  # the folder from which `import servonode` finds the package


def page(name: str) -> str:
    """The address of a page of the documentation, by its path in `docs` without an ending: `reference/protocol`."""
    return f"{SITE}/page/{name}.html"
