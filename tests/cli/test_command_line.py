"""The command line where no process is forked: exit codes, one-line errors, JSON, files, help."""

import csv
import importlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
import pytest
from click.testing import CliRunner

import servonode
from servonode.bus import Status
from servonode.cli.deliver import StatusLine, table
from servonode.cli.main import FILES, main
from servonode.cli.methods import Method, MethodVerb
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import packaged, read_launch
from servonode.definitions import cache
from servonode.nodes.recording import Outcome
from tests.helpers.commands import commands, verbs
from tests.helpers.refusals import command, refused_command
from tests.helpers.wings import wing

KEYS = {"t", "state", "input", "residual", "output", "program_state", "energy", "fault", "steps", "wall_s"}
ESCAPES = ("--set", "controller.settings.U1=1e200")
WEAK = ("--set", "run.duration=4", "--set", "plant.actuator.limit=0.01")
SHORT = ("--set", "run.duration=0.5")


# results


def test_a_saturated_drive_is_told_on_the_terminal_and_in_json_and_is_no_failure() -> None:
    result = command("simulate", "trailer_pursuit", *WEAK, "--json")
    assert result.exit_code == 0
    assert "  warning           U1 is at its limit of 0.01 N m for " in result.stderr
    printed = json.loads(result.stdout)
    assert {"goal", "input_limit"} == {each["name"] for each in printed["warnings"]}
    assert printed["limited_share"]["U1"] > 0.5
    assert printed["fault"] is None


@pytest.mark.parametrize("attack", ["__import__('os').system('touch {}')", "open('{}', 'w')", "(" * 5000 + "t"])
@pytest.mark.parametrize("place", ["target.x", "controller.settings.U1"])
def test_an_expression_cannot_run_code(tmp_path: Path, attack: str, place: str) -> None:
    trace = tmp_path / "trace"
    launch = "trailer_pursuit" if place == "target.x" else "trailer_open_loop"
    line = refused_command("simulate", launch, "--set", f"{place}={attack.replace('{}', str(trace))}", *SHORT)
    assert f"[{place.rpartition('.')[0]}]" in line or "--set" in line
    assert len(line) < 2000
    assert not trace.exists()


BALL = '''"""A ball that is thrown up."""

from servonode.mechanics import Model, coordinate


def ball() -> Model:
    y = coordinate("y", "height", "m")
    return Model(name="ball", description="a ball", coordinates=(y,), kinetic=y.rate**2 / 2, potential=9.81 * y)
'''


def launched(folder: Path, what: str) -> str:
    """A launch file of a ball that is described so."""
    (folder / "ball.py").write_text(BALL.replace("a ball", what))
    (folder / "a.toml").write_text('run.duration = 0.1\nplant.machine = "./ball.py:ball"\n')
    return str(folder / "a.toml")


def test_a_damaged_kernel_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    launch = launched(tmp_path, "a damaged ball")
    assert command("check", launch).exit_code == 0
    kernels = (tmp_path / "servonode" / "kernels").iterdir()
    (victim,) = (each for each in kernels if b"a damaged ball" in each.read_bytes())
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    for told in ([f"the kernel cache {victim} is damaged; it is made again"], []):
        del cache._loaded[f"kernel_{victim.stem}"]  # as in a new process
        caplog.clear()
        assert command("check", launch).exit_code == 0
        assert [text for text in caplog.messages if "damaged;" in text] == told


def test_a_cache_that_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "servonode").write_text("in the way")
    line = refused_command("check", launched(tmp_path, "a new ball"))
    assert line.endswith("set XDG_CACHE_HOME to a folder that can be written")


# what is printed


def test_simulate_prints_one_json_object_and_nothing_else_on_stdout() -> None:
    result = command("simulate", "trailer_pursuit", "--json", *SHORT)
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    printed = json.loads(result.stdout)
    assert printed.keys() >= KEYS
    assert list(printed["state"]) == ["X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2"]
    assert list(printed["input"]) == ["U1", "U2"]
    assert list(printed["residual"]) == ["speed", "heading"]
    assert printed["output"].keys() >= {"Lambda1", "Lambda2", "Lambda3", "Lambda4"}
    assert (printed["t"], printed["steps"], printed["fault"]) == (0.5, 500, None)


@pytest.mark.parametrize("control", ["sampled", "continuous"])
def test_json_has_the_full_precision_of_the_python_call(control: Any) -> None:
    printed = json.loads(command("simulate", "trailer_pursuit", "--json", "--control", control, *SHORT).stdout)
    expected = servonode.simulate("trailer_pursuit", control=control, run__duration=0.5).final()
    for key in ("t", "state", "input", "residual", "output", "energy"):
        assert printed[key] == expected[key]


def test_unknown_numbers_are_printed_as_null_and_infinite_ones_as_text() -> None:
    result = command("simulate", "trailer_open_loop", "--json", *ESCAPES)
    assert result.exit_code == 1

    def never(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    printed = json.loads(result.stdout, parse_constant=never)
    assert printed["energy"] in (None, "inf")
    assert printed["fault"]["name"] == "diverged"


def test_a_law_that_fails_midway_ends_with_exit_code_1_and_names_the_guard() -> None:
    words = ("--set", "target.x=2 - 0.5*t", "--set", "target.y=0", "--set", "controller.settings.rho0=0.06")
    for more in ((), ("--loop", "nodes"), ("--control", "continuous")):
        result = command("simulate", "trailer_pursuit", *words, *more)
        assert result.exit_code == 1
        assert "the target is inside the guard radius" in result.output
    printed = json.loads(command("simulate", "trailer_pursuit", *words, "--json").stdout)
    assert printed["fault"]["name"] == "law"
    brake = -0.05 * printed["output"]["theta1_dot"]  # c_b; held from a step before, when it was 0.2 % faster
    assert printed["input"] == pytest.approx({"U1": brake, "U2": brake}, rel=5e-3)
    assert abs(printed["state"]["V"]) < 1e-5
    printed = json.loads(
        command("simulate", "trailer_pursuit", *words, "--json", "--set", "plant.parameters.c_b=0").stdout
    )
    assert printed["input"] == {"U1": 0.0, "U2": 0.0}


def test_the_table_shows_residuals_energy_and_faults() -> None:
    result = command("simulate", "trailer_pursuit", *SHORT)
    assert result.stderr == ""
    for word in ("completed after 0.500 s", "largest residual", "heading", "energy check", "faults            none"):
        assert word in result.stdout


def test_the_table_counts_nothing_that_did_not_happen_and_warns_of_what_did() -> None:
    result = command("simulate", "trailer_coast", "--set", "plant.initial.phi=2")
    assert "warning" in result.stdout
    assert "hitch angle beyond pi/2" in result.stdout
    assert "fault " not in result.stdout


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("launch", ["trailer_pursuit", "trailer_coast"])
def test_the_csv_holds_the_whole_run_in_full_precision(tmp_path: Path, launch: str, every: int) -> None:
    file = tmp_path / "out.csv"
    result = command("simulate", launch, "--output", str(file), "--every", str(every), *SHORT)
    assert result.exit_code == 0
    with file.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    run = servonode.simulate(launch, every=every, run__duration=0.5)
    residuals = {f"residual_{name}": values for name, values in run.residual.items()}
    columns = {"t": run.t, **run.state, **run.input, **residuals, "energy": run.energy}
    assert header == list(columns)
    assert len(rows) == 1 + 500 // every + (500 % every > 0)
    table = np.array(rows, dtype=float).T
    for name, column in zip(header, table, strict=True):
        np.testing.assert_array_equal(column, columns[name], name)


def test_the_csv_tells_a_residual_from_a_state_of_the_same_name(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    command("simulate", "trailer_reverse", "--set", "run.duration=0.1", "--output", str(file))
    header = file.read_text().partition("\n")[0].split(",")
    assert "phi" in header
    assert "residual_phi" in header
    assert len(set(header)) == len(header)
    assert len(file.read_text().splitlines()) == 102  # every step, unless told otherwise


def test_a_run_that_ended_by_a_fault_is_drawn_too(tmp_path: Path) -> None:
    file = tmp_path / "report.png"
    result = command("simulate", "trailer_open_loop", "--report", str(file), "--json", *ESCAPES)
    assert result.exit_code == 1
    assert file.read_bytes().startswith(b"\x89PNG")


# what is shown of a run on processes


def shown(lifecycle: str, *overrides: str, fault: str = "", t: float = 1.0, **values: float) -> str:
    """The status line of a run whose plant says this of itself."""
    stream = StringIO()
    closed_loop = resolve(read_launch("trailer_pursuit", ["run.speed=1", *overrides]))
    header: dict[str, Any] = {"t": t, "seq": 0, "run": 1, "k": 0, "mono": 0, "node": "plant", "src": 1, "counts": {}}
    status = Status(**header, lifecycle=cast("Any", lifecycle), fault=fault, values=values)
    StatusLine(closed_loop, "demo", stream)({"plant": status})
    return stream.getvalue()


def test_the_status_line_of_an_active_plant_shows_its_time_and_pace() -> None:
    assert shown("active", rate=0.5, round_trip=0.002) == "demo 1.0/125.664 s  0.5x  round trip 2.00 ms\n"
    assert shown("finished", rate=0.5) == "demo 1.0/125.664 s  0.5x\n"


def test_status_line_says_why_a_plant_is_not_active_and_the_remedy() -> None:
    assert shown("unconfigured") == "demo 1.0/125.664 s  waiting for the machine\n"
    assert shown("inactive") == "demo 1.0/125.664 s  waiting to be armed: servonode arm demo\n"
    assert shown("inactive", armed=1.0) == "demo 1.0/125.664 s  armed, waiting for a command\n"
    assert shown("inactive", t=0.0) == "demo 0.0/125.664 s  starting\n"  # a simulation arms itself
    assert shown("inactive", "plant.driver=external", "plant.safety.limit=1", t=0.0).endswith(
        "waiting to be armed: servonode arm demo\n"
    )


def test_the_status_line_says_whether_a_fault_waits_for_a_reset() -> None:
    held = ", held safe: servonode reset demo\n"
    stopped = ", held safe: servonode reset --estop demo\n"
    assert shown("fault", fault="estop", estop=1.0).endswith("FAULT estop" + stopped)
    assert shown("fault", fault="law", estop=1.0).endswith("FAULT law" + stopped)
    assert shown("fault", fault="law").endswith("FAULT law\n")
    assert shown("fault", "plant.safety.on_fault=wait", fault="law").endswith("FAULT law" + held)
    assert shown("fault", "supervision.controller=always", fault="law").endswith("FAULT law" + held)


def test_an_unsafe_watchdog_stands_in_every_status_line_and_table() -> None:
    unsafe, text = ("plant.safety.unsafe=true", "plant.safety.command_timeout=0"), "UNSAFE: no command watchdog"
    for lifecycle in ("active", "inactive", "fault", "finished"):
        assert text in shown(lifecycle, *unsafe)
        assert "UNSAFE" not in shown(lifecycle)
    assert "UNSAFE: command timeout 30 s" in shown("active", unsafe[0], "plant.safety.command_timeout=30")
    words = [word for override in unsafe for word in ("--set", override)]
    assert f"safety            {text}\n" in command("simulate", "trailer_pursuit", *SHORT, *words).stdout


def test_a_change_of_lifecycle_is_shown_at_once() -> None:
    stream = StringIO()
    line = StatusLine(resolve(read_launch("trailer_pursuit")), "demo", stream)
    header: dict[str, Any] = {"seq": 0, "run": 1, "k": 0, "mono": 0, "node": "plant", "src": 1, "counts": {}}
    for lifecycle in ("active", "active", "fault", "fault", "inactive", "active"):
        line({"plant": Status(**header, t=1.0, lifecycle=cast("Any", lifecycle), values={"rate": 1.0})})
    assert len(stream.getvalue().splitlines()) == 4  # the others wait for their time


@pytest.mark.parametrize(("words", "arm"), [((), None), (("--arm",), True)])
def test_arm_is_handed_to_the_launcher(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], arm: bool | None
) -> None:
    handed: dict[str, Any] = {}

    class Recording:
        def __init__(self, *_: Any, **options: Any) -> None:
            handed.update(options)

        def launch(self) -> Outcome:
            return Outcome()

    monkeypatch.setattr("servonode.nodes.launcher.Launcher", Recording)
    assert command("run", "trailer_pursuit", "--no-report", *words).exit_code == 0
    assert handed == {"arm": arm}


def times(p50: float) -> dict[str, float]:
    return {"p50": p50, "p99": 2 * p50, "p999": 3 * p50, "max": 4 * p50}


def test_the_table_of_a_run_in_real_time_shows_how_it_kept_time() -> None:
    run = servonode.simulate("trailer_pursuit", run__duration=0.1)
    nodes = {
        "controller": {"execution_s": times(1e-4)},
        "plant": {"round_trip_s": times(2e-4), "period_s": times(1e-2)},
    }
    counts = {"missed_commands": 2, "repeats": 5, "late_commands": 1, "refused_age": 3, "refused_non_finite": 1}
    stats = {"rate": 1.0, "misses": 4, "stalls": 1, "overruns": 2, "counts": counts, "nodes": nodes}
    stats |= {"node_counts": {"plant": counts, "controller": {"skipped_states": 2}, "target": {}}}
    stats |= {"grants": {"line": "real time: timer slack 1 us"}, "restarts": {"controller": 2}}
    text = table(replace(run, control="realtime", stats=stats), "demo")
    rows = [line.split() for line in text.splitlines()]
    begin = text.splitlines().index("  real time         timer slack 1 us")
    assert rows[begin + 1 : begin + 5] == [
        ["timing", "[ms]", "p50", "p99", "p99.9", "max"],
        ["plant", "period", "10.000", "20.000", "30.000", "40.000"],
        ["plant", "round", "trip", "0.200", "0.400", "0.600", "0.800"],
        ["controller", "execution", "0.100", "0.200", "0.300", "0.400"],
    ]
    assert [line[2:] for line in text.splitlines()[begin + 5 : begin + 10]] == [
        "missed            4 deadlines, 2 commands, 2 overruns, 1 host stalls",
        "repeated          the command before, for 5 periods",
        "late              1 commands, which acted after their instant",
        "started again     controller 2x",
        "dropped           plant: age 3, non finite 1; controller: skipped states 2",
    ]


def test_the_table_of_a_run_in_lockstep_shows_the_round_trip_only() -> None:
    run = servonode.simulate("trailer_pursuit", run__duration=0.1)
    stats = {"rate": 9.0, "misses": 0, "counts": {}, "round_trip_s": times(1e-4), "nodes": {"plant": {"x_s": times(1)}}}
    text = table(replace(run, control="lockstep", stats=stats), "demo")
    assert "  round trip        p50 0.100 ms   p99 0.200 ms   max 0.400 ms\n" in text
    for word in ("timing", "missed", "repeated", "late ", "dropped", "real time"):
        assert word not in text


# list, check, help


def test_list_shows_machines_programs_and_launch_files() -> None:
    assert "diff_drive_trailer " in command("list", "machines").stdout
    for name in ("pursuit", "rates", "open_loop"):
        assert f"{name} " in command("list", "programs").stdout
    lines = command("list", "launch").stdout.splitlines()
    names = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert names == [*sorted(packaged()), *sorted(packaged(robots=True))]
    text = " ".join(" ".join(lines).split())
    assert all(f"{name} {each.removeprefix('Watch for: ')}" in text for name, each in packaged().items())
    assert max(map(len, command("list").stdout.splitlines())) <= 80
    assert json.loads(command("list", "launch", "--json").stdout) == packaged() | packaged(robots=True)


def test_list_alone_shows_every_kind() -> None:
    text, kinds = command("list").stdout, json.loads(command("list", "--json").stdout)
    assert list(kinds) == ["machines", "programs", "launch", "drivers", "extensions"]
    assert all(
        f"  {name} " in text
        for name in (*kinds["machines"], *kinds["launch"], *kinds["drivers"], "pursuit", "open_loop")
    )
    for kind, found in kinds.items():
        assert json.loads(command("list", kind, "--json").stdout) == found


def test_check_prints_the_report_for_people_and_for_machines() -> None:
    launch = "sphero_rolls"
    result = command("check", launch)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "machine " in result.stdout
    printed = json.loads(command("check", launch, "--json").stdout)
    assert printed == json.loads(json.dumps(servonode.check(launch).as_dict()))


def test_check_resolves_degrees_rates_and_the_start() -> None:
    words = ("--set", "controller.gains.lambda_speed=3", "--set", "target.x=2.5")
    printed = json.loads(command("check", "trailer_pursuit", "--json", *words).stdout)
    found = {name: (each["relative_degree"], each["convergence_rate"]) for name, each in printed["residuals"].items()}
    assert found == {"speed": (1, 3.0), "heading": (2, 2.0)}
    assert printed["settings"]["rho0"] == 2.5
    assert (printed["period"], printed["step"], printed["duration"]) == (0.01, 0.001, 125.664)
    assert printed["command_timeout"] == 0.1  # three periods at speed 6 are less than the file's floor


def test_the_last_override_wins() -> None:
    words = ("--set", "run.duration=3", "--set", "run.duration=0.25")
    assert json.loads(command("simulate", "trailer_coast", "--json", *words).stdout)["t"] == 0.25


def test_a_simulation_takes_the_option_that_a_run_needs(tmp_path: Path) -> None:
    report = tmp_path / "a.png"
    result = command("simulate", "trailer_pursuit", *SHORT, "--no-report", "--report", str(report), "--json")
    assert (result.exit_code, json.loads(result.stdout)["ended"], report.exists()) == (0, "completed", False)


EXITS = {  # of verbs, with a comma between them: every exit code that they can end with
    "run, simulate, sweep": {0, 1, 2, 129, 130, 143},
    "check, compare, identify, status, goal, arm, disarm, reset, estop, topic echo, node info, replay": {0, 1, 2, 130},
    "pause, resume, step, speed": {0, 1, 2, 130},
    "region, robustness, tune, fastest, protocol check, hil accept, doctor, fault": {0, 1, 2, 130},
    "plot, topic list, topic info, topic hz, topic bw, topic delay, node list, recover, show, hil header": {0, 2, 130},
    "param list, param get, param set, param describe, param dump, param load": {0, 1, 2, 130},
    "bag info, bag recover, bag merge, bag export": {0, 2, 130},
    "bag report, bench": {0, 1, 2, 129, 130, 143},
    "page": {2, 130, 143},
    "bridge foxglove, bridge ros2": {0, 2, 130, 143},
    "record": {0, 1, 2, 143},
    "completion, new, list": {0, 2},
    "keys new, keys list, keys show, keys trust, keys revoke": {0, 2, 130},
}
CODES = {verb: codes for verbs, codes in EXITS.items() for verb in verbs.split(", ")}


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("verb", verbs())
def test_the_help_of_a_verb_begins_with_examples_and_ends_with_its_exit_codes(verb: str) -> None:
    result = command(*verb.split(), "-h")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith((f"Examples:\n  servonode {verb} ", f"Examples:\n  servonode {verb}\n"))
    codes = [int(code) for code in re.findall(r"^  (\d+) +\S", result.stdout.partition("\nExit codes:\n")[2], re.M)]
    assert codes == sorted(codes)
    assert set(codes) == CODES.get(verb, set(codes))


@pytest.mark.usefixtures("narrow")
def test_servonode_alone_shows_its_verbs_by_section_each_in_one_whole_line() -> None:
    result = command()
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == command("-h").stdout
    sections = main.by_section(click.Context(main))
    places = [result.stdout.index(f"\n{section}:\n") for section in sections]
    assert places == sorted(places)
    known = ["Run, simulate, check", "Explore", "Operate", "Create", "Inspect"]
    assert list(sections) == [each for each in known if each != "Explore" or wing("explore")]
    for section, found in sections.items():
        names = [each.name for each in found]
        shown = result.stdout.partition(f"\n{section}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in shown.splitlines()] == names
        assert all(re.fullmatch(r"  \w+ +\S.*[^.]\.", line) for line in shown.splitlines())


@pytest.mark.usefixtures("narrow")
def test_no_help_is_cut_off_and_none_is_wider_than_the_terminal() -> None:
    for words in commands():
        _, _, text = command(*words.split()[1:], "-h").stdout.partition("\n\n")  # behind examples and usage
        assert not [line for line in text.splitlines() if line.endswith("...") and "Usage" not in line], words
        assert max(map(len, text.splitlines())) <= 80, words


def test_a_file_of_verbs_holds_what_the_table_says() -> None:
    found = {}
    for file in sorted(set(FILES.values())):
        module = importlib.import_module(f"servonode.cli.{file}")
        made = [each for each in vars(module).values() if isinstance(each, click.Command)]
        below = [sub for each in made if isinstance(each, click.Group) for sub in each.commands.values()]
        found |= {each.name: file for each in made if each not in below}
    assert found == FILES


def test_a_new_verb_that_calls_a_method_of_loop_is_one_row() -> None:
    row = Method("Say how FILE moves near a state.", ("servonode linearize trailer_rates",), picture=False)
    runner, verb = CliRunner(), MethodVerb("linearize", row)
    shown = runner.invoke(verb, ["trailer_rates", "--state", "phi=0.1"])
    found = servonode.load("trailer_rates").linearize(state={"phi": 0.1})
    assert shown.stdout == f"{found!r}\n"
    assert json.loads(runner.invoke(verb, ["trailer_rates", "--json"]).stdout)["about"] == "motion"
    text = " ".join(runner.invoke(verb, ["--help"]).stdout.split())
    assert "--equilibrium About the equilibrium next to that state, with the goal as at time t." in text


def test_help_before_a_command_is_its_help() -> None:
    assert command("help").stdout == command("--help").stdout
    assert command("help", "bag", "info").stdout == command("bag", "info", "--help").stdout
    for words in (("estop", "--"), ("--", "estop", "my_robot")):  # nothing is done, whatever follows
        assert command("help", *words).stdout == command("estop", "--help").stdout


def test_the_version_is_the_packages() -> None:
    assert command("--version").stdout == f"servonode {servonode.__version__}\n"


def test_stdout_stays_clean_in_a_process_of_its_own(tmp_path: Path) -> None:
    words = [sys.executable, "-W", "error", "-m", "servonode.cli.main", "simulate", "trailer_pursuit", "--json", *SHORT]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["t"] == 0.5


def test_reports_are_pictures_by_their_endings(tmp_path: Path) -> None:
    picture = tmp_path / "a.PNG"
    result = command("simulate", "trailer_pursuit", "--report", str(picture), *SHORT)
    assert result.exit_code == 0
    assert result.stdout.endswith(f"  report            {picture}\n")
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    assert len(content) > 20_000
