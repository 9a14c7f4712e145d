"""A run on two computers, which namespaces make of this one: a network that loses packets, clocks an hour apart."""

from pathlib import Path

from tests.helpers.computers import two_computers
from tests.helpers.runs import START_S, eventually
from tests.soak.test_two_computers import LAUNCH, columns

LOCKSTEP = ("run.mode=lockstep", "run.duration=2.005", "run.lockstep_timeout=60")


def test_lockstep_over_two_computers_has_the_bits_of_a_simulation_on_one(tmp_path: Path) -> None:
    with two_computers(tmp_path) as pair:
        pair.exchange_keys(robot=["plant", "observe"], desk=["controller", "operate"])
        for computer in (pair.robot, pair.desk):
            (computer.folder / "pursuit.toml").write_text(LAUNCH)
        pair.network.set(delay=0.002, jitter=0.001, loss=0.005, reorder=0.02)
        robot = pair.start(pair.robot, "pursuit.toml", *LOCKSTEP, words=["--on", "robot"])
        desk = pair.start(pair.desk, "pursuit.toml", *LOCKSTEP)
        assert eventually(lambda: desk.registry() or desk.popen.poll() is not None, START_S)
        robot.ends_with(0, START_S)
        desk.ends_with(0, START_S)
        words = [word for each in LOCKSTEP for word in ("--set", each)]
        done = pair.desk.servonode("simulate", "pursuit.toml", "--output", "one.csv", *words)
        assert done.returncode == 0, done.stderr
        ours, one = columns(robot.csv), columns(pair.desk.folder / "one.csv")
    assert len(one["t"]) > 2000
    for name in [each for each in one if each.startswith("residual_")]:  # the controller's, which the desk records
        assert set(ours.pop(name)) == {"nan"}
        del one[name]
    assert ours == one
