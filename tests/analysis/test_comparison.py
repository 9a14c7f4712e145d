"""The numbers of a comparison against numbers by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.analysis.comparison import (
    Compared,
    CompareError,
    common,
    differences,
    differing,
    distances,
    held_integral,
    measures,
    path_error,
    read_csv,
    run_of_csv,
    sizes,
    work,
)

assert_allclose: Any = np.testing.assert_allclose
LINE: dict[str, Any] = {
    "run": {"duration": 4.0},
    "plant": {"machine": "diff_drive_trailer", "initial": {"V": 0.5}},
    "controller": {"program": "open_loop", "period": 0.01, "settings": {"U1": "0.1", "U2": "0.1"}},
}


def table(name: str, t: Any, **columns: Any) -> Compared:
    return Compared(name, np.asarray(t, float), {key: np.asarray(each, float) for key, each in columns.items()})


def test_sizes_are_the_largest_and_the_rms_of_all_rows_and_of_the_second_half() -> None:
    found = sizes(np.array([0.0, 1.0, 2.0, 3.0]), np.array([-4.0, 0.0, np.nan, 3.0]))
    assert found == {"largest": 4.0, "rms": pytest.approx(np.sqrt(25 / 3)), "largest_late": 3.0, "rms_late": 3.0}
    assert all(np.isnan(each) for each in sizes(np.arange(2.0), np.full(2, np.nan)).values())


def test_effort_and_work_of_two_equal_torques_by_integrals_that_hold() -> None:
    assert held_integral(np.array([0.0, 1.0, 3.0]), np.array([2.0, 5.0, 99.0])) == 2.0 * 1 + 5.0 * 2
    assert held_integral(np.array([0.0, 1.0, 3.0]), np.array([2.0, np.nan, 99.0])) == 2.0
    run = servonode.simulate(LINE)
    found = measures(Compared.of_run("a", run), [Compared.of_run("a", run)])
    assert found.effort == {"N m": pytest.approx(2 * 0.1**2 * 4.0)}
    assert found.largest_input == {"U1": 0.1, "U2": 0.1}
    angles = [abs(run.state[f"theta{i}"][-1] - run.state[f"theta{i}"][0]) for i in (1, 2)]
    assert work(run) == pytest.approx(0.1 * sum(angles), rel=1e-2)  # both wheels only turn forwards


def test_the_distance_to_a_path_is_measured_across_it() -> None:
    line = np.column_stack([np.linspace(0.0, 10.0, 11), np.zeros(11)])
    found = distances(np.array([[2.5, 3.0], [12.0, 0.0], [4.0, 0.0]]), line)
    assert_allclose(found, [3.0, 2.0, 0.0], atol=1e-15)
    point = np.zeros((5, 2))
    assert_allclose(distances(np.array([[3.0, 4.0]]), point), [5.0])


def test_the_path_error_is_that_of_a_robot_beside_the_path_of_its_target() -> None:
    run = servonode.simulate("trailer_pursuit", run__duration=20)
    source = Compared.of_run("a", run)
    found = path_error(source)
    x, y = run.targets.values()
    dense = np.hypot(run.state["X"][:, None] - x, run.state["Y"][:, None] - y).min(axis=1)  # to the points alone
    assert found is not None
    assert found["largest"] == pytest.approx(dense.max(), abs=1e-3)
    assert found["rms"] == pytest.approx(np.sqrt(np.mean(dense**2)), abs=1e-3)
    assert path_error(table("b", [0, 1], X=[0, 1], Y=[0, 1])) is None


def test_differences_where_times_overlap_and_their_order() -> None:
    a, b = table("a", [0, 1, 2, 3], x=[0, 1, 2, 3]), table("b", [1, 2, 4], x=[1, 4, 4])
    assert_allclose(differences([a, b], "x"), [np.nan, 2.0])
    c = table("c", [7, 8], x=[0, 0])
    assert_allclose(differences([a, c], "x"), [np.nan, np.nan])


def test_what_differs_most_comes_first_and_rounding_last() -> None:
    a = table("a", [0, 1], small=[0, 1], large=[0, 100], zero=[0, 1e-14])
    b = table("b", [0, 1], small=[0, 2], large=[0, 101], zero=[0, -1e-14])
    assert differing([a, b], ["zero", "large", "small"]) == ["small", "large", "zero"]


def test_only_a_name_of_one_unit_is_common() -> None:
    a, b = table("a", [0, 1], x=[0, 1], p=[0, 1]), table("b", [0, 1], x=[0, 1], p=[0, 1])
    a.units.update(x="m", p="m")
    b.units.update(x="rad")
    assert common([a, b]) == ["p"]
    c = table("c", [0, 1], q=[0, 1], energy=[0, 1])
    with pytest.raises(CompareError, match=r"c: has nothing in common with the others: it has q.* they have x, p"):
        common([a, b, c])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "the first line does not name the columns t"),
        ("x,y\n1,2\n", "the first line does not name the columns t"),
        ("t,x,x\n1,2,3\n", "the first line does not name the columns t"),
        ("t,x\n", "has no rows"),
        ("t,x\n0.0,abc\n", "is damaged (could not convert string 'abc'"),
        ("t,x\n0.0,1.0\n1.0\n", "is damaged"),
        ("t,x\n0.0,1.0,2.0\n", "has 2 names and 3 columns"),
        ("t,x\n1.0,1.0\n0.5,2.0\n", "do not grow"),
    ],
)
def test_a_file_that_is_no_run_is_refused(tmp_path: Path, content: str, text: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(content)
    with pytest.raises(CompareError) as caught:
        read_csv(file)
    assert text in str(caught.value)
    assert str(caught.value).startswith(str(file))


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompareError, match="cannot be read"):
        read_csv(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CompareError, match="is not a text"):
        read_csv(tmp_path / "b.csv")


@pytest.mark.parametrize("name", ["trailer_pursuit", "sphero_pursuit"])
def test_a_csv_file_with_its_launch_file_is_the_run_that_wrote_it(tmp_path: Path, name: str) -> None:
    loop = servonode.load(name, run__duration=1)
    run, file = loop.simulate(), tmp_path / "a.csv"
    run.write_csv(file)
    again = run_of_csv(file, run.closed_loop)
    first, second = Compared.of_run("a", run), Compared.of_run("b", again, False)
    assert [each for each in first.columns if each not in second.columns and "scale" not in each] == []
    for column in second.columns:
        np.testing.assert_array_equal(first.columns[column], second.columns[column])
    assert measures(first, [first]).as_dict() == measures(second, [second]).as_dict()


def test_a_csv_file_of_another_machine_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,X,Y\n0.0,0.0,0.0\n")
    with pytest.raises(CompareError, match=r"has no column psi, phi, .* name the launch file that it is of"):
        run_of_csv(file, servonode.load("trailer_pursuit").closed_loop)
