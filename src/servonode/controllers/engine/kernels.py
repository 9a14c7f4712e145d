"""What the generated modules of laws and signals hold: arguments, types and shapes, as in `mechanics.kernels`.

Sizes beside those of the machine: n_y and n_out entries of
goal and answer (see `layout`); n_s residuals, n_rel relations; n_own states of the program itself, n_memory what
`follow` keeps of them; n_tracked of the residuals are an
output less its goal; n_conditions of the start; n_found parameters that are found there; n_chains residuals with
their derivatives, of laws with an extension; n_entries of signals.
"""

from typing import Annotated, Protocol

from servonode.arrays import ANY, Array
from servonode.mechanics.kernels import Constants, Parameters

State = Annotated[Array, "any"]  # with the work or without, which is not read
Goal = Annotated[Array, "n_y"]
Residuals = Annotated[Array, "n_s"]
Own = Annotated[Array, "n_own"]


class LawKernel(Protocol):
    """A law's module; the functions of what a program does not state are not in it."""

    __name__: str
    text: str
    n_constants: int

    def constants(self, p: Parameters, c: Constants) -> None: ...
    def start(self, t: float, x: State, y: Goal, p: Parameters, out: Annotated[Array, "n_found"]) -> None: ...
    def initial_states(self, t: float, x: State, y: Goal, p: Parameters, out: Own) -> None: ...
    def conditions(
        self, t: float, x: State, y: Goal, p: Parameters, gains: Residuals, late: float,
        out: Annotated[Array, 3, "n_conditions"],
    ) -> None: ...  # fmt: skip
    def state_rates(self, t: float, x: State, y: Goal, c: Constants, out: Own) -> None: ...
    def watched(self, t: float, x: State, y: Goal, c: Constants, out: Annotated[Array, "any"]) -> None: ...
    def keep_rows(
        self, t: float, x: State, y: Goal, c: Constants, out: Annotated[Array, "n_faces", "n_face"]
    ) -> None: ...
    def tracked(self, t: float, x: State, y: Goal, c: Constants, out: Annotated[Array, 2, "n_tracked"]) -> None: ...
    def follow(
        self, t: float, x: State, y: Goal, c: Constants, passed: float, memory: Annotated[Array, "n_memory"]
    ) -> None: ...
    def chains(self, t: float, x: State, y: Goal, c: Constants, out: Annotated[Array, "n_chains"]) -> None: ...
    def law(
        self, t: float, x: State, y: Goal, c: Constants, K: Annotated[Array, 3, "n_s", "n_s"],
        out: Annotated[Array, "n_out"],
    ) -> int: ...  # fmt: skip
    def terms(
        self, t: float, x: State, y: Goal, c: Constants, f: Residuals, f_dot: Residuals,
        J: Annotated[Array, "n_s", "n_v"], delta: Residuals, W: Annotated[Array, "n_s", "n_tau"], b: Residuals,
        F: Annotated[Array, "n_rel", "n_tau"],
    ) -> None: ...  # fmt: skip


class SignalsKernel(Protocol):
    """The module of functions of time."""

    __name__: str

    def signals(self, t: float, out: Annotated[Array, "n_entries"]) -> None: ...
    def table(self, n: int, t: Annotated[Array, ANY], out: Annotated[Array, ANY, "n_entries"]) -> None: ...


class CurvesKernel(Protocol):
    """The same where some are curves or numbers; pieces: of all of these, one behind the other (see `signals`)."""

    __name__: str

    def signals(self, t: float, pieces: Annotated[Array, ANY], out: Annotated[Array, "n_entries"]) -> None: ...
    def table(
        self, n: int, t: Annotated[Array, ANY], pieces: Annotated[Array, ANY], out: Annotated[Array, ANY, "n_entries"]
    ) -> None: ...
