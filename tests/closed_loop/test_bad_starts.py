"""What no real machine can be, and where no program can start: one line, the remedy, exit code 2 or a warning."""

import pytest

from tests.helpers.refusals import command, has_passages

REFUSED = {  # launch file and setting: the problem, and the remedy
    "sphero_rolls plant.initial.q=[0,0,0,0]": "constraint norm of q ... choose another initial state",
    "sphero_rolls plant.initial.n=[0,0,0]": "constraint norm of n ... choose another initial state",
    "sphero_rolls plant.initial.n=[0,0,-2]": "expression is 3 instead of 0 ... holds n_2 = -1",
    "sphero_rolls plant.initial.n=[0,0,1]": "tilt above 75 degrees ... choose another one",
    "sphero_rolls plant.initial.n=[0,-1]": "is not a list of 3 numbers ... give one",
    "sphero_rolls plant.parameters.I=0": "must be greater than 0 ... central inertia of the shell",
    "sphero_rolls plant.parameters.m=-2": "must be greater than 0 ... pendulum mass",
    "snowboarder_falls plant.initial.sigma=1.5": "fallen: the body lies on the snow ... choose another one",
    "snowboarder_falls plant.initial.theta=-1.6": "fallen: the body lies ... choose another one",
    "snowboarder_falls plant.parameters.alpha=1.6": "alpha = 1.6 rad, must be less than pi/2 = 1.571: this is a wall"
    " ... lower alpha",
    "snowboarder_falls plant.parameters.alpha=-0.1": "must be at least 0 ... inclination",
    "snowboarder_falls plant.parameters.J1=60": "outside the body's length ... lower J1",
    "snowboarder_falls plant.parameters.J0=4": "outside the blade's length ... lower J0",
    "snowboarder_falls plant.parameters.n1=1.2": "n1 = 1.2, must be at most 1: the body's centre of mass would lie ..."
    " lower n1",
    "snowboarder_falls plant.settings.input_set=wheels": "choose absolute, relative",
}
UNREAL = {
    "plant.parameters.l=0.2": "its centre of mass is outside the shell (l >= R)",
    "plant.parameters.C3=0.1": "no body has so much inertia about n (C3 > 2 i)",
    "plant.parameters.i=0.1": "part of its mass is outside the shell",
}


@pytest.mark.parametrize("verb", ["simulate", "check"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_before_anything_moves(case: str, verb: str) -> None:
    launch, override = case.split()
    result = command(verb, launch, "--set", override)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback" not in result.output
    line = next(line for line in result.stderr.splitlines() if line.startswith(f"servonode: {launch} "))
    assert has_passages(line, f" ... {REFUSED[case]}")


@pytest.mark.parametrize("case", UNREAL)
def test_what_is_no_real_body_is_warned_of(case: str) -> None:
    result = command("check", "sphero_rolls", "--set", case)
    assert any(line.startswith("warn") and UNREAL[case] in line for line in result.stdout.splitlines())


@pytest.mark.parametrize(
    ("launch", "overrides", "problem"),
    [
        ("snowboarder_slalom", ["plant.initial.on_program=false", "plant.initial.phi0=1.5"], "heading has left"),
        ("snowboarder_carve", ["controller.settings.V0=0.1", "controller.settings.x_ref=10"], "no speed is left"),
        (
            "sphero_pursuit",
            ["plant.initial.X=2.0", "plant.initial.Y=-0.1", "controller.settings.rho0=2"],
            "nearer than h",
        ),
        ("sphero_circle", ["controller.settings.point=[0, 0]", "plant.initial.X=0.0", "plant.initial.Y=0.0"], "centre"),
    ],
)
def test_a_start_off_the_programs_domain_is_refused(launch: str, overrides: list[str], problem: str) -> None:
    words = [word for each in overrides for word in ("--set", each)]
    result = command("simulate", launch, *words)
    assert result.exit_code == 2
    assert f"servonode: {launch} [plant.initial]: at the initial state " in result.stderr
    assert problem in result.stderr
