"""The manifest of a run on two computers: equal where the run may be theirs, else a sentence with what to do."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from servonode.closed_loop.closed_loop import ClosedLoop, observing, resolve
from servonode.closed_loop.launch_file import launch_of_table, read_launch, table_of
from servonode.definitions import references
from servonode.nodes import meeting as manifests
from servonode.nodes.meeting import LARGEST, MOST_KEYS, REMEDIES, SCHEMA, differences, manifest
from servonode.plants import find_machine
from servonode.version import VERSION

LAUNCH = "trailer_pursuit_lockstep"
SLIDER = '''"""A slider on a rail."""

from lengths import SPRING
from servonode.mechanics import Model, coordinate, input_, parameter


def model() -> Model:
    """A slider on a rail, with a spring."""
    x = coordinate("x", "place", "m")
    m = parameter("m", "mass", "kg", default=2.0, above=0)
    F = input_("F", "force", "N")
    return Model(
        name="slider",
        description="slider on a rail",
        coordinates=(x,),
        parameters=(m,),
        kinetic=m * x.rate**2 / 2,
        potential=SPRING * x**2 / 2,
        inputs={F: x.rate},
    )
'''
PROGRAM = '''"""A goal for anything that has an x."""

from servonode.controllers import Program, residual, target
from servonode.mechanics import Model


def program(machine: Model) -> Program:
    """x follows a target."""
    goal = target("goal", "the goal", "m")
    return Program(
        name="follow",
        description="x follows",
        residuals=(residual("place", machine["x"] - goal, "x is at the goal", "m"),),
        targets=(goal,),
    )
'''
RUN = """
[run]
duration = 0.1
[plant]
machine = "./slider.py:model"
[controller]
program = "./follow.py:program"
[target]
goal = "0.1*t"
"""


def manifest_of(*settings: str, launch: str | Path = LAUNCH) -> dict[str, str]:
    return manifest(resolve(read_launch(launch, settings)))


def folder_of(path: Path, slider: str = SLIDER, program: str = PROGRAM, spring: float = 3.0) -> Path:
    """A launch file with a machine and a program of files beside it."""
    path.mkdir(parents=True)
    (path / "slider.py").write_text(slider)
    (path / "lengths.py").write_text(f"SPRING = {spring}\n")
    (path / "follow.py").write_text(program)
    (path / "run.toml").write_text(RUN)
    return path / "run.toml"


@pytest.fixture(scope="module")
def ours() -> dict[str, str]:
    return manifest_of()


def test_a_manifest_has_versions_digests_and_the_keys_of_the_launch_file(ours: dict[str, str]) -> None:
    assert re.fullmatch(rf"{re.escape(VERSION)} \(sources [0-9a-f]{{16}}\)", ours["servonode"])
    assert all(re.fullmatch("[0-9a-f]{16}", ours[name]) for name in ("the machine", "the program", SCHEMA))
    assert ours["--readonly"] == "absent"
    assert ours["[run] mode"] == '"lockstep"'
    assert ours["[plant] step"] == "0.001"
    assert ours["[target] x"] == '"6*sin(0.05*t) - sin(0.3*t) + 2"'
    assert list(ours)[: len(REMEDIES) + 1] == [*REMEDIES, SCHEMA]


def test_equal_runs_have_no_differences(ours: dict[str, str]) -> None:
    assert differences(ours, manifest_of()) == []


@pytest.mark.parametrize("seed", ["0", "1"])
def test_a_manifest_is_the_same_in_every_process(ours: dict[str, str], seed: str) -> None:
    code = (
        "import json; from servonode.closed_loop.closed_loop import resolve; "
        "from servonode.closed_loop.launch_file import read_launch; from servonode.nodes.meeting import manifest; "
        f"print(json.dumps(manifest(resolve(read_launch({LAUNCH!r})))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == ours


@pytest.mark.parametrize(
    "setting",
    [
        "run.telemetry=tcp://127.0.0.1:9872",
        "run.pin=true",
        "run.priority=20",
        "run.lock_memory=false",
    ],
)
def test_keys_that_concern_one_computer_may_differ(ours: dict[str, str], setting: str) -> None:
    assert differences(ours, manifest_of(setting)) == []


def test_the_address_of_a_computer_and_the_name_of_its_key_may_differ() -> None:
    ours = manifest_of("hosts.plant=tcp://robot.local:7400")
    theirs = manifest_of("hosts.plant=tcp://localhost:7401", "hosts.key=robot")
    assert differences(ours, theirs) == []
    assert (
        "[hosts] delay is absent here and 0.1 there"
        in differences(
            manifest_of("hosts.plant=tcp://robot.local:7400"),
            manifest_of("hosts.plant=tcp://r:7400", "hosts.delay=0.1"),
        )[0]
    )


def test_the_place_of_a_machine_may_differ() -> None:
    launch = "trailer_pursuit_external"
    one = manifest_of(launch=launch)
    other = manifest_of("plant.device.state=ipc:///tmp/a", "plant.device.applied=ipc:///tmp/b", launch=launch)
    assert differences(one, other) == []
    waits = manifest_of("plant.device.wait=5", launch=launch)
    assert differences(one, waits) == [
        "the launch file differs: [plant.device] wait is 30.0 here and 5.0 there; copy the file to both computers, and "
        "run it with the same --set"
    ]


def test_differing_keys_are_named_with_both_values(ours: dict[str, str]) -> None:
    theirs = manifest_of("run.duration=10", "target.x=20 + t", "controller.gains.lambda=2.5")
    (said,) = differences(ours, theirs)
    assert said == (
        "the launch file differs: [run] duration is 125.664 here and 10.0 there, "
        '[target] x is "6*sin(0.05*t) - sin(0.3*t) + 2" here and "20 + t" there, '
        "[controller.gains] lambda is absent here and 2.5 there; "
        "copy the file to both computers, and run it with the same --set"
    )
    assert "[controller.gains] lambda is 2.5 here and absent there" in differences(theirs, ours)[0]


def test_of_many_keys_the_first_are_named() -> None:
    named = {f"[target] x{i}": str(i) for i in range(MOST_KEYS + 5)}
    (said,) = differences({}, named)
    assert said.count(" here and ") == MOST_KEYS
    assert f"[target] x{MOST_KEYS - 1} is absent here and {MOST_KEYS - 1} there, and 5 more; copy" in said


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"slider": SLIDER.replace("default=2.0", "default=2.5")}, "the machine"),
        ({"spring": 4.0}, "the machine"),
        ({"program": PROGRAM.replace("- goal", "- 2 * goal")}, "the program"),
    ],
    ids=["machine", "imported", "program"],
)
def test_another_text_of_a_users_file_is_a_difference(tmp_path: Path, changed: dict[str, object], word: str) -> None:
    one = manifest_of(launch=folder_of(tmp_path / "one"))
    other = manifest_of(launch=folder_of(tmp_path / "other", **changed))  # type: ignore[arg-type]
    (said,) = differences(one, other)
    assert said == f"{word} differs: here {one[word]}, there {other[word]}; {REMEDIES[word]}"
    assert "copy its file (Python" in said


def test_the_folder_of_a_users_files_is_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is its place among the folders of what it imports from elsewhere."""
    digests = []
    for place, elsewhere in (("a", "z"), ("z", "a")):
        other = tmp_path / place / elsewhere
        other.mkdir(parents=True)
        (other / "elsewhere.py").write_text("SPRING = 3.0\n")
        launch = folder_of(tmp_path / place / place, SLIDER.replace("from lengths", "from elsewhere"))
        with monkeypatch.context() as patched:
            patched.syspath_prepend(str(other))
            references._roots.cache_clear()
            definition = find_machine("./slider.py:model", launch.parent)
            assert {each.name for each in references._reached(definition.file)} == {"slider.py", "elsewhere.py"}
            digests.append(definition.digest())
    references._roots.cache_clear()
    assert digests[0] == digests[1]


def test_residuals_of_the_launch_file_are_no_file_to_copy(tmp_path: Path) -> None:
    residuals = 'residuals = { x = "x - goal" }'
    launch = folder_of(tmp_path / "one")
    launch.write_text(RUN.replace('program = "./follow.py:program"', residuals))
    one = manifest_of(launch=launch)
    assert one["the program"] == "absent"
    (said,) = differences(one, manifest_of("controller.residuals.x=x - 2*goal", launch=launch))
    assert said.startswith(
        'the launch file differs: [controller.residuals] x is "x - goal" here and "x - 2*goal" there'
    )


def test_a_run_that_only_observes_is_not_one_that_commands() -> None:
    closed_loop = resolve(read_launch("trailer_pursuit"))
    assert differences(manifest(closed_loop), manifest(observing(closed_loop))) == [
        "--readonly differs: here absent, there given; give it on both computers, or on neither"
    ]


def test_another_servonode_is_a_difference(
    ours: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = ours | {"servonode": "0.0.9 (sources 0123456789abcdef)", SCHEMA: "0" * 16}
    assert differences(ours, theirs) == [  # of which the schema is a consequence
        f"servonode differs: here {ours['servonode']}, there 0.0.9 (sources 0123456789abcdef); "
        "install the same version on both computers"
    ]
    assert differences(ours, ours | {SCHEMA: "0" * 16}) == [
        f"{SCHEMA} differs: here {ours[SCHEMA]}, there {'0' * 16}; "
        "install the same version of servonode on both computers"
    ]


def test_every_room_of_the_sources_is_there() -> None:
    assert [room for room in manifests.ROOMS if not (manifests.FOLDER / room).is_dir()] == []


def test_working_copies_of_one_version_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bus").mkdir()
    file = tmp_path / "bus" / "codec.py"
    digests = []
    monkeypatch.setattr(manifests, "FOLDER", tmp_path)
    for text in ("a = 1\n", "a = 2\n", "a = 1\n"):
        file.write_text(text)
        digests.append(manifests._sources.__wrapped__())
    assert digests[0] == digests[2] != digests[1]


def with_stated(closed_loop: ClosedLoop, parameters: int, size: int) -> ClosedLoop:
    """The closed loop as of a launch file with so many parameters of so many digits."""
    table = table_of(closed_loop.launch)
    table["plant"]["parameters"] = {f"p{i:05}": "1" * size for i in range(parameters)}
    return closed_loop.with_parts(stated=launch_of_table(table))


def test_a_manifest_is_bounded_whatever_the_launch_file_holds() -> None:
    closed_loop = resolve(read_launch(LAUNCH))
    long, longer = (manifest(with_stated(closed_loop, 3, size)) for size in (10_000, 10_001))
    assert long["[plant.parameters] p00000"].startswith(f'"{"1" * 39}... (digest ')
    (said,) = differences(long, longer)
    assert said.count(" (digest ") == 6
    many, more = (manifest(with_stated(closed_loop, number, 20)) for number in (5000, 5001))
    assert all(len(json.dumps(each)) <= LARGEST for each in (long, many, more))
    assert set(many) == {*REMEDIES, SCHEMA, "[run]", "[plant]", "[controller]", "[supervision]", "[target]", "[fault]"}
    (said,) = differences(many, more)
    assert said.startswith(
        f"the launch file differs: [plant] is {many['[plant]']} here and {more['[plant]']} there; copy"
    )


def test_what_another_computer_sends_disturbs_no_terminal(ours: dict[str, str]) -> None:
    theirs = ours | {"[run] duration": "\x1b[2J" * 5, "\r\nfake": "x" * 100_000, "servonode": "\x07"}
    said = " ".join(differences(ours, theirs))
    assert said.isprintable()
    assert len(said) < 1000
