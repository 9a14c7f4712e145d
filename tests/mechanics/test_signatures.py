"""The table of kernel signatures: types and shapes from a Protocol, and that generated modules and arrays follow it."""

import ast
from typing import Annotated, Any, Protocol

import pytest

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.controllers.engine.kernels import LawKernel, SignalsKernel
from servonode.mechanics.kernels import Argument, MachineKernel, Signature, StepsKernel, Whole

INTERNAL = {"wrap", "sign", "rhs", "jump"}  # called by generated functions alone
SYMBOLS = ("t", "late")


class Each(Protocol):
    """One of each kind of argument and result."""

    def measure(self, t: float, k: int, x: Annotated[Array, "n"], K: Annotated[Array, 3, "n", "m"]) -> bool: ...
    def count(self, S: Annotated[Array, "any", "m"], at: Annotated[Whole, 3]) -> int: ...
    def clear(self) -> None: ...


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("measure", "def measure(t_: f64, k: i64, x: f64[n], K: f64[3, n, m]) -> bool:\n"),
        ("count", "def count(S: f64[:, m], at: i64[3]) -> i64:\n"),
        ("clear", "def clear():\n"),
    ],
)
def test_a_definition_has_the_types_and_names_of_the_protocol(name: str, text: str) -> None:
    assert Signature.of(Each, name).definition("t") == text


def test_shapes_are_made_of_sizes() -> None:
    measure, sizes = Signature.of(Each, "measure"), {"n": 2, "m": 5}
    made = measure.arrays(sizes, "x", "K")
    assert {name: array.shape for name, array in made.items()} == {"x": (2,), "K": (3, 2, 5)}
    with pytest.raises(KeyError, match="m"):
        measure.arrays({"n": 2}, "K")


def test_what_is_no_type_of_an_argument_is_refused() -> None:
    with pytest.raises(KeyError):
        Argument.of("x", str)
    with pytest.raises(KeyError):
        Argument.of("x", Annotated[str, "n"])


@pytest.fixture(scope="module", params=["trailer_pursuit", "snowboarder_carve"])
def closed_loop(request: Any) -> ClosedLoop:
    return resolve(read_launch(request.param, []))


def stated(module: Any, face: type) -> None:
    """Whether each function of a module begins as the Protocol says, and none is called that is not there."""
    text = module.text
    names = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)} - INTERNAL
    names = {name for name in names if not name.startswith("solve_")}
    for name in names:
        signature = Signature.of(face, name)
        assert signature.definition(*SYMBOLS) in text or signature.definition() in text


def test_generated_modules_hold_what_their_protocols_say(closed_loop: ClosedLoop) -> None:
    machine, control = closed_loop.machine, closed_loop.control
    assert control is not None
    stated(machine.kernel, MachineKernel)
    stated(machine.steps("rk4"), StepsKernel)
    stated(control.law.kernel, LawKernel)
    for signals in (control.signals, control.targets):
        if signals.kernel is not None:
            stated(signals.kernel, SignalsKernel)
