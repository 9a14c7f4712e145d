"""docs/reference/faults.md names every fault and every exit code of the code, and no others."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from servonode.nodes.fault_ladder import SAFE_STATES, SafeState
from tests.helpers.commands import helps, verbs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/faults.md").read_text("utf-8")
REACTIONS = {SafeState.DAMP: "safe action", SafeState.ZERO: "zero input", SafeState.STOP: "stop"}
KEPT = "keep_NAME"  # whose names are those of what is kept
FAULT_CALLS = ("fault", "_fault", "fail", "Fault")  # functions whose first argument is the name of a fault
CONDITIONS = ("condition", "Requirement")  # what states a fault condition, with its name as third argument or `name=`


def rows(heading: str) -> list[list[str]]:
    """The cells of the table rows below a heading of the page, without the head."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not set(line) <= set("|- ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def named(heading: str) -> set[str]:
    return {name for row in rows(heading) for name in names(row[0])}


def calls(folder: str) -> Iterator[ast.Call]:
    for file in sorted((ROOT / "src/servonode" / folder).rglob("*.py")):
        yield from (each for each in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(each, ast.Call))


def called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def strings(node: ast.AST) -> set[str]:
    found = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return {value for value in found if isinstance(value, str) and re.fullmatch(r"[a-z_]+", value)}


def faults_of_nodes() -> set[str]:
    """The names with which nodes call for a fault, as literals."""
    found = {name for call in calls("nodes") if called(call) in FAULT_CALLS for name in strings_first(call)}
    return found | {"lockstep_timeout", "plant_silent", "law", KEPT}  # chosen before their calls


def strings_first(call: ast.Call) -> set[str]:
    return strings(call.args[0]) if call.args else set()


def faults_of_machines() -> set[str]:
    """The names of fault conditions in packaged machines and in the derivation."""
    found: set[str] = {"machine"}
    for call in (*calls("plants"), *calls("mechanics")):
        if called(call) in CONDITIONS:
            stated = [*call.args[2:3], *(each.value for each in call.keywords if each.arg == "name")]
            found |= {name for each in stated for name in strings(each)}
    return found


def test_every_fault_of_the_ladder_stands_in_the_table_with_its_reaction_and_a_remedy() -> None:
    table = {name: row for row in rows("Faults of the plant")[1:] for name in names(row[0])}
    assert table.keys() == {*SAFE_STATES, KEPT}
    table.pop(KEPT)
    assert {name: row[2] for name, row in table.items() if not row[2].startswith(REACTIONS[SAFE_STATES[name]])} == {}
    assert [name for name, row in table.items() if len(row) != 4 or not all(row)] == []


def test_every_fault_that_a_node_calls_for_is_on_the_page() -> None:
    called_for = faults_of_nodes()
    assert {"node_died", "not_ready", "target", "stale_command"} <= called_for
    assert called_for - named("Faults of the plant") - named("Faults of other nodes") == set()


def test_the_table_of_other_nodes_names_no_fault_that_nobody_calls_for() -> None:
    assert named("Faults of other nodes") - faults_of_nodes() == set()


def test_the_fault_conditions_of_packaged_machines_are_those_of_the_page() -> None:
    stated = {name for row in rows("Fault conditions of machines")[1:] for name in names(row[0])}
    assert stated == faults_of_machines()


EXITS = {f"servonode {name}": dict(getattr(each, "exits", {})) for name, each in verbs().items()}


def test_the_page_lists_every_exit_code_and_no_other() -> None:
    table = {int(code) for row in rows("Exit codes") for code in re.findall(r"\d+", row[0])}
    assert table == {code for codes in EXITS.values() for code in codes}


def test_every_command_says_what_its_exit_code_1_means_on_the_page_of_the_command_line() -> None:
    """Which is made of their help, as the page on faults says."""
    assert "](command_line.md)" in PAGE
    texts = {name: text for name, text in helps().items() if 1 in EXITS.get(name, {})}
    assert len(texts) >= 20
    assert [name for name, text in texts.items() if not re.search(r"^ *1 +\S", text, re.MULTILINE)] == []
