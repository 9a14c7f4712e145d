"""What the conformance suite goes through: every machine of PLANTS and every program of PROGRAMS with their options.

Nothing here names a machine or a program but REFUSED. Random states, parameters and goals derive from one seed.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from servonode.controllers import PROGRAMS, ProgramEntry, ServoLaw, StatedProgram, find_program, load_law
from servonode.mechanics.description import MachineDescription, Quantity
from servonode.mechanics.locate import Option
from servonode.mechanics.machine import Machine, ParameterError
from servonode.plants import PLANTS, MachineSource, packaged_machine

Array = npt.NDArray[np.float64]
Settings = dict[str, str | float | bool]
SEED, STATES = 20242, 6
POSITION, SPEED = 0.5, 1.0  # how far random states are from the default start: coordinates, velocities
TRIES = 4000
LARGE = 1e6  # a bound that no limit reaches
WORST = 1e6  # condition of W up to which identities are compared

# combinations of options that are there to be refused: (program, machine's settings, options), all of which must fit
REFUSED: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    ("hitch_angle", {}, {"completion": "none"}),
    ("hitch_angle", {}, {"completion": "equal"}),
    ("bilimovich", {}, {"speed": "free", "rule": "spin"}),
    ("carve", {"gravity": "paper"}, {}),
    *((program, {"input_set": "absolute"}, {}) for program in ("carve", "curve", "literal", "slalom")),
)


def combinations(options: Mapping[str, Option]) -> Iterator[Settings]:
    """Every combination of options that list their choices, the defaults first; others keep their default."""
    choices = [(o.default, *(c for c in o.choices if c != o.default)) for o in options.values()]
    for each in itertools.product(*choices):
        yield dict(zip(options, each, strict=True))


def _id(name: str, *settings: Settings) -> str:
    return "-".join([name, *(str(value) for each in settings for value in each.values())])


# machines


@dataclass(frozen=True)
class MachineCase:
    """A machine of PLANTS with one choice of its options."""

    name: str
    settings: tuple[tuple[str, str | float | bool], ...]

    @property
    def source(self) -> MachineSource:
        return packaged_machine(self.name, dict(self.settings))

    @property
    def machine(self) -> Machine:
        """The machine with default parameters."""
        return _machine(self)

    def rng(self) -> np.random.Generator:
        return np.random.default_rng([SEED, *map(ord, self.name)])


@cache
def _machine(case: MachineCase) -> Machine:
    return case.source.load({})


@cache
def machine_cases(name: str) -> tuple[MachineCase, ...]:
    """Every choice of a machine's options, the defaults first."""
    options = packaged_machine(name).definition.options
    return tuple(MachineCase(name, tuple(each.items())) for each in combinations(options))


MACHINES = [
    pytest.param(case, id=_id(name, dict(case.settings))) for name in PLANTS for case in machine_cases(name)
]


def random_quantity(quantity: Quantity, rng: np.random.Generator) -> float:
    """A value near the default, within the bounds."""
    default = 0.5 if quantity.default is None else quantity.default
    while True:
        value = default * rng.uniform(0.95, 1.05) if default else rng.uniform(-0.1, 0.1)
        if quantity.complaint(value) is None:
            return float(value)


def random_parameters(machine: Machine, rng: np.random.Generator) -> Machine:
    """The machine with parameters near their defaults that meet its requirements; losses are not zero."""
    for _ in range(TRIES):
        values = {each.name: random_quantity(each, rng) for each in machine.description.parameters}
        try:
            return machine.with_parameters(values)
        except ParameterError:
            continue
    raise AssertionError(f"{machine.description.name}: no parameters near the defaults meet its requirements")


def spread(description: MachineDescription) -> Array:
    """How far a random state may be from the default start, by state."""
    return np.array([SPEED if name in description.velocities else POSITION for name in description.state_names])


def random_state(machine: Machine, rng: np.random.Generator, wide: float = 1.0) -> Array:
    """A state near the default start that holds what the machine holds; a fault of the machine is not looked at."""
    x = machine.state({})
    x[:-1] += wide * rng.uniform(-1.0, 1.0, machine.n_state) * spread(machine.description)
    return machine.projected(0.0, x)


def admissible(machine: Machine, x: Array) -> bool:
    """Finite, no fault, and everything held."""
    held = np.max(np.abs(machine.position_residual(0.0, x)), initial=0.0) < 1e-12
    return bool(held and np.isfinite(x).all() and machine.fault(0.0, x) is None)


def admissible_state(machine: Machine, rng: np.random.Generator) -> Array:
    """A random state at which the machine may be."""
    for _ in range(TRIES):
        x = random_state(machine, rng)
        if admissible(machine, x):
            return x
    raise AssertionError(f"{machine.description.name}: no admissible state near the default start")


@dataclass(frozen=True)
class Situation:
    """A machine with its parameters at a time in a state under some inputs."""

    machine: Machine
    t: float
    x: Array
    u: Array


def situations(case: MachineCase, count: int = STATES) -> list[Situation]:
    """Random parameters, times, admissible states and inputs that accelerate the machine moderately."""
    rng, found = case.rng(), []
    for _ in range(count):
        machine = random_parameters(case.machine, rng)
        x, t = admissible_state(machine, rng), float(rng.uniform(0.0, 10.0))
        found.append(Situation(machine, t, x, random_inputs(machine, t, x, rng)))
    return found


def random_inputs(machine: Machine, t: float, x: Array, rng: np.random.Generator) -> Array:
    """Inputs each of which alone changes no velocity faster than by 3 per second."""
    free = machine.derivatives(t, x, np.zeros(machine.n_inputs))
    moved = [float(np.max(np.abs(machine.derivatives(t, x, e)[:-1] - free[:-1]))) for e in np.eye(machine.n_inputs)]
    return np.array([rng.uniform(-3.0, 3.0) / each for each in moved])


# differences


def slope(function: Callable[[float], Array], speed: float) -> Array:
    """The derivative of a function of s at 0 by central differences, extrapolated once: error of order h^4.

    `speed` is how fast the function's arguments move with s.
    """
    h = 1e-3 / (1.0 + speed)

    def central(h: float) -> Array:
        return (function(h) - function(-h)) / (2 * h)

    return (4 * central(h / 2) - central(h)) / 3


def accelerations(machine: Machine, rates: Array) -> Array:
    """v' (n_v,) of a machine's derivatives."""
    description = machine.description
    return np.array([rates[description.state_names.index(name)] for name in description.velocities])


def mass_matrix(machine: Machine, t: float, x: Array) -> Array:
    """M_r (n_v, n_v) of the minimal form, from the kinetic energy alone, which is quadratic in the velocities."""
    names = machine.description.velocities
    where = [machine.description.state_names.index(name) for name in names]

    def T(v: Array) -> float:
        moved = x.copy()
        moved[where] = v
        return machine.energies(t, moved)[0]

    units = np.eye(len(where))
    rest = T(np.zeros(len(where)))
    return np.array([[T(a + b) - T(a) - T(b) + rest for a in units] for b in units])


def input_map(machine: Machine, t: float, x: Array) -> Array:
    """B_r (n_v, n_tau): the inputs' generalized forces, from the power that they have at unit velocities."""
    where = [machine.description.state_names.index(name) for name in machine.description.velocities]
    B = np.zeros((len(where), machine.n_inputs))
    for i in range(len(where)):
        moved = x.copy()
        moved[where] = np.eye(len(where))[i]
        idle = machine.derivatives(t, moved, np.zeros(machine.n_inputs))[-1]
        B[i] = [machine.derivatives(t, moved, e)[-1] - idle for e in np.eye(machine.n_inputs)]
    return B


# programs


@dataclass(frozen=True)
class ProgramCase:
    """A program on a machine that it is for, each with one choice of its options."""

    program: str
    plant: MachineCase
    options: tuple[tuple[str, str | float | bool], ...]

    @property
    def refused(self) -> bool:
        """Whether REFUSED lists it."""
        return any(
            self.program == program
            and settings.items() <= dict(self.plant.settings).items()
            and options.items() <= dict(self.options).items()
            for program, settings, options in REFUSED
        )

    @property
    def source(self) -> StatedProgram:
        return StatedProgram(find_program(self.program, Path(), self.plant.name))

    def law(self) -> ServoLaw:
        """The law with default parameters."""
        return self.law_of(self.source)

    def law_of(self, source: Any) -> ServoLaw:
        plant = self.plant.source
        return load_law(source, self.plant.machine, plant.key, plant.build, dict(self.options), {})

    def rng(self) -> np.random.Generator:
        return np.random.default_rng([SEED, *map(ord, self.program)])

    @property
    def loaded(self) -> "Loaded":
        return _loaded(self)


def _program_cases() -> Iterator[tuple[ProgramCase, bool]]:
    """Every program on every machine it is for; whether the case is one of the fast ones.

    All options are combined on the default machine, the default options meet every choice of the machine's.
    """
    for entry, name in _pairs():
        options = find_program(entry.name, Path(), name).options
        for i, plant in enumerate(machine_cases(name)):
            for j, each in enumerate(combinations(options)):
                if i == 0 or j == 0:
                    yield ProgramCase(entry.name, plant, tuple(each.items())), i == j == 0


def _pairs() -> Iterator[tuple[ProgramEntry, str]]:
    for entry in PROGRAMS:
        for name in PLANTS if entry.machine is None else (entry.machine,):
            yield entry, name


def _param(case: ProgramCase, fast: bool) -> Any:
    name = _id(f"{case.plant.name}-{case.program}", dict(case.plant.settings), dict(case.options))
    return pytest.param(case, id=name, marks=() if fast else pytest.mark.slow)


PROGRAM_CASES = [_param(case, fast) for case, fast in _program_cases() if not case.refused]
REFUSED_CASES = [_param(case, fast) for case, fast in _program_cases() if case.refused]


class Expressions:
    """The program's expressions evaluated by sympy's own printer, beside the compiled law."""

    def __init__(self, case: ProgramCase) -> None:
        self.model = case.plant.source.build()
        self.program = case.source.build(self.model, dict(case.options))

    def value(self, expression: Any, values: Mapping[str, float]) -> float:
        """An expression at named values: states, parameters, targets and signals with derivatives, t, inputs."""
        import sympy

        from servonode.controllers.servo import resolved

        bare = resolved(SimpleNamespace(model=self.model), self.program, sympy.sympify(expression))  # type: ignore[arg-type]
        symbols = sorted(bare.free_symbols, key=str)
        function = sympy.lambdify(symbols, bare, [{"wrap": lambda a: (a + np.pi) % (2 * np.pi) - np.pi}, "numpy"])
        return float(function(*(values[str(symbol)] for symbol in symbols)))

    def raised(self) -> list[str]:
        """The program's parameters that bound demands and inputs."""
        bounds = [each.at_most for each in self.program.limits if each.kind != "expressions"]
        symbols = set().union(*(getattr(each, "free_symbols", set()) for each in bounds))
        return [each.name for each in self.program.parameters if each in symbols]


@dataclass(frozen=True)
class Frozen:
    """A program whose setpoints are parameters: what it asks for while they count as constant."""

    stated: StatedProgram

    @property
    def name(self) -> str:
        return self.stated.name

    @property
    def options(self) -> Mapping[str, Option]:
        return self.stated.options

    def digest(self, build_model: Callable[[], Any], options: Mapping[str, Any]) -> str:
        return "setpoints frozen " + self.stated.digest(build_model, options)

    def build(self, model: Any, options: Mapping[str, Any]) -> Any:
        from servonode.mechanics import parameter

        program = self.stated.build(model, options)
        held = {each: parameter(each.name, "a setpoint", default=0.0) for each in program.setpoints}
        residuals = tuple(
            dataclasses.replace(
                each, expression=each.expression.xreplace(held), damping=each.damping.xreplace(held)
            )
            for each in program.residuals
        )
        limits = tuple(each for each in program.limits if each.kind != "demand")
        parameters = (*program.parameters, *held.values())
        return dataclasses.replace(
            program, residuals=residuals, limits=limits, parameters=parameters, setpoints=(), guards=(), warnings=(),
            requirements=(),
        )  # fmt: skip


@dataclass
class Loaded:
    """A case with its laws and expressions."""

    case: ProgramCase
    law: ServoLaw
    expressions: Expressions

    @cached_property
    def frozen(self) -> ServoLaw:
        """The law with setpoints as parameters; the law itself where there are none."""
        if not self.expressions.program.setpoints:
            return self.law
        return self.case.law_of(Frozen(self.case.source))

    @cached_property
    def moments(self) -> list["Moment"]:
        """Random admissible moments of the program; the limits on demands and inputs are far away."""
        rng = self.case.rng()
        return [_moment(self, rng) for _ in range(STATES)]


@cache
def _loaded(case: ProgramCase) -> Loaded:
    return Loaded(case, case.law(), Expressions(case))


@dataclass
class Goal:
    """Targets and signals as cubic polynomials of time, with all their derivatives."""

    names: tuple[tuple[str, int], ...]  # with the highest derivative that is wanted
    coefficients: Array  # (n, 4)

    def values(self, t: float) -> dict[str, float]:
        """Each with its derivatives, in the order of y."""
        from servonode.mechanics.description import derivative_name

        return {
            derivative_name(name, order): float(np.polynomial.Polynomial(row).deriv(order)(t)) if order < 4 else 0.0
            for (name, highest), row in zip(self.names, self.coefficients, strict=True)
            for order in range(highest + 1)
        }

    def y(self, t: float, states: Array) -> Array:
        return np.array([*self.values(t).values(), *states])


@dataclass
class Moment:
    """A law at a time t: state x of the machine, states s of the program, goal, and what the law answered."""

    law: ServoLaw
    frozen: ServoLaw
    expressions: Expressions
    t: float
    x: Array
    s: Array
    goal: Goal
    u: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def machine(self) -> Machine:
        return self.law.machine

    @property
    def y(self) -> Array:
        return self.goal.y(self.t, self.s)

    @property
    def named(self) -> dict[str, float]:
        """Everything that an expression may contain, by name."""
        description = self.machine.description
        values = dict(zip(description.state_names, map(float, self.x), strict=False))
        values |= dict(zip((each.name for each in self.law.description.states), map(float, self.s), strict=True))
        values |= self.machine.parameters | self.law.parameters | self.goal.values(self.t) | {"t": self.t}
        return values | dict(zip(description.input_names, map(float, self.u), strict=True))

    def value(self, expression: Any) -> float:
        """An expression of the program here, not from the compiled law."""
        return self.expressions.value(expression, self.named)

    def along(self, rates: Array, what: Callable[[float, Array, Array], Array]) -> Array:
        """d/dt of what(t, x, y) while the machine's state moves with these rates and setpoints stay."""
        own = self.law.state_rates(self.t, self.x, self.y)

        def moved(step: float) -> Array:
            t = self.t + step
            return what(t, self.x + step * rates, self.goal.y(t, self.s + step * own)).copy()

        return slope(moved, float(np.max(np.abs([*rates[:-1], *own]))))

    def residuals(self, t: float, x: Array, y: Array) -> Array:
        return self.frozen.terms(t, x, y)["f"]

    def next_to_top(self, t: float, x: Array, y: Array) -> Array:
        """f of residuals of degree 1, f' of those of degree 2: what one differentiation turns into J v' + delta."""
        terms = self.frozen.terms(t, x, y)
        return np.where(np.array(self.frozen.description.degrees) == 2, terms["f_dot"], terms["f"])

    def with_settings(self, values: Mapping[str, float]) -> "Moment":
        """The same with other parameters of the program."""
        law = _fresh(self.law, self.machine, {**self.law.parameters, **values}, self.t, self.x, self.y)
        law.K[:] = self.law.K
        return dataclasses.replace(self, law=law)


def _fresh(
    law: ServoLaw, machine: Machine, parameters: Mapping[str, float], t: float, x: Array, y: Array
) -> ServoLaw:
    """The same law on this machine with these parameters."""
    own = ServoLaw(law.description, law.kernel, machine, parameters)
    own.start(t, x, y, list(parameters))
    return own


def _moment(loaded: Loaded, rng: np.random.Generator) -> Moment:
    """A random moment at which the law may act."""
    seen: list[str] = []
    for _ in range(TRIES):
        machine = random_parameters(loaded.case.plant.machine, rng)
        for _ in range(20):
            moment = _tried(loaded, machine, rng)
            complaint = _complaint(moment)
            if complaint is None:
                return _frozen_too(moment, loaded)
            seen.append(complaint)
    raise AssertionError(f"no admissible moment of {loaded.case.program}; last: {'; '.join(seen[-5:])}")


def _tried(loaded: Loaded, machine: Machine, rng: np.random.Generator) -> Moment:
    description, t = loaded.law.description, float(rng.uniform(0.0, 2.0))
    x, goal = random_state(machine, rng), _goal(loaded, t, rng)
    given = {
        each.name: random_quantity(each, rng)
        for each in description.parameters
        if each.default is not None or each.name in description.required
    }
    s = rng.uniform(-0.3, 0.3, len(description.states))
    law = ServoLaw(description, loaded.law.kernel, machine, given)
    law.start(t, x, goal.y(t, s), list(given))  # what the start gives, moved a little
    found = {name: value * rng.uniform(0.9, 1.1) for name, value in law.parameters.items() if name not in given}
    given |= found | dict.fromkeys(loaded.expressions.raised(), LARGE)
    law = _fresh(law, machine, given, t, x, goal.y(t, s))
    law.K[:2] = rng.uniform(-1.0, 1.0, (2, law.n_s, law.n_s)) + 3 * np.eye(law.n_s)
    return Moment(law, law, loaded.expressions, t, x, s, goal)


def _goal(loaded: Loaded, t: float, rng: np.random.Generator) -> Goal:
    """Targets about the origin, signals about their defaults, moving moderately around time t."""
    import sympy

    description = loaded.law.description
    names = [(name, description.target_order) for name in description.targets]
    names += [(each.name, description.signal_order) for each in description.signals]
    centres = [rng.uniform(-2.0, 2.0) for _ in description.targets]
    centres += [
        float(sympy.sympify(text).subs("t", t)) + rng.uniform(-0.1, 0.1) for text in description.signal_defaults
    ]
    at_t = [np.array([centre, *rng.uniform(-0.3, 0.3, 3)]) for centre in centres]  # in powers of time less t
    shifted = [np.polynomial.Polynomial(row)(np.polynomial.Polynomial([-t, 1.0])).coef for row in at_t]
    return Goal(tuple(names), np.array(shifted).reshape(len(names), 4))


def _complaint(moment: Moment) -> str | None:
    """Why the law may not act here, or None; the answer is kept in the moment."""
    if not admissible(moment.machine, moment.x):
        return "the machine is at fault"
    law = moment.law
    try:
        law.check_parameters()
    except ParameterError as error:
        return str(error)
    if complaints := law.violated(moment.t, moment.x, moment.y, 0.0)[0]:
        return complaints[0]
    status = law.compute(moment.t, moment.x, moment.y)
    if status:
        return law.explain(status)
    moment.u = law.inputs.copy()
    return None if abs(law.condition) < WORST else "W is nearly singular"


def _frozen_too(moment: Moment, loaded: Loaded) -> Moment:
    """The moment with its law of frozen setpoints."""
    setpoints = moment.expressions.program.setpoints
    if setpoints:
        values = {each.name: moment.value(each.expression) for each in setpoints}
        parameters = {**moment.law.parameters, **values}
        moment.frozen = _fresh(loaded.frozen, moment.machine, parameters, moment.t, moment.x, moment.y)
        moment.frozen.K[:] = moment.law.K
    return moment
