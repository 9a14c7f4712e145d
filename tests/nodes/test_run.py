"""Runs on real processes: the bits of the simulation, the clock of the wall, and every way in which a node may die."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import maximum_filter1d

import servonode
from servonode.bus.topology import CONTROLLER, PLANT, TARGET, nodes_of
from servonode.record.run import Run
from tests.helpers.runs import Output

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
START_S = 60.0  # from nothing to the first state, on a machine that is busy and has no cache
END_S = 30.0
NODES = nodes_of(controlled=True)  # in the order in which they are forked
TIMEOUT = 0.1  # command timeout [s of wall time]: a busy host must not be taken for a dead controller
PERIOD = 0.01
ALSO_SLOWLY = pytest.param("trailer_pursuit_lockstep", marks=pytest.mark.slow)
FORGIVING = ("--set", "plant.safety.command_timeout_floor=0.5")  # a busy host is not what is tested
WATCHED = (
    *("--set", f"plant.safety.command_timeout={TIMEOUT}", "--set", "run.speed=1"),
    *("--set", "run.duration=60", "--set", "plant.safety.safe_time=0.1"),
)


class Floor:
    """The periods that a bare loop misses beside a run: what this machine takes from any process."""

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s
        self.missed = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)

    def _count(self) -> None:
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            late = int((time.monotonic() - due) // self.period_s)
            self.missed += late
            due += (1 + late) * self.period_s

    def __enter__(self) -> "Floor":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def steps_since_a_change(columns: dict[str, Any], settle: int) -> Any:
    """For each row, the longest time [steps] for which the inputs had stood still within the last `settle` steps."""
    inputs = np.column_stack([columns["U1"], columns["U2"]])
    rows = np.arange(len(inputs))
    changed = np.concatenate([[True], np.any(np.diff(inputs, axis=0) != 0, axis=1)])
    age = rows - np.maximum.accumulate(np.where(changed, rows, 0))
    return maximum_filter1d(age, settle, origin=(settle - 1) // 2)


class Process(Output):
    """`servonode run` in a process of its own, its output in files."""

    def __init__(self, folder: Path, runtime: str, name: str, launch: str, *words: str) -> None:
        super().__init__(folder, name)
        command = [sys.executable, "-m", "servonode.cli.main", "run", launch, "--name", name, "--no-report", "--json"]
        with self._stdout.open("w") as stdout, self._stderr.open("w") as stderr:
            self.popen = subprocess.Popen(
                [*command, "--out", str(self.csv), *words],
                stdout=stdout,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "XDG_RUNTIME_DIR": runtime},
            )

    def wait_until_it_moves(self) -> None:
        """Until the status line shows that the plant runs, and a little more."""
        limit = time.monotonic() + START_S
        while f"\n{self.name} " not in f"\n{self.stderr}":
            assert self.popen.poll() is None, self.stderr
            assert time.monotonic() < limit, self.stderr
            time.sleep(0.01)
        time.sleep(0.3)

    def pids(self) -> dict[str, int]:
        """The nodes' processes, which are the launcher's children in the order of their forks, behind the writer."""
        children = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text().split()
        return dict(zip(NODES, map(int, children[1:]), strict=True))

    def ends_with(self, code: int, within_s: float = END_S) -> None:
        """The launcher ends by itself, and nothing of it is left."""
        assert self.popen.wait(within_s) == code, self.stderr
        assert "Traceback" not in self.stderr
        assert self.left_over() == []

    def left_over(self) -> list[int]:
        """Processes that carry the run's name."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if (
                    self.name.encode() in (folder / "cmdline").read_bytes().replace(b"\0", b" ").split()
                    and state != "Z"
                ):
                    found.append(int(folder.name))
        return found


Start = Callable[..., Process]


@pytest.fixture
def runtime() -> Iterator[str]:
    """A runtime folder with a short path, for sockets; empty again when every run has ended."""
    with tempfile.TemporaryDirectory(prefix="sn-") as folder:
        yield folder


@pytest.fixture
def start(tmp_path: Path, runtime: str) -> Iterator[Start]:
    """Starts runs; whatever is left of them is killed at the end."""
    started: list[Process] = []

    def start(launch: str, *words: str, name: str = "") -> Process:
        name = name or f"test-{os.getpid()}-{time.monotonic_ns()}"
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Process(folder, runtime, name, launch, *words))
        return started[-1]

    yield start
    for process in started:
        for pid in process.left_over():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.popen.wait(END_S)


def starts_again(start: Start, process: Process, runtime: str) -> None:
    """The run's folder is gone, and its name can be used at once."""
    assert list(Path(runtime).iterdir()) == []
    again = start("trailer_pursuit", "--set", "run.duration=0.5", "--set", "run.speed=2", name=process.name)
    again.ends_with(0, START_S)


def fault(process: Process, name: str) -> dict[str, Any]:
    """The fault of this name among those that were printed."""
    faults = {each["name"]: each for each in process.printed["faults"]}
    assert name in faults, faults
    found: dict[str, Any] = faults[name]
    return found


# runs that complete


def assert_same_bits(process: Process, run: Run) -> None:
    """Every state, input, residual and energy of every row."""
    residuals = {f"residual_{name}": values for name, values in run.residual.items()}
    expected = {"t": run.t, **run.state, **run.input, **residuals, "energy": run.energy}
    found = process.columns
    assert list(found) == list(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name].view(np.int64), column.view(np.int64), name)
    printed, final = process.printed, run.final()
    for key in ("t", "state", "input", "residual", "output", "energy", "steps", "residual_max"):
        assert printed[key] == final[key]


@pytest.mark.parametrize(
    ("launch", "options"),
    [
        ("trailer_pursuit_lockstep", {"run__duration": 20.0}),
        ("trailer_pursuit_lockstep", {"run__duration": 5.003, "controller__delay": 2, "plant__actuator__limit": 0.01}),
        ("trailer_pursuit_lockstep", {"run__duration": 5.0, "plant__sensor__noise": {"psi": 0.001}, "run__seed": 5}),
        pytest.param("trailer_open_loop", {"run__duration": 5.0}, marks=pytest.mark.slow),
        pytest.param("trailer_coast", {"run__duration": 5.0}, marks=pytest.mark.slow),
    ],
    ids=["pursuit", "late_and_limited", "noisy", "open_loop", "coast"],
)
def test_lockstep_over_sockets_ends_in_the_bits_of_the_simulation(
    start: Start, launch: str, options: dict[str, Any]
) -> None:
    from servonode.api import override_texts

    words = [word for text in override_texts(options) for word in ("--set", text)]
    process = start(launch, "--set", "run.mode=lockstep", *words)
    process.ends_with(0, START_S)
    assert_same_bits(process, servonode.simulate(launch, every=1, **options))
    assert (process.printed["misses"], process.printed["exit"], process.printed["fault"]) == (0, 0, None)


@pytest.mark.slow
def test_the_whole_pursuit_in_lockstep_ends_in_the_bits_of_the_simulation(start: Start) -> None:
    process = start("trailer_pursuit_lockstep")
    process.ends_with(0, 120.0)
    assert_same_bits(process, servonode.simulate("trailer_pursuit_lockstep", every=1))
    assert len(process.columns["t"]) == 125_665


def test_a_run_in_real_time_keeps_the_walls_time_and_reports_it(start: Start, runtime: str) -> None:
    process = start("trailer_pursuit", "--set", "run.duration=4", "--set", "run.speed=2")
    process.ends_with(0, START_S)
    printed = process.printed
    assert printed["rate"] == pytest.approx(2.0, rel=0.01)
    assert printed["wall_s"] == pytest.approx(2.0, rel=0.01)
    assert printed.keys() >= {"misses", "round_trip_s", "counts", "faults", "exit", "lateness_s"}
    assert list(printed["round_trip_s"]) == ["p50", "p99", "p999", "max"]
    assert (printed["t"], printed["steps"], printed["faults"], printed["exit"]) == (4.0, 4000, [], 0)
    assert printed["residual_max"]["heading"] < 1e-3
    assert printed["energy_error"] < 1e-12
    assert len(process.columns["t"]) == 4001
    assert "plant             round trip" in process.stderr
    for word in ("rate", "missed", "timing", "largest residual", "energy check", "faults            none"):
        assert f"\n  {word}" in process.stderr
    assert list(Path(runtime).iterdir()) == []


@pytest.mark.slow
def test_a_machine_without_controller_runs_alone(start: Start) -> None:
    process = start("trailer_coast", "--set", "run.duration=4", "--set", "run.speed=4")
    process.ends_with(0, START_S)
    assert process.printed["rate"] == pytest.approx(4.0, rel=0.01)
    expected = servonode.simulate("trailer_coast", run__duration=4.0).final()
    assert process.printed["state"] == expected["state"]  # nothing acts, so real time changes no bit


@pytest.mark.slow
def test_the_pursuit_in_real_time_steers_as_well_as_stated(start: Start) -> None:
    with Floor(period_s=PERIOD / 2) as floor:
        process = start("trailer_pursuit", "--set", "run.speed=2", *FORGIVING)
        process.ends_with(0, 120.0)
    printed = process.printed
    assert printed["rate"] == pytest.approx(2.0, rel=1e-3)
    assert printed["misses"] <= 120 + 4 * floor.missed  # of 12 500; on a quiet machine both are 0
    assert printed["counts"].get("missed_commands", 0) <= 120 + 4 * floor.missed
    columns = process.columns
    kept = columns["t"] >= 25
    kept &= steps_since_a_change(columns, settle=2000) < 20  # no hold of two periods, now or 2 s before
    assert np.sum(kept) >= 5000
    assert 2e-5 < np.max(np.abs(columns["residual_heading"][kept])) < 4e-5  # a perfect hold of 10 ms; a few steps late


def test_with_a_period_of_delay_inputs_change_at_the_control_instants(start: Start) -> None:
    # a step is shorter than a round trip, so an input that waited for the next answer would act between the instants
    words = ("run.duration=1", "run.speed=1", "plant.step=1e-4", "plant.publish_every=100", "controller.delay=1")
    ramp = "controller.settings.U1=0.1 + t"
    process = start("trailer_open_loop", *(word for each in (*words, ramp) for word in ("--set", each)), *FORGIVING)
    process.ends_with(0, START_S)
    changes = np.flatnonzero(np.diff(process.columns["U1"])) + 1
    assert len(changes) > 90
    assert np.sum(changes % 100 != 0) <= 5  # a busy host may make an answer later than a whole period


# runs that do not


def brake(columns: dict[str, Any]) -> Any:
    """The torques of the robot's own brake at every row, (2, rows)."""
    wheels = np.array([columns["V"] - 0.2 * columns["Omega"], columns["V"] + 0.2 * columns["Omega"]]) / 0.075
    return -0.05 * wheels


def brakes(columns: dict[str, Any]) -> Any:
    """At which rows the brake acts."""
    return np.all(np.abs(np.array([columns["U1"], columns["U2"]]) - brake(columns)) < 1e-15, axis=0)


def assert_braked_in_time(process: Process, detected_at: float) -> None:
    """The last rows brake, at the latest a command timeout and one period after the last command acted."""
    columns = process.columns
    t, u = columns["t"], np.array([columns["U1"], columns["U2"]])
    braking = brakes(columns)
    first = int(np.argmax(braking))
    assert np.all(braking[first:-1])  # the last row has no input of its own
    assert t[first] == pytest.approx(detected_at, abs=1e-9)
    changes = np.flatnonzero(np.any(np.diff(u[:, : first + 1], axis=1) != 0, axis=0)) + 1
    last_command = t[changes[-2]]
    assert TIMEOUT <= detected_at - last_command <= TIMEOUT + 2 * PERIOD  # one period, and one of jitter


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_controller_that_dies_or_freezes_leaves_the_brake(start: Start, runtime: str, number: int) -> None:
    process = start("trailer_pursuit", *WATCHED)
    process.wait_until_it_moves()
    os.kill(process.pids()[CONTROLLER], number)
    process.ends_with(1)
    stale = fault(process, "stale_command")
    assert (
        f"no fresh command for {TIMEOUT * 1e3:.0f} ms: the machine's safe action; check that the controller"
        in stale["text"]
    )
    assert_braked_in_time(process, stale["t"])
    assert process.printed["exit"] == 1
    assert "ended by a fault" in process.stderr
    if number == signal.SIGKILL:
        assert "controller was killed by SIGKILL" in process.stderr
        assert fault(process, "node_died")["text"] == "controller was killed by SIGKILL"
    starts_again(start, process, runtime)


BRAKED = """[run]
duration = 60.0

[plant]
machine = "pendulum_sphero"
step = 0.001
publish_every = 10

[plant.safety]
command_timeout = 0.1
safe_time = 2.0

[controller]
program = "pursuit"
period = 0.01

[target]
x = "6*sin(0.05*t) - sin(0.3*t) + 2"
y = "5 + cos(0.3*t) - 6*cos(0.05*t)"
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
def test_a_controller_that_dies_leaves_the_machines_own_brake(
    start: Start, runtime: str, tmp_path: Path, number: int
) -> None:
    file = tmp_path / "braked.toml"
    file.write_text(BRAKED)
    process = start(str(file), "--every", "1")
    process.wait_until_it_moves()
    time.sleep(2.0)  # so that something rolls
    os.kill(process.pids()[CONTROLLER], number)
    process.ends_with(1)
    stale = fault(process, "stale_command")
    columns = process.columns
    after = columns["t"] >= stale["t"]
    assert columns["t"][-1] == pytest.approx(stale["t"] + 2.0, abs=0.0005)
    for i, axis in enumerate("xyz"):
        slip = columns[f"Omega[{i}]"] - columns[f"omega[{i}]"]
        np.testing.assert_allclose(columns[f"Q_{axis}"][after][:-1], -0.05 * slip[after][:-1], atol=1e-15)
    energy = columns["energy"][after]
    assert np.max(np.diff(energy)) < 1e-9
    assert energy[-1] < energy[0]
    starts_again(start, process, runtime)


@pytest.mark.slow
def test_a_target_that_dies_ends_the_run(start: Start, runtime: str) -> None:
    process = start("trailer_pursuit", *WATCHED)
    process.wait_until_it_moves()
    os.kill(process.pids()[TARGET], signal.SIGKILL)
    process.ends_with(1)
    assert fault(process, "node_died")["text"] == "target was killed by SIGKILL"
    assert "target was killed by SIGKILL" in process.stderr
    starts_again(start, process, runtime)


def test_a_plant_that_dies_ends_the_run(start: Start, runtime: str) -> None:
    process = start("trailer_pursuit", *WATCHED)
    process.wait_until_it_moves()
    os.kill(process.pids()[PLANT], signal.SIGKILL)
    process.ends_with(1)
    assert "plant was killed by SIGKILL" in process.stderr
    assert process.printed["exit"] == 1
    assert fault(process, "node_died")["text"] == "plant was killed by SIGKILL"
    assert list(Path(runtime).iterdir()) == []


@pytest.mark.slow
def test_lockstep_never_waits_for_a_frozen_controller_longer_than_told(start: Start, runtime: str) -> None:
    process = start("trailer_pursuit_lockstep", "--set", "run.lockstep_timeout=0.5", "--set", "run.duration=5000")
    process.wait_until_it_moves()
    frozen = time.monotonic()
    os.kill(process.pids()[CONTROLLER], signal.SIGSTOP)
    process.ends_with(1)
    assert time.monotonic() - frozen < 10.0
    waited = fault(process, "lockstep_timeout")
    assert "within 0.5 s; check that the controller is running" in waited["text"]
    assert np.all(brakes(process.columns)[-4000:-1])
    assert list(Path(runtime).iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("victim", NODES)
def test_a_node_that_dies_in_lockstep_ends_the_run(start: Start, runtime: str, victim: str) -> None:
    process = start("trailer_pursuit_lockstep", "--set", "run.duration=5000")
    process.wait_until_it_moves()
    os.kill(process.pids()[victim], signal.SIGKILL)
    process.ends_with(1)
    assert f"{victim} was killed by SIGKILL" in process.stderr
    starts_again(start, process, runtime)


@pytest.mark.parametrize("launch", ["trailer_pursuit", ALSO_SLOWLY])
def test_a_launcher_that_is_killed_takes_its_nodes_along(start: Start, launch: str) -> None:
    process = start(launch, "--set", "run.duration=5000")
    process.wait_until_it_moves()
    assert len(process.left_over()) == 5  # with the writer
    process.popen.kill()
    process.popen.wait(END_S)
    limit = time.monotonic() + END_S  # it makes the CSV file
    while process.left_over() and time.monotonic() < limit:
        time.sleep(0.02)
    assert process.left_over() == []
    assert len(process.columns["t"]) > 100
    start(launch, "--set", "run.duration=0.5", name=process.name).ends_with(0, START_S)


@pytest.mark.parametrize(
    ("launch", "number"),
    [
        ("trailer_pursuit", signal.SIGINT),
        ("trailer_pursuit_lockstep", signal.SIGINT),
        ("trailer_pursuit", signal.SIGTERM),
        pytest.param("trailer_pursuit", signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_broken_off_stops_cleanly_and_sums_up(
    start: Start, runtime: str, launch: str, number: int
) -> None:
    process = start(launch, "--set", "run.duration=5000")
    process.wait_until_it_moves()
    process.popen.send_signal(number)
    process.ends_with(128 + number, 5.0)
    assert f"{process.name}: broken off after" in process.stderr
    assert (process.printed["exit"], process.printed["faults"]) == (128 + number, [])
    assert process.columns["t"][-1] == process.printed["t"] > 0
    assert list(Path(runtime).iterdir()) == []


def test_a_run_that_is_broken_off_at_its_start_leaves_nothing(start: Start, runtime: str) -> None:
    process = start("trailer_pursuit", "--set", "run.duration=60")
    limit = time.monotonic() + START_S
    while len(process.left_over()) < 2:  # until it has begun to fork
        assert process.popen.poll() is None, process.stderr
        assert time.monotonic() < limit
        time.sleep(0.001)
    process.popen.send_signal(signal.SIGINT)
    process.ends_with(130, 10.0)
    assert list(Path(runtime).iterdir()) == []


@pytest.mark.slow
def test_a_second_run_of_the_same_name_refuses_to_start(start: Start) -> None:
    first = start("trailer_pursuit", *WATCHED, *FORGIVING)
    first.wait_until_it_moves()
    second = start("trailer_pursuit", name=first.name)
    assert second.popen.wait(START_S) == 2
    line, _, rest = second.stderr.partition("\n")
    assert rest == ""
    assert line == (
        f"servonode: run {first.name!r} is held by process {first.popen.pid} (or a child it left behind); "
        "stop it, or give this run another --name"
    )
    other = start("trailer_coast", "--set", "run.duration=0.5")
    other.ends_with(0, START_S)
    first.popen.send_signal(signal.SIGINT)
    first.ends_with(130)


def test_a_controller_frozen_for_a_moment_is_forgiven_where_the_file_says_so(start: Start) -> None:
    words = ("--set", 'plant.safety.on_fault="resume"', "--set", "run.duration=3", "--set", "run.speed=1")
    process = start("trailer_pursuit", *words, "--set", "plant.safety.command_timeout=0.05")
    process.wait_until_it_moves()
    controller = process.pids()[CONTROLLER]
    os.kill(controller, signal.SIGSTOP)
    time.sleep(0.2)
    os.kill(controller, signal.SIGCONT)
    process.ends_with(0)
    printed = process.printed
    assert (printed["t"], printed["faults"]) == (3.0, [])
    assert printed["counts"]["stale_commands"] == printed["counts"]["resumed"] >= 1
    braking = brakes(process.columns)
    assert 0.1 < np.sum(braking) * 0.001 < 0.25
    assert not braking[-1]


@pytest.mark.slow
def test_a_plant_that_is_held_up_does_not_take_its_controller_for_dead(start: Start) -> None:
    process = start("trailer_pursuit", "--set", "run.duration=3", "--set", "run.speed=1")
    process.wait_until_it_moves()
    plant = process.pids()[PLANT]
    os.kill(plant, signal.SIGSTOP)
    time.sleep(0.2)
    os.kill(plant, signal.SIGCONT)
    process.ends_with(0)
    assert process.printed["faults"] == []
    assert process.printed["stalls"] >= 1
    assert process.printed["misses"] >= 1
    assert process.printed["wall_s"] == pytest.approx(3.0, rel=0.01)  # the grid is absolute: it catches up


def test_a_fast_run_with_a_fast_controller_gets_its_goals(start: Start) -> None:
    words = ("--set", "run.speed=3", "--set", "controller.period=0.001", "--set", "run.duration=3")
    process = start("trailer_pursuit", *words, *FORGIVING)
    process.ends_with(0, START_S)
    assert process.printed["t"] == 3.0


def test_a_controller_that_freezes_is_noticed_even_by_a_plant_that_is_always_late(start: Start) -> None:
    # a million steps a second of plant time, twenty times as fast as the wall: more than a core can do
    words = ("--set", "run.speed=20", "--set", "plant.step=1e-6", "--set", "plant.publish_every=10000")
    words += ("--set", "plant.safety.lateness_limit=1000")
    process = start("trailer_pursuit", *words, "--set", "run.duration=2000", "--every", "1000000")
    process.wait_until_it_moves()
    os.kill(process.pids()[CONTROLLER], signal.SIGSTOP)
    frozen = time.monotonic()
    process.ends_with(1)
    assert time.monotonic() - frozen < 5.0
    assert fault(process, "stale_command")
    assert process.printed["overruns"] > 0


def test_a_law_that_fails_in_a_run_names_its_guard(start: Start) -> None:
    words = ("--set", "target.x=2 - 0.5*t", "--set", "target.y=0", "--set", "controller.settings.rho0=0.06")
    process = start("trailer_pursuit", *words)
    process.ends_with(1, START_S)
    law = fault(process, "law")
    assert "the target is inside the guard radius rho_min" in law["text"]
    assert law["node"] == "controller"
    assert np.all(brakes(process.columns)[-5:-1])
    assert law["t"] == pytest.approx(2.14, abs=0.05)
