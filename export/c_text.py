"""The C side of translated kernels: names that C keeps for itself, numbers, comments, declarations, lines."""

import ast
import textwrap
from collections.abc import Iterable
from math import isfinite, prod
from typing import NamedTuple

from servonode.errors import ServonodeError

WIDTH = 120  # columns of the C text
GLUE = "\0"  # a space at which no line is broken

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

Shape = tuple[int, ...]


class TranslationError(ServonodeError, ValueError):
    """The generated source holds a construct that this translator does not know; the text names it."""


class Array(NamedTuple):
    """A C-contiguous array of doubles."""

    shape: Shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


Kind = str | Array  # "double", "int", "truth" (of a comparison), "void", or an array


def c_number(value: float) -> str:
    """A double as C text with all its digits."""
    if not isfinite(value):
        return "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def comment(text: str) -> str:
    """A text that can stand inside a C comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def refusal(node: ast.AST, what: str) -> TranslationError:
    """What to raise for a construct without C text, with its line in the generated source."""
    line = getattr(node, "lineno", 0)
    return TranslationError(f"line {line} of the kernel: {what} has no C text; extend export/c_translate.py")


def fresh(name: str, used: Iterable[str]) -> str:
    """The name, with underscores until it is a new one."""
    taken = set(used)
    while name in taken:
        name += "_"
    return name


def shown(node: ast.AST) -> str:
    """The first line of a piece of Python, shortened."""
    return textwrap.shorten(ast.unparse(node).splitlines()[0], 60, placeholder=" ...")


def c_type(kind: Kind) -> str:
    """The C type of a value, or of an array's elements."""
    return "double" if isinstance(kind, Array) or kind == "double" else "void" if kind == "void" else "int"


def declared(name: str, kind: Kind, constant: bool = False) -> str:
    """C text that declares a name; arrays are flat, and a pointer stands for one without elements."""
    qualifier = "const " if constant else ""
    if not isinstance(kind, Array):
        return f"{qualifier}{c_type(kind)} {name}"
    return f"{qualifier}double {name}[{kind.size}]" if kind.size else f"{qualifier}double *{name}"


def wrapped(line: str) -> list[str]:
    """The line, broken at spaces where it is too long."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    parts = textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [part.replace(GLUE, " ") for part in parts]
