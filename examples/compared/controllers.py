"""LQR, PID, MPC and a trained policy, each for the cart with its pendulum and for the sphero.

`controller(plant, kind)` makes one. All of them see the same errors: of each direction of motion the position, the
velocity, the lean and its rate. The MPC needs the extra `mpc`; the policy needs the extra `policy`, and the network
of its machine, which train.py makes.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.linalg import block_diag, solve_discrete_are

from servonode.controllers import PlantView

Signed = tuple[str, float]  # a name, and the factor with which it counts
RADIUS = 0.15  # m, of the sphero's shell


@dataclass(frozen=True)
class Task:
    """A machine's directions of motion: of each its position, velocity, lean and lean's rate, its goal, its input.

    gains: of the PID, whose outer loop asks for a lean (1/m, s/m, 1/(m s)), whose inner loop brings it about.
    """

    states: tuple[tuple[Signed, Signed, Signed, Signed], ...]
    goals: tuple[str, ...]
    inputs: tuple[Signed, ...]
    outer: tuple[float, float, float]
    inner: tuple[float, float]


TASKS = {
    "cart_pendulum": Task(
        states=((("x", 1.0), ("x_dot", 1.0), ("theta", 1.0), ("theta_dot", 1.0)),),
        goals=("X",),
        inputs=(("F", 1.0),),
        outer=(-0.10, -0.16, -0.01),
        inner=(40.0, 6.0),
    ),
    "pendulum_sphero": Task(
        states=(
            (("X", 1.0), ("omega_1", RADIUS), ("n_0", 1.0), ("Omega_1", -1.0)),
            (("Y", 1.0), ("omega_0", -RADIUS), ("n_1", 1.0), ("Omega_0", 1.0)),
        ),
        goals=("x", "y"),
        inputs=(("Q_y", 1.0), ("Q_x", -1.0)),
        outer=(-1.6, -1.7, -0.02),
        inner=(2.5, 0.5),
    ),
}
SIZES = np.array([0.05, 0.2, 0.1, 0.5])  # of a direction's errors that count alike
MOST_LEAN = 0.5  # rad, or the sine of it, that the PID asks for
TORQUE = 0.5  # share of an input's limit that counts like these


class Errors:
    """The errors z (4 for each direction) of a machine, and the inputs that act on them, as shares of their limits."""

    def __init__(self, plant: PlantView) -> None:
        self.task, self.plant = TASKS[plant.name], plant
        self.names = plant.state_names, plant.goal_names, plant.input_names
        flat = [each for direction in self.task.states for each in direction]
        self.C = signed(flat, plant.state_names)
        positions = [(goal, 1.0) for goal in self.task.goals]
        velocities = [(f"{goal}_dot", 1.0) for goal in self.task.goals]
        self.G = np.zeros((len(flat), len(plant.goal_names)))
        self.G[0::4], self.G[1::4] = signed(positions, plant.goal_names), signed(velocities, plant.goal_names)
        self.S = signed(self.task.inputs, plant.input_names).T * plant.limits[:, None]
        self.sizes = np.tile(SIZES, len(self.task.inputs))

    def __call__(self, state: np.ndarray, goal: np.ndarray) -> np.ndarray:
        return self.C @ state - self.G @ goal

    def discretized(self) -> tuple[np.ndarray, np.ndarray]:
        """A and B of z[k + 1] = A z[k] + B u[k] about rest, u the shares of the limits."""
        A, B = self.plant.discretize()
        return self.C @ A @ np.linalg.pinv(self.C), self.C @ B @ self.S


def signed(wanted: list[Signed] | tuple[Signed, ...], names: tuple[str, ...]) -> np.ndarray:
    """The matrix that takes these entries, with their factors, out of an array with these names."""
    found = np.zeros((len(wanted), len(names)))
    for i, (name, factor) in enumerate(wanted):
        found[i, names.index(name)] = factor
    return found


class Controller:
    """What all four share: errors in, inputs out, and residuals to be compared."""

    residual_units: dict[str, str] = {}

    def __init__(self, plant: PlantView) -> None:
        self.errors = Errors(plant)
        self.residual_units = dict.fromkeys(self.errors.task.goals, "m")

    def command(self, t: float, state: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """The inputs in the order of plant.input_names."""
        return self.errors.S @ self.shares(self.errors(state, goal)).clip(-1.0, 1.0)

    def residuals(self, t: float, state: np.ndarray, goal: np.ndarray) -> dict[str, float]:
        """How far each position is from its goal."""
        return dict(zip(self.errors.task.goals, self.errors(state, goal)[0::4], strict=True))

    def shares(self, z: np.ndarray) -> np.ndarray:
        """The shares of the limits that act on these errors."""
        raise NotImplementedError


class LQR(Controller):
    """u = -K z."""

    def __init__(self, plant: PlantView) -> None:
        super().__init__(plant)
        A, B = self.errors.discretized()
        Q, R = np.diag(1 / self.errors.sizes**2), np.eye(B.shape[1]) / TORQUE**2
        P = solve_discrete_are(A, B, Q, R)
        self.K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)

    def shares(self, z: np.ndarray) -> np.ndarray:
        return -self.K @ z


class PID(Controller):
    """An outer PID of the position asks for a lean, an inner PD brings it about."""

    def __init__(self, plant: PlantView) -> None:
        super().__init__(plant)
        self.period = plant.period
        self.reset(0)

    def reset(self, seed: int) -> None:
        self.integral = np.zeros(len(self.errors.task.inputs))

    def shares(self, z: np.ndarray) -> np.ndarray:
        position, velocity, lean, rate = z.reshape(-1, 4).T
        P, D, I = self.errors.task.outer  # noqa: E741  (the letters of the name)
        wanted = P * position + D * velocity + I * self.integral
        self.integral += self.period * position * (np.abs(wanted) < MOST_LEAN)  # it stops at the limit
        wanted = wanted.clip(-MOST_LEAN, MOST_LEAN)
        p, d = self.errors.task.inner
        return (p * (lean - wanted) + d * rate) / np.abs(self.errors.S).max(axis=0)


class MPC(Controller):
    """The shares that are best over a horizon within their limits: a quadratic program each period, by OSQP."""

    def __init__(self, plant: PlantView, horizon: int = 30) -> None:
        import osqp
        from scipy import sparse

        super().__init__(plant)
        A, B = self.errors.discretized()
        self.m, Q, R = B.shape[1], np.diag(1 / self.errors.sizes**2), np.eye(B.shape[1]) / TORQUE**2
        P = solve_discrete_are(A, B, Q, R)  # what comes after the horizon
        powers = [np.linalg.matrix_power(A, k) for k in range(horizon + 1)]
        none = np.zeros(B.shape)
        forced = [[powers[i - j] @ B if j <= i else none for j in range(horizon)] for i in range(horizon)]
        F, weights = np.block(forced), block_diag(*[Q] * (horizon - 1), P)
        self.gradient = F.T @ weights @ np.vstack(powers[1:])
        cost = sparse.csc_matrix(np.triu(F.T @ weights @ F + np.kron(np.eye(horizon), R)))
        n, most = horizon * self.m, np.ones(horizon * self.m)
        self.zeros = np.zeros(n), np.zeros(n)
        self.solver = osqp.OSQP()
        self.solver.setup(
            cost, np.zeros(n), sparse.eye(n, format="csc"), -most, most,
            verbose=False, eps_abs=1e-6, eps_rel=1e-6, adaptive_rho=1, adaptive_rho_interval=50,
        )  # fmt: skip

    def reset(self, seed: int) -> None:
        self.solver.warm_start(*self.zeros)

    def shares(self, z: np.ndarray) -> np.ndarray:
        self.solver.update(q=self.gradient @ z)
        return self.solver.solve(raise_error=True).x[: self.m]


class Policy(Controller):
    """The network of MACHINE.onnx, which sees the errors in their sizes and gives shares of the limits."""

    def __init__(self, plant: PlantView) -> None:
        import onnxruntime

        super().__init__(plant)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # one thread: the same bits each time
        file = Path(__file__).with_name(f"{plant.name}.onnx")
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def shares(self, z: np.ndarray) -> np.ndarray:
        seen = (z / self.errors.sizes).astype(np.float32)
        return self.session.run(None, {"observation": seen[None]})[0][0].astype(float)


def controller(plant: PlantView, kind: Literal["lqr", "pid", "mpc", "policy"] = "lqr") -> Controller:
    """The controller of this kind for the machine of the launch file."""
    return {"lqr": LQR, "pid": PID, "mpc": MPC, "policy": Policy}[kind](plant)
