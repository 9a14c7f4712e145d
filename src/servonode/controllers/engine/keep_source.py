"""The text of what a law keeps: rows a tau >= b of its faces, and the solve for the nearest inputs that keep them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

from servonode.controllers.engine.faces import Face
from servonode.controllers.engine.law_texts import Texts, dot
from servonode.controllers.engine.program import keep_symbols, limit_symbols, weight_symbol
from servonode.controllers.engine.servo import Servo
from servonode.kernels.library import library_text
from servonode.mechanics import emit
from servonode.mechanics.emit import Block
from servonode.mechanics.machine_source import unpack_lower

Expr = Any
AtomText = Callable[[Expr], str]
ROUNDING = 1e-9  # share of its terms below which a row is 0


def solver_text(servo: Servo, goals: int) -> str:
    """The functions of the solver, for a law's numbers of inputs, goals and rows; none of them is empty."""
    sizes = {"n_tau": len(servo.equations.model.inputs), "n_goals": max(goals, 1), "n_rows": max(len(servo.faces), 1)}
    return library_text("nearest", {}, sizes)


@dataclass(frozen=True)
class FaceRow:
    """Emitted texts of one face: h, h less its margin, the last function before the row, and the row A tau >= b."""

    face: Face
    h: str
    less: str
    last: str
    A: list[str]
    b: str

    def at(self, block: Block, tau: Sequence[str]) -> str:
        """h under these inputs, on which that of relative degree 0 depends."""
        if self.face.degree:
            return self.h
        return block.let(emit.combine((("+", a, u) for a, u in zip(self.A, tau, strict=True)), self.h))


class FaceTexts:
    """Emits the rows of all faces.

    texts: the terms of the law; None where all faces are chains. atom: the text of an atom of a chain.
    """

    def __init__(self, servo: Servo, block: Block, texts: Texts | None, atom: AtomText) -> None:
        self.servo, self.block, self.texts, self.atom = servo, block, texts, atom
        self._own = iter(texts.faces if texts else [])
        self._forces = _Forces(servo, block, texts) if texts and texts.contact else None
        self._strengths: dict[bool, str] = {}

    def rows(self) -> list[FaceRow]:
        """One for each face, in their order."""
        return [self._chain(face) if face.motion else self._like_a_residual(face) for face in self.servo.faces]

    def _numbers(self, face: Face) -> list[str]:
        """Rate, brake, margin of a face, the square of the rate, brake over that square."""
        rate, brake, margin, _ = keep_symbols(self.servo.program.keep[face.keep].quantity.name)
        return self.block.evaluate([rate, brake, margin, rate**2, brake / rate**2])

    def _like_a_residual(self, face: Face) -> FaceRow:
        texts, block = self.texts, self.block
        assert texts is not None
        f, f_dot, delta, *slopes = next(self._own)
        J, more = slopes[: len(texts.a0)], slopes[len(texts.a0) :]
        A = [dot(block, J, column) for column in texts.R]
        rest = block.let(emit.combine((("+", j, a) for j, a in zip(J, texts.a0, strict=True)), delta))
        reach = f"({_size(J)})*{self._strength(texts.R)}"
        if face.degree == 0:
            return self._at_once(face, f, rest, A, more, reach)
        A = self._cleaned(A, reach)
        k, _, margin, *_ = numbers = self._numbers(face)
        if face.degree == 2:
            return self._second(face, numbers, f, f_dot, A, rest)
        less = block.let(f"{f} - {margin}")
        return FaceRow(face, f, less, less, A, block.let(f"-{rest} - {k}*{less}"))

    def _at_once(self, face: Face, f: str, rest: str, A: list[str], more: Sequence[str], reach: str) -> FaceRow:
        """Of forces: `rest` is what accelerations without inputs add, `more` the coefficients of inputs and forces."""
        block, n = self.block, len(A)
        constants, rows, sizes = [f, rest], [A, list(more[:n])], [reach, _size(more[:n])]
        if face.by_force:
            assert self._forces is not None
            constant, row, size = self._forces.combined(more[n:], self._strength)
            constants, rows, sizes = [*constants, constant], [*rows, row], [*sizes, size]
        still = block.let(" + ".join(constants))
        summed = [emit.combine(("+", "1.0", each) for each in column) for column in zip(*rows, strict=True)]
        A = self._cleaned([each if emit.is_zero(each) else block.let(each) for each in summed], " + ".join(sizes))
        less = block.let(f"{still} - {self._numbers(face)[2]}")
        return FaceRow(face, still, less, less, A, block.let(f"-{less}"))

    def _second(self, face: Face, numbers: Sequence[str], f: str, f_dot: str, A: list[str], rest: str) -> FaceRow:
        """h'' + al'(h) h' + k (h' + al(h)) >= 0: al is k h near 0, then what stops with the brake's deceleration."""
        (k, brake, margin, square, near), block = numbers, self.block
        less = block.let(f"{f} - {margin}")
        al = block.let(f"{k}*{less} if {square}*{less} <= {brake} else sqrt({brake}*(2.0*{less} - {near}))")
        slope = block.let(f"{k} if {square}*{less} <= {brake} else {brake}/{al}")
        last = block.let(f"{f_dot} + {al}")
        return FaceRow(face, f, less, last, A, block.let(f"-{rest} - {slope}*{f_dot} - {k}*{last}"))

    def _chain(self, face: Face) -> FaceRow:
        """(d/dt + k)^r h >= 0, of relative degree 2 as `_second`."""
        block, motion, r = self.block, face.motion, face.degree
        assert motion is not None
        h, *derivatives = map(self.atom, face.chain.derivatives)
        slope, drift = [self.atom(each) for each in face.J], self.atom(face.chain.drift)
        responses = [[self.atom(each) for each in response] for response in motion.R]
        A = [self.atom(each) for each in face.chain.row.values()]
        A = self._cleaned(A, f"({_size(slope)})*{self._strength(responses, chain=True)}")
        k, _, margin, *_ = numbers = self._numbers(face)
        if r == 2:
            return self._second(face, numbers, h, derivatives[0], A, drift)
        less = block.let(f"{h} - {margin}")
        below = [less, *derivatives]

        def combined(n: int) -> str:
            """(d/dt + k)^n h without h^(n)."""
            powers = ["*".join([str(float(comb(n, j))), *[k] * (n - j)]) for j in range(n)]
            return block.let(emit.combine(("+", p, d) for p, d in zip(powers, below[:n], strict=True)))

        last = less if r == 1 else block.let(f"{combined(r - 1)} + {below[r - 1]}")
        return FaceRow(face, h, less, last, A, block.let(f"-{drift} - {combined(r)}"))

    def _strength(self, responses: Sequence[Sequence[str]], chain: bool = False) -> str:
        """The size of what inputs add to accelerations."""
        if chain not in self._strengths:
            self._strengths[chain] = self.block.let(_size([each for response in responses for each in response]))
        return self._strengths[chain]

    def _cleaned(self, A: Sequence[str], reach: str) -> list[str]:
        """The row, 0 where it is only the rounding of terms of this size: no input keeps anything by it."""
        if all(map(emit.is_zero, A)):
            return list(A)
        factor = self.block.let(f"0.0 if {_size(A)} < {ROUNDING!r}*({reach}) else 1.0")
        return [each if emit.is_zero(each) else self.block.let(f"{factor}*{each}") for each in A]


def _size(texts: Sequence[str]) -> str:
    """The sum of magnitudes."""
    return " + ".join(f"fabs({each})" for each in texts if not emit.is_zero(each)) or "0.0"


class _Forces:
    """Combinations of contact forces as constant and coefficients of the inputs, see `faces.contact_form`."""

    def __init__(self, servo: Servo, block: Block, texts: Texts) -> None:
        self.block, self.texts = block, texts
        model = servo.equations.model
        n_c, n_q, n_v, n_tau = len(model.constraints), len(model.coordinates), len(model.velocities), len(model.inputs)
        flat = iter(texts.contact)

        def rows(m: int, n: int) -> list[list[str]]:
            return [[next(flat) for _ in range(n)] for _ in range(m)]

        self.A, self.M = rows(n_c, n_q), rows(n_q, n_q)
        (self.h,), self.B, self.G, (self.drift,) = rows(1, n_q), rows(n_q, n_tau), rows(n_q, n_v), rows(1, n_q)
        lower = [dot(block, self.A[i], self.A[j]) for i in range(n_c) for j in range(i + 1)]
        self.gram = unpack_lower(lower, n_c)

    def combined(self, weights: Sequence[str], strength: Callable[..., str]) -> tuple[str, list[str], str]:
        """The constant and the row of inputs of the sum of weights times contact forces, and the row's natural size."""
        block, texts = self.block, self.texts
        (w,) = emit.solve_spd(block, self.gram, [list(weights)])
        s = [dot(block, w, list(column)) for column in zip(*self.A, strict=True)]
        sM = [dot(block, s, row) for row in self.M]
        sG = [dot(block, sM, list(column)) for column in zip(*self.G, strict=True)]
        terms = [*zip(sG, texts.a0, strict=True), *zip(sM, self.drift, strict=True), *zip(s, self.h, strict=True)]
        constant = block.let(emit.combine(("+", a, b) for a, b in terms))
        row = []
        for response, column in zip(texts.R, zip(*self.B, strict=True), strict=True):
            direct = [("-", a, b) for a, b in zip(s, column, strict=True)]
            row.append(block.let(emit.combine([*(("+", a, b) for a, b in zip(sG, response, strict=True)), *direct])))
        size = f"({_size(sG)})*{strength(texts.R)} + ({_size(s)})*({_size([each for line in self.B for each in line])})"
        return constant, row, size


@dataclass(frozen=True)
class Kept:
    """Emitted texts of the answer: the inputs, margin and activity of each keep, how it is kept, tests of margins."""

    tau: list[str]
    margins: list[str]
    active: list[str]
    tests: list[str]


def kept_inputs(servo: Servo, block: Block, rows: Sequence[FaceRow], W: list[list[str]], tau: list[str]) -> Kept:
    """Emit the nearest inputs that keep all: `keeping` is then the solver's status. W: rows of the residuals, by K0."""
    model, program = servo.equations.model, servo.program
    n, n_rows, n_goals = len(tau), max(len(rows), 1), max(len(W), 1)
    sizes = {"kept": n, "lower": n, "upper": n, "shares": n, "ranks": n_rows, "bounds": n_rows, "acts": n_rows,
             "levels": n_goals}  # fmt: skip
    block.lines += [f"    {name} = empty({size})" for name, size in sizes.items()]
    block.lines += [f"    rows = empty(({n_rows}, {n}))", f"    goals = empty(({n_goals}, {n}))"]
    limits = [limit_symbols(u.name) for u in model.inputs]
    for name, values in (("lower", [each[0] for each in limits]), ("upper", [each[1] for each in limits])):
        block.store(
            name,
            block.evaluate(values) if servo.limited else ["-1e300*1e300" if name == "lower" else "1e300*1e300"] * n,
        )
    block.store("kept", tau)
    weights = [weight_symbol(each.name) for each in model.inputs]
    weighted = block.constants is not None and set(weights) <= set(block.constants.parameters)
    block.store("shares", block.evaluate(weights) if weighted else ["1.0"] * n)
    scaled = [_scaled(block, i, row) for i, row in enumerate(W)] or [["0.0"] * n]
    block.store_rows("goals", [text for row in scaled for text in row], n)
    block.store("levels", [f"{float(each.priority)}" for each in program.residuals[: len(W)]] or ["1.0"])
    block.store_rows("rows", [text for row in rows for text in row.A] or ["0.0"] * n, n)
    block.store("bounds", [row.b for row in rows] or ["-1.0"])
    block.store("ranks", [f"{float(program.keep[row.face.keep].priority)}" for row in rows] or ["1.0"])
    block.lines.append("    keeping = nearest(kept, lower, upper, goals, levels, shares, rows, bounds, ranks, acts)")
    inputs = [block.let(f"kept[{i}]") for i in range(n)]
    margins, active, tests = [], [], []
    for i, each in enumerate(program.keep):
        mine = [(k, row) for k, row in enumerate(rows) if row.face.keep == i]
        margins.append(_folded(block, "min", [row.at(block, inputs) for _, row in mine]))
        least, most = (_folded(block, word, [f"acts[{k}]" for k, _ in mine]) for word in ("min", "max"))
        active.append(block.let(f"{least} if {least} < 0.0 else {most}"))
        (tolerance,) = block.evaluate([keep_symbols(each.quantity.name)[3]])
        tests.append(f"{margins[-1]} + {tolerance} >= 0.0")
    return Kept(inputs, margins, active, tests)


def _folded(block: Block, word: str, texts: Sequence[str]) -> str:
    """The least or the largest of some texts."""
    found = texts[0]
    for each in texts[1:]:
        found = block.let(f"{word}({found}, {each})")
    return found


def _scaled(block: Block, i: int, row: Sequence[str]) -> list[str]:
    """A row of W by the gain of its residual, so that it counts what is left of f, not of its derivative."""
    gain = block.let(f"1.0/K[0, {i}, {i}] if K[0, {i}, {i}] > 0.0 else 1.0")
    return [each if emit.is_zero(each) else block.let(f"{gain}*{each}") for each in row]


def keep_lines(block: Block, rows: Sequence[FaceRow]) -> None:
    """Emit the rows into `out`: h less its margin, the last function before the row, b, the keep, the row."""
    for i, row in enumerate(rows):
        found = [row.less, row.last, row.b, f"{float(row.face.keep)}", *row.A]
        block.lines += [f"    out[{i}, {j}] = {text}" for j, text in enumerate(found)]
