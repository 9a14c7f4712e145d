"""The hoop on a profile as runs: its preparation, its launch files, faults that are located, refusals."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import servonode
from servonode.closed_loop.launch_file import LaunchError, read_launch
from servonode.errors import ModelError
from servonode.plants.hoop.start import prepare
from servonode.plants.prepare import Prepared, Unprepared, Wanted
from servonode.record.run import Run
from tests.helpers import hoop_sheet
from tests.helpers.hoop_sheet import DEFAULT, Reduced, standard

Print = Callable[[Any, str], None]
BOWL = "x**2 + z**2 - 4"
WAVE = hoop_sheet.wave()
NAMES = ("x", "z", "theta", "x_dot", "z_dot", "theta_dot", "alpha")


def launch(**plant: Any) -> dict[str, Any]:
    """A launch file of 10 s; words of [plant], of which `initial`, `parameters`, `settings` are its sections."""
    return {"run": {"duration": 10.0}, "plant": {"machine": "hoop_on_profile", **plant}}


def simulated(name: str | dict[str, Any], **overrides: Any) -> Run:
    run: Run = servonode.simulate(name, **overrides)
    return run


def final(run: Run) -> Any:
    """The last state (7,)."""
    return np.array([run.state[name][-1] for name in NAMES])


WANTED = Wanted(
    settings={"profile": standard.text, "turning": "blended"},
    parameters=DEFAULT | {"lambda": 10.0, "epsilon": 1.0, "E_0": 0.0, "floor": 1e-8},
    given=frozenset(),
    varying=frozenset(),
    disturbed=frozenset(),
    initial={},
    step=1e-3,
    integrator="rk4",
    duration=10.0,
)


def found(profile: str = "", step: float | None = 1e-3, **more: Any) -> Prepared:
    """What is prepared: of a profile, with parameters and starts by their names, and fields of Wanted."""
    parameters, initial, fields = dict(WANTED.parameters), {}, {}
    given = set()
    for name, value in more.items():
        if name in ("integrator", "duration", "varying", "disturbed"):
            fields[name] = value
        elif name.removesuffix("_") in parameters:
            parameters[name.removesuffix("_")] = value
            given.add(name.removesuffix("_"))
        else:
            initial[name] = value
    settings = WANTED.settings | ({"profile": profile} if profile else {})
    wanted = dataclasses.replace(WANTED, settings=settings, step=step, **fields)
    return prepare(dataclasses.replace(wanted, parameters=parameters, initial=initial, given=frozenset(given)))


# the start


@pytest.mark.parametrize("curve", [standard, WAVE, hoop_sheet.ellipse(2.0, 1.0)], ids=lambda curve: curve.text)
def test_a_start_of_abscissa_and_speed_is_on_the_profile(curve: hoop_sheet.Curve) -> None:
    p = {"M": 1.3, "r": 0.02, "kappa": 0.4, "g": 9.81}
    for q, s in ((0.3, 0.0), (-0.5, 0.7), (0.8, -1.1)):
        start = found(curve.text, q=q, s=s, **p)
        exact = Reduced(curve, p)
        expected = exact.state((q, s, 0.0))
        assert [start.initial[name] for name in NAMES] == pytest.approx(list(expected), rel=1e-12, abs=1e-13)
        assert start.parameters["E_0"] == pytest.approx(exact.energy(q, s), rel=1e-13)


def test_without_a_start_it_is_released_at_rest_at_1() -> None:
    assert found().initial == found(q=1.0, s=0.0).initial
    run = simulated(launch(), run__duration=0.01)
    assert final(run) == pytest.approx(final(simulated("hoop_rolls", run__duration=0.01)), rel=1e-15)


def test_a_start_in_states_overrides_or_is_taken_as_it_is() -> None:
    plain, moved = found(q=0.4, s=1.0), found(q=0.4, s=1.0, x_dot=2.0, theta=3.0)
    assert moved.initial == plain.initial | {"x_dot": 2.0, "theta": 3.0}
    assert moved.parameters["E_0"] == plain.parameters["E_0"]
    state = {"x": 0.5, "z": -0.58, "x_dot": 0.3, "z_dot": 0.1, "theta_dot": -20.0, "alpha": -1.5, "theta": 0.2}
    start = found(**state)
    assert start.initial == state
    energy = 0.5 * (0.3**2 + 0.1**2 + (0.01 * 20) ** 2) - 9.81 * 0.58
    assert start.parameters["E_0"] == pytest.approx(energy, rel=1e-14)


def test_what_the_launch_file_gives_is_not_chosen() -> None:
    start = found(lambda_=20.0, epsilon=3.0, E_0=1.0)
    assert start.parameters == {}
    assert start.step is None
    run = simulated(launch(parameters={"E_0": 0.5, "lambda": 20.0}), run__duration=1.0)
    assert run.closed_loop.machine.parameters["E_0"] == 0.5
    assert run.energy[-1] == pytest.approx(0.5, abs=1e-6)  # the energy is brought there
    chosen = simulated(launch(parameters={"E_0": "auto", "lambda": "auto"}), run__duration=0.1)
    assert chosen.closed_loop.machine.parameters["E_0"] == pytest.approx(0.02876894697449, abs=1e-14)


def test_of_several_heights_the_falling_one_is_taken_or_the_one_that_is_named() -> None:
    assert found(BOWL, q=1.0, r=0.1).initial["z"] < -1.5
    twice = "(z**2 - 1)*(z**2 - 4)*0.1*z - 0.01*x"  # five heights, of which two have h falling upwards
    with pytest.raises(ModelError, match="several heights at x = 0; give one as z_a"):
        found(twice, q=0.0)
    low, high = (found(twice, q=0.0, z_a=z, duration=0.01).initial["z"] for z in (-1.1, 0.9))
    assert [low, high] == pytest.approx([-0.99, 1.01], abs=1e-3)


# lambda, epsilon, step


def test_epsilon_is_a_small_part_of_the_fastest_turning() -> None:
    assert found().parameters["epsilon"] == 1.0  # 0.004*243.5, to one digit
    assert found(r=0.1).parameters["epsilon"] == 0.09
    assert found("-0.3*x", r=0.05).parameters["epsilon"] == 0.02 / 0.05  # it falls for ever
    assert found("x**2", q=0.0).parameters["epsilon"] > 0  # at rest where it is lowest


def test_the_rate_and_step_follow_from_the_integrator() -> None:
    rates = {
        ("rk4", 1e-3): 10.0, ("rk4", 1e-5): 10.0, ("rk4", 0.05): 2.0, ("euler", 1e-4): 1000.0,
        ("rk2", 1e-5): 1000.0, ("heun", 1e-3): 10.0, ("ralston", 1e-4): 100.0, ("rk2", 0.02): 5.0,
    }  # fmt: skip
    for (integrator, step), rate in rates.items():
        assert found(step=step, integrator=integrator).parameters["lambda"] == pytest.approx(rate, rel=1e-12)
    start = found(step=None, integrator="rk2", duration=101.0)
    assert start.step == 1e-5
    assert start.parameters["lambda"] == 1000.0
    assert found(step=None, duration=101.0).step == 1e-3


AUTOMATIC = [("euler", 1e-6), *((name, floor) for name in ("rk2", "heun", "ralston", "rk4") for floor in (1e-6, 1e-8))]


@pytest.mark.parametrize(("integrator", "floor"), AUTOMATIC)
def test_an_automatic_step_leaves_residuals_of_the_wanted_size(integrator: str, floor: float) -> None:
    file = launch(step="auto", integrator=integrator, parameters={"floor": floor}, publish_every=1)
    duration = 0.4 if integrator == "euler" else 3.5
    run = simulated(file, run__duration=duration)
    largest = max(run.residual_max.values())
    assert 0.002 * floor < largest <= (2.0 if integrator == "euler" else 1.1) * floor
    step = run.closed_loop.launch.step_ns
    digits = f"{step:e}".partition("e")[0].rstrip("0").rstrip(".")
    assert digits in ("1", "2", "5")
    assert round(duration * 1e9) % step == 0


def test_a_rate_near_its_limit_or_that_varies_is_remarked_upon() -> None:
    assert found(lambda_=1000.0, integrator="rk2").notes == ()
    (note,) = found(lambda_=1500.0, integrator="rk2").notes
    assert note == "lambda*step = 1.5 is near the limit of rk2; stay up to 1"
    (note,) = found(lambda_=600.0).notes
    assert "stay up to 0.5" in note
    assert found(lambda_=20.0, varying=frozenset({"lambda"})).notes == (
        "lambda varies and was judged at t = 0 only: with this step it may become 500, "
        "and from 2600 on residuals grow with rk4",
    )


# an E_0 that the start does not have


def test_an_energy_that_the_start_does_not_have_is_remarked_upon() -> None:
    assert found(E_0=0.02876894697449).notes == ()
    (note,) = found(E_0=5.0).notes
    assert note.startswith(
        "the initial state has 0.0287689 J and E_0 is 5 J: the residual 'energy' starts at -4.971 J and decays"
    )
    (note,) = found(E_0=5.0, lambda_=0.0).notes
    assert "stays, for lambda = 0" in note
    (note,) = found(q=0.0, s=2.0, E_0=-4.0).notes  # less than the initial energy, not less than at rest there
    assert "the initial state has -0.807719 J" in note


def test_the_residual_of_the_energy_starts_at_that_difference() -> None:
    run = simulated(launch(parameters={"E_0": 5.0}), every=1)
    assert run.residual["energy"][0] == pytest.approx(0.02876894697449 - 5.0, abs=1e-13)
    assert abs(run.residual["energy"][-1]) < 1e-7
    assert run.state["x"].max() > 1.1


def test_less_energy_than_at_rest_at_the_start_is_refused() -> None:
    for energy in (-10.0, -5.0, 0.028):
        with pytest.raises(ModelError, match="less than the hoop has at rest where it starts"):
            found(E_0=energy)
    assert found(q=-0.5, r=0.3).notes == ()  # it stays in the left valley
    with pytest.raises(ModelError, match=r"too narrow a valley at x = 0\.619"):  # E_0 lifts it over the hill
        found(q=-0.5, r=0.3, E_0=3.0)
    with pytest.raises(ModelError, match=r"too narrow a valley at x = 0\.619"):  # its own energy does
        found(q=-0.5, r=0.3, s=2.0, E_0=found(q=-0.5, r=0.3).parameters["E_0"])


@pytest.mark.slow
def test_the_automatic_step_is_that_of_the_larger_energy() -> None:
    for integrator in ("rk2", "rk4"):
        own, more = found(step=None, integrator=integrator), found(step=None, integrator=integrator, E_0=12.0)
        fast = found(step=None, integrator=integrator, s=-np.sqrt(12.0 - 0.02876894697449))
        assert fast.parameters["E_0"] == pytest.approx(12.0, rel=1e-12)
        assert own.step is not None
        assert more.step is not None
        assert fast.step is not None
        assert more.step == fast.step <= own.step
        assert more.parameters["epsilon"] == fast.parameters["epsilon"] > own.parameters["epsilon"]


# what is reached first


def test_a_hoop_that_leaves_before_the_profile_ends_is_not_refused() -> None:
    file = launch(settings={"profile": "4 - x**2 - z**2"}, initial={"q": 1.0, "z_a": 1.7}, parameters={"r": 0.1})
    run = simulated(file, run__duration=3.0)
    assert run.fault is not None
    assert run.fault["text"] == "contact lost: the profile would have to pull (n < 0)"
    # n = 0 where cos(phi) = cos(30 degrees)/2, phi from the top: 64.34 degrees
    x = float(np.interp(run.fault["t"], run.t, run.state["x"]))
    assert np.arcsin(x / 2.1) == pytest.approx(np.arccos(np.sqrt(3) / 4), abs=2e-3)


def test_an_end_that_is_not_reached_is_no_refusal() -> None:
    assert found("sqrt(x)", q=0.5, duration=0.001).notes == ()
    assert found("sqrt(x)", q=0.5, duration=3.0).notes == ()  # it is lost before
    for q, duration in ((0.02, 0.001), (1.99, 0.001), (1.9999, 0.0001)):  # less than a piece away, too
        assert found("-sqrt(4 - x**2)", q=q, s=0.5, r=0.1, duration=duration).notes == ()
    with pytest.raises(ModelError, match="the profile ends or is vertical at x = 2, and the hoop gets there"):
        found("-sqrt(4 - x**2)", q=1.99, s=3.0, r=0.1, duration=0.5)
    assert found(q=-0.5, r=0.3).parameters["E_0"] < 0  # the left valley is wide enough, and it stays there
    with pytest.raises(ModelError, match="too narrow a valley at x = "):
        found(q=-0.9, r=0.3)
    wedge = "sqrt((x - 3)**2 + 0.0001)"
    assert found(wedge, q=4.0, r=0.1, duration=0.3).notes == ()  # it does not get there in the time
    with pytest.raises(ModelError, match="too narrow a valley at x = 3"):
        found(wedge, q=4.0, r=0.1, duration=2.0)
    assert found(CIRCLE, q=1.0, z_a=-1.7, r=0.1).notes == ()


# refusals


ENDS = "the profile ends or is vertical at x = 2"
CIRCLE = "-(4 - x**2 - z**2)"
FLIES = "contact lost: the profile would have to pull (n < 0) already in the initial state, n = "
# profile, what is given, the section and key at fault, the text
REFUSALS: list[tuple[str, dict[str, Any], str, str]] = [
    ("wrap(x)", {}, "plant.settings.profile", "wrap jumps"),
    ("y**2", {}, "plant.settings.profile", "unknown name 'y'"),
    ("4 - x**2 - z**2", {"q": 1.0, "z_a": -1.7}, "plant.settings.profile",
     f'h rises upwards (h_z = 3.46 > 0) at x = 1, z = -1.73205; turn its sign: profile = "{CIRCLE}"'),
    (BOWL, {"q": 3.0}, "plant.initial.q", "there is no profile point at x = 3"),
    ("", {"q": "left"}, "plant.initial.q", "'left' is not a number"),
    ("-sqrt(1 - x**2)", {"q": 3.0}, "plant.initial.q", "no profile point at x = 3"),
    (BOWL, {"x": 3.0, "z": 0.0, "alpha": -1.5}, "plant.initial.x", "there is no profile point at x = 3."),
    (BOWL, {"q": 1.0, "s": 5.0, "r": 0.1}, "plant.settings.profile", f"{ENDS}, z = 0, and the hoop gets there"),
    ("-sqrt(4 - x**2)", {"q": 1.0, "s": 5.0, "r": 0.1}, "plant.settings.profile", f"{ENDS}, and the hoop gets there"),
    ("", {"r": 0.3}, "plant.settings.profile",
     "too narrow a valley at x = 0.6192: its radius is 0.2912 m, the hoop's 0.3 m"),
    ("", {"lambda_": 2600.0}, "plant.parameters.lambda", "lambda*step = 2.6: residuals grow with rk4 from 2.6 on"),
    ("", {"lambda_": 1800.0, "integrator": "rk2"}, "plant.parameters.lambda",
     "residuals grow with rk2 from 1.8 on; take lambda up to 1000"),
    ("-x**2", {"q": 0.0, "s": 2.5}, "plant.initial.s", f"{FLIES}-2.445 N"),
    ("", {"x": 0.99, "z": 5.0, "alpha": -0.29}, "plant.initial.x", f"{FLIES}-144 N; the initial state is off the "
     "profile by 4.999 m, and alpha by 0.00806 rad; leave x, z, alpha out"),
    ("", {"q": 1.0, "z": 5.0}, "plant.initial.z", f"{FLIES}-14"),
    ("", {"q": 1.0, "z_dot": 5.0}, "plant.initial.z_dot",
     f"{FLIES}-26.45 N; the initial velocity leads off the profile"),
    ("", {"q": 1.0, "z_a": 0.0}, "plant.initial.z_a", "the profile z = p(x) has one height at q"),
    ("", {"disturbed": {"x"}}, "plant.disturbance.x", "the reactions of the hoop are solved for"),
    *(("", {name: 1.0, "varying": {name}}, f"plant.parameters.{name}",
       "the reactions of the hoop are solved for a constant one: it must be a number")
      for name in ("M", "r", "kappa", "g", "E_0")),
    ("", {"step": None, "duration": 3.141592653}, "plant.step",
     "no round step near 0.0014 s (for residuals of 1e-08) divides the duration"),
]  # fmt: skip


@pytest.mark.parametrize(("profile", "given", "place", "text"), REFUSALS)
def test_what_cannot_roll_is_refused_at_its_place(profile: str, given: dict[str, Any], place: str, text: str) -> None:
    with pytest.raises(Unprepared) as refused:
        found(profile, **given)
    assert f"{refused.value.section}.{refused.value.key}" == place
    assert text in str(refused.value)


def test_a_launch_file_that_cannot_roll_is_refused_in_one_line() -> None:
    with pytest.raises(
        LaunchError, match=r"\[plant.settings\] profile: abs has no derivative at 0 and the hoop needs 3"
    ) as e:
        simulated(launch(settings={"profile": "abs(x)"}))
    assert "\n" not in str(e.value)


# runs


def test_hoop_rolls_is_where_the_exact_motion_is() -> None:
    run = simulated("hoop_rolls")
    exact = Reduced(standard, DEFAULT)
    expected = exact.state(exact.at(1.0, 0.0, 10.0)[:, -1])
    assert np.hypot(*(final(run) - expected)[:2]) < 4e-9
    assert max(run.residual_max.values()) == pytest.approx(1e-12 * (600 + 1500 + 500), rel=0.25)
    assert run.energy_error < 1e-7
    assert run.outputs["friction_needed"].max() == pytest.approx(1.63, abs=0.005)
    assert set(run.residual) == {"contact", "energy", "slip", "tangency"}


@pytest.mark.slow  # ten million steps
def test_hoop_source_is_the_papers_run_in_a_bounded_table() -> None:
    run = simulated("hoop_source")
    assert run.steps == 10_100_000
    assert len(run.t) <= 20_001
    assert run.closed_loop.machine.parameters["epsilon"] == 1.0
    late = run.t >= 86.0
    printed = {"contact": 2.8e-10, "energy": 5.3e-9, "slip": 2.2e-9, "tangency": 1.0e-9}
    for name, size in printed.items():
        assert np.abs(run.residual[name][late]).max() == pytest.approx(size, rel=0.05)
    exact = Reduced(standard, DEFAULT)
    x = exact.state(exact.at(1.0, 0.0, 101.0)[:, -1])[0]
    assert abs(run.state["x"][-1] - x) == pytest.approx(2.6e-8, rel=0.05)


def test_hoop_decay_comes_back_at_its_rate_and_hoop_drift_leaves_the_profile() -> None:
    run = simulated("hoop_decay", every=1)
    early, later = int(np.argmin(abs(run.t - 0.2))), int(np.argmin(abs(run.t - 0.7)))
    for name in ("energy", "slip", "tangency"):
        values = run.residual[name]
        rate = np.log(abs(values[early] / values[later])) / (run.t[later] - run.t[early])
        assert rate == pytest.approx(10.0, rel=2e-3 if name == "energy" else 1e-4)
    assert max(abs(values[-1]) for values in run.residual.values()) < 3e-9
    run = simulated("hoop_drift")
    assert run.fault is None
    assert np.abs(run.residual["contact"]) == pytest.approx(0.15 * run.t, abs=1e-6)
    assert run.residual_max["contact"] == pytest.approx(0.99, abs=1e-3)


@pytest.mark.slow
def test_hoop_energy_row_has_small_residuals_and_a_wrong_path() -> None:
    run, good = simulated("hoop_energy_row"), simulated("hoop_rolls", run__duration=101.0)
    exact = Reduced(standard, DEFAULT)
    x = exact.state(exact.at(1.0, 0.0, 101.0)[:, -1])[0]
    assert max(run.residual_max.values()) < 5e-8
    assert abs(run.state["x"][-1] - x) == pytest.approx(1.8e-4, rel=0.05)
    assert abs(good.state["x"][-1] - x) == pytest.approx(1.1e-7, rel=0.05)


def test_hoop_bowl_has_the_elliptic_integral_s_period() -> None:
    run = simulated("hoop_bowl", every=1)
    turns = np.flatnonzero(np.diff(np.sign(run.state["theta_dot"])) != 0)
    times = []
    for i in turns[turns > 10]:
        rate, later = run.state["theta_dot"][i], run.state["theta_dot"][i + 1]
        times.append(run.t[i] + (run.t[i + 1] - run.t[i]) * rate / (rate - later))
    period = hoop_sheet.bowl_period(2.0, 0.1, np.pi / 3, 1.0, 9.81)
    assert times[3] / 2 == pytest.approx(period, abs=2e-6)  # turning points between rows by a straight line
    assert max(run.residual_max.values()) <= 1e-9


def test_hoop_incline_is_as_fast_as_galileo_says() -> None:
    run = simulated("hoop_incline")
    s = 9.81 * np.sin(np.arctan(0.5)) / 1.4 * 3.0
    assert np.hypot(run.state["x_dot"][-1], run.state["z_dot"][-1]) == pytest.approx(s, rel=1e-9)


def test_hoop_flies_ends_where_the_normal_force_is_zero() -> None:
    run = simulated("hoop_flies")
    exact = Reduced(WAVE, DEFAULT | {"r": 0.05})
    root = brentq(lambda t: float(exact.forces(exact.at(-1.5, 3.7, t)[:, -1])[0]), 1.1, 1.3, xtol=1e-13)
    assert run.fault is not None
    assert run.fault["text"] == "contact lost: the profile would have to pull (n < 0)"
    assert run.fault["t"] == pytest.approx(root, abs=1e-7)
    on = simulated("hoop_flies", plant__safety__faults=False)
    assert on.fault is None
    assert on.t[-1] == pytest.approx(3.0)
    assert [(each.text, each.t) for each in on.warnings] == [(run.fault["text"], pytest.approx(root, abs=1e-7))]


def test_the_profile_of_the_launch_file_is_what_is_drawn() -> None:
    views = servonode.load("hoop_bowl").closed_loop.views
    assert [view.strip for view in views] == [False, True]
    assert read_launch("hoop_bowl").plant.settings["profile"] == BOWL
