"""The functions of machines and laws that the texts of this folder call, as type checkers are to know them."""

from servonode.kernels.lib.names import *

def advance(k: int, n: int, step_ns: int, x: f64[n_x], u: f64[n_tau], c: f64[n_constants]) -> bool:
    """Let n steps from step k on pass under held inputs; whether x is still finite."""

def advance_believed(k: int, n: int, step_ns: int, x: f64[n_x], u: f64[n_tau], c: f64[n_c_believed]) -> bool:
    """The same of the machine that the law assumes."""

def faults(t: float, x: f64[n_x], c: f64[n_constants]) -> int:
    """The number of the first fault at a state, 0 for none."""

def input_rates(t: float, x: f64[n_x], c: f64[n_constants], out: f64[n_tau]) -> None:
    """The velocity on which each input works."""

def law(t: float, x: f64[any_size], y: f64[n_y], c: f64[n_c_law], K: f64[n_gains, n_s, n_s], out: f64[n_out]) -> int:
    """Evaluate the law; its status."""

def follow(t: float, x: f64[any_size], y: f64[n_y], c: f64[n_c_law], passed: float, memory: f64[n_memory]) -> None:
    """Bring the program's own states in y to time t, `passed` [s] after the last call."""

def reward(columns: f64[n_columns]) -> float:
    """The reward of an environment."""

def condition(columns: f64[n_columns]) -> int:
    """END + i for the first condition i that ends an episode, 0 where none does."""

def parent(k: int) -> int:
    """The node of a tree on which one hangs."""

def first(k: int) -> int:
    """The first motion of a node of a tree."""

def node_of(k: int) -> int:
    """The node of a tree to which a link or frame is fixed."""
