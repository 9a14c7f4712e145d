"""Zero dynamics: what each program leaves free, and whether it stays, departs, escapes or stops the law."""

from typing import Any

import numpy as np
import pytest
from sympy import Piecewise, cos, sin

from servonode.analysis import perturbations
from servonode.analysis.zero_dynamics import ZeroDynamics, judge
from servonode.api import load, simulate
from servonode.mechanics import Model, coordinate, input_
from servonode.simulation import continuous_loop
from servonode.simulation.event_integration import SimulationError

OPPOSED = {"program": "hitch_angle", "completion": "opposed"}
TURNING = OPPOSED | {"g": "0.1*t", "V": 0.4, "Omega": -0.1}
SWINGING = OPPOSED | {"g": "pi/4*sin(0.1*t)", "V": 0.4, "Omega": -0.1 * np.pi / 4}
FORWARD = {"program": "look_ahead", "x": "0.3*t", "y": "0"}
BACKWARD = {"program": "look_ahead", "x": "-0.3*t", "y": "0", "X": -0.3, "V": -0.3}
SPEED = {"program": "hitch_angle", "completion": "speed"}
PATH = {"program": "trailer_path", "travel": "backward", "v": "-0.4", "Y": 1.0, "psi": 0.2, "phi": 0.3, "V": -0.4}
PURSUIT = {"program": "pursuit", "x": "6*sin(0.05*t) - sin(0.3*t) + 2", "y": "5 + cos(0.3*t) - 6*cos(0.05*t)"}
LOSING_RANK = {"program": "hitch_angle", "completion": "yaw_rate", "g": "0.3*cos(0.5*t)", "phi": 0.3}


def stated(duration: float, program: str | None, values: dict[str, Any]) -> dict[str, Any]:
    """A launch file of these values, by their names."""
    sections = {
        "initial": ("X", "Y", "psi", "phi", "V", "Omega"),
        "parameters": ("d1",),
        "settings": ("completion", "g", "v", "V_max", "travel", "U1", "U2"),
        "target": ("x", "y"),
    }
    found = {word: {n: values[n] for n in names if n in values} for word, names in sections.items()}
    plant = {"machine": "diff_drive_trailer", "initial": found["initial"], "parameters": found["parameters"]}
    made: dict[str, Any] = {"run": {"duration": duration}, "plant": plant, "target": found["target"]}
    return made | ({"controller": {"program": program, "settings": found["settings"]}} if program else {})


def judged(duration: float, program: str | None = None, **values: Any) -> ZeroDynamics:
    """The judgement on a launch file of these values."""
    return judge(load(stated(duration, program, values), strict=False).closed_loop)


# what a launch file is judged to be: time [s] of an escape or stop, rate [1/s] of a growth
CASES: dict[str, tuple[float, dict[str, Any], str, str | None, Any]] = {
    "turning escapes at the printed time": (60.0, TURNING, "escaping", "V", pytest.approx(17.5126185, abs=1e-5)),
    "swinging escapes at the printed time": (60.0, SWINGING, "escaping", "V", pytest.approx(49.2781332, abs=1e-5)),
    # V_max = 10 m/s is passed at 16.9 s: foreseen
    "it ends at its guard": (17.0, TURNING, "escaping", "V", pytest.approx(17.5126185, abs=1e-5)),
    "it ends before its guard": (12.0, TURNING, "bounded", None, None),
    "turning with the mass on the axle": (130.0, TURNING | {"d1": 0.0}, "bounded", None, None),
    "swinging with the mass on the axle": (130.0, SWINGING | {"d1": 0.0}, "bounded", None, None),
    "the speed forward": (60.0, SPEED | {"v": "0.4", "V": 0.4}, "bounded", None, None),
    "the speed backward": (60.0, SPEED | {"v": "-0.4", "V": -0.4}, "bounded", None, None),
    # V lags v(t) by nothing on the constraint; one step of the solver
    "a demanded speed meets a guard": (20.0, SPEED | {"v": "t", "V_max": 5.0}, "leaves its domain", None,
                                       pytest.approx(5.0, abs=0.6)),
    "ahead, forward": (20.0, FORWARD | {"X": -0.3, "V": 0.3}, "bounded", None, None),
    "ahead, beside its line": (20.0, FORWARD | {"X": -0.2, "psi": 0.4}, "bounded", None, None),
    "the robot has turned over long ago": (60.0, BACKWARD | {"psi": 1e-3}, "growing", None,
                                           pytest.approx(1.0, rel=0.2)),
    "a trailer on a path, backward": (30.0, PATH, "bounded", None, None),
    "pursuit": (125.664, PURSUIT, "bounded", None, None),
    "a trailer pushed back": (30.0, {"program": "rates", "v": "-0.4", "V": -0.4}, "growing", "phi",
                              pytest.approx(0.4 / 1.0, rel=1e-3)),  # V / b
    # where the trailer is straight the law loses rank
    "rank is lost on the way": (10.0, LOSING_RANK, "escaping", None, pytest.approx(np.pi, abs=0.02)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_judgement_on_a_program_of_the_trailer(case: str) -> None:
    duration, values, judgement, state, when = CASES[case]
    found = judged(duration, **values)
    assert found.judgement == judgement or (case.startswith("rank") and found.judgement == "leaves its domain")
    assert state is None or found.state == state
    if judgement == "bounded":
        assert (found.rate, found.time) == (None, None)
    else:
        assert (found.rate if judgement == "growing" else found.time) == when
    if case == "turning escapes at the printed time":
        assert "V goes to infinity at t = 17.51 s; hold V by another residual" in found.text
    elif case == "a demanded speed meets a guard":
        assert "the law stops at t = 5" in found.text


def test_opposed_torques_leave_the_speed_and_the_place_free() -> None:
    found = judged(5.0, **SWINGING)
    assert found.internal == ("X", "Y", "psi", "V", "theta1", "theta2")
    assert found.passive == ("X", "Y", "psi", "theta1", "theta2")
    assert found.text.startswith("left free: X, Y, psi, V, theta1, theta2; over 5 s nothing runs away")


def test_what_is_left_free_ahead_of_the_robot_and_by_the_speed() -> None:
    assert judged(20.0, **FORWARD, X=-0.3, V=0.3).internal == ("psi", "phi", "theta1", "theta2")
    assert not {"V", "Omega"} & {*judged(5.0, **SPEED, v="0.4", V=0.4).internal}


def test_looking_ahead_backward_departs_at_the_speed_over_the_distance() -> None:
    found = judged(20.0, program="look_ahead", x="-0.3*t", y="0", X=-0.3, V=-0.3)
    assert found.judgement == "growing"
    assert found.rate == pytest.approx(0.3 / 0.3, rel=1e-3)  # V / L
    assert found.state in ("psi", "phi", "Omega")
    assert "unstable, +1 1/s at zero: non-minimum phase" in found.text
    assert "turn the direction of travel" in found.text


def test_coordinates_that_only_integrate_do_not_count_as_growing() -> None:
    found = judged(60.0, program="open_loop", U1=0.02, U2=0.03, phi=0.3, V=0.4)
    assert found.judgement == "bounded"
    assert found.passive == ("X", "Y", "psi", "theta1", "theta2")
    assert {"V", "Omega"} <= {*found.internal}


@pytest.mark.parametrize("power", [1, 2])
def test_a_power_of_time_is_no_growth_and_an_exponential_is(power: int) -> None:
    times = np.linspace(0.0, 50.0, 300)
    directions = [np.eye(4)] * len(times)
    slow = perturbations.Motion(list(times), list(np.tile(power * np.log1p(10 * times), (4, 1)).T), directions)
    fast = perturbations.Motion(list(times), list(np.tile(0.2 * times, (4, 1)).T), directions)
    assert perturbations.growth(slow)[0] is None
    assert perturbations.growth(fast)[0] == pytest.approx(0.2, rel=1e-9)


def test_a_machine_without_controller_is_all_free() -> None:
    found = judged(20.0, phi=0.9, V=0.5, Omega=0.8)
    assert (found.judgement, found.internal[4:6]) == ("bounded", ("V", "Omega"))


def test_a_motion_of_too_many_steps_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous_loop, "MAX_STEPS", 5)
    with pytest.raises(SimulationError, match=r"took 5 steps to t = .* s; judge a shorter duration"):
        judged(60.0, **SWINGING)


def test_the_judged_motion_stops_where_the_simulated_one_does() -> None:
    values = OPPOSED | {"completion": "one_motor", "V": 0.4, "Omega": -0.1 * np.pi / 4}
    with pytest.raises(SimulationError, match="the speed has passed V_max") as caught:
        simulate(stated(8.0, values["program"], values), control="continuous")
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


def hoop() -> Model:
    """A damped bead on a hoop that turns freely: below it rests at each speed, up to sqrt(g) stably."""
    p, a, F = coordinate("p", "hoop", "rad"), coordinate("a", "bead", "rad"), input_("F", "", "N m")
    kinetic = ((10 + sin(a) ** 2) * p.rate**2 + a.rate**2) / 2
    return Model("hoop", "bead on a hoop", kinetic, coordinates=(p, a), potential=-9.81 * cos(a),
                 dissipation=50 * a.rate**2, inputs={F: p.rate})  # fmt: skip


@pytest.mark.parametrize(("speed", "bead"), [(3.6, 1e-4), (3.6, 1e-2), (2.7, 1e-2)])
def test_an_open_loop_is_judged_at_the_equilibrium_of_the_speed_that_its_run_conserves(
    speed: float, bead: float
) -> None:
    controller = {"program": "open_loop", "period": 0.01, "settings": {"F": 0.0}}
    plant = {"machine": hoop, "initial": {"p_dot": speed, "a": bead}}
    found = judge(load({"run": {"duration": 20.0}, "plant": plant, "controller": controller}).closed_loop)
    slow = np.roots([1, 100, 9.81 - speed**2]).max()
    (at,) = found.near
    assert at.values[at.names.index("p_dot")] == pytest.approx(speed, rel=1e-3)
    assert np.abs(at.eigenvalues - slow).min() < 5e-3 * abs(slow)
    assert found.diverges == (slow > 0)
    assert "is refused" not in found.text  # for there is no goal


def backlash() -> Model:
    """A motor and a load behind 0.02 rad of play."""
    a, b, u = coordinate("a", "motor", "rad"), coordinate("b", "load", "rad"), input_("u", "torque", "N m")
    d, g = a - b, 0.02
    T = 200 * Piecewise((d - g, d > g), (d + g, d < -g), (0, True))
    return Model("back", "backlash", (0.02 * a.rate**2 + 0.1 * b.rate**2) / 2, coordinates=(a, b), inputs={u: a.rate},
                 dissipation=0.05 * (a.rate**2 + b.rate**2), forces=((-T, a.rate), (T, b.rate)))  # fmt: skip


@pytest.mark.parametrize("duration", [4.0, 12.0])
def test_a_motion_that_stays_within_its_play_is_judged_by_its_bound_not_by_a_rate(duration: float) -> None:
    controller = {"residuals": {"motor": "a - sin(t)"}, "gains": {"lambda": 5.0}}
    plant = {"machine": backlash}
    loop = load({"run": {"duration": duration}, "plant": plant, "controller": controller}).closed_loop
    motion = perturbations.follow(continuous_loop.ContinuousLoop(loop), duration, np.ones(4, dtype=bool))
    assert perturbations.growth(motion)[0] is not None
    found = judge(loop)
    assert found.judgement == "bounded"
    assert 1 < found.growth < 20
