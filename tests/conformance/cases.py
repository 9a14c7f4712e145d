"""What the conformance suite goes through: every machine of PLANTS and every program of PROGRAMS with their options.

Nothing here names a machine or a program but REFUSED and WITHOUT_INPUTS. Random states, parameters and goals derive
from one seed.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servonode.arrays import Array
from servonode.controllers import PROGRAMS, ProgramEntry, ServoLaw, StatedProgram, find_program, load_law
from servonode.definitions.references import Option
from servonode.mechanics.description import MachineDescription, Quantity, derivative_name
from servonode.mechanics.machine import Machine, ParameterError
from servonode.plants import PLANTS, MachineSource, packaged_machine

Settings = dict[str, str | float | bool]
SEED, STATES = 20242, 6
POSITION, SPEED = 0.5, 1.0  # how far random states are from the default start: coordinates, velocities
TRIES = 4000
ORDERS = 4  # a cubic's derivatives
KEPT = 1e-6  # residuals that reactions hold, over two tenths of a second
LARGE = 1e6  # a bound that no limit reaches
WORST = 1e6  # condition of W up to which identities are compared


@dataclass(frozen=True)
class Refusal:
    """A combination of options that is there to be refused: machine, its settings and options that all must fit.

    derives: the program can be derived, and its W is singular.
    """

    program: str
    settings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    derives: bool = False
    machine: str | None = None  # any


REFUSED = (
    Refusal("hitch_angle", options={"completion": "none"}),
    Refusal("hitch_angle", options={"completion": "equal"}, derives=True),
    Refusal("bilimovich", options={"speed": "free", "rule": "spin"}),
    Refusal("carve", settings={"gravity": "paper"}),
    Refusal("pursuit", options={"variant": "literal"}, machine="mobile_base"),
    *(Refusal(program, settings={"input_set": "absolute"}) for program in ("carve", "curve", "literal", "slalom")),
)


WITHOUT_INPUTS = {"ball_on_turntable", "hoop_on_profile"}  # no program can do anything there


def combinations(options: Mapping[str, Option]) -> Iterator[Settings]:
    """Every combination of options that list their choices, the defaults first; others keep their default."""
    choices = [(o.default, *(c for c in o.choices if c != o.default)) for o in options.values()]
    for each in itertools.product(*choices):
        yield dict(zip(options, each, strict=True))


def _id(name: str, *settings: Settings) -> str:
    shown = (str(value) for each in settings for value in each.values())
    return "-".join([name, *(value for value in shown if value.isidentifier())])


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


def _machine_param(case: MachineCase, fast: bool) -> Any:
    return pytest.param(case, id=_id(case.name, dict(case.settings)), marks=() if fast else pytest.mark.slow)


MACHINES = [_machine_param(case, i == 0) for name in PLANTS for i, case in enumerate(machine_cases(name))]


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


def state_on_stabilised(machine: Machine, rng: np.random.Generator) -> Array:
    """A random state at which residuals that reactions hold are zero, and near which the motion keeps them so.

    Elsewhere a machine moves too fast to be measured; so what is too far from its start is tried again nearer to it.
    """
    wide, advance = 1.0, machine.advancer("rk4")
    for _ in range(TRIES):
        x = on_stabilised(machine, random_state(machine, rng, wide))
        moved = x.copy()
        if admissible(machine, x) and advance(0, 200, 1_000_000, moved, np.zeros(machine.n_inputs), machine.c):
            moved[-1] = 0.0
            if np.max(np.abs(machine.constraint_residual(0.2, moved))) < KEPT and machine.fault(0.2, moved) is None:
                return moved
        wide = max(0.8 * wide, 0.01)
    raise AssertionError(f"{machine.description.name}: no state near the default start from which it moves calmly")


def on_stabilised(machine: Machine, x: Array) -> Array:
    """x brought to where the residuals that reactions hold are zero, by Gauss-Newton steps."""
    first = len(machine.description.constraints)

    def missed(entries: Array) -> Array:
        return machine.constraint_residual(0.0, np.append(entries, 0.0))[first:]

    entries, h = x[:-1].copy(), 1e-7
    units = h * np.eye(len(entries))
    for _ in range(30):
        f = missed(entries)
        J = np.column_stack([(missed(entries + e) - missed(entries - e)) / (2 * h) for e in units])
        if not np.isfinite(J).all():
            break
        entries = entries - np.linalg.lstsq(J, f, rcond=None)[0]
        if np.max(np.abs(f)) < 1e-13:
            break
    return machine.projected(0.0, np.append(entries, 0.0))


def admissible(machine: Machine, x: Array) -> bool:
    """Finite, no fault, and everything held."""
    held = np.max(np.abs(machine.position_residual(0.0, x)), initial=0.0) < 1e-12
    held = held and np.max(np.abs(machine.constraint_residual(0.0, x)), initial=0.0) < 1e-9
    return bool(held and np.isfinite(x).all() and machine.fault(0.0, x) is None)


def admissible_state(machine: Machine, rng: np.random.Generator) -> Array:
    """A random state at which the machine may be."""
    if machine.description.stabilised:
        return state_on_stabilised(machine, rng)
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


@cache
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
    def refusal(self) -> Refusal | None:
        """What REFUSED says of it."""
        settings, options = dict(self.plant.settings), dict(self.options)
        fitting = (each for each in REFUSED if each.program == self.program and each.machine in (None, self.plant.name))
        return next(
            (
                each
                for each in fitting
                if each.settings.items() <= settings.items() and each.options.items() <= options.items()
            ),
            None,
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
            if name not in WITHOUT_INPUTS:
                yield entry, name


def _param(case: ProgramCase, fast: bool) -> Any:
    name = _id(f"{case.plant.name}-{case.program}", dict(case.plant.settings), dict(case.options))
    return pytest.param(case, id=name, marks=() if fast else pytest.mark.slow)


PROGRAM_CASES = [_param(case, fast) for case, fast in _program_cases() if case.refusal is None]
REFUSED_CASES = [_param(case, fast) for case, fast in _program_cases() if case.refusal and not case.refusal.derives]
SINGULAR_CASES = [_param(case, fast) for case, fast in _program_cases() if case.refusal and case.refusal.derives]


class Expressions:
    """The program's expressions evaluated by sympy's own printer, beside the compiled law."""

    def __init__(self, case: ProgramCase) -> None:
        self.model = case.plant.source.build()
        self.program = case.source.build(self.model, dict(case.options))
        self._functions: dict[Any, tuple[list[str], Callable[..., Any]]] = {}

    def value(self, expression: Any, values: Mapping[str, float]) -> float:
        """An expression at named values: states, parameters, targets and signals with derivatives, t, inputs."""
        if expression not in self._functions:
            self._functions[expression] = self._function(expression)
        names, function = self._functions[expression]
        return float(function(*(values[name] for name in names)))

    def _function(self, expression: Any) -> tuple[list[str], Callable[..., Any]]:
        import sympy

        from servonode.controllers.engine.resolution import Resolution

        bare = Resolution(self.model, self.program)(expression)
        symbols = sorted(bare.free_symbols, key=str)
        known = {"wrap": lambda a: (a + np.pi) % (2 * np.pi) - np.pi, "root": np.sqrt}
        return list(map(str, symbols)), sympy.lambdify(symbols, bare, [known, "numpy"])

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
            dataclasses.replace(each, expression=each.expression.xreplace(held), damping=each.damping.xreplace(held))
            for each in program.residuals
        )
        used = set().union(*(each.expression.free_symbols for each in residuals))
        limits = tuple(each for each in program.limits if each.kind == "inputs" or each.scale in used)
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
        """The law with setpoints as parameters; the law itself where it has no setpoints."""
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
    """Targets and signals as cubic polynomials of time, by name."""

    polynomials: dict[str, np.polynomial.Polynomial]

    def value(self, name: str, order: int, t: float) -> float:
        """A derivative at time t."""
        return float(self.polynomials[name].deriv(order)(t)) if order else float(self.polynomials[name](t))

    def values(self, t: float) -> dict[str, float]:
        """Everything with its derivatives, by the symbols' names."""
        return {derivative_name(name, n): self.value(name, n, t) for name in self.polynomials for n in range(ORDERS)}

    def y(self, law: ServoLaw, t: float, states: Array) -> Array:
        """The array that a law wants, with the program's own states."""
        of = law.description
        ordered = [(name, of.target_order) for name in of.targets]
        ordered += [(each.name, of.signal_order) for each in of.signals]
        values = [self.value(name, n, t) for name, order in ordered for n in range(order + 1)]
        return np.array([*values, *states])


@dataclass
class Moment:
    """A law at a time t: state x of the machine, states s of the program, goal, and what the law answered."""

    law: ServoLaw
    frozen: ServoLaw  # setpoints are parameters
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
        return self.goal.y(self.law, self.t, self.s)

    @property
    def terms(self) -> dict[str, Array]:
        return self.law.terms(self.t, self.x, self.y)

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
        """d/dt of what(t, x, s) while the machine's state moves with these rates and setpoints stay."""
        own = self.law.state_rates(self.t, self.x, self.y)

        def moved(step: float) -> Array:
            return what(self.t + step, self.x + step * rates, self.s + step * own)

        return slope(moved, float(np.max(np.abs([*rates[:-1], *own]))))

    def residuals(self, t: float, x: Array, s: Array) -> Array:
        return self.frozen.terms(t, x, self.goal.y(self.frozen, t, s))["f"]

    def next_to_top(self, t: float, x: Array, s: Array) -> Array:
        """f for relative degree 1, f' for relative degree 2: one differentiation gives J v' + delta."""
        terms = self.frozen.terms(t, x, self.goal.y(self.frozen, t, s))
        return np.where(np.array(self.frozen.description.relative_degrees) == 2, terms["f_dot"], terms["f"])

    def with_settings(self, values: Mapping[str, float]) -> "Moment":
        """The same with other parameters of the program."""
        law = _fresh(self.law, self.machine, {**self.law.parameters, **values}, self.t, self.x, self.y)
        law.K[:] = self.law.K
        return dataclasses.replace(self, law=law)


def _fresh(law: ServoLaw, machine: Machine, parameters: Mapping[str, float], t: float, x: Array, y: Array) -> ServoLaw:
    """The same law on this machine with these parameters."""
    return ServoLaw(law.description, law.kernel, machine, parameters).started(t, x, y, list(parameters))


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
    y = goal.y(law, t, s)
    law = law.started(t, x, y, list(given))  # what the start gives, moved a little
    found = {name: value * rng.uniform(0.9, 1.1) for name, value in law.parameters.items() if name not in given}
    law = _fresh(law, machine, {**given, **found, **dict.fromkeys(loaded.expressions.raised(), LARGE)}, t, x, y)
    law.K[:2] = rng.uniform(-1.0, 1.0, (2, law.n_s, law.n_s)) + 3 * np.eye(law.n_s)
    return Moment(law, law, loaded.expressions, t, x, s, goal)


def _goal(loaded: Loaded, t: float, rng: np.random.Generator) -> Goal:
    """Targets about the origin, signals about their defaults, moving moderately around time t."""
    import sympy

    description = loaded.law.description
    centres = {name: rng.uniform(-2.0, 2.0) for name in description.targets}
    for each, text in zip(description.signals, description.signal_defaults, strict=True):
        stated: Any = sympy.sympify(text)
        centres[each.name] = float(stated.subs(sympy.Symbol("t"), t)) + rng.uniform(-0.1, 0.1)
    since = np.polynomial.Polynomial([-t, 1.0])
    return Goal(
        {
            name: np.polynomial.Polynomial([centre, *rng.uniform(-0.3, 0.3, 3)])(since)
            for name, centre in centres.items()
        }
    )


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
    answer = law.evaluate(moment.t, moment.x, moment.y)
    if answer.status:
        return law.explain(answer)
    moment.u = answer.inputs
    return None if abs(answer.condition) < WORST else "W is nearly singular"


def _frozen_too(moment: Moment, loaded: Loaded) -> Moment:
    """The moment with its law of frozen setpoints."""
    setpoints = moment.expressions.program.setpoints
    if setpoints:
        values = {each.name: moment.value(each.expression) for each in setpoints}
        parameters = {**moment.law.parameters, **values}
        y = moment.goal.y(loaded.frozen, moment.t, moment.s)
        moment.frozen = _fresh(loaded.frozen, moment.machine, parameters, moment.t, moment.x, y)
        moment.frozen.K[:] = moment.law.K
    return moment
