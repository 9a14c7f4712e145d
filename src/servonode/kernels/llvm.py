"""Kernels as LLVM IR.

Operations are IEEE double without any of LLVM's fast-math flags, so nothing is contracted or reassociated. Scalars are
passed by value, arrays by address; a result that is an array is written to a last argument. Locals that are assigned
once are values, others live on the stack, from where LLVM takes them into registers.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Mapping

from servonode.kernels import ir
from servonode.kernels.contents import ENTRY, NUMBERS

_TYPES: dict[ir.Type | None, str] = {ir.F64: "double", ir.I64: "i64", ir.BOOL: "i1", None: "void"}
_FLOATS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_WHOLES = {"+": "add", "-": "sub", "*": "mul"}
_FLOAT_TESTS = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}
_WHOLE_TESTS = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
_INTRINSICS = {name: f"llvm.{name}.f64" for name in ("fabs", "floor", "rint", "sqrt", "sin", "cos", "exp", "log")}


def llvm_text(
    module: ir.Module, numbers: list[float] | None = None, entries: Mapping[str, ir.Signature] | None = None
) -> str:
    """LLVM IR of a module: each function under its name, and under `entry.NAME` for calls with a list of slots.

    entries: the functions that have an entry, by its name; None: the module's own.

    An entry takes the address of slots of 8 bytes, one an argument (f64, i64, or an address), and returns what the
    function returns as 8 bytes; a result that is an array goes to the address in one slot more.

    With a list of `numbers` all floating-point literals are appended to it, and the IR reads them from the array
    NUMBERS, which is to be filled with them: the operations are the same whatever the numbers are. Exponents stay in
    the IR, because a power with another exponent may be another operation.
    """
    used: set[str] = set()
    bodies = [_Emitter(each, used, numbers).text() for each in module.functions.values()]
    known = {each.signature.name: each.signature for each in module.own} if entries is None else entries
    table = [_table(len(numbers))] if numbers else []
    listed = [_entry(name, signature) for name, signature in known.items()]
    return "\n\n".join([*sorted(used), *table, *bodies, *listed, _ATTRIBUTES]) + "\n"


def _table(n: int) -> str:
    """The array NUMBERS, which for LLVM others may change, but not while the code runs."""
    return f"@{NUMBERS} = dso_local global [{n} x i64] [{', '.join(['i64 -1'] * n)}], align 8\n!0 = !{{}}"


_ATTRIBUTES = "attributes #0 = { nounwind }\nattributes #1 = { nounwind willreturn memory(none) }"


def _llvm_type(kind: ir.Type | None) -> str:
    return "ptr" if isinstance(kind, ir.Array) else _TYPES[kind]


def _result_type(signature: ir.Signature) -> str:
    return "void" if isinstance(signature.result, ir.Array) else _TYPES[signature.result]


def _parameters(signature: ir.Signature) -> list[str]:
    types = [_llvm_type(each.type) for each in signature.arguments]
    return [*types, "ptr"] if isinstance(signature.result, ir.Array) else types


def _entry(name: str, signature: ir.Signature) -> str:
    """The entry of a function, for calls from Python."""
    lines, given = [], []
    for i, kind in enumerate(_parameters(signature)):
        lines.append(f"  %p{i} = getelementptr inbounds i64, ptr %slots, i64 {i}")
        lines.append(f"  %a{i} = load {'i64' if kind == 'i1' else kind}, ptr %p{i}, align 8")
        if kind == "i1":
            lines.append(f"  %t{i} = icmp ne i64 %a{i}, 0")
        given.append(f"{kind} %{'t' if kind == 'i1' else 'a'}{i}")
    result = _result_type(signature)
    call = f'call {result} @"{signature.symbol}"({", ".join(given)})'
    lines.append(f"  {call}" if result == "void" else f"  %r = {call}")
    final = {"void": "0", "i64": "%r", "double": "%bits", "i1": "%bits"}[result]
    lines += {"double": ["  %bits = bitcast double %r to i64"], "i1": ["  %bits = zext i1 %r to i64"]}.get(result, [])
    return "\n".join([f'define i64 @"{ENTRY}{name}"(ptr %slots) #0 {{', *lines, f"  ret i64 {final}", "}"])


def _number(value: ir.Number) -> str:
    if value.type == ir.F64:
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(value.value)))[0]:016X}"
    return str(int(value.value)) if value.type == ir.I64 else str(bool(value.value)).lower()


class _Emitter:
    """LLVM IR of one function. `used` collects the declarations that it needs.

    It has a method for each kind of statement and expression, hence so many.
    """

    def __init__(self, function: ir.Function, used: set[str], numbers: list[float] | None) -> None:
        self.function, self.used, self.numbers = function, used, numbers
        self.head: list[str] = []  # allocations on the stack, in the entry block
        self.lines: list[str] = []
        self._count = 0
        self._block = "begin"  # the block that is being written
        self._ended = False  # whether a return has ended this block
        self._values: dict[str, str] = {}
        self._places: dict[str, str] = {}
        for each in function.signature.arguments:
            self._values[each.name] = f"%{each.name}.a"
        once = self._assigned_once()
        for name, local in {each.name: each for each in self._targets()}.items():
            if isinstance(local.type, ir.Array):
                self._values[name] = self._stack(name, f"[{_size(local.type)} x {_llvm_type(local.type.element)}]")
            elif name not in once:
                self._places[name] = self._stack(name, _TYPES[local.type])
        for each in function.signature.arguments:
            if each.name in self._places:
                self.head.append(f"  store {_llvm_type(each.type)} %{each.name}.a, ptr {self._places[each.name]}")

    def _targets(self) -> list[ir.Local]:
        return [target for each in ir.walk(self.function.body) for target in ir.assigned(each)]

    def _assigned_once(self) -> set[str]:
        """Scalars whose only assignment is a statement of the function's own block: they have one value everywhere."""
        counts = Counter(each.name for each in self._targets())
        arguments = {each.name for each in self.function.signature.arguments}
        top = {each.target.name for each in self.function.body if isinstance(each, ir.Let)}
        return {name for name in top if counts[name] == 1 and name not in arguments}

    def _stack(self, name: str, kind: str) -> str:
        self.head.append(f"  %{name}.s = alloca {kind}, align 8")
        return f"%{name}.s"

    def text(self) -> str:
        signature = self.function.signature
        arguments = [f"{_llvm_type(each.type)} %{each.name}.a" for each in signature.arguments]
        if isinstance(signature.result, ir.Array):
            arguments.append("ptr %result.a")
        self._body(self.function.body)
        if not self._ended:
            self._line("ret void" if _result_type(signature) == "void" else "unreachable")
        first = f'define internal {_result_type(signature)} @"{signature.symbol}"({", ".join(arguments)}) #0 {{'
        return "\n".join([first, "begin:", *self.head, *self.lines, "}"])

    # lines

    def _line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def _new(self, text: str) -> str:
        self._count += 1
        self.lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def _labels(self, *words: str) -> list[str]:
        self._count += 1
        return [f"{word}{self._count}" for word in words]

    def _begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self._block, self._ended = label, False

    def _go(self, label: str) -> None:
        if not self._ended:
            self._line(f"br label %{label}")

    def _branch(self, test: ir.Expr, yes: str, no: str) -> None:
        self._line(f"br i1 {self.value(test)}, label %{yes}, label %{no}")

    # statements

    def _body(self, body: Iterable[ir.Statement]) -> None:
        for each in body:
            if self._ended:  # nothing after a return is reached
                break
            self._statement(each)

    def _statement(self, each: ir.Statement) -> None:
        match each:
            case ir.Let(target, ir.Called() as value) if isinstance(target.type, ir.Array):
                self._call(value, self._values[target.name])
            case ir.Let(target, value):
                self._keep(target, self.value(value))
            case ir.Store(target, value):
                found = self.value(value)
                self._line(f"store {_TYPES[target.type]} {found}, ptr {self._address(target)}, align 8")
            case ir.Together(targets, values):
                found_all = [self.value(value) for value in values]
                for target, found in zip(targets, found_all, strict=True):
                    if isinstance(target, ir.Local):
                        self._keep(target, found)
                    else:
                        self._line(f"store {_TYPES[target.type]} {found}, ptr {self._address(target)}, align 8")
            case ir.Do(call):
                self._call(call)
            case ir.If():
                self._if(each)
            case ir.For():
                self._for(each)
            case ir.While(test, body):
                top, inner, end = self._labels("while", "do", "end")
                self._go(top)
                self._begin(top)
                self._branch(test, inner, end)
                self._begin(inner)
                self._body(body)
                self._go(top)
                self._begin(end)
            case ir.Return(values):
                self._return(values)

    def _keep(self, target: ir.Local, value: str) -> None:
        if target.name in self._places:
            self._line(f"store {_TYPES[target.type]} {value}, ptr {self._places[target.name]}, align 8")
        else:
            self._values[target.name] = value

    def _if(self, each: ir.If) -> None:
        yes, no, end = self._labels("then", "else", "end")
        self._branch(each.test, yes, no if each.other else end)
        returned = True
        for label, body in ((yes, each.body), (no, each.other)):
            if label == no and not body:
                returned = False
                continue
            self._begin(label)
            self._body(body)
            returned = returned and self._ended
            self._go(end)
        if returned:
            self._ended = True
        else:
            self._begin(end)

    def _for(self, each: ir.For) -> None:
        start, stop = self.value(each.start), self.value(each.stop)
        self._labels()
        counter = self._stack(f"{each.variable.name}.{self._count}", "i64")
        top, inner, end = self._labels("for", "do", "end")
        self._line(f"store i64 {start}, ptr {counter}, align 8")
        self._go(top)
        self._begin(top)
        at = self._new(f"load i64, ptr {counter}, align 8")
        test = self._new(f"icmp {'slt' if each.step > 0 else 'sgt'} i64 {at}, {stop}")
        self._line(f"br i1 {test}, label %{inner}, label %{end}")
        self._begin(inner)
        self._keep(each.variable, at)
        self._body(each.body)
        if not self._ended:
            following = self._new(f"add i64 {at}, {each.step}")
            self._line(f"store i64 {following}, ptr {counter}, align 8")
        self._go(top)
        self._begin(end)

    def _return(self, values: tuple[ir.Expr, ...]) -> None:
        result = self.function.signature.result
        if isinstance(result, ir.Array):
            found = [self.value(each) for each in values]
            for i, value in enumerate(found):
                place = self._new(f"getelementptr inbounds {_TYPES[result.element]}, ptr %result.a, i64 {i}")
                self._line(f"store {_TYPES[result.element]} {value}, ptr {place}, align 8")
            self._line("ret void")
        elif values:
            self._line(f"ret {_TYPES[result]} {self.value(values[0])}")
        else:
            self._line("ret void")
        self._ended = True

    # expressions

    def value(self, each: ir.Expr) -> str:
        match each:
            case ir.Number():
                return _number(each) if each.type != ir.F64 or self.numbers is None else self._entry_of(each)
            case ir.Local(name, kind):
                if name in self._places:
                    return self._new(f"load {_llvm_type(kind)}, ptr {self._places[name]}, align 8")
                return self._values[name]
            case ir.Element(_, _, kind):
                return self._new(f"load {_TYPES[kind]}, ptr {self._address(each)}, align 8")
            case ir.Row():
                return self._address(each.first)
            case ir.Unary("-", a, kind):
                a_value = self.value(a)
                return self._new(f"fneg double {a_value}" if kind == ir.F64 else f"sub i64 0, {a_value}")
            case ir.Unary("not", a, _):
                return self._new(f"xor i1 {self.value(a)}, true")
            case ir.Binary():
                return self._binary(each)
            case ir.Compare(op, a, b):
                left, right = self.value(a), self.value(b)
                test = f"fcmp {_FLOAT_TESTS[op]} double" if a.type == ir.F64 else f"icmp {_WHOLE_TESTS[op]} i64"
                return self._new(f"{test} {left}, {right}")
            case ir.Logical(op, a, b):
                fixed = ir.Number(op == "or", ir.BOOL)
                return self._lazily(a, fixed, b) if op == "or" else self._lazily(a, b, fixed)
            case ir.Choice(test, a, b, _):
                return self._lazily(test, a, b)
            case ir.Convert(a, _):
                return self._new(f"sitofp i64 {self.value(a)} to double")
            case ir.Math():
                return self._math(each)
            case ir.Extreme(name, a, b, kind):
                left, right = self.value(a), self.value(b)
                op = "<" if name == "min" else ">"
                test = f"fcmp {_FLOAT_TESTS[op]} double" if kind == ir.F64 else f"icmp {_WHOLE_TESTS[op]} i64"
                chosen = self._new(f"{test} {right}, {left}")
                return self._new(f"select i1 {chosen}, {_TYPES[kind]} {right}, {_TYPES[kind]} {left}")
            case ir.Shared(op, element, value, _):
                return self._new(f"atomicrmw {op} ptr {self._address(element)}, i64 {self.value(value)} seq_cst")
            case ir.Called():
                return self._call(each)
        raise AssertionError(each)

    def _entry_of(self, literal: ir.Number) -> str:
        """A literal, read from the next entry of NUMBERS."""
        assert self.numbers is not None
        self.numbers.append(float(literal.value))
        at = f"getelementptr inbounds (double, ptr @{NUMBERS}, i64 {len(self.numbers) - 1})"
        return self._new(f"load double, ptr {at}, align 8, !invariant.load !0")

    def _binary(self, each: ir.Binary) -> str:
        power = each.op == "**" and isinstance(each.b, ir.Number)
        a, b = self.value(each.a), _number(each.b) if power and isinstance(each.b, ir.Number) else self.value(each.b)
        if each.op == "**":
            self.used.add("declare double @llvm.pow.f64(double, double) #1")
            return self._new(f"call double @llvm.pow.f64(double {a}, double {b})")
        if each.type == ir.F64:
            return self._new(f"{_FLOATS[each.op]} double {a}, {b}")
        if each.op in _WHOLES:
            return self._new(f"{_WHOLES[each.op]} i64 {a}, {b}")
        rest = self._new(f"srem i64 {a}, {b}")  # has the sign of the dividend; Python's has that of the divisor
        mixed = self._new(f"xor i64 {rest}, {b}")
        negative, uneven = self._new(f"icmp slt i64 {mixed}, 0"), self._new(f"icmp ne i64 {rest}, 0")
        off = self._new(f"and i1 {negative}, {uneven}")
        if each.op == "%":
            return self._new(f"add i64 {rest}, {self._new(f'select i1 {off}, i64 {b}, i64 0')}")
        quotient = self._new(f"sdiv i64 {a}, {b}")
        return self._new(f"sub i64 {quotient}, {self._new(f'zext i1 {off} to i64')}")

    def _lazily(self, test: ir.Expr, a: ir.Expr, b: ir.Expr) -> str:
        """The value of a where the test holds, else of b; the other is not evaluated."""
        kind = _TYPES[a.type]
        if _is_plain(a) and _is_plain(b):
            condition, left, right = self.value(test), self.value(a), self.value(b)
            return self._new(f"select i1 {condition}, {kind} {left}, {kind} {right}")
        yes, no, end = self._labels("yes", "no", "both")
        self._branch(test, yes, no)
        found = []
        for label, each in ((yes, a), (no, b)):
            self._begin(label)
            value = self.value(each)
            found.append(f"[ {value}, %{self._block} ]")
            self._go(end)
        self._begin(end)
        return self._new(f"phi {kind} {', '.join(found)}")

    def _math(self, each: ir.Math) -> str:
        given = [f"double {self.value(argument)}" for argument in each.arguments]
        if each.name == "isfinite":
            self.used.add("declare double @llvm.fabs.f64(double) #1")
            size = self._new(f"call double @llvm.fabs.f64({given[0]})")
            return self._new(f"fcmp olt double {size}, 0x7FF0000000000000")
        name = _INTRINSICS.get(each.name, each.name)
        self.used.add(f"declare double @{name}({', '.join(['double'] * len(given))}) #1")
        return self._new(f"call double @{name}({', '.join(given)})")

    def _call(self, each: ir.Called, into: str = "") -> str:
        given = [f"{_llvm_type(argument.type)} {self._argument(argument)}" for argument in each.arguments]
        call = f'call {_result_type(each.function)} @"{each.function.symbol}"'
        if isinstance(each.type, ir.Array):
            self._line(f"{call}({', '.join([*given, f'ptr {into}'])})")
            return into
        if each.type is None:
            self._line(f"{call}({', '.join(given)})")
            return ""
        return self._new(f"{call}({', '.join(given)})")

    def _argument(self, each: ir.Expr) -> str:
        return (
            self._values[each.name]
            if isinstance(each, ir.Local) and isinstance(each.type, ir.Array)
            else self.value(each)
        )

    def _address(self, element: ir.Element) -> str:
        """The address of an element."""
        kind = element.array.type
        assert isinstance(kind, ir.Array)
        fixed, place = 0, ""
        for i, index in enumerate(element.indices):
            stride = 1
            for length in kind.shape[i + 1 :]:
                stride *= length or 0
            if isinstance(index, ir.Number):
                fixed += stride * int(index.value)
                continue
            value = self.value(index)
            term = value if stride == 1 else self._new(f"mul i64 {value}, {stride}")
            place = self._new(f"add i64 {place}, {term}") if place else term
        if place and fixed:
            place = self._new(f"add i64 {place}, {fixed}")
        base = self._values[element.array.name]
        return self._new(f"getelementptr inbounds {_TYPES[kind.element]}, ptr {base}, i64 {place or fixed}")


def _size(kind: ir.Array) -> int:
    size = 1
    for length in kind.shape:
        size *= length or 0
    return size


def _is_plain(each: ir.Expr) -> bool:
    """Whether an expression may be evaluated needlessly: arithmetic of numbers and local variables."""
    match each:
        case ir.Number() | ir.Local():
            return True
        case ir.Unary(_, a, _) | ir.Convert(a, _):
            return _is_plain(a)
        case ir.Binary(op, a, b, kind):
            return ((kind == ir.F64 and op != "**") or op in _WHOLES) and _is_plain(a) and _is_plain(b)
        case ir.Compare(_, a, b, _) | ir.Extreme(_, a, b, _):
            return _is_plain(a) and _is_plain(b)
    return False
