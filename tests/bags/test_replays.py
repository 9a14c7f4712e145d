"""The controller of a launch file of every task, run again on a recording of it: the same bits."""

from pathlib import Path

import pytest

from servonode.cli.create import make
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch, table_of
from servonode.plants.drivers.installed import find_driver
from servonode.record.bag import read_bag
from servonode.record.info import info
from servonode.record.run_rows import RunRows
from servonode.record.write import described, known_of, write_contents
from servonode.simulation.replay import changed_files, replay
from tests.conformance.test_runs import A_TASK, CONTROLLED, FILES
from tests.helpers.recorded import recording


def empty_bag(launch: Path, file: Path) -> Path:
    """A recording of a launch file without messages."""
    loop = resolve(read_launch(launch))
    stored = {"table": table_of(loop.launch), "path": str(loop.launch.path), "file": loop.launch.file}
    about = {"launch": stored, "every": 1, "run": launch.stem, "columns": {}, **known_of(loop)}
    write_contents(file, described(about), stored, RunRows(), about["schemas"], iter(()), {})
    return file


def test_a_replay_says_which_files_of_the_user_have_changed(tmp_path: Path) -> None:
    """A controller and what it imports, which stand in a folder of their own, and nothing of servonode."""
    own, launch = tmp_path / "own", tmp_path / "pid.toml"
    own.mkdir()
    file, template = make("controller pid", "pid", own)
    weights = own / "weights.py"
    file.write_text(f"{file.read_text()}\nimport weights  # noqa: F401\n")
    weights.write_text("MASS = 3.0\n")
    launch.write_text(template.read_text().replace("./pid.py", "./own/pid.py"))
    bag = read_bag(empty_bag(launch, tmp_path / "pid.mcap"))
    assert info(bag)["files"].keys() == {"own/pid.py", "own/weights.py"}
    assert changed_files(bag) == []
    weights.write_text("MASS = 4.0\n")
    assert changed_files(bag) == ["'own/weights.py' has changed since it was recorded"]
    weights.unlink()
    assert changed_files(bag) == ["'own/weights.py' is no longer there"]


@pytest.mark.slow
@pytest.mark.parametrize("launch", [each for each in CONTROLLED if each in A_TASK])
def test_every_task_replays_to_the_bit(launch: str, tmp_path: Path) -> None:
    controller, driver = FILES[launch].controller, FILES[launch].plant.driver
    if not find_driver(driver).simulated:
        pytest.skip(f"needs a machine at {driver}")
    assert controller is not None
    settings = ("run.mode=lockstep", f"run.duration={40 * controller.period:.9g}")
    bag = recording(tmp_path, launch, *settings)
    found = replay(bag, bag.closed_loop())
    assert (found.differing_messages, found.left_out) == (0, 0), found.first
    assert found.compared > 1
