"""What no real machine can be, and where no program can start: one line, the remedy, exit code 2 or a warning."""

import pytest

from tests.helpers.refusals import command

UNREAL = {
    "plant.parameters.l=0.2": "its centre of mass is outside the shell (l >= R)",
    "plant.parameters.C3=0.1": "no body has so much inertia about n (C3 > 2 i)",
    "plant.parameters.i=0.1": "part of its mass is outside the shell",
}


@pytest.mark.parametrize("case", UNREAL)
def test_what_is_no_real_body_is_warned_of(case: str) -> None:
    result = command("check", "sphero_rolls", "--set", case)
    assert any(line.startswith("warn") and UNREAL[case] in line for line in result.stdout.splitlines())
