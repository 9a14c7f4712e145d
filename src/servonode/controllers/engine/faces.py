"""What a program keeps at or above zero, along the motion: smooth faces, their relative degrees and derivatives.

A face h of relative degree r is differentiated until the inputs tau appear, h^(r) = d + a tau, as a residual is
(docs/explanation/mathematics.md, eq. 12). Contact forces and accelerations contain them at once: relative degree 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import sympy

from servonode.controllers.engine.differentiation import CLEAR, check_symbols, moving_of, reached_at_once, row_of
from servonode.controllers.engine.extension import Chain, Extension, Row
from servonode.controllers.engine.motion import Motion
from servonode.controllers.engine.program import Keep, Residual
from servonode.controllers.engine.resolution import Resolution
from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.mechanics.equations import Equations, column, drift_of_kinematics
from servonode.mechanics.evaluate import GenericPoints
from servonode.mechanics.functions import Max
from servonode.mechanics.straight_line import gradient

ZERO = sympy.Integer(0)
Expr = Any
KINKED = (sympy.Abs, sympy.Min, sympy.Max, Max)
PARTS = "-abs(..) and min(..) are parts of which each is kept"


@dataclass(frozen=True)
class Face:
    """One smooth face of a keep, by its number among those of the program.

    Of relative degree 1 and 2: f, f_dot, J (n_v) and delta as of a residual. `chain`: f, f', ... as atoms of `motion`,
    where the law has an extension or the relative degree is above 2; its row has a coefficient for each input, or for
    each unknown of the extension, J the slope of the last derivative by the velocities. Of relative degree 0:
    f is the part without forces, J by the accelerations, then coefficients of inputs and of contact forces (absent: the
    face contains none).
    """

    keep: int
    degree: int
    f: Expr
    f_dot: Expr = ZERO
    J: Sequence[Expr] = ()
    delta: Expr = ZERO
    by_input: Sequence[Expr] = ()
    by_force: Sequence[Expr] = ()
    motion: Motion | None = None
    chain: Chain = field(default_factory=lambda: Chain([]))

    @property
    def entries(self) -> list[Expr]:
        """The expressions that a law evaluates together with its own; none of a chain."""
        return [] if self.motion else [self.f, self.f_dot, self.delta, *self.J, *self.by_input, *self.by_force]

    @property
    def atoms(self) -> list[Expr]:
        """The atoms of a chain, and of what inputs add to accelerations; none where it is no chain."""
        if self.motion is None:
            return []
        responses = [each for response in self.motion.R for each in response]
        return [*self.chain.derivatives, self.chain.drift, *self.chain.row.values(), *self.J, *responses]

    @property
    def line_symbols(self) -> set[Expr]:
        """The symbols of which the atoms are functions."""
        return self.motion.line.symbols(self.atoms) if self.motion else set()


def faces_of(equations: Equations, resolved: Resolution, extension: Extension | None) -> tuple[Face, ...]:
    """The faces of all that a program keeps.

    Raises:
        ModelError: an expression contains an unknown symbol, is not linear in forces, jumps, allows two separate parts,
            or is reached by no input.
    """
    motion = extension.motion if extension else None
    found = []
    for i, each in enumerate(resolved.program.keep):
        for part in smooth_parts(each.expression, f"keep {each.quantity.name}", each.place):
            stated = replace(each, expression=part)
            face = _at_once(equations, resolved, stated, i)
            if face is None and extension is None:
                face = _like_a_residual(equations, resolved, stated, i)
            if face is None or (extension and extension.held):
                motion = motion or Motion(equations, resolved, 2 * len(equations.model.state))
                face = _chained(resolved, motion, extension, stated, i, face)
            found.append(face)
    return tuple(found)


def smooth_parts(expression: Expr, what: str, place: Place) -> list[Expr]:
    """The expressions that are all at or above zero where this one is: one for each side of -abs(..) and min(..).

    Raises:
        ModelError: the set has separate parts, as of abs(..) and max(..), or abs(..) stands within a function.
    """
    node = sympy.sympify(expression)
    if not node.has(*KINKED):
        return [node]
    if isinstance(node, sympy.Min):
        return [part for each in node.args for part in smooth_parts(each, what, place)]
    terms = [_sides(term, what, place) for term in sympy.Add.make_args(node)]
    return list(dict.fromkeys(sympy.Add(*chosen) for chosen in product(*terms)))


def _sides(term: Expr, what: str, place: Place) -> list[Expr]:
    """The terms of which the least is this one."""
    if not term.has(*KINKED):
        return [term]
    kinked = [each for each in sympy.Mul.make_args(term) if each.has(*KINKED)]
    if len(kinked) > 1 or not isinstance(kinked[0], KINKED):
        text = f"{what}: {term} is no term whose sides can be kept one by one; state its parts: {PARTS}"
        raise ModelError(text, place)
    inner, factor = kinked[0], term / kinked[0]
    if isinstance(inner, sympy.Abs):
        arguments, least = [inner.args[0], -inner.args[0]], factor.is_nonpositive
    else:
        arguments, least = list(inner.args), factor.is_nonnegative
        least = least if isinstance(inner, sympy.Min) else factor.is_nonpositive
    if not least:
        why = "allows" if factor.is_number else "may, as the sign of its factor is not known, allow"
        why += " two separate parts"
        raise ModelError(f"{what}: {term} {why}; keep one of them, such as the argument without its bars", place)
    scaled = [sympy.Add(*(factor * term for term in sympy.Add.make_args(each))) for each in arguments]
    return [part for each in scaled for part in smooth_parts(each, what, place)]


def _at_once(equations: Equations, resolved: Resolution, keep: Keep, i: int) -> Face | None:
    """The face of an expression of contact forces, accelerations or inputs; None where it contains none.

    Raises:
        ModelError: it is not linear in them, or the machine does not tell its contact forces.
    """
    model, what = equations.model, f"program {resolved.program.name}, keep {keep.quantity.name}"
    accelerations = {q.acceleration: equations.acceleration(k) for k, q in enumerate(model.coordinates)}
    own = [v.rate for v in model.velocities]
    accelerations = {symbol: each for symbol, each in accelerations.items() if symbol not in own}
    stated = resolved(sympy.sympify(keep.expression).xreplace(accelerations))
    forces = [each.multiplier for each in model.constraints]
    late = [*own, *model.inputs, *forces]
    if not stated.free_symbols & set(late):
        return None
    check_symbols(resolved, stated, f"keep {keep.quantity.name}", keep.place, tuple(late))
    slopes = gradient(stated, late)
    if any(each.free_symbols & set(late) for each in slopes):
        text = f"{what}: it is not linear in forces, accelerations and inputs; state a "
        raise ModelError(f"{text}linear face of it, or several: {PARTS}", keep.place)
    n_v, n_tau = len(own), len(model.inputs)
    by_force = slopes[n_v + n_tau :]
    if any(by_force) and not model.has_full_form:
        text = f"{what}: {model.name} has no multipliers for its contact forces; keep an "
        raise ModelError(f"{text}expression of states, accelerations and inputs", keep.place)
    rest = stated.xreplace(dict.fromkeys(late, ZERO))
    more = tuple(by_force) if any(by_force) else ()
    return Face(i, 0, rest, J=slopes[:n_v], by_input=slopes[n_v : n_v + n_tau], by_force=more)


def _like_a_residual(equations: Equations, resolved: Resolution, keep: Keep, i: int) -> Face | None:
    """The face of relative degree 1 or 2; None where the inputs do not reach it so soon."""
    row = Residual(keep.quantity, keep.expression, place=keep.place)
    f, f_dot, J, delta, degree = row_of(resolved, moving_of(equations, resolved), row, "keep")
    if all(each == 0 for each in J) or not reached_at_once(equations, [J]):
        return None
    return Face(i, degree, f, f_dot, J, delta)


def _chained(
    resolved: Resolution, motion: Motion, extension: Extension | None, keep: Keep, i: int, at_once: Face | None
) -> Face:
    """The face of any relative degree, as atoms of the motion; at_once: what it is with inputs that act at once.

    With an extension its unknowns take the place of the inputs: so its integrators know what is kept.

    Raises:
        ModelError: no input reaches it.
    """
    model, program, name = resolved.model, resolved.program, keep.quantity.name
    points, define = GenericPoints(motion.line.definitions_of), motion.line.define
    derivatives, slope, own, row, drift = list[Expr](), list[Expr](), list[Expr](), Row(), ZERO
    if at_once is None:
        stated = resolved(keep.expression)
        check_symbols(resolved, stated, f"keep {name}", keep.place)
        derivatives.append(define(stated))
    elif at_once.by_force:
        text = f"program {program.name}, keep {name}: its law has integrators, with which no contact force is kept"
        raise ModelError(f"{text}; keep an expression of states, accelerations and inputs", keep.place)
    else:
        slope, own = [define(each) for each in at_once.J], [define(each) for each in at_once.by_input]
        drift = define(at_once.f) + motion.line.dot(slope, motion.a0)
    integrators = extension.integrators if extension else ()
    for _ in range(len(model.state) + len(program.states) + len(integrators)):
        if derivatives:
            slope = [ZERO if points.zero(each) else each for each in motion.gradient(derivatives[-1])]
            own, drift = [], motion.drift(derivatives[-1])
            row = {("rate", n): motion.partial(derivatives[-1], each.symbol) for n, each in enumerate(integrators)}
        row |= {("input", k): motion.by_input(k, slope) + sum(own[k : k + 1]) for k in range(len(motion.R))}
        row, drift = extension.put_in(row, drift) if extension else (row, drift)
        row, drift = {key: define(each) for key, each in row.items()}, define(drift)
        drift = ZERO if points.zero(drift) else drift
        moved = [each for (kind, _), each in row.items() if kind == "input"]
        if _is_reached(points, moved, [*slope, *own], motion) or not all(
            points.zero(each) for (kind, _), each in row.items() if kind == "rate"
        ):
            chain = Chain(derivatives, drift, row)
            return Face(i, len(derivatives), (derivatives or [drift])[0], J=slope, motion=motion, chain=chain)
        derivatives.append(drift)
    text = f"program {program.name}, keep {name}: no input of {model.name} moves it or a derivative of it"
    raise ModelError(f"{text}, so that nothing can keep it; leave it out, or keep what an input moves", keep.place)


def _is_reached(points: GenericPoints, row: Sequence[Expr], slope: Sequence[Expr], motion: Motion) -> bool:
    """Whether an input moves an atom by more than a share of what its gradient and the inputs would allow."""
    if all(each == 0 for each in row):
        return False
    responses = [each for of_input in motion.R for each in of_input]
    n, m = len(row), len(row) + len(slope)
    for values in points.values([*row, *slope, *responses]):
        reached, gradient_, strength = (
            sum(abs(each) ** 2 for each in part) for part in (values[:n], values[n:m], values[m:])
        )
        if reached > CLEAR**2 * gradient_ * strength:
            return True
    return False


def contact_form(equations: Equations) -> list[Any]:
    """A, M, h, B and the drift and G of q'' = G v' + drift, in velocities: what contact forces are found from.

    Lambda = (A A^T)^-1 A (M q'' + h - B tau), which is exact along the motion (README eq. 1).
    """
    model = equations.model
    drift = drift_of_kinematics(model, equations.G, equations.g0, column(model.velocities))
    parts = [equations.A, equations.M, equations.h, equations.B, equations.G, drift]
    return [part.xreplace(model.rates).xreplace(model.varying) for part in parts]
