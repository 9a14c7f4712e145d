"""The symbolic equations of motion of a model: what `derive` makes, and kernels and texts are made of."""

from dataclasses import dataclass
from typing import Any

import sympy

from servonode.mechanics.model import Model
from servonode.mechanics.straight_line import along_matrix
from servonode.mechanics.symbols import time
from servonode.tables import Row, Tabular

Matrix = Any  # sympy.Matrix
Expr = Any


@dataclass(frozen=True, repr=False)
class Equations(Tabular):
    """Symbolic equations of motion of a model, ready to be compiled: a field for each of their terms.

    Shapes: M, h, B full (n_q, n_q), (n_q,), (n_q, n_tau); A (n_c, n_q); b, gamma (n_c,); G (n_q, n_v);
    g0 (n_q,); minimal M_r (n_v, n_v), h_r (n_v,), B_r (n_v, n_tau), N_r (n_v, n_N) of the reactions, which the full
    form does not have. The full form is written in rates `q_dot`, the minimal form, the energies and the power in
    velocities; the full form lacks what a model states in velocities itself. kinetic + potential is the generalized
    energy T2 - T0 + U, which is T + U where the kinetic energy is quadratic in the rates without a remainder; the power
    is its rate of change: of inputs and disturbances, of constraints that move, of explicit time, losses taken off.
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
    N_r: Matrix
    kinetic: Expr
    potential: Expr
    power: Expr  # [W]; where constraints move it contains the accelerations v'
    by_numbers: tuple[str, ...] = ()  # constraints and identities that hold at random states, without a proof

    def table(self) -> tuple[str, list[Row]]:
        """The coordinates, velocities and forms, with the shapes of their matrices."""

        def sizes(*names: str) -> str:
            return ", ".join(f"{name} {tuple(getattr(self, name).shape)}" for name in names)

        return f"Equations of {self.model.name}", [
            ("coordinates", ", ".join(map(str, self.model.coordinates))),
            ("velocities", ", ".join(map(str, self.model.velocities)) or "none"),
            ("kinematics", f"q' = G v + g0: {sizes('G', 'g0')}"),
            ("minimal form", f"M_r v' + h_r = B_r tau: {sizes('M_r', 'h_r', 'B_r')}"),
            ("full form", f"M q'' + h = B tau + A^T Lambda: {sizes('M', 'h', 'B', 'A')}"),
            ("energies", "kinetic, potential, power"),
        ]

    @property
    def tau(self) -> Matrix:
        """The inputs as a column (n_tau, 1)."""
        return sympy.Matrix(len(self.model.inputs), 1, list(self.model.inputs))

    @property
    def rates(self) -> dict[Expr, Expr]:
        """Time and coordinates -> their rates along the motion, q' = G v + g0."""
        qdot = self.G * column(self.model.velocities) + self.g0
        return {time: sympy.Integer(1), **dict(zip(self.model.coordinates, qdot, strict=True))}

    def acceleration(self, i: int) -> Expr:
        """q_i'' = (G v' + G' v + g0')_i in states and the velocities' rates."""
        v = column(self.model.velocities)
        drift = drift_of_kinematics(self.model, self.G[i, :], self.g0[i, :], v)[0].xreplace(self.model.rates)
        return (self.G[i, :] * column([each.rate for each in self.model.velocities]))[0] + drift


def column(entries: Any) -> Matrix:
    """The entries as a column (n, 1)."""
    return sympy.Matrix(list(entries))


def drift_of_kinematics(model: Model, G: Matrix, g0: Matrix, v: Matrix) -> Matrix:
    """G' v + g0' (n_q,), the part of q'' that is not G v', in the rates."""
    return along_matrix(G * v + g0, {time: sympy.Integer(1), **{q: q.rate for q in model.coordinates}})
