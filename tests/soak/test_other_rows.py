"""Tests of processes of which the gate plays one row: here are the others."""

import signal
from pathlib import Path

import pytest

from servonode.bus.topology import PLANT
from tests.helpers.external_programs import PROGRAMS
from tests.helpers.key_folders import Computers
from tests.helpers.runs import Runs, operator, private_runs
from tests.processes import (
    test_external,
    test_fleet_runs,
    test_nodes,
    test_own_controllers,
    test_pause,
    test_strangers,
)
from tests.processes.test_fleet_runs import ROBOTS
from tests.processes.test_own_controllers import LINE

computers = test_external.computers  # the fixture
LANGUAGES = pytest.mark.parametrize("language", [each for each in PROGRAMS if each != "python"])


@LANGUAGES
def test_a_host_that_the_machine_does_not_trust_gets_no_state_and_a_revoked_key_ends_the_link(
    language: str,
    runs: Runs,
    computers: Computers,
    tmp_path: Path,
) -> None:
    test_external.test_a_host_that_the_machine_does_not_trust_gets_no_state_and_a_revoked_key_ends_the_link(
        runs, computers, tmp_path, language
    )


@LANGUAGES
def test_a_machine_with_unusable_keys_ends_in_one_line(language: str, computers: Computers) -> None:
    test_external.test_a_machine_with_unusable_keys_ends_in_one_line(computers, language)


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_protocol_of_a_machine_is_checked_with_keys(language: str, computers: Computers) -> None:
    words = ["protocol", "check", "--launch", test_external.LAUNCH, "--key", "desk", "--wait", "60"]
    words += [word for each in computers.settings for word in ("--set", each)]
    with computers.machine(PROGRAMS[language](), computers.robot_key, computers.desk_key):
        done = operator(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_machine_that_is_frozen_is_a_fault_with_zero_input(runs: Runs) -> None:
    test_external.test_a_machine_that_is_gone_is_a_fault_with_zero_input(runs, signal.SIGSTOP)


def test_promise_24_a_machine_gets_zero_and_final_after_ctrl_c_again_and_again(runs: Runs) -> None:
    test_external.test_promise_24_a_machine_gets_zero_and_final_after_any_signals(runs, ("INT",) * 6)


def test_promise_27_nothing_reaches_an_observed_machine_whose_plant_node_dies(runs: Runs) -> None:
    test_external.test_promise_27_nothing_reaches_an_observed_machine_whoever_dies(runs, PLANT)


def test_promise_03_a_plant_that_is_frozen_silences_the_controller(runs: Runs) -> None:
    test_nodes.test_promise_03_a_plant_that_is_gone_silences_the_controller(runs, signal.SIGSTOP)


@pytest.mark.parametrize("what", ["silent", "idle"])
def test_promise_22_crowds_stop_neither_plant_nor_estop(what: str, runs: Runs) -> None:
    test_strangers.test_promise_22_floods_and_crowds_stop_neither_plant_nor_estop(runs, (what,))


def test_what_a_controller_raises_is_a_fault_and_no_torque(runs: Runs, tmp_path: Path) -> None:
    body, said = "raise RuntimeError('no solution')", f"{LINE}RuntimeError: no solution; correct this line"
    test_own_controllers.test_what_it_raises_is_a_fault_and_no_torque(runs, tmp_path, body, said)


def test_a_controller_that_stops_itself_is_a_missed_command(runs: Runs, tmp_path: Path) -> None:
    body = "os.kill(os.getpid(), signal.SIGSTOP)"
    test_own_controllers.test_one_that_does_not_answer_is_a_missed_command(
        runs, tmp_path, body, "lockstep", "lockstep_timeout"
    )


def test_a_controller_that_aborts_ends_the_run_safely(runs: Runs, tmp_path: Path) -> None:
    test_own_controllers.test_one_that_ends_its_process_ends_the_run_safely(runs, tmp_path, "os.abort()")


@pytest.mark.parametrize("robots", [ROBOTS, ROBOTS[::-1]], ids=" ".join)
def test_a_killed_controller_in_real_time_stops_both_and_is_named(tmp_path: Path, robots: tuple[str, str]) -> None:
    with private_runs(tmp_path):
        test_fleet_runs.test_a_killed_controller_stops_both_and_is_named(
            tmp_path, *robots, mode="realtime", fault="stale_command"
        )


def test_a_paused_run_in_lockstep_whose_controller_is_killed_ends_with_that_fault(runs: Runs) -> None:
    test_pause.test_a_paused_run_whose_controller_is_killed_ends_with_that_fault(runs, "lockstep")
