"""`servonode compare`: sources, table, JSON, picture, refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from servonode.analysis.comparison import Compared
from servonode.cli.compare import unmistakable
from servonode.views.comparison import compared_panels, comparison_figure
from tests.helpers.refusals import command, refused_command

SHORT = ("--set", "run.duration=1")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compare(*words: str) -> Result:
    return command("compare", *words)


def refused(*words: str) -> str:
    line = refused_command("compare", *words)
    assert not list(Path().glob("compare.*"))
    return line


def test_two_gains_are_compared_in_a_picture_and_a_table() -> None:
    result = compare("trailer_pursuit", "trailer_pursuit:controller.gains.lambda=3", *SHORT)
    assert (result.exit_code, result.stderr) == (0, "")
    assert Path("compare.png").read_bytes().startswith(b"\x89PNG")
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[0].split() == ["trailer_pursuit", "trailer_pursuit", "lambda=3"]
    assert lines[1].split() == ["end", "[s]", "1.000", "1.000"]
    assert any(line.startswith("residual speed, RMS, 2nd half [m/s]") for line in lines)
    assert any(line.startswith("path error, largest [m]") for line in lines)
    assert lines[-1] == "picture           compare.png"


def test_json_has_the_same_numbers() -> None:
    result = compare("trailer_pursuit", "trailer_pursuit", "--json", *SHORT)
    found = json.loads(result.stdout)
    one, two = found["sources"]
    assert one | {"source": ""} == two | {"source": ""}
    assert [one["source"], two["source"]] == ["trailer_pursuit (1)", "trailer_pursuit (2)"]
    assert set(one) == {
        *("source", "t_end", "rows", "fault", "residual", "effort", "work", "largest_input", "path_error")
    }
    assert set(found["difference"]["X"]) == {None, 0.0}
    assert found["units"]["X"] == "m"
    assert found["picture"] == "compare.png"


def test_csv_alone_has_names_and_numbers_with_launch_file_all() -> None:
    command("simulate", "trailer_pursuit", "--output", "a.csv", "--every", "10", *SHORT)
    found = json.loads(compare("a.csv", "a.csv@trailer_pursuit", "--json", "--output", "b.pdf", *SHORT).stdout)
    alone, whole = found["sources"]
    assert alone["path_error"] is None
    assert alone["work"] is None
    assert whole["path_error"] is not None
    assert alone["effort"] == whole["effort"]  # which columns are inputs is known from the other
    assert alone["residual"] == whole["residual"]
    assert Path("b.pdf").exists()


def test_programs_of_one_machine_are_compared_in_what_they_share() -> None:
    result = compare("sphero_circle", "sphero_line", "sphero_pursuit", "--json", "--set", "run.duration=1")
    one, two, three = json.loads(result.stdout)["sources"]
    assert set(one["residual"]) & set(two["residual"]) == {"speed"}
    assert [each["path_error"] is None for each in (one, two, three)] == [True, True, False]


def test_a_fault_is_named() -> None:
    words = ("trailer_open_loop", "trailer_open_loop:controller.settings.U1=1e200")
    found = json.loads(compare(*words, "--json", *SHORT).stdout)["sources"]
    assert [each["fault"] is None for each in found] == [True, False]


def test_a_picture_that_cannot_be_made_leaves_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servonode.views.comparison.comparison_figure", lambda *_: 1 / 0)
    result = compare("trailer_pursuit", "trailer_line", "--json", *SHORT)
    assert result.exit_code == 1
    assert result.stderr == "servonode: compare.png: cannot be made (ZeroDivisionError: division by zero)\n"
    assert json.loads(result.stdout)["picture"] is None


def test_code_of_a_launch_file_is_refused_where_asked() -> None:
    Path("a.toml").write_text('run.duration = 1\nplant.machine = "./cart.py:model"\n')
    assert "cart.py" in refused("trailer_line", "a.toml", "--no-code", *SHORT)


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (("a", "b/c.csv"), ["a", "c"]),
        (("a:run.x=1:target.y=[1, 2]", "a"), ["a x=1 y=[1, 2]", "a"]),
        (("x/a.csv", "y/a.csv"), ["x/a.csv", "y/a.csv"]),
        (("a", "a", "b"), ["a (1)", "a (2)", "b"]),
        (("a.csv@b.toml:p.m1=2", "c"), ["a m1=2", "c"]),
    ],
)
def test_each_source_has_a_name_of_its_own(texts: Any, names: Any) -> None:
    assert [each.name for each in unmistakable(texts)] == names


def test_the_words_of_a_source_come_apart() -> None:
    (one, two) = unmistakable(("m.csv@a.toml:plant.machine=./c.py:model:target.x=1", "b"))
    assert (one.file, one.launch) == ("m.csv", "a.toml")
    assert one.overrides == ("plant.machine=./c.py:model", "target.x=1")
    assert (two.file, two.launch, two.overrides) == ("b", "", ())
    Path("odd:a.b=1.csv").touch()
    assert unmistakable(("odd:a.b=1.csv",))[0].file == "odd:a.b=1.csv"


def test_the_picture_overlays_paths_and_curves() -> None:
    import servonode

    sources = [
        Compared.of_run(
            f"gain {gain}", servonode.simulate("trailer_pursuit", run__duration=1, controller__gains={"lambda": gain})
        )
        for gain in (1.0, 2.0)
    ]
    figure: Any = comparison_figure(sources, compared_panels(sources))
    names, first, *others = figure.axes
    assert [each.get_text() for each in names.get_legend().get_texts()] == ["gain 1.0", "gain 2.0"]
    assert first.get_xlabel() == "x [m]"
    titles = {axis.get_title(loc="left").replace("\n", " ") for axis in others}
    residuals = {"residual speed, magnitude [m/s]", "residual heading, magnitude [rad]"}
    torques = {f"torque of the {side} wheel $U_{{{i}}}$ [N\u202fm]" for i, side in ((1, "left"), (2, "right"))}
    assert residuals | torques <= titles
    assert len(titles) == 8
    assert all(len(axis.get_lines()) == 2 for axis in others)
