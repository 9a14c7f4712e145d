"""`servonode show`: the equations of machines that no launch file names."""

import json
from pathlib import Path

import pytest

from tests.helpers.refusals import command, refused_command

MACHINE = """
from servonode.mechanics import Model, coordinate, input_, parameter


def {name}() -> Model:
    x = coordinate("x", "place", "m")
    m = parameter("m", "mass", "kg", default=2.0, above=0)
    f = input_("f", "force", "N")
    return Model(name="cart", description="a mass", coordinates=[x], parameters=[m], inputs={{f: x.rate}},
                 kinetic=m * x.rate**2 / 2)


def helper(a):
    return a
"""


def test_a_machine_is_shown_by_its_name_or_by_a_launch_file_of_it_alone(tmp_path: Path) -> None:
    named = command("show", "diff_drive_trailer")
    assert named.stdout.startswith("Machine diff_drive_trailer: ")
    (tmp_path / "p.toml").write_text('[plant]\nmachine = "diff_drive_trailer"\n')
    assert command("show", str(tmp_path / "p.toml")).stdout == named.stdout
    found = json.loads(command("show", "diff_drive_trailer", "--json").stdout)
    assert (found["form"], found["text"] + "\n") == ("text", named.stdout)


def test_a_python_file_shows_the_machine_that_its_function_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cart.py").write_text(MACHINE.format(name="cart"))
    shown = command("show", "cart.py")
    assert shown.stdout.startswith("Machine cart: a mass")
    assert command("show", "cart.py:cart").stdout == shown.stdout
    assert "which --no-code (code=False) refuses" in refused_command("show", "cart.py", "--no-code")
    Path("two.py").write_text(MACHINE.format(name="one") + MACHINE.format(name="two"))
    assert "several functions make a Model; name one: two.py:one, two.py:two" in refused_command("show", "two.py")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = (", "is no Python"),
        ("x = 1", "no function makes a Model; a machine is a function"),
        ("\0", "is no Python"),
    ],
)
def test_a_file_without_a_machine_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a.py").write_text(text)
    assert says in refused_command("show", str(tmp_path / "a.py"))
    assert "no such file" in refused_command("show", str(tmp_path / "b.py"))
