"""Trees of many bodies by recursion as data: their terms are computed by `kernels/lib/tree.py`, not written out.

An entry of a mass matrix or bias is a symbol then, a `Computed`, whose definition is made when someone asks for it.
What is compiled fills arrays by the functions of the tree and takes their entries: derivation and text grow with the
number of bodies, and not with its square.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy

from servonode.arrays import Array
from servonode.kernels.library import library_text
from servonode.mechanics.straight_line import Auxiliary, Rule, digest, named, ordered, symbols_of
from servonode.mechanics.symbols import Coordinate

if TYPE_CHECKING:
    from servonode.mechanics.emit import Block, Constants
    from servonode.mechanics.recursion import Recursion

Expr = Any
Matrix = Any  # of sympy
LEAST = 20  # motions from which on a tree is computed so
TREE_SIZES = {"n_axes": 3, "n_pose": 12, "n_inertia": 10, "one": 1}  # of what a tree of any size computes


class Computed(Auxiliary):
    """An entry of what a function of the kernel computes; its definition is made when it is asked for."""

    call: "Call"
    at: tuple[int, ...]

    def __new__(cls, call: "Call", *at: int) -> "Computed":
        at = tuple(map(int, at))
        name = f"{call.function}_{call.digest}_{'_'.join(f'{i:04}' for i in at)}"
        made: Computed = sympy.Symbol.__xnew__(cls, name, real=True)
        made.call, made.at, made.symbols, made.replaced = call, at, call.symbols, {}
        return made

    @property
    def definition(self) -> Expr:
        return self.call.definitions[self.at]

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.call.inputs

    def text(self, block: "Block") -> str:
        """Emit what computes it, once in a block; its text."""
        return f"{self.call.emit(block)}[{', '.join(map(str, self.at))}]"

    def _xreplace(self, rule: Mapping[Expr, Expr]) -> tuple[Expr, bool]:
        if self in rule:
            return rule[self], True
        relevant = frozenset((old, new) for old, new in rule.items() if old in self.symbols and old != new)
        if not relevant:
            return self, False
        if any(old in self.call.tree.fixed for old, _ in relevant):
            return self.definition.xreplace(rule), True
        return Computed(self.call.replaced(relevant), *self.at), True


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a function of a tree; `inputs` are the entries of its arrays between the tree's and its constants."""

    tree: "TreeData"
    function: str
    inputs: tuple[Expr, ...] = ()
    _replaced: dict[Rule, "Call"] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        return digest(sympy.Tuple(sympy.Symbol(self.tree.digest), *self.inputs))

    @cached_property
    def symbols(self) -> frozenset[Expr]:
        """Of all its entries."""
        return self.tree.fixed.union(*map(symbols_of, self.inputs))

    def replaced(self, rule: Rule) -> "Call":
        if rule not in self._replaced:
            inputs = tuple(sympy.sympify(each).xreplace(dict(rule)) for each in self.inputs)
            self._replaced[rule] = Call(self.tree, self.function, inputs)
        return self._replaced[rule]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        n = len(self.tree.motions)
        return {"tree_mass": (n, n), "tree_bias": (n,)}.get(self.function, (1,))

    @cached_property
    def definitions(self) -> Any:
        """The expressions of all entries, by the recursion of symbols."""
        program, n = self.tree.program, len(self.tree.motions)
        if self.function == "tree_mass":
            return program.mass_matrix
        if self.function in ("tree_kinetic", "tree_potential"):
            found = [program.kinetic if self.function == "tree_kinetic" else program.potential]
        else:
            drift = program.mass_matrix * sympy.Matrix(n, 1, self.inputs[n:])
            found = [named(a + b) for a, b in zip(program.bias, drift, strict=True)]
        rule = dict(zip(self.tree.motions, self.inputs, strict=False))
        return {(i,): each.xreplace(rule) for i, each in enumerate(found)}

    @property
    def arrays(self) -> list[tuple[Expr, ...]]:
        """Its inputs, by arrays."""
        n = len(self.tree.motions)
        return [self.inputs[i : i + n] for i in range(0, len(self.inputs), n)]

    def emit(self, block: "Block") -> str:
        """Emit the call; the name of the array of its results."""
        if self in block.arrays:
            return block.arrays[self][0]
        texts = [block.filled("v", block.evaluate(list(each))) for each in self.arrays]
        out = block.array(self.function.removeprefix("tree_"), self.shape)
        block.arrays[self] = (out,)
        P, rows = self.tree.placed(block)
        block.lines.append(f"    {self.function}({', '.join([P, *texts, rows, out])})")
        return out

    def at_states(self, values: dict[Expr, Array], value: Callable[[Expr, dict[Expr, Array]], Array]) -> Any:
        """Its entries -> their values (n_states,) where symbols have these; `value`: of an expression."""
        entries = [[value(each, values) for each in part] for part in (self.tree.places, *self.arrays, self.tree.rows)]
        size = max(np.size(each) for part in entries for each in part)
        columns = [np.array([np.broadcast_to(each, size) for each in part], dtype=float).T for part in entries]
        run, found = self.tree.functions[self.function], np.zeros((size, *self.shape))
        for P, *arrays, rows, out in zip(*columns, found, strict=True):
            run(P.reshape(-1, 12), *arrays, rows, 0, out)
        return {Computed(self, *at): found[:, *at] for at in np.ndindex(*self.shape)}


@dataclass(frozen=True, eq=False)
class TreeData:
    """A tree of nodes of a recursion, as the functions of the kernel take it."""

    program: "Recursion"
    _calls: dict[tuple[str, tuple[Expr, ...]], Call] = field(default_factory=dict)

    @cached_property
    def motions(self) -> list[Expr]:
        return [each.symbol for each in self.program.motions]

    @cached_property
    def parents(self) -> list[int]:
        return [each.parent for each in self.program.nodes]

    @cached_property
    def places(self) -> list[Expr]:
        """P: rotation and origin of each node in its parent's axes."""
        return [entry for node in self.program.nodes for part in (*node.R, node.p) for entry in part]

    @cached_property
    def rows(self) -> list[Expr]:
        """What does not move: gravity, nodes, motions."""
        found = list(self.program.gravity)
        for node in self.program.nodes:
            (xx, xy, xz), (_, yy, yz), (_, _, zz) = node.inertia
            found += [node.mass, *node.first, xx, yy, zz, xy, xz, yz]
        for each in self.program.motions:
            found += [*each.turn, *each.slide, each.armature]
        return [sympy.sympify(each) for each in found]

    @cached_property
    def coordinates(self) -> list[Expr]:
        found = frozenset[Expr]().union(*map(symbols_of, map(sympy.sympify, self.places)))
        return sorted((each for each in found if isinstance(each, Coordinate)), key=lambda each: each.name)

    @cached_property
    def fixed(self) -> frozenset[Expr]:
        """The symbols of coordinates and parameters."""
        return frozenset[Expr]().union(*(symbols_of(sympy.sympify(each)) for each in (*self.places, *self.rows)))

    @cached_property
    def digest(self) -> str:
        """What no other tree has."""
        return digest(sympy.Tuple(*self.places, *self.rows, *map(sympy.Integer, self.parents), *self.motions))

    @cached_property
    def text(self) -> str:
        """The functions of the tree, in the kernel language."""
        parents, n = self.parents, len(self.parents)
        branches = "".join(
            f"    if k == {k}:\n        return {parents[k]}\n" for k in range(1, n) if parents[k] != k - 1
        )
        counts = [len(each.motions) for each in self.program.nodes]
        ahead = [sum(counts[:k]) - k for k in range(n + 1)]
        shifts = "".join(f"    if k >= {k}:\n        return k + {ahead[k]}\n".replace("+ -", "- ")
                         for k in range(n, 0, -1) if ahead[k] != ahead[k - 1])  # fmt: skip
        sizes = TREE_SIZES | {"n_nodes": n, "n_two": 2 * n, "n_nine": 9 * n, "n_motions": len(self.motions)}
        given = f"def parent(k: i64) -> i64:\n{branches}    return k - 1\n\n\n"
        given += f"def first(k: i64) -> i64:\n{shifts}    return k\n\n\n"
        return given + library_text("tree", {}, sizes)

    @cached_property
    def functions(self) -> dict[str, Any]:
        """The same in Python, for a few states."""
        found: dict[str, Any] = {"empty": np.empty}
        exec(f"from __future__ import annotations\n{self.text}", found)  # noqa: S102  (a text of this package)
        return found

    def placed(self, block: "Block") -> tuple[str, str]:
        """Emit P, once in a block; the texts of it and of where the tree's constants stand."""
        if self not in block.arrays:
            if block.constants is not None:
                q = block.filled("q", block.evaluate(self.coordinates))
                P = block.array("P", (len(self.parents), 12))
                block.lines.append(f"    tree_joints({q}, c, {P})")
                rows = f"c, {block.constants.run(self.rows)}"
            else:
                P = block.filled("P", block.evaluate(self.places), 12)
                rows = f"{block.filled('rows', block.evaluate(self.rows))}, 0"
            block.arrays[self] = P, rows
        P, rows = block.arrays[self]
        return P, rows

    def entries(self, function: str, *inputs: Iterable[Expr]) -> Matrix:
        """All that a function computes."""
        stated = function, tuple(each for part in inputs for each in part)
        call = self._calls.setdefault(stated, Call(self, *stated))  # one, so that it is emitted once
        rows, columns = (*call.shape, 1)[:2]
        if function == "tree_mass":
            return sympy.Matrix(rows, columns, lambda i, k: Computed(call, i, k) if self._together(i, k) else 0)
        return sympy.Matrix(rows, columns, lambda i, _: Computed(call, i))

    def _together(self, i: int, k: int) -> bool:
        """Whether one of two motions moves the other."""
        return self._above[int(max(i, k))] & 1 << int(min(i, k)) != 0

    @cached_property
    def _above(self) -> list[int]:
        """Of each motion those that move it, as bits."""
        of_nodes, found = [0], list[int]()
        for node in self.program.nodes[1:]:
            own = sum(1 << (len(found) + i) for i in range(len(node.motions)))
            of_nodes.append(of_nodes[node.parent] | own)
            found += [of_nodes[-1]] * len(node.motions)
        return found


def accelerations(block: "Block", M: Matrix, force: Sequence[Expr]) -> list[str] | None:
    """Emit v' of M v' = force where M is that of a tree, and the force contains its bias; None where it is not.

    By articulated bodies, whose work grows with the number of bodies.
    """
    if not all(each == 0 or (isinstance(each, Computed) and each.call.function == "tree_mass") for each in M):
        return None
    order = [M[i, i].at[0] for i in range(M.rows)]
    tree = M[0, 0].call.tree
    calls = {each.call for each in ordered(force, written_out=False) if isinstance(each, Computed)}
    bias = [each for each in calls if each.function == "tree_bias"]
    if len(order) != len(tree.motions) or len(bias) != 1 or calls != set(bias):
        return None
    still = {Computed(bias[0], i): sympy.Integer(0) for i in order}
    rest = dict(zip(order, (each.xreplace(still) for each in force), strict=True))
    v, u = (block.filled(name, block.evaluate(part)) for name, part in
            (("v", bias[0].arrays[0]), ("u", [rest[i] for i in range(len(rest))])))  # fmt: skip
    dv = block.array("dv", (len(order),))
    P, rows = tree.placed(block)
    block.lines.append(f"    tree_accelerations({P}, {v}, {u}, {rows}, {dv})")
    return [f"{dv}[{i}]" for i in order]


def functions(tree: Any, constants: "Constants", *texts: str) -> list[str]:
    """The functions that texts call of a model's tree, in a module with these constants."""
    from servonode.mechanics.emit import Block

    if not (tree and tree.data and any("tree_" in text for text in texts)):
        return []
    data, block = tree.data, Block(constants)
    block.load("q", data.coordinates)
    block.store_rows("P", block.evaluate(data.places), 12)
    head = f"def tree_joints(q: f64[{len(data.coordinates)}], c: f64[n_constants], P: f64[{len(data.parents)}, 12]):\n"
    return [data.text, f"{head}{block}\n"]
