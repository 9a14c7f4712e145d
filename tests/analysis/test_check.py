"""`servonode check`: the right answer and remedy for each closed loop, and the same refusals by run and simulate."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import servonode
from servonode.analysis.held_residuals import ROWS, rows_of
from servonode.analysis.zero_dynamics import ZeroDynamics
from servonode.cli.create import make
from servonode.cli.main import main
from servonode.closed_loop.launch_error import ProgramRefused

SHORT = {"run__duration": 5.0}
EIGENVALUE = {"K0": [[2, 0], [0, -4]], "K1": [[0, 0], [0, 4]]}


def check(launch: str, *overrides: str) -> Any:
    """The command's result."""
    arguments = [part for each in overrides for part in ("--set", each)]
    return CliRunner().invoke(main, ["check", launch, *arguments])


def texts(report: Any, level: str = "refuse") -> str:
    return "\n".join(f"{each.subject}: {each.text}" for each in report.findings if each.level == level)


@pytest.mark.parametrize(
    ("launch", "overrides", "reason", "remedy"),
    [
        ("trailer_look_ahead", {"controller__settings__L": 0.0}, "move them by 1 combination(s) only, rank 1 of 2",
         "take a look-ahead point"),
        ("trailer_pursuit", {"controller__delay": 1, "controller__gains__lambda_heading": 46.9},
         "above 0.8 of the limit", "lower the convergence rate"),
        ("trailer_pursuit", {"controller__gains": EIGENVALUE}, "eigenvalue +0.8284 1/s", "rates above 0"),
        ("trailer_pursuit", {"plant__actuator__limit": 0.0},
         "the goal is not reached; an input is at its limit for 1 of the second half", "ask for less"),
        ("trailer_hitch_turning", {"plant__parameters__d1": 0.3, "run__duration": 30.0},
         "V goes to infinity at t = 17.51 s", "hold V by another residual"),
        ("trailer_rates", {"controller__settings__v": -0.4},  # the trailer folds late; V / b
         "unstable, +0.4 1/s at zero: non-minimum phase", "turn the direction of travel"),
        ("trailer_rates", {"controller__settings__v": -0.4, "run__duration": 11.0},
         "unstable, +0.4 1/s at zero: non-minimum phase", "turn the direction of travel"),
        ("hoop_flies", {}, "ends by a fault at t = 1.231 s: contact lost", ""),
    ],
)  # fmt: skip
def test_a_failed_check_names_reason_and_remedy(
    launch: str, overrides: dict[str, Any], reason: str, remedy: str
) -> None:
    report = servonode.check(launch, **overrides)
    assert report.verdict == "no"
    assert reason in texts(report)
    assert remedy in texts(report)


def test_the_command_exits_1_where_the_check_fails() -> None:
    none = "controller.settings.completion=none"
    for completion, reason, remedy in (
        ("equal", "lost rank", "complete the program otherwise"),
        ("none", "has 1 servo-constraints for the 2 inputs", "complete it with another one"),
    ):
        failed = check("trailer_hitch_swing", f"controller.settings.completion={completion}")
        assert failed.exit_code == 1
        assert reason in failed.output
        assert remedy in failed.output
        assert failed.output.rstrip().endswith("verdict          no")
    refused = CliRunner().invoke(main, ["check", "trailer_hitch_swing", "--json", "--set", none])
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["verdict"] == "no"
    report = json.loads(CliRunner().invoke(main, ["check", "trailer_reverse", "--json"]).stdout)
    assert report["verdict"] == "yes"
    assert {"findings", "numbers", "residuals", "machine", "program"} <= report.keys()


def test_reversing_with_the_look_ahead_law_is_judged_growing() -> None:
    report = servonode.check(
        "trailer_look_ahead", target__x="-0.3*t", target__y="0", plant__initial={"V": -0.3, "X": -0.3},
        run__duration=20.0,
    )  # fmt: skip
    assert report.verdict == "no"
    assert "turn the direction of travel" in texts(report)
    judged = report.numbers["zero_dynamics"]
    assert judged["judgement"] == "growing"
    assert judged["rate"] == pytest.approx(0.3 / 0.3, rel=0.05)  # V / L; fitted over a finite time


def test_simulate_refuses_what_check_refuses() -> None:
    with pytest.raises(ProgramRefused, match=r"heading: lambda T = 0.469 .* above 0.8 of the limit"):
        servonode.simulate("trailer_pursuit", controller__delay=1, controller__gains__lambda_heading=46.9)


def test_automatic_rates_are_a_third_of_the_limit_or_the_best() -> None:
    report = servonode.check("trailer_pursuit", controller__delay=1, controller__gains={"lambda": "auto"}, **SHORT)
    margins = report.numbers["margins"]
    assert margins["speed"]["value"] == pytest.approx(0.25, abs=1e-6)
    assert margins["heading"]["value"] == pytest.approx(0.42616 / 3, abs=1e-5)
    assert report.verdict == "yes"


@pytest.mark.parametrize(
    ("launch", "overrides", "text"),
    [
        ("trailer_pursuit", {"controller__gains": {"lambda_speed": 120.0}, **SHORT},
         "beyond the best value more gain decays more slowly"),
        ("trailer_pursuit", {"controller__settings": {"variant": "plain"}, **SHORT},
         "speed, heading is not stabilised (rate 0)"),
        ("snowboarder_slalom", {}, "perturbations grow at most 18-fold"),  # without running away
        ("trailer_rates", {"controller__settings__v": -0.4, "run__duration": 10.2},
         "perturbations grow 34-fold in this run of 10.2 s"),
        ("trailer_pursuit_loopback", {"plant__safety": {"limit": 1.0}, **SHORT},
         "nothing limits the inputs after an arming"),
    ],
)  # fmt: skip
def test_what_is_doubtful_is_warned_of(launch: str, overrides: dict[str, Any], text: str) -> None:
    assert text in texts(servonode.check(launch, **overrides), "warn")


def test_check_predicts_the_residual_of_the_zero_order_hold() -> None:
    report = servonode.check("trailer_pursuit")
    reached = report.numbers["simulated"]["residual_max"]
    for name, predicted in report.numbers["steady_residual"].items():
        assert reached[name] < 1.05 * predicted  # a bound, sampled at 400 instants
        assert reached[name] > 0.8 * predicted


def test_check_predicts_the_residual_that_noise_leaves() -> None:
    noise: dict[str, Any] = {"plant__sensor__noise": {"X": 2e-3, "Y": 2e-3, "psi": 2e-3, "V": 5e-3, "Omega": 5e-3}}
    noise |= {"run__duration": 60.0}
    predicted = servonode.check("trailer_pursuit", **noise).numbers["noise_residual"]
    run = servonode.simulate("trailer_pursuit", **noise)
    law = run.closed_loop.control.law
    true = []  # the recorded residuals are the measured ones: evaluate the law on the true states
    for i in range(0, len(run.t), 20):
        x = np.array([*(values[i] for values in run.state.values()), 0.0])
        answer = law.evaluate(float(run.t[i]), x, run.closed_loop.goal(float(run.t[i])))
        true.append(answer.residuals)
    for deviation, name in zip(np.std(true, axis=0), run.residual, strict=True):
        # linearised at the start, where the target stands still; one noise sequence of some 30 correlation times
        assert deviation == pytest.approx(predicted[name], rel=0.4), name


# after a fault


def sledge() -> Any:
    """A sledge on a slope, held by a winch; without a brake."""
    from servonode.mechanics import Model, coordinate, input_, parameter

    x, F = coordinate("x", "place down the slope", "m"), input_("F", "pull of the winch down the slope", "N")
    m, g = parameter("m", "mass", "kg", default=2.0, above=0), parameter("g", "gravity along it", "m/s^2", default=3.0)
    return Model(
        name="sledge",
        description="sledge on a slope",
        coordinates=(x,),
        parameters=(m, g),
        kinetic=m * x.rate**2 / 2,
        potential=-m * g * x,
        inputs={F: x.rate},
    )


SLEDGE = {
    "run": {"duration": 4.0},
    "plant": {"machine": sledge, "initial": {"x": 0.1}},
    "controller": {"residuals": {"place": "x"}, "gains": {"lambda": 2.0}},
}


def test_a_machine_that_runs_away_after_a_fault_is_warned_of() -> None:
    report = servonode.check(SLEDGE)
    assert report.after_fault == {"F": "0: coasts"}
    assert report.verdict == "yes"
    (warning,) = [each for each in report.findings if each.subject == "safe action"]
    assert warning.level == "warn"
    assert "the machine gains speed after a fault at t = " in warning.text
    assert warning.text.endswith("zero input does not hold it, give a brake, safe= of its Model, that does")
    found = report.numbers["after_fault"]
    assert found["within"] == 1.0
    assert found["kinetic_max"] == pytest.approx(2.0 * 3.0**2 / 2, rel=0.1)  # it falls for a second, from near rest
    assert found["kinetic_run"] < 0.1 < found["kinetic_max"]


def pendulum_by_its_height() -> Any:
    """A pendulum whose angle follows from how deep it hangs: where that is deepest it follows no longer."""
    from sympy import cos

    from servonode.mechanics import Model, constraint, coordinate, input_

    x, a, F = coordinate("x", "depth", "1", start=0.5), coordinate("a", "angle", "rad", start=1.0), input_("F", "", "N")
    return Model("depth", "pendulum", a.rate**2 / 2, coordinates=(x, a), independent=(x,), potential=-9.81 * x,
                 constraints=(constraint("rod", "", x - cos(a)),), inputs={F: x.rate})  # fmt: skip


def test_a_loop_that_comes_to_a_dead_point_after_a_fault_is_told_so_and_no_energy_beyond_it() -> None:
    controller = {"residuals": {"hold": "x - 0.5"}, "gains": {"lambda": 5.0}}
    launch = {"run": {"duration": 1.0}, "plant": {"machine": pendulum_by_its_height}, "controller": controller}
    report = servonode.check(launch)
    ((level, text),) = [(each.level, each.text) for each in report.findings if each.subject == "safe action"]
    assert level == "warn"
    assert text.startswith("after a fault at t = 0 s the machine comes within 1 s to a dead point: a no longer follow")
    found = report.numbers["after_fault"]
    assert (found["dead_point"], found["kinetic_max"]) == (0.0, 0.0)


@pytest.mark.parametrize(("power", "said"), [(0, "the statement of the machine is not consistent"), (4, "shorten it")])
def test_an_energy_error_that_stays_with_half_the_step_is_not_explained_by_the_step(
    monkeypatch: pytest.MonkeyPatch, power: int, said: str
) -> None:
    error = property(lambda run: (run.closed_loop.launch.step_ns / 1e6) ** power)
    monkeypatch.setattr("servonode.record.run.Run.energy_error", error)
    assert said in texts(servonode.check(SLEDGE), "warn")


@pytest.mark.parametrize(("share", "warned"), [(0.9e-3, False), (1.1e-3, True)])
def test_an_integrator_may_lose_a_thousandth_of_the_energy_turned_over(
    monkeypatch: pytest.MonkeyPatch, share: float, warned: bool
) -> None:
    def error(run: servonode.Run) -> float:
        kinetic = [run.closed_loop.machine.energies(t, x)[0] for _, t, x, _ in rows_of(run, ROWS)]
        return share * float(np.abs(run.work).max() + max(kinetic))

    monkeypatch.setattr("servonode.record.run.Run.energy_error", property(error))
    assert ("J turned over" in texts(servonode.check(SLEDGE), "warn")) == warned


@pytest.mark.parametrize(
    ("growth", "drifts", "level"),
    [(2.9, False, "good"), (2.9, True, "warn"), (3.1, False, "warn"), (39.0, False, "warn")],
)
def test_perturbations_that_grow_threefold_or_drift_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, growth: float, drifts: bool, level: str
) -> None:
    found = ZeroDynamics("bounded", "as judged", ("x",), (), 1.0, growth=growth, drifts=drifts)
    monkeypatch.setattr("servonode.analysis.dry_run.judge", lambda *_: found)
    report = servonode.check("trailer_pursuit", **SHORT)
    assert [each.level for each in report.findings if each.text == "as judged"] == [level]


@pytest.mark.parametrize(("damper", "verdict"), [(0.25, "no"), (1.0, "yes")])
def test_where_inputs_are_held_for_too_long_for_what_the_goal_leaves_free_the_check_says_so(
    damper: float, verdict: str
) -> None:
    """Two masses, spring 50 N/m and damper: the place of the second one has a zero at -spring/damper."""
    controller = {"residuals": {"last": "b - 0.1*sin(2*t)"}, "gains": {"lambda": 5.0}}
    plant = {"machine": two_masses, "parameters": {"d": damper}}
    report = servonode.check({"run": {"duration": 4.0}, "plant": plant, "controller": controller})
    assert report.verdict == verdict
    found = "decays as exp(-200 t), too fast for inputs that are held for 0.01 s (a zero of the sampled loop); give a "
    assert (f"sampling: what the goal leaves free {found}controller.period of at most 0.0025 s" in texts(
        report, "warn")) == (verdict == "no")  # fmt: skip


def two_masses() -> Any:
    from servonode.mechanics import Model, coordinate, input_, parameter

    a, b, F, d = (
        coordinate("a", "", "m"),
        coordinate("b", "", "m"),
        input_("F", "", "N"),
        parameter("d", "", "N s/m", default=1.0),
    )
    return Model("masses", "in a row", (a.rate**2 + b.rate**2) / 2, coordinates=(a, b), potential=25 * (a - b) ** 2,
                 dissipation=d * (a.rate - b.rate) ** 2 / 2, inputs={F: a.rate}, parameters=(d,))  # fmt: skip


def test_a_machine_that_brakes_after_a_fault_says_how_one_without_inputs_nothing() -> None:
    report = servonode.check("trailer_pursuit", run__duration=5.0)
    assert report.after_fault == {"U1": "brakes with -c_b*theta1_dot", "U2": "brakes with -c_b*theta2_dot"}
    assert "safe action" not in {each.subject for each in report.findings}
    found = report.numbers["after_fault"]
    assert found["kinetic_max"] <= 1.01 * found["kinetic_run"]
    lines = check("trailer_pursuit", "run.duration=5").output.splitlines()
    assert "after a fault    U1 brakes with -c_b*theta1_dot" in lines
    assert "after a fault    U2 brakes with -c_b*theta2_dot" in lines
    report = servonode.check("hoop_rolls", run__duration=1.0)
    assert report.after_fault == {}
    assert "after_fault" not in report.numbers


def test_check_of_the_new_crane_passes_hanging_fails_upside_down(tmp_path: Path) -> None:
    make("machine", "crane", tmp_path)
    hanging = servonode.check(tmp_path / "crane.toml")
    assert hanging.verdict == "yes"
    assert texts(hanging, "warn") == ""
    upside_down = servonode.check(tmp_path / "crane.toml", plant__initial__theta=3.14)
    assert upside_down.verdict == "no"
    assert "left free: theta, theta_dot; unstable, +3.44 1/s at theta = 3.14 rad: non-minimum phase" in texts(
        upside_down
    )
    assert "hold theta by a fast inner loop" in texts(upside_down)
    assert "travel" not in texts(upside_down)


def test_a_start_on_the_program_counts_with_parameters_found_at_the_start() -> None:
    run = servonode.simulate("trailer_pursuit", run__duration=0.1, plant__initial={"on_program": True, "psi": 0.2})
    assert run.residual["speed"][0] == pytest.approx(0.0, abs=1e-9)
    assert run.residual["heading"][0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("loop", ["fused", "nodes"])
def test_a_goal_that_is_not_finite_is_named_as_the_reason(loop: Any) -> None:
    run = servonode.simulate("trailer_pursuit", loop=loop, target__x="2 + 0.1/(t - 5)")
    assert run.fault is not None
    assert run.fault["name"] == "target"
    assert "target x is not finite at t = 5 s, found as goals are published ahead" in run.fault["text"]
    assert run.fault["t"] <= run.t[-1] < 5.0


@pytest.mark.parametrize(
    ("launch", "overrides", "text"),
    [
        ("trailer_reverse", {"controller__settings__point": [1.0]}, "not a list of 2 numbers"),
        ("trailer_reverse_circle", {"controller__settings__turn": 0.5}, "choose -1, 1"),
        ("trailer_reverse_circle", {"controller__settings__radius": -2.0}, "must be greater than 0"),
        ("trailer_reverse", {"controller__settings__turn": 1.0}, "give one kind of path"),
        ("trailer_open_loop", {"controller__gains": {"lambda": 1.0}}, "has no residuals and no feedback"),
        ("trailer_pursuit", {"controller__delay": 1_000_000}, "at most 100"),
        ("trailer_coast", {"plant__initial__on_program": True}, "no program with residuals"),
        ("trailer_pursuit", {"controller__gains": {"K0": [[1.0, 0.0], [0.0]]}}, "rows of different lengths"),
        ("trailer_pursuit", {"controller__gains": {"K0": [[2.0]]}}, "K0 has shape"),
        ("trailer_pursuit", {"controller__gains": {"K0": [[2, 0], [0, 4]], "lambda": 1}}, "give either lambda or K0"),
        ("trailer_pursuit", {"controller__gains": {"inertia": [[1, 0], [0, 1]]}}, "dissipation: is missing"),
        *(("trailer_pursuit", {"controller__gains": gains}, "is not a convergence rate")
          for gains in ({"lambda_heading": -1.0}, {"lambda": "fast"}, {"integral_heading": "much"})),
        ("trailer_reverse", {"controller__settings__v": 0.4}, "drives against `travel`"),
        ("trailer_line", {"controller__settings__v": -0.4}, "drives against `travel`"),
    ],
)  # fmt: skip
def test_settings_and_gains_that_do_not_fit_are_refused(launch: str, overrides: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        servonode.check(launch, **overrides)


WRONG_UNIT = """\
from servonode.mechanics import Model, coordinate, input_, parameter


def model() -> Model:
    x, F = coordinate("x", "place", "m"), input_("F", "force", "N")
    m, k = parameter("m", "mass", "kg", default=1.0), parameter("k", "stiffness", "{unit}", default=2.0)
    energies = {{"kinetic": m*x.rate**2/2, "potential": k*x**2/2}}
    return Model("spring", "a spring", parameters=(m, k), coordinates=(x,), inputs={{F: x.rate}}, **energies)
"""


def test_units_are_examined_once_for_a_definition_and_again_for_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from servonode.analysis import check as module

    file, looked = tmp_path / "spring.py", list[str]()
    examine = module._mismatches

    def counted(closed_loop: Any) -> Any:
        looked.append(closed_loop.machine.kernel.__name__)
        return examine(closed_loop)

    monkeypatch.setattr(module, "_mismatches", counted)
    launch = {"run": {"duration": 0.1}, "plant": {"machine": f"{file}:model"}}
    for unit, expected in (("N", ["units"]), ("N", ["units"]), ("N/m", []), ("N", ["units"])):
        file.write_text(WRONG_UNIT.format(unit=unit))
        found = servonode.check(launch)
        assert [
            each.subject for each in found.findings if (each.level, each.subject) == ("refuse", "units")
        ] == expected
    assert len(looked) == len(set(looked)) <= 2


WARM = """\
import sys
import servonode
servonode.check("trailer_pursuit")
print([name for name in ("sympy", "scipy.integrate", "scipy.optimize", "scipy.linalg") if name in sys.modules])
"""


@pytest.mark.slow
def test_a_check_that_finds_all_it_needs_imports_neither_sympy_nor_scipy() -> None:
    found = [
        subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True, timeout=120, check=True).stdout
        for _ in range(2)  # the first fills the user's cache where a kernel is missing
    ]
    assert found[-1] == "[]\n"
