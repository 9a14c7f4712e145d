"""Every number of a launch file at its extremes: it works, or one line says what is wrong; never a hang or a traceback.

All values by all verbs, each in a process with a limit of time and of memory: tests/soak/test_extremes.py.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import msgspec
import pytest
from msgspec import inspect

import servonode
from servonode.closed_loop.added_sections import all_sections
from tests.helpers.refusals import command

SHORT = ("run.duration=0.1",)
LAUNCH = {
    "plant.link": ("trailer_pursuit_loopback", SHORT),
    "plant.device": ("trailer_pursuit_external", (*SHORT, "plant.device.wait=0.5")),
}
NAMED = (
    "plant.parameters.m0",
    "plant.initial.X",
    "plant.initial.Omega",
    "plant.disturbance.U1",
    "plant.sensor.noise.V",
    "plant.actuator.delay.U1",
    "controller.parameters.m0",
    "controller.gains.lambda",
    "controller.gains.integral",
    "controller.settings.rho0",
    "target.x",
)
FAST = ("5e-324", "1e300")
VALUES = ("0", "-1", "5e-324", "1e-300", "1e-9", "1e-6", "1e3", "1e6", "1e9", "9e9", "1e15", "1e300", "-1e300")
VALUES += ("1.7e308", "9007199254740992", "nan", "inf", "[1, 2]", "{}", "true")


def numeric(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """The keys of a struct that take numbers, those of the sections within it too."""
    for field in msgspec.structs.fields(kind):
        yield from _numeric(inspect.type_info(field.type), prefix + field.name)


def _numeric(info: inspect.Type, name: str) -> Iterator[str]:
    if isinstance(info, inspect.Metadata):
        info = info.type
    parts = info.types if isinstance(info, inspect.UnionType) else (info,)
    kinds = [part.type if isinstance(part, inspect.Metadata) else part for part in parts]
    structs = [kind for kind in kinds if isinstance(kind, inspect.StructType)]
    if structs:
        yield from numeric(structs[0].cls, f"{name}.")
    elif any(isinstance(kind, inspect.FloatType | inspect.IntType) for kind in kinds):
        yield name


KEYS = (*numeric(all_sections()), *NAMED)
COMPILED = {"plant.disturbance.U1", "controller.damping", "controller.gains.integral", "target.x"}  # again for a value
QUICK = [key for key in KEYS if key not in COMPILED]


@dataclass(frozen=True)
class Trial:
    """How a command ended: its exit code (None: killed), all it printed, and whether it went on until interrupted."""

    code: int | None
    text: str
    interrupted: bool = False

    @property
    def lines(self) -> list[str]:
        return [line for line in self.text.splitlines() if "deriving and compiling" not in line]


def tried(words: Sequence[str]) -> Trial:
    """The command line in this process; what is no exit is raised."""
    result = command(*words)
    return Trial(result.exit_code, result.output)


def words_of(verb: str, key: str, value: str) -> list[str]:
    """The command line that sets a key of a short run."""
    launch, settings = next((each for word, each in LAUNCH.items() if key.startswith(word)), ("trailer_pursuit", SHORT))
    more = ["--no-report", "--name", "extreme"] if verb == "run" else []
    return [verb, launch, *more, *(w for each in (*settings, f"{key}={value}") for w in ("--set", each))]


def is_good(trial: Trial, verb: str) -> bool:
    """Whether it worked, was refused in one line, or met a fault during the run; a run may last."""
    if "Traceback" in trial.text or "Warning:" in trial.text or trial.code not in (0, 1, 2, 130):
        return False
    if trial.interrupted:
        return verb == "run" and trial.code in (0, 130)
    return trial.code != 2 or (len(trial.lines) == 1 and trial.lines[0].startswith("servonode: "))


def test_the_keys_are_found() -> None:
    assert len(KEYS) > 50
    assert {"run.speed", "plant.step", "plant.sensor.delay", "controller.delay", "supervision.backoff"} <= {*KEYS}


@pytest.mark.parametrize("key", QUICK)
def test_a_number_far_too_small_or_too_large_works_or_is_one_line(key: str) -> None:
    for value in FAST:
        trial = tried(words_of("simulate", key, value))
        assert is_good(trial, "simulate"), (value, trial)


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_any_value_of_a_number_is_checked_or_is_one_line(key: str) -> None:
    value = VALUES[crc32(key.encode()) % len(VALUES)]
    trial = tried(words_of("check", key, value))
    assert is_good(trial, "check"), (value, trial)


# what hung, and what it is told


def refused(*words: str) -> str:
    """The one line of a command that is refused."""
    result = command(*words)
    assert result.exit_code == 2, result.output
    (line,) = [each for each in result.stderr.splitlines() if "deriving and compiling" not in each]
    return line.removeprefix("servonode: ")


@pytest.mark.slow
def test_of_a_long_run_the_beginning_is_checked_and_that_is_said() -> None:
    result = command("check", "trailer_open_loop", "--set", "run.duration=1000000")
    assert result.exit_code == 0, result.output
    assert "time             1e+06 s" in result.stdout
    assert "warn             run: long: only the first 2000 s of 1e+06 s were simulated" in result.stdout


@pytest.mark.parametrize("effect", ["lag", "quantum", "dead_zone"])
def test_an_effect_below_what_a_double_resolves_has_none(effect: str) -> None:
    def last(value: float) -> dict[str, float]:
        run = servonode.simulate("trailer_pursuit", run__duration=0.1, **{f"plant__actuator__{effect}": value})
        return {name: float(values[-1]) for name, values in run.state.items()}

    assert last(5e-324) == pytest.approx(last(0.0), rel=1e-12)


def test_a_high_power_of_time_is_fine() -> None:
    trial = tried(["simulate", "trailer_pursuit", "--set", "run.duration=0.1", "--set", "target.x=9 + t**64"])
    assert trial.code == 0, trial


@pytest.mark.parametrize(
    "text",
    ["*".join(f"sin({i}*t)" for i in range(1, 60)), "/".join(f"(t+{i})" for i in range(1, 80))],
    ids=["product", "quotient"],
)
def test_a_product_whose_derivatives_explode_is_refused(text: str) -> None:
    line = refused("check", "trailer_pursuit", "--set", f"target.x={text}")
    assert line.startswith("trailer_pursuit [target] x: x: its derivative of order ")
    assert "has more than 4000 parts, too many to be compiled; use fewer factors" in line


# what is no launch file


@pytest.mark.parametrize("verb", ["check", "simulate", "run", "show"])
def test_what_is_no_file_is_one_line_and_nobody_waits_for_it(verb: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    assert refused(verb, str(pipe)) == f"{pipe}: a pipe or a device, not a file; give the path of a TOML file"
    assert "a directory; give the path of a TOML file in it" in refused(verb, str(tmp_path))
    (tmp_path / "huge.toml").write_bytes(b"")
    os.truncate(tmp_path / "huge.toml", 10**12)
    assert "longer than 100 kB; give the path of a TOML file" in refused(verb, str(tmp_path / "huge.toml"))


HEAD = "[run]\nduration = 1\n[plant]\nmachine = 'diff_drive_trailer'\n"
LONG = {
    "keys of many parts": (".".join("a" * 49_000) + " = 1", "line 1 has more than 10000 dots; write shorter keys"),
    "many residuals": (
        HEAD + "[controller.residuals]\n" + "".join(f"x{i} = 'V'\n" for i in range(8000)),
        "8000 residuals are given; give as many as inputs, at most 50",
    ),
    "many targets": (
        HEAD + "[controller]\nprogram = 'pursuit'\n[target]\n" + "".join(f"x{i} = 't'\n" for i in range(8000)),
        "unknown name",
    ),
    "a long name": (
        HEAD + f"driver = '{'x' * 90_000}'",
        "is unknown; choose can, external, loopback, ",
    ),
}


@pytest.mark.parametrize("case", LONG)
def test_a_long_file_is_refused_as_quickly_and_in_a_short_line(case: str, tmp_path: Path) -> None:
    text, problem = LONG[case]
    (tmp_path / "long.toml").write_text(text)
    trial = tried(["check", str(tmp_path / "long.toml")])
    assert is_good(trial, "check"), trial
    assert problem in trial.text
    assert len(trial.text) < 5000


def in_process(backend: str, *words: str) -> str:
    """The one line of a command without a display that is refused, with a backend of matplotlib."""
    given = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")} | {"MPLBACKEND": backend}
    typed = [sys.executable, "-m", "servonode.cli.main", *words]
    done = subprocess.run(typed, capture_output=True, text=True, env=given, check=False, timeout=120)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("servonode: ")
    return done.stderr


@pytest.mark.slow
def test_whatever_the_backend_no_display_and_no_picture_is_one_line_before_the_run() -> None:
    for backend in ("nonsense", "module://os"):
        assert in_process(backend, "plot")
    line = in_process("nonsense", "run", "trailer_pursuit", "--report", "never.png")
    assert "MPLBACKEND=nonsense of the environment is no backend of matplotlib; unset it" in line
    assert not Path("never.png").exists()
