"""`servonode new controller`: each file does its job on the packaged machine, with the same bits in every mode."""

import re
from pathlib import Path

import numpy as np
import pytest

import servonode
from servonode.cli.create import CONTROLLERS, make
from servonode.record.bag import read_bag
from servonode.simulation.replay import replay
from tests.helpers.recorded import recorded
from tests.helpers.refusals import command, refused_command

NEEDS = {"lqr": (), "pid": (), "mpc": ("osqp",), "policy": ("onnxruntime", "onnx")}
NAMES = {"lqr": "LQR", "pid": "SpeedAndHeading", "mpc": "MPC", "policy": "Policy"}
every_kind = pytest.mark.parametrize("kind", CONTROLLERS)


@pytest.fixture
def launch(kind: str, tmp_path: Path) -> str:
    """The launch file of a kind, made here; skipped where its libraries are not installed."""
    for name in NEEDS[kind]:
        pytest.importorskip(name, reason=f'needs {name}: pip install "servonode[{kind}]"')
    return str(make(f"controller {kind}", kind, tmp_path)[-1])


def test_each_is_made_under_its_own_name_or_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = "wrote lqr.py\nwrote lqr.toml\nnow: servonode run lqr.toml\n"
    assert command("new", "controller", "lqr").stdout == said
    assert command("new", "controller", "pid", "slow").stdout == said.replace("lqr", "slow")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lqr.py", "lqr.toml", "slow.py", "slow.toml"]
    text = "'lqg' is no kind of controller; did you mean lqr? give lqr, pid, mpc, policy, and then a name for its file"
    assert refused_command("new", "controller", "lqg") == text
    assert refused_command("new", "run", "a", "b") == "'b' is one name too many: a run has one; leave it out"


@every_kind
def test_nothing_of_the_template_is_left(kind: str, tmp_path: Path) -> None:
    for file in make(f"controller {kind}", "crab", tmp_path):
        text = file.read_text("utf-8")
        assert "crab" in text
        assert not re.search(r"\bNAME\b", text)
        assert max(map(len, text.splitlines())) <= 120


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lqr", "mpc", "policy"])
def test_it_reverses_the_trailer_onto_the_line(launch: str, kind: str) -> None:
    run = servonode.simulate(launch)
    assert not run.fault
    late = run.t > 25
    assert np.abs(run.state["Y"][late]).max() < 5e-3
    assert np.abs(run.state["phi"][late]).max() < 5e-3
    assert np.abs(run.state["V"] + 0.3).max() < 5e-3
    assert run.state["X"][-1] == pytest.approx(-9.0, abs=0.1)
    assert np.abs(run.state["phi"]).max() > 0.07  # the hitch has to swing out
    if kind == "mpc":
        assert np.abs(run.state["phi"]).max() < 0.083  # and stays within the limit of 0.08 rad, which LQR leaves
    else:
        assert np.abs(run.state["phi"]).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pid"])
def test_pid_holds_speed_and_heading_within_the_limits(launch: str) -> None:
    run = servonode.simulate(launch, plant__safety__limit=1.0)
    assert not run.fault
    late = run.t > 10
    assert np.abs(run.residual["speed"][late]).max() < 2e-3
    assert np.abs(run.residual["heading"][late]).max() < 0.05 * 0.4
    assert np.abs(run.inputs).max() <= 1.0


@pytest.mark.slow
@every_kind
def test_check_passes_it(launch: str, kind: str) -> None:
    report = servonode.check(launch, run__duration=30.0)
    assert report.verdict == "yes", [each.text for each in report.findings if each.level == "refuse"]
    assert report.program == f"./{kind}.py:{NAMES[kind]}"


@pytest.mark.slow
@every_kind
def test_simulation_nodes_and_replay_have_the_same_bits(launch: str, kind: str, tmp_path: Path) -> None:
    bag = read_bag(recorded(tmp_path / "run.mcap", launch, "run.mode=lockstep", "run.duration=1.5"))
    (nodes,) = bag.runs(bag.closed_loop(code=True))
    simulated = servonode.simulate(launch, every=1, run__mode="lockstep", run__duration=1.5)
    assert len(simulated.t) == 1501
    for name, column in simulated.columns.items():
        assert nodes.columns[name].tobytes() == column.tobytes(), name
    found = replay(bag, bag.closed_loop(code=True))
    assert found.compared == (31 if kind == "mpc" else 151)
    assert not found.differing


@pytest.mark.parametrize("kind", ["lqr"])
def test_replay_says_at_which_step_another_controller_differs(launch: str, tmp_path: Path) -> None:
    bag = recorded(tmp_path / "run.mcap", launch, "run.mode=lockstep", "run.duration=1")
    file = tmp_path / "lqr.py"
    text = file.read_text("utf-8")
    file.write_text(text.replace("return -self.K @", "return (1 + 1e-15 * (t > 0.495)) * -self.K @"), "utf-8")
    result = command("replay", str(bag), "--code")
    assert result.exit_code == 1
    assert re.search(r"\n  step 5\d\d, t = 0\.5\d* s: input\.U1 is ", result.stdout), result.stdout
