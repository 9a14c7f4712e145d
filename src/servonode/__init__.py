"""servonode: from equations to a running control system.

`load`, `simulate`, `sweep`, `run` and `check` take a launch file, by its path, by the name of a packaged one or as
nested mappings; `read_recording` reads the run in a recording, `identify` finds parameters from recordings. `arm`,
`disarm`, `reset`, `estop`, `status`, `publish_goal`, `pause`, `resume`, `step` and `speed` are for a run in progress.
`mechanics` holds the functions that define a machine, `controllers` those that define a goal.
"""

from typing import TYPE_CHECKING
from typing import Any as _Any

from servonode.errors import ServonodeError
from servonode.errors import did_you_mean as _did_you_mean
from servonode.version import VERSION as _VERSION

if TYPE_CHECKING:
    from servonode import controllers, mechanics
    from servonode.analysis.check import Report
    from servonode.api import check, identify, load, read_recording, run, simulate, sweep
    from servonode.environment import Env, VectorEnv
    from servonode.identification.identification import Identification
    from servonode.loop import Loop
    from servonode.operator.operator_requests import (
        arm,
        disarm,
        estop,
        pause,
        publish_goal,
        reset,
        resume,
        speed,
        status,
        step,
    )
    from servonode.result import Movie, Run

__version__ = _VERSION
__all__ = [
    "Env",
    "Identification",
    "Loop",
    "Movie",
    "Report",
    "Run",
    "ServonodeError",
    "VectorEnv",
    "arm",
    "check",
    "controllers",
    "disarm",
    "estop",
    "identify",
    "load",
    "mechanics",
    "pause",
    "publish_goal",
    "read_recording",
    "reset",
    "resume",
    "run",
    "simulate",
    "speed",
    "status",
    "step",
    "sweep",
]

_SOURCES = {  # the module of each public name, loaded when the name is first used
    **dict.fromkeys(("Env", "VectorEnv"), "servonode.environment"),
    "Identification": "servonode.identification.identification",
    "Loop": "servonode.loop",
    "Movie": "servonode.result",
    "Report": "servonode.analysis.check",
    "Run": "servonode.result",
    **dict.fromkeys(("check", "identify", "load", "read_recording", "run", "simulate", "sweep"), "servonode.api"),
    **dict.fromkeys(
        ("arm", "disarm", "estop", "pause", "publish_goal", "reset", "resume", "speed", "status", "step"),
        "servonode.operator.operator_requests",
    ),
}
_ROOMS = ("controllers", "mechanics")


def __getattr__(name: str) -> _Any:
    """Load the public functions on first use, so that `import servonode` stays instant."""
    from importlib import import_module

    if name in _SOURCES:
        return getattr(import_module(_SOURCES[name]), name)
    if name in _ROOMS:
        return import_module(f"servonode.{name}")
    near = "" if name.startswith("_") else _did_you_mean(name, __all__, most=3)
    remedy = f"; {near}dir(servonode) lists what there is" if near else ""
    raise AttributeError(f"module 'servonode' has no attribute {name!r}{remedy}", name=name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
