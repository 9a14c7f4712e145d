"""A servo law ready to compute: its description and compiled kernel behind plain numpy arrays."""

import functools
from collections.abc import Callable, Collection, Mapping
from copy import copy
from types import MappingProxyType

import numpy as np

from servonode.arrays import Array
from servonode.controllers.engine.keeping import KEEP_FAULT, TOLERANCE, KeepNumbers
from servonode.controllers.engine.kernels import LawKernel
from servonode.controllers.engine.layout import (
    CROSSED,
    SINGULAR,
    UNSOLVED,
    YIELDED,
    Answer,
    AnswerLayout,
    GoalLayout,
    RecordLayout,
    law_sizes,
)
from servonode.mechanics.description import ProgramDescription, values_by_name
from servonode.mechanics.kernels import Signature
from servonode.mechanics.machine import Machine, ParameterError
from servonode.mechanics.stabilize import Gains
from servonode.tables import Row, Tabular, named, several, valued

ITERATIONS, HALVINGS, DIFFERENCE, SOLVED = 30, 40, 1e-6, 1e-12
GAINED = 1e-9  # share of the derivatives' norm; an iteration that gains less ends it: the rest is noise of differences
UNDETERMINED = 1e-9  # share of the largest singular value below which a direction stays as it is
_TERMS = Signature.of(LawKernel, "terms")


class ServoLaw(Tabular):
    """The law of one program on one (believed) machine.

    `machine` holds the parameters that the law assumes, not the plant's. The layouts state the order of the
    entries in goals `y`, in answers and in the rows of a record. Each function of its kernel has a method here, which
    is why there are many.
    """

    def __init__(
        self, description: ProgramDescription, kernel: LawKernel, machine: Machine, parameters: Mapping[str, float]
    ) -> None:
        self.description = description
        self.kernel = kernel
        self.machine = machine
        names = (each.name for each in description.parameters)
        self.parameters = dict(zip(names, values_by_name(description.parameters, parameters), strict=True))
        self.n_s = len(description.residuals)
        self.goal_layout = GoalLayout.of(description)
        self.answer_layout = AnswerLayout.of(description, machine.n_inputs)
        self.record_layout = RecordLayout.of(description)
        self.initial_states, self.start_rates = np.zeros((2, len(description.states)))
        self.K = np.zeros((3, self.n_s, self.n_s))
        self.rates = np.zeros(self.n_s)  # convergence rates [1/s]
        self.weights = np.ones(machine.n_inputs)  # of the inputs in a weighted least norm
        n_keeps = len(description.keeps)
        self.kept = np.tile([[1.0], [np.inf], [0.0], [TOLERANCE]], n_keeps)  # `KeepNumbers` (4, n_keeps)
        self.limits = np.array([[-np.inf], [np.inf]]) * np.ones(machine.n_inputs)  # of the inputs, lower and upper
        self.c = np.zeros(kernel.n_constants)
        kernel.constants(self._p(), self.c)

    def table(self) -> tuple[str, list[Row]]:
        """Residuals with their relative degrees and convergence rates, then targets and settings."""
        described = self.description
        found = zip(described.residuals, described.relative_degrees, self.rates.tolist(), strict=True)
        rows = [
            (each.name, f"{named(each.description, each.unit)}, relative degree {r}, convergence rate {rate:g} 1/s")
            for each, r, rate in found
        ]
        settings = [valued(each.name, self.parameters[each.name], each.unit) for each in described.parameters]
        rows += [("settings", several(settings))] if settings else []
        return f"Law {described.name} for machine {self.machine.description.name}", rows

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """The sizes that shapes of arrays are made of, see `kernels`."""
        return law_sizes(self.machine.description, self.description) | {"n_constants": len(self.c)}

    def _p(self) -> Array:
        rates = self.rates.tolist() if self.description.extension else []
        weights = self.weights.tolist() if self.description.weighted else []
        kept = [*self.kept.T.ravel(), *self.limits.ravel()] if self.description.keeping else []
        return np.array([*self.machine.parameters.values(), *self.parameters.values(), *rates, *weights, *kept])

    def with_parameters(self, parameters: Mapping[str, float]) -> "ServoLaw":
        """The same law with other parameters; those not named keep their present value, gains and own states too."""
        law = copy(self)
        law.parameters = {name: float(parameters.get(name, value)) for name, value in self.parameters.items()}
        law.K, law.rates, law.c = self.K.copy(), self.rates.copy(), np.zeros(len(self.c))
        law.kernel.constants(law._p(), law.c)
        return law

    def on(self, machine: Machine, parameters: Mapping[str, float] = MappingProxyType({})) -> "ServoLaw":
        """The same law, with no gains yet, on the machine with other parameters, and with other ones of its own."""
        law = copy(self)
        law.machine = machine
        law.initial_states, law.start_rates = np.zeros((2, len(self.description.states)))
        law.K, law.rates = np.zeros_like(self.K), np.zeros(self.n_s)
        return law.with_parameters(parameters)

    def weighing(self, weights: Mapping[str, float]) -> "ServoLaw":
        """The same law, whose least norm weighs the squares of the inputs so, by name; those not named weigh 1."""
        law = copy(self)
        law.weights = np.array([weights.get(name, 1.0) for name in self.machine.description.input_names])
        return law.with_parameters({})

    def keeping(self, numbers: Mapping[str, KeepNumbers], lower: Array, upper: Array) -> "ServoLaw":
        """The same law, which keeps with these numbers by keep, and knows these limits of the inputs (n_tau,)."""
        law = copy(self)
        law.kept = np.array([numbers[each.quantity.name] for each in self.description.keeps]).reshape(-1, 4).T
        law.limits = np.array([lower, upper])
        return law.with_parameters({})

    @property
    def keep_numbers(self) -> dict[str, KeepNumbers]:
        """The numbers of what it keeps, by name."""
        found = zip(self.description.keeps, self.kept.T.tolist(), strict=True)
        return {each.quantity.name: KeepNumbers(*numbers) for each, numbers in found}

    def keep_rows(self, t: float, x: Array, y: Array) -> Array:
        """What is kept as rows (n_rows, 4 + n_tau): h less its margin, the last function before the row, b, the keep's
        place, and a of a tau >= b; a rate of an integrator takes the place of an input that integrators determine.
        """
        rows = np.zeros((self.sizes["n_faces"], self.sizes["n_face"]))
        if len(rows):
            self.kernel.keep_rows(t, x, y, self.c, rows)
        return rows

    def numbers(self) -> Array:
        """All its numbers as one vector: those of the believed machine, of the program, of gains, of states."""
        return np.concatenate(self._parts())

    def with_numbers(self, numbers: Array) -> "ServoLaw":
        """The same law with the `numbers` of another one of its kind: bit by bit that one.

        Raises:
            ValueError: there are not as many; ParameterError: a parameter is out of its bounds.
        """
        sizes = [len(part) for part in self._parts()]
        if len(numbers) != sum(sizes):
            raise ValueError(f"{len(numbers)} numbers are given; give {sum(sizes)}")
        believed, own, rates, weights, gains, states, start_rates, *kept = np.split(numbers, np.cumsum(sizes)[:-1])
        law = copy(self)
        law.machine = self.machine.with_parameters(dict(zip(self.machine.parameters, believed.tolist(), strict=True)))
        law.rates, law.weights, law.K = rates, weights, gains.reshape(self.K.shape)
        law.initial_states, law.start_rates = states, start_rates
        if kept:
            law.kept, law.limits = (
                part.reshape(of.shape) for part, of in zip(kept, (self.kept, self.limits), strict=True)
            )
        law = law.with_parameters(dict(zip(self.parameters, own.tolist(), strict=True)))
        law.check_parameters()
        return law

    def _parts(self) -> list[Array]:
        parameters = (np.array([*each.values()], dtype=float) for each in (self.machine.parameters, self.parameters))
        kept = [self.kept.ravel(), self.limits.ravel()] if self.description.keeping else []
        return [*parameters, self.rates, self.weights, self.K.ravel(), self.initial_states, self.start_rates, *kept]

    def begin(self) -> "ServoLaw":
        """The law for one run, whose memory nobody else has: a compiled one has none."""
        return self

    def reset(self) -> None:
        """Forget the run so far."""

    def started(self, t: float, x: Array, y: Array, given: Collection[str]) -> "ServoLaw":
        """The law as it starts at state x: parameters without default that are not `given` have their values there,
        and so have the program's own states.
        """
        names = self.description.found
        if not names and not self.description.states:
            return self
        values = np.zeros(len(names))
        if names:
            self.kernel.start(t, x, y, self._p(), values)
        found = dict(zip(names, values.tolist(), strict=True))
        law = self.with_parameters({name: value for name, value in found.items() if name not in given})
        return law.with_own_states(t, x, y)

    def with_own_states(self, t: float, x: Array, y: Array) -> "ServoLaw":
        """The law whose program's own states, and their rates, are those at state x."""
        found = np.zeros(len(self.initial_states))
        if self.description.states:
            self.kernel.initial_states(t, x, y, self._p(), found)
        return self.with_initial_states(t, x, y, found)

    def with_initial_states(self, t: float, x: Array, y: Array, states: Array) -> "ServoLaw":
        """The law whose own states are these at state x, with their rates there."""
        law = self.with_parameters({})
        law.initial_states = states
        known = y.copy()
        known[self.goal_layout.states] = states
        law.start_rates = self.state_rates(t, x, known)
        return law

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
        """What the requirements refuse and the warnings tell; `late` [s]: mean age of held inputs."""
        requirements, warnings = self.description.requirements, self.description.warnings
        if not (requirements or warnings):
            return [], []
        found = np.zeros((3, len(requirements) + len(warnings)))
        self.kernel.conditions(t, x, y, self._p(), self.rates, late, found)
        values, n = found.T.tolist(), len(requirements)
        refused = zip(requirements, values[:n], strict=True)
        warned = zip(warnings, values[n:], strict=True)
        return (
            [each.refusal(*sides) for each, (margin, *sides) in refused if not each.met(margin)],
            [each.text for each, (margin, *_) in warned if not each.met(margin)],
        )

    def memory(self) -> Array:
        """The initial memory of `follow`: the program's own states, then their rates."""
        return np.append(self.initial_states, self.start_rates)

    def follow(self, t: float, x: Array, y: Array, passed: float, memory: Array) -> None:
        """Integrate the program's own states, in y, to time t, `passed` [s] after the last call (0 for the first)."""
        if self.description.states:
            self.kernel.follow(t, x, y, self.c, passed, memory)

    def fit_integrators(self, t: float, x: Array, y: Array, memory: Array) -> None:
        """Give the integrators of an extension, in the memory of `follow`, values that fit the state x.

        With them the derivatives f^(j)/lambda^j of the residuals, j below the relative degrees, are least. A controller
        that begins within a run has lost them; while no command acts, the machine moves without them.
        """
        extension, part = self.description.extension, self.goal_layout.states
        if extension is None or not extension.integrators:
            return
        own, known = memory[: part.stop - part.start], y.copy()
        known[part], n = own, len(extension.integrators)
        rows = zip(self.rates.tolist(), self.description.relative_degrees, strict=True)
        scales = np.concatenate([(rate or 1.0) ** np.arange(degree) for rate, degree in rows])

        def derivatives(integrators: Array) -> Array:
            known[part.stop - n : part.stop] = integrators
            result: Array = np.concatenate(self.chains(t, x, known)) / scales
            return result

        own[-n:] = fitted(derivatives, own[-n:])

    def state_rates(self, t: float, x: Array, y: Array) -> Array:
        """The rates of the program's own states."""
        rates = np.zeros(len(self.initial_states))
        if len(rates):
            self.kernel.state_rates(t, x, y, self.c, rates)
        return rates

    def watched(self, t: float, x: Array, y: Array) -> Array:
        """The values of the program's watches at a state, in their order."""
        values = np.zeros(len(self.description.watches))
        if len(values):
            self.kernel.watched(t, x, y, self.c, values)
        return values

    def tracked(self, t: float, x: Array, y: Array) -> Array:
        """Output and goal (2, n) of each residual of `description.tracked` at a state."""
        values = np.zeros((2, len(self.description.tracked)))
        if values.size:
            self.kernel.tracked(t, x, y, self.c, values)
        return values

    def stabilise(self, rates: Mapping[str, float]) -> None:
        """Give each residual its rate lambda [1/s]: (d/dt + lambda)^r f = 0, r its relative degree."""
        names = [each.name for each in self.description.residuals]
        self.use(Gains.from_rates([rates[name] for name in names], self.description.relative_degrees))

    def use(self, gains: Gains) -> None:
        """Feed the residuals back with these gains: f^(r) = ... - K2 f'' - K1 f' - K0 f - KI s."""
        self.K[0], self.K[1], self.K[2] = gains.K0, gains.K1, gains.KI
        self.rates[:] = gains.rates
        self.kernel.constants(self._p(), self.c)

    def answer(self) -> Answer:
        """An answer for `compute` to fill."""
        return Answer(self.answer_layout)

    def compute(self, t: float, x: Array, y: Array, answer: Answer) -> int:
        """Evaluate the law into `answer`, whose status is returned."""
        answer.status = self.kernel.law(t, x, y, self.c, self.K, answer.out)
        return answer.status

    def evaluate(self, t: float, x: Array, y: Array) -> Answer:
        """Evaluate the law into a new answer."""
        answer = self.answer()
        self.compute(t, x, y, answer)
        return answer

    def fault_name(self, answer: Answer) -> str:
        """The name of the fault of an answer whose status is not good: of a violated keep `keep_NAME`, else `law`."""
        i = answer.status - len(self.description.guards) - 1
        return f"{KEEP_FAULT}{self.description.keeps[i].quantity.name}" if i >= 0 else "law"

    def explain(self, answer: Answer, remedy: str = "") -> str:
        """The sentence for an answer whose status is not good; `remedy`: what helps where W is singular."""
        i = answer.status - len(self.description.guards) - 1
        if i >= 0:
            quantity = self.description.keeps[i].quantity
            unit = f" {quantity.unit}".removesuffix(" 1")
            text = f"keep {quantity.name}: {quantity.description} is {answer.margins[i]:.4g}{unit}, below 0 by more "
            text += f"than its tolerance {self.kept[3, i]:.3g}"
            return f"{text}; give it a margin, correct what the law assumes, or start where it is kept"
        if answer.status > 0:
            return self.description.guards[answer.status - 1].text
        if answer.status == YIELDED:
            given = zip(self.description.keeps, answer.active.tolist(), strict=True)
            names = ", ".join(each.quantity.name for each, acts in given if acts < 0)
            text = f"not all can be kept within the limits of the inputs: {names} would have to give way"
            return f'{text}; start slower or farther away, or let it, by controller.conflict = "yield"'
        if answer.status == UNSOLVED:
            text = "no inputs were found that keep all, for more control periods in a row than plant.safety.repeats"
            return f"{text}: those of the law were only clipped; start elsewhere, or keep less"
        if answer.status in (SINGULAR, CROSSED):
            names = ", ".join(each.name for each in self.description.residuals)
            many = len(self.description.residuals) > 1
            what, them = ("s", "them independently") if many else ("", "it")
            return (
                f"the servo-constraint{what} {names} lost rank ({self._why_singular(answer)}): the inputs cannot move "
                f"{them} here{f', {remedy}' if remedy else '; choose another program or another initial state'}"
            )
        return "the law gave an input that is not finite; check the parameters and the initial state"

    def _why_singular(self, answer: Answer) -> str:
        extension = self.description.extension
        text = f"condition {np.inf if np.isnan(answer.condition) else answer.condition:.3g}"
        if answer.status == CROSSED:
            text = "the determinant of W has changed its sign since the last control instant"
        where = extension.determinant if extension and extension.depends_on else ""
        return f"{text}: {where} is 0" if where else text

    def terms(self, t: float, x: Array, y: Array) -> dict[str, Array]:
        """f, f_dot, J (n_s, n_v), delta, W (n_s, n_tau), b = delta + J a0 and the relations' F (n_rel, n_tau)."""
        result = self.term_arrays()
        self.kernel.terms(t, x, y, self.c, *result.values())
        return result

    def chains(self, t: float, x: Array, y: Array) -> list[Array]:
        """f, f', ..., f^(r-1) of each residual, of a law with an extension."""
        found = np.zeros(sum(self.description.relative_degrees))
        self.kernel.chains(t, x, y, self.c, found)
        return np.split(found, np.cumsum(self.description.relative_degrees)[:-1])

    def term_arrays(self) -> dict[str, Array]:
        """The arrays that the kernel's `terms` fills, by name and in its order."""
        return _TERMS.arrays(self.sizes, "f", "f_dot", "J", "delta", "W", "b", "F")


def fitted(derivatives: Callable[[Array], Array], integrators: Array) -> Array:
    """The integrators with the least sum of squares of derivatives of the residuals, which are functions of them.

    The method of Gauss and Newton begins at those given. What no derivative determines at this state keeps its value,
    and all of them do where the derivatives are not finite.
    """
    with np.errstate(all="ignore"):
        found = _least(derivatives, integrators.copy())
    return integrators if found is None else found


def _least(function: Callable[[Array], Array], z: Array) -> Array | None:
    """Where |function(z)| is least near z; None where it is not finite on the way."""
    f = function(z)
    for _ in range(ITERATIONS):
        size = DIFFERENCE * np.maximum(1.0, np.abs(z))
        slope = np.array([function(z + step) - function(z - step) for step in np.diag(size)]).T / 2  # by units of size
        if not (np.isfinite(f).all() and np.isfinite(slope).all()):
            return None
        lengths = np.linalg.norm(slope, axis=0)
        lengths[lengths == 0.0] = 1.0
        move = size / lengths * np.linalg.lstsq(slope / lengths, -f, rcond=UNDETERMINED)[0]
        for _ in range(HALVINGS):
            after = function(z + move)
            if np.linalg.norm(after) <= np.linalg.norm(f):
                break
            move = move / 2
        else:
            return z
        gained = np.linalg.norm(f) - np.linalg.norm(after)
        enough = GAINED * np.linalg.norm(f)
        z, f = z + move, after
        if gained <= enough or np.all(np.abs(move) <= SOLVED * np.maximum(1.0, np.abs(z))):
            return z
    return z
