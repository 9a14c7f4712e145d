"""Views of runs that wings and other packages add: reports of other kinds than pictures, and what shows a run."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from servonode import extensions
from servonode.errors import ServonodeError
from servonode.extensions import ExtensionError

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.nodes.node_process import ProcessBeside
    from servonode.record.bag import Bag
    from servonode.record.run import Run
    from servonode.record.write import Drawn

T = TypeVar("T")
KIND = "views"
PAGE = "page"  # the view of `servonode run --page`


def _ready() -> None:
    """Nothing is missing."""


@dataclass(frozen=True)
class RunView:
    """What an extension of the kind "views" adds: its functions import what they need when they are called.

    Attributes:
        endings: of the reports that it writes, in small letters with their dots, such as ".html".
        report: writes the report of a run of this name to a file; None: it writes none.
        check: raises `NotInstalled` where a library is missing; it is called before a run begins.
        beside: a process that shows the run of this name in progress, at a port where it needs one, 0: any; None: it
            shows none.
        drawn: what a recording holds for viewers, of its last run; None: nothing.
    """

    endings: tuple[str, ...] = ()
    report: "Callable[[Run, str, Path], None] | None" = None
    check: Callable[[], None] = _ready
    beside: "Callable[[str, int], ProcessBeside] | None" = None
    drawn: "Callable[[Bag, ClosedLoop], Iterable[Drawn]] | None" = None

    def __post_init__(self) -> None:
        if not (isinstance(self.endings, tuple) and all(str(each).startswith(".") for each in self.endings)):
            raise ValueError(f"endings = {self.endings!r} is no tuple of endings with their dots")


def _asked(name: str, function: Callable[..., T], *given: Any) -> T:
    """What a function of the view of this name gives; ExtensionError where it fails."""
    try:
        return function(*given)
    except ServonodeError:
        raise
    except Exception as error:
        text = f"the view {name!r} fails ({type(error).__name__}: {error}); repair the package that adds it"
        raise ExtensionError(text) from error


def showing(name: str) -> "Callable[[str, int], ProcessBeside]":
    """What shows a run in progress by the view of this name, whose libraries are there.

    Raises:
        ExtensionError: there is no such view, or it shows no run in progress; NotInstalled: a library is missing.
    """
    from servonode.nodes.node_process import ProcessBeside

    view = extensions.get(KIND, name, RunView)
    if (beside := view.beside) is None:
        raise ExtensionError(f"the view {name!r} shows no run in progress, but what is recorded")
    _asked(name, view.check)

    def made(run: str, port: int) -> ProcessBeside:
        process: Any = _asked(name, beside, run, port)
        if not isinstance(process, ProcessBeside):
            text = f"the view {name!r} gives {type(process).__name__} in place of a ProcessBeside"
            raise ExtensionError(f"{text}; repair the package that adds it")
        return process

    return made


def drawing(names: Iterable[str] = ()) -> "list[Callable[[Bag, ClosedLoop], Iterable[Drawn]]]":
    """What draws into recordings: the views of wings, and those of these names."""
    others = (extensions.get(KIND, name, RunView) for name in names if name not in extensions.of_wings(KIND))
    return [view.drawn for view in (*_of_wings(), *others) if view.drawn is not None]


def reporting(file: Path) -> "Callable[[Run, str, Path], None] | None":
    """What writes reports with this file's ending, whose libraries are there; None: nothing that is installed does.

    Wings come first; other packages are searched where no wing has the ending.

    Raises:
        ExtensionError: nothing has the ending, and a package is broken; NotInstalled: a library is missing.
    """
    broken: ExtensionError | None = None

    def others() -> Iterator[RunView]:
        nonlocal broken
        for name in extensions.of_packages(KIND):
            try:
                yield extensions.get(KIND, name, RunView)
            except ExtensionError as error:
                broken = error

    for views in (_of_wings(), others()):
        for view in views:
            if view.report is not None and file.suffix.lower() in view.endings:
                _asked(file.suffix, view.check)
                return view.report
    if broken is not None:
        raise broken
    return None


def endings() -> list[str]:
    """The endings of the reports of wings, the first of each view."""
    return [view.endings[0] for view in _of_wings() if view.report is not None]


def _of_wings() -> list[RunView]:
    return [each.load(RunView) for each in extensions.of_wings(KIND).values()]
