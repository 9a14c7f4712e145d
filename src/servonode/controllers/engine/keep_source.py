"""The text of what a law keeps: rows a tau >= b of its faces, and the solve for the nearest inputs that keep them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import comb
from typing import Any

import sympy

from servonode.controllers.engine.faces import Face
from servonode.controllers.engine.law_texts import Texts, dot
from servonode.controllers.engine.program import keep_symbols, limit_symbols, weight_symbol
from servonode.controllers.engine.servo import Servo
from servonode.kernels.library import library_text
from servonode.mechanics import emit
from servonode.mechanics.emit import Block
from servonode.mechanics.machine_source import unpack_lower

Expr = Any
ZERO = sympy.Integer(0)
AtomText = Callable[[Expr], str]
NOTICED = 1e-3  # share of a tolerance
ROUNDING = 1e-9  # share of its terms below which a row is 0


def solver_text(servo: Servo, damped: bool) -> str:
    """The functions of the solver, for a law's numbers of inputs, goals and rows; none of them is empty."""
    n_goals = number_of_goals(servo, damped)
    n_rows = len(servo.faces) + 2 * len(limited_by_integrators(servo))
    sizes = {"n_tau": len(servo.equations.model.inputs), "n_goals": max(n_goals, 1), "n_rows": max(n_rows, 1)}
    return library_text("nearest", {}, sizes)


def number_of_goals(servo: Servo, damped: bool) -> int:
    """How many rows `goal_rows` gives."""
    free = len(servo.equations.model.inputs) if servo.program.ideal or servo.posture or damped else 0
    return 0 if servo.program.inputs else len(servo.f) + free


def limited_by_integrators(servo: Servo) -> list[int]:
    """The inputs with limits that an extension's integrators determine."""
    held = servo.extension.held if servo.extension and servo.limited else ()
    return [k for k in range(len(servo.equations.model.inputs)) if ("input", k) in held]


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
        return self._row(face, f, [f_dot], self._cleaned(A, reach), rest)

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
        return self._row(face, still, [], A, "0.0")

    def _second(self, face: Face, numbers: Sequence[str], f: str, f_dot: str, A: list[str], rest: str) -> FaceRow:
        """h'' + al'(h) h' + k (h' + al(h)) >= 0: al is k h near 0, then what stops with the brake's deceleration."""
        (k, brake, margin, square, near), block = numbers, self.block
        less = block.let(f"{f} - {margin}")
        al = block.let(f"{k}*{less} if {square}*{less} <= {brake} else sqrt({brake}*(2.0*{less} - {near}))")
        slope = block.let(f"{k} if {square}*{less} <= {brake} else {brake}/{al}")
        last = block.let(f"{f_dot} + {al}")
        return FaceRow(face, f, less, last, A, block.let(f"-{rest} - {slope}*{f_dot} - {k}*{last}"))

    def _chain(self, face: Face) -> FaceRow:
        motion, r = face.motion, face.degree
        assert motion is not None
        slope, drift = [self.atom(each) for each in face.J], self.atom(face.chain.drift)
        h, *derivatives = [*map(self.atom, face.chain.derivatives), *([] if r else [drift])]
        responses = [[self.atom(each) for each in response] for response in motion.R]
        extension, keys = self.servo.extension, list(face.chain.row)
        A = [self.atom(face.chain.row.get(key, ZERO)) for key in (extension.unknowns if extension else keys)]
        if r and all(kind == "input" for kind, _ in keys):
            A = self._cleaned(A, f"({_size(slope)})*{self._strength(responses, chain=True)}")
        return self._row(face, h, derivatives, A, drift)

    def _row(self, face: Face, h: str, derivatives: Sequence[str], A: list[str], drift: str) -> FaceRow:
        """By h and its derivatives before A tau + drift: (d/dt + k)^r h >= 0, of relative degree 2 as `_second`."""
        k, _, margin, *_ = numbers = self._numbers(face)
        if face.degree == 2:
            return self._second(face, numbers, h, derivatives[0], A, drift)
        block, r, less = self.block, face.degree, self.block.let(f"{h} - {margin}")
        if r == 0:
            return FaceRow(face, h, less, less, A, block.let(f"-{less}"))
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


def rows_of(servo: Servo, block: Block, texts: Texts | None, atom: AtomText | None) -> list[FaceRow]:
    """The rows of the faces; texts: the terms of the law, emitted here where they are needed, and so are atoms."""
    if texts is None and not all(face.motion for face in servo.faces):
        texts = Texts(servo, block, [])
    if atom is None:
        line, done = next((face.motion.line for face in servo.faces if face.motion), None), set[Expr]()

        def atom(each: Expr) -> str:
            assert line is not None
            line.emit(block, [each], done)
            return block.evaluate([each])[0]

    return FaceTexts(servo, block, texts, atom).rows()


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


def kept_inputs(
    servo: Servo,
    block: Block,
    rows: Sequence[FaceRow],
    goals: Callable[[], list[list[str]]],
    tau: list[str],
    own: Sequence[tuple[list[str], str]] = (),
    damped: bool = False,
) -> Kept:
    """Emit the nearest inputs that keep all: `keeping` is then the solver's status.

    goals: emits those of `goal_rows`, damped or not. Of an extension tau are its unknowns, and `own` rows a, b of the
    limits of inputs that its integrators determine.
    """
    model, program = servo.equations.model, servo.program
    n, n_rows, n_goals = len(tau), max(len(rows) + len(own), 1), max(number_of_goals(servo, damped), 1)
    sizes = {"kept": n, "lower": n, "upper": n, "shares": n, "ranks": n_rows, "bounds": n_rows, "acts": n_rows,
             "slack": n_rows, "levels": n_goals}  # fmt: skip
    block.lines += [f"    {name} = empty({size})" for name, size in sizes.items()]
    block.lines += [f"    rows = empty(({n_rows}, {n}))", f"    goals = empty(({n_goals}, {n}))"]
    unknowns = servo.extension.unknowns if servo.extension else [("input", k) for k in range(n)]
    inputs = list(model.inputs)
    names = [inputs[k].name if kind == "input" and servo.limited else "" for kind, k in unknowns]
    for side, (array, none) in enumerate((("lower", "-1e300*1e300"), ("upper", "1e300*1e300"))):
        block.store(array, [block.evaluate([limit_symbols(name)[side]])[0] if name else none for name in names])
    block.store("kept", tau)
    weights = [weight_symbol(each.name) for each in model.inputs]
    weighted = block.constants is not None and set(weights) <= set(block.constants.parameters)
    shares = block.evaluate(weights) if weighted else ["1.0"] * n
    all_rows = [(row.A, row.b, program.keep[row.face.keep].priority, _slack(servo, block, row)) for row in rows]
    all_rows = [*all_rows, *((*each, 0, "0.0") for each in own)] or [(["0.0"] * n, "-1.0", 1, "0.0")]
    block.store_rows("rows", [text for A, *_ in all_rows for text in A], n)
    block.store("bounds", [b for _, b, *_ in all_rows])
    block.lines.append("    keeping = keeps_all(kept, lower, upper, rows, bounds, acts)")
    start = len(block.lines)  # of what is needed where something acts
    block.store("shares", shares)
    block.store_rows("goals", [text for row in goals() for text in row] or ["0.0"] * n, n)
    levels = [each.priority for each in program.residuals][:n_goals] or [1]
    levels += [max(levels) + (0 if damped else 1)] * (n_goals - len(levels))
    block.store("levels", [f"{float(each)}" for each in levels])
    block.store("ranks", [f"{float(priority)}" for *_, priority, _ in all_rows])
    block.store("slack", [slack for *_, slack in all_rows])
    block.lines.append("    keeping = nearest(kept, lower, upper, goals, levels, shares, rows, bounds, ranks, acts)")
    block.lines.append("    keeping = noticed(keeping, kept, rows, bounds, slack, acts)")
    block.lines[start:] = ["    if keeping != 0:", *(f"    {line}" for line in block.lines[start:])]
    found = [block.let(f"kept[{i}]") for i in range(n)]
    margins, active, tests = [], [], []
    for i, each in enumerate(program.keep):
        mine = [(k, row) for k, row in enumerate(rows) if row.face.keep == i]
        margins.append(_folded(block, "min", [row.at(block, found) for _, row in mine]))
        least, most = (_folded(block, word, [f"acts[{k}]" for k, _ in mine]) for word in ("min", "max"))
        active.append(block.let(f"{least} if {least} < 0.0 else {most}"))
        (tolerance,) = block.evaluate([keep_symbols(each.quantity.name)[3]])
        tests.append(f"{margins[-1]} + {tolerance} >= 0.0")
    return Kept(found, margins, active, tests)


def _slack(servo: Servo, block: Block, row: FaceRow) -> str:
    """What a row may lack before it gives way: h falls by NOTICED of its tolerance where it always lacks so much."""
    rate, _, _, tolerance = keep_symbols(servo.program.keep[row.face.keep].quantity.name)
    return block.evaluate([NOTICED * tolerance * rate**row.face.degree])[0]


def _folded(block: Block, word: str, texts: Sequence[str]) -> str:
    """The least or the largest of some texts."""
    return reduce(lambda found, each: block.let(f"{word}({found}, {each})"), texts)


def goal_rows(servo: Servo, block: Block, texts: Texts | None, damping: float) -> list[list[str]]:
    """Rows of the residuals, then of what is to change least: with a posture the kinetic energy of what is added.

    With damping this belongs to the last of the residuals, with that share of what the inputs reach of them: so that
    the inputs do not jump where rows leave little freedom.
    """
    if texts is None:  # the program states its inputs
        return []
    program, names = servo.program, [each.name for each in servo.equations.model.inputs]
    gains = [f"K[0, {i}, {i}]" for i in range(len(texts.W))]
    W = [scaled(block, gain, row) for gain, row in zip(gains, texts.W, strict=True)]
    if program.ideal or servo.posture:
        least = [list(row) for row in zip(*emit.solve_half(block, texts.M, texts.B), strict=True)]
        slopes = [scaled(block, gain, row) for gain, row in zip(gains, texts.J, strict=True)]
        halves = emit.solve_half(block, texts.M, slopes)
    else:
        least = [["1.0" if i == k else "0.0" for k in range(len(names))] for i in range(len(names))] if damping else []
        halves = W
    if damping:
        reach = " + ".join(f"{each}*{each}" for half in halves for each in half if not emit.is_zero(each))
        share = block.let(f"{damping!r}*sqrt({reach})")
        least = [[each if emit.is_zero(each) else f"{share}*{each}" for each in row] for row in least]
    return W + least


def scaled(block: Block, gain: str, row: Sequence[str]) -> list[str]:
    """A row of W by the gain of its residual, so that it counts what is left of f, not of its derivative."""
    gain = block.let(f"1.0/{gain} if {gain} > 0.0 else 1.0")
    return [each if emit.is_zero(each) else block.let(f"{gain}*{each}") for each in row]


def keep_lines(servo: Servo, block: Block, rows: Sequence[FaceRow]) -> None:
    """Emit the rows into `out`: h less its margin, the last function before the row, b, the keep, the row.

    An integrator's rate has the column of an input that integrators determine.
    """
    columns = list(range(len(servo.equations.model.inputs)))
    if servo.extension:
        keys = servo.extension.unknowns
        free = iter(k for k in columns if ("input", k) not in keys)
        columns = [k if kind == "input" else next(free) for kind, k in keys]
    for i, row in enumerate(rows):
        found = [row.less, row.last, row.b, f"{float(row.face.keep)}"]
        block.lines += [f"    out[{i}, {j}] = {text}" for j, text in enumerate(found)]
        block.lines += [f"    out[{i}, {4 + j}] = {text}" for j, text in zip(columns, row.A, strict=True)]
