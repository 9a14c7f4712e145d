"""Functions of time for targets and programs: expressions, differentiated symbolically, and curves; compiled.

One evaluator serves every execution mode: plain Python, numpy and compiled code differ in the last bit, so
everybody calls this kernel. It is compiled once for all texts that differ in their numbers only.
"""

import json
from collections.abc import Mapping
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
from servonode.mechanics.signatures import Signature, sizes_text

Stated = str | float | Curve  # an expression of t, a number, or a curve
MOST_PARTS = 4000  # operations and operands of an expression or a derivative, which take some seconds to compile


class Signals:
    """Named functions of time with their derivatives up to `order`, in arrays whose entries are `entries`."""

    def __init__(self, stated: Mapping[str, Stated], order: int, kernel: SignalsKernel | None) -> None:
        """`kernel` evaluates them; None where each is a number."""
        self._stated = stated
        self.names = tuple(stated)
        self.order = order
        self.kernel = kernel
        self.entries = tuple(derivative_name(name, k) for name, k in derivatives(self.names, order))
        self.positions = slice(None, None, order + 1)  # the functions themselves among the entries
        self.pieces: Array = np.concatenate([np.zeros(0), *(each.table for each in _curves(stated).values())])
        self._functions: Any = kernel  # they take pieces only where there are curves
        self._given = (self.pieces,) if self.pieces.size else ()
        self._constant = np.zeros(len(self.entries))
        if kernel is None:
            self._constant[self.positions] = [float(cast(str, each)) for each in stated.values()]

    def evaluate(self, t: float, out: Array) -> None:
        """Write name, name', name'', ... of each signal at time t [s] into `out`."""
        if self.kernel is None:
            out[:] = self._constant
        else:
            self._functions.signals(t, *self._given, out)

    def of_order(self, order: int) -> "Signals":
        """The same functions with derivatives up to another order."""
        return self if order == self.order else load_signals(self._stated, order)

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
    curves = _curves(stated)
    texts = {name: cast(str | float, each) for name, each in stated.items() if name not in curves}
    for name, text in texts.items():
        with about(name):
            parse(text).require_derivatives(order, name)
    if not curves and all(map(_is_number, texts.values())):
        return Signals(stated, order, None)
    shapes = {name: each.coefficients.shape for name, each in curves.items()}
    definition = json.dumps([list(stated), {name: str(text) for name, text in texts.items()}, shapes, order])
    key = cache.key_of("signals", definition, cache.code_digest("controllers.engine.signals"))
    kernel, _ = cache.load(key, lambda: (_source(stated, order), b"{}"), numbers=True)
    return Signals(stated, order, cast(SignalsKernel, kernel))


def _curves(stated: Mapping[str, Stated]) -> dict[str, Curve]:
    return {name: each for name, each in stated.items() if isinstance(each, Curve)}


def _is_number(text: str | float) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _source(stated: Mapping[str, Stated], order: int) -> str:
    """The generated functions `signals` and `table`."""
    from servonode.mechanics import emit

    curves = _curves(stated)
    expressions = {name: _differentiated(name, str(each), order)
                   for name, each in stated.items() if name not in curves}  # fmt: skip
    block, first = emit.Block(None), 0
    found = iter(block.evaluate([each for several in expressions.values() for each in several]))
    for i, (name, each) in enumerate(stated.items()):
        at = i * (order + 1)
        if isinstance(each, Curve):
            n = len(each.coefficients)
            block.lines.append(f"    curve(t_, pieces, {first}, {n}, {each.degree}, {order}, out, {at})")
            first += each.table.size
        else:
            block.store("out", islice(found, len(expressions[name])), at)
    sizes = sizes_text({"n_entries": len(stated) * (order + 1)})
    signals, table = (Signature.of(CurvesKernel if curves else SignalsKernel, name) for name in ("signals", "table"))
    own = f"{sizes}{block.function(signals, 't')}\n\n{table.definition()}"
    if curves:
        return emit.HEADER + KERNEL + own + _TABLE.format(pieces="pieces, ")
    return emit.HEADER + own + _TABLE.format(pieces="")


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


_TABLE = """\
    for i in range(n):
        signals(t[i], {pieces}out[i])
"""

__all__ = ["ExpressionError", "Signals", "load_signals"]
