"""docs/reference/outputs.md names every column of a CSV file and every key of `--json`, and none that is not there."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from servonode.nodes.recording import Ending
from tests.helpers.refusals import command

ROOT = Path(__file__).parents[2]

PACKAGE = ROOT / "src/servonode"

PAGE = (ROOT / "docs/reference/outputs.md").read_text("utf-8")

NAME = r"[^.]+"  # what a word in capitals stands for


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def documented(heading: str) -> list[str]:
    """The entries of the first cells below a heading, in backquotes, without the head of the table."""
    cells = re.findall(r"^\| (`.*?) \|", section(heading), re.MULTILINE)
    return [entry for cell in cells for entry in re.findall(r"`([^`]+)`", cell)]


def pattern(entry: str) -> re.Pattern[str]:
    """What an entry stands for: words in capitals are any name."""
    parts = re.split(r"([A-Z][A-Z_]+)", entry)
    return re.compile("".join(NAME if i % 2 else re.escape(part) for i, part in enumerate(parts)))


def leaves(heading: str) -> dict[str, re.Pattern[str]]:
    return {entry: pattern(entry) for entry in documented(heading)}


def paths(value: Any, before: str = "") -> Iterator[str]:
    """The path of every key of a JSON object, at every depth; lists of objects are entered."""
    if isinstance(value, Mapping):
        for key, content in value.items():
            word = key.replace(".", "_")  # of a sentence
            path = f"{before}.{word}" if before else word
            yield path
            yield from paths(content, path)
    elif isinstance(value, list):
        for content in value:
            yield from paths(content, before)


def unknown(heading: str, *objects: Any) -> set[str]:
    """The paths of objects that no entry covers: one that ends there or leads there, or ends above it."""
    entries = documented(heading)
    beginnings = {".".join(entry.split(".")[:n]) for entry in entries for n in range(1, entry.count(".") + 1)}
    stated = [pattern(each) for each in {*entries, *beginnings}]
    ends = [pattern(each) for each in entries if each not in beginnings]

    def covered(path: str) -> bool:
        words = path.split(".")
        above = [".".join(words[:n]) for n in range(1, len(words))]
        return any(each.fullmatch(path) for each in stated) or any(e.fullmatch(each) for e in ends for each in above)

    return {path for each in objects for path in paths(each) if not covered(path)}


def unused(heading: str, *objects: Any) -> set[str]:
    """The entries that nothing in these objects is an example of."""
    found = {path for each in objects for path in paths(each)}
    return {entry for entry in documented(heading) if not any(pattern(entry).fullmatch(path) for path in found)}


def printed(*words: str) -> dict[str, Any]:
    """The object that a command prints with --json."""
    result = command(*words, "--json")
    assert result.exit_code in (0, 1), result.stderr
    content: dict[str, Any] = json.loads(result.stdout)
    return content


SIMULATED = (
    ("sphero_pursuit", "run.duration=1"),
    ("snowboarder_curve", "run.duration=1"),
    ("trailer_reverse_estimated", "estimator.gate=4"),
    ("sphero_runs_over", "plant.safety.safe_time=0"),
    ("snowboarder_too_weak", "run.duration=1"),
    ("base_rates", 'controller.keep.slow="2 - V"'),
    ("trailer_pursuit_lockstep", 'fault=[{on="link",kind="off",at=0.5}]'),
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What simulations print, by the file of their rows."""
    folder = tmp_path_factory.mktemp("rows")
    files = {str(folder / f"{name}.csv"): ("simulate", name, "--set", override) for name, override in SIMULATED}
    return {file: printed(*words, "--output", file) for file, words in files.items()}


@pytest.fixture(scope="module")
def simulated(rows: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return list(rows.values())


# columns


def test_every_column_of_a_csv_file_is_in_the_table(rows: dict[str, dict[str, Any]]) -> None:
    entries = leaves("The CSV file")
    used: set[str] = set()
    for file, run in rows.items():
        kinds = dict.fromkeys(run["state"], "STATE") | dict.fromkeys(run["input"], "INPUT")
        kinds |= dict.fromkeys(run["program_state"], "PROGRAM_STATE") | dict.fromkeys(run.get("watched", ()), "WATCH")
        for column in Path(file).read_text("utf-8").partition("\n")[0].split(","):
            prefixed = (each for each, p in entries.items() if each[0].islower() and p.fullmatch(column))
            found = kinds.get(column.partition("[")[0]) or next(prefixed, "")  # an entry of a vector
            assert found in entries, f"{file}: {column}"
            used.add(found)
    assert entries.keys() - used <= {"WATCH", "goal_t", "state_age"}  # of runs that stood, or behind a link


# objects


def test_every_key_of_simulate_is_in_the_table_and_every_entry_is_used(simulated: list[dict[str, Any]]) -> None:
    assert unknown("`simulate --json`", *simulated) == set()
    assert unused("`simulate --json`", *simulated) <= {"watched.NAME"}


def test_the_words_for_how_a_run_ended_are_those_of_the_code() -> None:
    (row,) = [line for line in section("`simulate --json`").splitlines() if line.startswith("| `ended`")]
    assert re.findall(r"`([^`]+)`", row)[1:] == list(get_args(Ending))


@pytest.fixture(scope="module")
def checked() -> list[dict[str, Any]]:
    cases = (
        ("trailer_pursuit", "run.duration=5"),
        ("trailer_estimated", "run.duration=2"),
        ("sphero_pursuit", "run.duration=2", "plant.sensor.noise={X=0.001}"),
        ("base_rates", "run.duration=2", 'controller.keep.slow="2 - V"'),
    )
    return [printed("check", name, *(word for each in sets for word in ("--set", each))) for name, *sets in cases]


def test_every_key_of_check_is_in_the_table_and_every_entry_is_used(checked: list[dict[str, Any]]) -> None:
    assert unknown("`check --json`", *checked) == set()
    rare = {
        "numbers.sampled_radius",
        "numbers.periodic_motion",
        "numbers.inversion",
        "numbers.estimator.needed",
    }  # of other programs
    assert unused("`check --json`", *checked) <= rare


def test_every_key_of_compare_is_in_the_table_and_every_entry_is_used(tmp_path: Path) -> None:
    short = ("--set", "run.duration=1", "--output", str(tmp_path / "both.png"))
    found = printed("compare", "trailer_pursuit", "trailer_reverse", *short)
    assert unknown("`compare --json`", found) == set()
    assert unused("`compare --json`", found) == set()


# counts


def counted() -> set[str]:
    """The names of the counters that nodes and drivers keep, as literals in their files."""
    files = [*(PACKAGE / "nodes").glob("*.py"), PACKAGE / "estimators/estimator.py"]
    texts = [file.read_text("utf-8") for file in files if not file.name.startswith(("hil_", "protocol_"))]
    keys = (each for text in texts for each in re.findall(r"counts\[([^\]]*)\] \+=", text))
    return {name for key in keys if not key.startswith("f") for name in re.findall(r'"(\w+)"', key)}


def test_every_counter_of_a_node_is_in_the_table() -> None:
    entries = leaves("Counts").values()
    found = counted()
    assert {"late_commands", "skipped_states", "late_readings"} <= found
    assert {name for name in found if not any(each.fullmatch(name) for each in entries)} == {"power"}  # a reason
