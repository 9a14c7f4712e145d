"""Functions of time for targets and programs: expressions, differentiated symbolically, and curves; compiled.

One evaluator serves every execution mode: plain Python, numpy and compiled code differ in the last bit, so
everybody calls this kernel. It is compiled once for all texts that differ in their numbers only; a signal that is
nothing but a number is given to it.
"""

import json
from collections.abc import Mapping
from copy import copy
from functools import cached_property
from itertools import islice
from typing import Any, cast

import numpy as np

from servonode.arrays import Array
from servonode.controllers.engine.curves import KERNEL, Curve
from servonode.controllers.engine.kernels import CurvesKernel, SignalsKernel
from servonode.definitions import cache
from servonode.errors import about
from servonode.mechanics.description import derivative_name, derivatives
from servonode.mechanics.expression import ExpressionError, parse
from servonode.mechanics.kernels import Signature, sizes_text

Stated = str | float | Curve  # an expression of t, a number, or a curve
MOST_PARTS = 4000  # operations and operands of an expression or a derivative, which take some seconds to compile


class Signals:
    """Named functions of time with their derivatives up to `order`, in arrays whose entries are `entries`."""

    def __init__(
        self, stated: Mapping[str, Stated], order: int, kernel: SignalsKernel | None, speed: float = 1.0
    ) -> None:
        """`kernel` evaluates them; None where each is a number. speed: which `kernel` takes, see `at_speed`."""
        self._stated, self.speed = stated, speed
        self.names = tuple(stated)
        self.order = order
        self.kernel = kernel
        self.entries = tuple(derivative_name(name, k) for name, k in derivatives(self.names, order))
        self.positions = slice(None, None, order + 1)  # the functions themselves among the entries
        self.pieces: Array = np.concatenate([np.zeros(0), *_pieces(stated), [] if speed == 1.0 else [speed]])
        self._functions: Any = kernel  # they take pieces only where there are curves or numbers
        self._given = (self.pieces,) if self.pieces.size else ()
        self._constant = np.zeros(len(self.entries))
        if kernel is None:
            self._constant[self.positions] = self.pieces

    def evaluate(self, t: float, out: Array) -> None:
        """Write name, name', name'', ... of each signal at time t [s] into `out`."""
        if self.kernel is None:
            out[:] = self._constant
        else:
            self._functions.signals(t, *self._given, out)

    @property
    def numbers(self) -> dict[str, float]:
        """Those that are nothing but a number."""
        return {name: float(each) for name, each in self._stated.items() if _is_number(each)}  # type: ignore[arg-type]

    def with_pieces(self, pieces: Array) -> "Signals":
        """The same signals with other `pieces`: numbers, and what makes the curves.

        Raises:
            ValueError: there are not as many.
        """
        if len(pieces) != len(self.pieces):
            raise ValueError(f"{len(pieces)} numbers are given; give {len(self.pieces)}")
        found = copy(self)
        found.pieces, found._constant = pieces, self._constant.copy()
        found._given = (pieces,) if pieces.size else ()
        if self.kernel is None:
            found._constant[self.positions] = pieces
        return found

    @property
    def table_of_all(self) -> Array:
        """The pieces of curves, or the constants where no kernel is needed."""
        return self._constant if self.kernel is None else self.pieces

    def of_order(self, order: int) -> "Signals":
        """The same functions with derivatives up to another order."""
        return self if order == self.order else load_signals(self._stated, order).at_speed(self.speed)

    def at_speed(self, speed: float) -> "Signals":
        """The functions f(t) as they are stated, run through at this speed: f(speed t) and its derivatives."""
        if speed == self.speed or self.kernel is None:
            return self
        stated = self if self.speed == 1.0 else load_signals(self._stated, self.order)
        return stated if speed == 1.0 else Signals(self._stated, self.order, stated._scaled, speed)

    @cached_property
    def _scaled(self) -> SignalsKernel:
        """The kernel of the same signals that takes, behind what they are given, a speed."""
        assert self.kernel is not None
        n = len(self.pieces)
        definitions = {name: Signature.of(CurvesKernel, name).definition() for name in ("signals", "table")}
        source = _SCALED.format(
            kernel=self.kernel.__name__, sizes=sizes_text({"n_entries": len(self.entries)}), speed=f"pieces[{n}]",
            given="pieces, " if n else "", names=len(self.names), count=self.order + 1, **definitions,
        ) + _TABLE.format(pieces="pieces, ")  # fmt: skip
        return cast(SignalsKernel, cache.load(cache.key_of("signals", source), lambda: (source, b"{}"))[0])

    def table(self, t: Array) -> Array:
        """What `evaluate` writes, at each of the times (n,) [s]: (n, number of entries)."""
        out = np.empty((len(t), len(self.entries)))
        if self.kernel is None:
            out[:] = self._constant
        else:
            self._functions.table(len(t), t, *self._given, out)
        return out


def load_signals(stated: Mapping[str, Stated], order: int) -> Signals:
    """The signals of these expressions of t and curves: compiled, from the cache or built; numbers need no kernel.

    Raises:
        ExpressionError: a text is not an expression, or cannot be differentiated `order` times, or its derivatives
            are too long to be compiled; its `key` is the name.
    """
    for name, each in stated.items():
        if not isinstance(each, Curve):
            with about(name):
                parse(each).require_derivatives(order, name)
    if all(map(_is_number, stated.values())):
        return Signals(stated, order, None)
    definition = json.dumps([[name, _kind(each)] for name, each in stated.items()] + [order])
    key = cache.key_of("signals", definition, cache.code_digest("controllers.engine.signals"))
    kernel, _ = cache.load(key, lambda: (_source(stated, order), b"{}"), numbers=True)
    return Signals(stated, order, cast(SignalsKernel, kernel))


def _kind(each: Stated) -> Any:
    """What the kernel of a signal depends on: the shape of a curve, nothing of a number, the text of an expression."""
    if isinstance(each, Curve):
        return each.coefficients.shape
    return "" if _is_number(each) else str(each)


def _pieces(stated: Mapping[str, Stated]) -> list[Array]:
    """What is given to the kernel: the pieces of curves, and numbers."""
    given = [each for each in stated.values() if isinstance(each, Curve) or _is_number(each)]
    return [each.table if isinstance(each, Curve) else np.array([float(each)]) for each in given]


def _is_number(each: Stated) -> bool:
    try:
        float(each)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return False
    return True


def _source(stated: Mapping[str, Stated], order: int) -> str:
    """The generated functions `signals` and `table`."""
    from servonode.mechanics import emit

    curves = any(isinstance(each, Curve) for each in stated.values())
    expressions = {name: _differentiated(name, str(each), order)
                   for name, each in stated.items() if not (isinstance(each, Curve) or _is_number(each))}  # fmt: skip
    block, first = emit.Block(None), 0
    found = iter(block.evaluate([each for several in expressions.values() for each in several]))
    for i, (name, each) in enumerate(stated.items()):
        at = i * (order + 1)
        if isinstance(each, Curve):
            n = len(each.coefficients)
            block.lines.append(f"    curve(t_, pieces, {first}, {n}, {each.degree}, {order}, out, {at})")
            first += each.table.size
        elif name not in expressions:
            block.lines += [f"    out[{at}] = pieces[{first}]", *(f"    out[{at + k + 1}] = 0.0" for k in range(order))]
            first += 1
        else:
            block.store("out", islice(found, len(expressions[name])), at)
    sizes = sizes_text({"n_entries": len(stated) * (order + 1)})
    signals, table = (Signature.of(CurvesKernel if first else SignalsKernel, name) for name in ("signals", "table"))
    own = f"{sizes}{block.function(signals, 't')}\n\n{table.definition()}"
    return emit.HEADER + (KERNEL if curves else "") + own + _TABLE.format(pieces="pieces, " if first else "")


def _differentiated(name: str, text: str, order: int) -> list[Any]:
    """The expression and its derivatives."""
    import sympy

    from servonode.mechanics.symbols import time

    with about(name):
        expressions = [sympy.sympify(parse(text).sympy({"t": time}))]
        _check_parts(expressions[0], name, 0)
        for k in range(1, order + 1):
            expressions.append(sympy.diff(expressions[-1], time))
            _check_parts(expressions[-1], name, k)
    return expressions


def _check_parts(expression: Any, name: str, order: int) -> None:
    """Raise ExpressionError for a derivative that is too long to be compiled."""
    import sympy

    if sum(1 for _ in islice(sympy.preorder_traversal(expression), MOST_PARTS + 1)) > MOST_PARTS:
        which = f"its derivative of order {order}" if order else "it"
        text = f"{name}: {which} has more than {MOST_PARTS} parts, too many to be compiled; use fewer factors, "
        raise ExpressionError(f"{text}or write sums instead of products")


_SCALED = '''\
"""Generated by servonode."""

from {kernel} import signals as stated

{sizes}{signals}    stated({speed}*t, {given}out)
    for i in range({names}):
        power = 1.0
        for k in range({count}):
            out[{count}*i + k] = power*out[{count}*i + k]
            power = power*{speed}


{table}'''
_TABLE = """\
    for i in range(n):
        signals(t[i], {pieces}out[i])
"""

__all__ = ["ExpressionError", "Signals", "load_signals"]
