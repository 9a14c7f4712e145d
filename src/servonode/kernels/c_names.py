"""Names in C: those that C reserves, and the C name for a name of a kernel."""

import re

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
