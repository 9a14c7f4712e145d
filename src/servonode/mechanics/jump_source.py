"""The part of a machine's module that sets states at once: what each jump sets, and which act.

A jump acts where its relation begins to hold. Then all are looked at again at the same instant, in their order, until
none acts. One that has acted acts again once its relation has ceased to hold, or at once where another one has turned
the motion back towards its far side. All modes call `settle`: the sampled ones at the end of a step (`integrate`), the
continuous one where it has located a beginning.
"""

from typing import Any

import sympy

from servonode.mechanics.emit import Block, Constants, local
from servonode.mechanics.kernels import MachineKernel, Signature
from servonode.mechanics.model import Model
from servonode.mechanics.straight_line import along
from servonode.mechanics.switches import without_signs
from servonode.mechanics.symbols import before, time

Expr = Any
PROJECTIONS = 20  # Gauss-Newton steps back onto what is held, from as far as a start or a jump may leave it
_MOST = 100  # jumps at one instant; more are without end
_TURNED = 1e-9  # share of a margin's rate: what is left of it after an impact that takes all speed is rounding


def jump_source(model: Model, constants: Constants) -> list[str]:
    """The generated functions."""
    strict = " or ".join(f"i == {i}" for i, each in enumerate(model.jumps) if each.strict)
    holds = f"    if {strict}:\n        return margin > 0.0\n" if strict else ""
    texts = {"holds": f"{holds}    return margin >= 0.0\n", "turns_back": _TURNS_BACK, "settle": _SETTLE}
    return [
        _margin_rates(model, constants),
        _act(model, constants),
        *(Signature.of(MachineKernel, name).definition() + text for name, text in texts.items()),
    ]


def _margin_rates(model: Model, constants: Constants) -> str:
    """The rates of the margins where the state moves by dx."""
    rates = {symbol: sympy.Symbol(f"rate_of_{symbol.name}", real=True) for symbol in model.state}
    block = Block(constants)
    block.load("x", model.state)
    block.load("dx", rates.values())
    changes = rates | {time: sympy.Integer(1)}
    block.store("out", block.evaluate([along(without_signs(each.margin), changes) for each in model.jumps]))
    return block.function(Signature.of(MachineKernel, "margin_rates"), "t")


def _act(model: Model, constants: Constants) -> str:
    """What jump i sets; the result is brought onto what is held; the change of energy counts as work."""
    block = Block(constants)
    block.load("x", model.state)
    block.lines += [f"    {local(before(each))} = b[{i}]" for i, each in enumerate(model.state)]
    block.lines += ["    old = empty(2)", "    new = empty(2)", "    energy(t_, x, c, old)"]
    for i, each in enumerate(model.jumps):
        inner = Block(constants)
        texts = inner.evaluate(list(each.changes.values()))
        block.lines += [f"    if i == {i}:", *(f"    {line}" for line in inner.lines)]
        block.lines += [
            f"        x[{model.state.index(q)}] = {text}" for q, text in zip(each.changes, texts, strict=True)
        ]
    if model.held:
        block.lines += [f"    for _ in range({PROJECTIONS}):", "        project(t_, x, c)"]
    block.lines += ["    energy(t_, x, c, new)", f"    x[{len(model.state)}] += new[0] + new[1] - old[0] - old[1]"]
    return block.function(Signature.of(MachineKernel, "act"), "t")


_TURNS_BACK = f"""\
    \"\"\"Whether jump i is a wall here: its margin grows, and after it would not, or its relation would cease.\"\"\"
    m = empty(n_jumps)
    y = empty(n_x)
    dx = empty(n_x)
    first = empty(n_jumps)
    then = empty(n_jumps)
    for j in range(n_x):
        y[j] = x[j]
    derivatives(t, y, u, c, dx)
    margin_rates(t, y, dx, c, first)
    act(i, t, b, y, c)
    derivatives(t, y, u, c, dx)
    margin_rates(t, y, dx, c, then)
    margins(t, y, c, m)
    return first[i] > 0.0 and (then[i] <= {_TURNED!r} * first[i] or not holds(i, m[i]))
"""
_SETTLE = f"""\
    \"\"\"Let the jumps act at one instant, the first that is free and holds again and again; whether that ends.

    b: the state at the step's beginning. slack [s]: what will hold so soon holds. located: the jump that
    acts where none holds, its beginning being known by rounding only; -1: none. acted counts for each.
    \"\"\"
    m = empty(n_jumps)
    dx = empty(n_x)
    rates = empty(n_jumps)
    turned = empty(n_jumps)
    for i in range(n_jumps):
        acted[i] = 0.0
    for k in range({_MOST}):
        margins(t, x, c, m)
        derivatives(t, x, u, c, dx)
        margin_rates(t, x, dx, c, rates)
        chosen = located if k == 0 else -1
        for j in range(n_jumps):
            i = n_jumps - 1 - j
            if free[i] > 0.0 and holds(i, m[i] + slack * rates[i]):
                chosen = i
        if chosen < 0:
            return True
        act(chosen, t, b, x, c)
        acted[chosen] += 1.0
        free[chosen] = 0.0
        margins(t, x, c, m)
        derivatives(t, x, u, c, dx)
        margin_rates(t, x, dx, c, turned)
        for i in range(n_jumps):
            if not holds(i, m[i] + slack * turned[i]):
                free[i] = 1.0
            elif i != chosen and rates[i] <= 0.0 and turns_back(i, t, b, x, u, c):
                free[i] = 1.0
    return False
"""
