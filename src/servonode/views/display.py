"""The process of a window; whether one can be opened here, and if not, why and what to do.

    python -m servonode.views.display

prints nothing and ends with 0 where there is a display, else prints one line and ends with 1: for a process that must
not load a window toolkit itself, because it forks.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from servonode.errors import ServonodeError
from servonode.nodes.node_process import ProcessBeside
from servonode.version import TOP

REMEDY = "log in with ssh -X, or have a picture (--report) or a movie (servonode simulate FILE --movie) made instead"
TOOLKITS = ("tkinter", "PyQt6", "PySide6", "PyQt5", "PySide2", "gi", "wx")
_CODE = (  # Ctrl-C ends it without a traceback while its modules are still loading, see `call_process`
    "import runpy, signal, sys; "
    "signal.getsignal(signal.SIGINT) is signal.default_int_handler and signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


class NoDisplay(ServonodeError, RuntimeError):
    """No window can be opened; the text says why and what to do, in one line whatever is quoted in it."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split()))


def gui_backend() -> str:
    """The backend of matplotlib that opens windows here, loaded.

    Raises:
        NoDisplay: there is no such backend.
    """
    asked = os.environ.get("MPLBACKEND", "")
    linux = sys.platform.startswith("linux")
    if linux and not asked and not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        raise NoDisplay(f"there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set): {REMEDY}")
    check_backend()
    import matplotlib as mpl
    from matplotlib.backends.registry import BackendFilter, backend_registry

    try:
        from matplotlib import pyplot as plt

        name: str = mpl.rcParams["backend"]
        plt.switch_backend(name)
    except Exception as error:  # MPLBACKEND may name any module
        raise NoDisplay(f"matplotlib can open no window ({error}); {REMEDY}") from error
    windows: list[str] = backend_registry.list_builtin(BackendFilter.INTERACTIVE)  # type: ignore[no-untyped-call]
    if name.lower() in windows:
        return name
    if asked:
        raise NoDisplay(f"MPLBACKEND={asked} of the environment opens no windows; unset it, or {REMEDY}")
    if not any(find_spec(toolkit) for toolkit in TOOLKITS):
        raise NoDisplay("there is no window toolkit for this Python; install tkinter (apt install python3-tk)")
    raise NoDisplay(f"the display {os.environ.get('DISPLAY', '')!r} cannot be opened: {REMEDY}")


def check_backend() -> None:
    """Raise NoDisplay where MPLBACKEND is nothing that matplotlib knows: then not even a file can be drawn."""
    asked = os.environ.get("MPLBACKEND")
    if not asked:
        return
    try:
        import matplotlib as mpl  # noqa: F401
    except ValueError as error:
        text = f"MPLBACKEND={asked} of the environment is no backend of matplotlib; unset it, or set it to agg"
        raise NoDisplay(f"{text}, which draws files only") from error


def check_display() -> None:
    """Raise NoDisplay where no window can be opened; found out in a process of its own."""
    command = fresh("servonode.views.display")
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise NoDisplay(done.stdout.strip() or f"no window can be opened ({last}); {REMEDY}")


def fresh(module: str, *words: str) -> list[str]:
    """The command that runs a module with these words, and imports nothing from the working directory.

    servonode is found where this one was, last of all places: it need not be installed, and hides nothing.
    """
    return [sys.executable, "-P", "-c", _CODE, str(TOP), module, *words]


@dataclass(frozen=True)
class Options:
    """What a user may choose. panels: "NAME,NAME" each; span [s] of plant time; save: file of the save key."""

    panels: tuple[str, ...] = ()
    span: float | None = None
    save: str | None = None


def window_process(name: str, options: Options) -> ProcessBeside:
    """The process of a window on the run of this name."""
    return ProcessBeside("window", fresh("servonode.views.window", name, json.dumps(asdict(options))))


if __name__ == "__main__":
    try:
        gui_backend()
    except NoDisplay as problem:
        sys.stdout.write(f"{problem}\n")
        sys.exit(1)
