"""NAME: a policy in ONNX that reverses the robot with trailer along the x-axis, evaluated by onnxruntime.

It needs the extra `policy`: pip install 'servonode[policy]'. The policy stands beside this file, in NAME.onnx; without
it a small network is made that imitates an LQR. Put your own one there: its one input is an array of
observations (1, n), its one output the actions (1, m). Edit `observe` and `command` to fit, and keep its name:
a file of this source's name is sent with it to the workers of a sweep, and a resumed sweep knows its change.
"""

from pathlib import Path

import numpy as np
import onnxruntime

from servonode.controllers import PlantView

HELD = ("Y", "psi", "phi", "V", "Omega")  # the observation: these states, less their goals
RANGE = np.array([1.0, 0.6, 0.6, 0.3, 0.6])  # of the observations from which the network is made
NEURONS, SAMPLES = 64, 4000


class Policy:
    """The actions of a network, as shares of the inputs' limits."""

    residual_units = {"offset": "m", "hitch": "rad", "speed": "m/s"}

    def __init__(self, plant: PlantView) -> None:
        self.states, self.goals, self.limits = plant.index(*HELD), plant.index("y", "v"), plant.limits
        file = Path(__file__).with_suffix(".onnx")
        if not file.exists():
            imitate(plant, file)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # one thread: the same bits each time
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name

    def command(self, t: float, state: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """The torques [N m] in the order of plant.input_names."""
        observed = self.observe(state, goal).astype(np.float32)
        (actions,) = self.session.run(None, {self.input: observed[None]})
        return self.limits * np.clip(actions[0], -1.0, 1.0)

    def residuals(self, t: float, state: np.ndarray, goal: np.ndarray) -> dict[str, float]:
        """What the record and the check look at; leave it out where there is nothing."""
        observed = self.observe(state, goal)
        return {"offset": observed[0], "hitch": observed[2], "speed": observed[3]}

    def observe(self, state: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """What the network sees."""
        y, v = goal[self.goals]
        return state[self.states] - [y, 0.0, 0.0, v, 0.0]


def imitate(plant: PlantView, file: Path) -> None:
    """Write a network with one layer of tanh that gives the inputs of an LQR, fitted by least squares."""
    rng = np.random.default_rng(0)
    K = lqr(plant, speed=-0.3)
    inner = rng.normal(size=(len(RANGE), NEURONS)) / (2 * RANGE[:, None])
    seen = rng.uniform(-1.0, 1.0, (SAMPLES, len(RANGE))) * RANGE
    outer, *_ = np.linalg.lstsq(np.tanh(seen @ inner), -seen @ K.T / plant.limits, rcond=None)
    write(file, inner, outer)


def lqr(plant: PlantView, speed: float) -> np.ndarray:
    """The gains K of u = -K x about the motion at this speed [m/s]."""
    from scipy.linalg import solve_discrete_are

    states, motion = plant.index(*HELD), np.zeros(len(plant.state_names))
    motion[plant.index("V")] = speed
    A, B = plant.discretize(motion)
    A, B = A[np.ix_(states, states)], B[states]
    P = solve_discrete_are(A, B, np.diag([10.0, 1.0, 1.0, 5.0, 1.0]), np.eye(B.shape[1]))
    return np.linalg.solve(np.eye(B.shape[1]) + B.T @ P @ B, B.T @ P @ A)


def write(file: Path, inner: np.ndarray, outer: np.ndarray) -> None:
    """Write the network tanh(x inner) outer as ONNX: without errors it asks for nothing."""
    from onnx import TensorProto, helper, numpy_helper, save_model

    numbers = {"inner": inner, "outer": outer}
    steps = (("MatMul", "x", "inner", "a"), ("Tanh", "a", "b"), ("MatMul", "b", "outer", "u"))
    graph = helper.make_graph(
        [helper.make_node(kind, names[:-1], names[-1:]) for kind, *names in steps],
        "NAME",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, len(inner)])],
        [helper.make_tensor_value_info("u", TensorProto.FLOAT, [1, outer.shape[1]])],
        [numpy_helper.from_array(each.astype(np.float32), name) for name, each in numbers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    made = file.with_suffix(".new")
    save_model(model, made)
    made.rename(file)  # at once: another process may read it
