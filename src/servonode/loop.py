"""A launch file as a Python object: look into the machine and its law, try states, simulate."""

import signal
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from servonode import extensions
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.controller_section import Control
from servonode.controllers import derive_program
from servonode.definitions.progress import Progress, progress_of
from servonode.errors import ServonodeError, StatementError, check_choice, check_mapping, did_you_mean, number
from servonode.keywords import KEYWORDS, SINGLE, VALUES, check_goal_speed, check_keywords, dotted, given
from servonode.mechanics.description import Quantity
from servonode.mechanics.machine import Machine, Matrices
from servonode.record.run import Named, Run, default_every
from servonode.simulation.simulate import simulate_fused, simulate_nodes
from servonode.simulation.simulate_continuous import simulate_continuous
from servonode.tables import Row, Tabular

if TYPE_CHECKING:
    import xarray

    from servonode.analysis.linearisation import Linearisation
    from servonode.analysis.orbits import PeriodicOrbit
    from servonode.analysis.report import Report

Values = Mapping[str, float]
RTOL, ATOL = (1e-14, 0.1), (1e-300, 0.1)  # the tolerances that the adaptive integrator can work with
STATED = tuple(key for word, key in KEYWORDS.items() if word not in SINGLE)  # keys that hold more than numbers
STATED += (KEYWORDS["limits"],)
needed = partial(extensions.needed, "public")  # what a wing answers, of a class of its own: no type of the core


class RunFailed(ServonodeError, RuntimeError):
    """A run on processes that left no record; the text says why."""

    exit_code = 1


class Loop(Tabular):
    """A machine with its law, as a launch file states them. States and inputs go by name, in SI units and radians.

    A state that is not given has its initial value, an input that is not given is zero. `servonode.load` makes one. It
    has many methods, one for each question about machine, law and motion, because it is where users look for them.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self.closed_loop = closed_loop

    def __reduce__(self) -> Any:
        """Pickle the closed loop; what is kept of its variations is computed again."""
        return Loop, (self.closed_loop,)

    def table(self) -> tuple[str, list[Row]]:
        """The machine with its initial state, the program with its residuals, times."""
        return f"Loop {self.closed_loop.launch.name}", self.closed_loop.table()[1]

    # look: the machine and its law

    @property
    def machine(self) -> Machine:
        """The plant's compiled machine: `machine.description` has its names and units, `machine.parameters` the values.

        >>> import servonode
        >>> loop = servonode.load("trailer_pursuit")
        >>> loop.machine.parameters["m1"]
        4.0
        >>> loop.machine.description.input_names
        ('U1', 'U2')
        """
        return self.closed_loop.machine

    @property
    def quantities(self) -> dict[str, Quantity]:
        """Description, unit and default of every state, input, parameter, output and residual, by name.

        >>> import servonode
        >>> phi = servonode.load("trailer_pursuit").quantities["phi"]
        >>> phi.description, phi.unit
        ('hitch angle, trailer relative to robot, unwrapped', 'rad')
        """
        description = self.machine.description
        groups = (description.parameters, description.state, description.inputs, description.outputs)
        known = {f"residual_{each.name}": each for each in self.closed_loop.residuals}
        return Named(known | {each.name: each for group in groups for each in group})

    @property
    def start(self) -> dict[str, float]:
        """The state at t = 0, by name.

        >>> import servonode
        >>> servonode.load("trailer_pursuit", plant__initial__phi=0.3).start["phi"]
        0.3
        """
        return self._by_name(self.closed_loop.start)

    def derivatives(self, t: float, state: Values = {}, inputs: Values = {}) -> dict[str, float]:  # noqa: B006  (read only)
        """The rate of each state [its unit per s], by the state's name.

        Args:
            t: time [s].
            state, inputs: values by name; states that are left out have their initial value, inputs are then zero.

        Raises:
            StatementError: a name is unknown, or a value is not a number.

        >>> import servonode
        >>> rates = servonode.load("trailer_pursuit").derivatives(0.0, {"V": 0.5, "psi": 0.0})
        >>> rates["X"], rates["Y"]
        (0.5, 0.0)
        """
        return self._by_name(self.machine.derivatives(time_of(t), self._state(state), self._inputs(inputs)))

    def matrices(self, t: float, state: Values = {}) -> Matrices:  # noqa: B006
        """M (n_q, n_q), h (n_q,), B (n_q, n_tau), A (n_c, n_q), gamma (n_c,) of the machine's full form at a state.

        The full form is M q'' + h = B tau + A^T Lambda, A q'' = gamma, with n_q coordinates, n_tau inputs and n_c
        passive constraints.

        Raises:
            StatementError: the machine is stated in velocities and has no full form, or as `derivatives`.

        >>> import servonode
        >>> full = servonode.load("trailer_pursuit").matrices(0.0)
        >>> full.M.shape, full.A.shape
        ((6, 6), (4, 6))
        """
        try:
            return self.machine.matrices(time_of(t), self._state(state))
        except ServonodeError:
            raise
        except ValueError as error:
            raise StatementError(str(error)) from error

    def outputs(self, t: float, state: Values = {}, inputs: Values = {}) -> dict[str, float]:  # noqa: B006
        """Contact forces [N] and other monitored values, by name; arguments and errors as for `derivatives`.

        >>> import servonode
        >>> list(servonode.load("trailer_pursuit").outputs(0.0, {"V": 0.5}))[:3]
        ['Lambda1', 'Lambda2', 'Lambda3']
        """
        return self.machine.outputs(time_of(t), self._state(state), self._inputs(inputs))

    def law(self, t: float, state: Values = {}) -> dict[str, float]:  # noqa: B006
        """The inputs that the law answers to a state, before any limit, by name.

        Raises:
            StatementError (a ValueError): there is no program, its law fails at this state, or as `derivatives`.

        >>> import servonode
        >>> loop = servonode.load("trailer_pursuit")
        >>> torques = loop.law(0.0, {"phi": 0.2})
        >>> sorted(torques)
        ['U1', 'U2']
        """
        control = self._controlled()
        answer = control.law.evaluate(t, *self._seen(time_of(t), state))
        if answer.status:
            raise StatementError(control.law.explain(answer))
        return dict(zip(self.machine.description.input_names, map(float, answer.inputs), strict=True))

    def residuals(self, t: float, state: Values = {}) -> dict[str, float]:  # noqa: B006
        """The residuals at a state, by name; raises as `law`.

        >>> import servonode
        >>> loop = servonode.load("trailer_pursuit")
        >>> sorted(loop.residuals(0.0))
        ['heading', 'speed']
        """
        control = self._controlled()
        answer = control.law.evaluate(t, *self._seen(time_of(t), state))
        names = [each.name for each in control.law.description.residuals]
        return dict(zip(names, map(float, answer.residuals), strict=True))

    def terms(self, t: float, state: Values = {}) -> dict[str, Array]:  # noqa: B006
        """The arrays of the servo law at a state, by name: f, f_dot, J, delta, W, b and F.

        W tau = b gives the inputs: W is (n_s, n_tau) for n_s residuals and n_tau inputs; f, f_dot, delta and b have
        n_s entries.

        Raises:
            StatementError: the program states its inputs itself; otherwise as `law`.

        >>> import servonode
        >>> servonode.load("trailer_pursuit").terms(0.0)["W"].shape
        (2, 2)
        """
        control = self._controlled()
        if control.law.description.explicit:
            name = control.law.description.name
            raise StatementError(f"program {name} states its inputs itself; it has no W, look at law(t, state)")
        return control.law.terms(t, *self._seen(time_of(t), state))

    def equations(self) -> Any:
        """The symbolic equations of the plant (sympy), derived anew: an `Equations` with M, h, B, A, G, ...

        This takes from a fraction of a second to some seconds.

        >>> import servonode
        >>> servonode.load("trailer_pursuit").equations().M.shape
        (6, 6)
        """
        from servonode.mechanics.derive import derive

        return derive(self.closed_loop.source.build())

    def servo(self) -> Any:
        """The symbolic servo-constraints on the believed model, derived anew: a `Servo` with f, J, delta, `equations`.

        Raises:
            StatementError: there is no program.

        >>> import servonode
        >>> servonode.load("trailer_pursuit").servo().J.shape
        (2, 2)
        """
        from servonode.closed_loop.keeping import keeping_of

        control, believed = self._controlled(), self._controlled().believed
        keeping = keeping_of(control.stated, control.law.machine)
        damped = control.stated.damping > 0
        return derive_program(control.source, believed.key, believed.build, control.options, damped, keeping)

    def show(self, form: str = "text") -> str:
        """The derived equations: as text, as a LaTeX document, or as C99 functions of plant, limits and controller.

        form: "text", "latex", "c", or the name of an export that a wing or an installed package adds; "urdf": the
        machine's links and joints as a robot's file.

        Raises:
            StatementError: there is no such form, or the machine cannot be said in it.

        >>> import servonode
        >>> text = servonode.load("trailer_pursuit").show()
        >>> text.splitlines()[0]
        'Machine diff_drive_trailer: differential-drive robot with a passive trailer'
        """
        from servonode.export import exports

        closed_loop, control = self.closed_loop, self.closed_loop.control
        if form not in exports.FORMS:
            if (text := exports.printing(form)) is not None:
                return text(closed_loop)
            check_choice("form", form, (*exports.FORMS, *exports.printed()))
        if form == "c":
            from servonode.export.c import c_file
            from servonode.export.c_export import Exported

            return c_file(Exported.of(closed_loop))
        from servonode.controllers.own.source import OwnController
        from servonode.export.document import show_latex, show_text

        own = control is not None and isinstance(control.source, OwnController)  # in Python: it has no equations
        servo = self.servo() if control and not own else None
        equations = servo.equations if servo else self.equations()
        gains = control.gains if control and servo else None
        weights = control.stated.weights if control and servo else {}
        shown: str = (show_latex if form == "latex" else show_text)(equations, servo, gains, weights)
        name = control.source.name if control else ""
        said = f"\n\nThe law is the controller {name} in Python, of which there are no equations."
        return shown + (said if own and form == "text" else "")

    # judge: whether the motors can realise the goal, and how well

    def check(self) -> "Report":
        """What `servonode check` prints: verdict, residuals, margins, warnings; see `servonode.check`.

        >>> import servonode
        >>> servonode.load("trailer_pursuit", run__duration=2.0).check().verdict
        'yes'
        """
        from servonode.analysis.check import report

        return report(self.closed_loop)

    def linearize(self, t: float = 0.0, state: Values = {}, *, equilibrium: bool = False) -> "Linearisation":  # noqa: B006
        """Plant, closed continuous loop and one period of the sampled loop, linear in deviations from a state.

        Args:
            t: time [s] of the goal; the sampled loop is that of the control instant next to it.
            state: values by name, of the program's own states too; those left out have their initial value.
            equilibrium: about the equilibrium next to that state, with the goal as at time t. Without it about the
                state itself: where that moves, the systems are those of one instant of a time-varying one.

        Raises:
            StatementError: there is no equilibrium nearby, or as `law`; SimulationError: the machine has jumps.

        >>> import servonode
        >>> found = servonode.load("trailer_rates").linearize()
        >>> found.about, found.plant.B.shape, found.without_passive("sampled").states
        ('motion', (8, 2), ('phi', 'V', 'Omega'))
        """
        from servonode.analysis.linearisation import linearise

        return linearise(self.closed_loop, time_of(t), *self._with_own(state), equilibrium)

    def poles(self, run: Run | None = None, *, times: int = 200) -> Any:
        """The poles of the continuous closed loop along a run (None: a simulated one), at about so many times.

        Raises:
            StatementError: `times` is not a whole number of 1 or more; SimulationError: the machine has jumps.

        >>> import servonode
        >>> servonode.load("trailer_pursuit", run__duration=1.0).poles(times=5).rates.shape
        (5, 6)
        """
        if not isinstance(times, int) or isinstance(times, bool) or times < 1:
            raise StatementError(f"times = {times!r} is not a number of times; give a whole number of 1 or more")
        return needed("poles_along")(self.simulate() if run is None else run, times)

    def frequency_response(
        self,
        omega: Any = None,
        t: float = 0.0,
        state: Values = {},  # noqa: B006
        *,
        cut: Literal["inputs", "sensors"] = "inputs",
        equilibrium: bool = False,
    ) -> Any:
        """Loop transfer L, sensitivity S and complementary sensitivity T of the sampled loop.

        Args:
            omega: angular frequencies [rad/s]; None: a grid up to pi / period, finer around poles.
            t, state, equilibrium: where it is linearised, as for `linearize`.
            cut: where the loop is cut: at the law's commands, or where the law is shown the machine's state.

        Raises:
            StatementError: a frequency is not above 0, there is no controller, or as `linearize`.

        >>> import servonode
        >>> response = servonode.load("trailer_rates").frequency_response([1.0, 10.0])
        >>> response.names, response.L.shape
        (('U1', 'U2'), (2, 2, 2))
        """
        self._controlled()
        found = needed("frequency_response")
        return found(self.closed_loop, omega, time_of(t), *self._with_own(state), cut, equilibrium)

    def margins(
        self,
        t: float = 0.0,
        state: Values = {},  # noqa: B006
        *,
        cut: Literal["inputs", "sensors"] = "inputs",
        equilibrium: bool = False,
    ) -> Any:
        """Gain, phase, delay, modulus and disk margins of the sampled loop, one signal at a time and all together.

        Args and errors as for `frequency_response`. They mean stability about an equilibrium; about a motion they are
        those of one instant, which a remark says.

        >>> import servonode
        >>> margins = servonode.load("trailer_rates").margins()
        >>> margins["U1"].gain[1] > 2
        True
        """
        self._controlled()
        return needed("margins")(self.closed_loop, time_of(t), *self._with_own(state), cut, equilibrium)

    def orbit(self, state: Values = {}, *, period: float | None = None) -> "PeriodicOrbit":  # noqa: B006
        """The periodic motion of the continuous closed loop near that from a state on, with Floquet's multipliers.

        Args:
            state: values by name at t = 0; those left out have their initial value.
            period: a first guess [s] where nothing depends on time, by default the time after which the second half
                of the run comes back to its beginning; else the period itself, by default that of goal and machine.

        A machine's jumps are located on the way. Angles may have made whole turns, and passive states (places, angles
        of wheels) may have moved on. Delays, drives, sensors and the sampling are left out.

        Raises:
            NoOrbit (a StatementError): none is found, with the reason.

        >>> import servonode
        >>> found = servonode.load("hoop_bowl").orbit()
        >>> round(found.period, 6), found.stable
        (4.196725, True)
        """
        from servonode.analysis.orbits import find_orbit

        if period is not None and not 0 < number("period", period) < np.inf:
            raise StatementError(f"period = {period!r} is not a time; give one above 0, in s")
        return find_orbit(self.closed_loop, np.concatenate(self._with_own(state)), period)

    # simulate and run

    def simulate(
        self,
        control: Literal["sampled", "continuous"] = "sampled",
        loop: Literal["fused", "nodes"] = "fused",
        every: int | None = None,
        rtol: float = 1e-12,
        atol: float = 1e-12,
        *,
        initial: Mapping[str, Any] | None = None,
        parameters: Mapping[str, float] | None = None,
        targets: Mapping[str, Any] | None = None,
        gains: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        limits: float | Mapping[str, float] | None = None,
        duration: float | None = None,
        period: float | None = None,
        values: Mapping[str, float] | None = None,
        **overrides: Any,
    ) -> Run:
        """Simulate the whole run in this process; see `servonode.simulate` for `control` to `atol`.

        Args:
            initial to values, overrides: as those of `servonode.load`, for this run alone: starts, parameters and
                functions of time as targets, and any number of the launch file. Nothing is derived again, so a sweep
                costs little more than its simulations; only a new function of time is compiled. Whether the inputs can
                realise the goal is not surveyed again, and the machine's safe action is not tried again.

        Raises:
            LaunchError: an entry does not fit, a parameter is not a number, or the goal whose speed is given stands
                still; ProgramRefused: the law fails at this
                initial state; otherwise as `servonode.simulate`.

        >>> import servonode
        >>> loop = servonode.load("trailer_pursuit", run__duration=0.5)
        >>> runs = [loop.simulate(initial={"phi": phi}) for phi in (0.0, 0.2)]
        >>> [float(run.state["phi"][0]) for run in runs]
        [0.0, 0.2]
        >>> float(loop.simulate(duration=0.2, controller__gains__lambda=3.0).t[-1])
        0.2
        >>> held = loop.simulate(values={"goal.speed": 0.0, "controller.delay": 1})
        >>> float(held.targets["x"][-1])
        2.0
        """
        check_choice("control", control, ("sampled", "continuous"))
        check_choice("loop", loop, ("fused", "nodes"))
        check_tolerances(rtol, atol)
        check_every(every)
        keywords = overrides | given(locals())
        check_keywords(overrides, Loop.simulate)
        changed, spelled = dotted(keywords)
        for key, value in changed.items():
            if not (isinstance(value, bool) or key.startswith(STATED)):
                changed[key] = number(f"the value of {key if VALUES in spelled[key] else spelled[key]}", value)
        check_goal_speed(self.closed_loop, keywords)
        closed_loop = self.closed_loop.changed(changed) if changed else self.closed_loop
        closed_loop.check_known_goals()
        rows = every or default_every(closed_loop)
        if control == "continuous":
            return simulate_continuous(closed_loop, rows, rtol, atol)
        return simulate_nodes(closed_loop, rows) if loop == "nodes" else simulate_fused(closed_loop, rows)

    def run(self, *, name: str | None = None, every: int | None = None, arm: bool | None = None) -> Run:
        """Run it on processes, in this process's main thread; see `servonode.run`.

        >>> import servonode
        >>> loop = servonode.load("trailer_pursuit", run__duration=0.5, run__mode="lockstep")
        >>> float(loop.run(name="example_of_loop").t[-1])
        0.5
        """
        from servonode.nodes.launcher import Launcher

        check_every(every)
        if threading.current_thread() is not threading.main_thread():
            raise StatementError("run() handles signals, so it needs the main thread; call it there, or use simulate()")
        if arm not in (None, True, False):
            raise StatementError(f"arm={arm!r} is neither True nor False nor None; give one of them")
        loop = self.closed_loop
        name, rows = loop.launch.name if name is None else name, every or default_every(loop)
        outcome = Launcher(loop, name, rows, lambda _: None, arm=arm).launch()
        if outcome.signal is not None:
            signal.raise_signal(outcome.signal)  # its handlers are those of before again: Ctrl-C is a KeyboardInterrupt
        if outcome.run is None:
            reasons = "; ".join(each["text"] for each in outcome.faults) or outcome.stopped or "nothing was recorded"
            raise RunFailed(f"{name}: gave no record: {reasons}")
        return outcome.run

    # explore: many runs with other numbers

    def sweep(
        self,
        vary: Mapping[str, Any] | None = None,
        *,
        method: Literal["grid", "random", "latin_hypercube", "sobol"] | None = None,
        runs: int | None = None,
        seed: int | None = None,
        chunk: int | None = None,
        measures: Mapping[str, str] | None = None,
        histories: bool = False,
        threads: int | None = None,
        workers: int | None = None,
        scheduler: str | None = None,
        send_code: bool = False,
        output: str | Path | None = None,
        resume: bool = False,
        progress: Progress = None,
    ) -> "xarray.Dataset":
        """Simulate many runs with other numbers; see `servonode.sweep`.

        >>> import servonode
        >>> loop = servonode.load("trailer_pursuit", run__duration=0.5)
        >>> loop.sweep({"plant.parameters.m1": [4.0, 6.0]}, method="random", runs=3).sizes["run"]
        3
        """
        with progress_of("a sweep", progress=progress):
            return needed("sweep")(
                self.closed_loop, vary, method=method, runs=runs, seed=seed, chunk=chunk, measures=measures,
                histories=histories, threads=threads, workers=workers, scheduler=scheduler, send_code=send_code,
                output=output, resume=resume,
            )  # fmt: skip

    def region(
        self,
        over: Mapping[str, tuple[float, float]],
        *,
        require: Sequence[str] = (),
        points: int | None = None,
        runs: int | None = None,
        threads: int | None = None,
        progress: Progress = None,
    ) -> Any:
        """Where in a box of starts, or of other numbers, runs reach their goal, and why not elsewhere: a `Region`.

        Args:
            over: keys of the launch file, dotted, with the ends between which they vary. One or two are tried on a grid
                that is refined at the boundaries, more of them at random.
            require: what a run must keep besides, such as "max(abs(phi)) < 1.5", or "NAME: max(abs(phi)) < 1.5" with a
                name for its breach; expressions of columns as in [sweep.measures]. "kept": all of [controller.keep],
                whether or not the goal is reached.
            points: nodes of the grid along each range before it is refined; default: 33 for one range, 17 for two.
            runs: so many runs at random instead of a grid; default for three ranges and more: 1000.
            threads: default: one for each processor.
            progress: a function f(done, of, text) that is called as runs are finished (the text may be left out), True
                for a bar wherever it is, False for none. None: a bar in a terminal or a notebook, after a second.

        Raises:
            LaunchError: a key cannot vary; StatementError: a range is empty, or there is no goal and nothing required.

        >>> import servonode
        >>> loop = servonode.load("trailer_look_ahead", run__duration=10.0)
        >>> found = loop.region({"plant.initial.phi": (0.0, 2.0)}, require=["max(abs(phi)) < 1"], points=5)
        >>> found.kinds
        ('reaches the goal', 'max(abs(phi)) ≥ 1')
        >>> round(found.shares["reaches the goal"], 2)
        0.5
        """
        with progress_of("a region", progress=progress):
            return needed("region")(self.closed_loop, over, require, points, runs, threads)

    def robustness(
        self, *, require: Sequence[str] = (), seeds: int = 40, threads: int | None = None, progress: Progress = None
    ) -> Any:
        """How wrong parameters may be, and how much noise, delay and period a run bears: a `Robustness`.

        The law keeps its parameters and rates while those of the plant, the noise, a delay that it does not know and
        the control period grow, one at a time.

        Args:
            require, threads, progress: see `region`.
            seeds: runs at each size where noise acts, of which 90 % must reach the goal.

        Raises:
            StatementError: the launch file's own run fails, or there is no goal and nothing required.

        >>> import servonode
        >>> loop = servonode.load("trailer_pursuit", run__duration=5.0)
        >>> found = loop.robustness(seeds=2)
        >>> [each.name for each in found.margins[-3:]]
        ['noise', 'delay', 'period']
        """
        with progress_of("margins", progress=progress):
            return needed("robustness")(self.closed_loop, require, seeds, threads)

    def tune(
        self,
        over: Mapping[str, tuple[float, float]],
        *,
        cost: str | None = None,
        require: Sequence[str] = (),
        runs: int = 600,
        seeds: int = 5,
        threads: int | None = None,
        progress: Progress = None,
    ) -> Any:
        """The rates, period or other numbers for which a cost is least, and which pass `check`: a `Tuned`.

        Args:
            over: keys of the launch file, dotted, with the ends between which they may be.
            cost: an expression as in [sweep.measures]; default: the integrals of the residuals' magnitudes and a tenth
                of the inputs' effort, both over those of the launch file's own run.
            require, threads, progress: see `region`.
            runs: so many at most in the search. seeds: runs of each candidate where noise acts.

        Raises:
            StatementError: all candidates fail, `check` refuses the best ones, or runs are too few; otherwise as
                `region`.

        >>> import servonode
        >>> loop = servonode.load("trailer_look_ahead", run__duration=5.0)
        >>> found = loop.tune({"controller.gains.lambda": (0.5, 10.0)}, runs=100)
        >>> found.cost < found.own_cost, found.lines[0]
        (True, '[controller.gains]')
        """
        with progress_of("a search", progress=progress):
            return needed("tune")(self.closed_loop, over, cost, require, runs, seeds, threads)

    def fastest(self, *, progress: Progress = None) -> Any:
        """How fast the goal may be driven: the largest speed of its time at which no input reaches a limit.

        Args:
            progress: see `region`.

        Raises:
            StatementError: the goal does not change with time, or no input has a limit.

        >>> import servonode
        >>> found = servonode.load("trailer_pursuit", plant__actuator__limit=0.4).fastest()
        >>> round(found.speed, 1), found.broken.first
        (4.3, 'U2')
        """
        with progress_of("the goal", progress=progress):
            return needed("fastest")(self.closed_loop)

    def _with_own(self, given: Values) -> tuple[Array, Array]:
        """The machine's state and the program's own states, of which those that are not given have initial values."""
        if self.closed_loop.control is None:
            return self._state(given), np.zeros(0)
        x, y = self._seen(0.0, given)
        return x, y[self.closed_loop.control.law.goal_layout.states]

    def _controlled(self) -> Control:
        if self.closed_loop.control is None:
            raise StatementError(f"{self.closed_loop.launch.file} has no [controller]; state one with program = ...")
        return self.closed_loop.control

    def _by_name(self, x: Array) -> dict[str, float]:
        return dict(zip(self.machine.description.state_names, map(float, x), strict=False))

    def _state(self, given: Values) -> Array:
        x = self.closed_loop.start.copy()
        for i, value in self._entries(given, self.machine.description.state_names, "state"):
            x[i] = value
        return x

    def _seen(self, t: float, given: Values) -> tuple[Array, Array]:
        """What the law sees: the machine's state, and the goal with the program's own states, which go by name too."""
        law = self._controlled().law
        names = tuple(each.name for each in law.description.states)
        own = law.initial_states.copy()
        for i, value in self._entries({n: v for n, v in given.items() if n in names}, names, "state"):
            own[i] = value
        return self._state({n: v for n, v in given.items() if n not in names}), self.closed_loop.goal(t, own)

    def _inputs(self, given: Values) -> Array:
        u = np.zeros(self.machine.n_inputs)
        for i, value in self._entries(given, self.machine.description.input_names, "input"):
            u[i] = value
        return u

    @staticmethod
    def _entries(given: Values, names: tuple[str, ...], word: str) -> list[tuple[int, float]]:
        check_mapping(f"{word}s" if word == "input" else word, given, names[0] if names else "NAME")
        unknown = [name for name in given if name not in names]
        if unknown:
            near = did_you_mean(str(unknown[0]), names)
            article = "an" if word == "input" else "a"
            raise StatementError(f"{unknown[0]!r} is not {article} {word}; {near}choose {', '.join(names) or 'none'}")
        return [(names.index(name), number(f"the {word} {name}", value)) for name, value in given.items()]


def time_of(t: Any) -> float:
    """A time [s]. StatementError where it is not a finite number."""
    found = number("t", t)
    if not np.isfinite(found):
        raise StatementError(f"t = {found} is not a time; give one in s")
    return found


def check_tolerances(rtol: Any, atol: Any) -> None:
    """StatementError unless the adaptive integrator can work with these tolerances."""
    for name, value, (least, most) in (("rtol", rtol, RTOL), ("atol", atol, ATOL)):
        if not least <= number(name, value) <= most:
            raise StatementError(f"{name}={value!r} is not a tolerance; give a number from {least:g} to {most:g}")


def check_every(every: Any) -> None:
    """StatementError unless it is None or a number of plant steps for each recorded row."""
    if every is not None and (not isinstance(every, int | np.integer) or isinstance(every, bool) or every < 1):
        raise StatementError(f"every = {every!r} is not a number of plant steps; give a whole number of 1 or more")
