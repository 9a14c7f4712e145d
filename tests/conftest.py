"""Fixtures of all rooms. Helper modules live in tests/helpers and reach the tests as fixtures."""

import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic_ns
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import zmq
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from scipy.integrate import solve_ivp

from servonode.mechanics.derivation import derived_once
from servonode.mechanics.machine import Machine
from servonode.plants import load_machine
from tests.helpers.extras import MUJOCO, NO_MUJOCO
from tests.helpers.host import host_s, waited_s, watch_host
from tests.helpers.workers import Scheduling, lower_priority, starts_processes

# before anybody imports them: their assertions say what they found, as those of test files do
pytest.register_assert_rewrite(
    "tests.safety.suite", "tests.helpers.followed", "tests.helpers.runs", "tests.helpers.stepped"
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
ATTEMPTS = 3
KEPT_WAITING_S = 0.03  # from where on a failure may be the host's: what tests of real time allow it
WAITED = 0.1  # of a test's time, in which some ready process waits for a processor: likewise
AGAIN = "run again"  # property of a report: why an attempt failed
SOLVER = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-13}


def pytest_configure() -> None:
    """One worker of several only computes, while the others wait.

    A test that fails may leave a context of libzmq with open sockets. pyzmq would end it in the middle of a collection,
    which has taken its list of sockets before: it would wait for them for ever.
    """
    zmq.Context.__del__ = lambda _: None  # type: ignore[method-assign]
    lower_priority()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """Files go to the workers by what they need; another --dist is left as it is."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """A test of processes that fails while the computer keeps ready ones waiting is run again, and is listed.

    Elsewhere, and on a computer that runs whoever is ready, every failure counts at once.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    in_processes = starts_processes(item.location[0])
    if in_processes:
        watch_host()
    for attempt in range(1, ATTEMPTS + 1):
        began, waited = monotonic_ns(), waited_s()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        now = monotonic_ns()
        failed = [each for each in reports if each.failed]
        if not in_processes or not failed or attempt == ATTEMPTS:
            break
        if host_s(began, now) < KEPT_WAITING_S and waited_s() - waited < WAITED * (now - began) / 1e9:
            break
        item.session._setupstate.teardown_exact(None)  # runs that tests share are made again too
        _forget_attempt()
        item._initrequest()  # type: ignore[attr-defined]  (as before its first run)
        item.user_properties.append((AGAIN, failed[0].longreprtext.strip().rpartition("\n")[2]))
    for each in reports:
        item.ihook.pytest_runtest_logreport(report=each)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _forget_attempt() -> None:
    """Collect what a failed attempt has left open, which is no fault of the tests that follow."""
    for name in ("last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    with warnings.catch_warnings(action="ignore"):
        gc.collect()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests that have passed at a later attempt alone, by attempt: one that is often listed has a race."""
    passed = [each for each in terminalreporter.getreports("passed") if each.when == "call"]
    for report in passed:
        for why in (text for word, text in report.user_properties if word == AGAIN):
            terminalreporter.write_line(f"passed at a later attempt: {report.nodeid}: {why}")


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of packaged launch files are skipped where the driver of theirs is not installed."""
    for item in items:
        named = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        if not MUJOCO and any(isinstance(each, str) and each.endswith("_mujoco") for each in named):
            item.add_marker(pytest.mark.skip(reason=NO_MUJOCO))


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs in processes, in a runtime folder of this test's own."""
    with private_runs(tmp_path) as found:
        yield found
