"""What is shown of reactions, of the constraints that they hold, and of jumps."""

import sympy

from servonode.export.blocks import Block, Heading, Line, Lines, Words, abbreviations, named
from servonode.export.simplify import Abbreviations
from servonode.mechanics.equations import Equations


def reaction_blocks(equations: Equations, short: Abbreviations) -> list[Block]:
    """The rows that determine the reactions, the residuals that these rows hold at zero, and the machine's jumps."""
    return [*_rows(equations, short), *_jumps(equations, short)]


def _rows(equations: Equations, short: Abbreviations) -> list[Block]:
    stated, zero = equations.model.stabilised, ("=", sympy.Integer(0))
    if not stated:
        return []
    names = [named(each.quantity.name) for each in stated]
    definitions, shown = short.applied([*(each.residual for each in stated), *(each.row for each in stated)])
    residuals, rows = shown[: len(stated)], shown[len(stated) :]
    return [
        Heading("Constraints held by reactions"),
        *abbreviations(definitions),
        Words("Residuals, which are zero where the constraints hold:"),
        Lines(tuple(Line(name, each, ":") for name, each in zip(names, residuals, strict=True))),
        Words("The reactions are determined at every evaluation by"),
        Lines(tuple(Line(name, each, ":", zero) for name, each in zip(names, rows, strict=True))),
    ]


def _jumps(equations: Equations, short: Abbreviations) -> list[Block]:
    blocks: list[Block] = []
    for each in equations.model.jumps:
        sign = ">" if each.strict else ">="
        definitions, (margin, *values) = short.applied([each.margin, *each.changes.values()])
        blocks += [
            *abbreviations(definitions),
            Words(f"Where this is {sign} 0 at the end of a step, states are set (before_x is x at its beginning):"),
            Lines((Line(named(each.description), margin, ":"),)),
            Lines(tuple(Line(symbol, value) for symbol, value in zip(each.changes, values, strict=True))),
        ]
    return [Heading("Jumps"), *blocks] if blocks else []
