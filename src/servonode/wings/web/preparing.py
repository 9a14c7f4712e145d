"""The numbers of a run and what the compiled loop is given of them, as a list of steps that Python and a browser take.

A step copies numbers, calls a compiled function, or spreads a row. Python takes them to compare what comes out with the
arguments of a simulation, bit by bit; a browser takes them to compute the run again with other numbers.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.start_on_program import wants_program_start
from servonode.controllers import ServoLaw
from servonode.controllers.engine.signals import Signals
from servonode.mechanics.stabilize import gains_kernel
from servonode.simulation.fused_loop import coast_call, goal_tables, loop_call, rows_of
from servonode.simulation.imperfections import Imperfections
from servonode.simulation.reading_errors import ReadingErrors

FAST = 2.0  # a speed of goals whose kernel takes any
COUNTED = ("rows", "answers", "instants", "depth")  # first lengths of arrays that depend on the times of a run
ANY_LENGTH = {  # arrays of the loop, by what their first length is
    "rows": "rows", "answers": "answers", "targets": "instants", "signals": "instants", "queue": "depth",
    "sent": "depth", "due": "depth",
}  # fmt: skip
Step = list[Any]
Functions = dict[str, tuple[Any, str]]  # the compiled functions by the names under which a browser calls them


class Prepared:
    """The preparation of a closed loop's run: what its loop is given.

    numbers: by part, those that a launch file states. arrays and scalars: the arguments of the loop and what they are
    made of; steps: how they follow from the numbers. random: whether noise is drawn. call: name and arguments of the
    loop.
    """

    def __init__(self, closed_loop: ClosedLoop, every: int) -> None:
        self.closed_loop, self.every = closed_loop, every
        self.kernel, self.arguments, more = arguments_of(closed_loop, every)
        self.is_perfect = more is None
        self.random = more is not None and (any(closed_loop.sensor.noise) or closed_loop.sensor.drop > 0)
        self.numbers = numbers_of(closed_loop, more is not None)
        self.offsets = dict(zip(self.numbers, np.cumsum([0, *map(len, self.numbers.values())]).tolist(), strict=False))
        self.function = "loop" if closed_loop.control else "coast"
        self.functions: Functions = {self.function: (self.kernel, self.function)}
        self.arrays: dict[str, np.ndarray[Any, Any]] = {
            k: v for k, v in self.arguments.items() if isinstance(v, np.ndarray)
        }
        self.steps = list[Step]()
        self._machine()
        if closed_loop.control:
            self._control(closed_loop.control.law)
            if more is not None:
                self._imperfect()
        self.call = [self._argument(name, value) for name, value in self.arguments.items()]

    # what steps are made of

    def _argument(self, name: str, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return ["a", name]
        if name in ("steps", "per_period", "period", "depth"):
            return [name]
        if name == "power" and not self.is_perfect:
            return ["n", self.offsets["power"]]
        return ["f" if isinstance(value, float) else "i", value]

    def _of(self, part: str, first: int = 0, n: int | None = None) -> Step:
        """The numbers of a part, as an argument."""
        size = len(self.numbers[part]) if n is None else n
        return ["a", "numbers", self.offsets[part] + first, size]

    def _put(self, part: str, array: str, at: int = 0, n: int | None = None, first: int = 0) -> None:
        size = len(self.numbers[part]) if n is None else n
        if size:
            self.steps.append(["copy", "numbers", self.offsets[part] + first, array, at, size])

    def _copy(self, source: str, first: int, array: str, at: int, n: int) -> None:
        if n:
            self.steps.append(["copy", source, first, array, at, n])

    def _call(self, name: str, kernel: Any, function: str, *arguments: Any) -> None:
        self.functions[name] = kernel, function
        self.steps.append(["call", name, *arguments])

    def _new(self, name: str, *shape: int) -> None:
        self.arrays[name] = np.zeros(shape)

    # the steps

    def _machine(self) -> None:
        machine = self.closed_loop.machine
        self._put("start", "x")
        self._call("constants", machine.kernel, "constants", self._of("machine"), ["a", "c"])
        if hasattr(machine.kernel, "assembly"):
            self._call("assembly", machine.kernel, "assembly", ["f", 0.0], ["a", "x"], ["a", "c"])

    def _control(self, law: ServoLaw) -> None:
        control, part = self.closed_loop.known_control, law.goal_layout
        n_s, n_p, n_own = law.n_s, len(law._p()), len(law.initial_states)
        self._new("y0", part.size)
        self._new("p_law", n_p)
        self._new("times", len(self.arrays["targets"]))
        self.steps.append(["times", "times"])
        self._call("believed", law.machine.kernel, "constants", self._of("believed"), ["a", "c_believed"])
        assert isinstance(control.signals, Signals)
        for name, signals, at in (
            ("targets", control.targets, part.targets),
            ("signals", control.signals, part.signals),
        ):
            self._table(name, signals)
            self._copy(name, 0, "y0", at.start, at.stop - at.start)
        first = 0
        for each in ("believed", "settings", *["rates"] * (law.description.extension is not None), "weights"):
            if each != "weights" or law.description.weighted:
                self._put(each, "p_law", first)
                first += len(self.numbers[each])
        if law.description.keeping:
            self._kept(first)
        self._found(law)
        if "K" in self.numbers:
            self._put("K", "K")
        elif n_s:
            self.arrays["degrees"] = np.array(law.description.relative_degrees, dtype=np.int64)
            gains = ["i", n_s], self._of("rates"), ["a", "degrees"], self._of("integral"), ["a", "K", 0, 3 * n_s * n_s]
            self._call("stabilise", gains_kernel(), "stabilise", *gains)
        self._call("law_constants", law.kernel, "constants", ["a", "p_law"], ["a", "c_law"])
        if "memory" in self.numbers:
            self._put("memory", "memory")
            self._put("memory", "y0", part.states.start, n_own)
        elif n_own:
            given = ["f", 0.0], ["a", "x"], ["a", "y0"]
            self._call("own", law.kernel, "initial_states", *given, ["a", "p_law"], ["a", "memory", 0, n_own])
            self._copy("memory", 0, "y0", part.states.start, n_own)
            self._call("own_rates", law.kernel, "state_rates", *given, ["a", "c_law"], ["a", "memory", n_own, n_own])
        n_tau = self.closed_loop.machine.n_inputs
        self._put("limit", "bounds", 0)
        self._put("rate_limit", "bounds", n_tau)

    def _kept(self, first: int) -> None:
        """The numbers by which a law keeps, last of its parameters."""
        self._put("kept", "p_law", first)
        first += len(self.numbers["kept"])
        if "ends" in self.numbers:
            self._put("ends", "p_law", first)
            return
        n_tau = self.closed_loop.machine.n_inputs
        self.steps.append(["minus", "numbers", self.offsets["limit"], "p_law", first, n_tau])
        self._put("limit", "p_law", first + n_tau)

    def _found(self, law: ServoLaw) -> None:
        """Parameters that a program finds at the start."""
        names = [each.name for each in law.description.parameters]
        wanted = found_of(self.closed_loop)
        if wanted:
            first = len(self.numbers["believed"])
            self._new("found", len(law.description.found))
            given = ["f", 0.0], ["a", "x"], ["a", "y0"], ["a", "p_law"], ["a", "found"]
            self._call("found", law.kernel, "start", *given)
            for i, name in enumerate(law.description.found):
                if name in wanted:
                    self._copy("found", i, "p_law", first + names.index(name), 1)

    def _table(self, name: str, signals: Signals) -> None:
        """Fill the table of goals."""
        if signals.kernel is None:
            places = range(len(signals.entries))[signals.positions]
            self._new(f"{name}_row", len(signals.entries))
            for i, at in enumerate(places):
                self._put(name, f"{name}_row", at, 1, i)
            if len(places):
                self.steps.append(["rows", f"{name}_row", name, len(signals.entries)])
            return
        given = ["instants"], ["a", "times"], self._of(name), ["a", name]
        self._call(f"{name}_table", signals.at_speed(FAST).kernel, "table", *given)

    def _imperfect(self) -> None:
        n_x = len(self.closed_loop.start)
        self._copy("x", 0, "measured", 0, n_x)
        self.steps.append(["rows", "x", "late", n_x])
        for part, array in (("drive", "drive"), ("errors", "errors"), ("believable", "believed")):
            self._put(part, array)

    # what comes out

    def counts(self, numbers: Array) -> dict[str, int]:
        """The lengths and steps of a run with these numbers."""
        duration, period, delay = (int(each) for each in numbers[self.offsets["times"] :][:3].tolist())
        step = self.closed_loop.launch.step_ns
        steps, per_period = duration // step, (period // step) or 1
        found = {"steps": steps, "per_period": per_period, "depth": delay + 1, "rows": rows_of(steps, self.every)}
        return found | {"answers": steps // per_period + 2, "instants": steps // per_period + delay + 1}

    def of(self, numbers: Array) -> dict[str, Any]:
        """The arguments of the loop that follow from these numbers."""
        counts, step = self.counts(numbers), self.closed_loop.launch.step_ns
        arrays = {name: self._sized(name, array, counts) for name, array in self.arrays.items()} | {"numbers": numbers}
        if "times" in arrays:
            arrays["times"] = np.zeros(counts["instants"])

        def value(argument: Step) -> Any:
            kind, *rest = argument
            match kind:
                case "a":
                    array = arrays[rest[0]]
                    return array.reshape(-1)[rest[1] : rest[1] + rest[2]] if len(rest) > 1 else array
                case "n":
                    return float(numbers[rest[0]])
                case "period":
                    return int(numbers[self.offsets["times"] + 1]) / 1e9
            return rest[0] if rest else counts[kind]

        for kind, *rest in self.steps:
            match kind:
                case "copy" | "minus":
                    source, first, array, at, n = rest
                    taken = arrays[source].reshape(-1)[first : first + n]
                    arrays[array].reshape(-1)[at : at + n] = -taken if kind == "minus" else taken
                case "rows":
                    arrays[rest[1]].reshape(-1, rest[2])[:] = arrays[rest[0]].reshape(-1)[: rest[2]]
                case "times":
                    arrays["times"][:] = np.arange(counts["instants"]) * counts["per_period"] * step / 1e9
                case "call":
                    kernel, function = self.functions[rest[0]]
                    getattr(kernel, function)(*map(value, rest[1:]))
        return {name: value(each) for name, each in zip(self.arguments, self.call, strict=True)}

    def _sized(self, name: str, array: Array, counts: Mapping[str, int]) -> Array:
        if name not in ANY_LENGTH or (self.is_perfect and name in ("sent", "due")):
            return array.copy()
        return np.full((counts[ANY_LENGTH[name]], *array.shape[1:]), -1 if name == "due" else 0, array.dtype)

    def flat(self, numbers: Mapping[str, Array] | None = None) -> Array:
        """All numbers, one behind the other."""
        return np.concatenate([np.zeros(0), *(numbers or self.numbers).values()])

    def differing(self, other: "Prepared | None" = None, numbers: Array | None = None) -> list[str]:
        """The arguments of another run's loop, by name, that do not follow from its numbers; bit by bit."""
        other = other or self
        found = self.of(other.flat() if numbers is None else numbers)
        wanted = other.arguments
        return [
            name for name, value in wanted.items() if name not in ("rows", "answers") and not _same(value, found[name])
        ]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return bool(a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes())
    return np.float64(a).tobytes() == np.float64(b).tobytes()


def arguments_of(closed_loop: ClosedLoop, every: int) -> tuple[Any, dict[str, Any], Imperfections | None]:
    """The compiled loop of a closed loop, what it is given, and what is not perfect; all of its noise is drawn."""
    launch, control = closed_loop.launch, closed_loop.control
    width = sum(map(len, (closed_loop.start, np.zeros(closed_loop.machine.n_inputs)))) + 1
    rows = np.zeros((rows_of(launch.steps, every), width))
    if control is None:
        return *coast_call(closed_loop, every, rows), None
    answers = np.zeros((launch.steps // (launch.steps_per_period or 1) + 2, control.law.record_layout.size))
    kernel, arguments, more = loop_call(closed_loop, every, goal_tables(closed_loop), rows, answers)
    arguments["K"] = arguments["K"].copy()
    if more is not None:
        _drawn(closed_loop, arguments)
    return kernel, arguments, more


def _drawn(closed_loop: ClosedLoop, arguments: dict[str, Any]) -> None:
    """Draw the errors of all readings."""
    errors = ReadingErrors(closed_loop, every=closed_loop.safety.plausible(own=False) is not None)
    noise, lost = list[Array](), list[Any]()
    if any(closed_loop.sensor.noise) or closed_loop.sensor.drop > 0:
        while errors._next <= closed_loop.launch.steps:
            errors.draw()
            noise.append(errors.noise.copy())
            lost.append(errors.lost.copy())
    else:
        noise, lost = [errors.noise[:64]], [errors.lost[:64]]
    arguments["noise"], arguments["lost"] = np.concatenate(noise), np.concatenate(lost)
    arguments["n_readings"] = len(arguments["noise"])
    arguments["state"][0] = 0


def found_of(closed_loop: ClosedLoop) -> tuple[str, ...]:
    """The parameters that the program finds at the start, as no setting states them."""
    control = closed_loop.known_control
    settings, law = control.stated.settings, control.law.description
    return tuple(each for each in law.found if each not in settings and each.rpartition("_")[0] not in settings)


def numbers_of(closed_loop: ClosedLoop, imperfect: bool) -> dict[str, Array]:
    """The numbers of a run by part: what a launch file states, and what follows from nothing else."""
    launch, machine, control, safety = closed_loop.launch, closed_loop.machine, closed_loop.control, closed_loop.safety
    delay = control.stated.delay if control else 0
    found: dict[str, Any] = {
        "times": [launch.duration_ns, launch.period_ns or 0, delay],
        "machine": [*machine.parameters.values()], "start": closed_loop.start,
    }  # fmt: skip
    if control is not None:
        law, given = control.law, dict[str, Any](control.stated.gains)
        own = dict.fromkeys(found_of(closed_loop), 0.0)
        found |= {"believed": [*law.machine.parameters.values()], "settings": [*(law.parameters | own).values()]}
        rates = control.gains.rates
        if any(each in given for each in ("K0", "K1", "inertia", "dissipation", "stiffness")):
            found["K"] = law.K.ravel()
        else:
            names = [each.name for each in law.description.residuals]
            found["integral"] = [float(given.get(f"integral_{n}", given.get("integral", 0.0))) for n in names]
        found |= {"rates": rates, "weights": law.weights}
        if law.description.keeping:
            found["kept"] = law.kept.T.ravel()
            if not law.description.limited or any(each.at_least is not None for each in machine.description.inputs):
                found["ends"] = law.limits.ravel()
        if law.description.extension and wants_program_start(launch.plant.initial):
            found["memory"] = law.memory()
        for name, signals in (("targets", control.targets), ("signals", control.signals)):
            assert isinstance(signals, Signals)
            one = [] if signals.kernel is None or signals.speed != 1.0 else [1.0]  # the speed, which kernels take last
            found[name] = [*signals.pieces, *one]
        limits = safety.limits
        found |= {"limit": limits.value, "rate_limit": limits.rate, "power": [limits.power]}
        if imperfect:
            sensor, drives, believed = closed_loop.sensor, closed_loop.actuator, safety.stated_readings
            bias = [-0.0] * len(sensor.bias) if sensor.ideal else sensor.bias  # leaves a zero its sign
            found |= {"drive": drives.numbers(launch.step_ns / 1e9).ravel(), "errors": [*bias, *sensor.quantum]}
            found |= {"believable": [*believed.value, *believed.rate]}
    return {name: np.array(each, dtype=float) for name, each in found.items()}
