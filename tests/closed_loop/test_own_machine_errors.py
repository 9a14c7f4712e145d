"""Refused machines whose pictures or edits need more than a row of tests/refusals."""

import tomllib
from pathlib import Path

import pytest

from tests.helpers.refusals import command, refused_command

TABLE = Path(__file__).parents[1] / "refusals" / "own_machines.toml"
FILES = tomllib.loads(TABLE.read_text("utf-8"))["files"]
DRAWN = (
    FILES["sled.py"]
    .replace("import sympy\n", "import os\n\nimport sympy\n")
    .replace("velocity\n", "velocity\nfrom servonode.plants.view import View\n", 1)
    + """

def outline(state, parameters):
    return [[[state["q"], 0.0]]]


# of the environment, so that the cache does not see it and the machine is compiled once
VIEW = {
    "number": 3,
    "outline": View(outline=outline),
    "trail": View(outline=lambda state, parameters: [], trails={"sled": ("x", "Y")}),
}[os.environ["KIND_OF_VIEW"]]
"""
)
OUTLINE = 1 + DRAWN[: DRAWN.index('state["q"]')].count("\n")
VIEWS = {
    "number": "sled.py: VIEW is not a View; write it as VIEW = View(...)",
    "outline": f"sled.py line {OUTLINE}: KeyError: 'q'; correct this line",
    "trail": "sled.py: VIEW has a trail of 'Y'; choose from x, y, z, v, z_dot, N, speed",
}


@pytest.fixture(autouse=True)
def _with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_that_cannot_be_drawn_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("KIND_OF_VIEW", kind)
    Path("sled.py").write_text(DRAWN)
    assert refused_command("simulate", "a.toml", "--report", "a.png", "--output", "a.csv") == VIEWS[kind]
    assert not list(tmp_path.glob("a.[pc]*"))
    assert command("simulate", "a.toml", "--json").exit_code == 0  # without a picture it runs


def test_an_edit_between_two_runs_of_one_process_moves_the_named_line() -> None:
    bad = FILES["sled.py"].replace("potential=0", "potential=sympy.Symbol('M') * y")
    for above in ("", "# one line more\n\n"):
        text = above + bad
        Path("sled.py").write_text(text)
        line = 1 + text[: text.index("potential=")].count("\n")
        said = f"a.toml [plant] machine: sled.py line {line}: machine sled: the potential contains 'M'"
        assert refused_command("simulate", "a.toml").startswith(said)
