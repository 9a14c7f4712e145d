"""Names and local variables in C: what C reserves; which locals a function needs, where declared, which stay small."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from servonode.kernels import ir

_KEYWORDS = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm main"
)
_MATH_H = (
    "acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 frexp ilogb ldexp log log10 "
    "log1p log2 logb modf scalbn scalbln cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor nearbyint rint "
    "lrint llrint round lround llround trunc fmod remainder remquo copysign nan nextafter nexttoward fdim fmax fmin "
    "fma j0 j1 jn y0 y1 yn gamma drem significand scalb finite exp10 pow10 sincos"
)
_MACROS = (
    "NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL OVERFLOW UNDERFLOW DOMAIN SING PLOSS TLOSS EOF NULL signgam isnan isinf "
    "isfinite isnormal signbit fpclassify isgreater isless islessgreater isunordered abs labs div exit index unix linux"
)
RESERVED = {
    *_KEYWORDS.split(),
    *_MACROS.split(),
    *(f"{name}{end}" for name in _MATH_H.split() for end in ("", "f", "l")),
}
# a path to a statement: its number, then in turn the number of a block in it and of a statement in that block
Path = tuple[int, ...]
_LARGEST_INT = 32767  # an int has at least 16 bits


def names(node: object) -> set[str]:
    """The local variables that occur in expressions and statements."""
    return {each.name for each in ir.nodes(node) if isinstance(each, ir.Local)}


def known(each: ir.Expr) -> int | None:
    """The value of an integer expression made of literals alone; None for any other."""
    match each:
        case ir.Number(value, kind) if kind == ir.I64:
            return int(value)
        case ir.Binary("+" | "-" | "*" as op, a, b, kind) if kind == ir.I64:
            left, right = known(a), known(b)
            if left is not None and right is not None:
                return {"+": left + right, "-": left - right, "*": left * right}[op]
    return None


def read(body: Sequence[ir.Statement]) -> set[str]:
    """The local variables that are read outside of their own assignment, and arrays whose elements are assigned."""
    found: set[str] = set()
    for each in ir.walk(body):
        found |= names(ir.evaluated(each)) - ({each.target.name} if isinstance(each, ir.Let) else set())
    return found


def useful(body: tuple[ir.Statement, ...], writing: Callable[[object], list[ir.Called]]) -> tuple[ir.Statement, ...]:
    """The body without assignments to locals that nothing reads; calls that write to arrays stay."""
    wanted: set[str] | None = None
    while wanted != (now := read(body)):
        wanted = now
        body = _without(body, wanted, writing)
    return body


def _without(
    body: tuple[ir.Statement, ...], wanted: set[str], writing: Callable[[object], list[ir.Called]]
) -> tuple[ir.Statement, ...]:
    kept: list[ir.Statement] = []
    for each in body:
        if isinstance(each, ir.Let | ir.Empty) and each.target.name not in wanted and not writing(each):
            continue
        if isinstance(each, ir.If | ir.For | ir.While):
            each = each._replace(body=_without(each.body, wanted, writing))
        if isinstance(each, ir.If):
            each = each._replace(other=_without(each.other, wanted, writing))
        kept.append(each)
    return tuple(kept)


def stay_small(functions: Sequence[ir.Function]) -> set[str]:
    """The functions whose integers fit into an `int`: literals, loop variables, and local variables set to these."""
    small: set[str] = set()
    for each in functions:  # callees first
        kept = [value for statement in ir.walk(each.body) for value in ir.evaluated(statement)
                if isinstance(statement, ir.Let | ir.Together | ir.Return) and value.type == ir.I64]  # fmt: skip
        computed = any(isinstance(node, ir.Binary) for node in ir.nodes(tuple(kept)))
        given = any(argument.type == ir.I64 for argument in each.signature.arguments)
        if not computed and not given and not any(_is_large(node, small) for node in ir.nodes(each.body)):
            small.add(each.signature.symbol)
    return small


def _is_large(node: object, small: set[str]) -> bool:
    match node:
        case ir.Number(value, ir.Scalar.I64):
            return abs(value) > _LARGEST_INT
        case ir.Element(_, _, ir.Scalar.I64) | ir.Extreme(_, _, _, ir.Scalar.I64):
            return True
        case ir.Binary(op, _, _, ir.Scalar.I64):
            return op not in ("+", "-")
        case ir.Called(function, _, ir.Scalar.I64):
            return function.symbol not in small
    return False


class Declarations:
    """The places of the declarations of local variables, so that each use has the value it has in the kernel.

    A variable is declared with its first assignment where that stands in the innermost block of all uses; else without
    a value, before the function's statement that contains its first use.
    """

    def __init__(self, body: Sequence[ir.Statement], arguments: Sequence[str]) -> None:
        self.with_value: set[Path] = set()
        self.before: dict[Path, list[ir.Local]] = {}
        stores = [local for each in ir.walk(body) for local in ir.assigned(each)]
        counts = Counter(each.name for each in stores)
        self.once = {name for name, count in counts.items() if count == 1}
        self.unread = {each.name for each in stores} - read(body)
        variables = {each.variable.name for each in ir.walk(body) if isinstance(each, ir.For)} - set(arguments)
        self.loops = {name for name in variables if not _used_outside(name, body)}  # declared by their loops
        uses: dict[str, list[Path]] = {}
        for name, path in _uses(body, ()):
            uses.setdefault(name, []).append(path)
        statements = dict(_paths(body, ()))
        for local in {each.name: each for each in stores}.values():
            needed = isinstance(local.type, ir.Array) or local.name not in self.unread
            if needed and local.name not in self.loops and local.name not in arguments:
                self._declare(local, uses[local.name], statements)

    def _declare(self, local: ir.Local, uses: list[Path], statements: dict[Path, ir.Statement]) -> None:
        first, depth = uses[0], 0
        while all(len(each) > depth + 2 and each[: depth + 2] == first[: depth + 2] for each in uses):
            depth += 2
        match statements[first[: depth + 1]]:
            case ir.Let(target) | ir.Empty(target) if target == local:
                self.with_value.add(first[: depth + 1])
            case _:
                self.before.setdefault(first[:1], []).append(local)


def _paths(body: Sequence[ir.Statement], around: Path) -> Iterator[tuple[Path, ir.Statement]]:
    """Each statement and its path, in the order of the text."""
    for i, each in enumerate(body):
        yield (*around, i), each
        for k, block in enumerate(ir.blocks(each)):
            yield from _paths(block, (*around, i, k))


def _uses(body: Sequence[ir.Statement], around: Path) -> Iterator[tuple[str, Path]]:
    """Each occurrence of a local variable, with its path, in the order of the text."""
    for path, each in _paths(body, around):
        for name in (*(local.name for local in ir.assigned(each)), *sorted(names(ir.evaluated(each)))):
            yield name, path


def _used_outside(name: str, body: Sequence[ir.Statement]) -> bool:
    """Whether a loop's variable is used outside of its loops, or assigned in their bodies."""
    for each in body:
        if isinstance(each, ir.For) and each.variable.name == name:
            elsewhere = any(name in _set(inner) for inner in ir.walk(each.body))
        else:
            elsewhere = name in _set(each) or any(_used_outside(name, block) for block in ir.blocks(each))
        if elsewhere or name in names(ir.evaluated(each)):
            return True
    return False


def _set(statement: ir.Statement) -> set[str]:
    return {each.name for each in ir.assigned(statement)}


def keeps(name: str) -> bool:
    """Whether a name can stay as it is in C."""
    return name not in RESERVED and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None


def identifier(name: str, taken: set[str]) -> str:
    """The C name for a name, added to `taken`: the name itself, unless C reserves it or it is taken."""
    plain = name if keeps(name) else re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_0123456789") or "name"
    plain += "" if keeps(name) else "_"
    result, count = plain, 1
    while result in taken:
        count += 1
        result = f"{plain}_{count}"
    taken.add(result)
    return result


def identifiers(names: set[str], taken: set[str]) -> dict[str, str]:
    """C names for names; those that can keep their own do."""
    return {each: identifier(each, taken) for each in sorted(names, key=lambda name: (not keeps(name), name))}
