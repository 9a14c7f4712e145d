"""What is shown of reactions, of the constraints that they hold, and of jumps."""

import sympy

from servonode.mechanics.derive import Equations
from servonode.nodes.show.blocks import Block, Heading, Line, Lines, Phrase, Words


def reaction_blocks(equations: Equations) -> list[Block]:
    """The rows that determine the reactions, the residuals that these rows hold at zero, and the machine's jumps."""
    return [*_rows(equations), *_jumps(equations)]


def _rows(equations: Equations) -> list[Block]:
    stated, zero = equations.model.stabilised, ("=", sympy.Integer(0))
    if not stated:
        return []
    names = [Phrase(each.quantity.name, rf"\text{{{each.quantity.name}}}") for each in stated]
    return [
        Heading("Constraints held by reactions"),
        Words("Residuals, which are zero where the constraints hold:"),
        Lines(tuple(Line(name, each.residual, ":") for name, each in zip(names, stated, strict=True))),
        Words("The reactions are determined at every evaluation by"),
        Lines(tuple(Line(name, each.row, ":", zero) for name, each in zip(names, stated, strict=True))),
    ]


def _jumps(equations: Equations) -> list[Block]:
    blocks: list[Block] = []
    for each in equations.model.jumps:
        sign = ">" if each.strict else ">="
        when = Phrase(each.description, rf"\text{{{each.description}}}")
        blocks += [
            Words(f"Where this is {sign} 0 at the end of a step, states are set (before_x is x at its beginning):"),
            Lines((Line(when, each.margin, ":"),)),
            Lines(tuple(Line(symbol, value) for symbol, value in each.changes.items())),
        ]
    return [Heading("Jumps"), *blocks] if blocks else []
