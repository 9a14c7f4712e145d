"""The generated module of a law with an extension: vector relative degree, integrators of its own (see `extension`).

Its functions have the signatures of any law's. The convergence rates are parameters, after those of machine and
program, because the integrators' rates depend on them too; the gains K are not read. `W` of `terms` is the decoupling
matrix over the unknowns, `J` the gradient of f^(r-1) by the velocities.
"""

from math import comb
from typing import Any

import sympy

from servonode.controllers.engine.extension import Extension, Key
from servonode.controllers.engine.keep_source import Kept, kept_inputs, limited_by_integrators, rows_of, scaled
from servonode.controllers.engine.kernels import LawKernel
from servonode.controllers.engine.law_solve import solve_texts
from servonode.controllers.engine.law_texts import arguments, follow_text
from servonode.controllers.engine.layout import GoalLayout
from servonode.controllers.engine.program import gain_symbol, keep_symbols, limit_symbols, weight_symbol
from servonode.controllers.engine.servo import Servo
from servonode.mechanics import emit
from servonode.mechanics.emit import Block, Constants, local
from servonode.mechanics.kernels import Argument, Signature

Expr = Any


def constants_of(servo: Servo, weighted: bool = False) -> Constants:
    """The constants of a law: parameters of machine and program, then, with an extension, the convergence rates.

    weighted: then the weights of the inputs. Last the numbers of what is kept, and the limits of the inputs.
    """
    program, model = servo.program, servo.equations.model
    rates = [gain_symbol(each.quantity.name) for each in program.residuals] if servo.extension else []
    weights = [weight_symbol(each.name) for each in model.inputs] if weighted else []
    kept = [symbol for each in program.keep for symbol in keep_symbols(each.quantity.name)]
    sides = zip(*(limit_symbols(u.name) for u in model.inputs), strict=True) if servo.keeping else ()
    limits = [symbol for side in sides for symbol in side]
    return Constants([*model.parameters, *program.parameters, *rates, *weights, *kept, *limits])


class Texts:
    """Emitted unknowns of the law, and what they are found from."""

    def __init__(self, servo: Servo, extension: Extension, block: Block, goal: GoalLayout) -> None:
        """The block has loaded its `arguments`."""
        self.servo, self.extension, self.block = servo, extension, block
        _load_integrators(servo, extension, block, goal)
        self._atoms, self._bound = _shared(servo, extension), set[Expr]()
        block.lines += [f"    a = empty({len(self._atoms)})", "    atoms(t_, x, y, c, a)"]
        self.known: dict[Key, str] = {}  # inputs and the integrators' rates, after `solve`
        self.free: list[str] = []  # the unknowns without what is kept
        self.kept: Kept | None = None
        self.W = [[self.text(each) for each in row] for row in extension.matrix()]

    def text(self, expression: Expr) -> str:
        """The text of an expression of atoms."""
        expression = sympy.sympify(expression)
        new = (expression.free_symbols & self._atoms.keys()) - self._bound
        for each in sorted(new, key=self._atoms.__getitem__):
            self.block.bind(each, f"a[{self._atoms[each]}]")
        self._bound |= new
        return self.block.evaluate([expression])[0]

    def demand(self, i: int) -> Expr:
        """What is asked of f^(r) of residual i: (d/dt + lambda)^r f = 0."""
        rate = gain_symbol(self.servo.program.residuals[i].quantity.name)
        f = self.extension.chains[i].derivatives
        return -sympy.Add(*(comb(len(f), j) * rate ** (len(f) - j) * each for j, each in enumerate(f)))

    def solve(self) -> tuple[str, str]:
        """Find all unknowns; the texts of the condition number and of the determinant."""
        sides = [self.text(self.demand(i) - each.drift) for i, each in enumerate(self.extension.chains)]
        found, condition, determinant = solve_texts(self.block, self.W, sides, self._single_condition())
        if self.servo.keeping:
            self.free, self.kept = found, self._kept(found)
            found = self.kept.tau
        self.known = dict(zip(self.extension.unknowns, found, strict=True))
        for key, held in reversed(self.extension.held.items()):  # a share is of what was held later, or never
            shares = [("-", self.text(share), self.known[other]) for other, share in held.shares.items()]
            self.known[key] = self.block.let(emit.combine(shares, self.text(held.value)))
        return condition, determinant

    def _kept(self, found: list[str]) -> Kept:
        """The unknowns nearest to these that keep all, so that integrators go on from what is kept."""
        servo, extension, own = self.servo, self.extension, []
        rates = [gain_symbol(each.quantity.name) for each in servo.program.residuals]
        gains = [self.text(rate**r) for rate, r in zip(rates, extension.relative_degrees, strict=True)]
        for k in limited_by_integrators(servo):
            row, value = extension.put_in({("input", k): sympy.Integer(1)}, sympy.Integer(0))
            text, A = self.text(value), [self.text(row.get(key, 0)) for key in extension.unknowns]
            low, high = self.block.evaluate(limit_symbols(list(servo.equations.model.inputs)[k].name))
            own.append((A, self.block.let(f"max({low}, -1e300) - {text}")))
            own.append(([self.block.let(f"-{each}") for each in A], self.block.let(f"{text} - min({high}, 1e300)")))
        rows = rows_of(servo, self.block, None, self.text)

        def goals() -> list[list[str]]:
            return [scaled(self.block, gain, row) for gain, row in zip(gains, self.W, strict=True)]

        return kept_inputs(servo, self.block, rows, goals, found, own)

    def _single_condition(self) -> str:
        """norm(J) norm(R) / norm(W) of a single residual."""
        if len(self.W) > 1:
            return ""
        stated = (self.extension.gradient(0), self.extension.motion.R[0])
        entries = ([self.text(each) for each in row] for row in stated)
        row, response = (" + ".join(f"fabs({each})" for each in row) for row in entries)
        return self.block.let(f"({row})*({response})/fabs({self.W[0][0]})")


def extended_functions(servo: Servo, extension: Extension, constants: Constants, goal: GoalLayout) -> list[str]:
    """The texts of all functions but `law` and those of the start."""
    functions = [_atoms(servo, extension, constants, goal)]
    functions += [_chains(servo, extension, constants, goal), _terms(servo, extension, constants, goal)]
    if not (extension.integrators or servo.program.states):
        return functions
    start, rates = _initial_states(servo, extension, goal), _state_rates(servo, extension, constants, goal)
    return [*functions, start, rates, follow_text(len(servo.program.states) + len(extension.integrators), goal)]


def _load_integrators(servo: Servo, extension: Extension, block: Block, goal: GoalLayout) -> None:
    block.load("y", [each.symbol for each in extension.integrators], goal.states.start + len(servo.program.states))


def _shared(servo: Servo, extension: Extension) -> dict[Expr, int]:
    """The atoms of which all functions are made, with their places in what `atoms` finds."""
    made_of = {*extension.atoms, *extension.motion.R[0], *(atom for face in servo.faces for atom in face.atoms)}
    made_of |= {each for i in range(len(extension.chains)) for each in extension.gradient(i)}
    return {each: i for i, each in enumerate(each for each in extension.motion.line.definitions if each in made_of)}


def _atoms(servo: Servo, extension: Extension, constants: Constants, goal: GoalLayout) -> str:
    """Generated `atoms(t, x, y, c, a)`: what all other functions are made of, so that it is compiled once."""
    block, shared = arguments(servo, goal, constants), _shared(servo, extension)
    _load_integrators(servo, extension, block, goal)
    extension.motion.line.emit(block, shared, set())
    block.store("a", map(local, shared))
    stated = Signature.of(LawKernel, "chains").arguments[:-1]
    return block.function(Signature("atoms", (*stated, Argument("a", "f64", (len(shared),)))), "t")


def law_texts(texts: Texts) -> tuple[list[str], list[str], list[str], str, str]:
    """Inputs, f, f', the condition number and the determinant."""
    condition, determinant = texts.solve()
    inputs = [texts.known["input", k] for k in range(len(texts.extension.motion.R))]
    chains = [each.derivatives for each in texts.extension.chains]
    f = [texts.text(each[0]) for each in chains]
    f_dot = [texts.text(each[1]) if len(each) > 1 else "0.0" for each in chains]
    return inputs, f, f_dot, condition, determinant


def _initial_states(servo: Servo, extension: Extension, goal: GoalLayout) -> str:
    """Generated `initial_states(t, x, y, p, out)`: the program's own states, then the integrators."""
    block, line, done = arguments(servo, goal, None, states=False), extension.motion.line, set[Expr]()
    block.load("p", constants_of(servo).parameters)
    starts = block.evaluate([servo.resolved(each.start) for each in servo.program.states])
    for state, text in zip(servo.program.states, starts, strict=True):
        block.bind(state, text)
    for each in extension.integrators:
        line.emit(block, each.start.free_symbols, done)
        starts += block.evaluate([each.start])
        block.bind(each.symbol, starts[-1])
    block.store("out", starts)
    return block.function(Signature.of(LawKernel, "initial_states"), "t")


def _state_rates(servo: Servo, extension: Extension, constants: Constants, goal: GoalLayout) -> str:
    """Generated `state_rates(t, x, y, c, out)`: of the program's own states, then of the integrators."""
    block = arguments(servo, goal, constants)
    texts = Texts(servo, extension, block, goal)
    texts.solve()
    rates = block.evaluate(servo.state_rates)
    block.store("out", [*rates, *(texts.known["rate", i] for i in range(len(extension.integrators)))])
    return block.function(Signature.of(LawKernel, "state_rates"), "t")


def _chains(servo: Servo, extension: Extension, constants: Constants, goal: GoalLayout) -> str:
    """Generated `chains(t, x, y, c, out)`: f, f', ..., f^(r-1) of each residual."""
    block = arguments(servo, goal, constants)
    texts = Texts(servo, extension, block, goal)
    block.store("out", [texts.text(each) for chain in extension.chains for each in chain.derivatives])
    return block.function(Signature.of(LawKernel, "chains"), "t")


def _terms(servo: Servo, extension: Extension, constants: Constants, goal: GoalLayout) -> str:
    """Generated `terms(t, x, y, c, f, f_dot, J, delta, W, b, F)`; `delta` is 0, b what W u is without demand."""
    block = arguments(servo, goal, constants)
    texts = Texts(servo, extension, block, goal)
    chains = [each.derivatives for each in extension.chains]
    block.store("f", [texts.text(each[0]) for each in chains])
    block.store("f_dot", [texts.text(each[1]) if len(each) > 1 else "0.0" for each in chains])
    block.store_table("J", [[texts.text(each) for each in extension.gradient(i)] for i in range(len(chains))])
    block.store_table("W", texts.W)
    return block.function(Signature.of(LawKernel, "terms"), "t")
