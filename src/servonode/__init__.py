"""servonode: from equations to a running control system.

A launch file states a machine, a goal and the run; it is given by its path, by the name of a packaged one
("trailer_pursuit") or as nested mappings; or it is a Model, with residuals=. Keywords change what it states:
duration=5, gains={"lambda": 3}, and any key with `__` for the dot: run__mode="lockstep".

>>> import servonode
>>> run = servonode.simulate("trailer_pursuit", duration=5)
>>> figure = run.plot("V", "U1,U2")

Try a launch file::

    check             whether the motors can realise the goal, with reasons and margins: a Report
    simulate          simulate it as fast as possible: a Run with times, states, inputs, residuals
    run               run it as processes in real time, on a simulated machine or on hardware: a Run
    load              its closed loop: equations, law, linearization, one step at a time: a Loop
    sweep             simulate it many times with other numbers
    Env, VectorEnv    it as an environment of gymnasium

Use recordings::

    read_recording    the run in a recording: a Run
    identify          find parameters of the machine from recordings: an Identification

Act on a run in progress: status, arm, disarm, reset, estop, publish_goal, pause, resume, step, speed.

Write machines and goals of your own: `servonode.mechanics` (coordinate, parameter, input_, constraint, Model, ...) and
`servonode.controllers` (residual, target, signal, Program, ...). `help(servonode.simulate)` shows one function.
"""

import sys as _sys
from typing import TYPE_CHECKING
from typing import Any as _Any

from servonode.errors import ServonodeError
from servonode.errors import did_you_mean as _did_you_mean
from servonode.version import VERSION as _VERSION

if TYPE_CHECKING:
    from servonode import controllers, mechanics
    from servonode.analysis.report import Report
    from servonode.api import check, identify, load, read_recording, run, simulate, sweep
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
    from servonode.record.movie import Movie
    from servonode.record.run import Run
    from servonode.wings.explore.environments.environment import Env, VectorEnv
    from servonode.wings.explore.identification.identification import Identification

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
    "Loop": "servonode.loop",
    "Movie": "servonode.record.movie",
    "Report": "servonode.analysis.report",
    "Run": "servonode.record.run",
    **dict.fromkeys(("check", "identify", "load", "read_recording", "run", "simulate", "sweep"), "servonode.api"),
    **dict.fromkeys(
        ("arm", "disarm", "estop", "pause", "publish_goal", "reset", "resume", "speed", "status", "step"),
        "servonode.operator.operator_requests",
    ),
}
_OF_WINGS = ("Env", "Identification", "VectorEnv")
_ROOMS = ("controllers", "mechanics")


def __getattr__(name: str) -> _Any:
    """Load the public functions on first use, so that `import servonode` stays instant."""
    from importlib import import_module

    if name in _SOURCES:
        return getattr(import_module(_SOURCES[name]), name)
    if name in _OF_WINGS:
        return import_module("servonode.extensions").needed("public", name)
    if name in _ROOMS:
        return import_module(f"servonode.{name}")
    near = "" if name.startswith("_") else _did_you_mean(name, __all__, most=3)
    remedy = f"; {near}dir(servonode) lists what there is" if near else ""
    raise AttributeError(f"module 'servonode' has no attribute {name!r}{remedy}", name=name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


class _Gymnasium:
    """Has `gymnasium.make` know our environments once it is imported too, before or after: it has no entry points."""

    def find_spec(self, name: str, _path: _Any = None, _target: _Any = None) -> _Any:
        if name != "gymnasium" or self not in _sys.meta_path:
            return None
        from importlib.util import find_spec

        _sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (execute(module), self.register())[0]  # type: ignore[method-assign]
        return spec

    @staticmethod
    def register() -> None:
        from servonode.extensions import of_wings

        if "environments" in of_wings("public"):
            of_wings("public")["environments"].load(object)()  # type: ignore[operator]


if "gymnasium" in _sys.modules:
    _Gymnasium.register()
else:
    _sys.meta_path.insert(0, _Gymnasium())
