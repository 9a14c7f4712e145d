"""Expressions of launch files, such as `6*sin(0.05*t) - sin(0.3*t) + 2`, as checked trees.

A text is parsed by Python's `ast` and rebuilt node by node from a whitelist; nothing of it is ever executed.
Each node knows its value when it depends on no name, so `1/0` is refused when it is read.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from keyword import iskeyword
from typing import Any

from servonode.errors import StatementError, did_you_mean
from servonode.kernels.syntax import syntax_tree

MAX_LENGTH = 2000  # characters
MAX_NODES = 500
MAX_DEPTH = 100  # a term of a sum counts 1, a function, power or sign counts NESTING
NESTING = 5
MAX_EXPONENT = 64
MAX_ARGUMENTS = 16
MAX_INTEGER = 2**53  # above it a double no longer tells integers apart

OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "neg": operator.neg,
}
_KNOWN: tuple[Callable[..., Any], ...] = (abs, math.atan2, math.cos, math.exp, max, min)
_KNOWN += (math.sin, math.sqrt, math.tan, math.tanh)


def wrap(angle: float) -> float:
    """The angle brought to [-pi, pi)."""
    return angle - 2 * math.pi * math.floor((angle + math.pi) / (2 * math.pi))


FUNCTIONS = {function.__name__: function for function in (*_KNOWN, wrap)}
ARITY = {"atan2": (2, 2), "max": (2, MAX_ARGUMENTS), "min": (2, MAX_ARGUMENTS)}  # all others: (1, 1)
PLACES = ("x", "y", "z", "x_dot", "y_dot", "z_dot")  # of a frame, in the ground's axes, as `tool.x`
RATES_OF_TURN = ("omega_x", "omega_y", "omega_z")
AXES = ("axis_x", "axis_y", "axis_z")  # of a frame, for angle(...) alone
OF_FRAMES = {"distance": "two frames, or a frame and a place in numbers, such as distance(tool, ground) or "
                         "distance(tool, (0.4, 0, 0.3))",
             "angle": "two axes, such as angle(tool.axis_z, ground.axis_z)"}  # fmt: skip
OPERATORS: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}  # ** apart
SMOOTH_INSTEAD = {
    "abs": "sqrt(u**2 + 0.01**2) for abs(u)",
    "max": "(a + b + sqrt((a - b)**2 + 0.01**2))/2 for max(a, b)",
    "min": "(a + b - sqrt((a - b)**2 + 0.01**2))/2 for min(a, b)",
    "sqrt": "sqrt(u**2 + 0.01**2) for sqrt(u**2)",
}
INSTEAD = {"^": "write ** for a power", "'": "write x_dot for the rate x'", "=": "write a - b for a = b"}
STRANGE_CHARACTER = re.compile(r"[^A-Za-z0-9_+\-*/(),. ]")
NUMBER = r"(?>(?>\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?+)"  # atomic: 1e5 is never read as 1 before e5
DEGREES = re.compile(r"\s*([-+]?[\d.]+)\s*(?:deg\w*|°)\s*", re.ASCII)
NUMBER_THEN_LETTER = re.compile(rf"(?<![\w.]){NUMBER}(?=[A-Za-z_])", re.ASCII)


class ExpressionError(StatementError):
    """One line: what is wrong in `text`, at `position` (characters from 0) if known, and how to fix it."""

    def __init__(self, message: str, text: str = "", position: int | None = None) -> None:
        super().__init__(message, text, position)
        self.message = message
        self.text = text
        self.position = position

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Number:
    """A finite number as written."""

    value: int | float


@dataclass(frozen=True)
class Symbol:
    """A name whose value is known only when the program runs."""

    name: str  # of a quantity of frames: its text, such as `tool.x` or `distance(tool, ground)`
    value: None = None


@dataclass(frozen=True)
class Apply:
    """An operation or function of its arguments; `value` if none of them depends on a name; `pi` has none."""

    function: str
    arguments: "tuple[Node, ...]"
    value: float | None


Node = Number | Symbol | Apply


@dataclass(frozen=True)
class Expression:
    """A checked expression: its `text`, its tree, and the `names` it really uses."""

    text: str
    tree: Node
    names: frozenset[str]

    def constant(self) -> float | None:
        """Its value when it depends on no name, else None."""
        return None if self.tree.value is None else float(self.tree.value)

    def size(self, sizes: Mapping[str, int]) -> int:
        """How many numbers, names and operations it has; names in `sizes` count as so many."""
        return sum(sizes.get(node.name, 1) if isinstance(node, Symbol) else 1 for node in _walk(self.tree))

    def sympy(self, symbols: Mapping[str, Any]) -> Any:
        """The sympy expression over `symbols` (a real symbol for each of `names`); doubles stay exact.

        Raises ExpressionError when it has no real value anywhere, such as 1/(t - t).
        """
        import sympy

        try:
            result = _to_sympy(self.tree, symbols, sympy)
        except ValueError:  # min and max of what cannot be ordered
            result = sympy.nan
        if result.has(sympy.zoo, sympy.oo, -sympy.oo, sympy.nan, sympy.I):
            raise self._error("has no real value", "remove the division by zero or root of a negative number")
        if any(power.exp.is_number and abs(power.exp) > MAX_EXPONENT for power in result.atoms(sympy.Pow)):
            raise self._error("has a power too high", f"keep exponents within -{MAX_EXPONENT}..{MAX_EXPONENT}")
        return result

    def require_derivatives(self, order: int, name: str, needed_by: str = "the program") -> None:
        """Raise ExpressionError, for `name` such as 'target x', unless it has `order` derivatives where it is defined.

        Conservative: abs(t)**2 has none. The edge of a domain (sqrt at 0) and the cut of atan2 do not count. A root
        needs sympy, to find the abs in sqrt(t**2); it may raise what `sympy` raises.
        """
        kink = self._kink() if order > 0 else None
        if kink:
            where = "0" if kink in ("abs", "sqrt") else "the switch between its arguments"
            message = (
                f"{name}: " * bool(name) + f"{kink} has no derivative at {where} and {needed_by} needs {order}; "
                f"use a smooth expression (for example {SMOOTH_INSTEAD[kink]})"
            )
            raise ExpressionError(message, self.text)

    def _kink(self) -> str | None:
        """The first function with a kink; sqrt is one where it is an abs in disguise, as in sqrt(t**2)."""
        used = [node for node in _walk(self.tree) if isinstance(node, Apply) and node.value is None]
        for node in used:
            if node.function in ("abs", "max", "min"):
                return node.function
        if not any(_is_root(node) for node in used):
            return None
        import sympy

        tree = self.sympy({name: sympy.Symbol(name, real=True) for name in self.names})
        return "sqrt" if tree.has(sympy.Abs) else None

    def _error(self, problem: str, remedy: str) -> ExpressionError:
        return ExpressionError(f"{shown(self.text)} {problem}; {remedy}", self.text)


def parse(
    text: str | int | float,
    names: Collection[str] = ("t",),
    frames: Mapping[str, Collection[str]] | None = None,
    unknown: str = "",
) -> Expression:
    """The checked expression of `text`, which may use `names`, pi and FUNCTIONS; a number stands for itself.

    frames: the frames whose quantities it may contain too, each with its attributes; see OF_FRAMES. unknown: what
    is said of an unknown name, which stands for {}.

    Raises ExpressionError outside the grammar and where a constant part has no finite real value.
    """
    text = _as_text(text)
    builder = _Builder(text, names, frames or {}, unknown)
    tree = builder.build(builder.syntax(), 0)
    return Expression(text, tree, frozenset(node.name for node in _walk(tree) if isinstance(node, Symbol)))


def constants(stated: Any) -> Any:
    """A text such as "pi/2", also in lists, as the number that it is; all else as it is."""
    if isinstance(stated, list):
        return [constants(each) for each in stated]
    try:
        found = parse(stated, ()).constant() if isinstance(stated, str) else None
    except ExpressionError:
        return stated
    return stated if found is None else found


def in_radians(stated: object) -> str:
    """What to write for a text in degrees, such as "30deg"; empty of all others."""
    found = DEGREES.fullmatch(stated) if isinstance(stated, str) else None
    return f'; write "{found[1]}*pi/180" for degrees' if found else ""


def _as_text(text: object) -> str:
    if isinstance(text, str):
        return text
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise ExpressionError(f"{shown(str(text))} is not an expression; write a number or a text such as 't**2'")
    if not abs(text) < math.inf:
        raise ExpressionError(f"{text} is not an expression; write a finite number")
    if isinstance(text, int) and abs(text) > MAX_INTEGER:
        raise ExpressionError("the integer is above 2**53; write it as a decimal such as 1e18")
    return repr(int(text)) if isinstance(text, int) else repr(float(text))


class _Builder:
    """Turns the syntax tree of one text into nodes, counting them; every error names text and position."""

    def __init__(self, text: str, names: Collection[str], frames: Mapping[str, Collection[str]], unknown: str) -> None:
        self.text = text
        self.names = names
        self.frames = frames
        self.unknown = unknown
        self.flat = "".join(" " if c.isspace() else c for c in text[: MAX_LENGTH + 1])
        self.indent = len(self.flat) - len(self.flat.lstrip())
        self.source = self.flat.strip()
        for word in filter(
            iskeyword, (*names, *frames)
        ):  # with a wide letter Python reads the same name, and no keyword
            self.source = re.sub(rf"\b{word}\b", chr(ord(word[0]) + 0xFEE0) + word[1:], self.source)
        self.count = 0

    def syntax(self) -> ast.expr:
        """The syntax tree of the text after a check of its characters."""
        self._check_characters()
        try:
            body: ast.expr = syntax_tree(self.source, mode="eval").body
            return body
        except SyntaxError as error:
            position = self.indent + max((error.offset or 1) - 1, 0)
            raise self._error(f"bad syntax ({error.msg})", position, self._grammar()) from None
        except (RecursionError, MemoryError, ValueError):
            raise self._error("too deeply nested", 0, "write it with fewer parentheses") from None

    def _check_characters(self) -> None:
        if len(self.text) > MAX_LENGTH:
            raise self._error("too long", MAX_LENGTH, f"use at most {MAX_LENGTH} characters")
        if not self.flat.strip():
            raise self._error("empty expression", 0, "write a number or an expression such as 2*sin(t)")
        if strange := STRANGE_CHARACTER.search(self.flat):
            remedy = INSTEAD.get(strange[0]) or self._grammar()
            raise self._error(f"unexpected character {shown(strange[0])}", strange.start(), remedy)
        if glued := NUMBER_THEN_LETTER.search(self.flat):
            remedy = f"write * between a number and a name, and numbers like {glued[0]} or 1.5e-3"
            raise self._error(f"a letter follows the number {glued[0]}", glued.end(), remedy)

    def build(self, node: ast.expr, depth: int) -> Node:
        """The node for one syntax node; anything not listed here is refused."""
        self.count += 1
        if self.count > MAX_NODES or depth > MAX_DEPTH:
            remedy = f"use at most {MAX_DEPTH} terms in a sum and {MAX_DEPTH // NESTING} nested functions"
            raise self._error("too many terms or levels", node, remedy)
        match node:
            case ast.Constant(value=value):
                return self._number(node, value)
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.build(operand, depth + NESTING)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._apply(node, "neg", (self.build(operand, depth + NESTING),))
            case ast.BinOp(op=ast.Pow()):
                return self._power(node, depth)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                arguments = (self.build(left, depth + 1), self.build(right, depth + 1))
                return self._apply(node, OPERATORS[type(op)], arguments)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if self.frames and name in OF_FRAMES:
                return self._of_frames(node, name, arguments)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._call(node, name, arguments, depth)
            case ast.Attribute(value=ast.Name(id=frame), attr=attribute):
                return Symbol(self._attribute(node, frame, attribute, (*PLACES, *RATES_OF_TURN)))
        raise self._error(f"{type(node).__name__} is not part of an expression", node, self._grammar())

    def _number(self, node: ast.expr, value: object) -> Number:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(f"{shown(str(value))} is not a real number", node, self._grammar())
        if isinstance(value, int) and value > MAX_INTEGER:
            raise self._error("integer above 2**53", node, "write it as a decimal such as 1e18")
        if math.isinf(value):
            raise self._error("number too large", node, "stay below 1.8e308")
        return Number(value)

    def _name(self, node: ast.expr, name: str) -> Node:
        if name in self.names:
            return Symbol(name)
        if name == "pi":
            return Apply("pi", (), math.pi)
        if name in FUNCTIONS:
            raise self._error(f"the function {name} has no argument", node, f"write {name}(...)")
        raise self._unknown(node, name)

    def _call(self, node: ast.Call, name: str, arguments: list[ast.expr], depth: int) -> Apply:
        if name in self.names or name == "pi":
            raise self._error(f"'{name}' is not a function", node, f"write {name}*(...) for a product")
        if name not in FUNCTIONS:
            raise self._unknown(node, name)
        least, most = ARITY.get(name, (1, 1))
        if not least <= len(arguments) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            problem = f"{name} has {len(arguments)} argument{'' if len(arguments) == 1 else 's'}"
            raise self._error(problem, node, f"give it {count}")
        return self._apply(node, name, tuple(self.build(a, depth + NESTING) for a in arguments))

    def _of_frames(self, node: ast.Call, name: str, arguments: list[ast.expr]) -> Symbol:
        """The distance of two frames, or the angle between two axes."""
        match name, arguments:
            case "distance", [ast.Name(id=one), ast.Name(id=other)]:
                pair = [self._frame(node, each) for each in (one, other)]
            case "distance", [ast.Name(id=one), ast.Tuple(elts=[_, _, _] as entries)]:
                numbers = [
                    each.value for each in (self.build(each, NESTING) for each in entries) if each.value is not None
                ]
                if len(numbers) < len(entries):
                    text = "write the root of a sum of squares, as sqrt((tool.x - x)**2 + (tool.y - y)**2)"
                    raise self._error("a place in distance is no number", node, text)
                pair = [self._frame(node, one), f"({', '.join(f'{float(each):.17g}' for each in numbers)})"]
            case "angle", [ast.Attribute(ast.Name(one), first), ast.Attribute(ast.Name(other), second)]:
                pair = [self._attribute(node, each, axis, AXES) for each, axis in ((one, first), (other, second))]
            case _:
                raise self._error(f"{name} has other arguments here", node, f"give it {OF_FRAMES[name]}")
        return Symbol(f"{name}({', '.join(pair)})")

    def _attribute(self, node: ast.expr, frame: str, attribute: str, wanted: Collection[str]) -> str:
        """The text of a frame's attribute, one of those that are wanted here."""
        known = [each for each in self.frames[self._frame(node, frame)] if each in wanted]
        if attribute in known:
            return f"{frame}.{attribute}"
        if attribute in AXES and wanted is not AXES:
            remedy = f"write the angle to another one, as angle({frame}.{attribute}, ground.axis_z)"
            raise self._error(f"{frame}.{attribute} is an axis, not a number", node, remedy)
        remedy = f"{did_you_mean(attribute, known)}it has {', '.join(known)}" if known else f"use {frame} in angle(...)"
        raise self._error(f"{frame} has no {shown(attribute)} here", node, remedy)

    def _frame(self, node: ast.expr, name: str) -> str:
        if name in self.frames:
            return name
        if f"{name}_dot" in self.names:
            text = f"{shown(name)} is a number, which has nothing after a point"
            raise self._error(text, node, f"its rate is {name}_dot")
        if not self.frames:
            raise self._error(f"{shown(name)} is no frame: there is no frame here", node, self._grammar())
        near = did_you_mean(name, self.frames)
        raise self._error(f"unknown frame {shown(name)}", node, f"{near}there are {', '.join(self.frames)}")

    def _power(self, node: ast.BinOp, depth: int) -> Apply:
        base, exponent = self.build(node.left, depth + NESTING), self.build(node.right, depth + NESTING).value
        if exponent is None:
            raise self._error("the exponent is not a constant", node.right, "write exp(0.69*t) for 2**t")
        if abs(exponent) > MAX_EXPONENT:
            remedy = f"keep exponents within -{MAX_EXPONENT}..{MAX_EXPONENT}, or use exp"
            raise self._error(f"exponent {exponent:g}", node.right, remedy)
        whole = float(exponent).is_integer()  # t**2.0 is the product t*t too
        return self._apply(node, "**", (base, Number(int(exponent) if whole else exponent)))

    def _apply(self, node: ast.expr, function: str, arguments: tuple[Node, ...]) -> Apply:
        """The application, with its value when all arguments are constant."""
        values = [float(a.value) for a in arguments if a.value is not None]
        if len(values) < len(arguments):
            if function == "/" and arguments[1].value == 0:
                raise self._error("division by zero", node, "divide by something else")
            return Apply(function, arguments, None)
        try:
            value = (OPERATIONS | FUNCTIONS)[function](*values)
        except ZeroDivisionError:
            raise self._error("division by zero", node, "divide by something else") from None
        except OverflowError:
            value = math.inf
        except ValueError:
            value = math.nan
        if isinstance(value, complex) or math.isnan(value):
            raise self._error(f"{_label(function)} has no real value here", node, "change its argument")
        if math.isinf(value) or (function == "**" and value == 0 and values[0] != 0):
            raise self._error(f"the result of {_label(function)} is out of range", node, "use smaller numbers")
        return Apply(function, arguments, float(value))

    def _unknown(self, node: ast.expr, name: str) -> ExpressionError:
        if name in self.frames:
            remedy = f"write {name}.x, or another of its own"
            return self._error(f"{shown(name)} is a frame, not a number", node, remedy)
        close = get_close_matches(name, [*self.names, "pi", *FUNCTIONS], n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        return self._error(f"unknown name {shown(name)}", node, hint + self.unknown.format(name) + self._grammar())

    def _grammar(self) -> str:
        parts = {name: name.rpartition("_d") for name in sorted(self.names)}
        # without x_d3, x_d4, ... of an x that has a name too: so many names would hide the others
        shown = [name for name, (base, _, order) in parts.items() if not (order.isdigit() and base in self.names)]
        names = ", ".join([*shown, "pi"])
        functions = ", ".join(FUNCTIONS)
        text = f"an expression may use {names}, numbers, + - * / **, parentheses and the functions {functions}"
        if self.frames:
            text += f"; of the frames {', '.join(self.frames)}: {', '.join((*PLACES, *RATES_OF_TURN, *OF_FRAMES))}"
        return text

    def _error(self, problem: str, where: ast.expr | int, remedy: str) -> ExpressionError:
        if not isinstance(where, int):  # in bytes of the source
            where = self.indent + len(self.source.encode()[: where.col_offset].decode())
        return ExpressionError(f"{problem} at position {where} of {shown(self.text)}; {remedy}", self.text, where)


def shown(text: str) -> str:
    """The text quoted on one line of plain characters, cut after 60."""
    return ascii(text) if len(text) <= 60 else ascii(text[:57] + "...")


def _label(function: str) -> str:
    return "-" if function == "neg" else function


def _walk(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Apply):
        for argument in node.arguments:
            yield from _walk(argument)


def _is_root(node: Apply) -> bool:
    """True for sqrt and for powers that are not whole."""
    if node.function != "**":
        return node.function == "sqrt"
    return isinstance(node.arguments[1].value, float)


def _to_sympy(node: Node, symbols: Mapping[str, Any], sympy: Any) -> Any:
    """The sympy form of one node, with numbers exact."""
    if isinstance(node, Symbol):
        return symbols[node.name]
    if isinstance(node, Number):
        return _to_number(node.value, sympy)
    if node.function == "pi":
        return sympy.pi
    if node.value is not None and node.function not in ("+", "-", "*", "/", "neg"):
        # a constant root or sine as plain Python has it; as a nested exact power it would fill the memory
        whole = node.value.is_integer() and abs(node.value) <= MAX_INTEGER
        return _to_number(int(node.value) if whole else node.value, sympy)
    if node.function == "**":
        exponent = node.arguments[1].value
        assert exponent is not None  # the builder made it a Number
        half = (2 * exponent) % 1 == 0  # t**0.5 is sqrt(t)
        power = sympy.Rational(exponent) if half else _to_number(exponent, sympy)
        return _to_sympy(node.arguments[0], symbols, sympy) ** power
    arguments = [_to_sympy(argument, symbols, sympy) for argument in node.arguments]
    if node.function == "wrap":
        from servonode.mechanics.functions import wrap as symbolic_wrap

        return symbolic_wrap(*arguments)
    names = {"abs": "Abs", "max": "Max", "min": "Min"}
    known = OPERATIONS.get(node.function) or getattr(sympy, names.get(node.function, node.function))
    return known(*arguments)


def _to_number(value: int | float, sympy: Any) -> Any:
    return sympy.Integer(value) if isinstance(value, int) else sympy.Float(value, 17)
