"""Zero dynamics: what each program leaves free, and whether it stays, departs, escapes or stops the law."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servonode.analysis import perturbations
from servonode.analysis.zero_dynamics import ZeroDynamics, judge
from servonode.api import simulate
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.simulation import continuous_loop
from servonode.simulation.event_integration import SimulationError

Judge = Callable[..., ZeroDynamics]
OPPOSED = {"program": "hitch_angle", "completion": "opposed"}
TURNING = OPPOSED | {"g": "0.1*t", "V": 0.4, "Omega": -0.1}
SWINGING = OPPOSED | {"g": "pi/4*sin(0.1*t)", "V": 0.4, "Omega": -0.1 * np.pi / 4}
FIGURE_2 = {"x": "6*sin(0.05*t) - sin(0.3*t) + 2", "y": "5 + cos(0.3*t) - 6*cos(0.05*t)"}
SECTIONS = {
    "plant.initial": ("X", "Y", "psi", "phi", "V", "Omega"),
    "plant.parameters": ("d1",),
    "controller.settings": ("completion", "g", "v", "V_max", "travel", "U1", "U2"),
    "target": ("x", "y"),
}


def launch_text(duration: float, program: str | None, values: dict[str, Any]) -> str:
    lines = ["[run]", f"duration = {duration}", "[plant]", 'machine = "diff_drive_trailer"']
    lines += ["[controller]", f'program = "{program}"'] if program else []
    for section, names in SECTIONS.items():
        given = {name: values[name] for name in names if name in values}
        if given:
            lines += [f"[{section}]", *(f"{name} = {value!r}".replace("'", '"') for name, value in given.items())]
    return "\n".join(lines)


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., Path]:
    """A launch file of these values."""

    def launch(duration: float, program: str | None = None, **values: Any) -> Path:
        file = tmp_path / "launch.toml"
        file.write_text(launch_text(duration, program, values))
        return file

    return launch


@pytest.fixture
def judged(launch: Callable[..., Path]) -> Judge:
    """The judgement on a launch file of these values."""
    return lambda duration, **values: judge(resolve(read_launch(launch(duration, **values)), strict=False))


@pytest.mark.parametrize(
    ("values", "time"), [(TURNING, 17.5126185), (SWINGING, 49.2781332)], ids=["turning", "swinging"]
)
def test_opposed_torques_escape_at_the_printed_time(judged: Judge, values: Any, time: float) -> None:
    found = judged(60.0, **values)
    assert (found.judgement, found.state) == ("escaping", "V")
    assert found.time == pytest.approx(time, abs=1e-5)  # followed to 1e6 m/s, a microsecond before the end
    assert f"V goes to infinity at t = {time:.4g} s; hold V by another residual" in found.text


def test_an_escape_is_foreseen_by_a_run_that_ends_at_its_guard(judged: Judge) -> None:
    found = judged(17.0, **TURNING)  # V_max = 10 m/s is passed at 16.9 s
    assert found.time == pytest.approx(17.5126185, abs=1e-5)


def test_a_run_that_ends_before_its_guard_is_bounded(judged: Judge) -> None:
    assert judged(12.0, **TURNING).judgement == "bounded"


@pytest.mark.parametrize("values", [TURNING, SWINGING], ids=["turning", "swinging"])
def test_opposed_torques_are_bounded_when_the_mass_is_on_the_axle(judged: Judge, values: Any) -> None:
    found = judged(130.0, d1=0.0, **values)
    assert (found.judgement, found.rate, found.time) == ("bounded", None, None)


def test_opposed_torques_leave_the_speed_and_the_place_free(judged: Judge) -> None:
    found = judged(5.0, **SWINGING)
    assert found.internal == ("X", "Y", "psi", "V", "theta1", "theta2")
    assert found.passive == ("X", "Y", "psi", "theta1", "theta2")
    assert found.free_velocities == 1
    assert found.text.startswith("left free: X, Y, psi, V, theta1, theta2; over 5 s nothing runs away")


@pytest.mark.parametrize("v", [0.4, -0.4])
def test_the_speed_completion_is_bounded_both_ways(judged: Judge, v: float) -> None:
    found = judged(60.0, program="hitch_angle", completion="speed", v=f"{v}", V=v)
    assert found.judgement == "bounded"
    assert found.free_velocities == 0


def test_a_guard_that_a_demanded_speed_meets_is_no_escape(judged: Judge) -> None:
    found = judged(20.0, program="hitch_angle", completion="speed", v="t", V_max=5.0)
    assert found.judgement == "leaves its domain"
    assert found.time == pytest.approx(5.0, abs=0.6)  # V lags v(t) by nothing on the constraint; one step of the solver
    assert "the law stops at t = 5" in found.text


def test_looking_ahead_is_bounded_forward(judged: Judge) -> None:
    found = judged(20.0, program="look_ahead", x="0.3*t", y="0", X=-0.3, V=0.3)
    assert (found.judgement, found.internal) == ("bounded", ("psi", "phi", "theta1", "theta2"))
    assert judged(20.0, program="look_ahead", x="0.3*t", y="0", X=-0.2, psi=0.4).judgement == "bounded"


def test_looking_ahead_backward_departs_at_the_speed_over_the_distance(judged: Judge) -> None:
    found = judged(20.0, program="look_ahead", x="-0.3*t", y="0", X=-0.3, V=-0.3)
    assert found.judgement == "growing"
    assert found.rate == pytest.approx(0.3 / 0.3, rel=1e-3)  # V / L
    assert found.state in ("psi", "phi", "Omega")
    assert "unstable, +1 1/s at zero: non-minimum phase" in found.text
    assert "turn the direction of travel" in found.text


def test_a_departure_is_found_though_the_robot_has_turned_over_long_ago(judged: Judge) -> None:
    found = judged(60.0, program="look_ahead", x="-0.3*t", y="0", X=-0.3, V=-0.3, psi=1e-3)
    assert found.judgement == "growing"
    assert found.rate == pytest.approx(1.0, rel=0.2)


def test_a_trailer_on_a_path_is_bounded_backward(judged: Judge) -> None:
    found = judged(30.0, program="trailer_path", travel="backward", v="-0.4", Y=1.0, psi=0.2, phi=0.3, V=-0.4)
    assert found.judgement == "bounded"


def test_pursuit_is_bounded(judged: Judge) -> None:
    assert judged(125.664, program="pursuit", **FIGURE_2).judgement == "bounded"


def test_a_trailer_pushed_back_without_steering_departs_at_the_speed_over_its_length(judged: Judge) -> None:
    found = judged(30.0, program="rates", v="-0.4", V=-0.4)
    assert (found.judgement, found.state) == ("growing", "phi")
    assert found.rate == pytest.approx(0.4 / 1.0, rel=1e-3)  # V / b


def test_coordinates_that_only_integrate_do_not_count_as_growing(judged: Judge) -> None:
    found = judged(60.0, program="open_loop", U1=0.02, U2=0.03, phi=0.3, V=0.4)
    assert found.judgement == "bounded"
    assert found.passive == ("X", "Y", "psi", "theta1", "theta2")
    assert found.free_velocities == 2


@pytest.mark.parametrize("power", [1, 2])
def test_a_power_of_time_is_no_growth_and_an_exponential_is(power: int) -> None:
    times = np.linspace(0.0, 50.0, 300)
    directions = [np.eye(4)] * len(times)
    slow = perturbations.Motion(list(times), list(np.tile(power * np.log1p(10 * times), (4, 1)).T), directions)
    fast = perturbations.Motion(list(times), list(np.tile(0.2 * times, (4, 1)).T), directions)
    assert perturbations.growth(slow)[0] is None
    assert perturbations.growth(fast)[0] == pytest.approx(0.2, rel=1e-9)


def test_a_machine_without_controller_is_all_free(judged: Judge) -> None:
    found = judged(20.0, phi=0.9, V=0.5, Omega=0.8)
    assert (found.judgement, found.internal[4:6], found.free_velocities) == ("bounded", ("V", "Omega"), 2)


def test_a_law_that_loses_rank_on_the_way_is_not_bounded(judged: Judge) -> None:
    found = judged(10.0, program="hitch_angle", completion="yaw_rate", g="0.3*cos(0.5*t)", phi=0.3)
    assert found.judgement in ("escaping", "leaves its domain")
    assert found.time == pytest.approx(np.pi, abs=0.02)  # where the trailer is straight


def test_a_motion_of_too_many_steps_is_refused_with_the_remedy(judged: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous_loop, "MAX_STEPS", 5)
    with pytest.raises(SimulationError, match=r"took 5 steps to t = .* s; judge a shorter duration"):
        judged(60.0, **SWINGING)


def test_the_judged_motion_stops_where_the_simulated_one_does(judged: Judge, launch: Any) -> None:
    values = OPPOSED | {"completion": "one_motor", "V": 0.4, "Omega": -0.1 * np.pi / 4}
    with pytest.raises(SimulationError, match="the speed has passed V_max") as caught:
        simulate(str(launch(8.0, **values)), control="continuous")
    stopped = float(str(caught.value).split()[3])
    found = judged(8.0, **values)
    assert found.time is not None
    assert stopped < found.time < stopped + 1.0


def test_the_transient_of_a_fast_law_is_no_growth() -> None:
    """It ends within the first of the times at which a growth is looked at; an exponential that fast goes on."""
    times = np.append(np.linspace(0.0, 0.1, 500), np.linspace(0.2, 10.0, 100))

    def seen(log: Any) -> perturbations.Motion:
        logs = [np.full(perturbations.COPIES, value) for value in log]
        return perturbations.Motion(times.tolist(), logs, [np.eye(perturbations.COPIES)] * len(times))

    transient = np.log(1 + 500 * (1 - np.exp(-200 * times)))
    assert perturbations.growth(seen(transient))[0] is None
    assert perturbations.growth(seen(np.minimum(200 * times, 10.0)))[0] == pytest.approx(200.0, rel=0.05)
    assert perturbations.growth(seen(2 * times))[0] == pytest.approx(2.0, rel=1e-6)
