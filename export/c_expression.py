"""Expressions of generated kernels in C: operators with Python's order, elements of flat arrays, calls."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, prod
from typing import NamedTuple, Protocol

from servonode.export.c_text import Array, Kind, Shape, c_number, refusal, shown

LARGEST_INT = 32767  # an int has at least 16 bits

_ONE_ARGUMENT = "acos asin atan cos cosh exp fabs floor isfinite log sin sinh sqrt tan tanh"
_MATH = dict.fromkeys(_ONE_ARGUMENT.split(), 1) | {"atan2": 2}
BINARY: dict[type[ast.operator], tuple[str, int]] = {
    ast.Add: (" + ", 5),
    ast.Sub: (" - ", 5),
    ast.Mult: ("*", 6),
    ast.Div: ("/", 6),
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_CHOICE, _OR, _AND, _COMPARE, SUM, _UNARY, _ATOM = 1, 2, 3, 4, 5, 7, 8  # how tightly a text binds


class Text(NamedTuple):
    """C text of an expression, how tightly its outermost operator binds, and what it is."""

    text: str
    binds: int
    kind: Kind

    def within(self, binds: int) -> str:
        """The text as an operand of an operator that binds so tightly."""
        return self.text if self.binds >= binds else f"({self.text})"


@dataclass(frozen=True)
class Emitted:
    """A translated function: its C name, kinds of parameters and result, and the parameters it writes to."""

    name: str
    parameters: tuple[Kind, ...]
    result: Kind
    writes: frozenset[int]


class Functions(Protocol):
    """The functions that expressions may call."""

    @property
    def types(self) -> Mapping[str, tuple[Kind, tuple[Kind | int, ...]]]:
        """Result and parameters of each function; an array parameter as its number of indices."""
        ...

    def function(self, name: str, shapes: tuple[Shape | None, ...]) -> Emitted:
        """The translation of a function for arrays of these shapes."""
        ...

    def extreme(self, name: str) -> str:
        """The C name of Python's min or max of two doubles."""
        ...


class Expressions:
    """C text of the expressions of one function, in which names have the kinds that the statements gave them."""

    def __init__(
        self, functions: Functions, names: Mapping[str, str], kinds: dict[str, Kind], loop_names: set[str]
    ) -> None:
        self.functions = functions
        self.names = names  # C names
        self.kinds = kinds
        self.loop_names = loop_names  # variables of all loops
        self.loops: list[str] = []  # variables of the loops around the present statement
        self.written: set[str] = set()  # arrays

    def value(self, node: ast.expr, whole: bool = False) -> Text:
        """A scalar; `whole` where it is all of a statement's right-hand side."""
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=float(value)) if isfinite(value):
                return Text(c_number(value), _ATOM, "double")
            case ast.Constant(value=int(value)) if value <= LARGEST_INT:
                return Text(str(value), _ATOM, "int")
            case ast.Name():
                return self._name(node)
            case ast.Subscript():
                return self.element(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                text = self.number(operand)
                return Text(f"-{text.within(_ATOM)}", _UNARY, text.kind)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Text(f"!({self.condition(operand).text})", _UNARY, "truth")
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(node, left, op, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                texts = [self.number(each).within(SUM) for each in (left, right)]
                return Text(f" {_COMPARISONS[type(op)]} ".join(texts), _COMPARE, "truth")
            case ast.BoolOp(op=op, values=values):
                word, binds = ("&&", _AND) if isinstance(op, ast.And) else ("||", _OR)
                parts = [self.condition(each).within(_COMPARE) for each in values]
                return Text(f" {word} ".join(parts), binds, "truth")
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._choice(test, body, orelse)
            case ast.Call():
                return self._called(node, whole)
        raise refusal(node, f"the expression {shown(node)}")

    def number(self, node: ast.expr, whole: bool = False) -> Text:
        """A number; a truth value is refused."""
        text = self.value(node, whole)
        if text.kind not in ("double", "int"):
            raise refusal(node, f"{shown(node)}, which is no number,")
        return text

    def whole_number(self, node: ast.expr) -> Text:
        """A whole number: a loop's bound, an index."""
        text = self.value(node)
        if text.kind != "int":
            raise refusal(node, f"{shown(node)}, which is no whole number,")
        return text

    def condition(self, node: ast.expr) -> Text:
        """A condition: a truth value, or a whole number that is not 0."""
        text = self.value(node)
        if text.kind not in ("truth", "int"):
            raise refusal(node, f"the condition {shown(node)}, which is no comparison,")
        return text

    def _name(self, node: ast.Name) -> Text:
        kind = self.kinds.get(node.id)
        if kind is None or (node.id in self.loop_names and node.id not in self.loops):
            raise refusal(node, f"the name {node.id}, which has no value here,")
        if isinstance(kind, Array):
            raise refusal(node, f"the array {node.id}, which is not copied,")
        return Text(self.names[node.id], _ATOM, kind)

    def _binary(self, node: ast.expr, left: ast.expr, op: ast.operator, right: ast.expr) -> Text:
        a, b = self.number(left), self.number(right)
        whole = a.kind == b.kind == "int"
        if whole and not isinstance(op, ast.Add | ast.Sub):
            raise refusal(node, f"the arithmetic of whole numbers {shown(node)}")
        if isinstance(op, ast.Pow) and a.kind == b.kind == "double":  # numba multiplies whole powers out
            return Text(f"pow({a.text}, {b.text})", _ATOM, "double")
        if type(op) not in BINARY:
            raise refusal(node, f"the expression {shown(node)}")
        word, binds = BINARY[type(op)]
        return Text(f"{a.within(binds)}{word}{b.within(binds + 1)}", binds, "int" if whole else "double")

    def _choice(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Text:
        condition, (a, b) = self.condition(test), map(self.number, (body, orelse))
        kind = "int" if a.kind == b.kind == "int" else "double"
        return Text(f"{condition.within(_OR)} ? {a.within(_OR)} : {b.within(_OR)}", _CHOICE, kind)

    def element(self, node: ast.Subscript, stored: bool = False) -> Text:
        """An element of an array, by one flat index."""
        match node.value:
            case ast.Name(id=name) if isinstance(kind := self.kinds.get(name), Array):
                pass
            case _:
                raise refusal(node, f"{shown(node)}, which is no element of an array,")
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(indices) != len(kind.shape):
            raise refusal(node, f"{shown(node)} of an array of the shape {kind.shape}")
        if stored:
            self.written.add(name)
        fixed, moving = 0, []
        for i, (index, length) in enumerate(zip(indices, kind.shape, strict=True)):
            stride, value = prod(kind.shape[i + 1 :]), stated_whole(index)
            if value is None:
                moving.append(self._moving_index(index, stride))
            elif not 0 <= value < length:
                raise refusal(node, f"{shown(node)} outside of the shape {kind.shape}")
            else:
                fixed += stride * value
        place = " + ".join(moving + ([str(fixed)] if fixed or not moving else []))
        return Text(f"{self.names[name]}[{place}]", _ATOM, "double")

    def target(self, target: ast.expr) -> Text:
        """What an assignment to a scalar or to an element of an array names on its left."""
        match target:
            case ast.Name(id=name) if isinstance(self.kinds.get(name), str) and name not in self.loop_names:
                return Text(self.names[name], _ATOM, self.kinds[name])
            case ast.Subscript():
                return self.element(target, stored=True)
        raise refusal(target, f"an assignment to {shown(target)}")

    def _moving_index(self, index: ast.expr, stride: int) -> str:
        """An index that is not a number; with a minus in it, it could count from the end."""
        if any(isinstance(each, ast.Sub | ast.USub) for each in ast.walk(index)):
            raise refusal(index, f"the index {shown(index)} with a minus")
        text = self.whole_number(index)
        return text.within(SUM) if stride == 1 else f"{stride}*{text.within(_ATOM)}"

    def _called(self, call: ast.Call, whole: bool) -> Text:
        name = self.called_name(call)
        if name in ("min", "max") and len(call.args) > 1 and name not in self.functions.types:
            return self._extreme(call, name)
        if name in _MATH and name not in self.functions.types:
            if len(call.args) != _MATH[name]:
                raise refusal(call, f"the call {shown(call)}")
            text = ", ".join(self.number(each).text for each in call.args)
            return Text(f"{name}({text})", _ATOM, "truth" if name == "isfinite" else "double")
        result = self.result_of(name)
        if result is None or result == "void" or isinstance(result, Array):
            raise refusal(call, f"the call {shown(call)}")
        text = self.call(call)
        if not whole and self._function(call).writes:
            raise refusal(call, f"the call {shown(call)}, which writes to an array, inside of an expression")
        return Text(text, _ATOM, result)

    def called_name(self, call: ast.Call) -> str:
        """The name of the function called; only plain calls of functions have C text."""
        match call:
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name not in self.kinds:
                return name
        raise refusal(call, f"the call {shown(call)}")

    def result_of(self, name: str) -> Kind | None:
        """What a function of the module returns; None for a name that it does not define."""
        return self.functions.types[name][0] if name in self.functions.types else None

    def _extreme(self, call: ast.Call, name: str) -> Text:
        texts = [self.value(each) for each in call.args]
        if any(each.kind != "double" for each in texts):
            raise refusal(call, f"{shown(call)} of others than floats")
        c_name, text = self.functions.extreme(name), texts[0].text
        for each in texts[1:]:
            text = f"{c_name}({text}, {each.text})"
        return Text(text, _ATOM, "double")

    def statement_call(self, call: ast.Call) -> str:
        """A call for what it does to its arrays; a result is dropped."""
        name = self.called_name(call)
        if name not in self.functions.types or isinstance(self.result_of(name), Array):
            raise refusal(call, f"the statement {shown(call)}")
        return self.call(call)

    def _function(self, call: ast.Call) -> Emitted:
        """The translation of a function of the module, for the arrays of this call."""
        assert isinstance(call.func, ast.Name)
        kinds = [self.kinds.get(each.id) if isinstance(each, ast.Name) else None for each in call.args]
        shapes = tuple(kind.shape if isinstance(kind, Array) else None for kind in kinds)
        if len(shapes) != len(self.functions.types[call.func.id][1]):
            raise refusal(call, f"the call {shown(call)} with another number of arguments")
        return self.functions.function(call.func.id, shapes)

    def call(self, call: ast.Call, result_in: str = "") -> str:
        """A call of a function of the module; a tuple that it returns goes to the array `result_in`."""
        function = self._function(call)
        texts = []
        for i, (argument, kind) in enumerate(zip(call.args, function.parameters, strict=True)):
            if isinstance(kind, Array):
                assert isinstance(argument, ast.Name)
                texts.append(self.names[argument.id])
                self.written |= {argument.id} if i in function.writes else set()
            else:
                texts.append((self.whole_number if kind == "int" else self.number)(argument).text)
        return f"{function.name}({', '.join([*texts, *([result_in] if result_in else [])])})"


def stated_whole(node: ast.expr) -> int | None:
    """The whole number that an expression states, None where it states none."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
    return None


def lengths(node: ast.expr) -> Shape:
    """The shape that is given to `empty`."""
    given = [stated_whole(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node])]
    if any(each is None or each < 1 for each in given):
        raise refusal(node, f"an array of the shape {shown(node)}, not numbers of 1 or more,")
    return tuple(each for each in given if each is not None)
