"""Controllers: servo-constraint programs, the law derived from them, targets."""

import importlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from servonode.controllers.law import ServoLaw
from servonode.mechanics import cache
from servonode.mechanics.description import ProgramDescription
from servonode.mechanics.machine import Machine

_log = logging.getLogger(__name__)
_WORDS = ("Program", "residual", "signal", "target")
__all__ = ["PROGRAMS", "ProgramEntry", "ServoLaw", "load_law", *_WORDS]


@dataclass(frozen=True)
class ProgramEntry:
    """Where a program stands: its module, the machine it is for (None: any), its options and their choices."""

    module: str
    summary: str
    machine: str | None = None
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the first choice is the default
    implied: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # a setting that chooses an option


PROGRAMS: dict[str, ProgramEntry] = {
    "hitch_angle": ProgramEntry(
        "diff_drive_trailer_hitch_angle",
        "the hitch angle follows a function of time",
        "diff_drive_trailer",
        {"completion": ("speed", "opposed", "least_norm", "one_motor", "yaw_rate", "equal", "none")},
    ),
    "look_ahead": ProgramEntry(
        "diff_drive_trailer_look_ahead", "a point ahead of the robot follows a target", "diff_drive_trailer"
    ),
    "open_loop": ProgramEntry("open_loop", "every input is a stated function of time"),
    "pursuit": ProgramEntry(
        "diff_drive_trailer_pursuit",
        "the heading points at a moving target, the speed keeps a distance",
        "diff_drive_trailer",
        {"variant": ("finite", "differential", "plain", "literal")},
    ),
    "rates": ProgramEntry(
        "diff_drive_trailer_rates",
        "forward speed and yaw rate follow functions of time",
        "diff_drive_trailer",
    ),
    "trailer_path": ProgramEntry(
        "diff_drive_trailer_path",
        "the trailer drives along a line or a circle, forward or backward",
        "diff_drive_trailer",
        {"path": ("line", "circle"), "travel": ("forward", "backward"), "far": ("plain", "soft"), "turn": ("1", "-1")},
        {"radius": ("path", "circle"), "turn": ("path", "circle"), "direction": ("path", "line")},
    ),
}


def load_law(
    name: str,
    machine: Machine,
    machine_key: str,
    build_model: Callable[[], Any],
    options: Mapping[str, str],
    parameters: Mapping[str, float],
    damping: float = 0.0,
    integral: bool = False,
) -> ServoLaw:
    """The law of a program in PROGRAMS on a machine, derived and compiled, or from the cache.

    `damping` > 0: what the law does where W is singular; `integral`: feed back integrals too; see `law_source`.

    Raises:
        CacheError: the kernel cache is damaged or cannot be written.
        ModelError: the program cannot be derived for this machine.
    """
    folder = Path(__file__).parent
    file = folder / f"{PROGRAMS[name].module}.py"
    sources = cache.sources_digest(*(folder / each for each in ("program.py", "servo.py", "law_source.py")), file)
    key = cache.key_of(
        "law", machine_key, name, sources, json.dumps(dict(options), sort_keys=True), repr((damping, integral))
    )
    kernel, description = cache.load(key, lambda: _build(name, build_model, options, damping, integral))
    return ServoLaw(msgspec.json.decode(description, type=ProgramDescription), kernel, machine, parameters)


def _build(
    name: str, build_model: Callable[[], Any], options: Mapping[str, str], damping: float, integral: bool
) -> tuple[str, bytes]:
    from servonode.controllers.law_source import describe_program, law_source
    from servonode.controllers.servo import derive_servo
    from servonode.mechanics.derive import derive

    _log.info("deriving and compiling the law of program %s, once", name)
    model = build_model()
    module = importlib.import_module(f"servonode.controllers.{PROGRAMS[name].module}")
    servo = derive_servo(derive(model), module.program(model, **options))
    return law_source(servo, damping, integral), msgspec.json.encode(describe_program(servo, integral))


def __getattr__(name: str) -> Any:
    if name in _WORDS:
        from servonode.controllers import program

        return getattr(program, name)
    raise AttributeError(f"module 'servonode.controllers' has no attribute {name!r}")
