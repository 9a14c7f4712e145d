"""Processes in lockstep of every task, kinds of goals, own machines, estimates: the bits of the simulation."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import servonode
from servonode.api import override_texts
from servonode.record.bag import read_bag
from servonode.simulation.replay import replay
from tests.closed_loop import test_goals, test_inversion, test_own_machines
from tests.conformance.test_runs import A_TASK, shortened
from tests.helpers.runs import START_S, Runs, final_of_run, private_runs

folder, write = test_goals.folder, test_own_machines.write
WAIT_S = 120.0
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="as the other tests of processes")


def launched(launch: str, where: Path, *words: str, sets: tuple[str, ...] = ()) -> str:
    """The text of the table that `servonode run` leaves, on processes of its own."""
    out = where / "run.csv"
    command = [sys.executable, "-m", "servonode.cli.main", "run", launch, "--no-report", "--output", str(out), *words]
    command += ["--name", "lockstep", *(word for text in sets for word in ("--set", text))]
    with private_runs(where):
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False, cwd=where)
    assert done.returncode == 0, done.stderr
    return out.read_text()


@pytest.mark.parametrize("name", sorted(A_TASK))
def test_lockstep_on_processes_writes_the_table_of_the_simulation(name: str, tmp_path: Path) -> None:
    written, file = launched(name, tmp_path, sets=tuple(override_texts(shortened(name)))), tmp_path / "simulated.csv"
    servonode.simulate(name, every=1, **shortened(name)).write_csv(file)
    assert written == file.read_text()
    assert len(written.splitlines()) > 500


@pytest.mark.parametrize("goal", ['"0.3*sin(2*t)"', '{samples = "mass.csv"}'])
def test_runs_over_sockets_and_their_replays_have_the_bits_of_the_simulation(
    folder: Path, tmp_path: Path, runs: Runs, goal: str
) -> None:
    bag_file, launch = tmp_path / "a.mcap", test_goals.written(folder, goal)
    run = runs.start(launch, words=("--record", str(bag_file)))  # samples are in the recording, their file is not
    run.ends_with(0, START_S)
    simulated = servonode.simulate(launch, every=1)
    np.testing.assert_array_equal(run.columns["x"], simulated.columns["x"])
    (folder / "mass.csv").rename(folder / "moved.csv")
    try:
        bag = read_bag(bag_file)
        assert bag.holds("target/target")
        for _, _, message in bag.messages(["target/target"]):
            assert list(message["target"]) == ["goal", "goal_dot", "goal_ddot", "goal_d3", "goal_d4"]
        found = replay(bag, bag.closed_loop(code=True))
    finally:
        (folder / "moved.csv").rename(folder / "mass.csv")
    assert (found.differing_messages, found.left_out) == (0, 0), found.first
    assert found.compared > 50


def test_an_inverted_robot_in_lockstep_has_the_bits_of_the_simulation() -> None:
    simulated = servonode.load(test_inversion.SEGWAY).simulate()
    assert final_of_run(test_inversion.SEGWAY)["state"] == simulated.final()["state"]


def test_a_machine_and_a_program_in_files_run_as_processes(write: test_own_machines.Write, tmp_path: Path) -> None:
    lockstep = test_own_machines.LAUNCH.replace("[run]", '[run]\nmode = "lockstep"')
    file = write(launch=lockstep + test_own_machines.STATED)
    words = [sys.executable, "-m", "servonode.cli.main", "run", str(file), "--json", "--no-report"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == servonode.simulate(file, loop="nodes").final()["state"]


def test_a_simulated_machine_behind_a_link_sends_its_readings(tmp_path: Path) -> None:
    """Its clock and ours are one in lockstep, so that the estimates are the same; also with a hundred readings each."""
    sets = ("run.mode=lockstep", "run.duration=3", "plant.safety.limit=0.4", "plant.safety.arming_limit=0.057")
    sets += ("controller.period=0.1", "plant.publish_every=100", "plant.sensors.gyroscope.rate=1000")

    def estimated(*more: str) -> list[str]:
        text = launched("trailer_estimated", tmp_path, "--every", "10", "--arm", sets=(*more, *sets))
        head, *rows = (line.split(",") for line in text.splitlines())
        return [row[head.index("estimate_phi")] for row in rows]

    assert estimated("plant.driver=loopback") == estimated()
