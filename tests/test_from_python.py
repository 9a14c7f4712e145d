"""From Python and from notebooks: what there is, how results show themselves, pictures, and one error for a mistake."""

import ast
import html
import inspect
import pickle
import subprocess
import sys
import textwrap
import threading
from html.parser import HTMLParser
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from msgspec.structs import replace
from sympy import cos

import servonode
from servonode import controllers, mechanics
from servonode.errors import ServonodeError, StatementError
from servonode.plants.view import View
from servonode.record.bag import read_bag
from servonode.tables import Tabular, several, valued
from servonode.views import summary
from servonode.views.movie import ffmpeg
from servonode.views.report import _title as report_title
from tests.helpers.recorded import recorded
from tests.helpers.wings import wing
from tests.test_import_rules import HEAVY, loaded_by

OF_EXPLORE = ("Env", "Identification", "VectorEnv")  # public names that this wing adds
BROADEST, MOST_LINES, MOST_CHARACTERS = 130, 30, 2500  # of what an object shows of itself


@pytest.fixture(scope="module")
def run() -> servonode.Run:
    return servonode.simulate("trailer_pursuit", run__duration=2.0)


@pytest.fixture(scope="module")
def loop() -> servonode.Loop:
    return servonode.load("trailer_pursuit", run__duration=2.0)


# what there is


@pytest.mark.parametrize("module", [servonode, mechanics, controllers], ids=lambda module: module.__name__)
def test_dir_lists_what_there_is_and_all_of_it_loads(module: ModuleType) -> None:
    shown = [name for name in dir(module) if not name.startswith("_")]
    assert shown == sorted(module.__all__)
    for name in shown:
        if name in OF_EXPLORE and not wing("explore"):
            continue
        assert getattr(module, name) is not None


@pytest.mark.parametrize("module", [servonode, mechanics, controllers], ids=lambda module: module.__name__)
def test_an_editor_knows_the_type_of_every_lazy_name(module: ModuleType) -> None:
    source = Path(inspect.getfile(module)).read_text(encoding="utf-8")
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    typed = {
        alias.name
        for block in blocks
        if ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    loaded = set(vars(import_module(module.__name__)))
    assert typed <= set(module.__all__)
    assert set(module.__all__) - loaded <= typed
    assert (files("servonode") / "py.typed").is_file()


def test_looking_around_loads_nothing_heavy() -> None:
    loaded = loaded_by("import servonode\nassert 'simulate' in dir(servonode)")
    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith("servonode.")} - {"servonode.errors", "servonode.version"}
    assert "sympy" not in loaded_by("import servonode\nassert 'Model' in dir(servonode.mechanics)")


def test_a_name_that_is_not_there_names_the_nearest() -> None:
    for module, name, near in ((servonode, "simulat", "simulate"), (mechanics, "cordinate", "coordinate")):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'; did you mean {near}"):
            getattr(module, name)
    with pytest.raises(AttributeError, match="has no attribute 'residuals'; did you mean residual"):
        _ = controllers.residuals  # type: ignore[attr-defined]


# how things show themselves


def pendulum(description: str = "a pendulum") -> mechanics.Model:
    theta = mechanics.coordinate("theta", "angle from below", "rad", start=0.3)
    m = mechanics.parameter("m", "mass", "kg", default=1.0, above=0)
    return mechanics.Model(
        name="pendulum",
        description=description,
        coordinates=(theta,),
        parameters=(m,),
        kinetic=m * theta.rate**2 / 2,
        potential=-m * 9.81 * cos(theta),
        faults=(mechanics.condition(theta > -0.1, "the angle is below -0.1 rad", "too_low"),),
    )


def shown(loop: servonode.Loop, run: servonode.Run) -> list[Any]:
    assert loop.closed_loop.control is not None
    model = loop.closed_loop.source.build()
    program = loop.closed_loop.control.source.build(model, loop.closed_loop.control.options)
    symbolic = [loop.equations(), loop.servo()]
    numbers = [loop.closed_loop, loop.matrices(0.0)]
    return [loop, run, loop.check(), loop.machine, model, program, loop.closed_loop.control.law, *numbers, *symbolic]


def test_everything_shows_itself_in_few_lines(loop: servonode.Loop, run: servonode.Run) -> None:
    for each in shown(loop, run):
        text, page = repr(each), each._repr_html_()
        assert len(text) <= MOST_CHARACTERS
        assert len(text.splitlines()) <= MOST_LINES
        assert max(map(len, text.splitlines())) <= BROADEST
        assert len(page) <= 4 * MOST_CHARACTERS
        assert "\u00a0" not in text


def test_a_run_says_what_it_was_how_it_ended_and_where_it_is(run: servonode.Run) -> None:
    title, *lines = repr(run).splitlines()
    said = dict(line.strip().split("  ", 1) for line in lines if not line.startswith("     "))
    assert title == "Run trailer_pursuit: diff_drive_trailer, pursuit, sampled"
    assert said["end"].strip().startswith("completed after 2 s; took ")
    assert said["faults"].strip() == "none"
    largest = f"heading {run.residual_max['heading']:.2e} rad"
    assert largest in said["largest residual"]
    assert f"X = {run.state['X'][-1]:.4g} m" in said["state at the end"]
    assert said["columns"].endswith(f"{len(run.t)} rows")


def test_a_new_measure_of_a_run_is_one_entry(run: servonode.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    distance = summary.Measure("distance", lambda run: float(np.hypot(run.state["X"][-1], 3)), "m", "distance")
    monkeypatch.setattr(summary, "MEASURES", (*summary.MEASURES, distance))
    row = ("distance", f"{run.final()['distance']:.4g} m")
    assert row in run.table()[1]
    assert row in summary.summary_rows(run, "run")


def test_a_closed_loop_says_what_its_loop_says(loop: servonode.Loop) -> None:
    title, *lines = repr(loop.closed_loop).splitlines()
    assert title == "Closed loop trailer_pursuit"
    assert lines == repr(loop).splitlines()[1:]
    assert any(line.startswith("  program        pursuit") for line in lines)


def test_matrices_say_what_they_are_and_their_few_numbers(loop: servonode.Loop) -> None:
    title, *lines = repr(loop.matrices(0.0)).splitlines()
    assert title == "Full form M q'' + h = B tau + A^T Lambda, A q'' = gamma"
    assert lines[0] == "  M      mass matrix, 6 x 6"
    assert [line.split()[0] for line in lines if not line.startswith("   ")] == ["M", "h", "B", "A", "gamma"]
    full = servonode.load({"run": {"duration": 1.0}, "plant": {"machine": pendulum}}).matrices(0.0, {"theta": 0.5})
    assert "  M      mass matrix, 1 x 1: [[1.]]" in repr(full).splitlines()
    assert f"  h      bias, 1: [{9.81 * np.sin(0.5):.4f}]" in repr(full).splitlines()


def test_a_run_with_a_fault_says_which_and_when() -> None:
    run = servonode.simulate({"run": {"duration": 3.0}, "plant": {"machine": pendulum}})
    assert run.fault is not None
    assert f"fault             too_low at t = {run.fault['t']:.3f} s: the angle is below -0.1 rad" in repr(run)


def test_a_check_says_whether_it_passed_and_why_not() -> None:
    passed, failed = servonode.check("trailer_pursuit"), servonode.check("trailer_pursuit", controller__period=2.0)
    assert repr(passed).startswith("Check of trailer_pursuit: passed\n")
    assert "  speed      relative degree 1, convergence rate 2 1/s" in repr(passed).splitlines()
    assert "  findings   0 refused, 0 warnings, 5 good" in repr(passed).splitlines()
    title, reason, *_ = repr(failed).splitlines()
    assert failed.verdict == "no"
    assert title == "Check of trailer_pursuit: FAILED"
    assert reason.strip().startswith("refused")


class Tags(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_a_notebook_gets_the_same_lines_as_a_plain_table(loop: servonode.Loop, run: servonode.Run) -> None:
    for each in shown(loop, run):
        page = Tags(each._repr_html_())
        assert set(page.tags) == {"table", "caption", "tbody", "tr", "th", "td"}
        assert "".join(page.words).replace("\u00a0", "").replace(" ", "") == "".join(repr(each).split())
        assert "color:" not in each._repr_html_()  # those of the page hold, whether it is light or dark


def test_what_a_user_calls_something_is_text_in_the_page() -> None:
    page = pendulum("<script>alert(1)</script> & more")._repr_html_()
    assert "<script>" not in page
    assert html.escape("<script>alert(1)</script> & more") in page


def test_tables_stay_small_whatever_they_hold() -> None:
    class Large(Tabular):
        def table(self) -> tuple[str, list[tuple[str, str]]]:
            return "t" * 9999, [(f"row{i}", "word " * 9999) for i in range(99)]

    lines = repr(Large()).splitlines()
    assert max(map(len, lines)) < 300
    assert lines[-1].split() == ["...", "83", "more", "lines"]
    assert len(lines) < 60
    assert several(map(str, range(9)), 3) == "0, 1, 2, and 6 more"
    assert several(map(str, range(4)), 3) == "0, 1, 2, 3"
    assert several([]) == "none"
    assert valued("x", 1 / 3, "m").split("\u00a0") == ["x", "=", "0.3333", "m"]


def fresh(script: str) -> "subprocess.CompletedProcess[str]":
    """A script that succeeds in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


# pictures and movies


def drawn(figure: Any) -> list[list[str]]:
    """The labels of the curves of each axis."""
    return [[line.get_label() for line in axis.lines] for axis in figure.axes]


def titled(figure: Any) -> list[str]:
    """What stands above each axis."""
    return [axis.get_title(loc="left") for axis in figure.axes]


def test_chosen_quantities_are_drawn_each_in_an_axis(run: servonode.Run) -> None:
    figure = run.plot("phi", "U1, U2", "residual_speed", "target_x", "Lambda1")
    symbols = [[r"$\varphi$"], ["$U_{1}$", "$U_{2}$"], ["residual speed"], ["target $x$"], [r"$\Lambda_{1}$"]]
    assert drawn(figure) == symbols
    t, values = figure.axes[1].lines[1].get_data()
    assert np.array_equal(t, run.t)
    assert np.array_equal(values, run.input["U2"], equal_nan=True)
    assert titled(figure) == [
        r"hitch angle $\varphi$ [rad]",
        "torque of the left and\u00a0right wheel [N\u202fm]",
        "residual speed [m/s]",
        "target x",
        r"sideways force on the driven axle $\Lambda_{1}$ [N]",
    ]
    assert figure.axes[-1].get_xlabel() == "time $t$ [s]"


def test_legends_stand_above_their_axis_and_cover_none(run: servonode.Run) -> None:
    figure = run.plot("phi", "U1,U2", "residual_speed,residual_heading,V,Omega,theta1_dot")
    figure.draw_without_rendering()
    alone, *several = figure.axes
    assert alone.get_legend() is None
    for axis in several:
        box = axis.get_legend().get_window_extent()
        assert box.y0 >= axis.bbox.y1
        title = axis._left_title.get_window_extent()
        assert box.x0 >= title.x1 or box.y1 <= title.y0 + 5


def test_a_quantity_can_be_drawn_against_another(run: servonode.Run) -> None:
    line = run.plot("Y", against="X").axes[0].lines[0]
    assert np.array_equal(line.get_xdata(), run.state["X"])
    assert np.array_equal(line.get_ydata(), run.state["Y"])


def test_a_list_is_one_axis_and_runs_are_compared(run: servonode.Run) -> None:
    assert drawn(run.plot("phi", ["U1", "U2"])) == drawn(run.plot("phi", "U1,U2"))
    assert len(run.plot(["phi", "psi"]).axes) == 1
    figure = run.plot("V", run)
    assert figure.texts[0].get_text() == "Comparison"
    assert [each.get_text() for each in figure.axes[0].get_legend().get_texts()] == [
        "trailer_pursuit 1",
        "trailer_pursuit 2",
    ]


def test_chosen_quantities_look_as_matplotlib_is_told(run: servonode.Run) -> None:
    told: Any = {"lines.linewidth": 4.0, "axes.grid": True, "figure.figsize": (3.4, 2.0), "figure.facecolor": "0.9"}
    told |= {"axes.prop_cycle": mpl.cycler(color=["k", "0.5"]), "font.family": "serif", "axes.labelsize": 7.0}
    assert run.plot("phi").axes[0].xaxis.get_gridlines()[0].get_visible() is False
    with mpl.rc_context(told):
        figure = run.plot("U1,U2")
        report = run.plot()
    lines, title = figure.axes[0].lines, figure.axes[0]._left_title
    assert [(line.get_color(), line.get_linewidth()) for line in lines] == [("k", 4.0), ("0.5", 4.0)]
    assert figure.axes[0].xaxis.get_gridlines()[0].get_visible()
    assert (figure.get_figwidth(), figure.get_facecolor()[0]) == (3.4, 0.9)
    assert (title.get_fontsize(), title.get_fontfamily()) == (7.0, ["serif"])
    assert max(line.get_linewidth() for line in report.axes[1].lines) < 2


def test_quantities_go_into_axes_of_a_figure_of_ones_own(run: servonode.Run) -> None:
    one, several = Figure(figsize=(3.4, 2.2)).subplots(), Figure().subplots(2, sharex=True)
    assert run.plot("phi", "psi", ax=one, linestyle=":") is one
    run.plot("phi", ax=one, color="k", label="again")
    assert [line.get_label() for line in one.lines] == [r"$\varphi$", r"$\psi$", "goal", "again"]
    assert [each.get_text() for each in one.get_legend().get_texts()] == [r"$\varphi$", r"$\psi$", "goal", "again"]
    assert one.lines[0].get_linestyle() == ":"
    run.plot("phi", "U1,U2", ax=several)
    assert [axis.get_xlabel() for axis in several] == ["", "time $t$ [s]"]
    assert several[0].get_ylabel() == r"hitch angle $\varphi$ [rad]"
    assert one.get_ylabel().count("\n") == 0
    for wrong in (3, several[:1].tolist() * 3):
        with pytest.raises(StatementError, match=r"ax= has . axes for 2 groups"):
            run.plot("phi", "psi", ax=wrong)
    with pytest.raises(StatementError, match="ax= needs quantities"):
        run.plot(ax=one)
    with pytest.raises(StatementError, match=r"\[3\] is not the name of a quantity"):
        run.plot([3])  # type: ignore[list-item]


def test_a_figure_is_shown_once_and_belongs_to_nobody_afterwards(
    run: servonode.Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import matplotlib.pyplot as plt

    shown: list[Any] = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(map(plt.figure, plt.get_fignums())))
    for figure in (run.plot("phi"), run.plot()):
        figure.show()
        assert (shown, plt.get_fignums()) == ([figure], [])
        figure.savefig(tmp_path / "shown.png")
        shown.clear()


def test_a_run_is_indexed_by_every_name_that_it_draws(run: servonode.Run) -> None:
    assert run["phi"] is run.state["phi"]
    assert run["U1"] is run.input["U1"]
    assert np.array_equal(run["residual_speed"], run.residual["speed"])
    assert np.array_equal(run["Lambda1"], run.outputs["Lambda1"])
    assert ("target_x" in run, "phj" in run, 3 in run) == (True, False, False)
    assert list(dict(run)) == list(run) == list(run.quantities)
    assert run.quantities["V"].unit == run.units["V"]
    with pytest.raises(KeyError, match=r"'phj' is not among these; did you mean phi\?"):
        run["phj"]


def test_a_dataset_has_units_and_words(run: servonode.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    xarray = pytest.importorskip("xarray")
    found = run.to_xarray()
    assert list(found.coords) == ["t"]
    assert found.t.attrs == {"units": "s", "long_name": "time"}
    assert found.U1.attrs["units"] == "N m"
    assert "long_name" not in found.residual_speed.attrs
    assert float(found.phi.sel(t=1.0)) == run["phi"][np.searchsorted(run.t, 1.0)]
    xarray.testing.assert_identical(found, pickle.loads(pickle.dumps(found)))
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ServonodeError, match=r"needs xarray: pip install xarray, or use run\.columns"):
        run.to_xarray()


def test_the_title_of_a_report_keeps_the_name_of_a_file(run: servonode.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    control = run.closed_loop.control
    assert control is not None
    monkeypatch.setattr(control.law, "description", replace(control.law.description, name="./lqr_up.py:Lqr"))
    assert report_title(run).endswith(", program ./lqr_up.py:Lqr")


def test_without_names_it_is_the_reports_picture(run: servonode.Run, tmp_path: Path) -> None:
    figure = run.plot()
    assert len(figure.axes) > 3
    figure.savefig(tmp_path / "report.png")
    assert (tmp_path / "report.png").stat().st_size > 20_000


def test_a_view_that_cannot_be_drawn_is_one_error_of_the_machine() -> None:
    theta = mechanics.coordinate("theta", "angle", "rad")
    model = mechanics.Model(name="m", description="m", coordinates=(theta,), kinetic=theta.rate**2 / 2)
    names: dict[str, Any] = {"model": model, "View": View}
    text = "VIEW = View(outline=lambda values, parameters: [[0.0, 1.0, 2.0]])\ndef machine():\n    return model\n"
    exec(compile(text, "machine.py", "exec"), names)  # noqa: S102  (a module of a user's)
    run = servonode.simulate({"run": {"duration": 0.1}, "plant": {"machine": names["machine"]}})
    with pytest.raises(ServonodeError, match=r"VIEW's outline gave an array of shape \(3,\) as line 0"):
        run.plot()
    assert drawn(run.plot("theta")) == [[r"$\theta$"]]


def test_figures_leave_pyplot_and_its_settings_alone() -> None:
    script = """
        import servonode, sys
        run = servonode.simulate("trailer_pursuit", run__duration=0.2)
        run.plot("phi")
        run.plot()
        assert "matplotlib.pyplot" not in sys.modules
        import matplotlib
        assert matplotlib.rcParams == matplotlib.rcParamsDefault or matplotlib.rcParams["axes.grid"] is False
    """
    assert fresh(script).stderr == ""


def test_a_notebook_shows_figures_and_runs_and_names_the_cell_of_a_mistake() -> None:
    pytest.importorskip("IPython")
    script = """
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_cell('import servonode', store_history=True)
        shell.run_cell('run = servonode.simulate("trailer_pursuit", run__duration=0.2)')
        figure = shell.user_ns["run"].plot("phi")
        shown, _ = shell.display_formatter.format(figure)
        assert shown["image/png"].startswith("iVBOR"), shown  # a PNG in base64
        page, _ = shell.display_formatter.format(shell.user_ns["run"])
        assert page["text/html"].startswith("<table"), page
        wrong = "servonode.mechanics.parameter('m', 'mass', default=-1.0, above=0)"
        print(shell.run_cell(wrong, store_history=True).error_in_exec)
    """
    assert fresh(script).stdout.splitlines()[-1].startswith("Cell In[2] line 1: parameter m: its default -1")


@pytest.mark.parametrize(("ending", "media", "tag"), [(".gif", "image/gif", "<img"), (".mp4", "video/mp4", "<video")])
def test_a_movie_is_a_file_and_shows_itself(
    run: servonode.Run, tmp_path: Path, ending: str, media: str, tag: str, capfd: Any
) -> None:
    if ending == ".mp4" and ffmpeg() is None:
        pytest.skip("neither imageio-ffmpeg nor ffmpeg is installed")
    file = tmp_path / f"run{ending}"
    movie = run.movie(file, fps=np.int64(5), speed=np.float32(4))
    assert movie.media == media
    assert movie.data == file.read_bytes()
    assert movie._repr_html_().startswith(tag)
    assert f"data:{media};base64," in movie._repr_html_()
    assert len(repr(movie)) < 300
    assert movie.save(tmp_path / "again").read_bytes() == movie.data
    assert capfd.readouterr() == ("", "")


def test_a_movie_needs_no_file(run: servonode.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    movie = run.movie(fps=2, speed=4)
    assert (movie.file, len(movie.data) > 1000, list(tmp_path.iterdir())) == (None, True, [])


def test_columns_go_into_a_file_by_name_or_path(run: servonode.Run, tmp_path: Path) -> None:
    run.write_csv(str(tmp_path / "run.csv"), every=np.int64(10))
    lines = (tmp_path / "run.csv").read_text().splitlines()
    assert lines[0].split(",")[:2] == ["t", "X"]
    assert len(lines) == 1 + -(-len(run.t) // 10)


def test_a_name_that_a_run_does_not_hold_is_still_a_key_error(run: servonode.Run) -> None:
    with pytest.raises(KeyError) as caught:
        run.residual["speeed"]
    assert str(caught.value) == "'speeed' is not among these; did you mean speed? choose from speed, heading"
    assert "phj" not in run.state
    assert run.state.get("phj") is None
    assert pickle.loads(pickle.dumps(run.state)).keys() == run.state.keys()


def test_without_pandas_a_frame_is_one_error_of_servonode(run: servonode.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ServonodeError, match=r"needs pandas: pip install pandas, or use run\.columns") as caught:
        run.to_dataframe()
    assert isinstance(caught.value, ImportError)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


# runs and recordings


def test_a_run_needs_the_main_thread(loop: servonode.Loop) -> None:
    caught: list[Exception] = []

    def begin() -> None:
        try:
            loop.run(name="thread")
        except StatementError as error:
            caught.append(error)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    assert "needs the main thread" in str(caught[0])


def test_a_recording_is_a_run_again(tmp_path: Path) -> None:
    file = recorded(tmp_path / "short.mcap", "trailer_pursuit_lockstep", "run.duration=0.5")
    again = servonode.read_recording(str(file))
    simulated = servonode.simulate("trailer_pursuit_lockstep", run__duration=0.5, every=1)
    assert np.array_equal(again.state["phi"], simulated.state["phi"])
    assert drawn(again.plot("phi")) == [[r"$\varphi$"]]
    bag = read_bag(file)
    title, *lines = repr(bag).splitlines()
    assert title.startswith("Recording ")
    assert [line.split() for line in lines[:3]] == [
        ["run", "short"], ["machine", "diff_drive_trailer"], ["program", "pursuit"]
    ]  # fmt: skip
    with pytest.raises(ServonodeError, match=r"nothing.mcap: cannot be read"):
        servonode.read_recording(tmp_path / "nothing.mcap")


# one error for a mistake


def test_a_function_that_no_file_holds_is_answered_with_its_line() -> None:
    names: dict[str, Any] = {}
    text = "def machine():\n    return 1 / 0\n"
    exec(compile(text, "<stdin>", "exec"), names)  # noqa: S102  (as what is typed into an interpreter)
    with pytest.raises(ServonodeError, match="<stdin> line 2: ZeroDivisionError: division by zero; correct this line"):
        servonode.load({"run": {"duration": 1.0}, "plant": {"machine": names["machine"]}})


def test_a_functions_name_and_signature_stay() -> None:
    assert list(inspect.signature(servonode.simulate).parameters)[:3] == ["launch", "control", "loop"]
    assert servonode.simulate.__name__ == "simulate"
    assert list(inspect.signature(mechanics.Model).parameters)[:2] == ["name", "description"]
    assert inspect.signature(servonode.Run.plot).parameters["against"].default == "t"
