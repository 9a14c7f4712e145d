"""A law with an extension as blocks: its definitions in order, derivatives of residuals, what determines the inputs."""

from typing import Any

import sympy

from servonode.controllers.engine.extension import Extension, Key
from servonode.controllers.engine.law_description import describe_extension
from servonode.controllers.engine.servo import Servo
from servonode.export.blocks import Block, Entry, Heading, Line, Lines, Math, Table, Words, equations
from servonode.mechanics.stabilize import Gains

Expr = Any


def extension_blocks(servo: Servo, extension: Extension, gains: Gains | None) -> list[Block]:
    """What follows the residuals: integrators, definitions, derivatives, demand, inputs."""
    described = describe_extension(servo)
    assert described is not None
    unknowns = [_unknown(servo, extension, key) for key in extension.unknowns]
    line = extension.motion.line
    chains = (
        Line(derivative(i, n), each)
        for i, chain in enumerate(extension.chains)
        for n, each in enumerate(chain.derivatives)
    )
    return [
        *(Words(f"{each}.") for each in described.steps),
        *_integrators(extension),
        Heading("Derivatives of the residuals"),
        Words("The definitions stand in the order in which they are evaluated."),
        *equations({each: line.definitions[each] for each in line.needed(extension.atoms)}),
        Words("With them:"),
        Lines(tuple(chains)),
        Heading("Stabilised demand"),
        Lines(_demands(extension, gains)),
        Heading("Inputs"),
        Words(f"The highest derivatives are linear in {', '.join(map(str, unknowns))}, which they determine."),
        Lines(_highest(extension, unknowns)),
        *_held(servo, extension),
    ]


def derivative(i: int, order: int) -> Math:
    """The name of a derivative of a residual: f1, f1', ..., f1^(4)."""
    return Math(f"f{i + 1}" + ("'" * order if order < 4 else f"^({order})"))


def _integrators(extension: Extension) -> list[Block]:
    if not extension.integrators:
        return []
    entries = (Entry(each.symbol, each.quantity.description, each.quantity.unit) for each in extension.integrators)
    return [
        Table(Words("Integrators of the law"), tuple(entries)),
        *equations({Math(f"{each.symbol}(0)"): each.start for each in extension.integrators}),
    ]


def _demands(extension: Extension, gains: Gains | None) -> tuple[Line, ...]:
    """(d/dt + lambda)^r f = 0, with numbers where the gains are known."""
    rates = (f"lambda{i + 1}" if gains is None else f"{gains.rates[i]:g}" for i in range(len(extension.chains)))
    return tuple(
        Line(Math(f"(d/dt + {rate})^{r} {derivative(i, 0)}"), sympy.Integer(0))
        for i, (rate, r) in enumerate(zip(rates, extension.relative_degrees, strict=True))
    )


def _unknown(servo: Servo, extension: Extension, key: Key) -> Expr:
    """A symbol for an input, or for the rate of an integrator."""
    kind, k = key
    symbols = [*servo.equations.model.inputs] if kind == "input" else [each.symbol for each in extension.integrators]
    return sympy.Symbol(symbols[k].name + ("'" if kind == "rate" else ""), real=True)


def _highest(extension: Extension, unknowns: list[Expr]) -> tuple[Line, ...]:
    return tuple(
        Line(
            derivative(i, len(chain.derivatives)),
            sympy.Add(chain.drift, *(a * b for a, b in zip(row, unknowns, strict=True))),
        )
        for i, (chain, row) in enumerate(zip(extension.chains, extension.matrix(), strict=True))
    )


def _held(servo: Servo, extension: Extension) -> list[Block]:
    """The unknowns that integrators determine."""
    values = {}
    for key, held in extension.held.items():
        shares = (share * _unknown(servo, extension, other) for other, share in held.shares.items())
        values[_unknown(servo, extension, key)] = held.value - sympy.Add(*shares)
    return equations(values, "What integrators hold:")
