"""Kernels as C99 text, for people and microcontrollers.

No operation is added or reordered, and parentheses are kept where they matter: C that is compiled without contraction
and without -ffast-math has the bits of the kernel wherever both call the same libm. What differs: LLVM takes exp2(x)
for pow(2, x). Arrays are flat, booleans are `int`, and integers are `int` in functions where they stay small.
"""

import textwrap
from collections.abc import Mapping, Sequence
from math import isfinite, prod
from typing import NamedTuple

from servonode.errors import ServonodeError
from servonode.kernels import ir
from servonode.kernels.c_locals import (
    Declarations,
    Path,
    identifier,
    identifiers,
    known,
    names,
    read,
    stay_small,
    useful,
)

WIDTH = 120  # columns of the C text
_GLUE = "\0"  # a space at which no line is broken
_CHOICE, _OR, _AND, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = range(1, 9)  # precedence of C text, from the loosest
_BINARY = {"+": (" + ", _SUM), "-": (" - ", _SUM), "*": ("*", _PRODUCT), "/": ("/", _PRODUCT)}
_LOGICAL = {"and": (" && ", _AND), "or": (" || ", _OR)}
_WHOLE = {"min": "min_whole", "max": "max_whole", "//": "floor_div", "%": "floor_mod"}
_HELPERS = {  # functions that the C text needs beside those of a module: type, result
    "min": ("double", "b < a ? b : a"),
    "max": ("double", "b > a ? b : a"),
    "min_whole": ("long long", "b < a ? b : a"),
    "max_whole": ("long long", "b > a ? b : a"),
    "floor_div": ("long long", "a/b - (a%b != 0 && (a%b < 0) != (b < 0))"),
    "floor_mod": ("long long", "a%b + (a%b != 0 && (a%b < 0) != (b < 0) ? b : 0)"),
}


class TranslationError(ServonodeError, ValueError):
    """A part of the kernel has no C text; the message says which, and how to write it instead."""


class Translation(NamedTuple):
    """A function in C: its text with all that it calls, its C name, and the arguments that it writes to."""

    text: str
    name: str
    writes: frozenset[str]


def translate(module: ir.Module, entry: str, rename: Mapping[str, str] | None = None) -> Translation:
    """The function `entry` of a module and all it calls in C99, callees first, all static. The text needs math.h.

    `rename` maps functions to C names other than their own (see `function_names`). A result that is an array is
    written to a last parameter.

    Raises:
        TranslationError: there is no such function, or one of them has no C text.
    """
    if entry not in module.names:
        raise TranslationError(f"the kernel has no function {entry}; choose {', '.join(module.names)}")
    symbol, changed, taken = module.names[entry].symbol, rename or {}, set[str]()
    wanted = {symbol}
    for name, each in reversed(module.functions.items()):  # callers before what they call
        wanted |= each.calls if name in wanted else set()
    functions = [each for name, each in module.functions.items() if name in wanted]
    c_names = {name: identifier(changed.get(name, name), taken) for name in _HELPERS}
    for of in (each.signature for each in functions):
        c_names[of.symbol] = identifier(changed.get(of.name, of.name), taken)
    writes, small, texts = ir.written(module), stay_small(functions), dict[str, None]()
    for each in functions:
        printer = _Printer(each, c_names, writes, small)
        for name in sorted(printer.helpers):
            (kind, result), c_name = _HELPERS[name], c_names[name]
            texts[f"static {kind} {c_name}({kind} a, {kind} b)\n{{\n    return {result};\n}}"] = None
        texts[printer.text()] = None
    return Translation("\n\n".join(texts) + "\n", c_names[symbol], writes[symbol])


def function_names(module: ir.Module) -> set[str]:
    """The names of the functions of a module, and of the helpers that C needs beside them."""
    return {each.signature.name for each in module.functions.values()} | set(_HELPERS)


def c_number(value: float) -> str:
    """A double as C text with all its digits."""
    if not isfinite(value):
        return "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def comment(text: str) -> str:
    """The text with everything broken up that would end or begin a C comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def _wrapped(line: str) -> list[str]:
    """The line, broken at spaces where it is too long."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    parts = textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [part.replace(_GLUE, " ") for part in parts]


class _Text(NamedTuple):
    """C text of an expression, and the precedence of its outermost operator."""

    text: str
    binds: int = _ATOM

    def within(self, binds: int) -> str:
        """The text as an operand of an operator of this precedence, in parentheses where needed."""
        return self.text if self.binds >= binds else f"({self.text})"


def _reads(node: object) -> int:
    """The number of reads of arrays, and of calls that may read arrays."""
    return sum(isinstance(each, ir.Element | ir.Called) for each in ir.nodes(node))


class _Printer:
    """C text of one function. It has many methods, one for each kind of statement and expression.

    `helpers` collects what it needs beside the functions of the module.
    """

    def __init__(
        self, function: ir.Function, c_names: Mapping[str, str], writes: Mapping[str, frozenset[str]], small: set[str]
    ) -> None:
        self.signature, self.doc = function.signature, function.doc
        self.c_names, self.writes = c_names, writes
        self.helpers: set[str] = set()
        self.body = useful(function.body, self._writes)
        for each in ir.walk(self.body):
            self._check(each)
        self.arguments = [each.name for each in self.signature.arguments]
        self.taken = set(c_names.values())
        self.names = identifiers(names(self.body) | set(self.arguments), self.taken)
        self.whole = "int" if self.signature.symbol in small else "long long"
        self.declarations = Declarations(self.body, self.arguments)
        self.out = identifier("out", self.taken)
        self.lines: list[str] = []
        self._depth = 1
        self._block(self.body, ())

    def _writes(self, node: object) -> list[ir.Called]:
        """The calls within a node that write to an array among their arguments."""
        return [each for each in ir.nodes(node) if isinstance(each, ir.Called) and self.writes[each.function.symbol]]

    def _check(self, statement: ir.Statement) -> None:
        """Refuse a call that writes to an array where C leaves open what is read before it."""
        parts: tuple[object, ...] = ir.evaluated(statement)
        if isinstance(statement, ir.Store):
            parts = ((statement.target.indices, statement.value),)
        for each in parts:
            writing = self._writes(each)
            if writing and (len(writing) > 1 or _reads(each) > _reads(writing[0])):
                name = writing[0].function.name
                raise TranslationError(
                    f"{self.signature.name} calls {name}, which writes to an array, inside of an expression, and C may "
                    f"read arrays there before or after it; give the result of {name} to a local variable first"
                )

    def text(self) -> str:
        """The C text of the function."""
        flat = [f"{self.names[each.name]} is {' x '.join('n' if n is None else str(n) for n in each.type.shape)}, "
                "row by row" for each in self.signature.arguments
                if isinstance(each.type, ir.Array) and len(each.type.shape) > 1]  # fmt: skip
        notes = "; ".join([*([" ".join(self.doc.rstrip(".").split())] if self.doc else []), *flat])
        head = textwrap.wrap(f"/* {comment(notes)}. */", WIDTH, subsequent_indent=" * ") if notes else []
        result = "void" if isinstance(self.signature.result, ir.Array) else self._type(self.signature.result)
        head += _wrapped(f"static {result} {self.c_names[self.signature.symbol]}({self._parameters()})")
        mentioned = read(self.body)
        unread = [f"    (void){self.names[name]};" for name in self.arguments if name not in mentioned]
        return "\n".join([*head, "{", *unread, *(part for line in self.lines for part in _wrapped(line)), "}"])

    def _parameters(self) -> str:
        changed = self.writes[self.signature.symbol]
        texts = [
            self._declared(self.names[name], kind, constant=isinstance(kind, ir.Array) and name not in changed)
            for name, kind in self.signature.arguments
        ]
        if isinstance(self.signature.result, ir.Array):
            texts.append(self._declared(self.out, self.signature.result))
        return ", ".join(text.replace(" ", _GLUE) for text in texts) or "void"

    def _type(self, kind: ir.Type | None) -> str:
        """The C type of a value, or of an array's elements."""
        if isinstance(kind, ir.Array):
            return "long long" if kind.element == ir.I64 else self._type(kind.element)
        return "void" if kind is None else "double" if kind == ir.F64 else self.whole if kind == ir.I64 else "int"

    def _declared(self, name: str, kind: ir.Type, constant: bool = False) -> str:
        """C text that declares a name; arrays are flat, and an array of unknown or zero length is a pointer."""
        qualified = f"{'const ' if constant else ''}{self._type(kind)}"
        if not isinstance(kind, ir.Array):
            return f"{qualified} {name}"
        size = 0 if kind.shape[0] is None else prod(each or 0 for each in kind.shape)
        return f"{qualified} {name}[{size}]" if size else f"{qualified} *{name}"

    # statements

    def _line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    def _block(self, body: Sequence[ir.Statement], path: Path) -> None:
        for i, each in enumerate(body):
            for local in self.declarations.before.get((*path, i), ()):
                self._line(f"{self._declared(self.names[local.name], local.type)};")
            self._statement(each, (*path, i))

    def _inner(self, body: Sequence[ir.Statement], path: Path) -> None:
        self._depth += 1
        self._block(body, path)
        self._depth -= 1

    def _statement(self, each: ir.Statement, path: Path) -> None:
        match each:
            case ir.Empty(target):
                self._array(target, path)
            case ir.Let(target, ir.Called() as call) if isinstance(target.type, ir.Array):
                self._line(f"{self._call(call, self._array(target, path))};")
            case ir.Let(target, value):
                self._let(target, value, path)
            case ir.Store(target, value):
                self._line(self._assignment(target, value))
            case ir.Together(targets, values):
                self._together([self.value(target).text for target in targets], values)
            case ir.Do(call):
                self._line(f"{self.value(call).text};")
            case ir.If():
                self._if(each, path, "if")
            case ir.For():
                self._for(each, path)
            case ir.While(test, body):
                self._line(f"while ({self.value(test).text}) {{")
                self._inner(body, (*path, 0))
                self._line("}")
            case ir.Return(values):
                self._return(values, path)

    def _array(self, target: ir.Local, path: Path) -> str:
        """The name of an array, which is declared now unless it was before."""
        name = self.names[target.name]
        if path in self.declarations.with_value:
            self._line(f"{self._declared(name, target.type)};")
        return name

    def _let(self, target: ir.Local, value: ir.Expr, path: Path) -> None:
        if target.name in self.declarations.unread:
            text = self.value(value).text
            self._line(f"{text};" if isinstance(value, ir.Called) else f"(void)({text});")
        elif path in self.declarations.with_value:
            declared = self._declared(self.names[target.name], target.type, target.name in self.declarations.once)
            self._line(f"{declared} = {self.value(value).text};")
        else:
            self._line(self._assignment(target, value))

    def _assignment(self, target: ir.Local | ir.Element, value: ir.Expr) -> str:
        place = self.value(target).text
        match value:
            case ir.Binary(op, a, b) if op in _BINARY and a == target:
                return f"{place} {op}= {self.value(b).text};"
        return f"{place} = {self.value(value).text};"

    def _together(self, places: Sequence[str], values: Sequence[ir.Expr]) -> None:
        """Compute all values first, then assign them from left to right."""
        taken = set(self.taken)
        held = [identifier(f"value{i}", taken) for i in range(len(values))]
        self._line("{")
        for name, value in zip(held, values, strict=True):
            self._line(f"    const {self._type(value.type)} {name} = {self.value(value).text};")
        for place, name in zip(places, held, strict=True):
            self._line(f"    {place} = {name};")
        self._line("}")

    def _if(self, each: ir.If, path: Path, word: str) -> None:
        self._line(f"{word} ({self.value(each.test).text}) {{")
        self._inner(each.body, (*path, 0))
        match each.other:
            case []:
                self._line("}")
            case [ir.If() as other]:
                self._if(other, (*path, 1, 0), "} else if")
            case other_body:
                self._line("} else {")
                self._inner(other_body, (*path, 1))
                self._line("}")

    def _for(self, each: ir.For, path: Path) -> None:
        """A loop whose bound is computed once."""
        variable = self.names[each.variable.name]
        outside = each.variable.name not in self.declarations.loops  # the variable is used elsewhere too
        name = identifier(f"{each.variable.name}_next", self.taken) if outside else variable
        first, end = f"{self.whole} {name} = {self.value(each.start).text}", self.value(each.stop).within(_SUM)
        changed = {each.variable.name, *(local.name for inner in ir.walk(each.body) for local in ir.assigned(inner))}
        if names(each.stop) & changed or _reads(each.stop):
            found = identifier("end", self.taken)
            first, end = f"{first}, {found} = {self.value(each.stop).text}", found
        change = {1: f"{name}++", -1: f"{name}--"}.get(each.step, f"{name} += {each.step}")
        self._line(f"for ({first}; {name} {'<' if each.step > 0 else '>'} {end}; {change}) {{")
        if outside:
            self._line(f"    {variable} = {name};")
        self._inner(each.body, (*path, 0))
        self._line("}")

    def _return(self, values: tuple[ir.Expr, ...], path: Path) -> None:
        if isinstance(self.signature.result, ir.Array):
            places = [f"{self.out}[{i}]" for i in range(len(values))]
            if _reads(values):  # perhaps from the array that takes the result
                self._together(places, values)
            else:
                for place, value in zip(places, values, strict=True):
                    self._line(f"{place} = {self.value(value).text};")
            if path != (len(self.body) - 1,):
                self._line("return;")
        else:
            self._line(f"return {self.value(values[0]).text};" if values else "return;")

    # expressions

    def value(self, each: ir.Expr) -> _Text:
        """C text of an expression."""
        match each:
            case ir.Number(value, kind):
                text = c_number(value) if kind == ir.F64 else str(int(value))
                return _Text(text, _UNARY if text.startswith("-") else _ATOM)
            case ir.Local(name):
                return _Text(self.names[name])
            case ir.Element():
                return self._element(each)
            case ir.Row():
                return _Text(f"&{self._element(each.first).text}", _UNARY)
            case ir.Unary("not", a, _):
                return _Text(f"!({self.value(a).text})", _UNARY)
            case ir.Unary(_, a, _):
                return _Text(f"-{self.value(a).within(_ATOM)}", _UNARY)
            case ir.Convert(a, _):
                return _Text(f"(double){self.value(a).within(_ATOM)}", _UNARY)
            case ir.Binary("**", a, b, _):
                return _Text(f"pow({self.value(a).text}, {self.value(b).text})")
            case ir.Binary(op, a, b, _) if op not in _BINARY:
                return self._helped(_WHOLE[op], a, b)
            case ir.Binary() if (whole := known(each)) is not None:
                return self.value(ir.Number(whole, ir.I64))
            case ir.Binary(op, a, b, _):
                word, binds = _BINARY[op]
                return _Text(f"{self.value(a).within(binds)}{word}{self.value(b).within(binds + 1)}", binds)
            case ir.Compare(op, a, b):
                return _Text(f"{self.value(a).within(_SUM)} {op} {self.value(b).within(_SUM)}", _COMPARE)
            case ir.Logical(op, a, b):
                word, binds = _LOGICAL[op]
                first = self.value(a)
                left = first.text if first.binds == binds else first.within(_COMPARE)
                return _Text(f"{left}{word}{self.value(b).within(_COMPARE)}", binds)
            case ir.Choice(test, a, b, _):
                return _Text(" ".join([self.value(test).within(_OR), "?", self.value(a).within(_OR), ":",
                                       self.value(b).within(_OR)]), _CHOICE)  # fmt: skip
            case ir.Math(name, arguments, _):
                return _Text(f"{name}({', '.join(self.value(a).text for a in arguments)})")
            case ir.Extreme(name, a, b, kind):
                return self._helped(name if kind == ir.F64 else _WHOLE[name], a, b)
            case ir.Called():
                return _Text(self._call(each))
            case ir.Shared(_, element, _, _):
                name = self.names[element.array.name]
                text = f"threads share entries of {name}, which C99 cannot; export what one thread calls"
                raise TranslationError(text)
        raise AssertionError(each)

    def _helped(self, name: str, a: ir.Expr, b: ir.Expr) -> _Text:
        self.helpers.add(name)
        return _Text(f"{self.c_names[name]}({self.value(a).text}, {self.value(b).text})")

    def _call(self, each: ir.Called, into: str = "") -> str:
        texts = [self.value(argument).text for argument in each.arguments]
        return f"{self.c_names[each.function.symbol]}({', '.join([*texts, *([into] if into else [])])})"

    def _element(self, each: ir.Element) -> _Text:
        """An element by one flat index."""
        assert isinstance(each.array.type, ir.Array)
        fixed, moving = 0, []
        for i, index in enumerate(each.indices):
            stride, value = prod(n or 0 for n in each.array.type.shape[i + 1 :]), known(index)
            if value is not None:
                fixed += stride * value
            elif stride == 1:
                moving.append(self.value(index).within(_SUM))
            else:
                moving.append(f"{stride}*{self.value(index).within(_ATOM)}")
        place = " + ".join(moving + ([str(fixed)] if fixed or not moving else []))
        return _Text(f"{self.names[each.array.name]}[{place}]")


__all__ = ["WIDTH", "Translation", "TranslationError", "c_number", "comment", "function_names", "translate"]
