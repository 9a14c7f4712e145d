"""Controllers in Python: what they are given, what they may return, and what is said where they fail."""

import os
import re
import select
import sys
from pathlib import Path

import numpy as np
import pytest

import servonode
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.controllers.own.law import LEFT, OwnLaw
from servonode.simulation.continuous_loop import ContinuousLoop
from servonode.simulation.event_integration import SimulationError
from tests.helpers.refusals import command, refused_command
from tests.helpers.wings import needs_wing

LAUNCH = """
[run]
mode = "lockstep"
duration = 2.0
seed = 7
[plant]
machine = "diff_drive_trailer"
step = 0.001
[plant.initial]
Y = 0.1
[plant.safety]
limit = 3.0
[controller]
program = "./own.py:Own"
period = 0.01
[target]
v = "0.3 + 0.1*t**2"
"""
OWN = """
import numpy as np


class Own:
    residual_units = {"speed": "m/s"}

    def __init__(self, plant, gain: float = 20.0, count: int = 2, kind: str = "plain"):
        self.plant, self.gain, self.count, self.kind = plant, gain, count, kind
        (self.V,) = plant.index("V")

    def reset(self, seed):
        self.seed, self.calls = seed, 0

    def command(self, t, state, goal):
        self.calls += 1
        BODY
        return np.full(2, self.gain * (goal[0] - state[self.V]))

    def residuals(self, t, state, goal):
        return {"speed": state[self.V] - goal[0]}
"""


def written(folder: Path, body: str = "pass", text: str = OWN) -> str:
    """A launch file with a controller whose command begins with this body."""
    (folder / "own.py").write_text(text.replace("BODY", body))
    (folder / "own.toml").write_text(LAUNCH)
    return str(folder / "own.toml")


def loop(folder: Path, body: str = "pass", *settings: str) -> ClosedLoop:
    return resolve(read_launch(written(folder, body), list(settings)))


def begun(folder: Path, *settings: str) -> OwnLaw:
    """The law of a run, begun in this process."""
    control = loop(folder, "pass", *settings).control
    assert control is not None
    law = control.law.begin()
    assert isinstance(law, OwnLaw)
    return law


def test_a_controller_knows_its_plant(tmp_path: Path) -> None:
    plant = begun(tmp_path).own.plant
    assert plant is not None
    assert plant.state_names == ("X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2")
    assert plant.state_units[:5] == ("m", "m", "rad", "rad", "m/s")
    assert (plant.input_names, plant.input_units) == (("U1", "U2"), ("N m", "N m"))
    assert plant.goal_names == ("v", "v_dot", "v_ddot")
    assert (plant.limits.tolist(), plant.period, plant.delay) == ([3.0, 3.0], 0.01, 0.0)
    assert plant.start[1] == 0.1
    assert plant.index("phi", "V") == [3, 4]
    assert plant.index("v_dot") == [1]
    with pytest.raises(ValueError, match=r"there is no 'Phi'; did you mean phi\? the states are X, Y, "):
        plant.index("Phi")


def test_the_linearisation_is_that_of_the_motion(tmp_path: Path) -> None:
    plant = begun(tmp_path).own.plant
    assert plant is not None
    state = plant.start.copy()
    state[plant.index("V")] = -0.3
    A, B = plant.linearize(state)
    of = {name: i for i, name in enumerate(plant.state_names)}
    assert A[of["Y"], of["psi"]] == pytest.approx(-0.3, abs=1e-8)  # Y' = V sin psi
    assert A[of["phi"], of["phi"]] == pytest.approx(0.3, abs=1e-8)  # phi' = -Omega - V sin(phi)/b
    Ad, Bd = plant.discretize(state)
    change = 1e-4 * np.array([1.0, -1.0])
    moved = plant.advance(state, change) - plant.advance(state, np.zeros(2))
    assert moved == pytest.approx(Bd @ change, abs=1e-9)
    assert Ad.shape == (8, 8)
    assert B.shape == (8, 2)


def test_settings_are_the_arguments(tmp_path: Path) -> None:
    settings = ("controller.settings.gain=5", "controller.settings.count=3", "controller.settings.kind=quiet")
    own = begun(tmp_path, *settings)._controller
    assert {name: getattr(own, name) for name in ("gain", "count", "kind", "seed")} == {
        "gain": 5.0, "count": 3, "kind": "quiet", "seed": 7
    }  # fmt: skip
    assert type(getattr(own, "count")) is int  # noqa: B009  (its class is in no module)


def test_a_failure_on_the_way_is_the_controllers_fault(tmp_path: Path) -> None:
    run = servonode.simulate(written(tmp_path, "if t > 1.0: return state[99]"))
    assert run.fault is not None
    assert (run.fault["name"], run.fault["t"]) == ("law", 1.01)
    assert run.fault["text"].startswith("own.py line 17: IndexError: index 99 is out of bounds")


def test_a_residual_that_is_missing_later_is_named(tmp_path: Path) -> None:
    text = OWN.replace('return {"speed"', 'return {} if t > 1.0 else {"speed"')
    run = servonode.simulate(written(tmp_path, text=text))
    assert run.fault is not None
    said = "own.py line 20: residuals() gave no number for each of speed; let it do so each time"
    assert (run.fault["name"], run.fault["text"]) == ("law", said)


def test_what_it_keeps_of_its_arguments_stays(tmp_path: Path) -> None:
    """The arrays are its own: it may keep them, and change them."""
    keep = "self.__dict__.setdefault('kept', []).append(state); state[:] += 1e3; goal[:] = 9; goal[0] = 0.3"
    body = f"{keep}; state = state - 1e3; assert len({{id(x) for x in self.kept}}) == len(self.kept)"
    text = OWN.replace("self.calls += 1", "self.calls += 1; given = state.copy()")
    run = servonode.simulate(written(tmp_path, body, text))
    assert not run.fault
    assert np.abs(run.state["V"]).max() < 1.0


def test_simulations_have_a_controller_each(tmp_path: Path) -> None:
    body = "assert self.calls == round(t / self.plant.period) + 1, self.calls"
    loaded = servonode.load(written(tmp_path, body))
    first, second = loaded.simulate(), loaded.simulate()
    assert not first.fault
    assert np.array_equal(first.state["X"], second.state["X"])
    other = loaded.simulate(values={"controller.settings.gain": 1.0})
    assert other.state["V"][-1] < first.state["V"][-1]


def test_residuals_have_the_units_that_it_states(tmp_path: Path) -> None:
    (residual,) = loop(tmp_path).residuals
    assert (residual.name, residual.unit) == ("speed", "m/s")
    run = servonode.simulate(written(tmp_path))
    assert run.residual["speed"] == pytest.approx(run.state["V"] - (0.3 + 0.1 * run.t**2), abs=1e-12)


def test_the_seed_is_that_of_the_run(tmp_path: Path) -> None:
    body = "rng = np.random.default_rng([self.seed, self.calls]); return rng.normal(size=2)"
    file = written(tmp_path, body)
    one, same = servonode.simulate(file), servonode.simulate(file)
    other = servonode.simulate(file, run__seed=8)
    assert np.array_equal(one.inputs, same.inputs)
    assert not np.array_equal(one.inputs, other.inputs)


def test_with_the_predictor_it_is_asked_once_a_period(tmp_path: Path) -> None:
    body = "assert t == 0 or abs(t - (self.calls - 1 + 2) * self.plant.period) < 1e-9, (t, self.calls)"
    body += "; self.last = t; assert t < 0.1 or self.calls > 8"
    file = written(tmp_path, body)
    assert not servonode.simulate(file, controller__delay=2, controller__predictor=True).fault


def test_a_function_or_a_dataclass_makes_one_too(tmp_path: Path) -> None:
    text = OWN + "\n\ndef made(plant, gain: float = 3.0):\n    return Own(plant, gain)\n"
    file = written(tmp_path, text=text)
    servonode.simulate(file, controller__program="./own.py:made")
    data = (
        "from dataclasses import dataclass\nfrom servonode.controllers import PlantView\n\n\n@dataclass\nclass Own:\n"
    )
    data += "    plant: PlantView\n    gain: float = 2.0\n\n    def command(self, t, state, goal):\n"
    data += "        return [self.gain * (goal[0] - state[4])] * 2\n"
    file = written(tmp_path, text=data)
    gains = [servonode.simulate(file, controller__settings__gain=gain).inputs[0, 0] for gain in (1.0, 2.0)]
    assert gains == pytest.approx([0.3, 0.6])


def test_a_class_at_hand_is_a_controller(tmp_path: Path) -> None:
    class Still:
        def __init__(self, _plant: object, push: float = 0.25) -> None:
            self.push = push

        def command(self, _t: float, _state: object, _goal: object) -> list[float]:
            return [self.push, self.push]

    table = {
        "run": {"duration": 0.1, "mode": "lockstep"},
        "plant": {"machine": "diff_drive_trailer"},
        "controller": {"program": Still, "settings": {"push": 0.5}},
    }
    run = servonode.simulate(table)
    assert run.inputs.min() == run.inputs.max() == 0.5
    assert not run.residual


def test_what_needs_equations_refuses_it(tmp_path: Path) -> None:
    file = written(tmp_path)
    where = f"{file} [controller] program: is a controller in Python, "
    assert refused_command("simulate", file, "--control", "continuous").startswith(
        f"{where}which answers at its instants; leave out --control continuous"
    )
    assert refused_command("show", file, "--c").startswith(f"{where}of which there is no C; ")
    assert "in Python, of which there are no equations" in command("show", file).stdout
    device = ("--set", "plant.driver=serial", "--set", "plant.device.law=true", "--set", "plant.device.port=/dev/null")
    assert "the law cannot act in firmware: ./own.py:Own is a controller in Python; " in refused_command(
        "run", file, "--set", "run.mode=realtime", *device
    )
    assert "--no-code" in refused_command("simulate", file, "--no-code")


def test_the_law_at_a_state_is_what_it_returns(tmp_path: Path) -> None:
    loaded = servonode.load(written(tmp_path))
    assert loaded.law(0.0, {"V": 0.2}) == pytest.approx({"U1": 2.0, "U2": 2.0})
    assert loaded.residuals(0.0, {"V": 0.2}) == pytest.approx({"speed": -0.1})
    failing = servonode.load(written(tmp_path, "if state[4] > 1: 1/0"))
    with pytest.raises(ValueError, match=r"own.py line 17: ZeroDivisionError"):
        failing.law(0.0, {"V": 2.0})


def test_check_says_what_it_can(tmp_path: Path) -> None:
    report = servonode.check(written(tmp_path))
    said = {each.subject: each.text for each in report.findings}
    assert said["program"] == "is a controller in Python: that its residuals decay cannot be proved, only simulated"
    assert "zero dynamics" not in said
    assert "closed loop" not in said
    assert report.numbers["simulated"]["limited_share"]["U1"] > 0  # saturation, and the aftermath, along the run
    assert report.numbers["after_fault"]
    failing = servonode.check(written(tmp_path, "if t > 1.0: 1/0"))
    assert failing.verdict == "no"


def test_an_estimator_stands_before_it(tmp_path: Path) -> None:
    file = written(tmp_path)
    seen = servonode.simulate(file, estimator={"process_noise": 0.05})
    assert not seen.fault
    assert seen.estimate is not None
    report = servonode.check(file, estimator={"process_noise": 0.05})
    assert report.numbers["estimator"]["residual_std"] == {"speed": [0.0, 0.0]}  # not known of Python code


def test_nothing_is_linearised_with_it(tmp_path: Path) -> None:
    with pytest.raises(
        SimulationError, match=r"own.py:Own is a controller in Python, .*; look at `PlantView.linearize`"
    ):
        ContinuousLoop(loop(tmp_path))


def test_the_time_of_a_command_is_told(tmp_path: Path) -> None:
    run = servonode.simulate(written(tmp_path, "import time; time.sleep(0.002)"), run__duration=0.2)
    taken = run.stats["nodes"]["controller"]["execution_s"]
    assert 0.002 <= taken["p50"] <= taken["p99"] <= taken["max"]
    assert "command time" in command("simulate", written(tmp_path), "--set", "run.duration=0.2").stdout


def test_check_warns_of_one_that_is_slow_for_its_period(tmp_path: Path) -> None:
    file = written(tmp_path, "import time; time.sleep(0.006)")
    slow = servonode.check(file, run__mode="realtime", run__duration=0.1)
    said = [each.text for each in slow.findings if each.subject == "program" and each.level == "warn"]
    assert len(said) == 1
    assert re.match(r"one command took \d.* ms here, of a period of 10 ms: late commands are missed ones; ", said[0])


def test_its_table_claims_nothing_of_its_residuals(tmp_path: Path) -> None:
    text = str(begun(tmp_path))
    assert "residual speed of the controller [m/s], watched" in text
    assert "convergence" not in text
    assert "gain = 20" in text


FORKS = """
import os


class Own:
    def __init__(self, plant):
        self.fork("__init__")

    def fork(self, where):
        if where == WHERE:
            pid = os.fork()
            if pid == 0:
                ANSWER
            with open("children", "a") as file:
                file.write(f"{pid}\\n")

    def reset(self, seed):
        self.fork("reset")

    def command(self, t, state, goal):
        self.fork("command")
        return [0.1, 0.1]

    def residuals(self, t, state, goal):
        self.fork("residuals")
        return {"speed": 0.0}
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("where", ["__init__", "reset", "command", "residuals"])
@pytest.mark.parametrize("answer", ["return", "raise ValueError"])
def test_a_copy_that_it_forks_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, answer: str
) -> None:
    """Wherever it forks: a copy that went on would be another controller, or this test once more."""
    monkeypatch.chdir(tmp_path)
    text = FORKS.replace("WHERE", repr(where)).replace("ANSWER", answer)
    control = resolve(read_launch(written(tmp_path, text=text))).control
    assert control is not None
    Path("children").unlink()
    me, law = os.getpid(), control.law.begin()
    law.evaluate(0.0, np.zeros(8), np.zeros(6))
    if os.getpid() != me:
        Path("went_on").touch()
        os._exit(0)
    children = [int(each) for each in Path("children").read_text().split()]
    assert children
    assert [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children] == [LEFT] * len(children)
    assert not Path("went_on").exists()


HELPED = """
import multiprocessing
import time


class Own:
    def __init__(self, plant):
        multiprocessing.get_context("fork").Process(target=time.sleep, args=(900.0,), daemon=True).start()

    def command(self, t, state, goal):
        return [0.1, 0.1]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_trial_ends_though_helpers_of_the_controller_do_not(tmp_path: Path) -> None:
    """A helper keeps the pipe open by which the trial answers, and this one; it is ended with the trial."""
    read, write = os.pipe()
    assert resolve(read_launch(written(tmp_path, text=HELPED))).control is not None
    os.close(write)
    ready, _, _ = select.select([read], [], [], 60.0)
    assert ready
    assert os.read(read, 1) == b""  # nobody has its other end
    os.close(read)


@pytest.mark.slow
def test_threads_may_each_make_one_that_imports_its_neighbours(tmp_path: Path) -> None:
    """What a source imports, and where it prints, are the process's: no thread sees what another one has changed."""
    own = OWN.replace("import numpy as np", "import numpy as np\n\nfrom beside import FACTOR").replace(
        "self.gain * (goal", "FACTOR * self.gain * (goal"
    )
    (tmp_path / "beside.py").write_text("import time\n\ntime.sleep(0.001)\nFACTOR = 0.5\n")
    pytest.importorskip("xarray", reason='needs xarray: pip install "servonode[sweep]"')
    loop = servonode.load(written(tmp_path, text=own), run__duration=0.02)
    before, path = sys.stdout, list(sys.path)
    vary = {"controller.settings.gain": {"low": 1.0, "high": 10.0, "points": 200}}
    found = loop.sweep(vary, measures={"speed": "final(V)"}, threads=4)
    assert sys.stdout is before
    assert sys.path == path
    assert "beside" not in sys.modules
    assert (found.reason.values == "").all()
    assert np.all(np.diff(found.speed) > 0)


@needs_wing("explore")
def test_its_numbers_are_swept(tmp_path: Path) -> None:
    pytest.importorskip("xarray", reason='needs xarray: pip install "servonode[sweep]"')
    vary = {"controller.settings.gain": {"low": 1.0, "high": 20.0, "points": 2}}
    found = servonode.load(written(tmp_path), run__duration=1.0).sweep(vary, threads=2)
    alone = [servonode.simulate(written(tmp_path), run__duration=1.0, controller__settings__gain=g) for g in (1, 20)]
    assert found["residual_speed_largest"].values.tolist() == [run.residual_max["speed"] for run in alone]
