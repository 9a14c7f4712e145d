"""A servo law ready to compute: its description and compiled kernel behind plain numpy faces."""

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
    with its derivatives. `out` after `compute`: inputs (n_tau), residuals (n_s), their rates (n_s), condition.
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
        self.n_integrals = self.n_s if description.integral else 0  # at the end of y
        self.n_y += self.n_integrals
        self.out = np.zeros(machine.n_inputs + 2 * self.n_s + 1)
        self.K = np.zeros((3, self.n_s, self.n_s))
        self.c = np.zeros(kernel.N_CONSTANTS)
        self._prepare()

    def _prepare(self) -> None:
        self.kernel.constants(self._p(), self.c)

    def _p(self) -> Array:
        return np.array([*self.machine.parameters.values(), *self.parameters.values()])

    def start(self, t: float, x: Array, y: Array, given: Collection[str]) -> None:
        """Fill the parameters without default from the start state."""
        names = [each.name for each in self.description.parameters if each.default is None]
        values = np.zeros(len(names))
        self.kernel.start(t, x, y, self._p(), values)
        computed = dict(zip(names, map(float, values), strict=True))
        self.parameters |= {name: value for name, value in computed.items() if name not in given}
        self._prepare()

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
        return float(self.out[-1])

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
        """f, f_dot, J (n_s, n_v), delta, W (n_s, n_tau) and b = delta + J a0, for checks and reports."""
        n_v, n_tau = len(self.machine.description.velocities), self.machine.n_inputs
        result = {name: np.zeros(self.n_s) for name in ("f", "f_dot", "delta", "b")}
        result |= {"J": np.zeros((self.n_s, n_v)), "W": np.zeros((self.n_s, n_tau))}
        order = ("f", "f_dot", "J", "delta", "W", "b")
        self.kernel.terms(t, x, y, self.c, *(result[name] for name in order))
        return result
