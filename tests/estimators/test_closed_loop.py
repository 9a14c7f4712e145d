"""The law on an estimate: in one process, in processes in lockstep, behind a link, and what a launch file may say."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import LaunchError, launch_of_table, read_launch

ENCODERS = ["encoder_left", "encoder_right"]
LAUNCH: dict[str, Any] = {
    "run": {"duration": 3.0, "mode": "lockstep"},
    "plant": {"machine": "diff_drive_trailer", "publish_every": 10},
    "controller": {"program": "pursuit"},
    "estimator": {"process_noise": 0.02},
    "target": {"x": "6*sin(0.05*t) - sin(0.3*t) + 2", "y": "5 + cos(0.3*t) - 6*cos(0.05*t)"},
}


def table(**sections: dict[str, Any]) -> dict[str, Any]:
    return {**LAUNCH, **{name: {**LAUNCH.get(name, {}), **given} for name, given in sections.items()}}


def closed_loop(**sections: dict[str, Any]) -> ClosedLoop:
    return resolve(launch_of_table(table(**sections)))


def simulated(**sections: dict[str, Any]) -> Any:
    return servonode.simulate(table(**sections), every=10)


def test_the_estimate_is_near_the_truth_and_as_near_as_it_says() -> None:
    run = simulated(run={"duration": 10.0})
    estimate = run.estimate
    for name, values in estimate.state.items():
        assert np.mean(np.abs(values - run.state[name]) < 3 * estimate.std[name]) > 0.95, name
    assert 0.8 < estimate.nis.sum() / estimate.readings.sum() < 1.2
    assert max(np.abs(estimate.residual["heading"][-100:])) < 0.02
    assert set(estimate.columns) <= set(run.columns)
    assert run.units["std_phi"] == "rad"


def test_other_sensors_leave_the_readings_of_one_as_they_were() -> None:
    def read(loop: ClosedLoop) -> list[float]:
        plant, came = loop.plant(), []
        for _ in range(20):
            came += (plant.read().readings or {}).get("gyroscope", [])
            plant.advance(10)
        return came

    noisy = {"sensors": {"accelerometer_left": {"noise": 3.0}, "camera_x": {"rate": 333.0, "drop": 0.5}}}
    found = read(closed_loop())
    assert read(closed_loop(plant=noisy)) == found
    assert found[::2] == [float(k) for k in range(0, 200, 10)]
    assert len(set(found[1::2])) == 20


def test_readings_keep_their_rate_their_delay_and_their_loss() -> None:
    stated = {"rate": 40.0, "delay": 0.03, "noise": 0.0, "quantum": 0.25, "lost_from": 0.5, "lost_for": 0.25}
    plant = closed_loop(plant={"sensors": {"camera_x": stated}}, estimator={"sensors": ENCODERS}).plant()
    came: list[tuple[int, float, float]] = []
    while plant.k <= 1000:
        pairs = (plant.read().readings or {}).get("camera_x", [])
        came += [(plant.k, *pair) for pair in zip(pairs[::2], pairs[1::2], strict=True)]
        plant.advance(1)
    assert [measured for _, measured, _ in came] == [k for k in range(0, 971, 25) if not 500 <= k < 750]
    assert {there - measured for there, measured, _ in came} == {30.0}
    assert all(value % 0.25 == 0 for _, _, value in came)


def test_without_an_estimator_a_run_has_the_bits_that_it_had() -> None:
    plain = {name: values for name, values in LAUNCH.items() if name != "estimator"}
    read = {**plain, "plant": {**plain["plant"], "sensors": {"gyroscope": {"noise": 1.0}}}}
    a, b = (servonode.simulate(each, every=10) for each in (plain, read))
    assert {name: x.tobytes() for name, x in a.columns.items()} == {name: x.tobytes() for name, x in b.columns.items()}
    assert a.estimate is None


def test_a_machine_that_sends_no_readings_is_a_fault_and_no_dead_reckoning() -> None:
    names = [each.name for each in closed_loop().machine.description.sensors]
    mute = {"sensors": {name: {"lost_from": 0.0, "lost_for": 100.0} for name in names}}
    run = simulated(plant=mute)
    assert "no reading of encoder_left, encoder_right" in run.fault["text"]
    assert run.fault["t"] < 0.3


def test_an_estimate_that_is_not_finite_is_a_fault() -> None:
    run = simulated(estimator={"initial": {"V": 1e50, "Omega": 1e50}, "initial_std": 1e50})
    assert "the estimate is no longer finite" in run.fault["text"]


READINGS = "plant.sensors.gyroscope"
REFUSED = [  # what the launch file says, the section that is named, the answer
    ("estimator.sensors=['gyro']", "estimator.sensors", "gyro: unknown name; did you mean gyroscope"),
    ("estimator.sensors=[]", "estimator", "none is named; choose from encoder_left"),
    ("estimator.process_noise={W = 1.0}", "estimator.process_noise", "unknown name"),
    ("estimator.initial={phi = [1.0]}", "estimator.initial", "not a number; give it so"),
    ("estimator.gate=0.999", "estimator", "give a distance, such as 3.29, within which a share of 0.999"),
    ("estimator.gate={gyroscope = 1.5}", "estimator.gate", "would reject 13% of all good readings; give 3 to"),
    ("estimator.gate={lidar = 4.0}", "estimator.gate", "unknown name; choose"),
    ("estimator.sensors=['encoder_left'] estimator.gate={gyroscope=4.0}", "estimator.gate", "choose encoder_left"),
    ("supervision.controller='on-failure'", "supervision", "restarted has lost its estimate"),
    ("plant.sensors.lidar={}", "plant.sensors", "unknown name; choose"),
    ("plant.sensors.gyroscope=3", READINGS, r"3 is not a section; write its keys below"),
    ("plant.sensors.gyroscope.noise=-1.0", READINGS, "not a number >= 0"),
    ("plant.sensors.gyroscope.noise=0.0", READINGS, "neither noise nor quantum"),
    ("plant.sensors.gyroscope.rate=5000.0", READINGS, "faster than the plant's"),
    (
        "plant.publish_every=1000 controller.period=0.15 plant.sensors.gyroscope.rate=1000.0", READINGS,
        "150 readings would come with one state message, .* 1000 Hz only with plant.publish_every = 127 or less",
    ),
    ("plant.sensors.gyroscope.lost_for=2.0", READINGS, "no effect without lost_from"),
    ("plant.sensors.gyroscope.delay=200.0", READINGS, "more than 100000 plant steps"),
]  # fmt: skip


@pytest.mark.parametrize(("stated", "section", "text"), REFUSED)
def test_a_mistake_names_section_and_remedy(stated: str, section: str, text: str) -> None:
    with pytest.raises(LaunchError, match=text) as caught:
        resolve(read_launch("trailer_estimated", re.split(r" (?=[a-z]+\.)", stated)))
    assert caught.value.section == section


def test_an_estimator_needs_a_controller_and_a_machine_with_sensors(tmp_path: Path) -> None:
    alone = {name: LAUNCH[name] for name in ("run", "plant", "estimator")}
    with pytest.raises(LaunchError, match=r"there is no \[controller\] that would use the estimate"):
        resolve(launch_of_table(alone))
    with pytest.raises(LaunchError, match="machine snowboarder defines no sensors"):
        servonode.load("snowboarder_straight", estimator__initial_std=0.1)
