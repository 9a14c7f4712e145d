"""From a recording on disk to estimates: what was measured counts, not the true states; files, segments, errors."""

import json
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import servonode
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import launch_of_table
from servonode.nodes.launcher import Launcher
from servonode.nodes.recording import Recording
from servonode.record.bag import read_bag
from servonode.wings.explore.identification.experiment import (
    IdentificationError,
    experiments_in,
    runs_of_inputs,
    steps_of_commands,
)
from servonode.wings.explore.identification.parameters_section import changed, section_text
from tests.helpers.refusals import command
from tests.helpers.seeded_records import TRAILER

NAMES = "m1,c_w"


def recorded(file: Path, *overrides: str) -> Path:
    """The trailer of `seeded` run in lockstep, with a load that its law does not know, recorded into a file."""
    stated = ["run.mode=lockstep", "run.duration=4", "plant.publish_every=10", "plant.parameters.m1=5.0"]
    stated += ["plant.parameters.c_w=0.01", "controller.parameters={m1 = 4.0, c_w = 0.0}", *overrides]
    loop = resolve(launch_of_table(TRAILER, stated, name="load"))
    with Recording(loop, 20, "load", bag=file) as recording:
        Launcher(loop, "load", 20, lambda _: None, recording=recording, arm=True).launch()
        recording.write_bag({})
    return file


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("bag") / "load.mcap")


def test_a_recording_gives_what_was_measured_and_the_inputs_that_acted(bag: Path) -> None:
    read = read_bag(bag)
    loop = read.closed_loop()
    (experiment,) = experiments_in(read, loop)
    rows = read.runs(loop)[-1]
    assert [each.name for each in experiment.channels] == list(loop.machine.description.columns)
    at = np.searchsorted(experiment.k, rows.k)
    deviations = [float(np.std(experiment.guess[at, j] - true)) for j, true in enumerate(rows.state.values())]
    stated = TRAILER["plant"]["sensor"]["noise"]
    quantum = TRAILER["plant"]["sensor"]["quantum"]
    wanted = [np.hypot(stated[n], quantum.get(n, 0.0) / 12**0.5) for n in rows.state]
    assert deviations == pytest.approx(wanted, rel=0.25)
    acting = experiment.u[np.searchsorted(experiment.k, rows.k[:-1])]
    assert np.array_equal(acting, rows.inputs.T[:-1])
    assert [round(each.quantum, 12) for each in experiment.channels] == [
        *[0.0] * 6,
        *[round(quantum["theta1"], 12)] * 2,
    ]


@pytest.mark.slow
def test_the_command_prints_intervals_and_writes_the_launch_file(bag: Path, tmp_path: Path) -> None:
    robot = tmp_path / "robot.toml"
    robot.write_text('[plant]\nmachine = "diff_drive_trailer"  # ours\n[plant.parameters]\nm1 = 4.0  # scales\n')
    result = command("identify", str(bag), "--parameters", NAMES, "--write", str(robot), "--no-law", "--json")
    assert (result.exit_code, result.stderr) == (0, f"parameters: {robot}\n")
    found = json.loads(result.stdout)["parameters"]
    for name, true in {"m1": 5.0, "c_w": 0.01}.items():
        assert abs(found[name]["value"] - true) < 1.5 * found[name]["error"] < 0.02 * true
    text = robot.read_text()
    assert "# ours" in text
    assert "# scales" in text
    assert tomllib.loads(text)["plant"]["parameters"] == pytest.approx({"m1": 5.0, "c_w": 0.01}, rel=0.02)


@pytest.mark.slow
def test_the_command_proposes_an_experiment_that_can_be_simulated_and_draws(bag: Path, tmp_path: Path) -> None:
    proposed, picture = tmp_path / "next.toml", tmp_path / "fit.png"
    options = ("--next", str(proposed), "--output", str(picture), "--no-law")
    result = command("identify", str(bag), "--parameters", "m1,m2,I2", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "next experiment" in result.stdout
    assert picture.read_bytes()[:4] == b"\x89PNG"
    run = servonode.simulate(proposed)
    assert run.fault is None
    again = command("identify", str(bag), "--parameters", "m1", "--next", str(proposed), "--no-law")
    assert again.exit_code == 2
    assert "exists already" in again.stderr


@pytest.mark.slow
def test_what_is_written_keeps_a_combination_that_is_known_better_than_its_parts(tmp_path: Path) -> None:
    ahead = [f"controller.settings.{name}=0.3*sin(2*t) + 0.2*sin(5*t)" for name in ("U1", "U2")]
    bag, robot = recorded(tmp_path / "straight.mcap", "plant.initial.phi=0", *ahead), tmp_path / "robot.toml"
    command("identify", str(bag), "--parameters", "m1,m2,c.w", "--write", str(robot), "--no-law")
    written = tomllib.loads(robot.read_text())["plant"]["parameters"]
    found = servonode.identify(bag, "m1,m2,c_w", law=False)
    m1, m2 = (found.estimates[name] for name in ("m1", "m2"))
    assert (written["m1"], written["c_w"]) == (m1.shown, found.parameters["c_w"])
    (total,) = found.combinations
    assert total.name == "m1 + m2"
    assert min(m1.error, m2.error) > 50 * total.error
    assert abs(written["m1"] + written["m2"] - (m1.value + m2.value)) < 0.1 * total.error


def test_what_a_recording_does_not_tell_ends_with_1(bag: Path) -> None:
    straight = command("identify", str(bag), "--parameters", "m1,m_k,Iky", "--no-law")
    assert straight.exit_code == 1
    assert "only in combination" in straight.stdout


def test_segments_of_a_given_length_tell_the_same(bag: Path) -> None:
    found = servonode.identify(bag, NAMES, segment=1.0, law=False)
    assert [len(each.starts) for each in found.fit.parts] == [4]
    assert found.estimates["m1"].value == pytest.approx(5.0, rel=0.01)
    with pytest.raises(IdentificationError, match="fewer than 10 rows; give at least"):
        servonode.identify(bag, NAMES, segment=0.001, law=False)


@pytest.mark.slow
def test_readings_of_sensors_are_fitted_where_the_state_is_estimated(tmp_path: Path) -> None:
    text = "{X = 0.01, Y = 0.01, psi = 0.01, phi = 0.05, V = 0.05, Omega = 0.05, theta1 = 0.01, theta2 = 0.01}"
    file = recorded(tmp_path / "sensed.mcap", f"estimator.initial_std={text}")
    found = servonode.identify(file, NAMES, law=False)
    assert {each.channel for each in found.residuals} >= {"encoder_left", "gyroscope", "hitch_potentiometer"}
    for name, true in {"m1": 5.0, "c_w": 0.01}.items():
        assert abs(found.estimates[name].value - true) < 2 * found.estimates[name].error < 0.1 * true
    proposed = found.next_experiment()
    assert proposed.table["estimator"]["initial_std"]["phi"] == 0.05  # its sensors are read then too
    assert all(proposed.expected[name] < 0.95 * now for name, now in proposed.now.items())


def test_records_of_two_machines_are_refused(bag: Path) -> None:
    other = servonode.simulate("sphero_rolls", run__duration=1.0)
    with pytest.raises(IdentificationError, match="the first record of diff_drive_trailer"):
        servonode.identify([bag, other], NAMES)


def test_a_record_that_is_given_twice_is_refused(bag: Path) -> None:
    other_name = bag.parent / ".." / bag.parent.name / bag.name
    run = servonode.simulate("trailer_pursuit", run__duration=0.5)
    for records, shown in (([bag, other_name], str(other_name)), ([run, run], "a run")):
        with pytest.raises(IdentificationError, match=f"{shown}: is given twice, but tells no more so; give each rec"):
            servonode.identify(records, NAMES)


def test_in_real_time_the_clock_tells_from_which_step_a_command_acts() -> None:
    """States every 10 steps of 1 ms at double speed, up to 0.4 ms late; commands 3 steps after every third."""
    launch = SimpleNamespace(run=SimpleNamespace(mode="realtime", speed=2.0), step_ns=1_000_000)
    rng = np.random.default_rng(3)
    due = [10**9 + 5_000_000 * i for i in range(100)]
    late = rng.integers(0, 400_000, 100) * (np.arange(100) % 10 != 0)
    states = [{"k": 10 * i, "mono": at + int(each)} for i, (at, each) in enumerate(zip(due, late, strict=True))]
    states[0]["mono"] -= 3_000_000  # the first one is sent before the clock starts
    applied = [{"k": 10 * i, "mono": due[i] + (1_700_000 if i % 3 == 0 else 100_000)} for i in range(1, 100)]
    found = steps_of_commands(launch, states, applied)  # type: ignore[arg-type]
    assert found == {10 * i: 10 * i + (3 if i % 3 == 0 else 0) for i in range(1, 100)}
    launch.run.mode = "lockstep"
    assert steps_of_commands(launch, states, applied) == {10 * i: 10 * i for i in range(1, 100)}  # type: ignore[arg-type]


def test_rows_stand_where_inputs_change_and_where_something_was_measured() -> None:
    k, u = runs_of_inputs([0, 2, 5, 7], np.array([[1.0], [1.0], [2.0], [3.0]]), np.array([0, 4, 8]))
    assert k.tolist() == [0, 4, 5, 7, 8]
    assert u.ravel().tolist() == [1.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ("[plant]\nmachine = 'x'\n", "[plant]\nmachine = 'x'\n\n[plant.parameters]\nm1 = 5.0\n"),
        ("[plant]\nparameters.m1 = 4 # kg\n", "[plant]\nparameters.m1 = 5.0 # kg\n"),
        ("[plant]\nparameters = { m1 = 4.0 } # a\n", "[plant]\nparameters = { m1 = 5.0 } # a\n"),
        ("[plant]\nparameters = { b = 1.0 }\n", "[plant]\nparameters = { b = 1.0, m1 = 5.0 }\n"),
        ("[plant]\nparameters.b = 1\n[run]\n", "[plant]\nparameters.b = 1\nparameters.m1 = 5.0\n[run]\n"),
        (
            "[plant.parameters]\nm1 = 4 # a\n[controller.parameters]\nm1 = 3 # b\n",
            "[plant.parameters]\nm1 = 5.0 # a\n[controller.parameters]\nm1 = 5.0 # b\n",
        ),
        ("[controller.parameters]\nb = 1\n", "[controller.parameters]\nb = 1\n\n[plant.parameters]\nm1 = 5.0\n"),
    ],
)
def test_a_value_is_put_where_the_launch_file_states_it(before: str, wanted: str) -> None:
    assert changed(before, {"m1": 5.0}, {}, "robot.toml") == wanted


@pytest.mark.parametrize(
    "stated",
    [
        "[plant.parameters]\nfore.mass = {}\n",
        "[plant.parameters.fore]\nmass = {}\n",
        "[plant]\nparameters = {{ fore.mass = {} }}\n",
        "[plant.parameters]\nfore_mass = {}\n",
    ],
)
def test_a_parameter_of_a_link_is_changed_by_the_name_that_the_file_has(stated: str) -> None:
    assert changed(stated.format(4.0), {"fore_mass": 5.0}, {}, "robot.toml") == stated.format(5.0)


def test_a_parameter_stands_beside_those_of_links() -> None:
    before = "[plant]\nparameters.fore.mass = 4.0\n"
    assert changed(before, {"g": 9.8}, {}, "robot.toml") == f"{before}parameters.g = 9.8\n"
    before = "[plant.parameters.fore]\nmass = 4.0\n"
    assert changed(before, {"g": 9.8}, {}, "robot.toml") == f"{before}\n[plant.parameters]\ng = 9.8\n"


def test_a_file_that_is_no_toml_is_refused_and_a_new_one_has_the_section() -> None:
    with pytest.raises(IdentificationError, match=r"robot\.toml: is not TOML"):
        changed("m1: 4", {"m1": 5.0}, {}, "robot.toml")
    assert section_text({"m1": 5.0}, {"m1": "± 1 (95 %)"}) == "[plant.parameters]\nm1 = 5.0  # ± 1 (95 %)\n"
