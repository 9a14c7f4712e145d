"""Generated kernels in C99: the Python text that numba compiles, translated function by function.

One generator, two languages. The order of operations and the parentheses are kept, so C that is compiled without
contraction and without -ffast-math has the same bits as the kernel wherever both call the same libm. What differs:
`floor` gives numba a whole number of 64 bits and C a double, so `wrap` of angles beyond 5e19 rad or of infinity
does; and LLVM takes exp2(x) for pow(2, x).

Every array has its shape at translation: arrays of two and three indices become flat ones, indices that are numbers
are checked, and a function that is called with two shapes becomes two functions. What is outside the subset of the
generators is refused, never guessed.
"""

import ast
import textwrap
from collections.abc import Mapping, Sequence

from servonode.export.c_expression import BINARY, SUM, Emitted, Expressions, lengths, stated_whole
from servonode.export.c_locals import Declarations, assigned, c_names, drop_unread, returns
from servonode.export.c_text import (
    GLUE,
    RESERVED,
    WIDTH,
    Array,
    Kind,
    Shape,
    TranslationError,
    c_type,
    comment,
    declared,
    fresh,
    refusal,
    shown,
    wrapped,
)


def translate(source: str, entry: str, shapes: Mapping[str, Shape], rename: Mapping[str, str] | None = None) -> str:
    """C99 text of the function `entry` of a generated module and of all it calls, callees first, all static.

    `shapes` gives the shape of each array parameter of the entry; `rename` the C names of functions (and of `min`
    and `max`) that are not to keep their own. A result that is a tuple is written to a last parameter. The text needs
    math.h.

    Raises:
        TranslationError: the entry is missing, a shape is missing, or a construct has no C text here.
    """
    module = _Module(source, rename or {})
    node = module.definition(entry)
    missing = [a.arg for a, kind in zip(node.args.args, module.types[entry][1], strict=True)
               if kind not in ("double", "int") and a.arg not in shapes]  # fmt: skip
    if missing:
        raise TranslationError(f"the array {missing[0]} of {entry} has no shape; state it in shapes")
    module.function(entry, tuple(shapes.get(a.arg) for a in node.args.args))
    return "\n\n".join(module.texts) + "\n"


def function_names(source: str) -> set[str]:
    """The names of the functions that a generated module defines, and of those that C needs beside them."""
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)} | {"min", "max"}


class _Module:
    """The functions of a generated module, translated as they are called."""

    def __init__(self, source: str, rename: Mapping[str, str]) -> None:
        self.rename = rename
        self.texts: list[str] = []
        self._nodes = {each.name: each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)}
        self.types = {name: _signature(node) for name, node in self._nodes.items()}
        self._done: dict[tuple[str, tuple[Shape | None, ...]], Emitted | None] = {}
        for node in self._nodes.values():
            drop_unread(node, self._nodes)

    def definition(self, name: str) -> ast.FunctionDef:
        """The Python text of a function."""
        if name not in self._nodes:
            raise TranslationError(f"the kernel has no function {name}; choose {', '.join(self._nodes)}")
        return self._nodes[name]

    def function(self, name: str, shapes: tuple[Shape | None, ...]) -> Emitted:
        """The translation of a function for arrays of these shapes, made at the first call."""
        key = (name, shapes)
        if key not in self._done:
            self._done[key] = None  # under way
            body = _Function(self, self.definition(name), self._c_name(name), shapes)
            self.texts.append(body.text())
            self._done[key] = body.emitted()
        emitted = self._done[key]
        if emitted is None:
            raise refusal(self.definition(name), f"the recursion of {name}")
        return emitted

    def extreme(self, name: str) -> str:
        """The C name of Python's min or max of two doubles: the first of equals, and NaN as Python has it."""
        c_name, sign = self.rename.get(name, name), "<" if name == "min" else ">"
        text = f"static double {c_name}(double a, double b)\n{{\n    return b {sign} a ? b : a;\n}}"
        if text not in self.texts:
            self.texts.append(text)
        return c_name

    def _c_name(self, name: str) -> str:
        """A name that no other function has; those of one name for other shapes are numbered."""
        count = sum(each == name for each, _ in self._done)
        c_name = self.rename.get(name, name) + (f"_{count}" if count > 1 else "")
        others = {self.rename.get(each, each) for each in {*self._nodes, "min", "max"} - {name}}
        return fresh(f"{c_name}_" if c_name in RESERVED else c_name, others)


def _signature(node: ast.FunctionDef) -> tuple[Kind, tuple[Kind | int, ...]]:
    """Result and parameters of a decorated function; an array parameter as its number of indices."""
    match node.decorator_list:
        case [ast.Call(args=[ast.Constant(value=str(text))])]:
            call = ast.parse(text, mode="eval").body
        case _:
            raise refusal(node, f"{node.name} without a signature")
    plain = ast.arguments(posonlyargs=[], args=node.args.args, kwonlyargs=[], kw_defaults=[], defaults=[])
    if not isinstance(call, ast.Call) or ast.dump(plain) != ast.dump(node.args) or len(call.args) != len(plain.args):
        raise refusal(node, f"the signature of {node.name}")
    match call.func:
        case ast.Name(id=word):
            result: Kind = {"f8": "double", "i8": "int", "b1": "truth", "void": "void"}.get(word, "")
        case ast.Call(func=ast.Name(id="UniTuple"), args=[ast.Name(id="f8"), ast.Constant(value=int(n))]):
            result = Array((n,))
        case _:
            result = ""
    if not result:
        raise refusal(node, f"the result of {node.name}")
    return result, tuple(_parameter(node, each) for each in call.args)


def _parameter(node: ast.FunctionDef, given: ast.expr) -> Kind | int:
    match given:
        case ast.Name(id="f8"):
            return "double"
        case ast.Name(id="i8"):
            return "int"
        case ast.Subscript(value=ast.Name(id="f8"), slice=ast.Slice()):
            return 1
        case ast.Subscript(value=ast.Name(id="f8"), slice=ast.Tuple(elts=slices)):
            return len(slices)
    raise refusal(node, f"the parameter {ast.unparse(given)} of {node.name}")


class _Function(Expressions):
    """One function on its way to C."""

    def __init__(self, module: _Module, node: ast.FunctionDef, c_name: str, shapes: tuple[Shape | None, ...]) -> None:
        self.node, self.c_name = node, c_name
        self.result, parameters = module.types[node.name]
        self.argument_names = [each.arg for each in node.args.args]
        self.parameters = tuple(map(self._parameter_kind, self.argument_names, parameters, shapes))
        self.declarations = Declarations(node)
        kinds = dict(zip(self.argument_names, self.parameters, strict=True))
        super().__init__(module, c_names(node), kinds, self.declarations.loop_names)
        self.out = fresh("out", self.names.values())
        self.lines: list[str] = []
        self._depth = 1
        self._block(node.body)
        if self.result != "void" and not returns(node.body):
            raise refusal(node, f"{node.name}, which may end without a result,")

    def _parameter_kind(self, name: str, kind: Kind | int, shape: Shape | None) -> Kind:
        if not isinstance(kind, int):
            return kind
        if shape is None or len(shape) != kind:
            raise TranslationError(
                f"the array {name} of {self.node.name} has {kind} indices and the shape {shape}; give it {kind} lengths"
            )
        return Array(shape)

    def emitted(self) -> Emitted:
        """How the function is called."""
        writes = frozenset(i for i, name in enumerate(self.argument_names) if name in self.written)
        return Emitted(self.c_name, self.parameters, self.result, writes)

    def text(self) -> str:
        """The C text of the function."""
        described = ast.get_docstring(self.node)
        flat = [f"{self.names[name]} is {' x '.join(map(str, kind.shape))}, row by row" for name, kind in
                zip(self.argument_names, self.parameters, strict=True)
                if isinstance(kind, Array) and len(kind.shape) > 1]  # fmt: skip
        notes = "; ".join([*([described.rstrip(".")] if described else []), *flat])
        head = textwrap.wrap(f"/* {comment(notes)}. */", WIDTH, subsequent_indent=" * ") if notes else []
        head += wrapped(f"static {self._c_result()} {self.c_name}({self._c_parameters()})")
        read = {each.id for each in ast.walk(self.node) if isinstance(each, ast.Name)}
        unread = [f"    (void){self.names[name]};" for name in self.argument_names if name not in read]
        return "\n".join([*head, "{", *unread, *self._finished_lines(), "}"])

    def _c_result(self) -> str:
        return "void" if isinstance(self.result, Array) else c_type(self.result)

    def _c_parameters(self) -> str:
        texts = [
            declared(self.names[name], kind, constant=isinstance(kind, Array) and name not in self.written)
            for name, kind in zip(self.argument_names, self.parameters, strict=True)
        ]
        texts += [declared(self.out, self.result)] if isinstance(self.result, Array) else []
        return ", ".join(text.replace(" ", GLUE) for text in texts) or "void"

    def _finished_lines(self) -> list[str]:
        """The lines with the declarations, whose types are known now, in place of their marks."""
        lines: list[str] = []
        for line in self.lines:
            mark, _, name = line.partition("@")
            if name:
                line = f"{mark}{declared(self.names[name], self.kinds[name])};"
            lines += wrapped(line)
        return lines

    def _line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    # statements

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            for name in self.declarations.before.get(statement, ()):
                self._line(f"@{name}")
            self._statement(statement)

    def _inner(self, body: Sequence[ast.stmt]) -> None:
        self._depth += 1
        self._block(body)
        self._depth -= 1

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Expr(value=ast.Call() as call):
                self._line(f"{self.statement_call(call)};")
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                self._assign_together(statement, targets, values)
            case ast.Assign(targets=[ast.Name() as target], value=value):
                self._assign_name(statement, target, value)
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                text = self.number(value, whole=True).text
                self._line(f"{self.element(target, stored=True).text} = {text};")
            case ast.AugAssign(target=target, op=op, value=value):
                self._augment(statement, target, op, value)
            case ast.For():
                self._for(statement)
            case ast.If():
                self._if(statement, "if")
            case ast.Return():
                self._return(statement)
            case _:
                raise refusal(statement, f"the statement {shown(statement)}")

    def _assign_name(self, statement: ast.stmt, target: ast.Name, value: ast.expr) -> None:
        match value:
            case ast.Call(func=ast.Name(id="empty"), args=[shape], keywords=[]):
                self._assign_array(statement, target, Array(lengths(shape)))
                return
            case ast.Call(func=ast.Name(id=name)) if isinstance(self.result_of(name), Array):
                result = self.result_of(name)
                assert isinstance(result, Array)
                self.called_name(value)
                if any(isinstance(each, ast.Name) and each.id == target.id for each in value.args):
                    raise refusal(statement, f"{shown(statement)}, which reads what it fills,")
                filled = self.call(value, result_in=self.names[target.id])
                self._assign_array(statement, target, result)
                self._line(f"{filled};")
                return
        text = self.value(value, whole=True)
        self._keep_kind(target, text.kind)
        name = self.names[target.id]
        if (target.id, statement) in self.declarations.with_value:
            name = declared(name, text.kind, constant=target.id in self.declarations.constant)
        self._line(f"{name} = {text.text};")

    def _assign_array(self, statement: ast.stmt, target: ast.Name, kind: Array) -> None:
        self._keep_kind(target, kind)
        self.written.add(target.id)
        if (target.id, statement) in self.declarations.with_value:
            self._line(f"{declared(self.names[target.id], kind)};")

    def _keep_kind(self, target: ast.Name, kind: Kind) -> None:
        """A name has one type for good, and neither parameters that are arrays nor loop variables are assigned."""
        if target.id in self.loop_names:
            raise refusal(target, f"an assignment to the loop variable {target.id}")
        if self.kinds.setdefault(target.id, kind) != kind:
            raise refusal(target, f"the name {target.id} with two types, {self.kinds[target.id]} and {kind},")
        if isinstance(kind, Array) and target.id in self.argument_names:
            raise refusal(target, f"an assignment to the array parameter {target.id}")

    def _assign_together(self, statement: ast.stmt, targets: list[ast.expr], values: list[ast.expr]) -> None:
        """All values first, then the targets from left to right, as Python does."""
        if len(targets) != len(values):
            raise refusal(statement, f"the statement {shown(statement)}")
        texts = [self.value(value) for value in values]
        held = [fresh(f"value{i}", self.names.values()) for i in range(len(texts))]
        self._line("{")
        for name, text in zip(held, texts, strict=True):
            self._line(f"    {declared(name, text.kind, constant=True)} = {text.text};")
        for target, name, text in zip(targets, held, texts, strict=True):
            if isinstance(target, ast.Name):
                self._keep_kind(target, text.kind)
            self._line(f"    {self.target(target).text} = {name};")
        self._line("}")

    def _augment(self, statement: ast.stmt, target: ast.expr, op: ast.operator, value: ast.expr) -> None:
        if type(op) not in BINARY:
            raise refusal(statement, f"the statement {shown(statement)}")
        left, right = self.target(target), self.number(value)
        if left.kind == "int" and (right.kind != "int" or not isinstance(op, ast.Add | ast.Sub)):
            raise refusal(statement, f"the arithmetic of whole numbers {shown(statement)}")
        self._line(f"{left.text} {BINARY[type(op)][0].strip()}= {right.text};")

    def _for(self, loop: ast.For) -> None:
        match loop:
            case ast.For(
                target=ast.Name(id=variable),
                iter=ast.Call(func=ast.Name(id="range"), args=[*bounds], keywords=[]),
                orelse=[],
            ) if 1 <= len(bounds) <= 3:
                pass
            case _:
                raise refusal(loop, f"the loop {shown(loop)}")
        step = stated_whole(bounds[2]) if len(bounds) == 3 else 1
        if not step:
            raise refusal(loop, f"the step of {shown(loop)}")
        first, last = ("0", bounds[0]) if len(bounds) == 1 else (self.whole_number(bounds[0]).text, bounds[1])
        moving = {each.id for each in ast.walk(last) if isinstance(each, ast.Name)} & set(assigned([loop]))
        if moving or variable in self.loops or variable in self.argument_names:
            raise refusal(loop, f"a loop whose bound or variable changes inside, {shown(loop)},")
        end, name = self.whole_number(last).within(SUM), self.names[variable]
        change = {1: f"{name}++", -1: f"{name}--"}.get(step, f"{name} += {step}")
        self._line(f"for (int {name} = {first}; {name} {'<' if step > 0 else '>'} {end}; {change}) {{")
        self.kinds[variable] = "int"
        self.loops.append(variable)
        self._inner(loop.body)
        self.loops.pop()
        self._line("}")

    def _if(self, branch: ast.If, word: str) -> None:
        self._line(f"{word} ({self.condition(branch.test).text}) {{")
        self._inner(branch.body)
        match branch.orelse:
            case []:
                self._line("}")
            case [ast.If() as other]:
                self._if(other, "} else if")
            case other_body:
                self._line("} else {")
                self._inner(other_body)
                self._line("}")

    def _return(self, statement: ast.Return) -> None:
        match self.result, statement.value:
            case Array(shape=(n,)), ast.Tuple(elts=values) if len(values) == n:
                texts = [self.number(value).text for value in values]
                for i, text in enumerate(texts):
                    self._line(f"{self.out}[{i}] = {text};")
                if statement is not self.node.body[-1]:
                    self._line("return;")
            case "void", None:
                self._line("return;")
            case ("double" | "int" | "truth") as kind, ast.expr() as value:
                given = self.value(value, whole=True)
                if given.kind != kind and (given.kind, kind) != ("int", "double"):
                    raise refusal(statement, f"a result of type {given.kind} from {self.node.name}")
                self._line(f"return {given.text};")
            case _:
                raise refusal(statement, f"the statement {shown(statement)}")
