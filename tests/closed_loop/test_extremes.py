"""Every number of a launch file at its extremes: it works, or one line says what is wrong; never a hang or a traceback.

Each trial is a process of its own, forked from this one, with a limit of time and of memory.
"""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import msgspec
import pytest
from msgspec import inspect

import servonode
from servonode.cli.main import main
from servonode.closed_loop.launch_keys import Sections
from tests.helpers.refusals import command
from tests.helpers.runs import private_runs

LIMIT_S = 60.0  # on a machine that is busy; each takes a second or two on one that is not
LEFT_S = 15.0  # after an interrupt
MEMORY = 6_000_000_000  # bytes of addresses
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


KEYS = (*numeric(Sections), *NAMED)
ALL = "SERVONODE_ATTACKS" in os.environ  # every value of every key by every verb: an hour
COMPILED = {"plant.disturbance.U1", "controller.damping", "controller.gains.integral", "target.x"}  # again for a value
QUICK = [key for key in KEYS if key not in COMPILED]


@dataclass(frozen=True)
class Trial:
    """How a command ended: its exit code (None: killed), all it printed, and whether it went on until interrupted."""

    code: int | None
    text: str
    interrupted: bool

    @property
    def lines(self) -> list[str]:
        return [line for line in self.text.splitlines() if "deriving and compiling" not in line]


def tried(words: Sequence[str], limit_s: float = LIMIT_S) -> Trial:
    """The command line in a forked process."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _try(words, write)
        finally:
            os._exit(70)
    os.close(write)
    with open(read, "rb") as answer:  # noqa: PTH123
        interrupted = not select.select([answer], [], [], limit_s)[0]
        if interrupted:
            os.kill(pid, signal.SIGINT)
        came = bool(select.select([answer], [], [], LEFT_S)[0])
        if not came:
            os.kill(pid, signal.SIGKILL)
        data = answer.read() if came else b""
    os.waitpid(pid, 0)
    code, text = json.loads(data) if data else (None, "")
    return Trial(code, text, interrupted)


def _try(words: Sequence[str], write: int) -> None:
    """In the child: run the command, and write its exit code and what it printed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryFile() as printed:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream in (1, 2):
            os.dup2(printed.fileno(), stream)
        sys.stdout, sys.stderr = (os.fdopen(os.dup(stream), "w", buffering=1) for stream in (1, 2))
        code: int | str | None = None
        try:
            main(list(words), standalone_mode=True)
        except SystemExit as end:
            code = end.code
        except BaseException:  # noqa: BLE001  (what is looked for)
            import traceback

            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        text = os.pread(printed.fileno(), 100_000, 0).decode(errors="replace")
    os.write(write, json.dumps([code, text[-20_000:]]).encode())
    os._exit(0)


def words_of(verb: str, key: str, value: str) -> list[str]:
    """The command line that sets a key of a short run."""
    launch, settings = next((each for word, each in LAUNCH.items() if key.startswith(word)), ("trailer_pursuit", SHORT))
    more = ["--no-report", "--name", f"extreme-{os.getpid()}-{time.monotonic_ns()}"] if verb == "run" else []
    return [verb, launch, *more, *(w for each in (*settings, f"{key}={value}") for w in ("--set", each))]


def is_good(trial: Trial, verb: str) -> bool:
    """Whether it worked, was refused in one line, or met a fault during the run; a run may last."""
    if "Traceback" in trial.text or "Warning:" in trial.text or trial.code not in (0, 1, 2, 130):
        return False
    if trial.interrupted:
        return verb == "run" and trial.code in (0, 130)
    return trial.code != 2 or (len(trial.lines) == 1 and trial.lines[0].startswith("servonode: "))


@pytest.fixture(scope="module")
def loaded() -> None:
    """The kernels, in this process: its children have them too."""
    for launch in ("trailer_pursuit", "trailer_pursuit_loopback"):
        assert servonode.check(launch, run__duration=0.1).machine
    assert servonode.load("trailer_pursuit_external").machine


def test_the_keys_are_found() -> None:
    assert len(KEYS) > 50
    assert {"run.speed", "plant.step", "plant.sensor.delay", "controller.delay", "supervision.backoff"} <= {*KEYS}


@pytest.mark.parametrize("key", QUICK)
def test_a_number_far_too_small_or_too_large_works_or_is_one_line(loaded: None, key: str) -> None:
    for value in FAST:
        trial = tried(words_of("simulate", key, value))
        assert is_good(trial, "simulate"), (value, trial)


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("verb", ["check", "simulate", "run"] if ALL else ["check"])
def test_any_value_of_a_number_works_or_is_one_line(loaded: None, tmp_path: Path, verb: str, key: str) -> None:
    one = crc32(key.encode()) % len(VALUES)
    with private_runs(tmp_path):
        for value in VALUES if ALL else VALUES[one : one + 1]:
            trial = tried(words_of(verb, key, value), 8.0 if verb == "run" else LIMIT_S)
            assert is_good(trial, verb), (value, trial)


# what hung, and what it is told


def refused(*words: str) -> str:
    """The one line of a command that is refused."""
    result = command(*words)
    assert result.exit_code == 2, result.output
    (line,) = [each for each in result.stderr.splitlines() if "deriving and compiling" not in each]
    return line.removeprefix("servonode: ")


NEVER_ENDING = {
    "plant.step=1e-9": "125.664 s are 1.26e+11 plant steps of 0.000000001 s; at most 1e+10 are possible: ",
    "run.duration=1e9": "1000000000 s are 1e+12 plant steps of 0.001 s; at most 1e+10 are possible: give at most 10000",
    "plant.actuator.delay=1e300": "is not a number >= 0 and <= 9e+09 or a table by name; give the dead time",
    "plant.sensor.delay=9e9": "9e+11 periods from sample to action are too many; give at most 100",
    "plant.sensor.noise=1e300": "is outside the range of numbers, -1e+50 to 1e+50; give the standard deviation",
    "plant.parameters.m0=1e300": "1e+300 is outside the range of numbers, -1e+50 to 1e+50; give the values that differ",
    "controller.gains.K0=[[1e300, 0], [0, 1]]": "is outside the range of numbers, -1e+50 to 1e+50; give the gains: ",
}


@pytest.mark.parametrize("setting", NEVER_ENDING)
def test_what_would_never_end_is_refused_with_the_range(setting: str) -> None:
    (line,) = {refused(verb, "trailer_pursuit", "--set", setting) for verb in ("check", "simulate", "run")}
    assert line.startswith("trailer_pursuit ")
    assert NEVER_ENDING[setting] in line


def test_a_simulation_that_takes_hours_is_refused() -> None:
    for more in ([], ["--control", "continuous"], ["--loop", "nodes"]):
        line = refused("simulate", "trailer_pursuit", "--set", "run.duration=1000000", *more)
        assert "1e+06 s are 1e+09 plant steps of 0.001 s, a simulation takes at most 5e+08" in line
        assert "give at most 500000, or a longer plant.step" in line


def test_a_delay_that_fills_the_memory_is_refused() -> None:
    for section in ("plant.actuator", "plant.sensor"):
        line = refused("simulate", "trailer_coast", "--set", f"{section}.delay=9e9")
        assert f"trailer_coast [{section}] delay: 9e+09 s are 9e+12 plant steps of 0.001 s" in line
        assert "of which at most 1e+06 can wait; give at most 1000" in line


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


def test_a_high_power_of_time_is_fine(loaded: None) -> None:
    trial = tried(["simulate", "trailer_pursuit", "--set", "run.duration=0.1", "--set", "target.x=9 + t**64"])
    assert (trial.code, trial.interrupted) == (0, False), trial


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
    for path in (pipe, "/dev/zero", "/dev/tty", "/dev/null"):
        line = refused(verb, str(path))
        assert line == f"{path}: a pipe or a device, not a file; give the path of a TOML file"
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
        "is unknown; choose can, external, loopback, mujoco, serial, simulated or udp",
    ),
}


@pytest.mark.parametrize("case", LONG)
def test_a_long_file_is_refused_as_quickly_and_in_a_short_line(case: str, tmp_path: Path) -> None:
    text, problem = LONG[case]
    (tmp_path / "long.toml").write_text(text)
    trial = tried(["check", str(tmp_path / "long.toml")], 20.0)
    assert is_good(trial, "check"), trial
    assert problem in trial.text
    assert len(trial.text) < 5000


def in_process(backend: str, *words: str) -> str:
    """The one line of a command without a display that is refused, with a backend of matplotlib."""
    given = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")} | {"MPLBACKEND": backend}
    typed = [sys.executable, "-m", "servonode.cli.main", *words]
    done = subprocess.run(typed, capture_output=True, text=True, env=given, check=False, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("servonode: ")
    return done.stderr


def test_whatever_the_backend_no_display_and_no_picture_is_one_line_before_the_run() -> None:
    for backend in ("nonsense", "module://os"):
        assert in_process(backend, "plot")
    line = in_process("nonsense", "run", "trailer_pursuit", "--report", "never.png")
    assert "MPLBACKEND=nonsense of the environment is no backend of matplotlib; unset it" in line
    assert not Path("never.png").exists()
