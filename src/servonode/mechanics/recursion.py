"""Kinematic trees by recursion: composite rigid bodies and Newton-Euler as straight-line programs (README eq. 3e).

A tree is a list of nodes, parents first, each with one joint; the first is the ground. What belongs to a node is in its
own axes, about its origin, which its joint leaves where it is. Structural zeros are left out by sympy's own arithmetic.
R. Featherstone, Rigid Body Dynamics Algorithms, 2008; J. Y. S. Luh, M. W. Walker, R. P. C. Paul, 1980.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sympy

from servonode.mechanics.straight_line import along, diff, named, symbols_of
from servonode.mechanics.symbols import time

Expr = Any
Vector = list[Expr]  # of 3
Turn = list[Vector]  # 3 rows of 3
ZERO: Vector = [sympy.Integer(0)] * 3
UNIT: Turn = [[sympy.Integer(int(i == k)) for k in range(3)] for i in range(3)]
_CYCLES = ((0, 1, 2), (1, 2, 0), (2, 0, 1))


@dataclass(frozen=True)
class Motion:
    """One degree of freedom of a joint: its symbol, the axis of turning or sliding, in the node's axes."""

    symbol: Expr
    turn: Vector
    slide: Vector
    armature: Expr


@dataclass(frozen=True)
class Node:
    """R: from the node's axes to the parent's; p: the node's origin in the parent's axes; both with the joint moved.

    `rates`: the joint's coordinates -> their rates. mass, first moment, inertia: about the origin.
    """

    parent: int
    R: Turn
    p: Vector
    motions: tuple[Motion, ...] = ()
    rates: Mapping[Expr, Expr] = field(default_factory=dict)
    mass: Expr = sympy.S.Zero
    first: Sequence[Expr] = field(default_factory=lambda: ZERO)
    inertia: Sequence[Vector] = field(default_factory=lambda: [ZERO] * 3)


class Recursion:
    """The programs of a tree, each made when it is first asked for; `nodes[0]` is the ground."""

    def __init__(self, nodes: Sequence[Node], gravity: Vector) -> None:
        self.nodes, self.gravity = nodes, gravity
        self.motions = [motion for node in nodes for motion in node.motions]

    @cached_property
    def places(self) -> list[tuple[Turn, Vector]]:
        """Rotation and origin of each node in the ground's axes."""
        return list(self.places_seen_from(0).values())

    def places_seen_from(self, start: int) -> dict[int, tuple[Turn, Vector]]:
        """Rotation and origin of a node, and of each that hangs on it, in its axes."""
        found: dict[int, tuple[Turn, Vector]] = {start: (UNIT, ZERO)}
        for i, node in enumerate(self.nodes):
            if node.parent in found and i > start:
                R, p = found[node.parent]
                found[i] = _named_rows(product(R, node.R)), _named(add(p, rotated(R, node.p)))
        return found

    @cached_property
    def velocities(self) -> list[tuple[Vector, Vector]]:
        """Angular velocity of each node and velocity of its origin, in its own axes."""
        found: list[tuple[Vector, Vector]] = [(ZERO, ZERO)]
        for node in self.nodes[1:]:
            w, v = found[node.parent]
            turning, sliding = self._relative(node)
            v = rotated_back(node.R, add(v, cross(w, node.p)))
            found.append((_named(add(rotated_back(node.R, w), turning)), _named(add(v, sliding))))
        return found

    @cached_property
    def kinetic(self) -> Expr:
        """The kinetic energy [J]."""
        total = [motion.armature * motion.symbol**2 / 2 for motion in self.motions]
        for node, (w, v) in zip(self.nodes, self.velocities, strict=True):
            momentum = add(scaled(node.mass / 2, v), cross(w, node.first))
            total.append(named(dot(v, momentum) + dot(w, times(node.inertia, w)) / 2))
        return named(sympy.Add(*total))

    @cached_property
    def potential(self) -> Expr:
        """The potential energy of gravity [J]."""
        return named(-dot(self.gravity, self.composites[0][1]))

    @cached_property
    def composites(self) -> list[tuple[Expr, Vector, Turn | None]]:
        """Mass, first moment and inertia of each node with all that hangs on it; no inertia where nothing turns."""
        turns = [False]
        for node in self.nodes[1:]:
            turns.append(turns[node.parent] or any(any(motion.turn) for motion in node.motions) or _moves(node))
        sums = [([node.mass], [node.first], [node.inertia]) for node in self.nodes]
        found: list[tuple[Expr, Vector, Turn | None]] = []
        for i in reversed(range(len(self.nodes))):
            node, (masses, firsts, inertias) = self.nodes[i], sums[i]
            m, h = named(sympy.Add(*masses)), _named(add(*firsts))
            inertia = _named_symmetric(add_rows(*inertias)) if turns[i] else None
            found.append((m, h, inertia))
            if i:
                above, turned = sums[node.parent], rotated(node.R, h)
                above[0].append(m)
                above[1].append(add(turned, scaled(m, node.p)))
                if turns[node.parent]:
                    above[2].append(_moved_inertia(node, m, _named(turned), inertia))
        return found[::-1]

    @cached_property
    def mass_matrix(self) -> sympy.MatrixBase:
        """M (n, n) of the motions: composite rigid bodies."""
        index = {motion.symbol: i for i, motion in enumerate(self.motions)}
        M = sympy.zeros(len(index), len(index))
        for node, (m, h, inertia) in zip(self.nodes, self.composites, strict=True):
            for motion in node.motions:
                i = index[motion.symbol]
                force = _named(add(scaled(m, motion.slide), cross(motion.turn, h)))
                torque = _named(add(cross(h, motion.slide), times(inertia, motion.turn) if inertia else ZERO))
                for above, f, n in self._upward(node, force, torque):
                    for other in above.motions:
                        k = index[other.symbol]
                        if k <= i:
                            M[i, k] = M[k, i] = named(dot(other.slide, f) + dot(other.turn, n))
                M[i, i] += motion.armature
        return M

    def _upward(self, node: Node, force: Vector, torque: Vector) -> Iterable[tuple[Node, Vector, Vector]]:
        """A node and all above it, with the force and torque in its axes."""
        while True:
            yield node, force, torque
            if node.parent == 0:
                return
            force = _named(rotated(node.R, force))
            torque = _named(add(rotated(node.R, torque), cross(node.p, force)))
            node = self.nodes[node.parent]

    @cached_property
    def bias(self) -> list[Expr]:
        """h (n,) of the motions: inertial forces without accelerations, and gravity; Newton-Euler."""
        loads = self._loads()
        found: list[Expr] = []
        for i in reversed(range(1, len(self.nodes))):
            node, (forces, torques) = self.nodes[i], loads[i]
            f, n = _named(add(*forces)), _named(add(*torques))
            found += [named(dot(each.slide, f) + dot(each.turn, n)) for each in reversed(node.motions)]
            if node.parent:
                f = _named(rotated(node.R, f))
                loads[node.parent][0].append(f)
                loads[node.parent][1].append(add(rotated(node.R, n), cross(node.p, f)))
        return found[::-1]

    def _loads(self) -> list[tuple[list[Vector], list[Vector]]]:
        """The forces and torques about the origin that move each node by itself, with the ground accelerated."""
        state = [(ZERO, scaled(-1, self.gravity), [ZERO] * 3)]  # angular velocity, acceleration, W of _turning
        alphas, loads = [ZERO], [([ZERO], [ZERO])]
        for node in self.nodes[1:]:
            w, a, W = state[node.parent]
            turning, sliding = self._relative(node)
            w_before = _named(rotated_back(node.R, w))
            w = _named(add(w_before, turning))
            alpha = _named(add(rotated_back(node.R, alphas[node.parent]), cross(w_before, turning), _drift(node)))
            a = rotated_back(node.R, _named(add(a, times(W, node.p), _second(node))))
            a = _named(add(a, scaled(2, cross(w_before, sliding))))
            W = _named_rows(_turning(w, alpha))
            state.append((w, a, W))
            alphas.append(alpha)
            force = add(scaled(node.mass, a), times(W, node.first))
            torque = add(_torque(W, node.inertia), cross(node.first, a))
            loads.append(([_named(force)], [_named(torque)]))
        self._add_growing(loads)
        return loads

    def _add_growing(self, loads: list[tuple[list[Vector], list[Vector]]]) -> None:
        """What masses that change with time add: what is added to a body was at rest."""
        for i, node in enumerate(self.nodes):
            mass, first, inertia = diff(node.mass, time), _rates(node.first), [_rates(row) for row in node.inertia]
            if mass != 0 or any(first) or any(map(any, inertia)):
                w, v = self.velocities[i]
                loads[i][0].append(_named(add(scaled(mass, v), cross(w, first))))
                loads[i][1].append(_named(add(times(inertia, w), cross(first, v))))

    def _relative(self, node: Node) -> tuple[Vector, Vector]:
        """Angular velocity and velocity of a node relative to its parent, in the node's axes."""
        turning = add(*(scaled(each.symbol, each.turn) for each in node.motions), _spin(node))
        sliding = add(ZERO, *(scaled(each.symbol, each.slide) for each in node.motions))
        return turning, add(sliding, rotated_back(node.R, _rates(node.p))) if _moves(node) else sliding


def _moves(node: Node) -> bool:
    """Whether its place in its parent changes with time by itself."""
    return any(time in symbols_of(each) for each in (*node.p, *node.R[0], *node.R[1], *node.R[2]))


def _rates(entries: Sequence[Expr]) -> Vector:
    return [diff(each, time) for each in entries]


def _spin(node: Node) -> Vector:
    """The angular velocity of a node's axes that change with time by themselves."""
    if not _moves(node):
        return ZERO
    W = product(list(zip(*node.R, strict=True)), [_rates(row) for row in node.R])
    return _named([W[2][1], W[0][2], W[1][0]])


def _drift(node: Node) -> Vector:
    """The rate of `_spin` in the node's axes."""
    return [along(each, {time: sympy.Integer(1), **node.rates}) for each in _spin(node)]


def _second(node: Node) -> Vector:
    """The part of the second rate of p that is not along the joint, where p changes with time by itself."""
    if not _moves(node):
        return ZERO
    twice = {q: 2 * rate for q, rate in node.rates.items()}
    return [along(each, {time: sympy.Integer(1), **twice}) for each in _rates(node.p)]


def _turning(w: Vector, alpha: Vector) -> Turn:
    """W with acceleration W r of a point at r: [alpha] + w w^T - w.w."""
    W = [[w[i] * w[k] for k in range(3)] for i in range(3)]
    for i, j, k in _CYCLES:
        W[i][i] = -(w[j] ** 2) - w[k] ** 2
        W[j][k], W[k][j] = W[j][k] - alpha[i], W[k][j] + alpha[i]
    return W


def _torque(W: Turn, inertia: Sequence[Vector]) -> Vector:
    """I alpha + w x I w, from the second moments J = tr(I)/2 - I: the axis of W J - (W J)^T."""
    half = (inertia[0][0] + inertia[1][1] + inertia[2][2]) / 2
    J = [[named((half if i == k else 0) - inertia[i][k]) for k in range(3)] for i in range(3)]
    return [dot(W[k], J[j]) - dot(W[j], J[k]) for _, j, k in _CYCLES]


def _moved_inertia(node: Node, m: Expr, first: Vector, inertia: Turn | None) -> Turn:
    """The inertia of what hangs on a node about its parent's origin; `first`: its first moment in the parent's axes."""
    moved = shifted(m, first, node.p)
    if inertia is None:
        return moved
    return add_rows(product(node.R, _named_rows(product(inertia, list(zip(*node.R, strict=True))))), moved)


def shifted(m: Expr, first: Sequence[Expr], p: Sequence[Expr]) -> Turn:
    """What an inertia changes by when what it belongs to, with this first moment about its origin, moves by p."""
    s = add(scaled(2, first), scaled(m, p))
    whole = dot(s, p)
    return [[(whole if i == k else 0) - (s[i] * p[k] + s[k] * p[i]) / 2 for k in range(3)] for i in range(3)]


def turn_of(w: Expr, x: Expr, y: Expr, z: Expr) -> Turn:
    """The rotation of a quaternion, times the square of its length."""
    return [
        [w**2 + x**2 - y**2 - z**2, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w**2 - x**2 + y**2 - z**2, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w**2 - x**2 - y**2 + z**2],
    ]


def add(*vectors: Sequence[Expr]) -> Vector:
    return [sympy.Add(*entries) for entries in zip(*vectors, strict=True)]


def add_rows(*tables: Sequence[Sequence[Expr]]) -> Turn:
    return [add(*rows) for rows in zip(*tables, strict=True)]


def scaled(factor: Expr, vector: Sequence[Expr]) -> Vector:
    return [factor * each for each in vector]


def dot(a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
    return sympy.Add(*(x * y for x, y in zip(a, b, strict=True)))


def cross(a: Sequence[Expr], b: Sequence[Expr]) -> Vector:
    return [a[j] * b[k] - a[k] * b[j] for _, j, k in _CYCLES]


def times(rows: Sequence[Sequence[Expr]], vector: Sequence[Expr]) -> Vector:
    return [dot(row, vector) for row in rows]


def product(A: Sequence[Sequence[Expr]], B: Sequence[Sequence[Expr]]) -> Turn:
    return [[dot(row, column) for column in zip(*B, strict=True)] for row in A]


rotated = times


def rotated_back(R: Turn, vector: Sequence[Expr]) -> Vector:
    return times(list(zip(*R, strict=True)), vector)


def _named(vector: Iterable[Expr]) -> Vector:
    return [named(each) for each in vector]


def _named_rows(rows: Iterable[Iterable[Expr]]) -> Turn:
    return [_named(row) for row in rows]


def _named_symmetric(rows: Turn) -> Turn:
    upper = {(i, k): named(rows[i][k]) for i in range(3) for k in range(i, 3)}
    return [[upper[min(i, k), max(i, k)] for k in range(3)] for i in range(3)]
