"""From residuals to a servo law: relative degrees, Jacobian and drift (docs/explanation/mathematics.md, eq. 5-8).

A residual f(q, v, t) whose velocity derivative does not vanish has relative degree 1: f' = J v' + delta with J = df/dv.
A residual f(q, t) is differentiated once more: relative degree 2, f'' = J v' + delta with J = d f'/dv. The law asks
f^(r) = -K1 f' - K0 f and solves W tau = that - delta - J a0, where v' = a0 + R tau and W = J R. Where W is singular at
all states the residuals are differentiated on, see `extension`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from servonode import tables
from servonode.controllers.engine.differentiation import Row, check_symbols, moving_of, reached_at_once, row_of
from servonode.controllers.engine.extension import Extension, Unreachable, extend
from servonode.controllers.engine.faces import Face, faces_of
from servonode.controllers.engine.keeping import MOST_INPUTS, MOST_ROWS
from servonode.controllers.engine.motion import Motion
from servonode.controllers.engine.program import Program, gain_symbol, keep_symbols, late, limit_symbols
from servonode.controllers.engine.resolution import Resolution
from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.mechanics.description import MOST_DERIVATIVES
from servonode.mechanics.equations import Equations
from servonode.mechanics.functions import choose
from servonode.mechanics.switches import SMOOTH, refuse_jumps

Expr = Any
_COLUMNS = {"t", "energy", "goal_t", "state_age"}  # of a run, beside those with names of machine and program
Other = tuple[str, Expr, Place, tuple[Expr, ...]]  # what it is, expression, place, symbols that it alone may contain
_MOST_ORDERS = 100  # of those that an extension makes


@dataclass(frozen=True, repr=False)
class Servo(tables.Tabular):
    """Symbolic servo-constraints of a program on a machine.

    f, f_dot, delta, damping: n_s entries (f_dot is 0 for relative degree 1); J (n_s, n_v); state_rates: those of the
    program's own states; and how many derivatives of targets and signals they contain. Setpoints are put in.
    `resolved` gives other expressions of the program like these.
    """

    equations: Equations
    program: Program
    resolved: Resolution
    f: list[Expr]
    f_dot: list[Expr]
    J: Any
    delta: list[Expr]
    damping: list[Expr]
    posture: list[Expr]  # wanted accelerations of what residuals leave free, by velocity; empty: none
    state_rates: list[Expr]
    relative_degrees: tuple[int, ...]
    target_order: int
    signal_order: int
    extension: Extension | None = None  # where the inputs do not reach the residuals within two derivatives
    unreachable: str = ""  # why they never do
    faces: tuple[Face, ...] = ()  # of what is kept
    limited: bool = False  # the law keeps the limits of the inputs
    yields: bool = True  # where not all can be kept something gives way; else that is a fault

    @property
    def keeping(self) -> bool:
        """Whether the law keeps something."""
        return bool(self.faces) or self.limited

    def table(self) -> tuple[str, list[tables.Row]]:
        """The residuals with their relative degrees, and what else there is."""
        names = (each.quantity.name for each in self.program.residuals)
        stated = zip(names, self.relative_degrees, strict=True)
        return f"Servo-constraints of {self.program.name} on {self.equations.model.name}", [
            ("residuals", tables.several(f"{name} of relative degree {degree}" for name, degree in stated)),
            ("expressions", "f, f_dot and delta for each residual, J by residuals and velocities"),
            ("derivatives", f"of targets up to {self.target_order}, of signals up to {self.signal_order}"),
            *([("unreachable", self.unreachable)] if self.unreachable else []),
        ]


def derive_servo(
    equations: Equations, program: Program, damped: bool = False, limited: bool = False, yields: bool = True
) -> Servo:
    """The servo-constraints of a program, differentiated along the machine's motion.

    `damped`: a singular W is answered by damped least squares, and no extension is looked for. `limited`, `yields`: see
    `Servo`.

    Raises:
        ModelError: a residual contains a symbol that neither machine nor program knows, is reached by no
            velocity, or needs more than MOST_DERIVATIVES of a target or signal.
    """
    _check_machine(equations, program)
    _check_names(equations, program, limited)
    resolved = Resolution(equations.model, program)
    moving = moving_of(equations, resolved)
    rows = [row_of(resolved, moving, each) for each in program.residuals]
    stated = _others(program, tuple(equations.model.inputs))
    _check_other_expressions(resolved, stated)
    posture, others = _posture(resolved), [resolved(expression) for _, expression, *_ in stated]
    extension, unreachable = (None, "") if damped else _extension(equations, resolved, rows)
    if extension is None:
        _check_moved(equations, program, rows)
    faces = faces_of(equations, resolved, extension)
    _check_keeping(equations, program, len(faces), limited)
    others += [entry for each in faces for entry in each.entries]
    others += [entry for each in faces for entry in each.line_symbols]
    within = extension.motion.line.symbols(extension.atoms) if extension else ()
    used = _orders(program, [*(entry for row in rows for entry in row[:4]), *others, *within])
    if max(used) > MOST_DERIVATIVES:
        text = f"program {program.name} needs derivative {max(used)} of a target or signal, which has at most "
        text += f"{MOST_DERIVATIVES}; define the residual with fewer rates"
        raise ModelError(text, program.place.argument("residuals"))
    return Servo(
        equations=equations,
        program=program,
        resolved=resolved,
        f=[row[0] for row in rows],
        f_dot=[row[1] for row in rows],
        J=sympy.Matrix([list(row[2]) for row in rows]) if rows else sympy.zeros(0, 0),
        delta=[row[3] for row in rows],
        damping=[resolved(each.damping) for each in program.residuals],
        posture=posture,
        state_rates=[resolved(each) for each in program.states.values()],
        relative_degrees=extension.relative_degrees if extension else tuple(row[4] for row in rows),
        target_order=used[0],
        signal_order=used[1],
        extension=extension,
        unreachable=unreachable,
        faces=faces,
        limited=limited,
        yields=yields,
    )


def _check_keeping(equations: Equations, program: Program, rows: int, limited: bool) -> None:
    """What is kept must not be more than the solver takes."""
    model, n = equations.model, len(equations.model.inputs)
    if rows > MOST_ROWS:
        text = f"program {program.name}: its keeps have {rows} rows; at most {MOST_ROWS} can be kept: leave out what "
        more = ', or with controller.limits = "clip" the ranges and speeds of joints' if limited else ""
        raise ModelError(f"{text}others imply{more}", program.place.argument("keep"))
    if (rows or limited) and n > MOST_INPUTS:
        text = f"program {program.name}: {model.name} has {n} inputs; at most {MOST_INPUTS} can keep something"
        raise ModelError(f"{text}: leave out keep and limits", program.place.argument("keep"))
    if (rows or limited) and not n:
        text = f"program {program.name}: {model.name} has no inputs that could keep anything; leave out keep and limits"
        raise ModelError(text, program.place.argument("keep"))


def _extension(equations: Equations, resolved: Resolution, rows: list[Row]) -> tuple[Extension | None, str]:
    """The extension of a program whose inputs do not reach its residuals directly; the reason if it has none.

    Raises:
        ModelError: there is one, but the program has something with which it does not combine.
    """
    model, program = resolved.model, resolved.program
    completed = program.inputs or program.relations or program.least_norm or program.ideal or program.posture
    determined = not completed and 0 < len(program.residuals) == len(model.inputs)  # by residuals alone
    if not determined or reached_at_once(equations, [row[2] for row in rows]):
        return None, ""
    orders = 2 * (len(model.state) + len(program.states))  # no chain of derivatives is longer
    motion = Motion(equations, resolved, orders)
    try:
        extension = extend(motion, resolved, [row[0] for row in rows])
    except Unreachable as error:
        return None, str(error)
    if not extension.integrators and extension.relative_degrees == tuple(row[4] for row in rows):
        return None, ""
    _check_combines(program, extension)
    _check_smooth(program, extension)
    return extension, ""


def _check_smooth(program: Program, extension: Extension) -> None:
    """What an extension differentiates or starts from must not jump: all derivatives but the last."""
    line = extension.motion.line
    if not any(each.has(choose, sympy.sign) for each in line.definitions.values()):
        return
    for residual, chain in zip(program.residuals, extension.chains, strict=True):
        for order, atom in enumerate(chain.derivatives[2:], 2):  # those before have been looked at
            what = f"program {program.name}, residual {residual.quantity.name}: its derivative of order {order}, "
            refuse_jumps(f"{what}which the law needs,", line.named(atom), residual.place, SMOOTH)


def _check_combines(program: Program, extension: Extension) -> None:
    limited = any(each.kind != "expressions" for each in program.limits)
    damped = any(each.damping != 0 for each in program.residuals)
    stated = {"limits=": limited, "damping=": damped, "setpoints=": bool(program.setpoints)}
    for word, given in stated.items():
        if given:
            degrees = ", ".join(map(str, extension.relative_degrees))
            text = f"program {program.name}: its residuals have relative degrees {degrees}, for which {word} has no "
            raise ModelError(f"{text}meaning; leave it out", program.place.argument(word.rstrip("=")))


def _check_moved(equations: Equations, program: Program, rows: list[Row]) -> None:
    """Every residual must contain something that a velocity moves."""
    for residual, row in zip(program.residuals, rows, strict=True):
        if all(entry == 0 for entry in row[2]):
            raise ModelError(
                f"program {program.name}, residual {residual.quantity.name}: no velocity of {equations.model.name} "
                "moves it: it contains none, or the passive constraints fix it already; give a residual that contains "
                "a coordinate or a velocity which they leave free",
                residual.place,
            )


def _check_machine(equations: Equations, program: Program) -> None:
    """The law knows inputs only: reactions that depend on them would change what it computes."""
    if equations.model.reactions and program.residuals:
        names = ", ".join(N.name for N in equations.model.reactions)
        text = f"program {program.name}: machine {equations.model.name} determines {names} itself, which the law does"
        raise ModelError(f"{text} not know; define the machine with kinematics or constraints, or use open_loop")


def _posture(resolved: Resolution) -> list[Expr]:
    """The accelerations that the posture wants, by velocity; empty without a posture."""
    model, program = resolved.model, resolved.program
    own = {q: model.rates[q.rate] for q in model.coordinates if model.rates[q.rate] in model.velocities}
    for each in program.posture:
        if each not in own and each not in model.velocities:
            known = ", ".join(q.name for q in own)
            text = f"program {program.name}: the posture of {each}, which is no coordinate of {model.name} that moves "
            raise ModelError(f"{text}by a velocity of its own; give {known}", program.place.argument("posture"))
    wanted = {own.get(each, each): resolved(expression) for each, expression in program.posture.items()}
    return [wanted.get(v, sympy.Integer(0)) for v in model.velocities] if wanted else []


def _check_names(equations: Equations, program: Program, limited: bool) -> None:
    """A program's names must differ from the machine's, but for signals that state an input of that name."""
    machine = {symbol.name for symbol in equations.model.symbols}
    machine |= {each.quantity.name for each in equations.model.stabilised}
    inputs = {u.name for u in program.inputs}
    own: list[Any] = [*program.parameters, *program.targets, *program.signals, *program.states, *program.setpoints]
    names = [each.name for each in own]
    signals = {each.name for each in program.signals}
    for each in own:
        if names.count(each.name) > 1 or (each.name in machine and not (each.name in signals and each.name in inputs)):
            raise ModelError(
                f"program {program.name}: the name {each.name!r} is used twice, or by machine "
                f"{equations.model.name} as well; rename it in the program",
                each.place,
            )
    shown = machine | set(names) | {each.quantity.name for each in equations.model.outputs} | _COLUMNS
    for watched in program.watches:
        if watched.quantity.name in shown:
            text = f"program {program.name}: the name of the watch {watched.quantity.name!r} is used already; rename it"
            raise ModelError(text, watched.place)
        shown.add(watched.quantity.name)
    residuals = [each.quantity.name for each in program.residuals]
    reserved = {"t", "late", "energy", "work"} | {f"residual_{name}" for name in residuals}
    reserved |= {f"lambda_{name}" for name in residuals} | {each.scale.name for each in program.limits}
    if program.keep or limited:
        numbers = {each.name for keep in program.keep for each in keep_symbols(keep.quantity.name)}
        numbers |= {each.name for u in equations.model.inputs for each in limit_symbols(u.name)}
        reserved |= numbers
        if clash := sorted(machine & numbers):
            text = f"program {program.name}: machine {equations.model.name} has the name {clash[0]!r}, which is "
            raise ModelError(f"{text}servonode's own where something is kept; rename it there", program.place)
    for each in own:
        if each.name in reserved:
            text = f"program {program.name}: the name {each.name!r} is servonode's own; rename it"
            raise ModelError(text, each.place)
    kinds: dict[str, Sequence[Any]] = {"residuals": program.residuals, "limits": program.limits, "keeps": program.keep}
    for kind, stated in kinds.items():
        taken = [each.quantity.name for each in stated]
        for row in stated:
            if taken.count(row.quantity.name) > 1:
                text = f"program {program.name}: two {kind} are called {row.quantity.name!r}; rename one of them"
                raise ModelError(text, row.place)


def _check_other_expressions(resolved: Resolution, others: Sequence[Other]) -> None:
    """Everything beside residuals contains known symbols only; every input is given or none is."""
    model, program = resolved.model, resolved.program
    for each in program.states:  # the initial value of one may not depend on another
        if resolved.in_velocities(each.start).free_symbols & set(program.states):
            text = (
                f"program {program.name}, the initial value of state {each.name}: it contains another state; give it "
            )
            raise ModelError(f"{text}in the machine's initial state", each.place)
    for what, expression, place, more in others:
        check_symbols(resolved, resolved.in_velocities(expression), what, place, more)
    if program.inputs and set(program.inputs) != set(model.inputs):
        names = ", ".join(u.name for u in model.inputs)
        text = f"program {program.name}: inputs= must give each input of {model.name} ({names}), or be left out"
        raise ModelError(text, program.place.argument("inputs"))


def _others(program: Program, inputs: tuple[Expr, ...]) -> list[Other]:
    """All expressions but residuals."""
    gains = (late, *(gain_symbol(each.quantity.name) for each in program.residuals))
    conditions, at = (*program.requirements, *program.warnings), program.place.argument
    found: list[Other] = [("a guard", each.margin, each.place, ()) for each in program.guards]
    found += [("a requirement or warning", each.margin, each.place, gains) for each in conditions]
    found += [("a relation", each, at("relations"), inputs) for each in program.relations]
    found += [(f"the initial value of state {each.name}", each.start, each.place, ()) for each in program.states]
    found += [(f"the damping of residual {e.quantity.name}", e.damping, e.place, ()) for e in program.residuals]
    found += [(f"the rate of state {each.name}", rate, at("states"), ()) for each, rate in program.states.items()]
    found += [(f"setpoint {each.name}", each.expression, each.place, ()) for each in program.setpoints]
    found += [(f"watch {each.quantity.name}", each.expression, each.place, ()) for each in program.watches]
    found += [(f"the posture of {each}", wanted, at("posture"), ()) for each, wanted in program.posture.items()]
    for each in program.limits:
        entries = each.of if each.kind == "expressions" else ()
        found += [(f"limit {each.quantity.name}", part, each.place, ()) for part in (each.at_most, *entries)]
    found += [(f"the initial value of {each.name}", value, at("start"), ()) for each, value in program.start.items()]
    return found + [(f"the input {u.name}", value, at("inputs"), ()) for u, value in program.inputs.items()]


def _orders(program: Program, expressions: list[Any]) -> tuple[int, int]:
    """The highest derivative of targets and of signals that occurs."""
    present: set[Expr] = set()
    for each in expressions:
        for expression in each if isinstance(each, list) else [each]:
            present |= sympy.sympify(expression).free_symbols

    def highest(signals: Any) -> int:
        return max((n for each in signals for n in range(_MOST_ORDERS) if each.derivative(n) in present), default=0)

    return highest(program.targets), highest(program.signals)
