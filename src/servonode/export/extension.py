"""A law with an extension as blocks: its definitions in order, derivatives of residuals, what determines the inputs."""

from typing import Any

import sympy

from servonode.controllers.engine.extension import Extension, Key
from servonode.controllers.engine.extension_words import describe_extension
from servonode.controllers.engine.servo import Servo
from servonode.export.blocks import Block, Heading, Line, Lines, Phrase, Words, symbol_table
from servonode.mechanics.stabilize import Gains

Expr = Any


def extension_blocks(servo: Servo, extension: Extension, gains: Gains | None) -> list[Block]:
    """What follows the residuals: integrators, definitions, derivatives, demand, inputs."""
    described = describe_extension(servo)
    assert described is not None
    names = [_unknown(servo, extension, key) for key in extension.unknowns]
    return [
        *(Words(f"{each}.") for each in described.steps),
        *_integrators(extension),
        Heading("Derivatives of the residuals"),
        Words("The definitions stand in the order in which they are evaluated."),
        Lines(tuple(Line(each, line) for each, line in _definitions(extension))),
        Words("With them:"),
        Lines(_chains(extension)),
        Heading("Stabilised demand"),
        Lines(_demands(extension, gains)),
        Heading("Inputs"),
        Words(f"The highest derivatives are linear in {', '.join(each.text for each in names)}, which they determine."),
        Lines(_highest(extension, names)),
        *_held(servo, extension),
    ]


def _integrators(extension: Extension) -> list[Block]:
    if not extension.integrators:
        return []
    title = "Integrators of the law"
    starts = tuple(Line(Phrase(f"{each.symbol}(0)", rf"\mathrm{{{_safe(each.symbol.name)}}}(0)"), each.start)
                   for each in extension.integrators)  # fmt: skip
    return [symbol_table(title, title, [_Named(each.symbol, each.quantity) for each in extension.integrators]),
            Lines(starts)]  # fmt: skip


class _Named(sympy.Symbol):  # type: ignore[misc]
    """An integrator's symbol with its quantity, for a table."""

    def __new__(cls, symbol: Expr, quantity: Any) -> "_Named":
        made: _Named = sympy.Symbol.__xnew__(cls, symbol.name, real=True)
        made.quantity = quantity
        return made


def _definitions(extension: Extension) -> list[tuple[Expr, Expr]]:
    line = extension.motion.line
    return [(each, line.definitions[each]) for each in line.needed(extension.atoms)]


def _derivative(i: int, order: int) -> Phrase:
    primes = "'" * order if order < 4 else f"^({order})"
    return Phrase(f"f{i + 1}{primes}", f"f_{{{i + 1}}}" + (f"^{{({order})}}" if order else ""))


def _chains(extension: Extension) -> tuple[Line, ...]:
    chains = enumerate(extension.chains)
    return tuple(Line(_derivative(i, n), each) for i, chain in chains for n, each in enumerate(chain.derivatives))


def _demands(extension: Extension, gains: Gains | None) -> tuple[Line, ...]:
    """(d/dt + lambda)^r f = 0, with numbers where the gains are known."""
    lines = []
    for i, r in enumerate(extension.relative_degrees):
        rate = f"lambda{i + 1}" if gains is None else f"{gains.rates[i]:g}"
        latex = rf"\lambda_{{{i + 1}}}" if gains is None else rate
        phrase = Phrase(
            f"(d/dt + {rate})^{r} f{i + 1}", rf"\left(\tfrac{{d}}{{dt}} + {latex}\right)^{{{r}}} f_{{{i + 1}}}"
        )
        lines.append(Line(phrase, sympy.Integer(0)))
    return tuple(lines)


def _unknown(servo: Servo, extension: Extension, key: Key) -> Phrase:
    """An input, or the rate of an integrator."""
    kind, k = key
    symbols = [*servo.equations.model.inputs] if kind == "input" else [each.symbol for each in extension.integrators]
    name = symbols[k].name
    prime = "'" if kind == "rate" else ""
    return Phrase(f"{name}{prime}", rf"\mathrm{{{_safe(name)}}}{prime}")


def _safe(name: str) -> str:
    return name.replace("_", r"\_")


def _symbol(phrase: Phrase) -> Expr:
    """A symbol that prints as a phrase's text."""
    return sympy.Symbol(phrase.text, real=True)


def _highest(extension: Extension, names: list[Phrase]) -> tuple[Line, ...]:
    symbols = [_symbol(each) for each in names]
    lines = []
    for i, (chain, row) in enumerate(zip(extension.chains, extension.matrix(), strict=True)):
        sum_ = sympy.Add(chain.drift, *(a * b for a, b in zip(row, symbols, strict=True)))
        lines.append(Line(_derivative(i, len(chain.derivatives)), sum_))
    return tuple(lines)


def _held(servo: Servo, extension: Extension) -> list[Block]:
    """The unknowns that integrators determine."""
    if not extension.held:
        return []
    lines = []
    for key, held in extension.held.items():
        shares = (share * _symbol(_unknown(servo, extension, other)) for other, share in held.shares.items())
        lines.append(Line(_unknown(servo, extension, key), held.value - sympy.Add(*shares)))
    return [Words("What integrators hold:"), Lines(tuple(lines))]
