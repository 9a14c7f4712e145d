"""Controllers: servo-constraint programs, the law derived from them, targets."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from servonode.controllers.engine.inline_program import InlineProgram
from servonode.controllers.engine.keeping import NOTHING, Keeping
from servonode.controllers.engine.kernels import LawKernel
from servonode.controllers.engine.law import ServoLaw
from servonode.controllers.own.view import PlantView
from servonode.definitions import cache
from servonode.definitions.references import Definition, FunctionDefinition, Option, find
from servonode.errors import ModelError, did_you_mean
from servonode.mechanics.derivation import derivation
from servonode.mechanics.description import ProgramDescription
from servonode.mechanics.machine import Machine

if TYPE_CHECKING:
    from servonode.controllers.engine.program import (
        Program,
        keep,
        late,
        limit,
        residual,
        setpoint,
        signal,
        state,
        target,
        watch,
    )

__all__ = [
    "PROGRAMS",
    "InlineProgram",
    "PlantView",
    "Program",
    "ProgramEntry",
    "ProgramSource",
    "ServoLaw",
    "StatedProgram",
    "keep",
    "late",
    "limit",
    "load_law",
    "programs_of",
    "residual",
    "setpoint",
    "signal",
    "state",
    "target",
    "watch",
]


@dataclass(frozen=True)
class ProgramEntry:
    """A packaged program: its module, the machine it is for (None: any), and settings that choose an option."""

    name: str
    module: str
    summary: str
    machine: str | None = None
    implied: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, tuple[str, ...]]:
        """The choices of each option, the default first."""
        stated = find_program(self.name, Path(), self.machine).options
        return {name: (str(o.default), *(c for c in o.choices if c != o.default)) for name, o in stated.items()}


def _of(machine: str, programs: Mapping[str, str], **implied: Mapping[str, tuple[str, str]]) -> list[ProgramEntry]:
    """The programs of a machine, each in the module that has the machine's name and its own."""
    stated = programs.items()
    return [ProgramEntry(name, f"{machine}_{name}", text, machine, implied.get(name, {})) for name, text in stated]


_DERIVING = (
    "inline_program",
    "law_source",
    "program",
    "servo",
    "stated_keeps",
)  # modules of the engine that state and derive
_TWO_WHEELS = {  # of a robot with X, Y, psi, V and Omega
    "look_ahead": "a point ahead of the robot follows a target",
    "pursuit": "the heading points at a moving target, the speed keeps a distance",
    "rates": "forward speed and yaw rate follow functions of time",
}
PROGRAMS: tuple[ProgramEntry, ...] = (
    ProgramEntry("open_loop", "open_loop", "every input is a stated function of time"),
    *_of(
        "diff_drive_trailer",
        {"hitch_angle": "the hitch angle follows a function of time", **_TWO_WHEELS},
    ),
    ProgramEntry(
        "trailer_path",
        "diff_drive_trailer_path",
        "the trailer drives along a line or a circle, forward or backward",
        "diff_drive_trailer",
        {"radius": ("path", "circle"), "turn": ("path", "circle"), "direction": ("path", "line")},
    ),
    *(ProgramEntry(name, f"diff_drive_trailer_{name}", text, "mobile_base") for name, text in _TWO_WHEELS.items()),
    *_of(
        "pendulum_sphero",
        {
            "bilimovich": "the heading follows a function of time, the speed is left free or given",
            "cascade": "pursuit through the pendulum's tilt, for any pendulum",
            "circle": "along a circle at a given speed",
            "line": "along a line at a given speed",
            "pursuit": "the velocity points at a moving target and keeps a distance",
            "stop": "come to rest",
            "tilt": "the pendulum's direction follows functions of time",
            "trajectory": "the centre follows a target",
        },
        bilimovich={"V": ("speed", "program")},
    ),
    *_of(
        "snowboarder",
        {
            "carve": "along a wavy path, leaning into the turns",
            "curve": "along a curve of given curvature, any heading",
            "literal": "the paper's constraints exactly as printed",
            "slalom": "along a wavy path or a line, upright",
        },
    ),
)


def programs_of(machine: str | None) -> dict[str, ProgramEntry]:
    """The packaged programs that fit a machine, by name; of None those for any machine."""
    return {each.name: each for each in PROGRAMS if each.machine in (None, machine)}


def modules_of(name: str) -> set[str]:
    """The modules of the packaged programs of this name; two machines may share one."""
    return {each.module for each in PROGRAMS if each.name == name}


def find_program(reference: str, folder: Path, machine: str | None) -> Definition:
    """The definition of a program: a packaged one of the machine, an entry point, "package.module:program",
    "./file.py:program".

    A machine that is not packaged may use any packaged program whose name only one module has.

    Raises:
        NotFound: there is no such program; ModelError: its file is not Python.
    """
    entries = programs_of(machine)
    if machine not in {each.machine for each in PROGRAMS}:
        entries |= {each.name: each for each in PROGRAMS if len(modules_of(each.name)) == 1}
    packaged = {name: f"servonode.controllers.{entry.module}" for name, entry in entries.items()}
    return find(reference, packaged, folder, "program")


class ProgramSource(Protocol):
    """The source of a Program: its name, its identity in the cache, its options, and the function that builds it."""

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> Mapping[str, Option]: ...

    def digest(self, build_model: Callable[[], Any], options: Mapping[str, Any]) -> str: ...

    def build(self, model: Any, options: Mapping[str, Any]) -> Any: ...


@dataclass(frozen=True)
class StatedProgram:
    """A program from a Python source."""

    definition: Definition

    @property
    def name(self) -> str:
        return self.definition.reference

    @property
    def options(self) -> Mapping[str, Option]:
        return self.definition.options

    def digest(self, build_model: Callable[[], Any], options: Mapping[str, Any]) -> str:
        if isinstance(self.definition, FunctionDefinition):
            return self.definition.digest(build_model(), **options)
        return self.definition.digest()

    def build(self, model: Any, options: Mapping[str, Any]) -> Any:
        """The Program on this Model.

        Raises:
            ModelError: the definition fails or returns no Program.
        """
        from servonode.controllers.engine.program import Program

        program = self.definition.call(model, **options)
        if not isinstance(program, Program):
            text = f"{self.definition.function}() returned {type(program).__name__}, not a Program"
            raise ModelError(f"{text}; end it with return Program(...)", self.definition.place)
        return program


def load_law(
    source: ProgramSource | str,
    machine: Machine,
    machine_key: str,
    build_model: Callable[[], Any],
    options: Mapping[str, Any],
    parameters: Mapping[str, float],
    damping: float = 0.0,
    integral: bool = False,
    weighted: bool = False,
    keeping: Keeping = NOTHING,
) -> ServoLaw:
    """The law of a program (a name: one of `programs_of`) on a machine, derived and compiled, or from the cache.

    `damping` > 0: what the law does where W is singular; `integral`: feed back integrals too; `weighted`: a least
    norm has weights; see `law_source`. `keeping`: what it keeps beside what the program does.

    Raises:
        CacheError: the kernel cache cannot be read or written.
        ModelError: the program cannot be derived for this machine.
    """
    program = source
    if isinstance(program, str):
        program = StatedProgram(find_program(program, Path(), machine.description.name))

    def build() -> tuple[str, bytes]:
        from servonode.controllers.engine.law_description import describe_program
        from servonode.controllers.engine.law_source import law_source

        servo = derive_program(program, machine_key, build_model, options, damping > 0, keeping)
        description = describe_program(servo, damping, integral, weighted)
        return law_source(servo, damping, integral, weighted), msgspec.json.encode(description)

    derivation = cache.code_digest("mechanics", *(f"controllers.engine.{name}" for name in _DERIVING))
    stated = [json.dumps(dict(options), sort_keys=True), repr((damping, integral, weighted))]
    stated += [msgspec.json.encode(keeping).decode()] if keeping != NOTHING else []
    key = cache.key_of("law", machine_key, program.digest(build_model, options), derivation, *stated)
    numbers = isinstance(program, InlineProgram) or cache.has_numbers(machine.kernel.__name__)
    kernel, description = cache.load(key, build, f"the law of program {program.name}", numbers)
    decoded = msgspec.json.decode(description, type=ProgramDescription)
    return ServoLaw(decoded, cast(LawKernel, kernel), machine, parameters)


def derive_program(
    program: ProgramSource,
    machine_key: str,
    build_model: Callable[[], Any],
    options: Mapping[str, Any],
    damped: bool = False,
    keeping: Keeping = NOTHING,
) -> Any:
    """The symbolic Servo of a program on a machine; its `equations` are the machine's (this takes seconds).

    `damped`: see `derive_servo`. `keeping`: what it keeps beside what the program does.

    Raises:
        ModelError: machine or program cannot be derived.
    """
    from servonode.controllers.engine.servo import derive_servo
    from servonode.controllers.engine.stated_keeps import with_keeps

    machine = derivation(machine_key, build_model)
    stated = program.build(machine.model, options)
    if keeping != NOTHING:
        stated = with_keeps(machine.model, stated, keeping)
    return derive_servo(machine.equations, stated, damped, keeping.limits, keeping.yields)


def __getattr__(name: str) -> Any:
    if name in __all__:  # what is not defined here needs sympy
        from servonode.controllers.engine import program

        return getattr(program, name)
    near = "" if name.startswith("_") else did_you_mean(name, __all__)
    raise AttributeError(f"module 'servonode.controllers' has no attribute {name!r}{near and '; ' + near.rstrip()}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
