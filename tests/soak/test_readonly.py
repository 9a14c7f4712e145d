"""`servonode run --readonly`: whatever happens, the machine is sent its handshake and nothing else."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from servonode.bus import Applied, Message, Setup, State
from servonode.bus.topology import CONTROLLER, PLANT
from servonode.operator.operator_requests import status, status_text
from tests.helpers.drivers import Beside, Insecure, listening
from tests.helpers.runs import END_S, START_S, Process, Runs, Watch, eventually, signalled
from tests.soak.suite import COMMON, WAITS

READONLY = ("--readonly",)


@contextmanager
def observed(runs: Runs, *settings: str, **options: Any) -> Iterator[tuple[Process, Beside, list[Message]]]:
    """A run that only observes the external robot, computing; what is sent to the robot."""
    driver = Insecure()
    with driver.machine() as beside, listening(*(f"tcp://127.0.0.1:{port}" for port in beside.ports)) as sent:
        given = (*COMMON, *driver.settings, *beside.settings, *settings)
        run = runs.start(driver.launch, *given, words=(*READONLY, *beside.words, *options.pop("words", ())), **options)
        try:
            run.wait_open()
            assert eventually(lambda: run.ask("status").get("would_send"), START_S), run.stderr
            yield run, beside, sent
        finally:
            run.end()


def assert_only_asked_to_take_part(sent: list[Message]) -> None:
    """Handshakes with limits of zero; never an input, not even zero, nor an end; the machine itself has taken none."""
    assert {type(each) for each in sent} <= {Setup, State}
    states = [each for each in sent if isinstance(each, State)]
    assert {each.applied_seq for each in states} == {-1}
    assert {value for each in states for value in each.input.values()} == {0.0}
    for setup in sent:
        if isinstance(setup, Setup):
            assert set(setup.limits.values()) == {0.0}
            assert setup.limits.keys() == set(setup.inputs)


def test_nothing_reaches_the_machine_whatever_the_operator_asks(runs: Runs) -> None:
    with observed(runs, WAITS) as (run, _, sent):
        with Watch(run.name, {PLANT: ["state", "applied", "status"]}) as watch:
            for word in ("arm", "disarm", "reset", "arm"):
                assert "refused" in run.ask(word)
            assert "--readonly" in run.ask("arm")["refused"]
            run.ask("estop")
            assert watch.status("fault").fault == "estop"
            assert "refused" in run.ask("arm")
            run.ask("reset_estop")  # with a new handshake
            assert watch.status("inactive", time.monotonic_ns()).values["readonly"] == 1.0
            begun = time.monotonic_ns()
            assert eventually(lambda: watch.of(Applied, begun))
            applied, state = watch.of(Applied, begun)[-1], watch.of(State)[-1]
            assert (set(applied.input.values()), applied.reasons) == ({0.0}, ["readonly"])
            assert set(state.input.values()) == {0.0}
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGINT):
            signalled(run.popen.pid, number)
            time.sleep(0.05)
        assert run.popen.wait(END_S) == 128 + signal.SIGINT
    assert_only_asked_to_take_part(sent)
    assert len({each.run for each in sent}) == 2, "the handshake of the reset is another one"


@pytest.mark.parametrize(
    "victim",
    [CONTROLLER, "machine", *(pytest.param(each, marks=pytest.mark.slow) for each in (PLANT, "frozen machine"))],
)
def test_nothing_reaches_the_machine_whoever_dies(victim: str, runs: Runs) -> None:
    with observed(runs) as (run, beside, sent):
        if victim in (CONTROLLER, PLANT):
            run.kill(victim)
        else:
            signalled(beside.pid, signal.SIGKILL if victim == "machine" else signal.SIGSTOP)
        run.ends_with(1)
        assert run.printed["faults"][-1]["name"] in ("node_died", "stale_state")
        signalled(beside.pid, signal.SIGCONT)
    assert_only_asked_to_take_part(sent)


def test_readonly_status_says_what_arming_would_send(runs: Runs, tmp_path: Path) -> None:
    bag = tmp_path / "run.mcap"
    words = ("--record", str(bag))
    with observed(runs, "run.duration=1.5", "plant.initial.V=0.5", "plant.initial.Omega=0.2", words=words) as (
        run,
        _,
        sent,
    ):
        assert eventually(lambda: run.ask("status")["t"] > 0.2)
        found = status(run.name)
        stands = found["nodes"][PLANT]
        assert stands["lifecycle"] == "inactive"
        assert stands["values"]["armed"] == 0.0
        assert stands["would_send"].keys() == {"U1", "U2"}
        assert all(0 < abs(value) <= 1.0 for value in stands["would_send"].values())
        text = status_text(json.loads(json.dumps(found)))
        assert "READ ONLY: nothing is sent to the machine; arming would send U1 " in text
        run.ends_with(0)
    assert_only_asked_to_take_part(sent)
    assert run.printed["readonly"] is True
    assert not any(abs(run.columns[name]).max() for name in ("U1", "U2"))
    assert bag.stat().st_size > 0
    assert "read only" in run.stderr


def test_with_arm_it_is_refused(runs: Runs) -> None:
    run = runs.start("trailer_pursuit", words=(*READONLY, "--arm"))
    assert run.popen.wait(START_S) == 2
    assert "--readonly never commands a machine" in run.stderr


def test_in_lockstep_a_machine_would_not_move(runs: Runs) -> None:
    run = runs.start("trailer_pursuit", 'plant.driver="loopback"', "run.mode=lockstep", words=READONLY)
    assert run.popen.wait(START_S) == 2
    assert "[run] mode: in lockstep a machine moves only after it receives an input" in run.stderr


@pytest.mark.parametrize("driver", ["simulated", "loopback"])
def test_a_simulation_goes_on_under_zero_input(driver: str, runs: Runs) -> None:
    settings = (
        f'plant.driver="{driver}"',
        "run.speed=1",
        "run.duration=0.8",
        "plant.initial.V=0.5",
        "plant.initial.phi=0.3",
    )
    run = runs.start("trailer_pursuit", *settings, words=READONLY)
    run.ends_with(0)
    assert run.columns["X"][-1] > 0.3
    assert not any(abs(run.columns[name]).max() for name in ("U1", "U2"))
