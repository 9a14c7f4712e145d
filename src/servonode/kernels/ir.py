"""The intermediate representation of kernels: typed functions of numbers and arrays, with loops and branches.

`language.parse` reads a module from its text, which people read and the cache stores. `llvm` (for the processor) and
`c99` (for `show --c`) print it; neither adds or reorders an operation, so both have the same bits wherever they call
the same libm.

Every expression has a type: a scalar (f64, i64 or bool), or an array of known shape, whose first length may be open
where a function does not need it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import NamedTuple


class Scalar(Enum):
    """The type of a single value."""

    F64 = "f64"
    I64 = "i64"
    BOOL = "bool"


F64, I64, BOOL = Scalar.F64, Scalar.I64, Scalar.BOOL


@dataclass(frozen=True)
class Array:
    """The type of an array, row by row in memory; a first length of None may be any."""

    element: Scalar
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        lengths = ", ".join(":" if n is None else str(n) for n in self.shape)
        return f"{self.element.value}[{lengths}]"


Type = Scalar | Array


# expressions


class Number(NamedTuple):
    """A literal."""

    value: float | int | bool
    type: Scalar


class Local(NamedTuple):
    """A local variable or an argument."""

    name: str
    type: Type


class Element(NamedTuple):
    """An element of an array."""

    array: Local
    indices: tuple["Expr", ...]
    type: Scalar


class Row(NamedTuple):
    """A row of an array of two indices or three, as an argument of a call."""

    array: Local
    at: "Expr"
    type: Array

    @property
    def first(self) -> Element:
        """Its first entry."""
        return Element(self.array, (self.at, *(Number(0, I64) for _ in self.type.shape)), self.type.element)


class Unary(NamedTuple):
    """`-a` of a number, `not a` of a boolean."""

    op: str
    a: "Expr"
    type: Scalar


class Binary(NamedTuple):
    """`a op b`: + - * of two numbers of one type, / and ** of floats, // and % of integers as Python rounds."""

    op: str
    a: "Expr"
    b: "Expr"
    type: Scalar


class Compare(NamedTuple):
    """`a op b` with < <= > >= == !=; false where one is NaN, but != true."""

    op: str
    a: "Expr"
    b: "Expr"
    type: Scalar = BOOL


class Logical(NamedTuple):
    """`and` or `or` of booleans; the second is evaluated only where the first does not decide."""

    op: str
    a: "Expr"
    b: "Expr"
    type: Scalar = BOOL


class Choice(NamedTuple):
    """`a if test else b`; only the chosen one is evaluated."""

    test: "Expr"
    a: "Expr"
    b: "Expr"
    type: Scalar


class Convert(NamedTuple):
    """An integer as a float."""

    a: "Expr"
    type: Scalar = F64


class Math(NamedTuple):
    """A function of libm, or fabs, floor, rint, sqrt, isfinite; rint takes the even one of two as near."""

    name: str
    arguments: tuple["Expr", ...]
    type: Scalar


class Extreme(NamedTuple):
    """`min(a, b)` or `max(a, b)`: the first of equals, and NaN as in Python (`b if b < a else a`)."""

    name: str
    a: "Expr"
    b: "Expr"
    type: Scalar


class Shared(NamedTuple):
    """An element that threads share is added to, or exchanged, at once for all of them; its value before."""

    op: str  # add, xchg
    element: Element
    value: "Expr"
    type: Scalar = I64


class Called(NamedTuple):
    """The result of another function."""

    function: "Signature"
    arguments: tuple["Expr", ...]
    type: Type | None


Expr = (
    Number | Local | Element | Row | Unary | Binary | Compare | Logical | Choice | Convert | Math | Extreme | Shared
    | Called
)  # fmt: skip


# statements


class Let(NamedTuple):
    """A local variable gets a value; an array gets the result of a call."""

    target: Local
    value: Expr


class Together(NamedTuple):
    """Several assignments, whose values are all computed first."""

    targets: tuple[Local | Element, ...]
    values: tuple[Expr, ...]


class Store(NamedTuple):
    """An element of an array gets a value."""

    target: Element
    value: Expr


class Empty(NamedTuple):
    """The declaration of a local array, whose entries are not set."""

    target: Local


class Do(NamedTuple):
    """A call whose result, if any, is not used."""

    call: Called


class If(NamedTuple):
    test: Expr
    body: tuple["Statement", ...]
    other: tuple["Statement", ...] = ()


class For(NamedTuple):
    """`for variable in range(start, stop, step)`; the step is a literal, and the body does not set the variable."""

    variable: Local
    start: Expr
    stop: Expr
    step: int
    body: tuple["Statement", ...]


class While(NamedTuple):
    test: Expr
    body: tuple["Statement", ...]


class Return(NamedTuple):
    """The end of the function; `values` has one entry for a scalar, all entries of an array that is the result."""

    values: tuple[Expr, ...] = ()


Statement = Let | Together | Store | Empty | Do | If | For | While | Return


# functions


@dataclass(frozen=True)
class Signature:
    """Name, arguments and result of a function. A result that is an array is written to memory of the caller."""

    name: str
    arguments: tuple[Local, ...]
    result: Type | None = None
    module: str = ""  # the other module from which it is imported

    @property
    def symbol(self) -> str:
        """The unique name of the function."""
        return f"{self.module}.{self.name}" if self.module else self.name


@dataclass(frozen=True)
class Function:
    """A function of a module."""

    signature: Signature
    body: tuple[Statement, ...]
    doc: str = ""

    @cached_property
    def called(self) -> "list[Shared | Called]":
        """Its calls of others and its additions for all threads."""
        return [each for each in nodes(self.body) if isinstance(each, Shared | Called)]

    @property
    def calls(self) -> set[str]:
        """The symbols of the functions that it calls."""
        return {each.function.symbol for each in self.called if isinstance(each, Called)}


@dataclass
class Module:
    """Functions by their symbols, each after those that it calls: imported ones and the module's own."""

    functions: dict[str, Function] = field(default_factory=dict)
    names: dict[str, Signature] = field(default_factory=dict)  # functions that can be called, by their plain names
    constants: dict[str, int] = field(default_factory=dict)  # sizes
    records: dict[str, tuple[Local, ...]] = field(default_factory=dict)  # their fields
    inner: set[str] = field(default_factory=set)  # symbols of functions that only others of the module call

    @property
    def own(self) -> list[Function]:
        """The functions that are neither imported nor inner ones."""
        return [f for symbol, f in self.functions.items() if not f.signature.module and symbol not in self.inner]


def without(module: Module, names: Sequence[str]) -> Module:
    """The module less its functions of these names that no other of its functions calls; the others are inner ones."""
    inner, kept, called = {module.names[name].symbol for name in names if name in module.names}, [], set[str]()
    for symbol, each in reversed(module.functions.items()):
        if symbol not in inner or symbol in called:
            kept.append(symbol)
            called |= each.calls
    return replace(module, functions={symbol: module.functions[symbol] for symbol in reversed(kept)}, inner=inner)


def written(module: Module) -> dict[str, frozenset[str]]:
    """By symbol of a function: the arguments that it writes to, itself or by a call."""
    found: dict[str, frozenset[str]] = {}
    for symbol, function in module.functions.items():
        names: set[str] = set()
        for each in walk(function.body):
            names |= set(_stored(each))
        names |= {each.element.array.name for each in function.called if isinstance(each, Shared)}
        for call in (each for each in function.called if isinstance(each, Called)):
            into = found[call.function.symbol]
            pairs = zip(call.function.arguments, call.arguments, strict=True)
            names |= {_array_of(given) for argument, given in pairs if argument.name in into}
        found[symbol] = frozenset(names & {each.name for each in function.signature.arguments})
    return found


def _stored(statement: Statement) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, Together) else ()
    for each in (statement.target,) if isinstance(statement, Store) else targets:
        if isinstance(each, Element):
            yield each.array.name


def _array_of(argument: Expr) -> str:
    return argument.array.name if isinstance(argument, Row) else argument.name if isinstance(argument, Local) else ""


_OF_ONE = "acos asin atan cos cosh exp fabs floor isfinite log rint sin sinh sqrt tan tanh"
ONE_ARGUMENT = frozenset(_OF_ONE.split())
MATH = dict.fromkeys(sorted(ONE_ARGUMENT), 1) | {"atan2": 2}


def as_float(value: Expr) -> Expr:
    """The number as a float; a literal becomes a float literal, any other integer is converted."""
    if value.type == F64:
        return value
    if isinstance(value, Number):
        return Number(float(value.value), F64)
    return Convert(value)


def walk(body: Sequence[Statement]) -> "list[Statement]":
    """All statements of a body, nested ones included."""
    return [found for each in body for found in (each, *(inner for block in blocks(each) for inner in walk(block)))]


def blocks(statement: Statement) -> "tuple[tuple[Statement, ...], ...]":
    """The statements within a statement, block by block."""
    if isinstance(statement, If):
        return (statement.body, statement.other)
    return (statement.body,) if isinstance(statement, For | While) else ()


def assigned(statement: Statement) -> list[Local]:
    """The local variables that a statement itself assigns."""
    match statement:
        case Let(target, _) | Empty(target):
            return [target]
        case Together(targets, _):
            return [each for each in targets if isinstance(each, Local)]
        case For(variable):
            return [variable]
    return []


def evaluated(statement: Statement) -> tuple[Expr, ...]:
    """The expressions that a statement itself evaluates, including an element that it assigns."""
    match statement:
        case Let(_, value) | Do(value):
            return (value,)
        case Store(target, value):
            return (target, value)
        case Together(targets, values):
            return (*(each for each in targets if isinstance(each, Element)), *values)
        case If(test) | While(test):
            return (test,)
        case For(_, start, stop):
            return (start, stop)
        case Return(values):
            return values
    return ()


def nodes(node: object) -> Iterator[object]:
    """A node and all nodes within it, expressions and statements, each before its own."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            if hasattr(each, "_fields"):
                yield each
            waiting += reversed(each)
