"""Tests of processes of which the gate plays one row: here are the others."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from servonode.bus.topology import CONTROLLER, PLANT
from tests.helpers.drivers import Driver, External, Loopback, Mujoco
from tests.helpers.external_programs import PROGRAMS
from tests.helpers.extras import MUJOCO, NO_MUJOCO
from tests.helpers.firmware import Sensing
from tests.helpers.key_folders import Computers
from tests.helpers.runs import START_S, Runs, operator, private_runs
from tests.processes import (
    test_drivers,
    test_external,
    test_fleet_runs,
    test_injected_faults,
    test_nodes,
    test_own_controllers,
    test_strangers,
    test_templates,
)
from tests.processes.test_drivers import ESTIMATED, ROUNDING
from tests.processes.test_fleet_runs import ROBOTS
from tests.processes.test_own_controllers import LINE
from tests.safety.test_injected_faults import TRAILER

computers = test_external.computers  # the fixture
OTHERS: dict[str, tuple[Callable[[], Driver], float]] = {  # by how much a state may differ from the simulation's
    "loopback": (Loopback, 0.0),
    "external in C": (lambda: External("c"), 0.0),
    "external in JavaScript": (lambda: External("node"), ROUNDING),
    "readings alone": (Sensing, ESTIMATED),
    "mujoco": (Mujoco, 0.0),
}
LANGUAGES = pytest.mark.parametrize("language", [each for each in PROGRAMS if each != "python"])


@LANGUAGES
def test_a_host_that_the_machine_does_not_trust_gets_no_state(
    language: str, runs: Runs, computers: Computers, tmp_path: Path
) -> None:
    with computers.machine(PROGRAMS[language](), computers.robot_key, computers.desk_key):
        run = runs.start(test_external.LAUNCH, *computers.settings, *test_external.PATIENT, words=["--arm"])
        assert test_external.is_active(run), run.stderr
        test_external.trusted_hosts_alone_get_states(computers, tmp_path)
        run.stop()


@LANGUAGES
def test_a_machine_with_unusable_keys_ends_in_one_line(language: str, computers: Computers) -> None:
    test_external.unusable_keys_end_it_in_one_line(computers, PROGRAMS[language]())


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_protocol_of_a_machine_is_checked_with_keys(language: str, computers: Computers) -> None:
    words = ["protocol", "check", "--launch", test_external.LAUNCH, "--key", "desk", "--wait", "60"]
    words += [word for each in computers.settings for word in ("--set", each)]
    with computers.machine(PROGRAMS[language](), computers.robot_key, computers.desk_key):
        done = operator(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_machine_that_is_frozen_is_a_fault_with_zero_input(runs: Runs) -> None:
    test_external.without_keys_until_the_machine_gets(runs, signal.SIGSTOP)


def test_promise_24_a_machine_gets_zero_and_final_after_ctrl_c_again_and_again(runs: Runs) -> None:
    test_external.zero_and_final_after(runs, *("INT",) * 6)


@pytest.mark.parametrize("victim", [CONTROLLER, PLANT])
def test_promise_27_nothing_reaches_an_observed_machine_whoever_dies(runs: Runs, victim: str) -> None:
    with test_external.observed(runs) as (run, _, sent):
        run.kill(victim)
        run.ends_with(1, START_S)
        assert run.printed["faults"][-1]["name"] == "node_died"
    test_external.assert_only_asked_to_take_part(sent)
    assert victim == PLANT or run.printed["readonly"] is True


def test_promise_03_a_plant_that_is_frozen_silences_the_controller(runs: Runs) -> None:
    test_nodes.the_controller_falls_silent_after(runs, signal.SIGSTOP)


@pytest.mark.parametrize("what", ["silent", "idle"])
def test_promise_22_crowds_stop_neither_plant_nor_estop(what: str, runs: Runs) -> None:
    run = test_nodes.active(runs, *test_strangers.PATIENT)
    test_strangers.crowds_stop_neither_plant_nor_estop(run, (what,))
    run.stop()


def test_what_a_controller_raises_is_a_fault_and_no_torque(runs: Runs, tmp_path: Path) -> None:
    body, said = "raise RuntimeError('no solution')", f"{LINE}RuntimeError: no solution; correct this line"
    test_own_controllers.raising_is_a_fault(runs, tmp_path, body, said)


@pytest.mark.parametrize("robots", [ROBOTS, ROBOTS[::-1]], ids=" ".join)
def test_a_killed_controller_in_real_time_stops_both_and_is_named(tmp_path: Path, robots: tuple[str, str]) -> None:
    with private_runs(tmp_path):
        test_fleet_runs.both_stop_where_a_controller_is_killed(tmp_path, *robots, "realtime", "stale_command")


def test_a_link_that_is_delayed_has_the_bits_of_a_simulation() -> None:
    test_injected_faults.same_bits(TRAILER, {"on": "link", "kind": "delayed", "size": 0.015, "duration": 0.3})


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_with_another_driver_moves_as_the_simulation(name: str, runs: Runs) -> None:
    if name == "mujoco" and not MUJOCO:
        pytest.skip(NO_MUJOCO)
    test_drivers.moves_as_the_simulation(runs, *OTHERS[name])


@pytest.mark.parametrize("kind", ["program", "run"])
def test_what_is_made_runs_with_the_printed_command(tmp_path: Path, kind: str) -> None:
    test_templates.what_is_made_runs(tmp_path, kind)
