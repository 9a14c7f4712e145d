"""Functions of time for targets and programs: expressions, differentiated symbolically and compiled.

One evaluator serves every execution mode: plain Python, numpy and compiled code differ in the last bit, so
everybody calls this kernel.
"""

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from servonode import mechanics
from servonode.controllers.engine.kernels import SignalsKernel
from servonode.errors import about
from servonode.mechanics import cache
from servonode.mechanics.description import derivative_name, derivatives
from servonode.mechanics.expression import ExpressionError, parse
from servonode.mechanics.signatures import Signature, sizes_text

Array = npt.NDArray[np.float64]
MOST_PARTS = 4000  # operations and operands of an expression or a derivative, which take some seconds to compile


class Signals:
    """Named functions of time with their derivatives up to `order`, in arrays whose entries are `entries`."""

    def __init__(self, texts: Mapping[str, str | float], order: int, kernel: SignalsKernel | None) -> None:
        """`kernel` evaluates the texts; None where each is a number."""
        self.names = tuple(texts)
        self.order = order
        self.kernel = kernel
        self.entries = tuple(derivative_name(name, k) for name, k in derivatives(self.names, order))
        self.positions = slice(None, None, order + 1)  # the functions themselves among the entries
        self._constant = np.zeros(len(self.entries))
        if kernel is None:
            self._constant[self.positions] = [float(text) for text in texts.values()]

    def evaluate(self, t: float, out: Array) -> None:
        """Write name, name', name'', ... of each signal at time t [s] into `out`."""
        if self.kernel is None:
            out[:] = self._constant
        else:
            self.kernel.signals(t, out)

    def table(self, t: Array) -> Array:
        """What `evaluate` writes, at each of the times (n,) [s]: (n, number of entries)."""
        out = np.empty((len(t), len(self.entries)))
        if self.kernel is None:
            out[:] = self._constant
        else:
            self.kernel.table(len(t), t, out)
        return out


def load_signals(texts: Mapping[str, str | float], order: int) -> Signals:
    """The signals of these expressions of t: compiled, from the cache or built; numbers need no kernel.

    Raises:
        ExpressionError: a text is not an expression, or cannot be differentiated `order` times, or its derivatives
            are too long to be compiled; its `key` is the name.
    """
    for name, text in texts.items():
        with about(name):
            parse(text).require_derivatives(order, name)
    if all(map(_is_number, texts.values())):
        return Signals(texts, order, None)
    definition = json.dumps([list(texts), [str(text) for text in texts.values()], order])
    sources = cache.sources_digest(Path(mechanics.__file__).parent, Path(__file__).parent)
    kernel, _ = cache.load(cache.key_of("signals", definition, sources), lambda: (_source(texts, order), b"{}"))
    return Signals(texts, order, cast(SignalsKernel, kernel))


def _is_number(text: str | float) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _source(texts: Mapping[str, str | float], order: int) -> str:
    """The generated functions `signals(t, out)` and `table(n, t, out)`."""
    import sympy

    from servonode.mechanics import emit
    from servonode.mechanics.symbols import time

    expressions = []
    for name, text in texts.items():
        with about(name):
            expression = sympy.sympify(parse(text).sympy({"t": time}))
            for k in range(order + 1):
                if k:
                    expression = sympy.diff(expression, time)
                _check_parts(expression, name, k)
                expressions.append(expression)
    block = emit.Block(None)
    block.store("out", block.evaluate(expressions))
    sizes = sizes_text({"n_entries": len(expressions)})
    signals = block.function(Signature.of(SignalsKernel, "signals"), "t")
    return emit.HEADER + sizes + signals + "\n\n" + Signature.of(SignalsKernel, "table").definition() + _TABLE


_TABLE = """\
    for i in range(n):
        signals(t[i], out[i])
"""


def _check_parts(expression: Any, name: str, order: int) -> None:
    """Raise ExpressionError for a derivative that is too long to be compiled."""
    import sympy

    if sum(1 for _ in islice(sympy.preorder_traversal(expression), MOST_PARTS + 1)) > MOST_PARTS:
        which = f"its derivative of order {order}" if order else "it"
        text = f"{name}: {which} has more than {MOST_PARTS} parts, too many to be compiled; use fewer factors, "
        raise ExpressionError(f"{text}or write sums instead of products")


__all__ = ["ExpressionError", "Signals", "load_signals"]
