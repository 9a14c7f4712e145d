"""A machine's generated observer module: what its sensors measure, and the linearisation of its motion.

The state's rates are x' = F(t, x, u), with q' = G v + g0 and v' from M_r v' = B_r u - h_r =: f (README eq. 3). Their
slopes by a state x_j solve the same equations once more, M_r dv'/dx_j = df/dx_j - (dM_r/dx_j) v', and those by an input
M_r dv'/du_k = (B_r)_k. What a sensor measures, h(t, x, u), may contain v'; its slopes then contain these.
"""

from servonode.errors import ModelError
from servonode.mechanics import computed, emit
from servonode.mechanics.derivation import Derivation
from servonode.mechanics.emit import Block, Constants
from servonode.mechanics.equations import Equations
from servonode.mechanics.kernels import ObserverKernel, Signature, sizes_text
from servonode.mechanics.linear_solve import solves
from servonode.mechanics.machine_source import (
    Expr,
    accelerations,
    bind_accelerations,
    describe,
    lower_triangle,
    unpack_lower,
)
from servonode.mechanics.straight_line import diff

Texts = list[list[str]]  # one list a column


def observer_source(derivation: Derivation) -> str:
    """The text of the generated module of a machine's observer.

    Raises:
        ModelError: the machine's motion cannot be linearised here.
    """
    equations = derivation.equations
    model = equations.model
    if model.reactions or model.jumps:
        text = f"machine {model.name} has {'reactions' if model.reactions else 'jumps'}, whose linearisation is not "
        raise ModelError(f"{text}derived; observers are for machines with neither", model.place)
    constants = Constants(model.parameters)
    second = {q.acceleration: equations.acceleration(i) for i, q in enumerate(model.coordinates)}
    measured = [each.expression.xreplace(second).xreplace(model.rates) for each in model.sensors]
    body = [_measure(equations, constants, measured), _measured(equations, constants, measured)]
    body.append(_slopes(equations, constants))
    if model.held:
        body.append(_normals(equations, constants))
    sizes = describe(model).sizes | {"n_z": len(model.sensors)}
    shared = [*solves(*body), *computed.functions(model.tree, constants, *body)]
    return "\n\n".join([emit.HEADER + sizes_text(sizes) + constants.source(), *shared, *body])


def _block(equations: Equations, constants: Constants) -> Block:
    block = Block(constants)
    block.load("x", equations.model.state)
    block.load("u", equations.model.inputs)
    return block


def _uses_accelerations(equations: Equations, expressions: list[Expr]) -> bool:
    rates = {v.rate for v in equations.model.velocities}
    return any(each.free_symbols & rates for each in expressions)


def _measure(equations: Equations, constants: Constants, measured: list[Expr]) -> str:
    """Generated `measure(t, x, u, c, z)`: what the sensors measure without error."""
    block = _block(equations, constants)
    if _uses_accelerations(equations, measured):
        bind_accelerations(block, equations.model, accelerations(block, equations, [])[0])
    block.store("z", block.evaluate(measured))
    return block.function(Signature.of(ObserverKernel, "measure"), "t")


def _measured(equations: Equations, constants: Constants, measured: list[Expr]) -> str:
    """Generated `measured(t, x, u, c, z, H)`: the same, and its slopes by the states (n_z, n_state)."""
    block, model = _block(equations, constants), equations.model
    by_state: Texts = [[] for _ in model.state]
    if _uses_accelerations(equations, measured):
        by_state, _ = _linear_accelerations(block, equations)
    block.store("z", block.evaluate(measured))
    for i, each in enumerate(measured):
        through = block.evaluate([diff(each, v.rate) for v in model.velocities])
        direct = block.evaluate([diff(each, x) for x in model.state])
        for j, column in enumerate(by_state):
            terms = (("+", slope, entry) for slope, entry in zip(through, column or through, strict=True))
            block.lines.append(f"    H[{i}, {j}] = {emit.combine(terms, direct[j]) if column else direct[j]}")
    return block.function(Signature.of(ObserverKernel, "measured"), "t")


def _slopes(equations: Equations, constants: Constants) -> str:
    """Generated `slopes(t, x, u, c, A, B)`: dx'/dx (n_state, n_state) and dx'/du (n_state, n_tau)."""
    block, model = _block(equations, constants), equations.model
    by_state, by_input = _linear_accelerations(block, equations)
    kinematics = dict(model.kinematics)
    velocities = list(model.velocities)
    flat = block.evaluate([diff(rate, x) for rate in kinematics.values() for x in model.state])
    rows = {q: flat[i * len(model.state) : (i + 1) * len(model.state)] for i, q in enumerate(kinematics)}
    for i, symbol in enumerate(model.state):
        own = velocities.index(symbol) if symbol in velocities else -1
        row = rows[symbol] if own < 0 else [column[own] for column in by_state]
        block.lines += [f"    A[{i}, {j}] = {text}" for j, text in enumerate(row)]
        inputs = ["0.0" if own < 0 else column[own] for column in by_input]
        block.lines += [f"    B[{i}, {k}] = {text}" for k, text in enumerate(inputs)]
    return block.function(Signature.of(ObserverKernel, "slopes"), "t")


def _normals(equations: Equations, constants: Constants) -> str:
    """Generated `normals(t, x, c, N)`: the slopes of what is held at zero by the states (n_held, n_state)."""
    block, model = Block(constants), equations.model
    block.load("x", model.state)
    texts = block.evaluate([diff(each, x) for each in model.held.values() for x in model.state])
    block.store_rows("N", texts, len(model.state))
    return block.function(Signature.of(ObserverKernel, "normals"), "t")


def _linear_accelerations(block: Block, equations: Equations) -> tuple[Texts, Texts]:
    """Emit v', bound to the velocities' rates, and its slopes: a column (n_v,) for each state, and for each input."""
    model = equations.model
    n, size = len(model.velocities), len(lower_triangle(equations))
    force = equations.B_r * equations.tau - equations.h_r
    texts = block.evaluate([*lower_triangle(equations), *force])
    mass = unpack_lower(texts[:size], n)
    (rates,) = emit.solve_spd(block, mass, [texts[size:]])
    bind_accelerations(block, model, rates)
    columns = [
        diff(force[i], x) - sum(diff(equations.M_r[i, k], x) * v.rate for k, v in enumerate(model.velocities))
        for x in model.state
        for i in range(n)
    ]
    columns += [equations.B_r[i, k] for k in range(len(model.inputs)) for i in range(n)]
    texts = block.evaluate(columns)
    solved = emit.solve_spd(block, mass, [texts[i : i + n] for i in range(0, len(texts), n)])
    return solved[: len(model.state)], solved[len(model.state) :]
