"""The page of `servonode run --page`, a process of its own, and what it needs to be installed."""

from importlib.util import find_spec

from servonode.errors import ServonodeError
from servonode.nodes.helper_process import ProcessBeside
from servonode.views.interpreter import fresh

NEEDED = ("starlette", "uvicorn", "websockets")


class NoPage(ServonodeError, RuntimeError):
    """There can be no page here; the text says why and what to do."""


def check_libraries() -> None:
    """Raise NoPage where the libraries of the page are not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise NoPage(f'the page needs {", ".join(missing)}, not installed here: pip install "servonode[web]"')


def page_process(name: str, port: int) -> ProcessBeside:
    """The process of a page on the run of this name; port 0: any."""
    return ProcessBeside("page", fresh("servonode.web.page", name, str(port)))
