"""Names of quantities as a paper writes them, and what they are in a few words."""

import re
from collections.abc import Sequence

from servonode.mechanics.description import Quantity
from servonode.views.titles import readable

GREEK = {
    **dict(zip(("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"), "αβγδεζηθ", strict=True)),
    **dict(zip(("iota", "kappa", "lambda", "mu", "nu", "xi", "rho", "sigma", "tau"), "ικλμνξρστ", strict=True)),
    **dict(zip(("phi", "chi", "psi", "omega"), "φχψω", strict=True)),
    **dict(zip(("Gamma", "Delta", "Theta", "Lambda", "Xi", "Sigma", "Phi", "Psi", "Omega"), "ΓΔΘΛΞΣΦΨΩ", strict=True)),
}
DOTS = {"_dot": (r"\dot", "\u0307"), "_ddot": (r"\ddot", "\u0308")}
LOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
ENDS = re.compile(r"[,:;(]| relative to | from | that | along | on the | of the | about | ahead ")
MOST_INDICES = 3  # of a symbol; a name with more of them is words
RATE = "rate of the "  # begins the description of a coordinate's own velocity
VELOCITIES = (  # of coordinates whose rates have a name of their own
    (re.compile(r"^rate of the angle(?= of|$)"), "angular velocity"),
    (re.compile(r"^rate of the ((?:[\w-]+ )?)position\b"), r"\1velocity"),
)
NOUNS = {"m": "positions", "rad": "angles", "m/s": "velocities", "rad/s": "angular velocities"}
NOUNS |= {"N": "forces", "N m": "torques"}  # of an axis with too many quantities for a title
MOST_WORDS = 3  # quantities that a title says one by one
SHARED = 2  # words that two descriptions must begin with, so that they are said once


def mathtext(name: str) -> str:
    """A name for matplotlib: `theta1_dot` -> $\\dot{\\theta}_{1}$; a word of several letters as it is, without "_"."""
    parts = _parts(name)
    if parts is None:
        return name.replace("_", " ")
    base, index, dot = parts
    letter = rf"\{_mathtext_of(base)}" if base in GREEK else base
    low = ",".join(_index(each) for each in index)
    accented = rf"{DOTS[dot][0]}{{{letter}}}" if dot else letter
    return f"${accented}_{{{low}}}$" if low else f"${accented}$"


def plain(name: str) -> str:
    """A name in characters: `theta1_dot` -> θ̇₁, `v_x` -> v_x."""
    parts = _parts(name)
    if parts is None:
        return name.replace("_", " ")
    base, index, dot = parts
    letter = GREEK.get(base, base) + (DOTS[dot][1] if dot else "")
    low = ",".join(_plain_index(each) for each in index)
    return letter + (low.translate(LOW) if low.isdecimal() else f"_{low}" if low else "")


def _parts(name: str) -> tuple[str, list[str], str] | None:
    """Letter, indices and dots of a symbol; None of a word."""
    dot = next((each for each in ("_ddot", "_dot") if name.endswith(each)), "")
    base, *index = name.removesuffix(dot).split("_")
    found = re.fullmatch(r"([A-Za-z]+)(\d*)", base)
    if found is None or (len(found[1]) > 1 and found[1] not in GREEK) or len(index) > MOST_INDICES:
        return None
    low = [each for each in (found[2], *index) if each]
    if len(low) > 1 and any(each.isalpha() and len(each) > 2 and each not in GREEK for each in low):
        return None  # a name of words, as of a robot's file: `j1_base_torque`
    return found[1], low, dot


def _numbered(index: str) -> tuple[str, str]:
    """An index and its own one: `phi0` -> phi, 0."""
    found = re.fullmatch(r"([A-Za-z]+)(\d+)", index)
    return (found[1], found[2]) if found and found[1] in GREEK else (index, "")


def _index(index: str) -> str:
    letter, number = _numbered(index)
    shown = rf"\{_mathtext_of(letter)}" if letter in GREEK else _upright(letter)
    return f"{shown}_{{{number}}}" if number else shown


def _plain_index(index: str) -> str:
    letter, number = _numbered(index)
    return GREEK.get(letter, letter) + number.translate(LOW)


def _mathtext_of(greek: str) -> str:
    return {"phi": "varphi", "epsilon": "varepsilon"}.get(greek, greek)


def _upright(index: str) -> str:
    return rf"\mathrm{{{index}}}" if len(index) > 1 and index.isalpha() else index


def unit_text(unit: str) -> str:
    """[N m²] to be added to a title, or several with commas between them; empty of a pure number."""
    powers = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
    shown = re.sub(r"\^(-?\d+)", lambda found: found[1].translate(powers), unit)
    shown = shown.replace(", ", ",\u00a0").replace(" ", "\u202f")
    return "" if unit in ("", "1") else f" [{'1' * shown.startswith('/')}{shown}]"


def few_words(description: str) -> str:
    """The head of a description: "hitch angle, trailer relative to robot" -> "hitch angle"."""
    rate = RATE if description.startswith(RATE) else ""
    head = ENDS.split(description.removeprefix(rate), maxsplit=1)[0].strip()
    return f"{rate}{head}" if head else description.strip()


def titles(quantities: Sequence[Quantity]) -> tuple[str, str]:
    """What the quantities of one axis are, in words with symbols and unit: for matplotlib, and in plain characters."""
    unit = unit_text(", ".join(dict.fromkeys(each.unit for each in quantities if each.unit not in ("", "1"))))
    stated = [_named_rate(each.description) for each in quantities]
    if len(quantities) == 1:
        (only,) = quantities
        words = re.split(r"[,:;(]", stated[0])[0].strip()
        symbol = (f" {mathtext(only.name)}", f" {plain(only.name)}") if _parts(only.name) or not words else ("", "")
        return f"{readable(words)}{symbol[0]}{unit}".strip(), f"{words}{symbol[1]}{unit}".strip()
    text = (_common(stated) or _one_by_one(stated, quantities[0].unit)) + unit
    return readable(text), text


def _named_rate(description: str) -> str:
    """ "rate of the angle of the motor" -> "angular velocity of the motor"; others as they are."""
    for pattern, velocity in VELOCITIES:
        description = pattern.sub(velocity, description)
    return description


def _one_by_one(descriptions: Sequence[str], unit: str) -> str:
    """What several quantities of an axis are, each in a few words; of too many what all of them are."""
    words = [each for each in dict.fromkeys(map(few_words, descriptions)) if each]
    ends = [(f"{other} ", f" {other}") for other in words]
    shown = [each for each in words if not any(each.startswith(one) or each.endswith(two) for one, two in ends)]
    return NOUNS[unit] if len(shown) > MOST_WORDS and unit in NOUNS else _and(shown)


def _and(words: Sequence[str]) -> str:
    """The words as a person lists them: "a, b and c"."""
    return " and\u00a0".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _common(descriptions: Sequence[str]) -> str:
    """ "rate of the left wheel", "rate of the right wheel" -> "rate of the left and right wheel"; else empty."""
    rows = [re.split(r"[,:;(]", each)[0].split() for each in descriptions]
    shortest = min(map(len, rows), default=0)
    head = next((i for i in range(shortest) if len({row[i] for row in rows}) > 1), shortest)
    if head < SHARED:
        return ""
    rest = [row[head:] for row in rows]
    room = min(map(len, rest))
    tail = next((i for i in range(room) if len({row[-1 - i] for row in rest}) > 1), room)
    own = dict.fromkeys(" ".join(row[: len(row) - tail]) for row in rest)
    between = _and([each for each in own if each])
    return " ".join([*rows[0][:head], *([between] if between else []), *rest[0][len(rest[0]) - tail :]])
