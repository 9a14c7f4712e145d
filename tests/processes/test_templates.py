"""What `servonode new` writes runs as it is, with the very command that it prints."""

from pathlib import Path

from tests.cli.test_templates import MADE, servonode
from tests.helpers.refusals import command

QUICK = ("--set", "run.mode=lockstep", "--set", "run.lockstep_timeout=60", "--set", "run.duration=1")


def test_what_is_made_runs_with_the_printed_command(tmp_path: Path) -> None:
    what_is_made_runs(tmp_path, "machine")


def what_is_made_runs(tmp_path: Path, kind: str) -> None:
    """The files of this kind are made and run with the command that is printed."""
    made = servonode(tmp_path, "new", kind, "crab")
    assert made.returncode == 0, made.stderr
    names = [f"crab.{ending}" for ending in MADE[kind]]
    assert made.stdout.splitlines() == [*(f"wrote {name}" for name in names), "now: servonode run crab.toml"]
    assert sorted(each.name for each in tmp_path.iterdir()) == names
    typed = made.stdout.splitlines()[-1].removeprefix("now: servonode ").split()
    run = servonode(tmp_path, *typed, *QUICK)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("crab: completed after 1.000 s of plant time")
    assert (tmp_path / "crab.png").read_bytes().startswith(b"\x89PNG")
    if kind == "machine":
        checked = command("check", str(tmp_path / "crab.toml"))
        assert checked.exit_code == 0, checked.stderr
        assert "after a fault    F brakes with -c_b*x_dot" in checked.stdout.splitlines()
        assert "safe action" not in checked.stdout
