"""A servo law ready to compute: its description and compiled kernel behind plain numpy arrays."""

from collections.abc import Collection, Mapping
from types import ModuleType

import numpy as np
import numpy.typing as npt

from servonode.mechanics.description import ProgramDescription, values_by_name
from servonode.mechanics.machine import Machine, ParameterError
from servonode.mechanics.stabilize import Gains

Array = npt.NDArray[np.float64]


class ServoLaw:
    """The law of one program on one (believed) machine.

    `machine` holds the parameters the law believes, not the plant's. `y` arrays hold targets then signals, each
    with its derivatives, then the program's own states and the integrals. `out` after `compute`: inputs (n_tau),
    residuals (n_s), their rates (n_s), condition, scales of the limits.
    """

    def __init__(
        self,
        description: ProgramDescription,
        kernel: ModuleType,
        machine: Machine,
        parameters: Mapping[str, float],
    ) -> None:
        self.description = description
        self.kernel = kernel
        self.machine = machine
        self.parameters = dict(
            zip(
                (each.name for each in description.parameters),
                values_by_name(description.parameters, parameters),
                strict=True,
            )
        )
        self.n_s = len(description.residuals)
        self.n_y = len(description.targets) * (description.target_order + 1)
        self.n_y += len(description.signals) * (description.signal_order + 1)
        self.n_states, self.first_state = len(description.states), self.n_y  # of the program itself, in y
        self.n_integrals = self.n_s if description.integral else 0  # at the end of y
        self.n_y += self.n_states + self.n_integrals
        self.start_states, self._start_rates = np.zeros(self.n_states), np.zeros(self.n_states)
        self.out = np.zeros(machine.n_inputs + 2 * self.n_s + 1 + len(description.limits))
        self.K = np.zeros((3, self.n_s, self.n_s))
        self.c = np.zeros(kernel.N_CONSTANTS)
        self._prepare()

    def _prepare(self) -> None:
        self.kernel.constants(self._p(), self.c)

    def _p(self) -> Array:
        return np.array([*self.machine.parameters.values(), *self.parameters.values()])

    def start(self, t: float, x: Array, y: Array, given: Collection[str]) -> None:
        """Fill the parameters without default, and `start_states`, from the start state."""
        required = self.description.required
        names = [e.name for e in self.description.parameters if e.default is None and e.name not in required]
        if names:
            values = np.zeros(len(names))
            self.kernel.start(t, x, y, self._p(), values)
            computed = dict(zip(names, map(float, values), strict=True))
            self.parameters |= {name: value for name, value in computed.items() if name not in given}
        self._prepare()  # also for parameters that were given since this law was made
        self.start_own_states(t, x, y)

    def start_own_states(self, t: float, x: Array, y: Array) -> None:
        """Fill `start_states`, and their rates, from the start state."""
        if self.n_states:
            self.kernel.start_states(t, x, y, self._p(), self.start_states)
            known = y.copy()
            known[self.first_state : self.first_state + self.n_states] = self.start_states
            self._start_rates = self.state_rates(t, x, known)

    def check_parameters(self, names: Collection[str] | None = None) -> None:
        """Check the bounds of all parameters, or of those named.

        Raises:
            ParameterError: a parameter is out of its bounds.
        """
        for quantity in self.description.parameters:
            if names is not None and quantity.name not in names:
                continue
            complaint = quantity.complaint(self.parameters[quantity.name])
            if complaint:
                raise ParameterError(quantity.name, f"{complaint} ({quantity.description})")

    def violated(self, t: float, x: Array, y: Array, late: float) -> tuple[list[str], list[str]]:
        """The texts of the requirements and of the warnings that do not hold; `late` [s]: mean age of held inputs."""
        requirements, warnings = self.description.requirements, self.description.warnings
        if not (requirements or warnings):
            return [], []
        margins = np.zeros(len(requirements) + len(warnings))
        degrees = enumerate(self.description.degrees)
        rates = np.array([self.K[0, i, i] if degree == 1 else self.K[1, i, i] / 2 for i, degree in degrees])
        self.kernel.conditions(t, x, y, self._p(), rates, late, margins)
        texts = [
            None if each.met(margin) else each.text
            for each, margin in zip((*requirements, *warnings), margins, strict=True)
        ]
        n = len(requirements)
        return [text for text in texts[:n] if text], [text for text in texts[n:] if text]

    def memory(self) -> Array:
        """What `follow` keeps of the program's own states, at the start: (2 n_states,)."""
        return np.append(self.start_states, self._start_rates)

    def follow(self, t: float, x: Array, y: Array, passed: float, memory: Array) -> None:
        """Bring the program's own states, in y, to time t, `passed` [s] after the last call (0 for the first)."""
        if self.n_states:
            self.kernel.follow(t, x, y, self.c, passed, memory)

    def state_rates(self, t: float, x: Array, y: Array) -> Array:
        """The rates of the program's own states (n_states,)."""
        rates = np.zeros(self.n_states)
        if self.n_states:
            self.kernel.state_rates(t, x, y, self.c, rates)
        return rates

    def stabilise(self, rates: Mapping[str, float]) -> None:
        """Give each residual its rate lambda [1/s]: f' = -lambda f, or f'' = -2 lambda f' - lambda^2 f."""
        names = [each.name for each in self.description.residuals]
        self.use(Gains.from_rates([rates[name] for name in names], self.description.degrees))

    def use(self, gains: Gains) -> None:
        """Feed the residuals back with these gains: f^(r) = -K1 f' - K0 f - KI s."""
        self.K[0], self.K[1], self.K[2] = gains.K0, gains.K1, gains.KI

    def compute(self, t: float, x: Array, y: Array) -> int:
        """Evaluate the law into `out` and return its status (see `law_source`)."""
        status: int = self.kernel.law(t, x, y, self.c, self.K, self.out)
        return status

    @property
    def inputs(self) -> Array:
        """The demanded inputs (n_tau,) of the last evaluation, before any limit."""
        return self.out[: self.machine.n_inputs]

    @property
    def residuals(self) -> Array:
        """The residuals (n_s,) of the last evaluation."""
        n = self.machine.n_inputs
        return self.out[n : n + self.n_s]

    @property
    def condition(self) -> float:
        """Condition number of W (1-norm) of the last evaluation; 1 for programs that state their inputs."""
        return float(self.out[self.machine.n_inputs + 2 * self.n_s])

    @property
    def n_recorded(self) -> int:
        """Values of each evaluation that a record keeps: f, f', condition, scales, the program's own states."""
        return len(self.out) - self.machine.n_inputs + self.n_states

    @property
    def scales(self) -> Array:
        """The scale of each limit of the last evaluation, 1 where it does not act."""
        return self.out[self.machine.n_inputs + 2 * self.n_s + 1 :]

    def explain(self, status: int) -> str:
        """The sentence for a status that is not good."""
        if status > 0:
            return self.description.guards[status - 1].text
        if status == -1:
            names = ", ".join(each.name for each in self.description.residuals)
            return (
                f"the servo-constraints {names} lost rank (condition {self.condition:.3g}): the inputs cannot move "
                "them independently here; choose another program or another start"
            )
        return "the law gave an input that is not finite; check parameters and start state"

    def terms(self, t: float, x: Array, y: Array) -> dict[str, Array]:
        """f, f_dot, J (n_s, n_v), delta, W (n_s, n_tau), b = delta + J a0 and the relations' F (n_rel, n_tau)."""
        n_v, n_tau = len(self.machine.description.velocities), self.machine.n_inputs
        result = {name: np.zeros(self.n_s) for name in ("f", "f_dot", "delta", "b")}
        result |= {"J": np.zeros((self.n_s, n_v)), "W": np.zeros((self.n_s, n_tau))}
        result["F"] = np.zeros((self.description.relations, n_tau))
        order = ("f", "f_dot", "J", "delta", "W", "b", "F")
        self.kernel.terms(t, x, y, self.c, *(result[name] for name in order))
        return result
