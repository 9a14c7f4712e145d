"""A machine's generated module: right-hand side, energy, full form, outputs (its steps: see `integrate`).

All functions take the state array x (n + 1,) in the description's state order with the work [J] of inputs and
losses as last entry, the inputs u, and the constants c computed from the parameters p by `constants(p, c)`.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any

import msgspec
import sympy

from servonode.definitions.progress import doing
from servonode.kernels.library import library_text
from servonode.mechanics import computed, emit, kernels, reactions
from servonode.mechanics.derivation import Derivation
from servonode.mechanics.description import MachineDescription, Skeleton
from servonode.mechanics.emit import Block, Constants, Name, local
from servonode.mechanics.equations import Equations
from servonode.mechanics.jump_source import jump_source
from servonode.mechanics.kernels import Argument, MachineKernel, Signature, sizes_text
from servonode.mechanics.linear_solve import solves
from servonode.mechanics.links import Frame, Link
from servonode.mechanics.model import Model
from servonode.mechanics.straight_line import gradient
from servonode.mechanics.symbols import margins_and_sides
from servonode.mechanics.trees import Tree

Expr = Any
POSE = 22  # numbers of a link in `poses`


def source_and_description(derivation: Derivation) -> tuple[str, bytes]:
    """The text of a machine's kernel, and its description as JSON."""
    equations = derivation.equations
    return machine_source(equations), msgspec.json.encode(describe(equations.model, equations.by_numbers))


def describe(model: Model, by_numbers: tuple[str, ...] = ()) -> MachineDescription:
    """The names, units, defaults and texts of a model, without its expressions; `by_numbers` as of its equations."""
    shown: tuple[Any, ...] = (*model.constraints, *model.reactions, *model.outputs)
    views, numbers = model.drawn
    return MachineDescription(
        name=model.name,
        description=model.description,
        state=tuple(symbol.quantity for symbol in model.state),
        coordinates=tuple(q.name for q in model.coordinates),
        velocities=tuple(v.name for v in model.velocities),
        inputs=tuple(u.quantity for u in model.inputs),
        parameters=tuple(p.quantity for p in model.parameters),
        outputs=tuple(each.quantity for each in shown),
        constraints=tuple(each.quantity.name for each in model.constraints),
        requirements=tuple(each.requirement for each in model.requirements),
        warnings=tuple(each.requirement for each in model.warnings),
        faults=tuple(each.requirement for each in model.faults),
        has_safe_action=bool(model.safe),
        safe={u.name: str(each) for u, each in model.safe.items() if each != 0},
        panels=tuple(tuple(panel) for panel in model.panels),
        vectors={name: tuple(entry.name for entry in entries) for name, entries in model.vectors.items()},
        held=tuple(model.held),
        independent=tuple(v.of.name for v in model.independent_rates if v.of is not None),
        first_order=tuple(each.name for each in model.first_order),
        reactions=tuple(each.name for each in model.reactions),
        stabilised=tuple(each.quantity for each in model.stabilised),
        jumps=tuple((each.description, f"{each.margin} {'>' if each.strict else '>='} 0") for each in model.jumps),
        jumps_compare=any(each.compares for each in model.jumps),
        jump_terms=len(_jump_terms(model)),
        sensors=tuple(each.description for each in model.sensors),
        places=_places(model),
        notes=tuple(model.notes),
        has_full_form=model.has_full_form,
        by_numbers=by_numbers,
        skeleton=_skeleton(model.tree) if model.tree else None,
        drawing=views,
        n_drawn=len(numbers),
    )


def _skeleton(tree: Tree) -> Skeleton:
    """Its links, then its frames."""
    names = [*(each.name for each in tree.links), *(each.name for each in tree.frames)]
    stand_on = [*(each.parent for each in tree.links), *(each.link for each in tree.frames)]
    return Skeleton(tuple(names), tuple(names.index(name) if name else -1 for name in stand_on), len(tree.links))


def _places(model: Model) -> dict[str, str]:
    """The place in the source of what a state can make infinite: the energies, and each coordinate's kinematics."""
    words = ("kinetic", "potential", "dissipation")
    places = {"model": str(model.place)} | {word: str(model.place.argument(word)) for word in words}
    return places | {q.name: str(model.place_of_kinematics(q)) for q in model.coordinates}


def machine_source(equations: Equations) -> str:
    """The text of the generated module of a machine."""
    model = equations.model
    doing("deriving", "text of its functions")
    constants = Constants(model.parameters)
    at_state, with_rates = partial(_at_state, model, constants), partial(_with_rates, model, constants)
    residuals = [*(each.row for each in model.constraints), *(each.residual for each in model.stabilised)]
    body = [
        _rhs(equations, constants),
        *([_values("position_residual", at_state(), model.held.values())] if model.held else []),
        *([_project(model, at_state())] if model.held else []),
        *([_poses(model.tree, at_state())] if model.tree else []),
        _derivatives(equations),
        _values("energy", at_state(), [equations.kinetic, equations.potential]),
        _values("constraint_residual", with_rates(), residuals),
        *([_full(equations, constants), _matrices(equations, constants)] if model.has_full_form else []),
        _outputs(equations, constants),
        *(Signature.of(MachineKernel, name).definition() + body for name, body in _ROWS.items()),
        *([_faults(equations, constants)] if model.faults else []),
        *([_assembly(model, at_state())] if model.assemblies else []),
        *([_values("input_rates", with_rates(), model.inputs.values())] if model.inputs else []),
        *([_values("safe_input", with_rates(), [model.safe.get(u, 0) for u in model.inputs])] if model.safe else []),
        *([_values("margins", at_state(), [each.margin for each in model.jumps])] if model.jumps else []),
        *(jump_source(model, constants) if model.jumps else []),
        *([_values("jump_terms", at_state(), _jump_terms(model))] if _jump_terms(model) else []),
        _requirements(model),
        *([_drawing(equations, constants)] if model.drawing else []),
    ]
    shared = [*solves(*body), *computed.functions(model.tree, constants, *body)]
    sizes = sizes_text(describe(model).sizes)
    return "\n\n".join([emit.HEADER + sizes + constants.source(len(model.assemblies)), *shared, *body])


_ROWS = {
    "energies": """\
    for i in range(n):
        energy(t[i], x[i], c, parts)
        out[i] = parts[0] + parts[1]
""",
    "residuals": """\
    for i in range(n):
        constraint_residual(t[i], x[i], c, out[i])
""",
    "monitored": """\
    for i in range(n):
        outputs(t[i], x[i], u[i], c, S, y, out[i])
""",
}


def accelerations(block: Block, equations: Equations, beside: list[Expr]) -> tuple[list[str], list[str]]:
    """Emit v' of the minimal form under the inputs, and other expressions with it; the texts of both."""
    if equations.model.reactions:
        return reactions.solve(block, equations, beside)
    n = len(equations.model.velocities)
    force = equations.B_r * equations.tau - equations.h_r
    solution = computed.accelerations(block, equations.M_r, list(force))
    if solution is not None:
        return solution, block.evaluate(beside)
    texts = block.evaluate([*lower_triangle(equations), *force, *beside])
    size = n * (n + 1) // 2
    (solution,) = emit.solve_spd(block, unpack_lower(texts[:size], n), [texts[size : size + n]])
    return solution, texts[size + n :]


def unpack_lower(texts: list[str], n: int) -> list[list[str]]:
    """Row lists of the lower triangle from its flat list of texts."""
    return [texts[i * (i + 1) // 2 : i * (i + 1) // 2 + i + 1] for i in range(n)]


def lower_triangle(equations: Equations) -> list[Expr]:
    """The minimal mass matrix's lower triangle, row by row."""
    M = equations.M_r
    return [M[i, j] for i in range(M.rows) for j in range(i + 1)]


def _rhs(equations: Equations, constants: Constants) -> str:
    model, block = equations.model, Block(constants)
    scalars = ["t_", *map(local, model.state), *map(local, model.inputs)]
    rates = list(model.kinematics.values())
    unknown = set() if model.reactions else {v.rate for v in model.velocities}  # reactions are solved along with them
    moves = bool(equations.power.free_symbols & unknown)  # a constraint does work
    vdot, texts = accelerations(block, equations, rates if moves else [*rates, equations.power])
    if moves:
        bind_accelerations(block, model, vdot)
        texts += block.evaluate([equations.power])
    by_symbol = dict(zip(model.kinematics, texts[:-1], strict=True))
    by_symbol |= dict(zip(model.velocities, vdot, strict=True))
    result = ", ".join([*(by_symbol[symbol] for symbol in model.state), texts[-1]])
    arguments = (*(Argument.of(name, float) for name in scalars), Argument.of("c", kernels.Constants))
    return block.function(Signature("rhs", arguments, f"f64[{len(model.state) + 1}]"), result=f"({result})")


def bind_accelerations(block: Block, model: Model, texts: list[str]) -> None:
    for v, text in zip(model.velocities, texts, strict=True):
        block.bind(v.rate, text)


def _project(model: Model, block: Block) -> str:
    """Generated `project(t, x, c)`: one Gauss-Newton step q -= Gq^T (Gq Gq^T)^-1 g back onto what is held at zero.

    The integrator leaves them by its own error, of its order; one correction a time step keeps it from adding up.
    """
    finite = list(model.held.values())
    slopes = [gradient(g, model.coordinates) for g in finite]
    gram = [sum((a * b for a, b in zip(slopes[i], slopes[j], strict=True)), sympy.Integer(0))
            for i in range(len(finite)) for j in range(i + 1)]  # fmt: skip
    texts = block.evaluate([*finite, *gram, *(entry for row in slopes for entry in row)])
    n, n_q = len(finite), len(model.coordinates)
    size = n + n * (n + 1) // 2
    (multipliers,) = emit.solve_spd(block, unpack_lower(texts[n:size], n), [texts[:n]])
    for i, q in enumerate(model.coordinates):
        column = [texts[size + row * n_q + i] for row in range(n)]
        change = emit.combine(("+", entry, scale) for entry, scale in zip(column, multipliers, strict=True))
        if not emit.is_zero(change):
            block.lines.append(f"    x[{model.state.index(q)}] -= {change}")
    return _function("project", block)


def _poses(tree: Tree, block: Block) -> str:
    """Generated `poses(t, x, c, out)`: see `Machine.poses`."""
    parts: list[Link | Frame] = [*tree.links, *tree.frames]
    bodies: list[list[Expr]] = []
    for each in parts:
        if isinstance(each, Frame):
            bodies.append([sympy.Integer(0)] * (POSE - 12))
        else:
            (xx, xy, xz), (_, yy, yz), (_, _, zz) = each.inertia
            bodies.append([each.mass, *each.centre, xx, yy, zz, xy, xz, yz])
    if tree.data is None or block.constants is None:
        located = [tree[each.name] for each in parts]
        rows = [(*each.position, *each.rotation, *body) for each, body in zip(located, bodies, strict=True)]
        block.store_rows("out", block.evaluate(list(chain(*rows))), POSE)
        return _function("poses", block)
    held = [tree.held(each.name) for each in parts]
    rows = [(*at, *turn[0], *turn[1], *turn[2], *body) for (_, turn, at), body in zip(held, bodies, strict=True)]
    P, _ = tree.data.placed(block)
    world, start = block.array("world", (len(tree.data.parents), 12)), block.constants.run(list(chain(*rows)))
    block.lines += [f"    tree_world({P}, {world})", f"    placed({world}, c, {start}, out)"]
    nodes = "".join(f"    if k == {k}:\n        return {node}\n" for k, (node, _, _) in enumerate(held) if node)
    text = library_text("placed", {}, {"n_placed": POSE})
    return "\n\n".join([f"def node_of(k: i64) -> i64:\n{nodes}    return 0\n", text, _function("poses", block)])


def _derivatives(equations: Equations) -> str:
    n = len(equations.model.state)
    block = Block(None)
    block.lines.append(f"    k = {_rates_of(equations.model, 't')}")
    block.store("dx", [f"k[{i}]" for i in range(n + 1)])
    return block.function(Signature.of(MachineKernel, "derivatives"))


def _rates_of(model: Model, time: str = "t_") -> str:
    """The call of `rhs` at the state x and the inputs u."""
    state, inputs = (
        [f"{array}[{i}]" for i in range(len(part))] for array, part in (("x", model.state), ("u", model.inputs))
    )
    return f"rhs({', '.join([time, *state, *inputs, 'c'])})"


def _function(name: str, block: Block, result: str = "") -> str:
    return block.function(Signature.of(MachineKernel, name), "t", result=result)


def _values(name: str, block: Block, expressions: Iterable[Expr]) -> str:
    """A generated function that puts the values of expressions into its array `out`."""
    block.store("out", block.evaluate(list(expressions)))
    return _function(name, block)


def _at_state(model: Model, constants: Constants) -> Block:
    """A block in which the state has its values."""
    block = Block(constants)
    block.load("x", model.state)
    return block


def _with_rates(model: Model, constants: Constants) -> Block:
    """A block in which the state and the coordinates' rates have their values, those excepted that are reactions."""
    block = _at_state(model, constants)
    _bind_rates(block, {q: rate for q, rate in model.kinematics.items() if q not in model.moved_by_reactions})
    return block


def _bind_rates(block: Block, kinematics: Mapping[Expr, Expr]) -> None:
    for q, text in zip(kinematics, block.evaluate(list(kinematics.values())), strict=True):
        block.bind(q.rate, text)


def _solved(model: Model, wanted: Iterable[Expr]) -> set[Expr]:
    """The symbols in expressions that have their values only once the motion is solved."""
    solved = {*model.reactions, *(each.rate for each in (*model.velocities, *model.moved_by_reactions))}
    solved |= {q.acceleration for q in model.coordinates}
    return {symbol for each in wanted for symbol in each.free_symbols} & solved


def _bind_motion(block: Block, equations: Equations, wanted: list[Expr], known: bool = False) -> None:
    """Give reactions, velocities' rates, and the second rates of coordinates, where `wanted` has any, their values.

    known: the velocities' rates have them.
    """
    model = equations.model
    solved = _solved(model, wanted)
    if not solved:
        return
    if not known:
        bind_accelerations(block, model, accelerations(block, equations, [])[0])
    _bind_rates(block, {q: model.kinematics[q] for q in model.moved_by_reactions})
    named = solved - {v.rate for v in model.velocities}
    for i, q in enumerate(model.coordinates):
        if q.acceleration in named:
            full = model.has_full_form and f"y[{i}]"
            block.bind(q.acceleration, full or block.evaluate([equations.acceleration(i)])[0])


def _full(equations: Equations, constants: Constants) -> str:
    """M q'' - A^T Lambda = B tau - h, A q'' = gamma, solved with pivoting: (q'', Lambda) in y."""
    block = _with_rates(equations.model, constants)
    block.load("u", equations.model.inputs)
    n_q, n_c = len(equations.model.coordinates), len(equations.model.constraints)
    S = equations.M.row_join(-equations.A.T).col_join(equations.A.row_join(sympy.zeros(n_c)))
    y = [*(equations.B * equations.tau - equations.h), *equations.gamma]
    texts = block.evaluate([*S, *y])
    n = n_q + n_c
    block.store_table("S", [texts[i * n : i * n + n] for i in range(n)])
    block.store("y", texts[n * n :])
    return _function("full", block, f"solve_{n}(S, y)")


def _matrices(equations: Equations, constants: Constants) -> str:
    """Generated `matrices(t, x, c, M, h, B, A, gamma)`: the terms of the full form, for checks and reports."""
    block = _with_rates(equations.model, constants)
    tables = {"M": equations.M, "h": equations.h, "B": equations.B, "A": equations.A, "gamma": equations.gamma}
    texts = iter(block.evaluate([entry for table in tables.values() for entry in table]))
    for name, table in tables.items():
        rows = [[next(texts) for _ in range(table.cols)] for _ in range(table.rows)]
        if name in ("h", "gamma"):
            block.store(name, [row[0] for row in rows])
        else:
            block.store_table(name, rows)
    return _function("matrices", block)


def _outputs(equations: Equations, constants: Constants) -> str:
    """Multipliers, declared outputs, then the warnings' margins."""
    model = equations.model
    wanted = [each.multiplier for each in model.constraints] + list(model.reactions)
    wanted += [each.expression for each in model.outputs] + [each.margin for each in model.warnings]
    block = _with_inputs(equations, constants, wanted)
    block.store("out", block.evaluate(wanted))
    return _function("outputs", block)


def _drawing(equations: Equations, constants: Constants) -> str:
    """Generated `drawing`: the numbers of all shapes one behind the other, see `DrawnShape`.

    Of its constants there are parameters alone, so that those of all other functions stay what they are.
    """
    model = equations.model
    outputs = {each: Name(f"o{i}", real=True) for i, each in enumerate(_shown(model)) if not each.is_Atom}
    given = {each: constants.parameter(each) for each in model.parameters}
    wanted = [sympy.sympify(each).xreplace(given | outputs) for each in model.drawn[1]]
    free = set().union(*(each.free_symbols for each in wanted))
    more = [each.xreplace(given) for each, name in outputs.items() if name in free]  # once, for they may be long
    block = _with_inputs(equations, constants, [*more, *wanted], by_rates=not model.reactions)
    for name, text in zip([name for name in outputs.values() if name in free], block.evaluate(more), strict=True):
        block.bind(name, text)
    block.store("out", block.evaluate(wanted))
    return _function("drawing", block)


def _shown(model: Model) -> list[Expr]:
    """The expressions of its outputs."""
    return [sympy.sympify(each.expression) for each in model.outputs]


def _with_inputs(
    equations: Equations, constants: Constants, wanted: list[Expr], by_rates: bool = False
) -> Block:  # fmt: skip
    """A block in which all that `wanted` contains has its value, contact forces and accelerations too.

    by_rates: the accelerations are those of the function `rhs`, not solved for anew, which makes a shorter text.
    """
    model = equations.model
    multipliers = [each.multiplier for each in model.constraints]
    free = set().union(*(sympy.sympify(each).free_symbols for each in wanted))
    block = _with_rates(model, constants)
    block.load("u", model.inputs)
    if model.has_full_form and (free & set(multipliers) or _solved(model, wanted)):
        block.lines.append("    full(t_, x, u, c, S, y)")
    for i, each in enumerate(multipliers):
        if each in free:
            block.bind(each, f"y[{len(model.coordinates) + i}]")
    if by_rates and _solved(model, wanted):
        block.lines.append(f"    k = {_rates_of(model)}")
        bind_accelerations(block, model, [f"k[{model.state.index(v)}]" for v in model.velocities])
    _bind_motion(block, equations, wanted, known=by_rates)
    return block


def _faults(equations: Equations, constants: Constants) -> str:
    """Generated `faults(t, x, c)`: the number of the first fault whose condition is violated, 0 for none."""
    model, block = equations.model, _with_rates(equations.model, constants)
    margins = [each.margin for each in model.faults]
    _bind_motion(block, equations, margins)
    for i, sign in enumerate(model.assemblies, 1):
        block.bind(sign, f"c[len(c) - {i}]")
    texts = block.evaluate(margins)
    block.lines.append("    found = 0")
    for i, (each, text) in enumerate(zip(model.faults, texts, strict=True), 1):
        block.lines.append(f"    if found == 0 and not ({text} {'>' if each.requirement.strict else '>='} 0.0):")
        block.lines.append(f"        found = {i}")
    return _function("faults", block, "found")


def _assembly(model: Model, block: Block) -> str:
    """Generated `assembly(t, x, c)`: the signs of the loops' determinants, put at the end of the constants."""
    texts = block.evaluate(list(model.assemblies.values()))
    block.lines += [f"    c[len(c) - {i}] = sign({text})" for i, text in enumerate(texts, 1)]
    return _function("assembly", block)


def _jump_terms(model: Model) -> list[Expr]:
    """The margins of jumps and what these set, where they depend on no state before the step."""
    compare = any(each.compares for each in model.jumps)
    return [] if compare else [each for jump in model.jumps for each in (jump.margin, *jump.changes.values())]


def _requirements(model: Model) -> str:
    """Generated `requirements(p, out)`: their margins, and the values of their sides."""
    block = Block(None)
    block.load("p", model.parameters)
    block.store_rows("out", block.evaluate(margins_and_sides(model.requirements)), len(model.requirements))
    return _function("requirements", block)
