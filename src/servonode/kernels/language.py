"""The kernel language: a small part of Python with types at the arguments, read into `ir`.

    def advance(k: i64, n: i64, step_ns: i64, x: f64[5], u: f64[2], c: f64[12]) -> bool:
        h = step_ns / 1e9
        for i in range(k, k + n):
            step(i * step_ns / 1e9, x, u, c, h)
        ...

A local variable has the type of its first value; integers become floats where they meet floats. What has another
meaning in Python, or is outside of this part, is refused with its line, never guessed.

A class that states fields alone is a record: an argument of its type stands for one argument for each field, in their
order. Its fields are read as `run.x`, and a function is given all of it as `run`. What a constant of the module
excludes (`if watched:`, `a if watched else b`, `watched and a`) is not read, so it may call what is not there.
"""

import ast
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import NoReturn

from servonode.kernels import ir
from servonode.kernels.syntax import syntax_tree

_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_SHARED = {"add_shared": "add", "swap_shared": "xchg"}
_SCALARS = {each.value: each for each in ir.Scalar} | {"float": ir.F64, "int": ir.I64}


class KernelError(ValueError):
    """A text that is not in the kernel language; the message says where and why."""


def parse(text: str, text_of: Callable[[str], str] | None = None, home: str = "") -> ir.Module:
    """The module of a text; `from KEY import NAME` takes functions, with all that they call, and sizes of another one.

    text_of: gives the text of a module by its key. home: the key of this module, where another imports from it.

    Raises:
        KernelError: the text is outside of the language.
    """
    module = ir.Module()
    try:
        tree = syntax_tree(text)
    except SyntaxError as error:
        raise KernelError(f"line {error.lineno}: {error.msg}") from error
    for node in tree.body:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.ImportFrom(module=str(key), names=names):
                if text_of is None:
                    _refuse(node, "an import without a source")
                _take(node, module, _read(text_of(key), text_of, key), {each.name: each.asname for each in names})
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(value))):
                module.constants[name] = value
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.UnaryOp(ast.USub(), ast.Constant(value=int(value)))):
                module.constants[name] = -value
            case ast.ClassDef(name=name, bases=[], keywords=[], decorator_list=[], body=body):
                module.records[name] = tuple(_fields(body, module.constants))
            case ast.FunctionDef():
                function = _Reader(module, node, home).function()
                module.functions[function.signature.symbol] = function
                module.names[node.name] = function.signature
            case _:
                _refuse(node, "this")
    return module


_read = functools.lru_cache(maxsize=16)(parse)  # cached, because several kernels import from one


def _take(node: ast.AST, module: ir.Module, other: ir.Module, names: Mapping[str, str | None]) -> None:
    """Import names from another module, and all that they call."""
    wanted: set[str] = set()
    for name, known_as in names.items():
        if name in other.constants:
            module.constants[known_as or name] = other.constants[name]
        elif name in other.names:
            module.names[known_as or name] = other.names[name]
            wanted.add(other.names[name].symbol)
        elif name in other.records:
            module.records[known_as or name] = other.records[name]
        else:
            _refuse(node, f"the import of {name}, which is not there,")
    for symbol, function in reversed(other.functions.items()):  # callers before what they call
        if symbol in wanted:
            wanted |= function.calls
    module.functions |= {symbol: each for symbol, each in other.functions.items() if symbol in wanted}


def _fields(body: Sequence[ast.stmt], sizes: Mapping[str, int]) -> Iterator[ir.Local]:
    """The fields that a record's class states."""
    for node in body:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), annotation=stated, value=None):
                yield ir.Local(name, stated_type(stated, sizes))
            case _:
                _refuse(node, "this in a record")


def _refuse(node: ast.AST, what: str) -> NoReturn:
    line = f"line {node.lineno}: " if isinstance(node, ast.stmt | ast.expr) else ""
    shown = ast.unparse(node).splitlines()[0][:80]
    raise KernelError(f"{line}{what} is outside of the kernel language: {shown}")


def stated_type(node: ast.expr, sizes: Mapping[str, int]) -> ir.Type:
    """The type that an annotation states: f64 or float, i64 or int, bool, f64[3, n_x], f64[:, 7]; : is any_size."""
    match node:
        case ast.Name(id=name) if name in _SCALARS:
            return _SCALARS[name]
        case ast.Subscript(value=ast.Name(id=name), slice=shape) if name in _SCALARS:
            entries = shape.elts if isinstance(shape, ast.Tuple) else [shape]
            return ir.Array(_SCALARS[name], tuple(_length(each, i, sizes) for i, each in enumerate(entries)))
    _refuse(node, "the type")


def _length(node: ast.expr, i: int, sizes: Mapping[str, int]) -> int | None:
    match node:
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.Slice(lower=None, upper=None, step=None) | ast.Name(id="any_size") if i == 0:
            return None
        case ast.Constant(value=int(n)) if n >= 0:
            return n
    _refuse(node, "the length")


class _Reader:
    """Reads one function. It has many methods, one for each kind of statement and expression."""

    def __init__(self, module: ir.Module, node: ast.FunctionDef, home: str) -> None:
        self.module, self.node = module, node
        plain = node.args
        if (
            plain.posonlyargs
            or plain.kwonlyargs
            or plain.vararg
            or plain.kwarg
            or plain.defaults
            or node.decorator_list
        ):
            _refuse(node, "arguments with defaults, keywords or decorators")
        arguments: list[ir.Local] = []
        self.records: dict[str, tuple[ir.Local, ...]] = {}  # the fields of each argument that is a record
        for each in plain.args:
            match each.annotation:
                case None:
                    _refuse(node, f"the argument {each.arg} without a type")
                case ast.Name(id=name) if name in module.records:
                    fields = module.records[name]
                    self.records[each.arg] = tuple(ir.Local(f"{each.arg}.{of.name}", of.type) for of in fields)
                    arguments += self.records[each.arg]
                case stated:
                    arguments.append(ir.Local(each.arg, stated_type(stated, module.constants)))
        nothing = node.returns is None or ast.unparse(node.returns) == "None"
        result = None if node.returns is None or nothing else stated_type(node.returns, module.constants)
        self.signature = ir.Signature(node.name, tuple(arguments), result, home)
        self.locals: dict[str, ir.Local] = {each.name: each for each in arguments}
        self.loops: set[str] = set()
        self.set = set(self.locals)  # variables that have a value here on every path

    def function(self) -> ir.Function:
        doc = ast.get_docstring(self.node) or ""
        body = self.block(self.node.body[1:] if doc else self.node.body)
        if self.signature.result is not None and not _ends(body):
            _refuse(self.node, f"{self.node.name}, which may end without a result,")
        return ir.Function(self.signature, body, doc)

    # statements

    def block(self, body: Sequence[ast.stmt]) -> tuple[ir.Statement, ...]:
        return tuple(each for node in body for each in self.statement(node))

    def statement(self, node: ast.stmt) -> Sequence[ir.Statement]:
        match node:
            case ast.Pass():
                return ()
            case ast.Expr(value=ast.Call() as call):
                called = self.call(call)
                if not isinstance(called, ir.Called) or isinstance(called.type, ir.Array):
                    _refuse(node, "a call without effect")
                return (ir.Do(called),)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                if len(targets) != len(values):
                    _refuse(node, "the assignment")
                found = tuple(map(self.value, values))
                places = tuple(self.place(each, value.type) for each, value in zip(targets, found, strict=True))
                fitting = (self._fit(value, to.type, node) for value, to in zip(found, places, strict=True))
                return (ir.Together(places, tuple(fitting)),)
            case ast.Assign(targets=[target], value=value):
                return (self.assignment(node, target, value),)
            case ast.AugAssign(target=target, op=op, value=value):
                return (self._set(node, target, self.binary(node, self.value(_loaded(target)), op, self.value(value))),)
            case ast.If(test=test, body=body, orelse=other):
                fixed = self.fixed(test)
                return (self.branches(test, body, other),) if fixed is None else self.block(body if fixed else other)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=args), orelse=[]):
                return (self.loop(node, name, args),)
            case ast.While(test=test, body=body, orelse=[]):
                condition, before = self.truth(test), self.set.copy()
                statement = ir.While(condition, self.block(body))
                self.set = before
                return (statement,)
            case ast.Return(value=value):
                return (self.returned(node, value),)
        _refuse(node, "the statement")

    def fixed(self, node: ast.expr) -> bool | None:
        """What constants of the module make of a condition; None where they do not say."""
        match node:
            case ast.Name(id=name) if name in self.module.constants and name not in self.locals:
                return bool(self.module.constants[name])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                fixed = self.fixed(operand)
                return None if fixed is None else not fixed
            case ast.BoolOp(op=op, values=values):
                found, decides = [self.fixed(each) for each in values], isinstance(op, ast.Or)
                return decides if decides in found else None if None in found else not decides
        return None

    def branches(self, test: ast.expr, body: list[ast.stmt], other: list[ast.stmt]) -> ir.If:
        """An `if`. After it the variables are set that both branches set, or the one that does not return."""
        condition, before = self.truth(test), self.set.copy()
        first = self.block(body)
        after, self.set = self.set, before
        second = self.block(other)
        if _ends(first) != _ends(second):
            self.set = self.set if _ends(first) else after
        else:
            self.set &= after
        return ir.If(condition, first, second)

    def assignment(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> ir.Statement:
        match target, value:
            case ast.Name(id=name), ast.Call(func=ast.Name(id="empty"), args=[shape], keywords=[]):
                lengths = shape.elts if isinstance(shape, ast.Tuple) else [shape]
                array = ir.Array(ir.F64, tuple(_length(each, 1, self.module.constants) for each in lengths))
                return ir.Empty(self._kept(node, name, array))
        return self._set(node, target, self.value(value))

    def _set(self, node: ast.stmt, target: ast.expr, value: ir.Expr) -> ir.Statement:
        place = self.place(target, value.type)
        value = self._fit(value, place.type, node)
        return ir.Let(place, value) if isinstance(place, ir.Local) else ir.Store(place, value)

    def place(self, target: ast.expr, kind: ir.Type | None) -> ir.Local | ir.Element:
        """The target of an assignment."""
        match target:
            case ast.Name(id=name) if kind is not None and name not in self.loops and name not in self.records:
                known = self.locals.get(name)
                return self._kept(target, name, kind if known is None else known.type)
            case ast.Subscript():
                element = self.element(target)
                if isinstance(element, ir.Element):
                    return element
        _refuse(target, "the assignment to")

    def _kept(self, node: ast.AST, name: str, kind: ir.Type) -> ir.Local:
        known = self.locals.setdefault(name, ir.Local(name, kind))
        if known.type != kind or (known in self.signature.arguments and isinstance(kind, ir.Array)):
            _refuse(node, f"{name} with two types")
        self.set.add(name)
        return known

    def _fit(self, value: ir.Expr, wanted: ir.Type | None, node: ast.AST) -> ir.Expr:
        """The value as the type of its target."""
        if value.type == wanted:
            return value
        if wanted == ir.F64 and value.type == ir.I64:
            return ir.as_float(value)
        _refuse(node, f"a {value.type} where a {wanted} is wanted")

    def loop(self, node: ast.For, name: str, args: list[ast.expr]) -> ir.Statement:
        bounds = [self._fit(self.value(each), ir.I64, each) for each in args]
        start, stop = (ir.Number(0, ir.I64), bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
        step = bounds[2] if len(bounds) == 3 else ir.Number(1, ir.I64)
        step = (
            ir.Number(-step.a.value, ir.I64) if isinstance(step, ir.Unary) and isinstance(step.a, ir.Number) else step
        )
        if not isinstance(step, ir.Number) or not step.value:
            _refuse(node, "a step that is not a number")
        before = self.set.copy()
        variable = self._kept(node, name, ir.I64)
        self.loops.add(name)
        body = self.block(node.body)
        self.loops.discard(name)
        self.set = before
        return ir.For(variable, start, stop, int(step.value), body)

    def returned(self, node: ast.Return, value: ast.expr | None) -> ir.Return:
        match self.signature.result, value:
            case None, None:
                return ir.Return()
            case ir.Array(shape=(n,)) as kind, ast.Tuple(elts=values) if len(values) == n:
                return ir.Return(tuple(self._fit(self.value(each), kind.element, each) for each in values))
            case ir.Scalar() as kind, ast.expr():
                return ir.Return((self._fit(self.value(value), kind, value),))
        _refuse(node, "the result")

    # expressions

    def value(self, node: ast.expr) -> ir.Expr:
        match node:
            case ast.Constant(value=bool(value)):
                return ir.Number(value, ir.BOOL)
            case ast.Constant(value=float(value)) if isfinite(value):
                return ir.Number(value, ir.F64)
            case ast.Constant(value=int(value)):
                return ir.Number(value, ir.I64)
            case ast.Name() | ast.Attribute() if (name := _name(node)) in self.locals:
                if name not in self.set:
                    _refuse(node, f"{name}, which may have no value here,")
                return self.locals[name]
            case ast.Name(id=name) if name in self.module.constants:
                return ir.Number(self.module.constants[name], ir.I64)
            case ast.Subscript():
                return self.element(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                a = self.value(operand)
                if isinstance(a, ir.Number) and a.type != ir.BOOL:
                    return ir.Number(-a.value, a.type)
                if a.type in (ir.F64, ir.I64):
                    assert isinstance(a.type, ir.Scalar)
                    return ir.Unary("-", a, a.type)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ir.Unary("not", self.truth(operand), ir.BOOL)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(node, self.value(left), op, self.value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                a, b = self._alike(node, self.value(left), self.value(right))
                return ir.Compare(_COMPARISONS[type(op)], a, b)
            case ast.BoolOp(op=op, values=values):
                word = "and" if isinstance(op, ast.And) else "or"
                fixed = self.fixed(node)
                if fixed is not None:
                    return ir.Number(fixed, ir.BOOL)
                first, *others = [each for each in values if self.fixed(each) is None]
                result = self.truth(first)
                for each in others:
                    result = ir.Logical(word, result, self.truth(each))
                return result
            case ast.IfExp(test=test, body=body, orelse=other):
                fixed = self.fixed(test)
                if fixed is not None:
                    return self.value(body if fixed else other)
                a, b = self._alike(node, self.value(body), self.value(other))
                assert isinstance(a.type, ir.Scalar)
                return ir.Choice(self.truth(test), a, b, a.type)
            case ast.Call():
                return self.call(node)
        _refuse(node, "the expression")

    def truth(self, node: ast.expr) -> ir.Expr:
        """A condition: a boolean, or whether an integer is not 0."""
        value = self.value(node)
        if value.type == ir.BOOL:
            return value
        if value.type == ir.I64:
            return ir.Compare("!=", value, ir.Number(0, ir.I64))
        _refuse(node, "a condition that is not a comparison")

    def _alike(self, node: ast.AST, a: ir.Expr, b: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """Two numbers as one type."""
        if a.type == b.type and a.type in (ir.F64, ir.I64):
            return a, b
        if {a.type, b.type} == {ir.F64, ir.I64}:
            return ir.as_float(a), ir.as_float(b)
        _refuse(node, f"{a.type} and {b.type} together")

    def binary(self, node: ast.AST, a: ir.Expr, op: ast.operator, b: ir.Expr) -> ir.Expr:
        word = _ARITHMETIC.get(type(op))
        if word is None:
            _refuse(node, "the operator")
        a, b = self._alike(node, a, b)
        if word in ("/", "**"):
            return ir.Binary(word, ir.as_float(a), ir.as_float(b), ir.F64)
        if word in ("//", "%") and a.type != ir.I64:
            _refuse(node, f"{word} of floats")
        assert isinstance(a.type, ir.Scalar)
        return ir.Binary(word, a, b, a.type)

    def element(self, node: ast.Subscript) -> ir.Expr:
        """An element of an array, or a row of an array with two indices or three."""
        array = self.locals.get(_name(node.value))
        if array is None or not isinstance(array.type, ir.Array):
            _refuse(node, "what is not an element of an array")
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        indices = tuple(self._index(each, n) for each, n in zip(nodes, array.type.shape, strict=False))
        if len(nodes) == len(array.type.shape):
            return ir.Element(array, indices, array.type.element)
        if len(nodes) == 1 and len(array.type.shape) > 1:
            return ir.Row(array, indices[0], ir.Array(array.type.element, array.type.shape[1:]))
        _refuse(node, f"so many indices of {array.type}")

    def _index(self, node: ast.expr, length: int | None) -> ir.Expr:
        index = self.value(node)
        if index.type != ir.I64:
            _refuse(node, "an index that is not a whole number")
        if isinstance(index, ir.Number) and not (index.value >= 0 and (length is None or index.value < length)):
            _refuse(node, f"an index outside of 0 to {length}")
        return index

    def call(self, node: ast.Call) -> ir.Expr:
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[of], keywords=[]) if (name := _name(of)) in self.locals:
                kind = self.locals[name].type
                if isinstance(kind, ir.Array) and kind.shape[0] is not None:
                    return ir.Number(kind.shape[0], ir.I64)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                signature = self.module.names.get(name)
                if signature is not None:
                    return self._called(node, signature, args)
                if name in _SHARED and len(args) == 2:
                    return self._shared(node, _SHARED[name], *map(self.value, args))
                values = tuple(map(self.value, args))
                if name in ("min", "max") and len(values) > 1:
                    return self._extreme(node, name, values)
                if ir.MATH.get(name) == len(values):
                    floats = tuple(self._fit(each, ir.F64, node) for each in values)
                    return ir.Math(name, floats, ir.BOOL if name == "isfinite" else ir.F64)
        _refuse(node, "the call")

    def _shared(self, node: ast.Call, op: str, element: ir.Expr, value: ir.Expr) -> ir.Expr:
        if not isinstance(element, ir.Element) or (element.type, value.type) != (ir.I64, ir.I64):
            _refuse(node, "what threads share that is not a whole number of an array")
        return ir.Shared(op, element, value)

    def _extreme(self, node: ast.Call, name: str, values: Sequence[ir.Expr]) -> ir.Expr:
        result = values[0]
        for each in values[1:]:
            a, b = self._alike(node, result, each)
            assert isinstance(a.type, ir.Scalar)
            result = ir.Extreme(name, a, b, a.type)
        return result

    def _called(self, node: ast.Call, signature: ir.Signature, args: list[ast.expr]) -> ir.Called:
        given: list[tuple[ast.expr, ir.Expr, str]] = []  # with the name of the field
        for each in args:
            fields = self.records.get(each.id, ()) if isinstance(each, ast.Name) else ()
            given += [(each, of, of.name.partition(".")[2]) for of in fields] or [(each, self.value(each), "")]
        if len(given) != len(signature.arguments):
            _refuse(node, f"a call with {len(given)} instead of {len(signature.arguments)} arguments")
        for (each, _, field), to in zip(given, signature.arguments, strict=True):
            if field != to.name.partition(".")[2]:
                _refuse(each, f"an argument where {to.name} is wanted")
        values = (self._argument(*each[:2], to.type) for each, to in zip(given, signature.arguments, strict=True))
        return ir.Called(signature, tuple(values), signature.result)

    def _argument(self, node: ast.expr, value: ir.Expr, wanted: ir.Type) -> ir.Expr:
        if isinstance(wanted, ir.Array) and isinstance(value.type, ir.Array):
            given = value.type
            open_first = ir.Array(given.element, (None, *given.shape[1:]))
            if given == wanted or open_first == wanted:
                return value
        return self._fit(value, wanted, node)


def _name(node: ast.expr) -> str:
    """The name of a local variable or of a record's field, else nothing."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=record), attr=name):
            return f"{record}.{name}"
    return ""


def _ends(body: tuple[ir.Statement, ...]) -> bool:
    """Whether control never reaches the end of a body."""
    match body[-1:]:
        case (ir.Return(),) | (ir.While(test=ir.Number(value=True)),):
            return True
        case (ir.If(body=first, other=second),):
            return _ends(first) and _ends(second)
    return False


def _loaded(target: ast.expr) -> ast.expr:
    """The target of an augmented assignment as an expression."""
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(id=name, ctx=ast.Load()), target)
        case ast.Subscript(value=value, slice=index):
            return ast.copy_location(ast.Subscript(value=value, slice=index, ctx=ast.Load()), target)
    _refuse(target, "the assignment to")
