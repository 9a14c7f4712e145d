"""The auxiliary symbols of large machines in a shown document: z1, z2, ..., each defined where it first occurs."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import sympy

from servonode.export.blocks import Block, Line, Lines, Matrix, Words
from servonode.export.simplify import LONG
from servonode.mechanics.straight_line import Auxiliary, auxiliaries_of, ordered

Expr = Any


def with_definitions(blocks: list[Block], taken: Collection[str]) -> list[Block]:
    """The blocks, before each the definitions of the auxiliary symbols that are new in it; `taken`: names in use.

    What is used once, and is short, stands where it is used instead.
    """
    names = _Names([each for block in blocks for each in _expressions(block)], taken)
    shown: list[Block] = []
    for block in blocks:
        lines = [Line(*each) for each in names.defined(list(_expressions(block)))]
        if lines:
            shown += [Words("Auxiliary symbols, each in terms of those before it:"), Lines(tuple(lines))]
        shown.append(names.put_into(block))
    return shown


class _Names:
    """The names of auxiliary symbols, and what has been defined."""

    def __init__(self, expressions: list[Expr], taken: Collection[str]) -> None:
        self._free = (name for name in (f"z{i}" for i in range(1, 10**9)) if name not in taken)
        chain = ordered(expressions)
        self._uses = Counter(each for shown in (*expressions, *(z.definition for z in chain)) for each in _uses(shown))
        self._shown: dict[Expr, Expr] = {}  # a name, or the definition of what is used once

    def defined(self, expressions: list[Expr]) -> Iterator[tuple[Expr, Expr]]:
        """Names and definitions of the auxiliary symbols that expressions need and that have not been met yet."""
        for each in ordered(expressions):
            if each in self._shown:
                continue
            definition = each.definition.xreplace(self._shown)
            if self._uses[each] == 1 and len(str(definition)) <= LONG:
                self._shown[each] = definition
            else:
                self._shown[each] = sympy.Symbol(next(self._free), real=True)
                yield self._shown[each], definition

    def put_into(self, block: Block) -> Block:
        """The block with names for its auxiliary symbols."""
        if isinstance(block, Matrix):
            return replace(block, entries=block.entries.applyfunc(self._named))
        if isinstance(block, Lines):
            return Lines(tuple(self._in_line(each) for each in block.lines))
        return block

    def _in_line(self, line: Line) -> Line:
        tail = line.tail and (line.tail[0], self._named(line.tail[1]))
        return replace(line, right=self._named(line.right), tail=tail)

    def _named(self, expression: Expr) -> Expr:
        return sympy.sympify(expression).xreplace(self._shown)


def _expressions(block: Block) -> Iterator[Expr]:
    """The expressions of a block that may contain auxiliary symbols."""
    if isinstance(block, Matrix):
        yield from (block.entries[place] for place in block.shown())
    if isinstance(block, Lines):
        for line in block.lines:
            yield from map(sympy.sympify, (line.right, *(line.tail or ())[1:]))


def _uses(expression: Expr) -> Iterator[Auxiliary]:
    """The auxiliary symbols of an expression, each as often as it occurs."""
    for each in auxiliaries_of(expression):
        yield from [each] * expression.count(each)
