"""From a Model to its equations of motion, in full form with multipliers and in minimal form.

Full form, in the rates q' (README eq. 1):      M q'' + h = B tau + A^T Lambda,   A q'' = gamma.
Minimal form, in the velocities v (README eq. 3): M_r v' + h_r = B_r tau with q' = G v + g0 and A G = 0,
M_r = G^T M G, h_r = G^T [M (G' v + g0') + h], B_r = G^T B (Maggi's projection).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy

from servonode.mechanics.model import Model, ModelError, time
from servonode.mechanics.tidy import tidy, tidy_matrix

Matrix = Any  # sympy.Matrix
Expr = Any


@dataclass(frozen=True)
class Equations:
    """Symbolic equations of motion of a model, ready to be compiled.

    Shapes: M, h, B full (n_q, n_q), (n_q,), (n_q, n_tau); A (n_c, n_q); b, gamma (n_c,); G (n_q, n_v);
    g0 (n_q,); minimal M_r (n_v, n_v), h_r (n_v,), B_r (n_v, n_tau). The full form speaks in rates `q_dot`, the
    minimal form, the energies and the powers in velocities.
    """

    model: Model
    M: Matrix
    h: Matrix
    B: Matrix
    A: Matrix
    b: Matrix
    gamma: Matrix
    G: Matrix
    g0: Matrix
    M_r: Matrix
    h_r: Matrix
    B_r: Matrix
    kinetic: Expr
    potential: Expr
    power: Expr  # of the inputs, losses taken off [W]

    @property
    def tau(self) -> Matrix:
        """The inputs as a column (n_tau, 1)."""
        return sympy.Matrix(len(self.model.inputs), 1, list(self.model.inputs))

    @property
    def rates(self) -> dict[Expr, Expr]:
        """Time and coordinates -> their rates along the motion, q' = G v + g0."""
        qdot = self.G * _column(self.model.velocities) + self.g0
        return {time: sympy.Integer(1), **dict(zip(self.model.coordinates, qdot, strict=True))}


def derive(model: Model) -> Equations:
    """The equations of motion of a model.

    Raises:
        ModelError: the kinetic energy is not quadratic in the rates, the kinematics are not linear in the
            velocities, a constraint is not linear in the rates or is not satisfied by the kinematics, or the
            constraints are redundant.
    """
    constants = set(model.parameters)
    rates = [q.rate for q in model.coordinates]
    _check_symbols(model)
    _check_speaks_in_rates(model)
    M, h = _euler_lagrange(model, rates)
    works_on = [sympy.sympify(on) for on in model.inputs.values()]
    B = sympy.Matrix(len(rates), len(works_on), [sympy.diff(on, rate) for rate in rates for on in works_on])
    A, b, gamma = _constraint_rows(model, rates)
    G, g0 = _kinematics(model)
    _check_constraints_hold(model, A, b, G, g0)
    _check_rank(model, M, A, G)
    v = _column(model.velocities)
    in_velocities = dict(zip(rates, G * v + g0, strict=True))
    h_moving = M * _drift_of_kinematics(model, G, g0, v) + h
    substituted = h_moving.xreplace(in_velocities)
    kinetic = sympy.sympify(model.kinetic).xreplace(in_velocities)
    power = sum((u * sympy.sympify(on) for u, on in model.inputs.items()), sympy.Integer(0))
    loss = sum(rate * sympy.diff(model.dissipation, rate) for rate in rates)
    return Equations(
        model=model,
        M=M,
        h=h,
        B=B,
        A=A,
        b=b,
        gamma=gamma,
        G=G,
        g0=g0,
        M_r=tidy_matrix(G.T * M * G, constants),
        h_r=tidy_matrix(G.T * substituted, constants),
        B_r=tidy_matrix(G.T * B, constants),
        kinetic=tidy(kinetic, constants),
        potential=sympy.sympify(model.potential),
        power=tidy((power - loss).xreplace(in_velocities), constants),
    )


def _check_symbols(model: Model) -> None:
    """Every symbol of a model's expressions must be one of the model's own."""
    known = {*model.symbols, time, *(q.rate for q in model.coordinates)}
    later = known | {v.rate for v in model.velocities} | {each.multiplier for each in model.constraints}
    stated = [("the kinetic energy", model.kinetic, known), ("the potential", model.potential, known)]
    stated += [("the dissipation", model.dissipation, known)]
    stated += [(f"the constraint {each.quantity.name}", each.row, known) for each in model.constraints]
    stated += [(f"the rate of {q.name}", rate, known) for q, rate in model.kinematics.items()]
    stated += [(f"the output {each.quantity.name}", each.expression, later) for each in model.outputs]
    stated += [(f"the warning {each.requirement.text!r}", each.margin, later) for each in model.warnings]
    for what, expression, symbols in stated:
        unknown = sorted(symbol.name for symbol in sympy.sympify(expression).free_symbols - symbols)
        if unknown:
            raise ModelError(
                f"machine {model.name}: {what} contains {unknown[0]!r}, which the model does not list; "
                f"add it to the model or use one of {', '.join(sorted(symbol.name for symbol in symbols))}"
            )


def _check_speaks_in_rates(model: Model) -> None:
    """Energies, constraints and inputs must be stated in rates: a velocity in them would count as a constant."""
    stated = {"the kinetic energy": model.kinetic, "the potential": model.potential}
    stated |= {"the dissipation": model.dissipation}
    stated |= {f"the constraint {each.quantity.name}": each.row for each in model.constraints}
    stated |= {f"the rate of input {u.name}": on for u, on in model.inputs.items()}
    for what, expression in stated.items():
        wrong = sympy.sympify(expression).free_symbols & set(model.velocities)
        if wrong:
            name = min(symbol.name for symbol in wrong)
            raise ModelError(
                f"machine {model.name}: {what} contains the velocity {name}; state it in rates of coordinates "
                "such as x.rate (the kinematics say what these are in velocities)"
            )
    known = {q.rate for q in model.coordinates}
    for u, on in model.inputs.items():
        if not sympy.sympify(on).free_symbols & known:
            raise ModelError(f"machine {model.name}: input {u.name} does work on no coordinate's rate; state one")


def _column(entries: Any) -> Matrix:
    return sympy.Matrix(list(entries))


def _euler_lagrange(model: Model, rates: list[Expr]) -> tuple[Matrix, Matrix]:
    """M (n_q, n_q) and h (n_q,) with d/dt dT/dq' - dT/dq + dU/dq + dR/dq' = M q'' + h."""
    constants = set(model.parameters)
    T, U, R = map(sympy.sympify, (model.kinetic, model.potential, model.dissipation))
    momenta = [sympy.diff(T, rate) for rate in rates]
    M = tidy_matrix(sympy.Matrix([[sympy.diff(p, rate) for rate in rates] for p in momenta]), constants)
    unwanted = M.free_symbols & set(rates)
    if unwanted:
        raise ModelError(
            f"machine {model.name}: the kinetic energy is not quadratic in the rates "
            f"{', '.join(sorted(map(str, unwanted)))}; its second derivative still contains them"
        )
    pairs = list(zip(model.coordinates, rates, strict=True))
    bias = []
    for q, rate, p in zip(model.coordinates, rates, momenta, strict=True):
        transport = sum(sympy.diff(p, other) * other_rate for other, other_rate in pairs)
        force = -sympy.diff(T, q) + sympy.diff(U, q) + sympy.diff(R, rate) + sympy.diff(p, time)
        bias.append(tidy(transport + force, constants))
    return M, sympy.Matrix(bias)


def _constraint_rows(model: Model, rates: list[Expr]) -> tuple[Matrix, Matrix, Matrix]:
    """A (n_c, n_q), b (n_c,) and gamma = b' - A' q' (n_c,)."""
    n = len(model.constraints)
    A, b, gamma = sympy.zeros(n, len(rates)), sympy.zeros(n, 1), sympy.zeros(n, 1)
    for i, each in enumerate(model.constraints):
        row = [sympy.diff(each.row, rate) for rate in rates]
        if any(entry.free_symbols & set(rates) for entry in row):
            raise ModelError(
                f"machine {model.name}, constraint {each.quantity.name}: the row must be linear in the rates; "
                "differentiate a finite constraint once before stating it"
            )
        A[i, :] = sympy.Matrix([row])
        b[i] = -each.row.xreplace(dict.fromkeys(rates, sympy.Integer(0)))
        change = [sympy.diff(each.row, time)]
        change += [sympy.diff(each.row, q) * rate for q, rate in zip(model.coordinates, rates, strict=True)]
        gamma[i] = -sympy.Add(*change)
    return A, b, gamma


def _check_rank(model: Model, M: Matrix, A: Matrix, G: Matrix) -> None:
    """At a generic state the constraints are independent and every velocity has inertia."""
    rng = np.random.default_rng(0)
    values = {p: p.quantity.default for p in model.parameters}
    values |= {q: rng.uniform(0.2, 0.9) for q in model.coordinates} | {time: 0.3}

    def at_state(matrix: Matrix) -> npt.NDArray[np.float64]:
        return np.array(matrix.subs(values).evalf(), dtype=float).reshape(matrix.shape)

    rows = at_state(A)
    if len(rows) and np.linalg.matrix_rank(rows) < len(rows):
        names = ", ".join(each.quantity.name for each in model.constraints)
        raise ModelError(f"machine {model.name}: the constraints {names} are redundant; leave out what others imply")
    inertia = at_state(G.T * M * G)
    if len(inertia) and np.linalg.eigvalsh((inertia + inertia.T) / 2)[0] <= 1e-12 * np.abs(inertia).max():
        raise ModelError(
            f"machine {model.name}: a velocity among {', '.join(v.name for v in model.velocities)} has no inertia "
            "(the mass matrix is singular); give it mass, or leave it out"
        )


def _kinematics(model: Model) -> tuple[Matrix, Matrix]:
    """G (n_q, n_v) and g0 (n_q,) of q' = G v + g0."""
    rows = []
    for q, rate in model.kinematics.items():
        row = [sympy.diff(rate, v) for v in model.velocities]
        if any(sympy.sympify(entry).free_symbols & set(model.velocities) for entry in row):
            raise ModelError(f"machine {model.name}: the rate of {q.name} must be linear in the velocities")
        rows.append(row)
    still = dict.fromkeys(model.velocities, sympy.Integer(0))
    g0 = sympy.Matrix([sympy.sympify(rate).xreplace(still) for rate in model.kinematics.values()])
    return sympy.Matrix(rows), g0


def _drift_of_kinematics(model: Model, G: Matrix, g0: Matrix, v: Matrix) -> Matrix:
    """G' v + g0' (n_q,), the part of q'' that is not G v', in the rates."""
    qdot = G * v + g0
    change = sympy.diff(qdot, time)
    for q in model.coordinates:
        change += sympy.diff(qdot, q) * q.rate
    return change


def _check_constraints_hold(model: Model, A: Matrix, b: Matrix, G: Matrix, g0: Matrix) -> None:
    constants = set(model.parameters)
    for i, each in enumerate(model.constraints):
        leftover = tidy_matrix(A[i, :] * G, constants), tidy_matrix(A[i, :] * g0 - b[i, :], constants)
        for entry in (*leftover[0], *leftover[1]):
            if entry != 0 and sympy.simplify(entry) != 0:
                raise ModelError(
                    f"machine {model.name}: the kinematics q' = G v do not satisfy the constraint "
                    f"{each.quantity.name} (left over: {entry}); correct the row or the kinematics"
                )
    expected = len(model.coordinates) - len(model.constraints)
    if model.constraints and len(model.velocities) != expected:
        raise ModelError(
            f"machine {model.name}: {len(model.coordinates)} coordinates less {len(model.constraints)} "
            f"constraints leave {expected} velocities, but {len(model.velocities)} are stated: "
            "a constraint is redundant or missing"
        )
