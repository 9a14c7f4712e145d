"""Goals of any relative degree, dynamic extension (docs/explanation/mathematics.md, eq. 10).

Each residual is differentiated until an unknown appears: an input, or the rate of an integrator of the law. Where the
rows of the unknowns depend on each other at all states, integrators are put in front of what comes too early (Singh
1981; Descusse and Moog 1985), and the residuals that depended are differentiated on. Each step either ends in a regular
system of linear equations, or uses up one of the states that residuals and their derivatives can be: so it ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy

from servonode.controllers.engine.motion import ZERO, Motion
from servonode.controllers.engine.resolution import Resolution
from servonode.definitions.progress import doing
from servonode.mechanics.description import Quantity, derivative_name
from servonode.mechanics.evaluate import GenericPoints, rank

Expr = Any
Key = tuple[str, int]  # of an unknown: ("input", k), or ("rate", i) of integrator i
Row = dict[Key, Expr]  # coefficients of unknowns, without zeros
MANY = 16  # points at which columns are compared


class Unreachable(Exception):
    """No extension makes the inputs reach the residuals; the text says why, `residual` is the one in question."""

    def __init__(self, text: str, residual: int | None = None) -> None:
        super().__init__(text)
        self.residual = residual


@dataclass(frozen=True)
class Integrator:
    """A state of the law: an input with what others add to it, or the rate of another integrator."""

    symbol: Expr
    quantity: Quantity
    start: Expr  # atom


@dataclass
class Chain:
    """f, f', ... of one residual as atoms, the last of them with its rate: `drift` + `row` times the unknowns."""

    derivatives: list[Expr]
    drift: Expr = ZERO
    row: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """What an unknown is where an integrator is in front of it: `value` less the `shares` times other unknowns."""

    value: Expr  # atom
    shares: Row


@dataclass(frozen=True)
class Step:
    """One extension: the inputs and the residuals, by their numbers, that come too early."""

    inputs: tuple[int, ...]
    residuals: tuple[int, ...]
    held: tuple[str, ...]  # what is demanded through one more integrator


@dataclass
class Extension:
    """The result: chains of all residuals, whose last rates determine as many unknowns.

    `held` are the unknowns that integrators determine, together with the others.
    """

    motion: Motion
    chains: list[Chain]
    integrators: list[Integrator]
    held: dict[Key, Held]
    steps: list[Step]

    @property
    def unknowns(self) -> list[Key]:
        """Inputs first, then the rates of integrators."""
        inputs = [("input", k) for k in range(len(self.motion.R))]
        rates = [("rate", i) for i in range(len(self.integrators))]
        return [each for each in (*inputs, *rates) if each not in self.held]

    def put_in(self, row: Row, drift: Expr) -> tuple[Row, Expr]:
        """A row over all inputs and rates, and its drift, over the unknowns: what integrators determine is drift."""
        for key, held in reversed(self.held.items()):  # a share is of what was held later, or never
            coefficient = row.pop(key, ZERO)
            drift += coefficient * held.value
            for other, share in held.shares.items():
                row[other] = row.get(other, ZERO) - coefficient * share
        return row, drift

    @property
    def relative_degrees(self) -> tuple[int, ...]:
        """The vector relative degree."""
        return tuple(len(each.derivatives) for each in self.chains)

    @property
    def atoms(self) -> list[Expr]:
        """All that law and starts are made of."""
        found = [each.start for each in self.integrators]
        found += [each for held in self.held.values() for each in (held.value, *held.shares.values())]
        for each in self.chains:
            found += [*each.row.values(), each.drift, *each.derivatives]
        return found

    def gradient(self, i: int) -> list[Expr]:
        """The derivatives of f^(r-1) of residual i by the velocities."""
        return self.motion.gradient(self.chains[i].derivatives[-1])

    def matrix(self) -> list[list[Expr]]:
        """The decoupling matrix: coefficients of the unknowns in the last derivatives of the residuals."""
        return [[each.row.get(key, ZERO) for key in self.unknowns] for each in self.chains]


def extend(motion: Motion, resolved: Resolution, f: Sequence[Expr]) -> Extension:
    """The extension of a program's residuals f on a machine with as many inputs.

    Raises:
        Unreachable: no such extension exists.
    """
    return _Structure(motion, resolved, f).found()


class _Structure:
    """The structure algorithm: its steps, each a method, share the extension that they build."""

    def __init__(self, motion: Motion, resolved: Resolution, f: Sequence[Expr]) -> None:
        model, program = resolved.model, resolved.program
        self.motion, self.line, self.points = motion, motion.line, GenericPoints(motion.line.definitions_of)
        self.residuals, self.inputs = [e.quantity for e in program.residuals], [u.quantity for u in model.inputs]
        self.n_states = len(model.state) + len(program.states)
        chains = [Chain([self.line.define(each)]) for each in f]
        self.it = Extension(motion, chains, [], {}, [])
        self._names: list[tuple[str, str, int]] = []  # of each integrator: name, unit and order of what it holds

    def found(self) -> Extension:
        for chain in self.it.chains:
            self._rate(chain)
            self._advance(chain)
        while dependent := self._dependent():
            self._extend(*dependent)
        return self.it

    def _advance(self, chain: Chain) -> None:
        """Differentiate a residual until an unknown appears."""
        while not chain.row:
            chain.derivatives.append(chain.drift)
            if len(chain.derivatives) > self.n_states + len(self.it.integrators):
                i = self.it.chains.index(chain)
                raise Unreachable(f"at the states tried no derivative of {self.residuals[i].name} contains an input", i)
            self._rate(chain)

    def _rate(self, chain: Chain) -> None:
        """Set drift and row of a chain."""
        name = self.residuals[self.it.chains.index(chain)].name
        doing("deriving", f"derivative {len(chain.derivatives)} of {name}")
        last = chain.derivatives[-1]
        gradient = [self._without_zeros(each) for each in self.motion.gradient(last)]
        row: Row = {("input", k): self.motion.by_input(k, gradient) for k in range(len(self.inputs))}
        for i, each in enumerate(self.it.integrators):
            row["rate", i] = self.motion.partial(last, each.symbol)
        self._put(chain, row, self.motion.drift(last))

    def _put(self, chain: Chain, row: Row, drift: Expr) -> None:
        """Give a chain its row over the unknowns: what integrators determine goes into the drift."""
        row, drift = self.it.put_in(row, drift)
        found = {key: self._without_zeros(self.line.define(each)) for key, each in row.items()}
        chain.row = {key: each for key, each in found.items() if each != 0}
        chain.drift = self._without_zeros(self.line.define(drift))

    def _without_zeros(self, atom: Expr) -> Expr:
        return ZERO if self.points.zero(atom) else atom

    def _rank(self, residuals: Sequence[int]) -> int:
        """The rank of the rows of these residuals."""
        keys = self.it.unknowns
        atoms = [self.it.chains[i].row.get(key, ZERO) for i in residuals for key in keys]
        n = len(keys)
        rows = [[flat[k : k + n] for k in range(0, len(flat), n)] for flat in self.points.values(atoms)]
        if not rows:
            names = " and ".join(self.residuals[i].name for i in residuals)
            raise Unreachable(f"the derivatives of {names} are not real numbers at random states")
        return max(map(rank, rows))

    def _dependent(self) -> tuple[list[int], list[int]] | None:
        """Residuals whose rows are independent, and the others; None where there are no others."""
        basis: list[int] = []
        for i in range(len(self.residuals)):
            if self._rank([*basis, i]) > len(basis):
                basis.append(i)
        others = [i for i in range(len(self.residuals)) if i not in basis]
        return (basis, others) if others else None

    def _extend(self, basis: list[int], others: list[int]) -> None:
        """Put integrators in front of what the dependent rows share, and differentiate these residuals on."""
        early = [i for i in basis if any(self._exchanges(basis, i, j) for j in others)]
        residuals = sorted([*early, *others])
        keys = [key for key in self.it.unknowns if any(key in self.it.chains[i].row for i in residuals)]
        made = len(self.it.integrators)
        doing("deriving", f"extension {len(self.it.steps) + 1}")
        self._hold(self._pivots(keys, residuals, len(early)), keys, residuals)
        for chain in self.it.chains:
            self._put(chain, chain.row, chain.drift)
            self._advance(chain)
        held = tuple(each.quantity.name for each in self.it.integrators[made:])
        inputs = tuple(k for kind, k in keys if kind == "input")
        inputs = inputs or (self.it.steps[-1].inputs if self.it.steps else ())  # all are rates of integrators
        self.it.steps.append(Step(inputs, tuple(residuals), held))
        if sum(self.it.relative_degrees) > self.n_states + len(self.it.integrators):
            names = " and ".join(self.residuals[i].name for i in residuals)
            raise Unreachable(f"{names} depend on each other, however often they are differentiated")

    def _exchanges(self, basis: Sequence[int], i: int, j: int) -> bool:
        """Whether row j depends on row i of the basis: it can take its place."""
        return self._rank([j if each == i else each for each in basis]) == len(basis)

    def _pivots(self, keys: Sequence[Key], residuals: Sequence[int], n: int) -> list[Key]:
        """n unknowns whose columns span those of all, each the one whose column changes least from point to point."""
        chosen: list[Key] = []
        while len(chosen) < n:
            rest = [key for key in keys if key not in chosen]
            chosen.append(max(rest, key=lambda key: self._evenness([*chosen, key], residuals)))
        return sorted(chosen, key=keys.index)

    def _evenness(self, keys: Sequence[Key], residuals: Sequence[int]) -> float:
        """The least volume of columns over the largest, at all points: near 0 where they may become dependent."""
        gram = sympy.Matrix([[self._product(a, b, residuals) for b in keys] for a in keys])
        volume = self.line.define(gram.det(method="berkowitz"))
        values = [abs(row[0]) for row in self.points.values([volume], most=MANY)]
        return float(min(values) / max(values)) if values and max(values) else 0.0

    def _product(self, a: Key, b: Key, residuals: Sequence[int]) -> Expr:
        rows = [self.it.chains[i].row for i in residuals]
        return self.line.dot([row.get(a, ZERO) for row in rows], [row.get(b, ZERO) for row in rows])

    def _hold(self, pivots: Sequence[Key], keys: Sequence[Key], residuals: Sequence[int]) -> None:
        """Put an integrator in front of each pivot, or in front of all that adds to these last rates as the pivots do.

        The rates are then functions of states and integrators, which start such that the rates are as small as can be.
        """
        others = [key for key in keys if key not in pivots]
        drifts = [self.it.chains[i].drift for i in residuals]
        columns = [[self._product(a, b, residuals) for a in pivots] for b in others]
        known = [[self.it.chains[i].row.get(a, ZERO) for i in residuals] for a in pivots]
        gram = [[self._product(a, b, residuals) for b in pivots] for a in pivots]
        starts, *shares = self.line.solve_symmetric(gram, [[self.line.dot(a, drifts) for a in known], *columns])
        for n, key in enumerate(pivots):
            start = ZERO if others else self.line.define(-starts[n])
            symbol = self._integrator(key, start)
            value = self.line.define(symbol - starts[n]) if others else symbol
            self.it.held[key] = Held(value, {other: each[n] for other, each in zip(others, shares, strict=True)})

    def _integrator(self, key: Key, start: Expr) -> Expr:
        """The symbol of a new integrator in front of an unknown."""
        kind, k = key
        name, unit, before = (self.inputs[k].name, self.inputs[k].unit, -1) if kind == "input" else self._names[k]
        order = before + 1
        called = f"demanded_{derivative_name(name, order)}"
        symbol = sympy.Symbol(called, real=True)
        rate = {0: unit, 1: f"{unit}/s"}.get(order, f"{unit}/s^{order}")
        what = f"derivative of order {order} of {name}" if order else name
        quantity = Quantity(called, f"{what}, as the law demands it", rate)
        self._names.append((name, unit, order))
        self.it.integrators.append(Integrator(symbol, quantity, start))
        return symbol
