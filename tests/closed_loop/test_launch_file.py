"""Launch files: what they mean, and that every mistake gives one line that says how to fix it."""

import math
import pickle
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servonode.closed_loop import launch_file
from servonode.closed_loop.key_table import keys_of, sections
from servonode.closed_loop.launch_error import check_names, naming_file, per_name
from servonode.closed_loop.launch_file import LaunchError, packaged, read_launch
from servonode.closed_loop.launch_keys import LaunchFile

SMALL = """# Watch for: the robot settles behind the target.
[run]
duration = 10
[plant]
machine = "diff_drive_trailer"
[controller]
program = "pursuit"
"""
FULL = (
    SMALL
    + """period = 0.02
delay = 1
parameters.m1 = 4
gains = {lambda = "auto", lambda_speed = 2}
settings = {a = 1.5, n = 3, variant = "finite", strict = true, point = [1, 2.5]}
[plant.parameters]
m1 = 3
[plant.settings]
gravity = false
scheme = "dual"
[plant.initial]
x = 1
n = [0, 0, 1]
on_program = true
[plant.actuator]
limit = 5
lag = {left = 0.01}
[plant.sensor]
noise = {phi = 0.001}
bias = -1
drop = 0.25
[plant.safety]
limit = {left = 3}
on_fault = "resume"
[target]
x = "6*sin(0.05*t)"
y = 2
"""
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def read(tmp_path: Path, text: str, *overrides: str) -> LaunchFile:
    path = tmp_path / "a.toml"
    path.write_text(text)
    return read_launch(path, overrides)


def refusal(file: str | Path, *overrides: str) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        read_launch(file, overrides)
    assert str(caught.value).isprintable()
    assert "; " in str(caught.value)
    return caught.value


def test_a_small_file_has_the_defaults(file: Path) -> None:
    launch = read_launch(file)
    run, plant, controller = launch.run, launch.plant, launch.controller
    assert (run.mode, run.speed, run.duration, run.seed, run.lockstep_timeout) == ("realtime", 1.0, 10.0, 1, 5.0)
    assert (plant.driver, plant.step, plant.integrator, plant.publish_every) == ("simulated", 0.001, "rk4", 1)
    assert controller is not None
    assert (controller.period, controller.delay, controller.settings) == (0.01, 0, {})
    assert (plant.sensor.drop, plant.sensor.delay, plant.actuator.limit) == (0.0, 0.0, None)
    assert (plant.safety.command_timeout, plant.safety.command_timeout_floor) == (None, 0.02)
    assert plant.safety.on_fault == "auto"
    assert (launch.name, launch.path, launch.target) == ("small", file, {})
    assert (launch.step_ns, launch.period_ns, launch.duration_ns) == (10**6, 10**7, 10**10)
    assert (launch.steps, launch.steps_per_period) == (10_000, 10)


def test_every_key_is_read_and_keeps_its_type(tmp_path: Path) -> None:
    launch = read(tmp_path, FULL)
    plant, controller = launch.plant, launch.controller
    assert controller is not None
    assert (controller.period, controller.delay, controller.parameters) == (0.02, 1, {"m1": 4.0})
    assert controller.gains == {"lambda": "auto", "lambda_speed": 2.0}
    assert controller.settings == {"a": 1.5, "n": 3, "variant": "finite", "strict": True, "point": [1.0, 2.5]}
    assert type(controller.settings["n"]) is int
    assert controller.settings["strict"] is True
    assert plant.parameters == {"m1": 3.0}
    assert type(plant.parameters["m1"]) is float
    assert plant.settings == {"gravity": False, "scheme": "dual"}
    assert plant.initial == {"x": 1.0, "n": [0.0, 0.0, 1.0], "on_program": True}
    assert (plant.actuator.limit, plant.actuator.lag) == (5.0, {"left": 0.01})
    assert (plant.sensor.noise, plant.sensor.bias, plant.sensor.drop) == ({"phi": 0.001}, -1.0, 0.25)
    assert (plant.safety.limit, plant.safety.on_fault) == ({"left": 3.0}, "resume")
    assert launch.target == {"x": "6*sin(0.05*t)", "y": 2.0}


def test_a_file_without_controller_has_no_period(tmp_path: Path) -> None:
    launch = read(tmp_path, SMALL.partition("[controller]")[0])
    assert (launch.controller, launch.period_ns, launch.steps_per_period) == (None, None, None)


def test_a_launch_file_cannot_be_changed(file: Path) -> None:
    with pytest.raises(AttributeError):
        read_launch(file).run.speed = 2.0  # type: ignore[misc]


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert read_launch(path).steps == 10_000


@pytest.mark.parametrize(
    ("step", "period", "steps"),
    [(0.1, 0.3, 3), (0.001, 0.007, 7), (0.0001, 0.0029, 29), (1e-9, 3e-9, 3), (0.01, 0.57, 57), (0.3, 0.9, 3)],
)
def test_times_divide_as_decimals_not_as_doubles(file: Path, step: float, period: float, steps: int) -> None:
    launch = read_launch(file, [f"plant.step={step}", f"controller.period={period}", f"run.duration={period}"])
    assert (launch.steps_per_period, launch.steps) == (steps, steps)
    assert launch.step_ns * steps == launch.period_ns == launch.duration_ns


@given(step_ns=st.integers(1, 10**9), steps=st.integers(1, 10**6))
def test_every_whole_number_of_steps_is_accepted_exactly(file: Path, step_ns: int, steps: int) -> None:
    step, duration = (f"{ns // 10**9}.{ns % 10**9:09d}" for ns in (step_ns, step_ns * steps))
    launch = read_launch(file, [f"plant.step={step}", f"run.duration={duration}", f"controller.period={step}"])
    assert (launch.step_ns, launch.steps) == (step_ns, steps)


def test_the_last_period_may_be_cut_short(file: Path) -> None:
    assert read_launch(file, ["run.duration=0.015"]).steps == 15


LONG = {  # a file that is too long for a row: what is said
    "plant.parameters.m = 1" + "0" * 400: " [plant.parameters] m: a huge number is not a number",
    "x = " + "[" * 3000: ": the brackets are nested too deeply; use fewer",
    "x = 1" + "0" * 5000: ": an integer has thousands of digits; write a decimal such as 1e18",
    "#" * 1_000_001: ": longer than 100 kB; give the path of a TOML file",
    ".".join("a" * 5000) + " = 1": " [a]: unknown section",
    "plant.initial." + ".".join("a" * 5000) + " = 1": " [plant.initial] a: a table is not",
}


@pytest.mark.parametrize("text", LONG, ids=[text[:20] for text in LONG])
def test_a_file_of_thousands_of_characters_is_refused_in_a_short_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    assert str(refusal(path)).startswith(f"{path}{LONG[text]}")


def test_overrides_of_thousands_of_characters_are_raw_text_or_named_in_short(file: Path) -> None:
    brackets = "[" * 3000 + "]" * 3000
    assert read_launch(file, [f"target.x={brackets}"]).target["x"] == brackets  # no TOML, so raw
    error = str(refusal(file, ".".join("a" * 5000) + "=1"))
    assert error.startswith(f"{file} --set {'a.' * 497}...: unknown section")


def test_an_error_reads_like_the_house_example(tmp_path: Path) -> None:
    error = LaunchError("launch/a.toml", "controller", "period", "0.0105 s is wrong; use 0.01")
    assert str(error) == "launch/a.toml [controller] period: 0.0105 s is wrong; use 0.01"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_error_names_what_a_key_takes_in_its_own_order(file: Path) -> None:
    """Whichever of two keys that take the same was refused first."""
    kinds = {"plant.disturbance.X": "a text or a number", "plant.parameters.m1": "a number or a text"}
    for key in (*kinds, *reversed(kinds)):
        with pytest.raises(LaunchError, match=f"true is not {kinds[key]}; give"):
            read_launch(str(file), [f"{key}=true"])


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    assert "a directory; give the path of a TOML file" in str(refusal(tmp_path))
    assert "no such file" in str(refusal(tmp_path / "none.toml"))
    assert "cannot be read (Not a directory)" in str(refusal(__file__ + "/a.toml"))
    assert "cannot be read (File name too long)" in str(refusal("x" * 300))
    assert "cannot be read (embedded null byte)" in str(refusal("a\0b"))
    assert "a pipe or a device, not a file" in str(refusal("/dev/zero"))
    assert "cannot be read" in str(refusal("/proc/self/mem"))
    refusal("")
    refusal("\udcff")
    (tmp_path / "latin.toml").write_bytes(b"# good\n# \xe9\n")
    assert "not UTF-8 at line 2; save it as UTF-8" in str(refusal(tmp_path / "latin.toml"))


@pytest.fixture
def gallery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the packaged launch files."""
    folder = tmp_path / "gallery"
    folder.mkdir()
    (folder / "trailer_pursuit.toml").write_text(SMALL)
    (folder / "hoop_source.toml").write_text("[run]\nduration = 1\n")
    (folder / "__init__.py").write_text("")
    monkeypatch.setattr(launch_file, "files", lambda package: {"servonode.launch": folder}[package])
    return folder


def test_packaged_files_are_listed_with_their_first_comment(gallery: Path) -> None:
    assert packaged() == {
        "hoop_source": "",
        "trailer_pursuit": "Watch for: the robot settles behind the target.",
    }


def test_a_bare_name_is_a_packaged_file(gallery: Path) -> None:
    launch = read_launch("trailer_pursuit", ["run.duration=1"])
    assert (launch.name, launch.path) == ("trailer_pursuit", gallery / "trailer_pursuit.toml")


def test_an_unknown_bare_name_gives_the_nearest_and_where_all_are_listed(gallery: Path) -> None:
    listed = "give the path of a TOML file, or a name that servonode list launch shows"
    for name in ("trailer_persuit", "trailer_persuit.toml"):
        assert str(refusal(name)) == f"{name}: no such file; did you mean trailer_pursuit? {listed}"
    assert str(refusal("zzz")) == f"zzz: no such file; {listed}"


def test_an_unknown_bare_name_gives_three_names_at_most() -> None:
    near = re.search(r"did you mean (.*?)\?", str(refusal("trailer")))
    assert near is not None
    assert 1 <= len(re.split(", | or ", near[1])) <= 3
    assert set(re.split(", | or ", near[1])) <= set(packaged())


@pytest.mark.parametrize(
    ("override", "where", "value"),
    [
        ("run.speed=6", "run.speed", 6.0),
        ("run.mode=lockstep", "run.mode", "lockstep"),
        ('run.mode="lockstep"', "run.mode", "lockstep"),
        (" plant.machine = ./my.py:model", "plant.machine", " ./my.py:model"),
        ("plant.parameters.m1=3", "plant.parameters", {"m1": 3.0}),
        ("plant.initial={x = 1, n = [1, 2]}", "plant.initial", {"x": 1.0, "n": [1.0, 2.0]}),
        ("plant.actuator.limit.left=2", "plant.actuator.limit", {"left": 2.0}),
        ("target.x=6*sin(t) + 1", "target", {"x": "6*sin(t) + 1"}),
        ("target.x=a=b", "target", {"x": "a=b"}),
        ("target.x=1\ny=2", "target", {"x": "1\ny=2"}),
        ("target.x=", "target", {"x": ""}),
        ("controller.settings.list=[1, 2]", "controller.settings", {"list": [1.0, 2.0]}),
    ],
)
def test_an_override_is_a_toml_value_or_else_the_raw_text(file: Path, override: str, where: str, value: Any) -> None:
    found: Any = read_launch(file, [override])
    for name in where.split("."):
        found = getattr(found, name)
    assert found == value


def test_the_last_override_wins_and_may_make_a_section(tmp_path: Path) -> None:
    text = SMALL.partition("[controller]")[0]
    launch = read(tmp_path, text, "controller.program=a", "controller.period=0.1", "controller.period=0.2")
    assert launch.controller is not None
    assert launch.controller.period == 0.2


def test_a_name_that_is_not_valid_gives_the_nearest_and_the_list() -> None:
    check_names("plant.initial", ["x"], ("x", "phi"))
    text = r"a\.toml \[plant\.initial\] ph: unknown name; did you mean phi\? Choose phi or x"
    with pytest.raises(LaunchError, match=text), naming_file("a.toml"):
        check_names("plant.initial", {"x": 1, "ph": 2}, ("x", "phi"))
    with pytest.raises(LaunchError, match=r"choose nothing"), naming_file("a.toml"):
        check_names("plant.initial", ["x"], ())


def test_a_number_stands_for_all_names_and_a_table_for_those_it_names() -> None:
    def expand(value: float | dict[str, float] | None) -> tuple[float, ...]:
        return per_name("plant.actuator", "limit", value, ("left", "right"), math.inf)

    assert expand(2) == (2.0, 2.0)
    assert expand(None) == (math.inf, math.inf)
    assert expand({"right": 3}) == (math.inf, 3.0)
    with (
        pytest.raises(LaunchError, match=r"\[plant\.actuator\.limit\] lft: .*did you mean left\?"),
        naming_file("a.toml"),
    ):
        expand({"lft": 3})


def test_every_key_has_a_sentence_and_a_unit() -> None:
    for _, section in sections():
        for field in keys_of(section):
            info = msgspec.inspect.type_info(field.type)
            assert isinstance(info, msgspec.inspect.Metadata), field.name
            assert (info.extra_json_schema or {})["description"]
            assert "unit" in (info.extra or {})


KEYS = [
    *("run", "run.speed", "run.duration", "run.mode", "run.seed", "plant.step", "plant.initial.x", "plant.parameters"),
    *("plant.actuator.limit", "plant.sensor.drop", "controller.settings.a", "controller.period", "target.x", "x"),
]
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.dates(), st.times()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.one_of(st.text(), st.builds("{}={}".format, st.sampled_from(KEYS), st.text())), max_size=3))
@example(["run.speed='\ud800'"])
@example(["target.\ud800=1", "target.x='''\n'''"])
def test_random_overrides_give_a_launch_file_or_a_launch_error(file: Path, overrides: list[str]) -> None:
    try:
        assert isinstance(read_launch(file, overrides), LaunchFile)
    except LaunchError as error:
        assert str(error).isprintable()  # noqa: PT017 -- either outcome is right


@given(st.sampled_from(KEYS), VALUES)
def test_random_values_give_a_launch_file_or_a_launch_error(file: Path, key: str, value: object) -> None:
    table: dict[str, Any] = tomllib.loads(FULL)
    inner = table
    *parents, last = key.split(".")
    for name in parents:
        inner = inner.setdefault(name, {})
    inner[last] = value
    try:
        launch = launch_file._Reader("a.toml").launch(file, table)
    except LaunchError as error:
        assert str(error).isprintable()  # noqa: PT017 -- either outcome is right
    else:
        assert "nan" not in repr(launch.plant.initial)


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_random_files_give_a_launch_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fuzz.toml"
    path.write_bytes(content)
    with pytest.raises(LaunchError):
        read_launch(path)
