"""A launch file as a Python object: look into the machine and its law, try states, simulate."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from servonode.analysis.simulate import simulate_continuous, simulate_fused, simulate_nodes
from servonode.closed_loop.closed_loop import ClosedLoop, varied
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.run import Run, default_every
from servonode.controllers import derive_program
from servonode.mechanics.description import Quantity
from servonode.mechanics.machine import Machine, Matrices

if TYPE_CHECKING:
    from servonode.analysis.check import Report

Array = npt.NDArray[np.float64]
Values = Mapping[str, float]


class Loop:
    """A machine with its law, as a launch file states them. States and inputs go by name, in SI units and radians.

    A state that is not given has its initial value, an input that is not given is zero.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self.closed_loop = closed_loop

    def __repr__(self) -> str:
        control = self.closed_loop.control
        program = control.law.description.name if control else "no program"
        return f"<Loop {self.closed_loop.launch.name}: {self.machine.description.description}, {program}>"

    @property
    def machine(self) -> Machine:
        """The plant's compiled machine."""
        return self.closed_loop.machine

    @property
    def quantities(self) -> dict[str, Quantity]:
        """Description, unit and default of every state, input, parameter, output and residual, by name."""
        description = self.machine.description
        groups = (description.parameters, description.state, description.inputs, description.outputs)
        known = {f"residual_{each.name}": each for each in self.closed_loop.residuals}
        return known | {each.name: each for group in groups for each in group}

    @property
    def start(self) -> dict[str, float]:
        """The state at t = 0, by name."""
        return self._by_name(self.closed_loop.start)

    def derivatives(self, t: float, state: Values = {}, inputs: Values = {}) -> dict[str, float]:  # noqa: B006  (read only)
        """The rate of each state [its unit per s], by the state's name."""
        return self._by_name(self.machine.derivatives(t, self._state(state), self._inputs(inputs)))

    def matrices(self, t: float, state: Values = {}) -> Matrices:  # noqa: B006
        """M, h, B, A and gamma of the full form M q'' + h = B tau + A^T Lambda, A q'' = gamma."""
        return self.machine.matrices(t, self._state(state))

    def outputs(self, t: float, state: Values = {}, inputs: Values = {}) -> dict[str, float]:  # noqa: B006
        """Contact forces and other monitored values, by name."""
        return self.machine.outputs(t, self._state(state), self._inputs(inputs))

    def law(self, t: float, state: Values = {}) -> dict[str, float]:  # noqa: B006
        """The inputs that the law answers to a state, before any limit, by name.

        Raises:
            ValueError: there is no program, or its law fails at this state.
        """
        control = self._controlled()
        answer = control.law.evaluate(t, *self._seen(t, state))
        if answer.status:
            raise ValueError(control.law.explain(answer))
        return dict(zip(self.machine.description.input_names, map(float, answer.inputs), strict=True))

    def residuals(self, t: float, state: Values = {}) -> dict[str, float]:  # noqa: B006
        """The residuals at a state, by name; raises as `law`."""
        control = self._controlled()
        answer = control.law.evaluate(t, *self._seen(t, state))
        names = [each.name for each in control.law.description.residuals]
        return dict(zip(names, map(float, answer.residuals), strict=True))

    def terms(self, t: float, state: Values = {}) -> dict[str, Array]:  # noqa: B006
        """f, f_dot, J, delta, W, b and F of the servo law at a state; raises as `law`."""
        control = self._controlled()
        if control.law.description.explicit:
            raise ValueError(f"program {control.law.description.name} states its inputs itself; it has no W")
        return control.law.terms(t, *self._seen(t, state))

    def equations(self) -> Any:
        """The symbolic equations of the plant (sympy), derived anew: an `Equations` with M, h, B, A, G, ..."""
        from servonode.mechanics.derive import derive

        return derive(self.closed_loop.source.build())

    def servo(self) -> Any:
        """The symbolic servo-constraints on the believed model, derived anew: a `Servo` with f, J, delta, `equations`.

        Raises:
            ValueError: there is no program.
        """
        control = self._controlled()
        return derive_program(control.source, control.believed.key, control.believed.build, control.options)

    def simulate(
        self,
        control: Literal["sampled", "continuous"] = "sampled",
        loop: Literal["fused", "nodes"] = "fused",
        every: int | None = None,
        rtol: float = 1e-12,
        atol: float = 1e-12,
        *,
        initial: Mapping[str, Any] = {},
        parameters: Mapping[str, float] = {},
        targets: Mapping[str, str | float] = {},
    ) -> Run:
        """Simulate the whole run; see `servonode.simulate`.

        Args:
            initial, parameters, targets: other entries of [plant.initial], [plant.parameters] and [target], by name,
                for this run alone. Nothing is derived again, so a sweep costs little more than its simulations; only
                a new function of time is compiled. Whether the inputs can realise the goal is not surveyed again.

        Raises:
            LaunchError: an entry does not fit, or a parameter is not a number; ProgramRefused: the law fails at this
                initial state; otherwise as `servonode.simulate`.
        """
        for word, choices in ((control, ("sampled", "continuous")), (loop, ("fused", "nodes"))):
            if word not in choices:
                raise ValueError(f"{word!r} is unknown; choose {' or '.join(choices)}")
        if every is not None and every < 1:
            raise ValueError(f"every = {every} is not a number of plant steps; give 1 or more")
        changed = initial or parameters or targets
        closed_loop = varied(self.closed_loop, initial, parameters, targets) if changed else self.closed_loop
        rows = every or default_every(closed_loop)
        if control == "continuous":
            return simulate_continuous(closed_loop, rows, rtol, atol)
        return simulate_nodes(closed_loop, rows) if loop == "nodes" else simulate_fused(closed_loop, rows)

    def show(self, form: Literal["text", "latex", "c"] = "text") -> str:
        """The derived equations: as text, as a LaTeX document, or as C99 functions of plant, limits and controller."""
        if form not in ("text", "latex", "c"):
            raise ValueError(f"{form!r} is unknown; choose text, latex or c")
        closed_loop, control = self.closed_loop, self.closed_loop.control
        if form == "c":
            from servonode.export.c import c_file
            from servonode.export.c_export import Exported

            return c_file(Exported.of(closed_loop))
        from servonode.export import show_latex, show_text

        servo = self.servo() if control else None
        equations = servo.equations if servo else self.equations()
        gains = control.gains if control else None
        return (show_latex if form == "latex" else show_text)(equations, servo, gains)

    def check(self) -> "Report":
        """The report before power-on."""
        from servonode.analysis.check import report

        return report(self.closed_loop)

    def _controlled(self) -> Control:
        if self.closed_loop.control is None:
            raise ValueError("the launch file has no [controller]; state one")
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
        own = law.start_states.copy()
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
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is no {word}; choose {', '.join(names)}")
        return [(names.index(name), float(value)) for name, value in given.items()]
