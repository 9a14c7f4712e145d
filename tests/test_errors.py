"""One base for all errors whose text is for a user, and the nearest of the valid names."""

import ast
import importlib
import inspect
import re

import pytest

from servonode import ServonodeError
from servonode.errors import did_you_mean
from tests.test_import_rules import MODULES, loaded_by

NAMED = re.compile(r"(Error|Exception|Interrupt|Refused|NotFound)$")  # bases of exceptions
# what never leaves the package, or is an answer and no text: with these nothing is told to a user
INTERNAL = {
    *("BrokenOff", "KernelError", "NotGranted", "NotPolynomial", "NotSolved", "PartEnds"),
    *("Refused", "UnitError", "Unreachable", "_NotRegular"),
}
BEFORE = {  # what users may catch an error by, beside the base
    "LaunchError": ValueError,
    "ModelError": ValueError,
    "CacheError": ValueError,
    "ParameterError": ValueError,
    "NotFound": ValueError,
    "BusError": RuntimeError,
    "SimulationError": RuntimeError,
    "OperatorError": RuntimeError,
    "NoAnswer": TimeoutError,
    "CallError": TypeError,
    "NotInstalled": ImportError,
    "RunFailed": RuntimeError,
}
# whose exit code is 1
FAULTS = {
    "BenchError", "ClusterError", "NoAnswer", "NotStopped", "NothingCame", "OperatorError", "RunFailed",
    "SimulationError", "StoreFull", "TooLarge",
}  # fmt: skip


def errors() -> dict[str, type[BaseException]]:
    """Every exception that a source defines, by name; modules without one are not imported."""
    found: dict[str, type[BaseException]] = {}
    for module, file in MODULES.items():
        classes = [
            node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef)
        ]
        names = [node.name for node in classes if any(NAMED.search(ast.unparse(base)) for base in node.bases)]
        found |= {name: getattr(importlib.import_module(module), name) for name in names}
    assert all(inspect.isclass(each) and issubclass(each, BaseException) for each in found.values())
    return found


def test_every_error_for_a_user_has_the_base_and_an_exit_code() -> None:
    found = errors()
    assert len(found) > 20
    assert {name for name, each in found.items() if not issubclass(each, ServonodeError)} <= INTERNAL
    codes = {name: each.exit_code for name, each in found.items() if issubclass(each, ServonodeError)}
    assert {name for name, code in codes.items() if code == 1} <= FAULTS
    assert set(codes.values()) == {1, 2}
    for name, base in BEFORE.items():
        assert issubclass(found[name], base)


def test_the_base_loads_nothing() -> None:
    assert not {each for each in loaded_by("import servonode.errors") if each.startswith("servonode.")} - {
        "servonode.errors",
        "servonode.version",
    }


@pytest.mark.parametrize(
    ("name", "most", "text"),
    [
        ("trailer_persuit", 1, "did you mean trailer_pursuit? "),
        ("trailer_lime", 3, "did you mean trailer_line, trailer_limit or trailer_pursuit? "),
        ("xyz", 3, ""),
    ],
)
def test_the_nearest_names_are_few(name: str, most: int, text: str) -> None:
    assert did_you_mean(name, ("hoop_rolls", "trailer_pursuit", "trailer_line", "trailer_limit"), most) == text


FOREIGN = {  # whose errors say what they mean in their texts alone: dask, msgspec, numpy, Python's tomllib
    *("servonode.analysis.comparison", "servonode.bus.codec", "servonode.closed_loop.launch_file"),
}
OF_WINGS = {"servonode.wings.explore.sweeps.cluster"}
READING = {
    "endswith",
    "find",
    "index",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rpartition",
    "startswith",
}


def reads_text(node: ast.AST) -> bool:
    """Whether this takes something from the text of an error, or looks for something in it."""
    if isinstance(node, ast.Call):
        function = getattr(node.func, "attr", "")
        if function in READING:
            return is_text(node.func.value)  # type: ignore[attr-defined]
        return function in ("fullmatch", "match", "search", "split", "sub") and any(map(is_text, node.args))
    return isinstance(node, ast.Compare) and any(map(is_text, node.comparators))


def is_text(node: ast.AST) -> bool:
    """Whether this is str(error)."""
    return isinstance(node, ast.Call) and ast.unparse(node) in ("str(error)", "str(e)", "str(caught)", "str(refusal)")


def test_no_text_of_an_error_is_parsed_back() -> None:
    found = {m for m, file in MODULES.items() if any(map(reads_text, ast.walk(ast.parse(file.read_text("utf-8")))))}
    assert found == FOREIGN | (OF_WINGS & MODULES.keys())
