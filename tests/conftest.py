"""Fixtures of all rooms. Helper modules live in tests/helpers and reach the tests as fixtures."""

import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import zmq
from hypothesis import HealthCheck, settings
from scipy.integrate import solve_ivp

from servonode.controllers.engine import realize
from servonode.mechanics.derivation import derived_once
from servonode.mechanics.machine import Machine
from tests.helpers.extras import MUJOCO, NO_MUJOCO
from tests.helpers.packaged import load_machine
from tests.helpers.workers import PROCESSES, Scheduling, this_worker

# byte code of the tests, and of whatever they start, is written whatever the environment says
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# before anybody imports them: their assertions say what they found, as those of test files do
pytest.register_assert_rewrite(
    "tests.soak.suite", "tests.helpers.followed", "tests.helpers.runs", "tests.helpers.stepped"
)
from tests.helpers.runs import Runs, private_runs  # noqa: E402

# runs inherit what their parent ignores, as under nohup or in the background of a script
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# examples of each property: the same in every run; SERVONODE_EXAMPLES=1500 for more
settings.register_profile(
    "servonode", max_examples=int(os.environ.get("SERVONODE_EXAMPLES", "100")), deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
settings.load_profile("servonode")
Array = Any


def surveyed_once(survey: Callable[..., Any]) -> Callable[..., Any]:
    """The survey of a law's inputs, a fourth of what it costs to load a launch file: once for the same numbers."""
    known: dict[tuple[object, ...], Any] = {}

    def surveyed(law: Any, states: Array, times: Array, goals: Array, search: bool = True) -> Any:
        kernels = (law.kernel.__name__, law.machine.kernel.__name__)
        numbers = (law.c.tobytes(), law.machine.c.tobytes(), states.tobytes(), times.tobytes(), goals.tobytes())
        if (key := (*kernels, *numbers, search)) not in known:
            known[key] = survey(law, states, times, goals, search)
        return known[key]

    return surveyed


realize.survey = surveyed_once(realize.survey)
ROOMS = {"tests/processes/": "processes", "tests/soak/": "soak"}  # whose tests are all marked so
BUDGET_S, LISTED = 2.0, 40  # an item that takes longer is marked slow, or is listed at the end; so many at most
SOLVER = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-13}


def pytest_configure(config: pytest.Config) -> None:
    """Kernels of fast tests are compiled in a tenth of the time, to the same bits; slow ones compute more than that.

    A test that fails may leave a context of libzmq with open sockets. pyzmq would end it in the middle of a
    collection, which has taken its list of sockets before: it would wait for them for ever.
    """
    if "not slow" in config.option.markexpr:
        os.environ.setdefault("SERVONODE_OPTIMISATION", "0")
    if config.option.markexpr == "soak":
        config.pluginmanager.import_plugin("tests.soak.kept")
    zmq.Context.__del__ = lambda _: None  # type: ignore[method-assign]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Workers of `-n auto`: none where files are named on the command line, else one per core."""
    if any(Path(each.partition("::")[0]).is_file() for each in config.args):
        return 0
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """Files of processes go to one worker, after the others; another --dist is left as it is."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The soak's files, which load what they would play, are not imported where it is not played."""
    return True if collection_path.name == "soak" and "not soak" in config.option.markexpr else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of processes and of hours are marked by their room, and those of processes are the last ones.

    Tests of packaged launch files are skipped where the driver of theirs is not installed.
    """
    for item in items:
        for room in (each for each in ROOMS if item.nodeid.startswith(each)):
            item.add_marker(ROOMS[room])
        named = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        if not MUJOCO and any(isinstance(each, str) and each.endswith("_mujoco") for each in named):
            item.add_marker(pytest.mark.skip(reason=NO_MUJOCO))
    items.sort(key=lambda item: item.nodeid.startswith(PROCESSES))


def pytest_sessionstart() -> None:
    """A worker of several has tests from now on."""
    this_worker()


def pytest_sessionfinish() -> None:
    """It has none any more."""
    if worker := this_worker():
        worker.end()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test of processes is played when no other worker has tests, and before its time begins."""
    if item.nodeid.startswith(PROCESSES) and (worker := this_worker()):
        worker.wait_for_others()
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The sum of the durations, and the items beyond the budget that have no mark."""
    took: dict[str, float] = {}
    marked = set[str]()
    everything = itertools.chain.from_iterable(terminalreporter.stats.values())
    for report in (each for each in everything if isinstance(each, pytest.TestReport)):
        took[report.nodeid] = took.get(report.nodeid, 0.0) + report.duration
        if {"slow", *ROOMS.values()} & report.keywords.keys():
            marked.add(report.nodeid)
    if len(took) > 1:
        terminalreporter.write_line(f"{len(took)} items took {sum(took.values()):.1f} s in all")
    long = sorted((each for each in took.keys() - marked if took[each] > BUDGET_S), key=lambda each: -took[each])
    for item in long[:LISTED]:
        terminalreporter.write_line(f"more than {BUDGET_S:g} s: {took[item]:5.1f} s {item}")
    if len(long) > LISTED:
        terminalreporter.write_line(f"more than {BUDGET_S:g} s: {len(long) - LISTED} others")


@pytest.fixture(scope="session", autouse=True)
def equations_once() -> Iterator[None]:
    """Each machine is derived once in this process, whichever of its kernels and laws the tests compile."""
    with derived_once():
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(20241)


@pytest.fixture(scope="session")
def trailer() -> Machine:
    """The robot with trailer, default parameters."""
    return load_machine("diff_drive_trailer", {}, {})


@pytest.fixture(scope="session")
def sheet() -> ModuleType:
    """The robot with trailer once more, written by hand from its model sheet."""
    from tests.helpers import trailer_sheet

    return trailer_sheet


@pytest.fixture(scope="session")
def small() -> ModuleType:
    """Small textbook machines and a way to compile them."""
    from tests.helpers import small_machines  # sympy, for those who ask

    return small_machines


@pytest.fixture(scope="session")
def flow() -> Callable[..., Array]:
    """Motion of a machine, far more accurate than what is tested: states (n_x, n_times) at the times."""

    def flow(machine: Machine, x: Array, times: Any, inputs: Any, t0: float = 0.0, **solver: Any) -> Array:
        """`inputs` is a held array or a function of (t, x)."""

        def rates(t: float, x: Array) -> Array:
            return machine.derivatives(t, x, inputs(t, x) if callable(inputs) else inputs)

        states = []
        for time in np.atleast_1d(times):  # one solve an interval: the solver's steps are better than its dense output
            result = solve_ivp(rates, (t0, time), x, **{**SOLVER, **solver})
            assert result.success, result.message
            t0, x = time, result.y[:, -1].copy()
            states.append(x)
        return np.array(states).T  # each column is contiguous, as kernels demand

    return flow


@pytest.fixture(scope="session")
def agree_in_print() -> Callable[[Any, str], None]:
    """Compares numbers with printed ones, separated by commas, to all printed digits."""

    def agree(values: Any, printed: str) -> None:
        texts = [text.strip() for text in printed.split(",")]
        assert len(texts) == len(np.atleast_1d(values))
        for value, text in zip(np.atleast_1d(values), texts, strict=True):
            last_digit = 10.0 ** -len(text.partition(".")[2])
            # half a unit of rounding, a tenth of a unit for the integration, or what rounding to doubles leaves of
            # quantities of size one, which differs between types of processors
            allowed = 0.5 * last_digit + max(0.1 * last_digit, 1e-15)
            assert abs(value - float(text)) <= allowed, f"{value!r} is printed as {text}"

    return agree


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for sockets."""
    made = Path(tempfile.mkdtemp(prefix="sn", dir="/tmp"))  # short: a socket's path has 107 bytes
    yield made
    shutil.rmtree(made)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs in processes, in a runtime folder of this test's own."""
    with private_runs(tmp_path) as found:
        yield found
