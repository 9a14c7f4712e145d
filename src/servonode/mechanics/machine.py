"""A machine ready to compute: its description and compiled kernels behind plain numpy interfaces."""

import functools
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import numpy as np

from servonode.arrays import Array
from servonode.definitions import cache
from servonode.errors import StatementError
from servonode.mechanics.derivation import derivation
from servonode.mechanics.description import MachineDescription, Requirement, values_by_name
from servonode.mechanics.integrate import steps_of, watch_of
from servonode.mechanics.kernels import Advance, MachineKernel, Signature, Step, StepsKernel, Watch
from servonode.tables import Row, Tabular, named, several, valued

FEW = 16  # numbers of an array that are written out
LATER = ("full", "matrices", "drawing")  # functions of a machine that are compiled when they are asked for
HALVINGS = 60  # of a step: beyond the last bit of its fraction
_OUTPUTS, _FULL, _MATRICES, _DRAWING, _DRAWN = (
    Signature.of(MachineKernel, name) for name in ("outputs", *LATER, "drawn")
)


class ParameterError(StatementError):
    """A parameter that cannot be; `name` says which one."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = self.key = name


@dataclass(frozen=True, repr=False)
class Matrices(Tabular):
    """The full form at one state, in rates: M q'' + h = B tau + A^T Lambda, A q'' = gamma (README eq. 1)."""

    M: Array  # mass matrix (n_q, n_q)
    h: Array  # bias (n_q,)
    B: Array  # input map (n_q, n_tau)
    A: Array  # passive constraints (n_c, n_q)
    gamma: Array  # (n_c,)

    def table(self) -> tuple[str, list[Row]]:
        """What each array is and its shape; the numbers of vectors and of what has few."""
        words = {"M": "mass matrix", "h": "bias", "B": "input map", "A": "passive constraints", "gamma": "right side"}
        rows: list[Row] = []
        for name, word in words.items():
            values = getattr(self, name)
            few = f": {np.array2string(values, precision=4, separator=', ')}" if 0 < values.size <= FEW else ""
            rows.append((name, f"{word}, {' x '.join(map(str, values.shape))}{few}"))
        return "Full form M q'' + h = B tau + A^T Lambda, A q'' = gamma", rows


class Machine(Tabular):
    """Kernels of one machine for one parameter set.

    State arrays `x` have the description's state entries and, last, the work [J] of inputs and losses since the
    start (`n_x = len(state) + 1`); input arrays `u` have its inputs. It has many methods, for each function of the
    kernel has one, which makes the arrays that the function fills.
    """

    def __init__(self, description: MachineDescription, kernel: MachineKernel, parameters: Mapping[str, float]) -> None:
        self.description = description
        self.kernel = kernel
        self.parameters = self._checked(parameters)
        self.c = np.zeros(kernel.n_constants)
        kernel.constants(np.array(list(self.parameters.values())), self.c)
        self._S, self._y = _OUTPUTS.arrays(self.sizes, "S", "y").values()

    def table(self) -> tuple[str, list[Row]]:
        """States, inputs, parameters with their values, contact forces, outputs, each with its unit."""
        described = self.description
        parameters = (valued(each.name, self.parameters[each.name], each.unit) for each in described.parameters)
        rows = [
            ("state", several((named(each.name, each.unit) for each in described.state), 8)),
            ("inputs", several(named(each.name, each.unit) for each in described.inputs)),
            ("parameters", several(parameters, 8)),
            ("contact forces", several((*described.constraints, *described.reactions))),
            ("outputs", several(named(each.name, each.unit) for each in described.outputs)),
            ("faults", several(dict.fromkeys(each.name for each in described.faults))),
        ]
        kept = [row for row in rows if row[1] != "none" or row[0] in ("state", "inputs", "parameters")]
        return f"Machine {described.name}: {described.description}", kept

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that shapes of arrays are made of, see `kernels`."""
        return self.description.sizes | {"n_constants": len(self.c)}

    @property
    def n_state(self) -> int:
        """Number of states, the work entry not counted."""
        return len(self.description.state)

    @property
    def n_inputs(self) -> int:
        return len(self.description.inputs)

    def assembled_at(self, x: Array) -> "Machine":
        """The machine that takes the way in which closed loops are assembled at this state, t = 0, for that of the run.

        See `fault`.
        """
        if not hasattr(self.kernel, "assembly"):
            return self
        machine = copy(self)
        machine.c = self.c.copy()
        self.kernel.assembly(0.0, x, machine.c)
        return machine

    def fault(self, t: float, x: Array) -> Requirement | None:
        """The first fault condition that this state violates, with its name and text, or None."""
        if not self.description.faults:
            return None
        found: int = self.kernel.faults(t, x, self.c)
        return self.description.faults[found - 1] if found else None

    def margins(self, t: float, x: Array) -> Array:
        """The margins of its jumps at a state (n_jumps,), which act where these become positive."""
        out = np.zeros(len(self.description.jumps))
        if len(out):
            self.kernel.margins(t, x, self.c, out)
        return out

    def margin_rates(self, t: float, x: Array, dx: Array) -> Array:
        """The rates of these margins where the state moves by dx (n_jumps,)."""
        out = np.zeros(len(self.description.jumps))
        if len(out):
            self.kernel.margin_rates(t, x, dx, self.c, out)
        return out

    def safe_input(self, t: float, x: Array) -> Array:
        """The inputs of the safe action at this state (n_tau,): the machine's own, else zero."""
        u = np.zeros(self.n_inputs)
        if self.description.has_safe_action:
            self.kernel.safe_input(t, x, self.c, u)
        return u

    def input_rates(self, t: float, x: Array) -> Array:
        """The velocities on which the inputs work at this state (n_tau,): their power [W] is u . rates."""
        rates = np.zeros(self.n_inputs)
        if len(rates):
            self.kernel.input_rates(t, x, self.c, rates)
        return rates

    def with_parameters(self, parameters: Mapping[str, float]) -> "Machine":
        """The same kernels with other parameters, those not named keep their present value."""
        return Machine(self.description, self.kernel, {**self.parameters, **parameters})

    def jump_terms(self, t: float, x: Array) -> Array:
        """The margins of its jumps, each with the values that it sets; none where these compare states."""
        out = np.zeros(self.description.jump_terms)
        if len(out):
            self.kernel.jump_terms(t, x, self.c, out)
        return out

    def _checked(self, given: Mapping[str, float]) -> dict[str, float]:
        """All parameters by name, bounds and requirements checked.

        Raises:
            ParameterError: a value is out of its bounds, or a requirement between parameters is violated.
        """
        values = {each.name: float(given.get(each.name, each.default or 0.0)) for each in self.description.parameters}
        for quantity in self.description.parameters:
            complaint = quantity.complaint(values[quantity.name])
            if complaint:
                raise ParameterError(quantity.name, f"{complaint} ({quantity.description})")
        found = np.zeros((3, len(self.description.requirements)))
        self.kernel.requirements(np.array(list(values.values())), found)
        for requirement, (margin, *sides) in zip(self.description.requirements, found.T.tolist(), strict=True):
            if not requirement.met(margin):
                defaults = {each.name: each.default for each in self.description.parameters}
                changed = [name for name in requirement.names if values[name] != defaults[name]]
                raise ParameterError([*changed, *requirement.names, "?"][0], requirement.refusal(*sides))
        return values

    def state(self, values: Mapping[str, float]) -> Array:
        """A kernel state array from values by name; what is not named has its default start, the work starts at 0."""
        return np.array([*values_by_name(self.description.state, values), 0.0])

    def steps(self, integrator: str) -> StepsKernel:
        """The compiled module of an integrator, made or loaded when it is first asked for.

        Raises:
            CacheError: the kernel cache cannot be read or written.
        """
        d = self.description
        return steps_of(self.kernel.__name__, len(d.state), len(d.inputs), bool(d.held), bool(d.jumps), integrator)

    def stepper(self, integrator: str) -> Step:
        """The compiled step of an integrator."""
        return self.steps(integrator).step

    def advancer(self, integrator: str) -> Advance:
        """The compiled steps of an integrator, many at once."""
        return self.steps(integrator).advance

    def watcher(self, integrator: str) -> Watch:
        """The compiled steps of an integrator up to the first fault."""
        return watch_of(self.kernel.__name__, self.steps(integrator).__name__).watch

    def derivatives(self, t: float, x: Array, u: Array) -> Array:
        """x' (n_x,): the state's rates, and the power of inputs and losses [W]."""
        dx = np.zeros(len(x))
        self.kernel.derivatives(t, x, u, self.c, dx)
        return dx

    def energy(self, t: float, x: Array) -> float:
        """Kinetic plus potential energy [J]; the generalized energy T2 - T0 + U where rates occur linearly in T."""
        return sum(self.energies(t, x))

    def energies(self, t: float, x: Array) -> tuple[float, float]:
        """The kinetic and the potential part of the energy [J]."""
        out = np.zeros(2)
        self.kernel.energy(t, x, self.c, out)
        return float(out[0]), float(out[1])

    def constraint_residual(self, t: float, x: Array) -> Array:
        """A q' - b, zero but for rounding in the minimal form, then the stabilised residuals; (n_c + n_N,)."""
        out = np.zeros(len(self.description.constraints) + len(self.description.stabilised))
        self.kernel.constraint_residual(t, x, self.c, out)
        return out

    def position_residual(self, t: float, x: Array) -> Array:
        """The expressions of holonomic constraints and identities (n_h,), zero where they hold."""
        out = np.zeros(len(self.description.held))
        if len(out):
            self.kernel.position_residual(t, x, self.c, out)
        return out

    def projected(self, t: float, x: Array, iterations: int = 20) -> Array:
        """A new state, projected onto holonomic constraints and identities: the nearest one for a small violation."""
        result = x.copy()
        for _ in range(iterations if self.description.held else 0):
            self.kernel.project(t, result, self.c)
        return result

    def poses(self, t: float, x: Array) -> Array:
        """Of each link and frame of a tree place (3,), rotation (9,), mass, centre of mass (3,), inertia (6,): (n, 22).

        Place and rotation are in the ground's axes, the others in the link's; the inertia is xx, yy, zz, xy, xz, yz.
        """
        out = np.zeros((self.sizes["n_poses"], 22))
        if len(out):
            self.kernel.poses(t, x, self.c, out)
        return out

    def full(self, t: float, x: Array, u: Array) -> tuple[Array, Array]:
        """Full form with multipliers: q'' (n_q,) and the contact forces Lambda (n_c,).

        Raises:
            ValueError: it is singular here, or the machine is given in velocities.
        """
        n_q = len(self.description.coordinates)
        if not self._full_form().full(t, x, u, self.c, self._S, self._y):
            raise ValueError("the full form is singular here: the constraints are redundant at this state")
        return self._y[:n_q].copy(), self._y[n_q:].copy()

    def matrices(self, t: float, x: Array) -> Matrices:
        """M, h, B, A, gamma of the full form at a state: new arrays; raises as `full`."""
        kernel = self._full_form()
        names = ("M", "h", "B", "A", "gamma")
        result = Matrices(**_MATRICES.arrays(self.sizes, *names))
        kernel.matrices(t, x, self.c, result.M, result.h, result.B, result.A, result.gamma)
        return result

    def _full_form(self) -> MachineKernel:
        if not self.description.has_full_form:
            text = f"machine {self.description.name} is given in velocities and has no full form in rates"
            raise ValueError(f"{text}; use its derivatives, or give bodies, losses and inputs in rates")
        return _full_form_of(self.kernel.__name__)

    def monitor(self, t: float, x: Array, u: Array) -> Array:
        """Outputs, then the margins of the warnings: a new array."""
        out = np.zeros(len(self.description.outputs) + len(self.description.warnings))
        self.kernel.outputs(t, x, u, self.c, self._S, self._y, out)
        return out

    def outputs(self, t: float, x: Array, u: Array) -> dict[str, float]:
        """Contact forces and other monitored values by name."""
        values = self.monitor(t, x, u)
        return {each.name: float(value) for each, value in zip(self.description.outputs, values, strict=False)}

    def energy_of_rows(self, t: Array, x: Array) -> Array:
        """Kinetic plus potential energy [J] of each row (n,), at times (n,) [s] and kernel states (n, n_x)."""
        out = np.zeros(len(t))
        self.kernel.energies(len(t), t, x, self.c, np.zeros(2), out)
        return out

    def residuals_of_rows(self, t: Array, x: Array) -> Array:
        """`constraint_residual` of each row (n, n_c + n_N)."""
        out = np.zeros((len(t), self.sizes["n_residuals"]))
        self.kernel.residuals(len(t), t, x, self.c, out)
        return out

    def monitored_rows(self, t: Array, x: Array, u: Array) -> Array:
        """`monitor` of each row, under the inputs (n, n_tau)."""
        out = np.zeros((len(t), self.sizes["n_monitored"]))
        S, y = _OUTPUTS.arrays(self.sizes, "S", "y").values()
        self.kernel.monitored(len(t), t, x, u, self.c, S, y, out)
        return out

    def drawing(self, t: float, x: Array, u: Array, magnification: float = 1.0) -> Array:
        """The numbers of its drawing (n_drawn,), which `description.drawing` explains; none of a machine without one.

        magnification: of leans that would be too small to be seen.
        """
        out = np.zeros(self.description.n_drawn)
        if len(out):
            self.drawing_kernel.drawing(t, x, u, self.c, magnification, self._S, self._y, out)
        return out

    @property
    def drawing_kernel(self) -> MachineKernel:
        """The module of its drawing, of a machine with one. CacheError: the cache cannot be used."""
        return _drawing_of(self.kernel.__name__)

    def drawing_of_rows(self, t: Array, x: Array, u: Array) -> Array:
        """`drawing` of each row (n, n_drawn)."""
        out = np.zeros((len(t), self.description.n_drawn))
        if out.size:
            self.drawing_kernel.drawn(len(t), t, x, u, self.c, 1.0, self._S, self._y, out)
        return out

    def warnings(self, t: float, x: Array, u: Array) -> list[str]:
        """The texts of the warnings that hold at this state."""
        margins = self.monitor(t, x, u)[len(self.description.outputs) :]
        return [
            each.text for each, margin in zip(self.description.warnings, margins, strict=True) if not each.met(margin)
        ]


@functools.cache
def _full_form_of(kernel: str) -> MachineKernel:
    """The compiled full form of the machine in the module `kernel`. CacheError: the cache cannot be used."""
    return _later(kernel, "n_x, n_tau, n_constants, n_full, n_q, n_c", (_FULL, _MATRICES))


@functools.cache
def _drawing_of(kernel: str) -> MachineKernel:
    """The same for its drawing, of one state and of many."""
    return _later(kernel, "n_x, n_tau, n_constants, n_full, n_drawn", (_DRAWING,), _DRAWN.definition() + _ROWS)


_ROWS = """\
    for i in range(n):
        drawing_(t[i], x[i], u[i], c, magnification, S, y, out[i])
"""


def _later(kernel: str, sizes: str, signatures: Sequence[Signature], more: str = "") -> MachineKernel:
    """The module of functions of a machine that its own module does not compile, and another one."""
    own = ", ".join(f"{each.name} as {each.name}_" for each in signatures)
    source = f'"""Generated by servonode."""\n\nfrom {kernel} import {sizes}, {own}\n'
    for signature in signatures:
        call = f"{signature.name}_({', '.join(each.name for each in signature.arguments)})"
        source += f"\n\n{signature.definition()}    {'return ' if signature.result else ''}{call}\n"
    source += f"\n\n{more}" if more else ""
    return cast(MachineKernel, cache.load(cache.key_of("later", source), lambda: (source, b"{}"))[0])


def fault_time(
    machine: Machine, integrator: str, step_ns: int, k: int, x: Array, u: Array
) -> tuple[float, Requirement | None]:
    """Time [s] of the fault that the step from state x at step k ends with, the input u held, and its condition.

    Within the step the motion is that of a shorter step of the same integrator.
    """
    step, c, t = machine.stepper(integrator), machine.c, k * step_ns / 1e9

    def fault(h: float) -> Requirement | None:
        moved = x.copy()
        step(t, moved, u, c, h)
        return machine.fault(t + h, moved)

    low, high = 0.0, step_ns / 1e9
    violated = fault(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = fault(middle)
        low, high, violated = (low, middle, found) if found else (middle, high, violated)
    return t + high, violated


def endless(machine: Machine, t: float, x: Array) -> str:
    """What is said of jumps that follow each other without end at a state, where one of them is at its beginning."""
    margins = machine.margins(t, x)
    i = int(np.argmin(np.abs(margins)))
    jump, where = machine.description.jumps[i]
    text = f"jumps follow each other without end: {jump!r} ({where}, it is {margins[i]:.3g}) acts again and again, or "
    text += "cannot act again before this has ceased, as with a ball that comes to rest; end the run before, shorten "
    return text + "plant.step, or state the contact as a force"


def load_machine(
    key: str, build_model: Callable[[], Any], parameters: Mapping[str, float], name: str = "", numbers: bool = False
) -> Machine:
    """The machine of a cache key with these parameters; `build_model` is only called when it is not cached.

    `name`: what it is called where its derivation takes long. numbers: a launch file's numbers are in its equations.

    Raises:
        CacheError: the kernel cache cannot be read or written.
        ModelError: the model cannot be derived.
        ParameterError: a parameter is out of its bounds.
    """
    kernel, description = cache.load(key, lambda: _build(key, build_model), f"machine {name}".strip(), numbers, LATER)
    decoded = msgspec.json.decode(description, type=MachineDescription)
    return Machine(decoded, cast(MachineKernel, kernel), parameters)


def _build(key: str, build_model: Callable[[], Any]) -> tuple[str, bytes]:
    from servonode.mechanics.machine_source import source_and_description

    return source_and_description(derivation(key, build_model))
